"""What is printed as YAML is read as the same: by YAML 1.1, by YAML 1.2, and by kubectl."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import SlotValues
from ssa_operator.rendering.yaml.to_yaml import INDENTED, LIKE_KUBECTL, YamlStyle, yaml_document
from ssa_operator.tools.printing import canonical_text
from tests.rendering.hostile_values import HOSTILE_VALUES

STYLES = [LIKE_KUBECTL, INDENTED, YamlStyle(blocks=False)]
ALPHABET = "0178aAeExob_.+-:TtyYnN~=< #\n"
"""Of numbers, booleans, dates and marks."""
LONGER = (
    "null", "Null", "NULL", "true", "True", "TRUE", "false", "yes", "YES", "no", "off", "OFF", "on", "yEs", ".inf",
    "+.Inf", "-.INF", ".nan", ".NaN", "0o17", "0O17", "0b101", "0x1F", "0x_f", "1_000", "1__0", "_1", "1_", "1e3",
    "1E3", "1e+16", "1e_3", "1.5e3", "08.5", "089", "190:20:30", "1:30", "-1:30", "1:30.5", "2026-01-31", "2026-1-31",
    "2026-01-31T10:00:00Z", "2026-01-31 10:00:00", "20_26-01-01", "9223372036854775808", "18446744073709551616", "<<",
    "---", "...", "--- a", "=", "10.0.0.7", "1.2.3", "::error::a", "a\n::error::b\n", "##[group]",
)  # fmt: skip
TEXTS = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.text(ALPHABET, max_size=8)
    | st.text("a \n\t:#-'\"|", max_size=12)
    | st.sampled_from([*HOSTILE_VALUES.values(), *LONGER])
)


def kubectl_reads(text: str) -> Any:
    """What kubectl reads of the documents of a text, without a cluster."""
    program = Path(sys.executable).parent / "kubectl"
    head = "apiVersion: example.com/v1\nkind: Any\nmetadata: {name: a}\n"
    command = [str(program), "patch", "--local", "--type=merge", "--patch={}", "--output=json", "--filename=-"]
    out = subprocess.run(command, input=head + text, capture_output=True, text=True, check=True).stdout
    return {key: value for key, value in json.loads(out).items() if key not in ("apiVersion", "kind", "metadata")}


def yaml_1_2_reads(text: str) -> Any:
    (node,) = parse(StaticText(text, "x.yaml"))
    return node.build(SlotValues())


def yaml_1_1_reads(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


def assert_read_as_the_same(data: Any) -> None:
    # One text, because kubectl is slow.
    text = "".join(yaml_document({f"style {at}": data}, style) for at, style in enumerate(STYLES))
    for reads in (yaml_1_1_reads, yaml_1_2_reads, kubectl_reads):
        # kubectl sorts the keys.
        wanted = dict.fromkeys((f"style {at}" for at in range(len(STYLES))), data)
        assert json.dumps(reads(text), sort_keys=True) == json.dumps(wanted, sort_keys=True), reads.__name__


def test_every_text_that_a_reader_could_take_for_another_value_stays_a_text() -> None:
    short = ["".join(each) for each in itertools.product(ALPHABET, repeat=2)]
    short += ["".join(each) for each in itertools.product("07e.x_+-:y~=< #", repeat=3)]
    texts = [*short, *map(chr, range(32, 127)), *LONGER, *HOSTILE_VALUES.values()]
    assert_read_as_the_same({"values": texts, "keys": dict.fromkeys(texts, 1)})


@settings(max_examples=40)
@given(st.lists(TEXTS, max_size=40), st.dictionaries(TEXTS, st.lists(TEXTS, max_size=3), max_size=10))
def test_random_texts_and_keys_are_read_as_the_same(values: list[str], keys: dict[str, list[str]]) -> None:
    assert_read_as_the_same({"values": values, "keys": keys, "end": values[-1:]})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("server {\n  listen 80;\n}\n", "v: |\n  server {\n    listen 80;\n  }\n"),
        (["é\n\n日本"], "v:\n- |-\n  é\n\n  日本\n"),
        ("a\n\n\n", "v: |+\n  a\n\n\n"),
        (" indented\nline", 'v: " indented\\nline"\n'),
        ("y", "v: 'y'\n"),
        ("it's: no", "v: 'it''s: no'\n"),
        ("--flag=a b, c", "v: --flag=a b, c\n"),
        (1e16, "v: 1.0e+16\n"),
    ],
)
def test_the_text_is_as_kubectl_and_helm_print_it(value: Any, text: str) -> None:
    assert yaml_document({"v": value}) == text
    assert canonical_text([{"v": value}]) == text

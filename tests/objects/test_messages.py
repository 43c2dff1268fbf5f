"""Messages have a limited length, and each that stands alone has a subject."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import ssa_operator
from ssa_operator.objects.messages import escaped_json, is_risky, shortened, visible, visible_line
from ssa_operator.rendering.yaml.to_yaml import yaml_document


@given(st.text(), st.integers(1, 50))
def test_a_text_is_shortened_in_its_middle(text: str, limit: int) -> None:
    found = shortened(text, limit)
    assert len(found) == min(len(text), limit)
    head, gap, tail = found.partition("…")
    assert text.startswith(head)
    assert found == text or (gap, text.endswith(found[len(head) + 1 :])) == ("…", True) or "…" in text
    assert len(tail) <= limit


HOSTILE = {
    "clear the screen": "\x1b[2J\x1b[H",
    "title and clipboard": "\x1b]0;t\x07\x1b]52;c;AAAA\x1b\\",
    "a C1 sequence": "\x9b31m\x90q\x9c",
    "over the line": "ok\rFAILED\b\b\x7f",
    "bidi": "a\u202eb\u2066c\u200f\u061c",
    "separators": "a\u2028b\u2029c\x85d",
    "invisible": "a\u200bb\u2060c\ufeffd\U000e0041",
    "a command": "x\n::error file=a::b\n  ::add-mask::c\n\u3000::stop-commands::d",
    "an old command": "x ##[error]y ###[group]z",
    "one of Azure": "##vso[task.setvariable variable=a]b",
    "markup": "[red]a[/red] [link=https://example.com]b[/link]",
}
"""Texts that do something to whoever reads them raw."""

TEXTS = st.text(
    st.one_of(
        st.sampled_from("\x1b:#[]\n\r\t \x85\u2028\u202e\U000e0041\"'\\a-"), st.characters(exclude_categories=["Cs"])
    )
)


def is_harmless(text: str) -> bool:
    """Whether a text neither controls a terminal nor has a workflow command."""
    control = [each for each in text if unicodedata.category(each) in ("Cc", "Zl", "Zp", "Cs") and each not in "\n\t"]
    bidi = [
        each
        for each in text
        if unicodedata.bidirectional(each) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    ]
    commands = [
        line for line in re.split(r"[\n\r]", text) if re.match(r"\s*::.*::", line) or re.search(r"##\w*\[", line)
    ]
    return not (control or bidi or commands)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_controls_a_terminal_or_a_log_is_shown_as_an_escape(text: str) -> None:
    assert is_harmless(visible(text))
    assert is_harmless(visible_line(text))
    assert "\n" not in visible_line(text)
    assert visible("\x1b[2J\u202e\x07\U000e0041") == "\\x1b[2J\\u202e\\x07\\U000e0041"
    assert visible_line("a\r\nb") == "a\\r\\nb"


def test_text_of_any_language_and_addresses_stay() -> None:
    for text in (
        "naïve Ελλάδα 日本 می‌خواهم 👩‍👩‍👧 é\tb\n",
        "::1",
        "listen on ::1 and ::",
        "# a\n## b\n#[derive(Debug)]",
        "a::b::c",
    ):
        assert visible(text) == text


@given(TEXTS)
def test_any_text_is_harmless_and_written_alike_twice(text: str) -> None:
    shown = visible(text)
    assert is_harmless(shown)
    assert visible(shown) == shown
    assert is_risky(text) == (shown != text)


@pytest.mark.exhaustive
@given(st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_data_have_the_same_values_after_they_were_escaped(value: object) -> None:
    encoded = escaped_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert is_harmless(encoded)
    assert json.loads(encoded) == value
    document = yaml_document({"value": value})
    assert is_harmless(document)
    assert yaml.load(document, yaml.CSafeLoader) == {"value": value}


def test_half_of_a_character_can_be_written() -> None:
    assert visible("a\udc80").encode() == b"a\\udc80"


ALONE = {"RenderProblem", "DocumentError", "DefinitionError", "TemplateSyntaxError", "_fault", "deleting", "_stalled"}
LOG = {"debug", "info", "warning", "error"}
"""The functions that make a problem, a message of the status, and a line of the log, which is the first argument."""

VERB = re.compile(r"(?:is|are|has|have|was|were|can't|needs|must|may|does|doesn't|no longer) ")


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts that these functions get, each with its line."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name not in ALONE | LOG:
            continue
        for argument in call.args[:1] if name in LOG else [*call.args, *(each.value for each in call.keywords)]:
            for each in [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument]:
                first = each.values[0] if isinstance(each, ast.JoinedStr) and each.values else each
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.lineno, first.value


def test_no_message_begins_with_its_verb() -> None:
    root = Path(ssa_operator.__file__).parent
    headless = [
        f"{path.relative_to(root)}:{line}: {text}"
        for path in sorted(root.rglob("*.py"))
        for line, text in messages(ast.parse(path.read_text()))
        if VERB.match(text)
    ]
    assert headless == []

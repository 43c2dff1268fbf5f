"""The examples of docs/cookbook.md render what the page shows.

A `jinja` block is a whole template; the block that follows it is the manifest, or what it waits for. The first block is
the parent, and the one that begins with `objects:` is in the cluster.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.rendering.render import render
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import SlotValues
from tests.rendering.template_files import FakeClusterView, templates

PAGE = Path(__file__).parent.parent.parent / "docs" / "cookbook.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def read(text: str) -> Any:
    (node,) = parse(StaticText(text, PAGE.name))
    return node.build(SlotValues())


def example(at: int) -> tuple[str, str, str]:
    (_, template), (kind, expected) = BLOCKS[at], BLOCKS[at + 1]
    return template, kind, expected


NUMBERS = [at for at, (kind, _) in enumerate(BLOCKS) if kind == "jinja"]


@pytest.mark.parametrize("at", NUMBERS)
def test_an_example_renders_what_the_page_shows(at: int) -> None:
    template, kind, expected = example(at)
    (objects,) = (read(text)["objects"] for _, text in BLOCKS if text.startswith("objects:"))
    result = render(templates({"example.yaml.j2": template}), read(BLOCKS[0][1]), FakeClusterView(children=objects))
    assert result.problems == ()
    if kind == "text":
        assert [str(wait) for wait in result.waits] == [expected.strip()]
        return
    assert result.waits == ()
    assert result.documents[0].body == read(expected)


def test_the_page_has_examples() -> None:
    assert len(NUMBERS) >= 8

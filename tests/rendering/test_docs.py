"""The examples of docs/templates.md do what the page says.

A `jinja` block is a template, or the part of one below its head; the block that follows it is what it renders, or the
text of its error. The first block is the parent.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.rendering.documents import parse
from ssa_operator.rendering.nodes import Filling
from ssa_operator.rendering.places import Lines
from ssa_operator.rendering.render import render
from tests.rendering.author import HEAD, templates

PAGE = Path(__file__).parent.parent.parent / "docs" / "templates.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
EXAMPLES = [(text, BLOCKS[at + 1]) for at, (kind, text) in enumerate(BLOCKS) if kind == "jinja"]


def read(text: str) -> Any:
    (node,) = parse(Lines(text, PAGE.name))
    return node.build(Filling())


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_does_what_the_page_says(number: int) -> None:
    template, (kind, expected) = EXAMPLES[number]
    head = re.sub("metadata:.*", "", HEAD, flags=re.DOTALL) + "metadata: {name: c}\n\n"
    if template.startswith("metadata:"):
        template = template.replace("metadata:\n", "metadata:\n  name: c\n")
        head = head.partition("metadata:")[0]
    result = render(templates({"example.yaml.j2": head + template}), read(BLOCKS[0][1]))
    if kind == "text":
        assert [str(problem) for problem in result.problems] == [expected.strip()]
        return
    assert result.problems == ()
    (document,) = result.documents
    body = {key: value for key, value in document.body.items() if key not in ("apiVersion", "kind")}
    del body["metadata"]["name"]
    assert {key: value for key, value in body.items() if value != {}} == read(expected)

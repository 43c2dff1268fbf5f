"""The examples of the pages "from ..." render what the pages show.

A page has an object of `example.com`, and where needed a block of `objects:` in the cluster. A `jinja` block is a whole
template; the block after it is what it renders, or the words of its error or wait. After a sentence with
`_status.yaml.j2` it is the status.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.core.objects.annotations import is_finalize_hook
from ssa_operator.rendering.render import render, render_status
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import SlotValues
from tests.rendering.template_files import FakeClusterView, manifest, templates

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("from-*.md"))
_BLOCK = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    page: Path
    before: str
    """The line before the template."""
    template: str
    kind: str
    """The kind of the block with the result."""
    result: str

    def __str__(self) -> str:
        return f"{self.page.stem}: {self.before[-40:]}"


def read(text: str) -> list[Any]:
    return [node.build(SlotValues()) for node in parse(StaticText(text, "page"))]


def blocks(page: Path) -> list[dict[str, str]]:
    return [found.groupdict() for found in _BLOCK.finditer(page.read_text(encoding="utf-8"))]


def examples(page: Path) -> list[Example]:
    found = blocks(page)
    return [
        Example(page, each["before"], each["text"], result["kind"], result["text"])
        for each, result in itertools.pairwise(found)
        if each["kind"] == "jinja"
    ]


EXAMPLES = [example for page in PAGES for example in examples(page)]


def test_every_page_has_examples_a_table_and_what_has_no_counterpart() -> None:
    assert [page.stem for page in PAGES] == [
        "from-ansible",
        "from-helm",
        "from-kopf",
        "from-kro",
        "from-metacontroller",
    ]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(examples(page)) >= 2
        assert "\n## Side by side\n\n| " in text
        assert "\n## What has no counterpart\n" in text
        assert text.count("```jinja") == len(examples(page))


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_renders_what_its_page_shows(example: Example) -> None:
    texts = [each["text"] for each in blocks(example.page) if each["kind"] == "yaml"]
    (parent,) = next(read(text) for text in texts if text.startswith("apiVersion: example.com/"))
    objects: list[dict[str, Any]] = next(
        (read(text)[0]["objects"] for text in texts if text.startswith("objects:")), []
    )
    view = FakeClusterView(children=tuple(objects))
    if "_status.yaml.j2" in example.before:
        # The children that a status reads are rendered by other files of the folder.
        children = {f"{at}.yaml": manifest(each["kind"], each["metadata"]["name"]) for at, each in enumerate(objects)}
        status = render_status(templates({"_status.yaml.j2": example.template, **children}), parent, view)
        assert status.problems == ()
        assert [status.fields] == read(example.result)
        return
    found = render(templates({"example.yaml.j2": example.template}), parent, view)
    if example.kind == "text":
        said = [*map(str, found.problems), *map(str, found.waits)]
        assert len(said) == 1
        assert example.result.strip() in said[0]
        return
    assert (found.problems, found.waits) == ((), ())
    assert [document.body for document in found.documents] == read(example.result)
    for document in found.documents:
        hook = is_finalize_hook(document.body["metadata"].get("annotations"))
        assert hook == ("on: finalize" in example.template)

"""The examples of docs/cookbook.md render what the page shows.

A `jinja` block is a whole template; the block that follows it is the manifest, or what it waits for. The first block is
the parent, and the one that begins with `objects:` is in the cluster.
"""

from __future__ import annotations

import pytest

from ssa_operator.rendering.render import render
from tests.docs.blocks.pages import Example, ExamplePage
from tests.packaging.checkout import ROOT
from tests.rendering.template_files import FakeClusterView, templates

PAGE = ExamplePage.read(ROOT / "docs" / "cookbook.md")

READ = PAGE.blocks
"""The blocks of pages that these tests read."""


@pytest.mark.parametrize("example", PAGE.examples, ids=str)
def test_an_example_renders_what_the_page_shows(example: Example) -> None:
    view = FakeClusterView(children=PAGE.live_objects)
    result = render(templates({"example.yaml.j2": example.template.text}), PAGE.parent.value, view)
    assert result.problems == ()
    if example.result.language == "text":
        assert [str(wait) for wait in result.waits] == [example.result.text.strip()]
        return
    assert result.waits == ()
    (document,) = result.documents
    assert document.body == example.result.value


def test_the_page_has_examples() -> None:
    assert len(PAGE.examples) >= 8

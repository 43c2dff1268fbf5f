"""The examples of the pages "from ..." render what the pages show.

A page has an object of `example.com`, and where needed a block of `objects:` in the cluster. A `jinja` block is a whole
template; the block after it is what it renders, or the words of its error or wait. After a sentence with
`_status.yaml.j2` it is the status.
"""

from __future__ import annotations

import itertools
import re

import pytest

from ssa_operator.objects.annotations import is_finalize_hook
from ssa_operator.rendering.render import render, render_status
from tests.docs.blocks.pages import Block, blocks, yaml_values
from tests.packaging.checkout import ROOT
from tests.rendering.template_files import FakeClusterView, manifest, templates

PAGES = [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("from-*.md"))]


def first(page: str, start: str) -> list[Block]:
    """The first YAML block of a page with this beginning, if there is one."""
    return [each for each in blocks(page) if each.language == "yaml" and each.text.startswith(start)][:1]


PAIRS = [pair for page in PAGES for pair in itertools.pairwise(blocks(page)) if pair[0].language == "jinja"]
GIVEN = [block for page in PAGES for start in ("apiVersion: example.com/", "objects:") for block in first(page, start)]

READ = {block for found in (GIVEN, *PAIRS) for block in found}
"""The blocks of pages that these tests read."""


def test_every_page_has_examples_a_table_and_what_has_no_counterpart() -> None:
    assert PAGES == ["docs/from-helm.md", "docs/from-others.md"]
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert len([template for template, _ in PAIRS if template.page == page]) >= 2
        assert re.search(r"^\| [\w ]+ \| ssa-operator \|$", text, re.MULTILINE)
        assert "\n## What has no counterpart\n" in text


@pytest.mark.parametrize(("block", "result"), PAIRS, ids=[str(template) for template, _ in PAIRS])
def test_an_example_renders_what_its_page_shows(block: Block, result: Block) -> None:
    (parent,) = first(block.page, "apiVersion: example.com/")
    objects = tuple(each for found in first(block.page, "objects:") for each in found.value["objects"])
    template = block.text
    view = FakeClusterView(children=objects)
    if "_status.yaml.j2" in block.before:
        # The children that a status reads are rendered by other files of the folder.
        children = {f"{at}.yaml": manifest(each["kind"], each["metadata"]["name"]) for at, each in enumerate(objects)}
        status = render_status(templates({"_status.yaml.j2": template, **children}), parent.value, view)
        assert status.problems == ()
        assert status.fields == result.value
        return
    found = render(templates({"example.yaml.j2": template}), parent.value, view)
    if result.language == "text":
        said = [*map(str, found.problems), *map(str, found.waits)]
        assert len(said) == 1
        assert result.text.strip() in said[0]
        return
    assert (found.problems, found.waits) == ((), ())
    assert [document.body for document in found.documents] == yaml_values(result)
    for document in found.documents:
        hook = is_finalize_hook(document.body["metadata"].get("annotations"))
        assert hook == ("on: finalize" in template)

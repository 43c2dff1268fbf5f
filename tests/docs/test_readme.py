"""What the README shows first is what the repository has."""

from __future__ import annotations

from tests.docs.blocks.pages import blocks
from tests.packaging.checkout import ROOT

TEMPLATE, RESOURCE = blocks("README.md")[:2]

READ = (TEMPLATE, RESOURCE)
"""The blocks of pages that these tests read."""


def test_the_template_is_the_beginning_of_the_examples_own() -> None:
    name, *shown = TEMPLATE.text.splitlines()
    template = (ROOT / name.removeprefix("# ")).read_text(encoding="utf-8").splitlines()
    assert shown.pop() == "  ..."
    found = iter(template)
    assert [line for line in shown if line not in found] == []


def test_the_custom_resource_is_the_example() -> None:
    assert RESOURCE.text == (ROOT / "examples" / "echo.yaml").read_text(encoding="utf-8")

"""What the README shows first is what the repository has."""

from __future__ import annotations

import re

from tests.docs.blocks.pages import blocks
from tests.packaging.checkout import ROOT

CHART, TEMPLATE, RESOURCE = blocks("README.md")[:3]

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


def test_the_first_command_makes_an_operator_of_a_chart() -> None:
    assert CHART.text.startswith("helm template ")
    assert "| ssa-operator new " in " ".join(CHART.text.split())


def test_no_command_of_the_pages_has_a_placeholder_for_the_repository() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{page.name}: {line}"
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if "OWNER/" in line and re.search(r"\b(helm|gh|pip|docker|podman|kubectl) ", line)
    ]
    assert found == []
    assert sum(page.read_text(encoding="utf-8").count("not published yet") for page in pages) == 1

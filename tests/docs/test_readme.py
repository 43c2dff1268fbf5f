"""What the README shows first is what the repository has."""

from __future__ import annotations

import re

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


def test_nothing_but_the_name_stands_above_the_sentence_that_says_what_it_is() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert page.startswith("# ssa-operator\n\n**A folder of Jinja templates is a Kubernetes operator.** ")


def test_the_two_commands_are_those_that_run_and_test_the_project() -> None:
    assert "make run\nmake test\n" in [block.text for block in blocks("README.md")]


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

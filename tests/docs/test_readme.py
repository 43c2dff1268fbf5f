"""What the README shows first is what the repository has."""

from __future__ import annotations

import re

from docs.generate.transcripts import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    """The first block of a kind."""
    return str(re.findall(rf"(?s)```{kind}\n(.*?)```", README)[0])


def test_the_template_is_the_beginning_of_the_examples_own() -> None:
    name, *shown = block("jinja").splitlines()
    template = (ROOT / name.removeprefix("# ")).read_text(encoding="utf-8").splitlines()
    assert shown.pop() == "  ..."
    found = iter(template)
    assert [line for line in shown if line not in found] == []


def test_the_custom_resource_is_the_example() -> None:
    assert block("yaml") == (ROOT / "examples" / "echo.yaml").read_text(encoding="utf-8")

"""One mistake gives one finding."""

from __future__ import annotations

from ssa_operator.tools.checks.consequences import without_consequences
from ssa_operator.tools.findings.findings import Finding


def test_a_folder_without_a_resource_needs_no_example_whatever_the_words() -> None:
    cause = Finding(code="unknown-resource", message="x", about="site.example.com")
    other = Finding(code="folder-without-example", message="y", about="pages.example.com")
    follows = Finding(code="folder-without-example", message="z", about="site.example.com")
    assert without_consequences([follows, cause, other]) == [cause, other]

"""One mistake gives one finding."""

from __future__ import annotations

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.tools.checks.codes import CODES
from ssa_operator.tools.checks.shown_findings import without_consequences
from ssa_operator.tools.findings import Finding

LINE = SourceLocation("a.yaml.j2", 4)


def test_a_folder_without_a_resource_needs_no_example_whatever_the_words() -> None:
    cause = Finding(code=CODES["unknown-kind"], message="x", about="site.example.com")
    other = Finding(code=CODES["folder-without-example"], message="y", about="pages.example.com")
    follows = Finding(code=CODES["folder-without-example"], message="z", about="site.example.com")
    assert without_consequences([follows, cause, other]) == [cause, other]


def test_a_namespace_that_is_refused_and_no_name_is_one_finding() -> None:
    cause = Finding(code=CODES["invalid-manifest"], message="x", location=LINE)
    follows = Finding(code=CODES["invalid-value"], message="y", location=LINE)
    elsewhere = Finding(code=CODES["invalid-value"], message="y", location=SourceLocation("a.yaml.j2", 5))
    assert without_consequences([cause, follows, elsewhere]) == [cause, elsewhere]


def test_a_folder_whose_only_template_has_another_ending_is_one_finding() -> None:
    cause = Finding(code=CODES["template-error"], message="x", location=LINE)
    follows = Finding(code=CODES["ignored-file"], message="y", location=LINE)
    assert without_consequences([cause, follows]) == [cause]

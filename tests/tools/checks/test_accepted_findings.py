"""What an author accepts by a comment."""

from __future__ import annotations

import pytest

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.tools.checks.codes import CODES
from ssa_operator.tools.checks.shown_findings import without_accepted
from ssa_operator.tools.findings import Finding

FILE = "a/a.yaml.j2"


@pytest.mark.parametrize(
    ("text", "code", "accepted"),
    [
        ("x\nimage: a # check: latest-image, it is a demonstration\n", "latest-image", True),
        ("{# check: latest-image, it is a demonstration #}\nimage: a\n", "latest-image", True),
        ("x\nimage: a # check: latest-image\n", "latest-image", False),
        ("x\nimage: a # check: lookup-by-parent, it is meant\n", "latest-image", False),
        ("x\nimage: a\n# check: latest-image, it is a demonstration\n", "latest-image", False),
        ("x\nimage: a # check: unknown-field, it is meant\n", "unknown-field", False),
    ],
    ids=["in the line", "above", "no reason", "another code", "below", "an error"],
)
def test_a_comment_with_a_reason_accepts_a_warning_of_its_line(text: str, code: str, accepted: bool) -> None:
    finding = Finding(code=CODES[code], message="x", location=SourceLocation(FILE, 2))
    assert (without_accepted([finding], {FILE: text}) == []) is accepted


def test_an_earlier_code_in_a_comment_leads_to_the_one_that_replaces_it() -> None:
    finding = Finding(code=CODES["unknown-reference"], message="x", location=SourceLocation(FILE, 1), fix="it has http")
    (found,) = without_accepted([finding], {FILE: "port: web # check: headless-port, DNS is enough\n"})
    assert found.fix == "write unknown-reference in the comment, which replaces headless-port"


def test_a_finding_without_a_line_stays() -> None:
    finding = Finding(code=CODES["no-folder"], message="x")
    assert without_accepted([finding], {}) == [finding]

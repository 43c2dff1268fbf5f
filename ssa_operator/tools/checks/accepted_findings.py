"""Leaves out the warnings that an author has looked at and means.

Promises:
- A comment `# check: CODE, REASON` in the line of a warning, or in the line above, accepts the warning of that code.
- An error is never accepted, nor is a warning without a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ssa_operator.tools.findings.codes import Severity
from ssa_operator.tools.findings.findings import Finding

_ACCEPTED = re.compile(r"#\s*check:\s*(?P<code>[a-z-]+),\s*\w")


def without_accepted(findings: Iterable[Finding], files: Mapping[str, str]) -> list[Finding]:
    """The findings without the accepted ones. `files` are the texts of the files that the findings name."""
    return [each for each in findings if not _is_accepted(each, files)]


def _is_accepted(finding: Finding, files: Mapping[str, str]) -> bool:
    if finding.location is None or finding.severity is Severity.ERROR:
        return False
    number = finding.location.line
    lines = files.get(finding.location.file, "").split("\n")[max(number - 2, 0) : number]
    return any(found["code"] == finding.code for line in lines for found in _ACCEPTED.finditer(line))

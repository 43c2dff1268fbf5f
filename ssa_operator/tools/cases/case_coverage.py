"""The coverage of the templates by golden cases, as text and as JSON.

Promises:
- Every line and branch that no case reaches is named with its line and its file, as a path that an editor opens.
- The percentage is that of lines and branches together. Without any, it is 100.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.rendering.jinja.coverage import FileCoverage, TemplateCoverage
from ssa_operator.tools.cases.case_suites import Suite


class CoverageReport(Struct, frozen=True, kw_only=True):
    """What the cases of a run reach."""

    files: tuple[FileCoverage, ...]
    """The templates; `file` is the path from the current folder."""

    @property
    def total(self) -> int:
        return sum(each.total for each in self.files)

    @property
    def reached(self) -> int:
        return sum(each.reached for each in self.files)

    @property
    def percent(self) -> float:
        """The part that was reached, rounded down, so that 100 is everything."""
        return _percent(self.reached, self.total)


def with_coverage(suites: Sequence[Suite]) -> list[Suite]:
    """The suites, each of which records its coverage."""
    return [dataclasses.replace(suite, coverage=TemplateCoverage(suite.folder)) for suite in suites]


def coverage_report(suites: Sequence[Suite]) -> CoverageReport:
    """What the cases of the suites reached."""
    found: dict[str, FileCoverage] = {}
    for suite in suites:
        for each in suite.coverage.files() if suite.coverage is not None else ():
            paths = (templates / each.file for templates in suite.templates)
            path = str(next((path for path in paths if path.exists()), each.file))
            known = found.get(path)
            found[path] = replace(each, file=path) if known is None else _merged(known, each)
    return CoverageReport(files=tuple(found[path] for path in sorted(found)))


def _merged(one: FileCoverage, other: FileCoverage) -> FileCoverage:
    """The coverage of a template that several suites render."""
    return replace(
        one,
        lines=tuple(sorted({*one.lines, *other.lines})),
        missed_lines=tuple(line for line in one.missed_lines if line in other.missed_lines),
        branches=tuple(dict.fromkeys((*one.branches, *other.branches))),
        missed_branches=tuple(each for each in one.missed_branches if each in other.missed_branches),
    )


def coverage_lines(report: CoverageReport) -> Iterator[str]:
    """The report as text: what was not reached, then the percentage."""
    for each in report.files:
        missed = [(first, f"{each.file}:{_range(first, last)} is not rendered") for first, last in _ranges(each)]
        missed += [(branch.line, f"{each.file}:{branch.line} {branch.missed}") for branch in each.missed_branches]
        yield from (text for _, text in sorted(missed))
    yield f"coverage: {report.percent:g} %, {report.reached} of {report.total} lines and branches"


def _ranges(each: FileCoverage) -> Iterator[tuple[int, int]]:
    """The first and the last line of each part that was not rendered."""
    missed = set(each.missed_lines)
    first = last = 0
    for line in each.lines:
        if line in missed:
            first, last = first or line, line
        elif first:
            yield first, last
            first = 0
    if first:
        yield first, last


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def coverage_data(report: CoverageReport) -> dict[str, Any]:
    """The report for `--output json`."""
    return {
        "percent": report.percent,
        "reached": report.reached,
        "total": report.total,
        "files": [
            {
                "file": each.file,
                "percent": _percent(each.reached, each.total),
                "reached": each.reached,
                "total": each.total,
                "missedLines": list(each.missed_lines),
                "missedBranches": [{"line": branch.line, "message": branch.missed} for branch in each.missed_branches],
            }
            for each in report.files
        ],
    }


def _percent(reached: int, total: int) -> float:
    return 1000 * reached // total / 10 if total else 100.0

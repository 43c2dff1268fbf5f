"""Runs golden cases for `ssa-operator test`, and writes the results as text for a terminal, as JSON, and as JUnit XML.

Promises:
- Without `--update` nothing is written but the file of `--junit`.
- The text names each case and file that differs, with a diff. Colours appear only in a terminal, and not with NO_COLOR.
- The JSON and the XML hold the same results, and are stable. The XML has no character that XML forbids.
- Every line and branch that no case reaches is named with its line and its file, as a path that an editor opens.
- The percentage is that of lines and branches together. Without any, it is 100.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssa_operator.objects.messages import counted
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError, OutputFormat, writing
from ssa_operator.rendering.folder.contained_files import write_output
from ssa_operator.tools import printing
from ssa_operator.tools.cases.golden_cases import INVALID, PARENT, CaseResult, CaseState, Suite, run_suites

if TYPE_CHECKING:
    from rich.console import Console
import dataclasses
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.rendering.jinja.coverage import FileCoverage, TemplateCoverage


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


_STYLES = {"+": "green", "-": "red", "@": "cyan"}

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRun:
    """What to run, and where to write the results."""

    suites: Sequence[Suite]
    names: Sequence[str]
    """The only cases to run, [] for all."""
    update: bool
    coverage: bool
    coverage_min: float | None
    """The percentage that the cases must reach."""
    junit: Path | None
    as_json: bool

    def run(self) -> None:
        """Run the cases and write the results. Raises CommandError with the exit code, unless all is well."""
        suites = with_coverage(self.suites) if self.coverage else self.suites
        results = run_suites(suites, self.names, update=self.update, salt=secrets.token_bytes(16))
        report = coverage_report(suites) if self.coverage else None
        if self.junit is not None:
            with writing(self.junit):
                write_output(self.junit, junit_xml(results))
        if self.as_json:
            covered = {"coverage": coverage_data(report)} if report is not None else {}
            printing.data(results_data(results) | covered, OutputFormat.JSON)
        else:
            print_results(streams.console(soft_wrap=True), results)
            for line in coverage_lines(report) if report is not None else ():
                streams.line(line)
        states = {result.state for result in results}
        if CaseState.INVALID in states:
            raise CommandError("not all cases can be run", code=INVALID)
        if CaseState.DIFFERS in states:
            raise CommandError("not all cases render what they expect; test --update accepts what they render")
        if report is not None and self.coverage_min is not None and report.percent < self.coverage_min:
            raise CommandError(f"the coverage is {report.percent:g} %, and --coverage-min is {self.coverage_min:g}")


def print_results(console: Console, results: Sequence[CaseResult]) -> None:
    """Print what differs or was written, and the summary."""
    from rich.text import Text

    for result in results:
        if result.state is CaseState.UPDATED:
            for each in result.differences:
                console.print(Text(f"{'wrote' if each.text else 'removed'} {each.path}", "green"))
        elif result.state is CaseState.DIFFERS:
            console.print(Text(f"differs {result.path}", "bold red"))
            for each in result.differences:
                for line in each.diff:
                    style = "bold" if line.startswith(("--- ", "+++ ")) else _STYLES.get(line[:1], "")
                    console.print(Text(f"  {line}", style))
        elif result.state is CaseState.INVALID:
            console.print(Text(f"invalid {result.path}", "bold red"))
            for line in result.problem.splitlines():
                console.print(Text(f"  {line}"))
    console.print(Text(summary(results), "bold"))


def summary(results: Sequence[CaseResult]) -> str:
    """The counts in one line."""
    counts = Counter(result.state for result in results)
    parts = [f"{counts[state]} {state}" for state in CaseState if counts[state]]
    return f"{counted(len(results), 'case')}: {', '.join(parts)}"


def results_data(results: Sequence[CaseResult]) -> dict[str, Any]:
    """The results for `--output json`."""
    counts = Counter(result.state for result in results)
    return {
        "cases": [_result_data(result) for result in results],
        "summary": {state.value: counts[state] for state in CaseState},
    }


def _result_data(result: CaseResult) -> Mapping[str, Any]:
    return {
        "name": result.name,
        "path": str(result.path),
        "result": result.state.value,
        "files": [
            {"path": str(each.path), "diff": "".join(f"{line}\n" for line in each.diff)} for each in result.differences
        ],
        "problems": result.problem.splitlines(),
    }


def junit_xml(results: Sequence[CaseResult]) -> bytes:
    """The results as JUnit XML: a test suite for each template folder. A case that was updated passes."""
    from xml.etree import ElementTree as ET

    root = ET.Element("testsuites", _attributes(results))
    by_folder: dict[Path, list[CaseResult]] = {}
    for result in results:
        by_folder.setdefault(result.path.parent, []).append(result)
    for folder, found in by_folder.items():
        suite = ET.SubElement(root, "testsuite", {"name": _xml(str(folder)), **_attributes(found)})
        for result in found:
            attributes = {
                "classname": _xml(folder.name),
                "name": _xml(result.path.name),
                "file": _xml(str(result.path / PARENT)),
                "time": f"{result.seconds:.3f}",
            }
            case = ET.SubElement(suite, "testcase", attributes)
            if result.state is CaseState.DIFFERS:
                names = ", ".join(each.path.name for each in result.differences)
                failure = ET.SubElement(case, "failure", {"type": "differs", "message": f"{names} differs"})
                failure.text = _xml(difference_text(result))
            elif result.state is CaseState.INVALID:
                message = _xml(result.problem.partition("\n")[0])
                error = ET.SubElement(case, "error", {"type": "invalid", "message": message})
                error.text = _xml(result.problem)
    ET.indent(root)
    encoded: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return encoded + b"\n"


def difference_text(result: CaseResult) -> str:
    """The diffs of a case."""
    return "\n".join(line for each in result.differences for line in each.diff)


def _attributes(results: Sequence[CaseResult]) -> dict[str, str]:
    counts = Counter(result.state for result in results)
    return {
        "tests": str(len(results)),
        "failures": str(counts[CaseState.DIFFERS]),
        "errors": str(counts[CaseState.INVALID]),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)

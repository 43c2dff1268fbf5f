"""The findings of `check` as text, JSON, SARIF, or workflow commands of GitHub Actions.

Promises:
- JSON is a list of `{code, severity, message, file, line, fix}`; a finding without a file has no `file` and `line`.
- SARIF is version 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), with each code as a rule.
- Text is one line a finding. In a terminal, what to do is below the source line, and carets are under the word of the
  line that the finding names, or under the whole line. There are no colours with NO_COLOR.
- A message can't end a workflow command, whatever it holds. A source line controls no terminal.
- A file is read once, and through no link out of the project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ssa_operator import __version__
from ssa_operator.objects.messages import counted, escaped_json, visible_line, without_controls
from ssa_operator.objects.source_location import location_data
from ssa_operator.operator.process import streams
from ssa_operator.rendering.folder.contained_files import read_given
from ssa_operator.tools.checks.codes import CODES
from ssa_operator.tools.findings import Finding, Severity, marked


def write_findings(findings: Sequence[Finding], output: str) -> None:
    """Print findings in one of the formats: text, json, sarif, github. Text has errors first."""
    if output == "text":
        findings = sorted(findings, key=lambda finding: finding.severity is not Severity.ERROR)
        if streams.is_terminal():
            print_findings(findings)
            return
    write = streams.lines if output == "text" else streams.data
    if text := _FORMATS[output](findings):
        write(text)


def write_summary(findings: Sequence[Finding], output: str) -> None:
    """Print how many findings there are, for people in a terminal."""
    if output == "text" and streams.is_terminal():
        print_summary(findings)


def _text(findings: Sequence[Finding]) -> str:
    return "".join(f"{visible_line(str(finding))}\n" for finding in findings)


def _json(findings: Sequence[Finding]) -> str:
    return _encoded([finding_data(finding) for finding in findings])


def finding_data(finding: Finding) -> dict[str, Any]:
    """A finding as JSON."""
    data: dict[str, Any] = {"code": str(finding.code), "severity": finding.severity.value, "message": finding.text}
    return data | location_data(finding.location) | ({"fix": finding.fix} if finding.fix else {})


def _sarif(findings: Sequence[Finding]) -> str:
    rules = [
        {
            "id": str(found),
            "shortDescription": {"text": found.problem},
            "fullDescription": {"text": found.explanation},
            "defaultConfiguration": {"level": found.severity.value},
        }
        for found in CODES.values()
    ]
    driver = {"name": "ssa-operator", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_sarif_result(finding) for finding in findings]}
    schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    return _encoded({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _sarif_result(finding: Finding) -> dict[str, Any]:
    text = finding.text + (f"; {finding.fix}" if finding.fix else "")
    result: dict[str, Any] = {"ruleId": str(finding.code), "level": finding.severity.value, "message": {"text": text}}
    if finding.location is not None:
        place = {"artifactLocation": {"uri": finding.location.file}, "region": {"startLine": finding.location.line}}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _github(findings: Sequence[Finding]) -> str:
    """https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands"""
    lines = []
    for finding in findings:
        text = finding.text + (f"; {finding.fix}" if finding.fix else "")
        options = {"title": str(finding.code)}
        if finding.location is not None:
            options = {"file": finding.location.file, "line": str(finding.location.line), **options}
        joined = ",".join(f"{key}={_escaped(value, property_value=True)}" for key, value in options.items())
        lines.append(f"::{finding.severity.value} {joined}::{_escaped(text)}\n")
    return "".join(lines)


def _escaped(text: str, *, property_value: bool = False) -> str:
    escapes = {"%": "%25", "\r": "%0D", "\n": "%0A"} | ({":": "%3A", ",": "%2C"} if property_value else {})
    return without_controls("".join(escapes.get(each, each) for each in text))


def _encoded(value: Any) -> str:
    return escaped_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n"


_FORMATS: Mapping[str, Callable[[Sequence[Finding]], str]] = {
    "text": _text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
}


_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}


def print_findings(findings: Sequence[Finding]) -> None:
    """Print findings for people."""
    from rich.text import Text

    console, lines_of = streams.console(), cache(_lines)
    for finding in findings:
        where = f"{finding.location}: " if finding.location else ""
        head = Text()
        head.append(visible_line(where), "bold")
        head.append(f"{finding.severity} {finding.code}", _COLOURS[finding.severity])
        head.append(f": {visible_line(finding.text)}")
        console.print(head, soft_wrap=True)
        for text, style in _source(finding, lines_of):
            console.print(Text(text, style), soft_wrap=True)
        console.print()


def print_summary(findings: Sequence[Finding]) -> None:
    """Print how many findings there are."""
    from rich.text import Text

    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    if not findings:
        streams.console().print(Text("ok: check found no errors and no warnings", "green"))
    else:
        streams.line(f"check found {counted(errors, 'error')} and {counted(warnings, 'warning')}")


def _source(finding: Finding, lines_of: Callable[[str], Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The source line, the carets and what to do, each with its style."""
    number = finding.location.line if finding.location is not None else 0
    lines = lines_of(finding.location.file) if finding.location is not None else ()
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    margin = " " * (len(str(number)) + 2)
    if line.strip():
        shown = visible_line(line.expandtabs(4))
        begin, length = marked(finding, shown)
        yield f" {number} | {shown}", ""
        yield f"{margin}| {' ' * begin}{'^' * length}", _COLOURS[finding.severity]
    if finding.fix:
        yield f"{margin}= {visible_line(finding.fix)}", "cyan"


def _lines(file: str) -> Sequence[str]:
    """The lines of a file of the project, none if it can't be read."""
    try:
        return read_given(Path(file)).decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError):
        return ()  # the finding itself says what is wrong with the file

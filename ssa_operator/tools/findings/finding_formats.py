"""Prints findings as text, JSON, SARIF, or workflow commands of GitHub Actions.

Promises:
- JSON is a list of `{code, severity, message, file, line, fix}`; a finding without a file has no `file` and `line`.
- SARIF is version 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), with each code as a rule.
- Text is one line a finding, and in a terminal what `terminal_format.py` prints.
- A message can't end a workflow command, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ssa_operator import __version__
from ssa_operator.objects.messages import escaped_json, visible_line, without_controls
from ssa_operator.objects.source_location import location_data
from ssa_operator.operator.process import streams
from ssa_operator.tools.findings.codes import CODES, Severity
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.findings.terminal_format import print_findings, print_summary


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
    data: dict[str, Any] = {"code": finding.code, "severity": finding.severity.value, "message": finding.text}
    return data | location_data(finding.location) | ({"fix": finding.fix} if finding.fix else {})


def _sarif(findings: Sequence[Finding]) -> str:
    rules = [
        {
            "id": code,
            "shortDescription": {"text": found.title},
            "fullDescription": {"text": found.explanation},
            "defaultConfiguration": {"level": found.severity.value},
        }
        for code, found in CODES.items()
    ]
    driver = {"name": "ssa-operator", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_sarif_result(finding) for finding in findings]}
    schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    return _encoded({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _sarif_result(finding: Finding) -> dict[str, Any]:
    text = finding.text + (f"; {finding.fix}" if finding.fix else "")
    result: dict[str, Any] = {"ruleId": finding.code, "level": finding.severity.value, "message": {"text": text}}
    if finding.location is not None:
        place = {"artifactLocation": {"uri": finding.location.file}, "region": {"startLine": finding.location.line}}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _github(findings: Sequence[Finding]) -> str:
    """https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands"""
    lines = []
    for finding in findings:
        text = finding.text + (f"; {finding.fix}" if finding.fix else "")
        options = {"title": finding.code}
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

"""Leaves one finding of each mistake: the one that says best what to correct; and none that an author has accepted.

Promises:
- A finding is left out only where another one is about the same line, file or folder, and causes it.
- Errors come before warnings. Within these, the order is that of the files.
- A comment `# check: CODE, REASON` in the line of a warning, or in the line above, accepts the warning of that code.
- An error is never accepted, nor is a warning without a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.tools.checks.name_rules import UNKNOWN_NAME
from ssa_operator.tools.findings import Finding, Severity
from ssa_operator.tools.schema_rules import NO_FIELD, UNKNOWN_FIELD

_OF_LINE: Mapping[str, frozenset[str]] = {
    "undeclared-field": frozenset({"render-error", "conversion-failed"}),
    "unknown-field": frozenset({"render-error"}),
    "unknown-kind": frozenset({"render-error", "template-error"}),
    "template-error": frozenset({"ignored-file"}),
    "invalid-name": frozenset({"invalid-manifest"}),
    # A namespace outside of the parent's.
    "invalid-manifest": frozenset({"invalid-value"}),
}
"""The codes that follow from another one on the same line."""


_SUBTRACTION = re.compile(r"\b([A-Za-z_]\w{0,62}(?:\.\w{1,63}){0,20})\.(\w{1,63}(?:-[A-Za-z_]\w{0,62}){1,20})")
_OPEN_KEY = re.compile(r"( *(?:- )?)([\w./\"'-]+):\s*")


def repaired(findings: Iterable[Finding], files: Mapping[str, str]) -> list[Finding]:
    """The findings, with one that says what to write in place of all that a mistake of their line causes."""
    found = list(findings)
    broken = {each.location for each in found if each.severity is Severity.ERROR}
    return list(dict.fromkeys(_repaired(each, files) if each.location in broken else each for each in found))


def _repaired(finding: Finding, files: Mapping[str, str]) -> Finding:
    number = finding.location.line if finding.location is not None else 0
    text = files.get(finding.location.file, "") if finding.location is not None else ""
    *above, line = text.split("\n")[:number] or [""]
    for each in _SUBTRACTION.finditer(line) if finding.about else ():
        first, *others = each[0].split("-")
        if finding.about in (first, *others):
            fix = f"write {each[1]}['{each[2]}']"
            message = f"{each[0]} is a subtraction to Jinja"
            return Finding(code=UNKNOWN_NAME, message=message, location=finding.location, fix=fix)
    printed = _printed_yaml(line)
    key = _OPEN_KEY.fullmatch(next((each for each in reversed(above) if each.strip()), "")) if printed else None
    if printed is None or key is None or len(line) - len(line.lstrip(" ")) > len(key[1]):
        return finding
    message = f"what to_yaml prints here is beside {key[2]}: and not below it"
    fix = f"write {key[2]}: {{{{ {printed} }}}} in one line"
    return Finding(code=UNKNOWN_FIELD, message=message, location=finding.location, fix=fix)


def _printed_yaml(line: str) -> str | None:
    """What a line prints by the filter `to_yaml`, None if it does anything else."""
    inner = line.strip()
    if not (inner.startswith("{{") and inner.endswith("}}")):
        return None
    printed, _, name = inner[2:-2].removeprefix("-").removesuffix("-").rpartition("|")
    return printed.strip() or None if name.strip() == "to_yaml" else None


def without_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without those that follow from another one."""
    found = list(findings)
    following = {
        (code, each.location.file, each.location.line)
        for each in found
        if each.location is not None
        for code in _OF_LINE.get(each.code, ())
    }
    plain = {each.location.file for each in found if each.code == "plain-file" and each.location is not None}
    broken = {_folder(each) for each in found if each.severity is Severity.ERROR}
    unknown = {each.about for each in found if each.code == "unknown-kind"}
    return [
        each
        for each in found
        if not (each.location and (each.code, each.location.file, each.location.line) in following)
        and not (each.location and each.location.file in plain and each.code != "plain-file")
        # The name of a child that the status reads is often wrong where its manifest is.
        and not (each.code == "unknown-reference" and not each.path and _folder(each) in broken)
        and not (each.code == "folder-without-example" and each.about in unknown)
    ]


def without_repeated(refusals: Iterable[Finding], known: Sequence[Finding]) -> list[Finding]:
    """What the API server refuses of a parent's manifests, without the mistakes about which `known` findings say what
    to correct.
    """
    same = {(each.code, each.location) for each in known}
    meant = {each.fix for each in known if each.code == "unknown-field"}
    mismatched = {each.subject for each in known if each.path[-1:] == ("selector",)}
    # A mapping that lacks what it needs, because a field of it has another name.
    with_unknown = {
        each.message.removeprefix(NO_FIELD).rpartition(".")[0] for each in known if each.code == "unknown-field"
    }
    refused = [each.message for each in known if each.code == "invalid-manifest"]

    def is_known(refusal: Finding) -> bool:
        field = refusal.message.partition(" ")[0]
        return (
            (refusal.code, refusal.location) in same
            or field in with_unknown
            or (refusal.code == "missing-field" and f"did you mean {field.rpartition('.')[2]}?" in meant)
            or (refusal.subject in mismatched and "`selector` does not match" in refusal.message)
            or any(f" has {field} " in message for message in refused)
        )

    return [each for each in refusals if not is_known(each)]


def without_known(refusals: Iterable[Finding], known: Sequence[Finding]) -> list[Finding]:
    """What an API server refuses, without the fields of which `known` errors say what to correct: the same field of the
    same manifest, one around or in it, or one of the same line.
    """
    errors: dict[str, list[Finding]] = {}
    for each in known:
        if each.severity is Severity.ERROR:
            errors.setdefault(each.subject, []).append(each)
    lines = {each.location for each in errors.get("", ())}

    def is_known(refusal: Finding) -> bool:
        return refusal.location in lines or any(
            each.location == refusal.location or (each.path and _overlap(each.path, refusal.path))
            for each in errors.get(refusal.subject, ())
        )

    of_manifests = [each for found in errors.values() for each in found]
    return [each for each in without_repeated(refusals, of_manifests) if not is_known(each)]


def _overlap(one: FieldPath, other: FieldPath) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _folder(finding: Finding) -> str:
    return "" if finding.location is None else finding.location.file.partition("/")[0]


_ACCEPTED = re.compile(r"#\s*check:\s*(?P<code>[a-z-]+),\s*\w")


def without_accepted(findings: Iterable[Finding], files: Mapping[str, str]) -> list[Finding]:
    """The findings without the accepted ones. `files` are the texts of the files that the findings name. A finding that
    a comment accepts by an earlier code names the one to write.
    """
    left = []
    for finding in findings:
        codes = _accepted_codes(finding, files) if finding.severity is not Severity.ERROR else set()
        old = min(codes & finding.code.replaces, default="")
        if finding.code not in codes:
            fix = f"write {finding.code} in the comment, which replaces {old}" if old else finding.fix
            left.append(replace(finding, fix=fix))
    return left


def _accepted_codes(finding: Finding, files: Mapping[str, str]) -> set[str]:
    number = finding.location.line if finding.location is not None else 0
    text = files.get(finding.location.file, "") if finding.location is not None else ""
    return {
        found["code"] for line in text.split("\n")[max(number - 2, 0) : number] for found in _ACCEPTED.finditer(line)
    }

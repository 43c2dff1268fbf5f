"""Checks the templates and CRDs of a project, for `ssa-operator check`.

Promises:
- Every finding has a code, a severity, and the file and line where there is one.
- With `--fix`, the fixes that can't change a meaning are written, reported on standard error, and no longer findings.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.messages import did_you_mean
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.sources import load_all
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.checks.crd_rules import check_crds
from ssa_operator.tools.checks.template_checks import CheckedProject, check_templates
from ssa_operator.tools.findings.findings import CODES, Finding
from ssa_operator.tools.findings.fixes import apply_fixes
from ssa_operator.tools.offline.parent_documents import read_objects
from ssa_operator.tools.offline.template_folders import crd_kinds, read_crds


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFiles:
    """The files and folders that are checked."""

    templates: Sequence[Path]
    installation: Installation
    crds: Sequence[Path]
    examples: Sequence[Path]
    schemas: KubernetesSchemas
    """The schemas of the targeted Kubernetes, without the CRDs."""


def find_problems(files: CheckedFiles) -> list[Finding]:
    """All findings, in the order of files and lines. Raises CommandError for a file that is no object."""
    definitions = read_crds(files.crds)
    project = CheckedProject(
        sources=load_all(files.templates, installation=files.installation, partial=True),
        kinds=crd_kinds(definitions),
        examples=read_objects(list(files.examples)),
        now=time.time(),
        schemas=files.schemas.with_crds(definition.body for definition in definitions),
    )
    findings = [_with_path(finding, files.templates) for finding in check_templates(files.templates, project)]
    return sorted([*check_crds(definitions), *findings], key=_place)


_FIX_ROUNDS = 10
"""A fix can uncover another finding, because a folder that doesn't load is not rendered."""


def fixed(files: CheckedFiles, findings: list[Finding]) -> list[Finding]:
    """The findings that are left after the fixes of the others."""
    for _ in range(_FIX_ROUNDS):
        replaced = apply_fixes(findings, files.templates)
        if not replaced:
            break
        for sentence in replaced:
            streams.error(f"fixed {sentence}")
        findings = find_problems(files)
    return findings


def _with_path(finding: Finding, templates: Sequence[Path]) -> Finding:
    """The finding with the path of its file, as an editor opens it, in place of the path in its templates folder."""
    if finding.location is None:
        return finding
    paths = (folder / finding.location.file for folder in templates)
    path = next((path for path in paths if path.exists()), Path(finding.location.file))
    return dataclasses.replace(finding, location=replace(finding.location, file=str(path)))


def _place(finding: Finding) -> tuple[Any, ...]:
    location = finding.location
    return (location is None, location.file if location else "", location.line if location else 0, finding.code)


def explanation(code: str) -> str:
    """What a code means, and what to do. Raises CommandError."""
    if code not in CODES:
        hint = did_you_mean(code, CODES, f"the codes are {', '.join(CODES)}")
        raise CommandError(f"there is no code {code}; {hint}", code=2)
    found = CODES[code]
    return f"{code} ({found.severity}): {found.title}\n\n{found.explanation}"

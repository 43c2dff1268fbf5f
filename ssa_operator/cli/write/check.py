"""`ssa-operator check`: finds what is wrong with templates and CRDs before a cluster sees them.

Promises:
- Every finding has a code, a severity, and the file and line where there is one. All findings are printed.
- The exit code is 1 with errors, with `--strict` also with warnings, and 0 otherwise.
- With `--fix`, the fixes that can't change a meaning are written, reported on standard error, and no longer findings.
- The output for machines is stable: a JSON list, SARIF 2.1.0, or workflow commands of GitHub Actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    CrdsOfTemplates,
    Examples,
    Kubeconfig,
    Templates,
    Values,
    example,
    installation_of,
)
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.operator.process.given_folders import check_folders
from ssa_operator.tools.offline.project_folders import crds_of, examples_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ssa_operator.rendering.folder.installation import Installation
    from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
    from ssa_operator.tools.findings.findings import Finding


class CheckFormat(StrEnum):
    """The format of findings."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator check --templates templates --fix --strict"))(check)


def check(
    templates: Templates = TEMPLATES,
    values: Values = None,
    crds: CrdsOfTemplates = None,
    examples: Examples = None,
    kubernetes: Annotated[
        str,
        typer.Option(
            envvar="SSA_OPERATOR_KUBERNETES",
            metavar="VERSION",
            help="Check manifests against this version of Kubernetes, or against the current cluster: cluster.",
        ),
    ] = KUBERNETES_VERSION,
    strict: Annotated[
        bool, typer.Option("--strict", envvar="SSA_OPERATOR_STRICT", help="Exit with 1 also for warnings.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", envvar="SSA_OPERATOR_FIX", help="Write the fixes that can't change a meaning.")
    ] = False,
    explain: Annotated[
        str, typer.Option(envvar="SSA_OPERATOR_EXPLAIN", metavar="CODE", help="Explain a code and check nothing.")
    ] = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: Annotated[
        CheckFormat, typer.Option("--output", "-o", envvar="SSA_OPERATOR_OUTPUT", help="Output format.")
    ] = CheckFormat.TEXT,
) -> None:
    """Find what is wrong with templates and CRDs before a cluster sees them.

    Every example is rendered as if its children were ready, so that all of its documents are checked.
    """
    from ssa_operator.objects.messages import counted
    from ssa_operator.tools.findings.finding_formats import write_findings, write_summary
    from ssa_operator.tools.findings.findings import Severity
    from ssa_operator.tools.schemas.target_schemas import target_schemas

    if explain:
        streams.lines(_explanation(explain))
        return
    check_folders(templates)
    inputs = _Inputs(
        templates=templates,
        installation=installation_of(values, namespace=""),
        crds=crds_of(templates, crds),
        examples=examples_of(examples, templates),
        schemas=target_schemas(kubernetes, kubeconfig=kubeconfig, context=context),
    )
    findings = _findings(inputs)
    if fix:
        findings = _fixed(inputs, findings)
    write_findings(findings, output.value)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    if errors or (strict and findings):
        found = f"{counted(errors, 'error')} and {counted(len(findings) - errors, 'warning')}"
        raise CommandError(f"check found {found}")
    write_summary(findings, output.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """The files and folders that are checked."""

    templates: Sequence[Path]
    installation: Installation
    crds: Sequence[Path]
    examples: Sequence[Path]
    schemas: KubernetesSchemas
    """The schemas of the targeted Kubernetes, without the CRDs."""


def _findings(inputs: _Inputs) -> list[Finding]:
    import time

    from ssa_operator.rendering.folder.sources import load_all
    from ssa_operator.tools.checks.crd_rules import check_crds
    from ssa_operator.tools.checks.template_checks import CheckedProject, check_templates
    from ssa_operator.tools.offline.parent_documents import read_objects
    from ssa_operator.tools.offline.template_folders import crd_kinds, read_crds

    definitions = read_crds(inputs.crds)
    project = CheckedProject(
        sources=load_all(inputs.templates, installation=inputs.installation, partial=True),
        kinds=crd_kinds(definitions),
        examples=read_objects(list(inputs.examples)),
        now=time.time(),
        schemas=inputs.schemas.with_crds(definition.body for definition in definitions),
    )
    findings = [_with_path(finding, inputs.templates) for finding in check_templates(inputs.templates, project)]
    return sorted([*check_crds(definitions), *findings], key=_place)


_FIX_ROUNDS = 10
"""A fix can uncover another finding, because a folder that doesn't load is not rendered."""


def _fixed(inputs: _Inputs, findings: list[Finding]) -> list[Finding]:
    """The findings that are left after the fixes of the others."""
    from ssa_operator.tools.findings.fixes import apply_fixes

    for _ in range(_FIX_ROUNDS):
        replaced = apply_fixes(findings, inputs.templates)
        if not replaced:
            break
        for sentence in replaced:
            streams.error(f"fixed {sentence}")
        findings = _findings(inputs)
    return findings


def _with_path(finding: Finding, templates: Sequence[Path]) -> Finding:
    """The finding with the path of its file, as an editor opens it, in place of the path in its templates folder."""
    import dataclasses

    from msgspec.structs import replace

    if finding.location is None:
        return finding
    paths = (folder / finding.location.file for folder in templates)
    path = next((path for path in paths if path.exists()), Path(finding.location.file))
    return dataclasses.replace(finding, location=replace(finding.location, file=str(path)))


def _place(finding: Finding) -> tuple[Any, ...]:
    location = finding.location
    return (location is None, location.file if location else "", location.line if location else 0, finding.code)


def _explanation(code: str) -> str:
    from ssa_operator.objects.messages import did_you_mean
    from ssa_operator.tools.findings.findings import CODES

    if code not in CODES:
        hint = did_you_mean(code, CODES, f"the codes are {', '.join(CODES)}")
        raise CommandError(f"there is no code {code}; {hint}", code=2)
    found = CODES[code]
    return f"{code} ({found.severity}): {found.title}\n\n{found.explanation}"

"""`ssa-operator check`: finds what is wrong with templates and CRDs before a cluster sees them.

Promises:
- All findings are printed.
- The exit code is 1 with errors, with `--strict` also with warnings, and 0 otherwise.
- The output for machines is stable: a JSON list, SARIF 2.1.0, or workflow commands of GitHub Actions.
- If no API server was asked for its own rules, the last line of standard error says so, and what to do.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.shared_options import (
    TEMPLATES,
    APIServerOption,
    APIServerUse,
    Context,
    CrdsOfTemplates,
    Examples,
    Kubeconfig,
    Templates,
    Values,
)
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.option_values import check_folders, installation_of


class CheckFormat(StrEnum):
    """The format of findings."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


EXAMPLE = "ssa-operator check --templates templates --fix --strict"


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="A project, a templates folder, or a folder or file in one, whose findings are shown. Default: all.",
        ),
    ] = None,
    templates: Templates = TEMPLATES,
    values: Values = None,
    crds: CrdsOfTemplates = None,
    examples: Examples = None,
    kubernetes: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="Check manifests against this version of Kubernetes, or against the current cluster: cluster.",
        ),
    ] = KUBERNETES_VERSION,
    api_server: APIServerOption = APIServerUse.AUTO,
    against: Annotated[
        str,
        typer.Option(
            metavar="DIR|FILE|REVISION",
            help="Compare the CRDs with those of a folder, a file or a git revision: what would be refused or lost?",
        ),
    ] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings, too.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Write the fixes that can't change a meaning.")] = False,
    explain: Annotated[str, typer.Option(metavar="CODE", help="Explain a code and check nothing.")] = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: Annotated[CheckFormat, typer.Option("--output", "-o", help="Output format.")] = CheckFormat.TEXT,
) -> None:
    """Find what is wrong with templates and CRDs before a cluster sees them.

    Every example is rendered as if its children were ready, so that all of its documents are checked.
    """
    from contextlib import closing

    from ssa_operator.objects.messages import counted
    from ssa_operator.tools.checks import project_checks
    from ssa_operator.tools.checks.api_server import APIServer
    from ssa_operator.tools.checks.codes import explanation
    from ssa_operator.tools.checks.output import write_findings, write_summary
    from ssa_operator.tools.findings import Severity
    from ssa_operator.tools.offline.project import checked_paths, crds_of, examples_of
    from ssa_operator.tools.schema_rules import target_schemas

    if explain:
        streams.lines(explanation(explain))
        return
    wanted = checked_paths(paths or (), templates)
    templates = list(wanted.templates) or templates
    check_folders(templates, note_empty=False)  # it reports that itself
    schemas = target_schemas(kubernetes, kubeconfig=kubeconfig, context=context)
    with closing(APIServer(schemas.version)) as server:
        files = project_checks.CheckedFiles(
            templates=templates,
            installation=installation_of(values, namespace=""),
            crds=crds_of(templates, crds),
            examples=examples_of(examples, templates),
            schemas=schemas,
            against=against,
            only=wanted.only,
            ask=server.refusals,
        )
        if api_server is APIServerUse.AUTO:
            server.begin()
        findings = project_checks.find_problems(files)
        if fix:
            findings = project_checks.fixed(files, findings)
    write_findings(findings, output.value)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    if errors or (strict and findings):
        found = f"{counted(errors, 'error')} and {counted(len(findings) - errors, 'warning')}"
        raise streams.CommandError("\n".join(filter(None, (f"check found {found}", server.note))))
    write_summary(findings, output.value)
    if server.note:
        streams.error(server.note)

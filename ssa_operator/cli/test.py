"""`ssa-operator test`: renders golden cases and compares them with what they expect.

Promises:
- The exit code is 0 if every case passes or was updated, 1 if one differs, and 2 if one can't be run.
- Without `--update` the command writes nothing but the file of `--junit`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.command_error import CommandError
from ssa_operator.cli.options import TEMPLATES, CrdsOfTemplates, Templates, check_folders, example

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ssa_operator.cli.case_suites import CaseResult


class CaseFormat(StrEnum):
    """The format of the results."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("test", epilog=example("ssa-operator test --update"))(run_cases)


def run_cases(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER...]",
            help="Projects, template folders or folders of cases. Default: the cases beside each --templates folder.",
        ),
    ] = None,
    templates: Templates = TEMPLATES,
    crds: CrdsOfTemplates = None,
    case: Annotated[
        list[str] | None,
        typer.Option(
            envvar="SSA_OPERATOR_CASE", metavar="NAME", help="Run only this case (repeatable; * matches any text)."
        ),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", envvar="SSA_OPERATOR_UPDATE", help="Write the expected files that differ.")
    ] = False,
    junit: Annotated[
        Path | None,
        typer.Option(
            envvar="SSA_OPERATOR_JUNIT", metavar="FILE", help="Write the results as JUnit XML to this file, too."
        ),
    ] = None,
    output: Annotated[
        CaseFormat, typer.Option("--output", "-o", envvar="SSA_OPERATOR_OUTPUT", help="Output format.")
    ] = CaseFormat.TEXT,
) -> None:
    """Render golden cases and compare them with what they expect.

    A case is a folder tests/<plural>.<group>/<case> beside templates: parent.yaml, and where needed children.yaml,
    others.yaml and now.txt. What it renders is in expected.yaml, status.yaml, waits.txt and problems.txt.
    """
    import secrets

    from ssa_operator.cli.case_suites import find_suites, run_suites

    if not folders:
        check_folders(templates)
    results = run_suites(
        find_suites(folders or [], templates, crds), case or [], update=update, salt=secrets.token_bytes(16)
    )
    _write(results, output, junit)
    _end(results)


def _write(results: Sequence[CaseResult], output: CaseFormat, junit: Path | None) -> None:
    from rich.console import Console

    from ssa_operator.cli import printing
    from ssa_operator.cli.case_reports import junit_xml, print_results, results_data
    from ssa_operator.cli.options import OutputFormat

    if junit is not None:
        try:
            junit.write_bytes(junit_xml(results))
        except OSError as error:
            raise CommandError(f"can't write {junit}: {error.strerror}", code=2) from error
    if output is CaseFormat.JSON:
        printing.data(results_data(results), OutputFormat.JSON)
    else:
        print_results(Console(highlight=False, soft_wrap=True), results)


def _end(results: Sequence[CaseResult]) -> None:
    """End the command with the exit code of the results."""
    from ssa_operator.cli.case_suites import CaseState

    states = {result.state for result in results}
    if CaseState.INVALID in states:
        raise CommandError("not all cases can be run", code=2)
    if CaseState.DIFFERS in states:
        raise CommandError("not all cases render what they expect; test --update accepts what they render")

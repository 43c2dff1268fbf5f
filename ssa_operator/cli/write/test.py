"""`ssa-operator test`: renders golden cases and compares them with what they expect.

Promises:
- The exit code is 0 if every case passes or was updated, 1 if one differs or the coverage is too low, and 2 if one
  can't be run.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.shared_options import TEMPLATES, CrdsOfTemplates, Templates, Values
from ssa_operator.operator.process.option_values import check_folders, installation_of


class CaseFormat(StrEnum):
    """The format of the results."""

    TEXT = "text"
    JSON = "json"


EXAMPLE = "ssa-operator test --update"


def test(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER...]",
            help="Projects, template folders or folders of cases. Default: the cases beside each --templates folder.",
        ),
    ] = None,
    templates: Templates = TEMPLATES,
    values: Values = None,
    crds: CrdsOfTemplates = None,
    case: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run only this case (repeatable; * matches any text).")
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Write the expected files that differ.")] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Name the template lines and branches that no case reaches.")
    ] = False,
    coverage_min: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT", min=0, max=100, help="Exit with 1 if the cases reach less (implies --coverage)."
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML to this file, too.")
    ] = None,
    output: Annotated[CaseFormat, typer.Option("--output", "-o", help="Output format.")] = CaseFormat.TEXT,
) -> None:
    """Render golden cases and compare them with what they expect.

    A case is a folder tests/<plural>.<group>/<case> beside templates: parent.yaml, and where needed children.yaml,
    others.yaml and now.txt. What it renders is in expected.yaml, status.yaml, waits.txt and problems.txt.
    """
    from ssa_operator.tools.cases.case_reports import CaseRun
    from ssa_operator.tools.cases.golden_cases import find_suites

    if not folders:
        check_folders(templates)
    suites = find_suites(folders or [], templates, crds, installation_of(values, namespace=""))
    CaseRun(
        suites=suites,
        names=case or [],
        update=update,
        coverage=coverage or coverage_min is not None,
        coverage_min=coverage_min,
        junit=junit,
        as_json=output is CaseFormat.JSON,
    ).run()

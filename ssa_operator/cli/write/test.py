"""`ssa-operator test`: renders golden cases and compares them with what they expect, or explores changes on a cluster.

Promises:
- The exit code is 0 if every case passes or was updated, 1 if one differs or the coverage is too low, and 2 if one
  can't be run.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.shared_options import TEMPLATES, Context, CrdsOfTemplates, Examples, Name, Templates, Values
from ssa_operator.operator.process.option_values import check_folders, installation_of
from ssa_operator.operator.process.streams import CommandError

ExploredKubeconfig = Annotated[
    str | None,
    typer.Option(
        help="Explore on the cluster of this kubeconfig file. Default: the local control plane. The environment "
        "variable alone is an error, because exploring creates and deletes objects."
    ),
]


class CaseFormat(StrEnum):
    """The format of the results."""

    TEXT = "text"
    JSON = "json"


EXAMPLE = "ssa-operator test --update"


def test(
    call: typer.Context,
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
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Run again after each change of templates, CRDs and cases, until interrupted."
        ),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML to this file, too.")
    ] = None,
    output: Annotated[CaseFormat, typer.Option("--output", "-o", help="Output format.")] = CaseFormat.TEXT,
    explore: Annotated[
        bool,
        typer.Option("--explore", help="Instead of running cases, play random sequences of spec changes on a cluster."),
    ] = False,
    replay: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Play only this sequence, which --explore has kept (repeatable)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other changes.")] = 1,
    sequences: Annotated[
        int, typer.Option(min=0, help="Sequences of each template folder. 0: no limit, with --minutes.")
    ] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Changes of each sequence at most.")] = 6,
    minutes: Annotated[
        float, typer.Option(min=0, help="Minutes for each template folder. 0: until all are played.")
    ] = 0.0,
    examples: Examples = None,
    name: Name = "explore",
    context: Context = None,
    kubeconfig: ExploredKubeconfig = None,
) -> None:
    """Render golden cases and compare them with what they expect.

    A case is a folder tests/<plural>.<group>/<case> beside templates: parent.yaml, and where needed children.yaml,
    others.yaml and now.txt. What it renders is in expected.yaml, status.yaml, waits.txt and problems.txt.

    --explore changes live parents again and again, and compares each state with that of a new parent of the same spec.
    """
    from ssa_operator.tools.cases.case_reports import CaseRun
    from ssa_operator.tools.cases.case_suites import find_suites

    if not folders:
        check_folders(templates)
    suites = find_suites(folders or [], templates, crds, installation_of(values, namespace=""))
    if explore or replay:
        from ssa_operator.operator.process.connection import Target
        from ssa_operator.tools.exploration.exploration import ExplorationOptions
        from ssa_operator.tools.exploration.exploration import explore as run_exploration
        from ssa_operator.tools.exploration.folder_exploration import SequenceOptions

        of_cases = {"--case": case, "--update": update, "--coverage": coverage, "--watch": watch, "--junit": junit}
        of_cases["--coverage-min"] = coverage_min is not None
        if given := [option for option, value in of_cases.items() if value]:
            raise CommandError(f"{given[0]} is for golden cases, which --explore and --replay don't run", code=2)
        target = Target(kubeconfig=kubeconfig, context=context) if _names_cluster(call) else None
        played = SequenceOptions(
            examples=examples,
            seed=seed,
            sequences=sequences,
            steps=steps,
            seconds=minutes * 60,
            replay=replay or [],
            quiet=output is CaseFormat.JSON,
        )
        run_exploration(ExplorationOptions(suites=suites, target=target, name=name, sequences=played))
        return
    run = CaseRun(
        suites=suites,
        names=case or [],
        update=update,
        coverage=coverage or coverage_min is not None,
        coverage_min=coverage_min,
        junit=junit,
        as_json=output is CaseFormat.JSON,
        watch=watch,
    )
    if watch:
        asyncio.run(run.run_after_changes())
    else:
        run.run()


def _names_cluster(call: typer.Context) -> bool:
    """Whether the command line names the cluster to explore. Raises CommandError if only the environment does."""
    given = ((name, call.get_parameter_source(name)) for name in ("kubeconfig", "context"))
    sources = {name: source.name for name, source in given if source is not None}
    if "COMMANDLINE" in sources.values():
        return True
    for name, source in sources.items():
        if source == "ENVIRONMENT":
            variable = f"SSA_OPERATOR_{name.upper()}"
            raise CommandError(
                f"{variable} names a cluster, and exploring creates and deletes objects in it: write "
                f"--{name}={call.params[name]} to explore there, or unset {variable} to explore on the local control "
                "plane",
                code=2,
            )
    return False

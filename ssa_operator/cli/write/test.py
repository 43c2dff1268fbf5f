"""`ssa-operator test`: renders golden cases and compares them with what they expect, or explores changes on a cluster.

Promises:
- The exit code is 0 if every case passes or was updated, 1 if one differs or the coverage is too low, and 2 if one
  can't be run.
- With `--watch` an error ends nothing: the next change runs all cases again.
- Without `--update` the command writes nothing but the file of `--junit`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    CrdsOfTemplates,
    Examples,
    Name,
    Templates,
    Values,
    example,
    installation_of,
)
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.command_error import CommandError, writing
from ssa_operator.operator.process.given_folders import check_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ssa_operator.operator.process.connection import Target
    from ssa_operator.tools.cases.case_coverage import CoverageReport
    from ssa_operator.tools.cases.case_suites import CaseResult, Suite

ExploredKubeconfig = Annotated[
    str | None,
    typer.Option(
        envvar="SSA_OPERATOR_KUBECONFIG",
        help="Explore on the cluster of this kubeconfig file. Default: the local control plane. The environment "
        "variable alone is an error, because exploring creates and deletes objects.",
    ),
]


class CaseFormat(StrEnum):
    """The format of the results."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("test", epilog=example("ssa-operator test --update"))(run_cases)


def run_cases(
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
        list[str] | None,
        typer.Option(
            envvar="SSA_OPERATOR_CASE", metavar="NAME", help="Run only this case (repeatable; * matches any text)."
        ),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", envvar="SSA_OPERATOR_UPDATE", help="Write the expected files that differ.")
    ] = False,
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage",
            envvar="SSA_OPERATOR_COVERAGE",
            help="Name the template lines and branches that no case reaches.",
        ),
    ] = False,
    coverage_min: Annotated[
        float | None,
        typer.Option(
            envvar="SSA_OPERATOR_COVERAGE_MIN",
            metavar="PERCENT",
            min=0,
            max=100,
            help="Exit with 1 if the cases reach less (implies --coverage).",
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            "-w",
            envvar="SSA_OPERATOR_WATCH",
            help="Run again after each change of templates, CRDs and cases, until interrupted.",
        ),
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
    explore: Annotated[
        bool,
        typer.Option(
            "--explore",
            envvar="SSA_OPERATOR_EXPLORE",
            help="Instead of running cases, play random sequences of spec changes on a cluster.",
        ),
    ] = False,
    replay: Annotated[
        list[Path] | None,
        typer.Option(
            envvar="SSA_OPERATOR_REPLAY",
            metavar="FILE",
            help="Play only this sequence, which --explore has kept (repeatable).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(envvar="SSA_OPERATOR_SEED", help="Another seed draws other changes.")] = 1,
    sequences: Annotated[
        int,
        typer.Option(
            envvar="SSA_OPERATOR_SEQUENCES",
            min=0,
            help="Sequences of each template folder. 0: no limit, with --minutes.",
        ),
    ] = 5,
    steps: Annotated[
        int, typer.Option(envvar="SSA_OPERATOR_STEPS", min=1, help="Changes of each sequence at most.")
    ] = 6,
    minutes: Annotated[
        float,
        typer.Option(
            envvar="SSA_OPERATOR_MINUTES", min=0, help="Minutes for each template folder. 0: until all are played."
        ),
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
    from ssa_operator.tools.cases.case_suites import find_suites

    if not folders:
        check_folders(templates)
    suites = find_suites(folders or [], templates, crds, installation_of(values, namespace=""))
    if explore or replay:
        from ssa_operator.operator.process.connection import Target

        of_cases = {"--case": case, "--update": update, "--coverage": coverage, "--watch": watch, "--junit": junit}
        of_cases["--coverage-min"] = coverage_min is not None
        if given := [option for option, value in of_cases.items() if value]:
            raise CommandError(f"{given[0]} is for golden cases, which --explore and --replay don't run", code=2)
        named = _names_cluster(call)
        exploration = Exploration(
            suites=suites,
            examples=examples,
            target=Target(kubeconfig=kubeconfig, context=context) if named else None,
            name=name,
            seed=seed,
            sequences=sequences,
            steps=steps,
            minutes=minutes,
            replay=replay or [],
            output=output,
        )
        exploration.run()
        return
    run = CaseRun(
        suites=suites,
        names=case or [],
        update=update,
        coverage=coverage or coverage_min is not None,
        junit=junit,
        output=output,
        watch=watch,
    )
    if watch:
        asyncio.run(_watch(run, coverage_min))
    _check(*run.run(), coverage_min)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRun:
    """What to run, and where to write the results."""

    suites: Sequence[Suite]
    names: Sequence[str]
    """The only cases to run, [] for all."""
    update: bool
    coverage: bool
    junit: Path | None
    output: CaseFormat
    watch: bool

    def run(self) -> tuple[list[CaseResult], CoverageReport | None]:
        """Run the cases and write the results. Raises CommandError if there is no case."""
        import secrets

        from ssa_operator.tools.cases.case_coverage import coverage_report, with_coverage
        from ssa_operator.tools.cases.case_suites import run_suites

        suites = with_coverage(self.suites) if self.coverage else self.suites
        results = run_suites(suites, self.names, update=self.update, salt=secrets.token_bytes(16))
        report = coverage_report(suites) if self.coverage else None
        self._write(results, report)
        return results, report

    def _write(self, results: Sequence[CaseResult], report: CoverageReport | None) -> None:
        from ssa_operator.rendering.folder.contained_files import write_output
        from ssa_operator.tools.cases.case_coverage import coverage_data, coverage_lines
        from ssa_operator.tools.cases.case_reports import junit_xml, print_results, results_data
        from ssa_operator.tools.terminal import printing
        from ssa_operator.tools.terminal.output_format import OutputFormat

        if self.junit is not None:
            with writing(self.junit):
                write_output(self.junit, junit_xml(results))
        if self.output is CaseFormat.JSON:
            covered = {"coverage": coverage_data(report)} if report is not None else {}
            printing.data(results_data(results) | covered, OutputFormat.JSON, document=self.watch)
            return
        print_results(streams.console(soft_wrap=True), results)
        if report is not None:
            for line in coverage_lines(report):
                streams.line(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What `--explore` and `--replay` play."""

    suites: Sequence[Suite]
    examples: Sequence[Path] | None
    target: Target | None
    """None for the local control plane."""
    name: str
    seed: int
    sequences: int
    steps: int
    minutes: float
    replay: Sequence[Path]
    output: CaseFormat

    def run(self) -> None:
        """Play the sequences and print the results. Raises CommandError with the exit code."""
        from ssa_operator.cli.write.exploration import ExplorationOptions, explore
        from ssa_operator.operator.process import connection
        from ssa_operator.tools.exploration.explored_folder import exploration_data, exploration_lines
        from ssa_operator.tools.exploration.folder_exploration import SequenceOptions
        from ssa_operator.tools.terminal import printing
        from ssa_operator.tools.terminal.output_format import OutputFormat

        sequences = SequenceOptions(
            examples=self.examples,
            seed=self.seed,
            sequences=self.sequences,
            steps=self.steps,
            seconds=self.minutes * 60,
            replay=self.replay,
            quiet=self.output is CaseFormat.JSON,
        )
        options = ExplorationOptions(suites=self.suites, target=self.target, name=self.name, sequences=sequences)
        try:
            results = connection.run(explore(options), code=2)
        except asyncio.CancelledError as error:
            raise KeyboardInterrupt from error
        if self.output is CaseFormat.JSON:
            printing.data(exploration_data(results), OutputFormat.JSON)
        else:
            for line in exploration_lines(results):
                streams.line(line)
        if any(each.failures for each in results):
            raise CommandError("not all sequences of changes end as new parents do")
        if not any(each.sequences for each in results):
            raise CommandError("no sequence was played", code=2)
        if skipped := [each.folder for each in results if each.skipped]:
            raise CommandError(f"not all template folders were explored: {', '.join(skipped)}", code=2)


async def _watch(run: CaseRun, coverage_min: float | None) -> NoReturn:
    """Run the cases now and after each change, until cancelled."""
    from ssa_operator.tools.cases.case_watch import changes_of

    roots = [path for suite in run.suites for path in (*suite.templates, *suite.crds, *suite.cases)]
    async for _ in changes_of(roots, [path for suite in run.suites for path in suite.installation.values]):
        try:
            _check(*run.run(), coverage_min)
        except CommandError as error:
            streams.error(f"{error}")
        streams.flush()
    raise AssertionError("a watch ends only when it is cancelled")


def _check(results: Sequence[CaseResult], report: CoverageReport | None, coverage_min: float | None) -> None:
    """Raises CommandError with the exit code of the results, unless all is well."""
    from ssa_operator.tools.cases.case_suites import CaseState

    states = {result.state for result in results}
    if CaseState.INVALID in states:
        raise CommandError("not all cases can be run", code=2)
    if CaseState.DIFFERS in states:
        raise CommandError("not all cases render what they expect; test --update accepts what they render")
    if report is not None and coverage_min is not None and report.percent < coverage_min:
        raise CommandError(f"the coverage is {report.percent:g} %, and --coverage-min is {coverage_min:g}")

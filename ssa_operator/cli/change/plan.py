"""`ssa-operator plan`: what the templates on disk would change, over all live parents.

Promises:
- The command changes nothing in the cluster: each apply and each deletion is a dry run. `--against` asks no cluster.
- The parents are printed in the order in which they are planned, whichever dry run is answered first.
- The exit code is 0 with or without changes, 1 if templates or manifests fail, and 2 after an error.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.shared_options import TEMPLATES, Context, Kubeconfig, Templates, Values, WatchedNamespaces
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.option_values import check_folders, check_selector, installation_of, namespaces_of
from ssa_operator.operator.process.streams import CommandError

if TYPE_CHECKING:
    from ssa_operator.tools.plan.plan_summary import PlanSummary

FAILURES = 1
ERROR = 2


class PlanFormat(StrEnum):
    """The format of a plan."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"


EXAMPLE = "ssa-operator plan --templates templates --output markdown"


def plan(
    templates: Templates = TEMPLATES,
    values: Values = None,
    namespace: WatchedNamespaces = None,
    selector: Annotated[str, typer.Option(help="Plan only parents whose labels match this label selector.")] = "",
    output: Annotated[PlanFormat, typer.Option("--output", "-o", help="Output format.")] = PlanFormat.TEXT,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            help="Write what the plan reads to this file, for --against. Hashes stand for the content of Secrets.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            help="Plan against a file of --save instead of a cluster. The API server's defaults are not known then.",
        ),
    ] = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the templates on disk would change over all live parents, by dry runs. Nothing is applied.

    Exit code 0: the plan is made, with or without changes. 1: templates or manifests fail. 2: an error.
    """
    from ssa_operator.operator.operator_options import Options
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.command_target import cluster_target
    from ssa_operator.tools.plan.all_parents import plan_against, plan_live

    check_folders(templates)
    check_selector(selector)
    options = Options(
        templates=tuple(templates),
        installation=installation_of(values),
        namespaces=namespaces_of(namespace),
        selector=selector,
    )
    if save is not None and against is not None:
        raise CommandError("--against reads no cluster that --save could store; use one of them", code=ERROR)
    if against is not None and selector:
        raise CommandError("--against has no API server for --selector; write --selector with --save", code=ERROR)
    if against is not None:
        try:
            summary = plan_against(against, options)
        except CommandError as error:
            raise CommandError(str(error), code=ERROR) from error
    else:

        async def planned() -> PlanSummary:
            return await plan_live(options, cluster_target(kubeconfig, context), save)

        summary = connection.run(planned(), code=ERROR)
    _print(summary, output)
    if summary.failed:
        raise typer.Exit(FAILURES)


def _print(summary: PlanSummary, output: PlanFormat) -> None:
    from ssa_operator.operator.process.streams import OutputFormat
    from ssa_operator.tools import printing
    from ssa_operator.tools.plan import plan_summary

    match output:
        case PlanFormat.TEXT:
            streams.lines(f"{summary.headline}\n\n")
            if summary.rows:
                printing.table(*plan_summary.table(summary))
            if streams.is_terminal():
                console = streams.console(soft_wrap=True)
                for line, style in plan_summary.styled_lines(summary):
                    console.print(line, style=style)
            else:
                streams.lines(plan_summary.text(summary))
        case PlanFormat.MARKDOWN:
            streams.lines(plan_summary.markdown(summary))
        case PlanFormat.JSON | PlanFormat.YAML:
            printing.data(plan_summary.data(summary), OutputFormat(output.value))

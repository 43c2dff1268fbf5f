"""`ssa-operator rollout`: follows, pauses and undoes the rollouts of a template folder, in kubectl's words.

Promises:
- `status` ends with 0 when the rollout has succeeded, and with 1 when it is stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ssa_operator.cli.application import Application
from ssa_operator.cli.shared_options import Context, Kubeconfig, OutputOption, Revision, Timeout, example
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError, OutputFormat

if TYPE_CHECKING:
    from ssa_operator.tools.rollouts.stored_rollouts import StoredRollouts

Result = TypeVar("Result")

_NAMED = 3
"""Changed files that a row names."""

POLL = 1.0
"""Seconds between two looks at a rollout."""

FolderName = Annotated[str, typer.Argument(metavar="FOLDER", help="Template folder, such as echoes.example.com.")]
OperatorNamespace = Annotated[
    str,
    typer.Option(help="Namespace of the operator. Default: the one that has rollouts of the folder."),
]

app = Application(
    help="Follow, pause and undo rollouts of changed templates.",
    epilog=example("ssa-operator rollout status echoes.example.com"),
)


@app.command(epilog=example("ssa-operator rollout status echoes.example.com"))
def status(
    folder: FolderName,
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Wait until the rollout ends.")] = True,
    timeout: Timeout = 0.0,
    output: OutputOption = OutputFormat.TABLE,
    operator_namespace: OperatorNamespace = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show how far a rollout is, until it ends.

    Exit code 0: it has succeeded, or it goes on and --no-watch. 1: it is stopped, or the time of --timeout is over.
    """
    import asyncio
    import contextlib

    from ssa_operator.tools import printing

    async def follow(rollouts: StoredRollouts) -> None:
        shown = ""
        while True:
            found = await rollouts.status()
            ended = not watch or found.phase in ("Complete", "Stopped")
            failed = found.phase == "Stopped"
            if output is OutputFormat.TABLE and found.message != shown and not failed:
                streams.line(found.message)
            elif output is not OutputFormat.TABLE and ended:
                printing.data(found, output)
            if failed:
                raise CommandError(found.message)
            if ended:
                return
            shown = found.message
            await asyncio.sleep(POLL)

    async def limited(rollouts: StoredRollouts) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout or None):
                await follow(rollouts)
                return
        raise CommandError(f"the rollout of {folder} has not ended within {timeout:g} s")

    _run(limited, folder, operator_namespace, context, kubeconfig)


@app.command(epilog=example("ssa-operator rollout history echoes.example.com"))
def history(
    folder: FolderName,
    revision: Revision = None,
    output: OutputOption = OutputFormat.TABLE,
    operator_namespace: OperatorNamespace = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List the revisions of a folder, the oldest first, or show one: its files, and what it changed. CHANGED has the
    files that differ from the revision before it, CHANGE-CAUSE is the annotation `kubernetes.io/change-cause` of the
    ControllerRevision.
    """
    from ssa_operator.objects.messages import counted
    from ssa_operator.tools import printing

    if revision is not None:
        one = _run(lambda rollouts: rollouts.revision(revision), folder, operator_namespace, context, kubeconfig)
        described = one.description()
        if output is not OutputFormat.TABLE:
            printing.data(described, output)
            return
        shown = {
            "name": described.name,
            "created": described.created,
            "state": described.state,
            "resultTime": described.result_time,
            "reason": described.reason,
            "changed": ", ".join(described.changed or ["<unknown>"]),
            "changeCause": described.change_cause,
            "files": ", ".join(described.files),
        }
        streams.line(f"{folder} with revision {revision}")
        streams.lines("".join(f"  {name}: {value}\n" for name, value in shown.items() if value))
        streams.lines("".join(f"{line}\n" for line in described.differences))
        return
    found = _run(lambda rollouts: rollouts.history(), folder, operator_namespace, context, kubeconfig)
    if output is not OutputFormat.TABLE:
        printing.data([each.summary() for each in found], output)
        return
    rows, reasons = [], []
    for each in (each.summary() for each in found):
        files = each.changed
        changed = "<unknown>" if files is None else counted(len(files), "file")
        if files and len(files) <= _NAMED:
            changed = ", ".join(files)
        rows.append((str(each.revision), each.name, each.created, each.state, changed, each.change_cause or "<none>"))
        if each.reason:
            reasons.append(f"revision {each.revision}: {each.reason}")
    printing.table(("REVISION", "NAME", "CREATED", "STATE", "CHANGED", "CHANGE-CAUSE"), rows)
    for reason in reasons:  # too long for a column
        streams.line(reason)


@app.command(epilog=example("ssa-operator rollout pause echoes.example.com"))
def pause(
    folder: FolderName,
    operator_namespace: OperatorNamespace = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Begin no further wave until `rollout resume`. Parents keep the revision that they are on."""
    from ssa_operator.operator.rollouts.rules import paused

    _run(lambda rollouts: rollouts.change(paused), folder, operator_namespace, context, kubeconfig)
    streams.line(f"{folder} paused")


@app.command(epilog=example("ssa-operator rollout resume echoes.example.com"))
def resume(
    folder: FolderName,
    operator_namespace: OperatorNamespace = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Go on with a rollout: one that is paused, else one that is stopped (the parents that stopped it no longer count),
    else one that waits because it deletes more than `maxPrune` allows, else one outside of its window, once.
    """
    done = _run(lambda rollouts: rollouts.resume(), folder, operator_namespace, context, kubeconfig)
    streams.line(f"{folder} {done}")


@app.command(epilog=example("ssa-operator rollout undo echoes.example.com"))
def undo(
    folder: FolderName,
    to_revision: Annotated[
        int | None,
        typer.Option(min=1, help="Number of a revision in `rollout history`. Default: the last that succeeded."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Return to another revision than the last that succeeded, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that it deletes more than `maxPrune` allows.")] = False,
    operator_namespace: OperatorNamespace = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Return to the last revision that succeeded: parents that are not Ready at once, the others in batches. It holds
    until the templates change again. It waits for no window and no pause.
    """
    done = _run(
        lambda rollouts: rollouts.undo(to_revision, force=force, confirmed=yes),
        folder,
        operator_namespace,
        context,
        kubeconfig,
    )
    streams.line(f"{folder} {done}")


def _run(
    work: Callable[[StoredRollouts], Awaitable[Result]],
    folder: str,
    namespace: str,
    context: str | None,
    kubeconfig: str | None,
) -> Result:
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.command_target import cluster_target
    from ssa_operator.tools.rollouts.stored_rollouts import find_rollouts

    async def connected() -> Result:
        async with connection.connect(cluster_target(kubeconfig, context)) as client:
            return await work(await find_rollouts(client, folder, namespace))

    return connection.run(connected())

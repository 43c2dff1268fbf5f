"""Runs `ssa-operator dev`: starts a local cluster, applies the CRDs and the examples, and runs and shows an operator.

Promises:
- The command stops a cluster that it has started, and leaves one that ran before running.
- The session follows the project: saved CRDs and examples are applied (`project_files`), and new folders start.
- The operator reconciles as soon as the API server is ready, while the programs that make pods may still be compiled.
- A terminal shows one screen with keys (`dev_console`). Without a terminal the command prints plain lines.
- With `until_ready` the command ends as soon as every example is Ready. If one is not Ready in time, it fails and names
  the example and the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ssa_operator.devcluster.progress import ignore_progress
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.manifest import group_kind
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process import connection, session, streams
from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.tools.dev.cluster_progress import ProgressLines
from ssa_operator.tools.dev.dev_cluster import local_cluster
from ssa_operator.tools.dev.dev_console import DevConsole
from ssa_operator.tools.dev.project_files import ProjectFiles

CHECK = 0.25
"""Seconds between two checks of the examples."""


class DevSession(Struct, frozen=True, kw_only=True):
    """The options of one `ssa-operator dev`."""

    templates: tuple[Path, ...]

    installation: Installation
    """What templates see of the installation."""

    crds: tuple[Path, ...]

    examples: tuple[Path, ...]

    name: str
    """The name of the local cluster."""

    listen: tuple[str | None, int] | None
    """Host and port of the HTTP server. Host None is all addresses; None is no server."""

    until_ready: float | None
    """The seconds to wait until the examples are Ready, None to run until interrupted."""

    async def run(self) -> None:
        """Run until interrupted, or with `until_ready` until the examples are Ready. Raises CommandError."""
        console = streams.console()
        report = ignore_progress if console.is_terminal else ProgressLines(streams.console(stderr=True).print)
        async with (
            # Without the controllers no example would be ready in time.
            local_cluster(self.name, report, complete=self.until_ready is not None) as local,
            connection.connect(_target(local.cluster.kubeconfig)) as client,
        ):
            stop = session.stop_on_signal()  # only now: Ctrl-C ends a start at once
            installer = await session.install(client, self.crds)
            mapper = RESTMapper(client)
            project = ProjectFiles(client, mapper, installer, crds=self.crds, examples=self.examples)
            await project.apply_examples()
            console.print(f"In another terminal: export KUBECONFIG={local.cluster.kubeconfig}", soft_wrap=True)
            operator = Operator(
                client,
                mapper,
                Options(templates=self.templates, installation=self.installation, listen=self.listen),
                crds=installer,
            )
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(session.serve(operator, stop))
                    following = group.create_task(project.follow())
                    completion = group.create_task(local.complete())
                    if console.is_terminal:
                        dev_console = DevConsole(
                            operator=operator, client=client, templates=self.templates, cluster=local, project=project
                        )
                        group.create_task(dev_console.run(console, stop))
                    if self.until_ready is not None:
                        group.create_task(_stop_when_ready(operator, project, self.until_ready, stop))
                    await stop.wait()
                    completion.cancel()
                    following.cancel()
            except* CommandError as errors:
                raise errors.exceptions[0] from None


def _target(kubeconfig: Path) -> connection.Target:
    return connection.Target(kubeconfig=str(kubeconfig))


async def _stop_when_ready(operator: Operator, project: ProjectFiles, seconds: float, stop: asyncio.Event) -> None:
    """Stop as soon as every example is Ready. Raises CommandError if one is not Ready in time."""
    deadline = time.monotonic() + seconds
    while unready := _unready(operator, project):
        if time.monotonic() > deadline:
            causes = "\n".join(f"{name}: {cause}" for name, cause in unready.items())
            raise CommandError(f"not ready after {seconds:g} s:\n{causes}")
        if await _is_stopped(stop):
            return
    stop.set()


def _unready(operator: Operator, project: ProjectFiles) -> Mapping[str, str]:
    """The examples with a template folder that are not Ready, and those that are not applied, with the reason."""
    folders = {parents.served.resource.group_kind: parents for parents in operator.folders.values()}
    unready: dict[str, str] = {}
    for document in project.examples:
        kind, metadata = group_kind(document), document.body["metadata"]
        name = f"{kind} {metadata['name']}"
        parents = folders.get(kind)
        if parents is None:
            if not operator.ready:
                unready[name] = "its folder is not synced yet"
            continue
        namespace = (metadata.get("namespace") or "default") if parents.served.resource.namespaced else ""
        live = parents.find(namespace, metadata["name"])
        report = parents.state(live).status.report if live is not None else None
        if report is None:
            unready[name] = "is not reconciled yet"
        elif not report.verdict.ready:
            unready[name] = f"{report.verdict.reason}: {report.verdict.message}"
    return unready | {problem.text.partition(": ")[0]: problem.text.partition(": ")[2] for problem in project.problems}


async def _is_stopped(stop: asyncio.Event) -> bool:
    """Wait for `CHECK` seconds. Returns whether to stop."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), CHECK)
    return stop.is_set()

"""Runs `ssa-operator dev`: starts a local cluster, applies the CRDs and the examples, and runs and shows an operator.

Promises:
- The command stops a cluster that it has started, and leaves one that ran before running. At the end it says what ran,
  and whether the cluster is gone. A second `dev` on a cluster names the first one, and ends at once.
- The session follows the project: saved CRDs and examples are applied, and new folders start. The operator reconciles
  as soon as the API server is ready, while the programs that make pods may still be compiled.
- A terminal shows one screen with keys (`dev_console`), for which log lines are kept. Without one, lines are printed.
- With `until_ready` the command ends as soon as every example is Ready. If one is not Ready in time, or if no waiting
  helps, it fails and names the example and the reason.
- If another process has the default port, `dev` takes the next free one. One that the user names is taken or refused
  before anything starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from ssa_operator.devcluster.cluster import check_name, state_directory
from ssa_operator.devcluster.processes import LockHeldError, ignore_progress, take_lock
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.manifest import group_kind
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process import connection, logging_setup, session, streams
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.tools.dev import dev_screen
from ssa_operator.tools.dev.dev_cluster import (
    LocalCluster,
    ProgressLines,
    ProjectFiles,
    ProjectProblem,
    command_errors,
    local_cluster,
)
from ssa_operator.tools.dev.dev_console import DevConsole
from ssa_operator.tools.dev.scene import TEMPLATE_ERRORS, SavedChecks, parent_entries

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

    fixed_port: bool = True
    """Whether the user named the port. Otherwise the next free one is taken."""

    pages: session.MakePages | None = None
    """Makes the web view, None for none."""

    async def run(self) -> None:
        """Run until interrupted, or with `until_ready` until the examples are Ready. Raises CommandError."""
        with _sole_dev(self.name):
            listen = listen_address(self.listen, named=self.fixed_port)
            closing: list[str] = []
            local: LocalCluster | None = None
            try:
                async with self._local_cluster() as local:
                    await self._run(local, listen, closing)
            finally:
                for line in [*closing, *([_what_is_left(local)] if local is not None else [])]:
                    streams.error(line)

    def _local_cluster(self) -> AbstractAsyncContextManager[LocalCluster]:
        report = ignore_progress if streams.is_terminal() else ProgressLines(streams.console(stderr=True).print)
        # Without the controllers no example would be ready in time.
        return local_cluster(self.name, report, complete=self.until_ready is not None)

    async def _run(self, local: LocalCluster, listen: Address | None, closing: list[str]) -> None:
        console = streams.console()
        async with connection.connect(_target(local.cluster.kubeconfig)) as client:
            stop = session.stop_on_signal()  # only now: Ctrl-C ends a start at once
            installer = await session.install(client, self.crds, self.templates, keep_data=False)
            mapper = RESTMapper(client)
            # The templates have the CRDs of `_schema.yaml`.
            crds = (*self.crds, *self.templates)
            project = ProjectFiles(client, mapper, installer, crds=crds, examples=self.examples)
            await project.apply_examples()
            console.print(f"In another terminal: {local.kubeconfig_command}", soft_wrap=True)
            page = ""
            if listen is not None and listen[1] and self.pages is not None:
                page = f"http://{listen[0] or 'localhost'}:{listen[1]}/ui/"
                console.print(f"In a browser: {page}", soft_wrap=True)
            operator = Operator(
                client,
                mapper,
                Options(
                    templates=self.templates,
                    installation=self.installation,
                    listen=listen,
                    conversion=_conversion(),
                    rollouts=False,
                ),
                crds=installer,
            )
            try:
                # Lines of the log are for the screen. Those of the end are about watches that the end breaks.
                async with contextlib.AsyncExitStack() as whole:
                    log = whole.enter_context(logging_setup.kept()) if console.is_terminal else ()
                    group = await whole.enter_async_context(asyncio.TaskGroup())
                    group.create_task(session.serve(operator, stop, self.pages))
                    others = [group.create_task(project.follow()), group.create_task(local.complete())]
                    if console.is_terminal:
                        checks = SavedChecks(
                            self.name, self.templates, self.installation.values, self.crds, self.examples
                        )
                        dev_console = DevConsole(
                            operator=operator,
                            client=client,
                            templates=self.templates,
                            cluster=local,
                            project=project,
                            checks=checks,
                            log=log,
                            page=page,
                        )
                        others.append(group.create_task(_check(operator, checks)))
                        group.create_task(dev_console.run(console, stop))
                    else:
                        others.append(group.create_task(_fail_without(local)))
                    if self.until_ready is not None:
                        group.create_task(_stop_when_ready(operator, project, self.until_ready, stop))
                    await stop.wait()
                    closing += dev_screen.closing(parent_entries(operator), outage=bool(local.outage))
                    for task in others:
                        task.cancel()
                if local.outage:
                    raise CommandError(f"the control plane is gone: {local.outage}")
            except* CommandError as errors:
                closing[:] = closing or dev_screen.closing(parent_entries(operator), outage=bool(local.outage))
                raise errors.exceptions[0] from None


@contextmanager
def _sole_dev(name: str) -> Iterator[None]:
    """Keep another `dev` from this cluster: two operators would undo each other's changes. Raises CommandError."""
    with command_errors():
        check_name(name)
    try:
        with take_lock(state_directory() / f"{name}.dev.lock", f"pid {os.getpid()}, in {Path.cwd()}"):
            yield
    except LockHeldError as held:
        raise CommandError(
            f"another ssa-operator dev runs on the local cluster {name} ({held}); end it with q or Ctrl-C there, or "
            "give this one a cluster of its own with --name"
        ) from held


def _what_is_left(local: LocalCluster) -> str:
    name = local.cluster.name
    if local.cluster.group is not None:
        return f"The local cluster {name} and all objects in it are gone"
    return f"The local cluster {name} goes on, with all objects in it; ssa-operator cluster stop --name {name} ends it"


async def _check(operator: Operator, checks: SavedChecks) -> None:
    """Check the project after the first reconcile, which is more urgent, and after each change."""
    await operator.started.wait()
    await checks.follow()


async def _fail_without(local: LocalCluster) -> None:
    """Raises CommandError as soon as the control plane is gone."""
    while not local.outage:  # noqa: ASYNC110 - a lock of another process has no event
        await asyncio.sleep(CHECK)
    raise CommandError(f"the control plane is gone: {local.outage}")


def _target(kubeconfig: Path) -> connection.Target:
    return connection.Target(kubeconfig=str(kubeconfig))


async def _stop_when_ready(operator: Operator, project: ProjectFiles, seconds: float, stop: asyncio.Event) -> None:
    """Stop as soon as every example is Ready. Raises CommandError if one is not Ready in time, or never will be."""
    deadline = time.monotonic() + seconds
    while unready := _unready(operator, project):
        if lasting := [f"{name}: {cause.text}" for name, cause in unready.items() if cause.lasting]:
            raise CommandError("\n".join(["waiting does not help:", *lasting]))
        if time.monotonic() > deadline:
            causes = "\n".join(f"{name}: {cause.text}" for name, cause in unready.items())
            raise CommandError(f"not ready after {seconds:g} s:\n{causes}")
        if await _is_stopped(stop):
            return
    stop.set()


def _unready(operator: Operator, project: ProjectFiles) -> Mapping[str, ProjectProblem]:
    """The examples with a template folder that are not Ready, and those that are not applied, with the reason."""
    folders = {parents.served.resource.group_kind: parents for parents in operator.folders.values()}
    refused = operator.controllers.refused_crds
    unready = {f"CRD {name}": ProjectProblem(reason, lasting=True) for name, reason in refused.items()}
    for document in project.examples:
        kind, metadata = group_kind(document), document.body["metadata"]
        name = f"{kind} {metadata['name']}"
        parents = folders.get(kind)
        if parents is None:
            if not operator.ready:
                unready[name] = ProjectProblem("its folder is not synced yet", lasting=False)
            continue
        namespace = (metadata.get("namespace") or "default") if parents.served.resource.namespaced else ""
        live = parents.find(namespace, metadata["name"])
        report = parents.state(live).status.report if live is not None else None
        if report is None:
            unready[name] = ProjectProblem("is not reconciled yet", lasting=False)
        elif not report.verdict.ready:
            verdict = report.verdict
            lasting = verdict.stalled and verdict.reason in TEMPLATE_ERRORS
            unready[name] = ProjectProblem(f"{verdict.reason}: {verdict.message}", lasting=lasting)
    for problem in project.problems:
        name, _, text = problem.text.partition(": ")
        unready[name] = ProjectProblem(text, problem.lasting)
    return unready


async def _is_stopped(stop: asyncio.Event) -> bool:
    """Wait for `CHECK` seconds. Returns whether to stop."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), CHECK)
    return stop.is_set()


ATTEMPTS = 100
"""Ports that are tried, from the first one on."""

Address = tuple[str | None, int]
"""A host (None: all addresses) and a port."""


def _conversion() -> tuple[str, int] | None:
    """Where conversions are served, None without the package that they need."""
    return ("127.0.0.1", 0) if find_spec("cryptography") is not None else None


def listen_address(listen: Address | None, *, named: bool) -> Address | None:
    """The address to listen on: the given one, or the next free port if the user has not `named` it. None is no server.
    Raises CommandError.
    """
    if listen is None or listen[1] == 0:
        return listen
    host, first = listen
    for port in range(first, min(first + (1 if named else ATTEMPTS), 65536)):
        problem = _bind_problem(host, port)
        if not problem:
            return host, port
    raise CommandError(f"can't listen on {host or '*'}:{first}: {problem}; choose another with --listen")


def _bind_problem(host: str | None, port: int) -> str:
    """Why no server can listen on a port, '' if one can."""
    try:
        with contextlib.ExitStack() as sockets:
            for family, kind, protocol, _, address in socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                listener = sockets.enter_context(socket.socket(family, kind, protocol))
                # As asyncio does: a port of closed connections is free.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return ""

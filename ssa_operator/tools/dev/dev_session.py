"""Runs `ssa-operator dev`: starts a local cluster, applies the CRDs and the examples, and runs and shows an operator.

Promises:
- The command stops a cluster that it has started, and leaves one that ran before running.
- The operator reconciles as soon as the API server is ready, while the programs that make pods may still be compiled.
- A terminal shows one screen with keys (`dev_console`). Without a terminal the command prints plain lines.
- With `until_ready` the command ends as soon as every example is Ready. If one is not Ready in time, it fails and names
  the example and the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.devcluster.processes import ignore_progress
from ssa_operator.kube.api import request
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process import connection, session, streams
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.object_files import FileError, load_objects
from ssa_operator.tools.dev.cluster_progress import ProgressLines
from ssa_operator.tools.dev.dev_cluster import local_cluster
from ssa_operator.tools.dev.dev_console import AS_DEV, DevConsole

CHECK = 0.25
"""Seconds between two checks of the examples."""

_OPTIONS = request.ApplyOptions(manager=AS_DEV)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


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
        examples = _load(self.examples)
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
            skipped = await _apply(client, mapper, examples, crds_refused=bool(installer.refused))
            for problem in skipped:
                streams.error(problem)
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
                    completion = group.create_task(local.complete())
                    if console.is_terminal:
                        dev_console = DevConsole(
                            operator=operator, client=client, templates=self.templates, cluster=local
                        )
                        group.create_task(dev_console.run(console, stop))
                    if self.until_ready is not None:
                        group.create_task(_stop_when_ready(operator, examples, self.until_ready, stop))
                    await stop.wait()
                    completion.cancel()
                if self.until_ready is not None and skipped:
                    raise CommandError("\n".join(skipped))
            except* CommandError as errors:
                raise errors.exceptions[0] from None


def _target(kubeconfig: Path) -> connection.Target:
    return connection.Target(kubeconfig=str(kubeconfig))


def _load(examples: Sequence[Path]) -> list[Document]:
    try:
        return load_objects(path for path in examples if path.exists())
    except FileError as error:
        raise CommandError("\n".join(map(str, error.problems))) from error


async def _apply(
    client: Client, mapper: RESTMapper, examples: Sequence[Document], *, crds_refused: bool
) -> Sequence[str]:
    """Apply the examples with the annotation of `kubectl apply`, so that the user can go on with kubectl. Returns why
    some were skipped because CRDs are refused. Raises CommandError.
    """
    skipped = []
    for document in examples:
        metadata = document.body["metadata"]
        version = split_api_version(document.body["apiVersion"])[1]
        try:
            resource = await mapper.resource(group_kind(document), version)
            namespace = metadata.get("namespace") or ("default" if resource.namespaced else "")
            body = encode(_as_kubectl(document.body, namespace))
            await client.send(request.apply(resource, namespace, metadata["name"], body, _OPTIONS))
        except (ApiError, UnknownKind) as error:
            problem = f"{document.location}: {error}"
            if not crds_refused:
                raise CommandError(problem) from error
            skipped.append(problem)
    return skipped


def _as_kubectl(body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    metadata = {**body["metadata"], "namespace": namespace} if namespace else dict(body["metadata"])
    last = encode({**body, "metadata": metadata}).decode() + "\n"
    return {**body, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), _LAST_APPLIED: last}}}


async def _stop_when_ready(
    operator: Operator, examples: Sequence[Document], seconds: float, stop: asyncio.Event
) -> None:
    """Stop as soon as every example is Ready. Raises CommandError if one is not Ready in time."""
    deadline = time.monotonic() + seconds
    while unready := _unready(operator, examples):
        if time.monotonic() > deadline:
            causes = "\n".join(f"{name}: {cause}" for name, cause in unready.items())
            raise CommandError(f"not ready after {seconds:g} s:\n{causes}")
        if await _is_stopped(stop):
            return
    stop.set()


def _unready(operator: Operator, examples: Sequence[Document]) -> Mapping[str, str]:
    """The examples with a template folder that are not Ready, with the reason."""
    folders = {parents.served.resource.group_kind: parents for parents in operator.folders.values()}
    unready = {}
    for document in examples:
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
    return unready


async def _is_stopped(stop: asyncio.Event) -> bool:
    """Wait for `CHECK` seconds. Returns whether to stop."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), CHECK)
    return stop.is_set()

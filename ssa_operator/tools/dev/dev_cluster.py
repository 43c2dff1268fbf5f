"""The local cluster of `ssa-operator dev`: starts it, applies the CRDs and examples of the files, and stops it.

Promises:
- The cluster can be used as soon as its API server is ready. The rest of its start continues meanwhile. A cluster that
  this command started is stopped at the end, even if its start was not complete.
- A saved CRD or example is applied. An unchanged one is not, so that a change in the cluster stays, and one whose file
  is deleted stays there. After a change of a CRD, all examples are applied, because the API server may have pruned
  fields of them.
- A file that can't be read, and an object that is refused, keep no other one from being applied. `problems` names them
  as long as they last. An example whose CRD is refused waits for it: the refusal is the only problem.
- What was refused is applied again, with growing pauses, and at once when a file changes.
- Examples have the annotation of `kubectl apply`, so that the user can go on with kubectl.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssa_operator.devcluster import cluster as clusters
from ssa_operator.devcluster import processes
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec
from ssa_operator.devcluster.processes import Progress, ProgressCallback, ignore_progress
from ssa_operator.operator.crd_files import DefinitionError
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError

if TYPE_CHECKING:
    from ssa_operator.devcluster.processes import Progress, ProgressCallback
import contextlib
import logging
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ssa_operator.kube.api import request
from ssa_operator.kube.api.backoff import BACKOFF_CAP, backoff
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.field_refusal import location_in
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.crd_installation import CRDInstaller
from ssa_operator.rendering.folder.contained_files import yaml_files
from ssa_operator.rendering.folder.folder_snapshot import files_state
from ssa_operator.rendering.folder.hot_reload import changes
from ssa_operator.rendering.folder.object_files import SUFFIXES, FileError, load_objects
from ssa_operator.tools.offline.project import possible_plurals


@contextmanager
def show_progress() -> Iterator[ProgressCallback]:
    """Show progress on standard error while the block runs: a bar on a terminal, else a line for each new step."""
    from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = streams.console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(console.print)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=console, transient=True) as bars:
        shown: dict[str, TaskID] = {}

        def report(step: Progress) -> None:
            if not step.total:
                console.print(step.message, soft_wrap=True)
                return
            if step.message not in shown:
                shown[step.message] = bars.add_task(step.message, total=step.total)
            bars.update(shown[step.message], completed=step.done)

        yield report


class ProgressLines:
    """Prints a step when it starts, and after each tenth."""

    def __init__(self, write: Any) -> None:
        self._write = write
        self._last: tuple[str, int] | None = None

    def __call__(self, step: Progress) -> None:
        tenths = step.done * 10 // step.total if step.total else 0
        if (step.message, tenths) == self._last:
            return
        self._last = (step.message, tenths)
        self._write(f"{step.message} ({tenths * 10} %)" if step.total else step.message, soft_wrap=True)


@contextmanager
def command_errors() -> Iterator[None]:
    """Raise the errors of a local cluster as CommandError."""
    from ssa_operator.devcluster.api import AdminRequestError
    from ssa_operator.devcluster.binaries import BinariesError
    from ssa_operator.devcluster.cluster import ClusterError
    from ssa_operator.devcluster.processes import ProcessError

    try:
        yield
    except (AdminRequestError, BinariesError, ClusterError, ProcessError) as error:
        raise CommandError(str(error)) from error


@dataclass(slots=True)
class LocalCluster:
    """A cluster whose API server is ready, and the rest of its start."""

    cluster: Cluster

    _start: asyncio.Task[Cluster]

    step: Progress | None = None
    """The current step of the start. None if it is complete."""

    @property
    def note(self) -> str:
        """One line about the rest of the start for the user. Empty if it is complete."""
        if self.step is None:
            return ""
        percent = f", {self.step.done * 100 // self.step.total} %" if self.step.total else ""
        return f"No pods yet: {self.step.message}{percent}"

    @property
    def kubeconfig_command(self) -> str:
        """The command that makes a shell use the cluster."""
        return f"export KUBECONFIG={shlex.quote(str(self.cluster.kubeconfig))}"

    @property
    def outage(self) -> str:
        """Why the control plane is gone, '' while its processes run. Nothing starts it again."""
        return self.failure.partition("; the end of ")[0]

    @property
    def failure(self) -> str:
        """The outage, with the end of the log of the component that failed."""
        directory = self.cluster.directory
        if failure := processes.describe_failure(directory):
            return failure
        if processes.is_alive(directory):
            return ""
        failed = self._start.exception() if self._start.done() and not self._start.cancelled() else None
        return str(failed or "its processes were ended")

    async def complete(self) -> None:
        """Waits for the rest of the start. Raises CommandError."""
        with command_errors():
            await asyncio.shield(self._start)
        self.step = None


@asynccontextmanager
async def local_cluster(
    name: str, report: ProgressCallback = ignore_progress, *, complete: bool = True
) -> AsyncIterator[LocalCluster]:
    """A running cluster. It is stopped in the end if it was started here. Raises CommandError, and names what ended the
    control plane if the block raises it without that reason.

    Unless it has to be complete, its API server is ready. A display shows the progress up to then; `report` gets the
    rest of it.
    """
    loop = asyncio.get_running_loop()
    usable: asyncio.Future[Cluster] = loop.create_future()
    local: LocalCluster | None = None

    def follow(progress: Progress) -> None:
        if local is None:
            show(progress)
        else:
            local.step = progress
            report(progress)

    # The progress display ends before the screen starts, because a terminal shows one live display at a time.
    with command_errors(), show_progress() as show:
        start = asyncio.create_task(clusters.start(ClusterSpec(name=name), follow, usable.set_result))
        try:
            await asyncio.wait([start] if complete else [start, usable], return_when=asyncio.FIRST_COMPLETED)
            cluster = await start if start.done() else usable.result()
        except BaseException:
            await _cancel(start)
            raise
    local = LocalCluster(cluster, start)
    if not start.done():
        local.step = Progress(message="Starting the other components")
    try:
        yield local
    except CommandError as error:
        if local.outage and local.outage not in str(error):
            raise CommandError(f"the control plane is gone: {local.failure}") from error
        raise
    finally:
        await _cancel(start)
        if cluster.group is not None:
            await cluster.stop()


async def _cancel(start: asyncio.Task[Cluster]) -> None:
    """Ends a start that goes on, with its processes."""
    start.cancel()
    await asyncio.wait([start])
    if not start.cancelled():
        start.exception()  # `complete` has raised it, or the caller's own error comes first


AS_DEV = "ssa-operator-dev"
"""The field manager of changes by the keys and examples of `dev`."""

SCHEMA_DELAY = 0.5
"""Seconds after which the API server takes objects by a CRD's new schema. Earlier, it refuses to apply a new field."""

_OPTIONS = request.ApplyOptions(manager=AS_DEV)

log = logging.getLogger("ssa_operator")


class ProjectProblem(Struct, frozen=True):
    """Why a file or an object of the project is not applied."""

    text: str
    """The reason, with the file and line."""

    lasting: bool
    """Whether only a change by the user helps."""


class ProjectFiles:
    """The files beside the templates. `examples` are those that can be read, `problems` why others are not applied."""

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        installer: CRDInstaller,
        crds: Sequence[Path],
        examples: Sequence[Path],
    ) -> None:
        self.examples: Sequence[Document] = ()
        self.problems: Sequence[ProjectProblem] = ()
        self._client = client
        self._mapper = mapper
        self._installer = installer
        self._paths = tuple(dict.fromkeys((*crds, *examples)))
        self._examples = tuple(examples)
        self._applied: Mapping[tuple[str, ...], bytes] = {}
        """The examples in the cluster, by file, kind and name."""
        self._waiting = False
        """Whether an example waits for a refused CRD, which is a problem of its own."""
        self._known = files_state(self._folders, self._files)
        self._changed = asyncio.Event()

    @property
    def _folders(self) -> list[Path]:
        # A path that doesn't exist may become a folder.
        return [path for path in self._paths if not path.is_file()]

    @property
    def _files(self) -> list[Path]:
        return [path for path in self._paths if path.is_file()]

    async def apply_examples(self) -> None:
        """Apply the examples that are not applied yet, or have changed since."""
        self.examples, problems = read_examples(self._examples)
        applied: dict[tuple[str, ...], bytes] = {}
        self._waiting = False
        for document in self.examples:
            metadata, encoded = document.body["metadata"], encode(document.body)
            names = (str(group_kind(document)), str(metadata.get("namespace", "")), str(metadata["name"]))
            key = (document.location.file, *names)
            if self._applied.get(key) == encoded:
                applied[key] = encoded
                continue
            try:
                await self._apply(document)
            except (ApiError, CredentialsError, UnknownKind) as error:
                if isinstance(error, UnknownKind) and self._is_refused(group_kind(document)):
                    self._waiting = True
                    continue
                lasting = isinstance(error, ApiError) and error.terminal
                found = location_in(document, error.fields, document.body) if isinstance(error, ApiError) else None
                problems.append(ProjectProblem(f"{found or document.location}: {error}", lasting))
            else:
                applied[key] = encoded
                log.info("%s: %s %s is applied", document.location, names[0], names[2])
        for problem in problems:
            if problem not in self.problems:
                log.error("%s", problem.text)
        self._applied, self.problems = applied, tuple(problems)

    async def follow(self) -> None:
        """Apply what changes, until cancelled."""
        watching = asyncio.create_task(self._watch(), name="watch the project's files")
        failures = 0
        try:
            while True:
                failures = failures + 1 if self.problems or self._waiting else 0
                pause = min(backoff(failures, random.random()), BACKOFF_CAP / 16) if failures else None  # noqa: S311
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
                        failures = 0
                if self._changed.is_set():
                    self._changed.clear()
                    await self._update_crds()
                await self.apply_examples()
        finally:
            watching.cancel()

    def _is_refused(self, kind: GroupKind) -> bool:
        """Whether the CRD of a kind is refused. A CRD that can't be read has its file's name."""
        refused = self._installer.refused
        return kind in self._installer.refused_kinds or any(
            f"{plural}.{kind.group}" in refused for plural in possible_plurals(kind.kind)
        )

    async def _watch(self) -> None:
        async for _ in changes(self._folders, self._files, known=self._known):
            self._changed.set()

    async def _update_crds(self) -> None:
        before = self._installer.applied
        try:
            await self._installer.install(changed=True)
        except (ApiError, CredentialsError, DefinitionError) as error:
            log.warning("the CRDs can't be applied: %s", error)
        if self._installer.applied != before:
            await asyncio.sleep(SCHEMA_DELAY)
            # The API server may have pruned fields that the CRD declares now.
            self._applied = {}

    async def _apply(self, document: Document) -> None:
        """Apply an example. Raises ApiError, CredentialsError and UnknownKind."""
        metadata = document.body["metadata"]
        version = split_api_version(document.body["apiVersion"])[1]
        resource = await self._mapper.resource(group_kind(document), version)
        namespace = metadata.get("namespace") or ("default" if resource.namespaced else "")
        body = encode(_as_kubectl(document.body, namespace))
        await self._client.send(request.apply(resource, namespace, metadata["name"], body, _OPTIONS))


def read_examples(paths: Sequence[Path]) -> tuple[list[Document], list[ProjectProblem]]:
    """The objects of files and folders that can be read, and the problems of the others. A path need not exist."""
    documents: list[Document] = []
    problems: list[ProjectProblem] = []
    for path in _example_files(paths):
        try:
            documents += load_objects([path])
        except FileError as error:
            problems += [ProjectProblem(str(problem), lasting=True) for problem in error.problems]
    return documents, problems


def _example_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from yaml_files(path, SUFFIXES)
        elif path.exists():
            yield path


def _as_kubectl(body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    metadata = {**body["metadata"], "namespace": namespace} if namespace else dict(body["metadata"])
    last = encode({**body, "metadata": metadata}).decode() + "\n"
    return {**body, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), LAST_APPLIED: last}}}

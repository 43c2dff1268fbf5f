"""Applies parents from files and reconciles them, and no others, until they are ready.

Promises:
- If the API server refuses one of the parents, none is applied.
- The operator's own reconciler, queue and workers reconcile the parents. An operator can continue where this ends, and
  vice versa.
- A parent counts as ready only after a reconcile of the version that was applied.
- A failure that only a user can repair ends the wait. For everything else it waits, even for a denial by admission.
- A held prune is confirmed only if the user asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from ssa_operator.informers.parents import Parent, ParentKey
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client, DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.kube.watch.cache import version_number
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Preview
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.connection import Target, connect
from ssa_operator.operator.process.streams import CommandError, OutputFormat
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.shared_informers import ParentError, SharedInformers
from ssa_operator.operator.workers import Workers
from ssa_operator.reconcile.child import FailureReason, Result
from ssa_operator.reconcile.observe import RECONCILE_AT
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.reconcile.reconciler import Reconciled, Reconciler
from ssa_operator.reconcile.secrets.redacted_report import redacted_error
from ssa_operator.reconcile.status.report import Report
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.tools import printing
from ssa_operator.tools.offline.documents import (
    apply_parent,
    check_namespaces,
    folder_of,
    namespaces_of_documents,
    read_parents,
    watched_namespaces,
)
from ssa_operator.tools.printing import live_lines
from ssa_operator.tools.tree.tree_view import lines, reported_entry

PRUNE_HELD = "PruneHeld"

DRAIN_DEADLINE = 5.0
"""Seconds that running reconciles have to end."""

_STILL_WAITED_FOR = frozenset({"Progressing", "WaitingForDependency"})
"""Reasons of Ready that are waited for even if a child has failed, because it may recover."""


class _Selected(Queue[ParentKey]):
    """A work queue that takes some parents only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.selected: set[ParentKey] = set()

    def add(self, key: ParentKey, cause: Cause) -> None:
        if key in self.selected:
            super().add(key, cause)

    def add_after(self, key: ParentKey, cause: Cause, seconds: float) -> None:
        if key in self.selected:
            super().add_after(key, cause, seconds)


class _RecordingReconciler(Reconciler):
    """A reconciler that hands on each result."""

    on_reconciled: Callable[[Parent, Reconciled], None]

    async def reconcile(self, parent: Parent, state: ParentState, causes: Cause) -> Reconciled:
        done = await super().reconcile(parent, state, causes)
        if not done.postponed:
            self.on_reconciled(parent, done)
        return done


@dataclass(slots=True, kw_only=True)
class AppliedParent:
    """A parent that was applied from a file, and its result so far."""

    key: ParentKey
    document: Document
    live: LiveObject
    """The parent that the last reconcile saw; before the first one, the applied parent."""
    version: str
    """The resourceVersion from which on a reconcile counts."""
    report: Report | None = None
    """The report of the last reconcile of that version or a later one."""
    error: str = ""
    """Why the last reconcile did not come to its end."""
    confirmed: bool = False
    """Whether its held prune was confirmed."""

    @property
    def ready(self) -> bool:
        return self.report is not None and self.report.verdict.ready and not self.report.suspended

    @property
    def failed(self) -> bool:
        """Whether it becomes ready only after a change by a user."""
        if self.report is None:
            return False
        verdict = self.report.verdict
        waited_for = verdict.reason in _STILL_WAITED_FOR or _is_denied_only(self.report)
        return bool(self.report.suspended) or (verdict.stalled and not waited_for)

    @property
    def state(self) -> str:
        """Its state in one line."""
        if self.report is None:
            return self.error or "is not reconciled yet"
        if self.report.suspended:
            return "Suspended: nothing is applied until it is resumed"
        text = f"{self.report.verdict.reason}: {self.report.verdict.message}"
        return f"{text} ({self.error})" if self.error else text


class FileParents:
    """The parents of some files. `opened` gives them when the informers have synced."""

    def __init__(self, client: Client, shared: SharedInformers, preview: Preview, queue: _Selected) -> None:
        self._client = client
        self._shared = shared
        self._queue = queue
        self.reconciler = _RecordingReconciler(shared.cluster)
        self.reconciler.on_reconciled = self._reconciled
        self._preview = preview
        self._changed = asyncio.Event()
        self.parents: dict[ParentKey, AppliedParent] = {}
        self._listened: set[Parents] = set()

    @property
    def problems(self) -> tuple[str, ...]:
        """The template folders and files that don't load."""
        return self._shared.controllers.templates.loaded.problem_lines

    async def check(self, documents: Sequence[Document], namespace: str) -> list[str]:
        """Why some parents can't be applied, each with its place in the file; [] if all can. Nothing is written."""
        return [problem for document in documents for problem in await self._check(document, namespace)]

    async def _check(self, document: Document, namespace: str) -> list[str]:
        try:
            await self._send(document, namespace, dry_run=True)
        except (ParentError, ApiError) as error:
            return [f"{document.location}: {error}"]
        return []

    async def apply(self, documents: Sequence[Document], namespace: str) -> None:
        """Apply the parents, and let the workers reconcile them. Raises ApiError and ParentError."""
        for document in documents:
            parents = folder_of(self._shared.controllers, group_kind(document))
            metadata = document.body["metadata"]
            within = (metadata.get("namespace") or namespace) if parents.served.resource.namespaced else ""
            key = ParentKey(parents.folder.name, within, metadata["name"])
            self._listen(parents)
            before = parents.find(key.namespace, key.name)
            if before is not None and not before.deleting:
                await self._remember_render(parents, before)
            live = await self._send(document, namespace, dry_run=False)
            self.parents[key] = AppliedParent(key=key, document=document, live=live, version=live.resource_version)
            self._queue.selected.add(key)
            now = parents.find(key.namespace, key.name)
            if now is not None and _is_as_new(now, live.resource_version):
                # Its watch event has come already, or there is none because the apply changed nothing.
                self._queue.add(key, Cause.PARENT)

    def _listen(self, parents: Parents) -> None:
        """Requeue a parent as soon as its applied version is seen, even if it has the same generation:
        an apply may change nothing but the owners of fields.
        """

        def on_change(_old: LiveObject | None, new: LiveObject | None) -> None:
            if new is None:
                return
            key = ParentKey(parents.folder.name, new.identity.namespace, new.identity.name)
            found = self.parents.get(key)
            if found is not None and found.report is None and _is_as_new(new, found.version):
                self._queue.add(key, Cause.PARENT)

        if parents not in self._listened:
            self._listened.add(parents)
            parents.listen(on_change)

    async def _send(self, document: Document, namespace: str, *, dry_run: bool) -> LiveObject:
        parents = folder_of(self._shared.controllers, group_kind(document))
        applied = await apply_parent(self._client, parents.served.resource, document.body, namespace, dry_run=dry_run)
        return applied.live

    async def _remember_render(self, parents: Parents, live: LiveObject) -> None:
        """Remember what the templates render for the parent before the file is applied, so that changes by the file do
        not count as changes of the templates.
        """
        planned = await self._preview.plan(parents.parent(live))
        parents.save_state(live, replace(parents.state(live), renders=planned.renders))

    async def until_done(self, seconds: float, *, prune: bool, on_change: Callable[[], None]) -> bool:
        """Wait until all parents are ready, or can't become ready, for `seconds` at most. `prune` confirms held
        prunes. `on_change` is called after each reconcile. Returns whether all are ready.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_done(prune=prune):
                    self._changed.clear()
                    on_change()
                    if prune:
                        await self._confirm_prunes()
                    await self._changed.wait()
        on_change()
        return all(parent.ready for parent in self.parents.values())

    def _is_done(self, *, prune: bool) -> bool:
        parents = self.parents.values()
        return all(parent.ready or (parent.failed and not (prune and _is_held(parent))) for parent in parents)

    async def _confirm_prunes(self) -> None:
        """Confirm each held prune once, by a new value of the annotation `reconcile-at`."""
        for parent in self.parents.values():
            if not _is_held(parent) or parent.confirmed:
                continue
            parent.confirmed = True
            value = datetime.now(UTC).isoformat(timespec="microseconds")
            body = encode({"metadata": {"annotations": {RECONCILE_AT: value}, "uid": parent.live.uid}})
            resource = self._shared.controllers.folders[parent.key.folder].served.resource
            await self._client.send(calls.merge_patch(resource, parent.key.namespace, parent.key.name, body))

    def _reconciled(self, parent: Parent, done: Reconciled) -> None:
        identity = parent.live.identity
        key = ParentKey(parent.folder.name, identity.namespace, identity.name)
        found = self.parents.get(key)
        if found is None or not _is_as_new(parent.live, found.version):
            return
        found.live = parent.live
        found.error = redacted_error(done.error, done.state.secrets) if done.error is not None else ""
        found.report = done.report or found.report
        self._changed.set()


def _is_denied_only(report: Report) -> bool:
    """Whether all failures are denials by admission. The workers retry these, because the cause may disappear."""
    failed = [each for each in report.outcomes if each.result is Result.FAILED]
    return (
        report.denied
        and report.verdict.reason == FailureReason.APPLY_FAILED.value
        and all(each.denied or each.retryable for each in failed)
    )


def _is_held(parent: AppliedParent) -> bool:
    return parent.report is not None and parent.report.verdict.reason == PRUNE_HELD


def _is_as_new(live: LiveObject, version: str) -> bool:
    """Whether an object is not older than a resourceVersion."""
    number, wanted = version_number(live.resource_version), version_number(version)
    if number is not None and wanted is not None:
        return number >= wanted
    return live.resource_version == version


@contextlib.asynccontextmanager
async def opened(client: Client, mapper: RESTMapper, options: Options) -> AsyncIterator[FileParents]:
    """Parents of files, and the workers that reconcile them until the end. Raises ApiError and ParentError."""
    queue, metrics = _Selected(time.monotonic), Metrics()
    shared = SharedInformers(client, mapper, options, metrics, queue)
    async with shared.synced(mapper), DryRunClient(client.credentials) as planning:
        found = FileParents(client, shared, Preview(planning, shared), queue)
        workers = Workers(queue, shared.controllers.folders, found.reconciler, metrics, options, SYSTEM)
        recording = asyncio.create_task(shared.recorder.run(), name="write events")
        tasks = [
            asyncio.create_task(shared.controllers.follow_cluster(), name="follow the cluster"),
            asyncio.create_task(shared.controllers.rediscover(), name="rediscover"),
        ]
        reconciling = workers.start()
        try:
            yield found
        finally:
            queue.close()
            await asyncio.wait(reconciling, timeout=DRAIN_DEADLINE)
            await _cancel([*tasks, *reconciling])
            await shared.recorder.close(recording)


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileApply:
    """The options of one `ssa-operator apply`."""

    files: list[str]
    templates: list[Path]
    installation: Installation
    namespace: str
    seconds: float
    """How long it waits."""
    prune: bool
    output: OutputFormat
    target: Target

    async def run(self) -> str:
        """Apply the parents and wait. Returns why parents are not ready, '' if all are. Raises CommandError."""
        try:
            return await self._apply()
        except ParentError as error:
            raise CommandError(str(error)) from error

    async def _apply(self) -> str:
        documents = read_parents(self.files)
        check_namespaces(documents, self.namespace)
        options = Options(templates=tuple(self.templates), installation=self.installation, resync_rate=0.0)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(connect(self.target))
            logging.getLogger("ssa_operator").setLevel(logging.ERROR)
            mapper, namespace = RESTMapper(client), self.namespace or client.credentials.namespace
            needed = namespaces_of_documents(documents, namespace)
            options = replace(options, namespaces=await watched_namespaces(client, mapper, self.templates, needed))
            parents = await stack.enter_async_context(opened(client, mapper, options))
            problems = [*parents.problems, *await parents.check(documents, namespace)]
            if problems:
                raise CommandError("\n".join(problems))
            await parents.apply(documents, namespace)
            with _progress(parents, quiet=self.output is not OutputFormat.TABLE) as on_change:
                ready = await parents.until_done(self.seconds, prune=self.prune, on_change=on_change)
            if self.output is not OutputFormat.TABLE:
                found = parents.parents.values()
                data = [reported_entry(each.live, each.report) | {"ready": each.ready} for each in found]
                printing.data(data, self.output)
            return "" if ready else _failures(parents, self.seconds)


def _failures(parents: FileParents, seconds: float) -> str:
    lines = []
    for parent in parents.parents.values():
        if parent.ready:
            continue
        when = "is not ready" if parent.failed else f"is not ready after {seconds:g} s"
        held = parent.report is not None and parent.report.verdict.reason == PRUNE_HELD
        hint = "; or confirm with `ssa-operator apply --prune`" if held else ""
        lines.append(f"{parent.document.location}: {parent.live.identity} {when}: {parent.state}{hint}")
    return "\n".join(lines)


@contextlib.contextmanager
def _progress(parents: FileParents, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Shows the parents at each call: as a live tree in a terminal, and else each change as a line."""
    if quiet:
        yield lambda: None
    elif streams.console().is_terminal:
        with live_lines() as show:

            def draw() -> None:
                found, now = parents.parents.values(), time.time()
                show([line for each in found for line in lines(reported_entry(each.live, each.report), now)])

            draw()
            yield draw
    else:
        yield _ProgressLines(parents)


class _ProgressLines:
    """Prints a line when the state of a parent changes."""

    def __init__(self, parents: FileParents) -> None:
        self._parents = parents
        self._shown: dict[object, str] = {}

    def __call__(self) -> None:
        for key, parent in self._parents.parents.items():
            if parent.report is not None and self._shown.get(key) != parent.state:
                self._shown[key] = parent.state
                streams.line(f"{parent.live.identity} {parent.state}")

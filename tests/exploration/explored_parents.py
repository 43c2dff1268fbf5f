"""The parents of an exploration in a running operator: applies specs, waits until they are settled, reads their states.

Promises:
- Every parent in a namespace has one of its own, which is deleted in the end.
- A parent is settled when no reconcile has run for a while; one that is not ready yet has longer.
- An object beside the parents that exists already is not changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ssa_operator.informers.parents import Parent, ParentKey
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client, DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.watch.cache import version_number
from ssa_operator.objects.annotations import ApplyPolicy
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import Identity, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.readiness import ReadinessState
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Preview
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.reconciler import Reconciled
from ssa_operator.reconcile.status.report import Report
from ssa_operator.tools.offline.documents import apply_parent
from ssa_operator.tools.offline.file_parents import AppliedParent
from tests.devcluster.waiting import until
from tests.exploration.settled_parents import Phase, SettledParent, child_state, unnamed_failures
from tests.operator.harness import operating

QUIET = 0.4
"""Seconds without a reconcile after which a parent that is ready, or failed, is settled."""

UNREADY_QUIET = 4.0
"""Seconds without a reconcile after which a parent that is not ready is settled: kwok needs less time for a pod or a
Job.
"""

LONGEST = 120.0
"""Seconds that a parent has to settle."""

_ENDLESS = 6
"""After this many changes of one child by reconciles of one spec that did not settle, the changes count as endless."""

_WRITES = frozenset({Result.CREATED, Result.CONFIGURED, Result.RECREATED, Result.PRUNED})

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A parent of a file, and the objects that its templates look up."""

    folder: str
    """The name of the template folder."""
    document: Document
    beside: tuple[Document, ...] = ()
    """Objects of which each parent gets its own."""
    shared: tuple[Document, ...] = ()
    """Objects in a namespace that the templates name, or that they look up in all: all parents have the same."""
    namespaced: bool = True


@dataclass(slots=True, kw_only=True)
class ExploredParent:
    """A parent in a namespace of its own, and what its reconciles did."""

    subject: Subject
    key: ParentKey
    namespace: str
    writes: Counter[Identity] = field(default_factory=Counter)
    """How often reconciles of the present spec changed each child."""
    endless: str = ""
    """The children that reconciles of it changed again and again."""
    crash: str = ""
    report: Report | None = None
    reconciled_at: float = 0.0
    reconciles: int = 0
    event: asyncio.Event = field(default_factory=asyncio.Event)

    def ended(self, done: Reconciled) -> None:
        """Note what a reconcile did."""
        self.reconciled_at = time.monotonic()
        self.reconciles += 1
        self.report = done.report or self.report
        if done.error is not None and not isinstance(done.error, (ApiError, CredentialsError)):
            self.crash = repr(done.error)
        for outcome in done.report.outcomes if done.report is not None else ():
            if outcome.result in _WRITES:
                self.writes[outcome.identity] += 1
        self.event.set()


class ExploredParents:
    """Creates and changes parents on one cluster."""

    def __init__(self, client: Client, mapper: RESTMapper, operator: Operator, preview: Preview) -> None:
        self._client = client
        self._mapper = mapper
        self._operator = operator
        self._preview = preview
        self._explored: dict[ParentKey, ExploredParent] = {}
        self._reconcile, operator._reconciler.reconcile = operator._reconciler.reconcile, self._reconciled  # type: ignore[method-assign]

    async def _reconciled(self, parent: Parent, state: ParentState, causes: Cause) -> Reconciled:
        done = await self._reconcile(parent, state, causes)
        identity = parent.live.identity
        explored = self._explored.get(ParentKey(parent.folder.name, identity.namespace, identity.name))
        if explored is not None and not done.postponed:
            explored.ended(done)
        return done

    async def open(self, subject: Subject) -> ExploredParent:
        """A parent that is not applied yet, in a namespace with the objects beside it. Raises ApiError."""
        name = f"explored-{next(_numbers):04}"
        for document in subject.shared:
            await self._create_namespace(document.body["metadata"]["namespace"])
            await self._apply(document, document.body["metadata"]["namespace"])
        await self._create_namespace(name) if subject.namespaced else None
        for document in subject.beside if subject.namespaced else ():
            await self._apply(document, name)
            if any(group_kind(document) == each.served.resource.group_kind for each in self._operator.folders.values()):
                folder = (await self._resource(document)).name
                beside = self._opened(replace(subject, folder=folder, document=document), name)
                await self._reconcile_now(beside)
                await self.until_quiet(beside)
        return self._opened(subject, name)

    def _opened(self, subject: Subject, namespace: str) -> ExploredParent:
        own = subject.document.body["metadata"]["name"] if subject.namespaced else namespace
        key = ParentKey(subject.folder, namespace if subject.namespaced else "", own)
        return self._explored.setdefault(key, ExploredParent(subject=subject, key=key, namespace=namespace))

    async def _resource(self, document: Document) -> Resource:
        return await self._mapper.resource(group_kind(document), split_api_version(document.body["apiVersion"])[1])

    async def _apply(self, document: Document, namespace: str) -> None:
        metadata = {**document.body["metadata"], "namespace": namespace}
        body = encode({**document.body, "metadata": metadata})
        await self._client.send(calls.apply(await self._resource(document), namespace, metadata["name"], body))

    async def _create_namespace(self, name: str) -> None:
        """Create a namespace in which pods can be created, unless it exists. Raises ApiError."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        namespaces = await self._mapper.resource_by_name("namespaces")
        accounts = await self._mapper.resource_by_name("serviceaccounts")
        if await self._client.find(namespaces, name) is None:
            await self._client.create(namespaces, "", encode(body))
        # The API server refuses a pod before.
        while await self._client.find(accounts, "default", name) is None:  # noqa: ASYNC110 - there is no watch of it
            await asyncio.sleep(0.01)

    async def apply(
        self, explored: ExploredParent, body: Mapping[str, Any], unready: float = UNREADY_QUIET
    ) -> SettledParent:
        """Apply a spec, wait until the parent is settled, and return its state. Raises ApiError and ParentError."""
        key, resource = explored.key, self._operator.folders[explored.key.folder].served.resource
        metadata = {**body["metadata"], "name": key.name}
        metadata.pop("namespace", None)
        explored.writes.clear()
        explored.crash = explored.endless = ""
        try:
            applied = await apply_parent(
                self._client, resource, {**body, "metadata": metadata}, key.namespace, dry_run=False
            )
        except ApiError as error:
            if not error.terminal:
                raise
            return replace(await self.state(explored), phase=Phase.REFUSED, message=str(error), unnamed=())
        version = version_number(applied.live.resource_version) or 0
        await until(lambda: self._version(key) >= version, LONGEST)
        await self._reconcile_now(explored)
        await self.until_quiet(explored, unready)
        return await self.state(explored)

    def _version(self, key: ParentKey) -> int:
        live = self._live(key)
        return (version_number(live.resource_version) or 0) if live is not None else -1

    def _live(self, key: ParentKey) -> LiveObject | None:
        return self._operator.folders[key.folder].find(key.namespace, key.name)

    async def reconcile_again(self, explored: ExploredParent) -> str:
        """Reconcile a settled parent as after a change of it. Returns what changed, '' for nothing."""
        explored.writes.clear()
        await self._reconcile_now(explored)
        await self.until_quiet(explored)
        return ", ".join(map(str, explored.writes))

    async def _reconcile_now(self, explored: ExploredParent) -> None:
        before = explored.reconciles
        self._operator.queue.add(explored.key, Cause.PARENT)
        async with asyncio.timeout(LONGEST):
            while explored.reconciles == before:
                explored.event.clear()
                await explored.event.wait()

    async def until_quiet(self, explored: ExploredParent, unready: float = UNREADY_QUIET) -> None:
        """Wait until a parent is settled, or changes without end. `unready` is how long one that is not ready must be
        quiet.
        """
        deadline = time.monotonic() + LONGEST
        while (now := time.monotonic()) < deadline:
            quiet = unready if self._phase(explored) is Phase.UNREADY else QUIET
            if not self._is_queued(explored.key) and now - explored.reconciled_at >= quiet:
                return
            explored.event.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(explored.event.wait(), min(quiet, UNREADY_QUIET) / 4)
        explored.endless = ", ".join(
            f"{each} {count} times" for each, count in explored.writes.items() if count >= _ENDLESS
        )

    def _is_queued(self, key: ParentKey) -> bool:
        queue = self._operator.queue
        return key in queue.processing() or any(item.key == key for item in queue.waiting())

    def _phase(self, explored: ExploredParent) -> Phase:
        live = self._live(explored.key)
        if live is None or explored.report is None:
            return Phase.UNREADY
        document = explored.subject.document
        applied = AppliedParent(key=explored.key, document=document, live=live, version="", report=explored.report)
        ready = applied.ready and explored.report.complete
        return Phase.READY if ready else Phase.FAILED if applied.failed else Phase.UNREADY

    async def state(self, explored: ExploredParent) -> SettledParent:
        """The present state of a parent, and of its children. Raises ApiError."""
        live, report = self._live(explored.key), explored.report
        if live is None or report is None:
            return SettledParent(phase=Phase.REFUSED, message="")
        if explored.crash:
            return SettledParent(phase=Phase.FAILED, message=report.verdict.message, crash=explored.crash)
        parents = self._operator.folders[explored.key.folder]
        planned = await self._preview.plan(parents.parent(live), parents.state(live))
        steps = {step.identity: step for step in planned.plan.steps}
        own_name, phase = not explored.subject.namespaced, self._phase(explored)
        manifests = {identity: step.manifest for identity, step in steps.items()}
        children = {
            child.identity: child_state(child, manifests.get(child.identity), live, own_name=own_name)
            for child in planned.observed.children.own
            if not child.deleting
        }
        rendered = planned.rendered
        return SettledParent(
            phase=phase,
            message=f"{report.verdict.reason}: {report.verdict.message}",
            children=children,
            failed=frozenset(each.identity for each in report.outcomes if each.result is Result.FAILED),
            rendered=frozenset(identity for identity, step in steps.items() if step.location is not None),
            unnamed=unnamed_failures(report) if phase is Phase.FAILED else (),
            once_unready=_is_once_unready(report),
            comparable=not (
                any(each.claimed_by_other for each in report.outcomes)
                or rendered.changed_by_time
                or rendered.again_at is not None
            ),
            crash=explored.crash,
            endless=explored.endless,
        )

    async def remove(self, explored: ExploredParent) -> None:
        """Delete a parent or its namespace, without a wait. Raises ApiError."""
        folder = explored.key.folder if not explored.subject.namespaced else "namespaces"
        resource = await self._mapper.resource_by_name(folder)
        live = await self._client.find(resource, explored.namespace)
        if live is not None:
            await self._client.delete(resource, "", explored.namespace, DeleteOptions(uid=live.uid))
        self._explored.pop(explored.key)


def _is_once_unready(report: Report) -> bool:
    unready = {child.identity for child in report.children if child.readiness.state is not ReadinessState.CURRENT}
    return any(
        outcome.identity in unready
        and outcome.manifest is not None
        and outcome.manifest.instructions.apply is not ApplyPolicy.ALWAYS
        for outcome in report.outcomes
    )


@contextlib.asynccontextmanager
async def explored_parents(client: Client, options: Options) -> AsyncIterator[ExploredParents]:
    """The parents of an operator in this process. Raises ApiError and ParentError."""
    async with operating(client, options) as running, DryRunClient(client.credentials) as planning:
        operator = running.operator
        await operator.started.wait()
        yield ExploredParents(client, operator.mapper, operator, Preview(planning, operator.shared))

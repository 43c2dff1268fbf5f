"""The parents of an exploration: applies specs, waits until they are settled, reads their states, deletes them.

Promises:
- The operator's own reconciler, queue and workers reconcile the parents, as in `ssa-operator apply`.
- Every parent in a namespace has one of its own, and its children are deleted with it in the end.
- A parent is settled when no reconcile has run for a while; one that is not ready yet has longer.
- An error of the API server ends the wait for a new namespace, unless it may pass by itself.
- An object that exists already is neither changed nor deleted.
- Everything that was created is deleted at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.annotations import ApplyPolicy
from ssa_operator.objects.identity import Identity, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.readiness import ReadinessState
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.reconciler import Reconciled
from ssa_operator.reconcile.secrets.content_fields import fields_of_child
from ssa_operator.reconcile.secrets.redacted_report import crash_text
from ssa_operator.reconcile.status.report import Report
from ssa_operator.tools.offline.file_parents import FileParents
from tests.exploration.results import ExploredObject, Names, Phase, Settled, child_state, unnamed_failures

T = TypeVar("T")

_AGAIN = 0.05
"""Seconds before a request that may pass by itself is sent again."""

_UNAUTHORIZED = 401


class Namespaces:
    """Creates and deletes namespaces. `close` deletes the shared objects."""

    def __init__(self, client: Client, mapper: RESTMapper, patience: float) -> None:
        """`patience` is how many seconds the API server has to create a namespace."""
        self._client = client
        self._mapper = mapper
        self._patience = patience
        self._shared: dict[tuple[str, str, str], None] = {}
        """The kind, namespace and name of the shared objects that exist now."""
        self._created: list[tuple[Resource, str, str, str]] = []
        """The resource, namespace, name and uid of those that were created here."""

    async def create(self, name: str) -> None:
        """Create a namespace in which pods can be created. Raises ApiError."""
        resource = await self._mapper.resource_by_name("namespaces")
        accounts = await self._mapper.resource_by_name("serviceaccounts")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        deadline = time.monotonic() + self._patience

        async def create() -> None:
            try:
                await self._client.create(resource, "", encode(body))
            except ApiError as error:
                if not error.already_exists:  # an answer that was lost
                    raise

        await _until_accepted(create, deadline)
        # The API server refuses a pod before.
        await _until_accepted(lambda: self._client.get(accounts, "default", name), deadline)

    async def delete(self, name: str) -> None:
        """Delete a namespace, if it exists. Raises ApiError."""
        resource = await self._mapper.resource_by_name("namespaces")
        live = await self._client.find(resource, name)
        if live is not None:
            await self._client.delete(resource, "", name, DeleteOptions(uid=live.uid))

    async def create_shared(self, document: Document) -> None:
        """Create an object, and its namespace, unless they exist. Raises ApiError and UnknownKind."""
        metadata = document.body["metadata"]
        namespace = metadata["namespace"]
        key = (str(group_kind(document)), namespace, metadata["name"])
        if key in self._shared:
            return
        self._shared[key] = None
        namespaces = await self._mapper.resource_by_name("namespaces")
        if await self._client.find(namespaces, namespace) is None:
            await self.create(namespace)
            live = await self._client.get(namespaces, namespace)
            self._created.append((namespaces, "", namespace, live.uid))
        version = split_api_version(document.body["apiVersion"])[1]
        resource = await self._mapper.resource(group_kind(document), version)
        if await self._client.find(resource, metadata["name"], namespace) is None:
            created = await self._client.create(resource, namespace, encode(document.body))
            self._created.append((resource, namespace, metadata["name"], created.live.uid))

    async def close(self) -> None:
        """Delete the shared objects that were created here. Raises ApiError."""
        while self._created:
            resource, namespace, name, uid = self._created.pop()
            await self._client.delete(resource, namespace, name, DeleteOptions(uid=uid))


async def _until_accepted(send: Callable[[], Awaitable[T]], deadline: float) -> T:
    """The answer to a request that the API server may refuse for a moment: the object doesn't exist yet, a webhook or
    the server is not ready. Raises ApiError if the error can't pass by itself, or has not passed in time.
    """
    while True:
        try:
            return await send()
        except ApiError as error:
            passing = error.not_found or not (error.terminal or error.code in (404, _UNAUTHORIZED))
            if not passing or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_AGAIN)


QUIET = 0.4
"""Seconds without a reconcile after which a parent that is ready, or failed, is settled."""

UNREADY_QUIET = 4.0
"""Seconds without a reconcile after which a parent that is not ready is settled: kwok needs less time for a pod or a
Job.
"""

REMOVAL_SECONDS = 120.0
"""Seconds that a parent has to be finalized after a sequence."""

_ENDLESS_WRITES = 6
"""After this many changes of one child by reconciles of one spec, the changes count as endless."""

_WRITES = frozenset({Result.CREATED, Result.CONFIGURED, Result.RECREATED, Result.PRUNED})


@dataclass(slots=True, kw_only=True)
class ExploredParent:
    """A parent in a namespace of its own, and what its reconciles did."""

    key: ParentKey
    namespace: str
    writes: dict[Identity, int] = field(default_factory=dict)
    """How often reconciles of the present spec changed each child."""
    again: dict[Identity, str] = field(default_factory=dict)
    """What the last reconciles changed."""
    crash: str = ""
    reconciled_at: float = 0.0
    reconciles: int = 0
    event: asyncio.Event = field(default_factory=asyncio.Event)


class ExploredParents:
    """Creates, changes and deletes parents on one cluster. `close` deletes what is left."""

    def __init__(
        self, client: Client, mapper: RESTMapper, parents: FileParents, token: str, patience: float = 120.0
    ) -> None:
        """`token` is the same in the names of all namespaces; `patience` is how long a parent has to settle."""
        self._client = client
        self._mapper = mapper
        self._parents = parents
        self._token = token
        self.patience = patience
        self._namespaces = Namespaces(client, mapper, patience)
        self._count = 0
        self._explored: dict[ParentKey, ExploredParent] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self.remains: list[str] = []
        """The parents and namespaces that could not be deleted."""
        parents.on_reconciled = self._reconciled

    async def open(self, subject: ExploredObject) -> ExploredParent:
        """A parent that is not applied yet, in a namespace with the objects beside it. Raises ApiError."""
        self._count += 1
        name = f"explore-{self._token}-{self._count:04}"
        own = subject.parent.body["metadata"]["name"] if subject.namespaced else name
        found = ExploredParent(key=ParentKey(subject.folder, name if subject.namespaced else "", own), namespace=name)
        self._explored[found.key] = found
        try:
            for document in subject.shared:
                await self._namespaces.create_shared(document)
            if subject.namespaced:
                await self._namespaces.create(name)
                for document in subject.beside:
                    await self._apply_beside(document, name)
        except BaseException:
            self.remove_later(found)
            raise
        return found

    async def _apply_beside(self, document: Document, namespace: str) -> None:
        """Apply an object that the templates look up. If it is a parent itself, it is reconciled, too."""
        own = {**document.body["metadata"], "namespace": namespace}
        document = replace(document, body={**document.body, "metadata": own})
        try:
            await self._parents.apply([document], namespace)
        except ParentError:
            version = split_api_version(document.body["apiVersion"])[1]
            resource = await self._mapper.resource(group_kind(document), version)
            await self._client.send(calls.apply(resource, namespace, own["name"], encode(document.body)))
            return
        key = next(key for key in self._parents.parents if (key.namespace, key.name) == (namespace, own["name"]))
        beside = self._explored[key] = ExploredParent(key=key, namespace=namespace)
        await self.until_quiet(beside)

    async def apply(
        self, explored: ExploredParent, subject: ExploredObject, body: Mapping[str, Any], unready: float = UNREADY_QUIET
    ) -> Settled:
        """Apply a spec, wait until the parent is settled, and return its state. Raises ApiError and ParentError."""
        metadata = {**body["metadata"], "name": explored.key.name}
        metadata.pop("namespace", None)
        document = replace(subject.parent, body={**body, "metadata": metadata})
        try:
            explored.writes, explored.crash = {}, ""
            await self._parents.apply([document], explored.key.namespace)
        except ApiError as error:
            if not error.terminal:
                raise
            state = await self.state(explored, subject)
            return replace(state, phase=Phase.REFUSED, message=str(error), unnamed=())
        endless = not await self.until_quiet(explored, unready=unready)
        state = await self.state(explored, subject)
        counts = ", ".join(f"{each} {count} times" for each, count in explored.writes.items() if _is_endless(count))
        return replace(state, endless=counts if endless else "")

    async def reconcile_again(self, explored: ExploredParent) -> str:
        """Reconcile a settled parent as after a change of it. Returns what changed, '' for nothing."""
        explored.again.clear()
        self._parents.reconcile_again(explored.key)
        await self.until_quiet(explored, explored.reconciles + 1)
        return "; ".join(f"{identity} was {result}" for identity, result in sorted(explored.again.items()))

    async def until_quiet(self, explored: ExploredParent, reconciles: int = 0, unready: float = UNREADY_QUIET) -> bool:
        """Wait until a parent is settled, after at least `reconciles` reconciles. False if it changes without end.
        `unready` is how long a parent that is not ready must be quiet.
        """
        deadline = time.monotonic() + self.patience
        while (now := time.monotonic()) < deadline:
            parent = self._parents.parents[explored.key]
            done = parent.report is not None and explored.reconciles >= reconciles
            done = done and not self._parents.is_queued(explored.key)
            settled = parent.failed or (parent.ready and parent.report is not None and parent.report.complete)
            quiet = QUIET if settled else unready
            if done and now - explored.reconciled_at >= quiet:
                return True
            explored.event.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(explored.event.wait(), min(quiet, UNREADY_QUIET) / 4)
        return not any(map(_is_endless, explored.writes.values()))

    async def state(self, explored: ExploredParent, subject: ExploredObject) -> Settled:
        """The present state of a parent, and of its children."""
        parent = self._parents.parents.get(explored.key)
        if parent is None:
            return Settled(phase=Phase.REFUSED, message="")
        planned = await self._parents.planned(explored.key)
        observed, rendered, secrets = planned.observed, planned.rendered, planned.secrets
        steps = {step.identity: step for step in planned.plan.steps}
        names = Names.of(parent.live, own_name=not subject.namespaced)
        children = {}
        for live in observed.children.own:
            if not live.deleting:
                children[live.identity] = child_state(live, fields_of_child(live.identity, steps, secrets), names)
        report = parent.report
        outcomes = report.outcomes if report is not None else ()
        claimed = any(outcome.claimed_by_other for outcome in outcomes)
        timed = rendered.changed_by_time or rendered.again_at is not None
        return Settled(
            phase=Phase.READY if parent.ready else Phase.FAILED if parent.failed else Phase.UNREADY,
            message=names.text(parent.state),
            children=tuple(children.values()),
            identities={identity: child.name for identity, child in children.items()},
            failed=frozenset(each.identity for each in outcomes if each.result is Result.FAILED),
            rendered=frozenset(identity for identity, step in steps.items() if step.location is not None),
            unnamed=unnamed_failures(report) if report is not None and parent.failed else (),
            once_unready=_is_once_unready(report) if report is not None else False,
            comparable=not (claimed or timed),
            crash=explored.crash,
        )

    def _reconciled(self, key: ParentKey, done: Reconciled) -> None:
        explored = self._explored.get(key)
        if explored is None:
            return
        explored.reconciled_at = time.monotonic()
        explored.reconciles += 1
        if done.error is not None and not isinstance(done.error, (ApiError, CredentialsError)):
            explored.crash = crash_text(done.error, reads_secrets=done.state.secrets.read)
        for outcome in done.report.outcomes if done.report is not None else ():
            if outcome.result in _WRITES:
                identity = outcome.identity
                explored.writes[identity] = explored.writes.get(identity, 0) + 1
                explored.again[identity] = outcome.result.value
        explored.event.set()

    # Removal.

    def remove_later(self, explored: ExploredParent) -> None:
        """Delete a parent, those beside it, and its namespace, in the background."""
        task = asyncio.create_task(self._remove(explored))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove(self, explored: ExploredParent) -> None:
        keys = [key for key, each in self._explored.items() if each.namespace == explored.namespace]
        # In parallel, because one may wait for another one's deletion.
        await asyncio.gather(*map(self._remove_parent, keys))
        if explored.key.namespace:
            try:
                await self._namespaces.delete(explored.namespace)
            except ApiError as error:
                self.remains.append(f"Namespace {explored.namespace} ({error})")
        for key in keys:
            del self._explored[key]

    async def _remove_parent(self, key: ParentKey) -> None:
        live = self._parents.find(key)
        if live is None:
            return
        resource = await self._mapper.resource_by_name(key.folder)
        try:
            await self._client.delete(resource, key.namespace, key.name, DeleteOptions(uid=live.uid))
        except ApiError as error:
            self.remains.append(f"{key} ({error})")
            return
        deadline = time.monotonic() + REMOVAL_SECONDS
        while self._parents.find(key) is not None:
            if time.monotonic() > deadline:
                self.remains.append(str(key))
                return
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Wait until everything is deleted. Raises ApiError."""
        while self._removals:
            await asyncio.gather(*self._removals)
        await self._namespaces.close()


def _is_once_unready(report: Report) -> bool:
    unready = {child.identity for child in report.children if child.readiness.state is not ReadinessState.CURRENT}
    return any(
        outcome.identity in unready
        and outcome.manifest is not None
        and outcome.manifest.instructions.apply is not ApplyPolicy.ALWAYS
        for outcome in report.outcomes
    )


def _is_endless(writes: int) -> bool:
    return writes >= _ENDLESS_WRITES

"""One cell of the fault matrix: one fault in one phase of the story, on the real API server.

Promises:
- A cell has a namespace, an operator and a proxy of its own. Users and the witness do not go through the proxy.
- A cell ends when the cluster is as the templates say, or fails with what is not.
- The outcome has everything that the operator promises under faults: no object lost, none deleted wrongly, a bounded
  number of requests, and no unexpected error in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.backoff import BACKOFF_BASE
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.flow_control import ATTEMPTS
from ssa_operator.kube.api.request import ApplyOptions, Request
from ssa_operator.kube.api.transport import Response
from ssa_operator.kube.auth import credentials
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.operator_options import Options
from ssa_operator.rendering.folder.installation import Installation
from tests.faults.proxy import FaultProxy
from tests.faults.story import (
    CHANGED_CHILD,
    DELETED,
    DELETED_CHILD,
    FIRST,
    LEAVE_CHILDREN,
    MAPS,
    NONE,
    RESOURCES,
    ROLES,
    ROLLOUT,
    STACKS,
    Body,
    Key,
    Phase,
    Snapshot,
    Specs,
    change_templates,
    differences,
    passwords,
    stack,
    write_templates,
    wrongly_deleted,
)
from tests.operator.harness import Desk, operating, uid

PATIENCE = 200.0
"""Seconds after which a cell fails that has not converged."""

RESYNC = 2.0
"""Seconds between two resyncs of a parent."""

USER = ApplyOptions(manager="user")


class CountedClient(Client):
    """A client that counts every request that it tries to send, watches included."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tried: list[str] = []

    async def _send_once(self, request: Request, headers: Any) -> Response:
        self.tried.append(request.subject)
        return await super()._send_once(request, headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.tried.append(request.subject)
        async with super().stream(request) as pieces:
            yield pieces


class Witness:
    """Everything that a user sees in a namespace of the story. It records what is deleted."""

    def __init__(self, client: Client, kubeconfig: Path, namespace: str) -> None:
        self.desk = Desk(client, kubeconfig, namespace)
        self.namespace = namespace
        self.deleted: list[tuple[Key, str]] = []
        self.added: set[Key] = set()
        self._changed = asyncio.Event()

    async def watch(self) -> None:
        """Watch all resources of the story."""
        for resource in RESOURCES:
            view = await self.desk.view(resource)

            def listen(old: LiveObject | None, new: LiveObject | None, resource: str = resource) -> None:
                self._changed.set()
                if new is not None and self._is_in_story(resource, new.identity.name):
                    self.added.add((resource, new.identity.name))
                gone = old is not None and (new is None or new.uid != old.uid)
                if gone and old is not None and self._is_in_story(resource, old.identity.name):
                    self.deleted.append(((resource, old.identity.name), old.uid))

            view.cache.listen(listen)

    def _is_in_story(self, resource: str, name: str) -> bool:
        return name.startswith(f"{self.namespace}-") if resource == ROLES else name != "kube-root-ca.crt"

    async def snapshot(self) -> Snapshot:
        """All objects as the API server has them now."""
        found: dict[Key, Body] = {}
        for resource in RESOURCES:
            known = (await self.desk.view(resource)).reflector.scope
            lives, _ = await self.desk.client.list_scope(known)
            found |= {
                (resource, live.identity.name): live.body
                for live in lives
                if self._is_in_story(resource, live.identity.name)
            }
        return found

    async def _seen(self) -> Snapshot:
        found: dict[Key, Body] = {}
        for resource in RESOURCES:
            for live in (await self.desk.view(resource)).cache:
                if self._is_in_story(resource, live.identity.name):
                    found[resource, live.identity.name] = live.body
        return found

    async def converged(self, specs: Specs, left: Specs = NONE) -> Snapshot:
        """Return once the objects are as the templates say. Raises AssertionError with the differences."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    self._changed.clear()
                    if not differences(await self._seen(), self.namespace, specs, left):
                        found = await self.snapshot()
                        if not differences(found, self.namespace, specs, left):
                            return found
                    await self._changed.wait()
        except TimeoutError:
            found = await self.snapshot()
            wrong = differences(found, self.namespace, specs, left)
            parents = {
                name: body.get("status", {}).get("conditions") for (kind, name), body in found.items() if kind == STACKS
            }
            raise AssertionError(f"after {PATIENCE:g} s: {'; '.join(wrong)}; the conditions are {parents}") from None

    # The user.

    async def apply(self, *bodies: Body) -> None:
        for body in bodies:
            plural = STACKS if body["kind"] == "Stack" else MAPS
            resource = await self.desk.mapper.resource_by_name(plural)
            await self.desk.client.apply(resource, self.namespace, body["metadata"]["name"], encode(body), USER)

    async def delete(self, key: Key) -> None:
        path = (await self.desk.mapper.resource_by_name(key[0])).path(self.namespace, key[1])
        # Unlike the operator's own, it has no precondition.
        await self.desk.client.send(Request(method="DELETE", path=path, subject=f"delete of {' '.join(key)}"))

    async def _delete_without_children(self, name: str) -> None:
        """`kubectl delete --cascade=orphan` of a parent, until the garbage collector has left its children."""
        resource = await self.desk.mapper.resource_by_name(STACKS)
        await self.desk.client.merge_patch(resource, self.namespace, name, encode(LEAVE_CHILDREN))
        path, query = resource.path(self.namespace, name), (("propagationPolicy", "Orphan"),)
        await self.desk.client.send(Request(method="DELETE", path=path, query=query, subject=f"delete of {name}"))
        view = await self.desk.view(STACKS)
        while (live := view.find(name)) and not (live.deleting and "orphan" not in live.metadata.finalizers):
            await view.change(view.changes)

    async def act(self, phase: Phase) -> None:
        """What the user does in a phase."""
        match phase:
            case Phase.START_UP | Phase.ROLLOUT:
                return
            case Phase.STEADY_STATE:
                await self.delete(DELETED_CHILD)
                name = CHANGED_CHILD[1]
                await self.apply(
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": "9"}}
                )
            case Phase.FINALIZE:
                for name in DELETED:
                    await self.delete((STACKS, name))
            case Phase.ORPHAN:
                for name in DELETED:
                    await self._delete_without_children(name)
            case _:
                await self.apply(*(stack(name, spec) for name, spec in phase.after.items()))


async def watching(client: Client, cluster: Cluster, namespace: str, cleanup: AsyncExitStack) -> Witness:
    """A witness that watches until the cleanup."""
    witness = Witness(client, cluster.kubeconfig, namespace)
    cleanup.push_async_callback(witness.desk.close)
    await witness.watch()
    return witness


# The log of a cell.

_cell_log: contextvars.ContextVar[list[logging.LogRecord] | None] = contextvars.ContextVar("cell_log", default=None)


class _CellHandler(logging.Handler):
    """Collects the records of one of several operators that run at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if _cell_log.get() is self.records:
            self.records.append(record)


@contextlib.contextmanager
def cell_log() -> Iterator[list[logging.LogRecord]]:
    """The records of the tasks that are created within."""
    handler, root = _CellHandler(), logging.getLogger()
    root.addHandler(handler)
    token = _cell_log.set(handler.records)
    try:
        yield handler.records
    finally:
        _cell_log.reset(token)
        root.removeHandler(handler)


def unexpected(records: list[logging.LogRecord]) -> list[str]:
    """The messages with a traceback, or about an error that the operator did not expect."""
    return [
        record.getMessage() + (f": {record.exc_info[1]!r}" if record.exc_info else "")
        for record in records
        if record.exc_info or "Traceback" in record.getMessage() or record.levelno >= logging.ERROR
    ]


# A cell.


@dataclass(slots=True, kw_only=True)
class Cell:
    """What an injection acts on."""

    cluster: Cluster
    client: Client
    """The administrator's."""
    folder: Path
    """A folder of the cell's own."""
    phase: Phase
    namespace: str
    templates: Path
    proxy: FaultProxy
    witness: Witness
    cleanup: AsyncExitStack

    async def act(self) -> None:
        """What the user does in the phase."""
        if self.phase is Phase.ROLLOUT:
            change_templates(self.templates, "two")
        await self.witness.act(self.phase)

    async def converged(self, *, rolled_back: bool = False) -> Snapshot:
        """Return once the objects are as the templates say: at the end of the phase, or before it if the cluster was
        rolled back. The files of the templates are not rolled back.
        """
        if rolled_back and self.phase is not Phase.ROLLOUT:
            return await self.witness.converged(FIRST)
        return await self.witness.converged(self.phase.after, self.phase.left)


class Injection(ABC):
    """A fault and its name. Subclasses say what begins and ends."""

    early = False
    """Whether it begins before the user acts. Other ones begin with the operator's first write of the phase."""

    stops_server = False
    """Whether the API server is down meanwhile, so that users act before it begins."""

    awaits_write = False
    """Whether it meets writes only, so that an operator that starts has to come to its first write."""

    rolls_back = False
    """Whether it begins when the cluster is as the phase says, and has the cluster go back to its state before."""

    hold = 6.0
    """Seconds that it lasts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def applies_to(self, phase: Phase) -> bool:  # noqa: ARG002 - for subclasses
        """Whether the phase has something that it can disturb."""
        return True

    async def prepare(self, cell: Cell) -> None:  # noqa: B027 - optional
        """Set up what the injection needs, before the operator starts."""

    async def before_act(self, cell: Cell) -> None:  # noqa: B027 - optional
        """Is called before the user acts, and before an operator starts."""

    def abandon(self) -> None:  # noqa: B027 - optional
        """A cell failed. Cells that wait for it have to fail, too."""

    async def kubeconfig(self, cell: Cell) -> Path:
        """The operator's kubeconfig."""
        return cell.proxy.write_kubeconfig(cell.folder / "kubeconfig")

    def templates(self, cell: Cell) -> tuple[Path, ...]:  # noqa: ARG002 - for subclasses
        """More folders of templates."""
        return ()

    @abstractmethod
    async def begin(self, cell: Cell) -> None:
        """Begin the fault."""

    @abstractmethod
    async def end(self, cell: Cell) -> None:
        """End the fault."""

    def took_effect(self, cell: Cell) -> bool:
        """Whether the operator can have noticed it."""
        return bool(cell.proxy.met)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a cell showed."""

    fault: str
    phase: Phase
    seconds: float = 0.0
    """From the end of the fault until the cluster was as the templates say."""
    held: float = 0.0
    """Seconds that the fault lasted."""
    requests: int = 0
    """Requests that the operator tried to send meanwhile."""
    lost: tuple[str, ...] = ()
    """Objects and generated values that are lost."""
    wrongly_deleted: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    """Unexpected messages in the operator's log."""
    problem: str = ""
    """Why the cell did not come to its end, '' if it did."""
    most_frequent: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    """The requests that were tried most often."""

    @property
    def failures(self) -> list[str]:
        """What the operator promises and did not keep."""
        found = [self.problem] if self.problem else []
        found += [f"lost: {each}" for each in self.lost]
        found += [f"deleted wrongly: {each}" for each in self.wrongly_deleted]
        found += [f"log: {each}" for each in self.log]
        if self.requests > allowance(self.held):
            allowed = f"at most {allowance(self.held)} are allowed"
            found.append(f"{self.requests} requests in {self.held:.0f} s, {allowed}: {self.most_frequent}")
        return found


OBJECTS = 11
"""The most children of a parent."""

REFLECTORS = 9


def allowance(seconds: float) -> int:
    """The most requests that the backoff allows during a fault of some seconds.

    A reconcile of a parent sends two requests for each child and for its own records and status, each ATTEMPTS times.
    After failures it is repeated after half of BACKOFF_BASE at least, then after twice as long each time; resyncs, one
    change by the user and one by the end of a watch come to that. A reflector is repeated at most as often, with a list
    and a watch each time.
    """
    doublings = math.ceil(math.log2(max(seconds, 1.0) / (BACKOFF_BASE / 2) + 1))
    reconciles = doublings + math.ceil(seconds / RESYNC) + 2
    return len(FIRST) * reconciles * (OBJECTS + 2) * 2 * ATTEMPTS + REFLECTORS * (doublings + 2) * 2


async def run_cell(cluster: Cluster, client: Client, folder: Path, injection: Injection, phase: Phase) -> Outcome:
    """Play one cell. `client` is the administrator's; `folder` has the templates in `templates`."""
    with cell_log() as records:
        outcome = Outcome(fault=str(injection), phase=phase)
        try:
            async with AsyncExitStack() as stack_of_cleanup:
                return await _play(cluster, client, folder, injection, phase, records, stack_of_cleanup)
        except Exception as error:  # noqa: BLE001 - the other cells of the matrix are played in any case
            injection.abandon()
            return Outcome(
                fault=outcome.fault,
                phase=phase,
                problem=f"{type(error).__name__}: {error}",
                log=tuple(unexpected(records)),
            )


async def _play(
    cluster: Cluster,
    client: Client,
    folder: Path,
    injection: Injection,
    phase: Phase,
    records: list[logging.LogRecord],
    cleanup: AsyncExitStack,
) -> Outcome:
    namespace = f"fault-{uuid.uuid4().hex[:8]}"
    own = folder / namespace
    own.mkdir()
    await _create_namespace(cluster, namespace)
    proxy = await cleanup.enter_async_context(FaultProxy(cluster))
    witness = await watching(client, cluster, namespace, cleanup)
    templates = folder / "templates"
    if phase is Phase.ROLLOUT:
        templates = write_templates(own / "rolled", ROLLOUT)
    cell = Cell(
        cluster=cluster,
        client=client,
        folder=own,
        phase=phase,
        namespace=namespace,
        templates=templates,
        proxy=proxy,
        witness=witness,
        cleanup=cleanup,
    )
    cleanup.push_async_callback(_remove, cell)
    await injection.prepare(cell)
    await witness.apply(*(stack(name, spec) for name, spec in FIRST.items()))
    options = Options(
        templates=(templates, *injection.templates(cell)),
        installation=Installation(namespace=namespace),
        namespaces=(namespace,),
        interval=RESYNC,
        resync_rate=50.0,
        listen=None,
    )
    access = await credentials.load(str(await injection.kubeconfig(cell)), None)
    loop = asyncio.get_running_loop()
    counted = await cleanup.enter_async_context(CountedClient(access))
    before: Snapshot = {}
    if phase is not Phase.START_UP:
        running = await cleanup.enter_async_context(AsyncExitStack())
        await running.enter_async_context(operating(counted, options))
        before = await witness.converged(FIRST)
        witness.deleted.clear()
        if phase.starts:
            await running.aclose()
    await injection.before_act(cell)
    if injection.rolls_back:
        await cell.act()
        if phase.starts:
            await cleanup.enter_async_context(operating(counted, options))
        await cell.converged()
        await injection.begin(cell)
    elif phase.starts:
        await cell.act()
        written = proxy.next_write()
        await injection.begin(cell)
        await cleanup.enter_async_context(operating(counted, options))
        if injection.awaits_write:
            await asyncio.wait_for(written, PATIENCE)
    elif injection.early or (phase is Phase.STEADY_STATE and not injection.stops_server):
        await injection.begin(cell)
        await cell.act()
    else:
        written = proxy.next_write()
        await cell.act()
        await asyncio.wait_for(written, PATIENCE)
        await injection.begin(cell)
    began, tried = loop.time(), len(counted.tried)
    # The length of the fault is what the cell is about; nothing else is waited for.
    await asyncio.sleep(injection.hold)
    requests, held = counted.tried[tried:], loop.time() - began
    await injection.end(cell)
    ended = loop.time()
    witness = cell.witness
    after = await cell.converged(rolled_back=injection.rolls_back)
    seconds = loop.time() - ended
    if injection.rolls_back:
        rolled_back = [*lost(before, after, Phase.START_UP, namespace)]
        rolled_back += wrongly_deleted(witness.deleted, before, Phase.START_UP, namespace)
        assert not rolled_back, f"after the return to the older state: {rolled_back}"
        await cell.act()
        after = await cell.converged()
    assert injection.took_effect(cell), "the fault met no request"
    if phase is Phase.FINALIZE:
        assert {(MAPS, f"{name}-bye") for name in DELETED} <= witness.added, "a finalize hook was not applied"
    return Outcome(
        fault=str(injection),
        phase=phase,
        seconds=seconds,
        held=held,
        requests=len(requests),
        lost=tuple(lost(before, after, phase, namespace)),
        wrongly_deleted=tuple(wrongly_deleted(witness.deleted, before, phase, namespace)),
        log=tuple(unexpected(records)),
        most_frequent=tuple(
            sorted(((each, requests.count(each)) for each in set(requests)), key=lambda pair: -pair[1])[:5]
        ),
    )


def lost(before: Snapshot, after: Snapshot, phase: Phase, namespace: str) -> list[str]:
    """The objects that had to stay and are gone or have another uid, and generated values that changed."""
    found = []
    for key, body in before.items():
        if not phase.may_go(key, namespace) and (key not in after or uid(after[key]) != uid(body)):
            found.append(" ".join(key))
    old, new = passwords(before), passwords(after)
    found += [f"the generated value of Secret {name}" for name in old.keys() & new.keys() if old[name] != new[name]]
    return found


async def _create_namespace(cluster: Cluster, name: str) -> None:
    async with cluster.connect() as server:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        async with asyncio.timeout(PATIENCE):
            while not await server.create("/api/v1/namespaces", body):  # noqa: ASYNC110 - the API server is busy
                await asyncio.sleep(0.05)


async def _remove(cell: Cell) -> None:
    """Remove the objects of the cell. No operator runs any more that would finalize the parents."""
    desk = cell.witness.desk
    stacks, roles = [await desk.mapper.resource_by_name(name) for name in (STACKS, ROLES)]
    for resource, name in await cell.witness.snapshot():
        if resource == STACKS:
            patch = encode({"metadata": {"finalizers": None}})
            await desk.client.send(calls.merge_patch(stacks, cell.namespace, name, patch))
        if resource == ROLES:
            await desk.client.send(Request(method="DELETE", path=roles.path("", name), subject=f"delete of {name}"))
    async with cell.cluster.connect() as server:
        await server.delete(f"/api/v1/namespaces/{cell.namespace}")

"""One run of a story on the real API server, with a perturbation or without one.

Promises:
- A run has a namespace, operators and templates of its own, so that many runs share a control plane.
- After each step the objects have to become as in the run without a perturbation, and the operators idle.
- A run without a perturbation ends each step when nothing has changed for QUIET seconds.
- What the operators ask for after that is known: at rest they send no request.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.api.leases import LeaseAccess
from ssa_operator.kube.api.request import ApplyOptions, Request
from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.shards import Shard
from ssa_operator.operator.leadership.requests import Leadership, LeadershipLost
from ssa_operator.operator.leadership.rules import LeaseTiming
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import Options
from ssa_operator.reconcile.parent_records.rules import FOLDER_KINDS
from ssa_operator.rendering.folder.installation import Installation
from tests.operator.harness import Desk, administrator, is_ready, ready_condition, uid
from tests.perturbations.history import (
    KEPT,
    Difference,
    Expectation,
    History,
    Key,
    Values,
    described,
    normalized,
)
from tests.perturbations.perturbation import (
    Disturbance,
    EventPoint,
    Lag,
    Late,
    MortalTransport,
    OldView,
    Perturbation,
    PerturbedClient,
    Process,
    Unobserved,
    WritePoint,
)
from tests.perturbations.story import RUN_LABEL, Annotate, Apply, Body, Delete, Orphan, Processes, Story, Write

PATIENCE = 180.0
"""Seconds after which a run fails whose objects are not as they have to be."""

RUN_LIMIT = 5 * PATIENCE
"""Seconds after which a perturbed run fails, however far it is: one whose operator never becomes idle, for instance."""

QUIET = 1.5
"""Seconds without a change after which a step of an unperturbed run is over."""

REST = 3.0
"""Seconds after a step of an unperturbed run for which requests at rest are counted."""

IDLE = 0.5
"""Seconds for which an operator has nothing to do before it is idle."""

USER = ApplyOptions(manager="user")

TIMING = LeaseTiming(lease_duration=10.0, renew_deadline=8.0, retry_period=1.0)
"""A takeover after a crash takes ten seconds. With less time, the replicas of many runs in one busy process lose their
Leases again and again, and no leader has the time for a reconcile.
"""

Objects = dict[Key, Body]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The run of a story without a perturbation."""

    expectation: Expectation
    deletions: Counter[Key]
    """How often each object was deleted."""
    writes: tuple[WritePoint, ...]
    events: tuple[EventPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a perturbed run."""

    story: str
    perturbation: str
    """Its description."""
    played: bool
    """Whether the run came to the point of its perturbation."""
    lost: tuple[str, ...] = ()
    """Objects and generated values that are not there any more."""
    wrongly_deleted: tuple[str, ...] = ()
    """Objects that were deleted, and not so without the perturbation."""
    problem: str = ""
    """How the objects differ; '' if they don't."""


@dataclass(slots=True)
class Run:
    """One run."""

    story: Story
    cluster: Cluster
    client: Client
    namespace: str
    templates: Path
    disturbance: Disturbance
    history: History
    desk: Desk
    deleted: list[Key] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    operators: dict[int, Operator] = field(default_factory=dict)
    restarts: dict[int, Process] = field(default_factory=dict)
    may_run: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while operators run."""
    parents: set[Key] = field(default_factory=set)
    before_old_view: frozenset[str] = frozenset()
    """The uids of the objects that were there before an old view; empty without one. What it creates has to be deleted
    before the step ends, by the operator or by Kubernetes' garbage collector.
    """
    lost_leaderships: int = 0
    """How often a replica stopped because it could not renew its Lease in time, and not by a crash."""
    _parent_keys: dict[str, Key] = field(default_factory=dict)
    """The parents by their uids."""
    at_rest: list[str] = field(default_factory=list)
    """The requests that the operators sent at rest."""
    _last_change: float = 0.0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    # The operators.

    async def operate(self, number: int) -> None:
        """One operator process after the other: when one dies, the next one starts."""
        while True:
            await self.may_run.wait()
            process = Process()
            async with contextlib.AsyncExitStack() as stack:
                operator = await self._operator(number, process, stack)
                self.operators[number], self.restarts[number] = operator, process
                work = asyncio.create_task(operator.run(asyncio.Event()))
                death = asyncio.create_task(process.dead.wait())
                try:
                    await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
                    if not process.dead.is_set():
                        try:
                            work.result()
                        except LeadershipLost:
                            self.lost_leaderships += 1
                finally:
                    process.dead.set()
                    work.cancel()
                    death.cancel()
                    await asyncio.gather(work, death, return_exceptions=True)
                    if not self.may_run.is_set():
                        del self.operators[number]

    async def _operator(self, number: int, process: Process, stack: AsyncExitStack) -> Operator:
        replicas = self.story.processes is Processes.REPLICAS
        fence = WriteFence() if replicas else None
        client = await stack.enter_async_context(PerturbedClient(await administrator(self.cluster), fence=fence))
        client.disturbance, client.process = self.disturbance, process
        options = Options(
            templates=(self.templates,),
            namespaces=(self.namespace,),
            selector=f"{RUN_LABEL}={self.namespace}" if self.story.cluster_scoped else "",
            installation=Installation(namespace=self.namespace),
            resync_rate=0.0,
            listen=None,
            shard=Shard(number, 2) if self.story.processes is Processes.SHARDS else None,
        )
        leadership = None
        if fence is not None:
            transport = await stack.enter_async_context(MortalTransport(client.credentials))
            transport.process = process
            access = LeaseAccess(transport, self.namespace, "ssa-operator", timeout=TIMING.request_timeout)
            leadership = Leadership(access, fence, TIMING)
        return Operator(client, RESTMapper(client), options, leadership=leadership)

    @asynccontextmanager
    async def operating(self) -> AsyncIterator[asyncio.TaskGroup]:
        """All operators of the story."""
        count = 1 if self.story.processes is Processes.ONE else 2
        self.may_run.set()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.operate(number)) for number in range(count)]
            tasks.append(group.create_task(self._release_when_idle()))
            try:
                await self._until_ready(count)
                yield group
            finally:
                for task in tasks:
                    task.cancel()

    async def _until_ready(self, count: int) -> None:
        while len(self.operators) < count or not any(  # noqa: ASYNC110 - an operator has no event for it
            each.ready for each in self.operators.values()
        ):
            await asyncio.sleep(0.02)

    @property
    def idle(self) -> bool:
        """Whether no operator has anything to do now. The queue of a standby waits until it leads."""
        working = [
            operator
            for operator in self.operators.values()
            if operator.leadership is None or operator.leadership.acquired.is_set()
        ]
        return bool(working) and all(
            operator.ready and not len(operator.queue) and not operator.queue.processing() for operator in working
        )

    async def until_idle(self, seconds: float = IDLE) -> None:
        """Wait until no operator has had anything to do for so many seconds."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        while loop.time() - since < seconds:
            writes = len(self.disturbance.writes)
            await asyncio.sleep(0.03)
            if not self.idle or writes != len(self.disturbance.writes):
                since = loop.time()

    async def _release_when_idle(self) -> None:
        """End the lag of a single event."""
        while isinstance(self.disturbance.perturbation, Late | Unobserved):
            await asyncio.sleep(0.03)
            if not self.disturbance.current.is_set():
                await self.until_idle()
                self.disturbance.release()

    # The user.

    async def act(self, number: int) -> None:
        """What the user does in a step."""
        if not self.story.steps[number].down:
            await self._act(number)
            return
        count = len(self.operators)
        self.may_run.clear()
        for process in self.restarts.values():
            process.dead.set()
        while self.operators:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
        await self._act(number)
        self.may_run.set()
        await self._until_ready(count)

    async def _act(self, number: int) -> None:
        for action in self.story.steps[number].actions(self.namespace):
            if isinstance(action, Write):
                file = self.templates / action.path
                draft = file.with_name(f".{file.name}.draft")
                draft.write_text(action.text)
                draft.rename(file)
                continue
            resource = await self.desk.mapper.resource_by_name(action.resource)
            match action:
                case Apply(name, body):
                    metadata, version = body["metadata"], split_api_version(body["apiVersion"])[1]
                    resource = await self.desk.mapper.resource(resource.group_kind, version)
                    namespace = metadata.get("namespace", self.namespace) if resource.namespaced else ""
                    await self.client.apply(resource, namespace, metadata["name"], encode(body), USER)
                    if name in self.story.folders:
                        self.parents.add((name, metadata["name"]))
                case Delete(_, name, elsewhere):
                    namespace = (self.namespace if elsewhere is None else elsewhere) if resource.namespaced else ""
                    path = resource.path(namespace, name)
                    self.parents.discard((action.resource, name))
                    await self.client.send(Request(method="DELETE", path=path, subject=f"delete of {path}"))
                case Orphan(_, name):
                    path = resource.path(self.namespace if resource.namespaced else "", name)
                    self.parents.discard((action.resource, name))
                    query = (("propagationPolicy", "Orphan"),)
                    subject = f"delete of {path}"
                    await self.client.send(Request(method="DELETE", path=path, subject=subject, query=query))
                    view = await self.desk.view(action.resource)
                    while (live := view.find(name)) and not _has_left_children(live):
                        await view.change(view.changes)
                case Annotate(_, name, annotations):
                    patch = encode({"metadata": {"annotations": dict(annotations)}})
                    try:
                        await self.client.merge_patch(resource, self.namespace, name, patch)
                    except ApiError as error:
                        if not error.not_found:
                            raise

    # What is there.

    async def watch(self) -> None:
        """Watch all resources of the story."""
        for resource in self.story.resources:
            view = await self.desk.view(resource)

            def listen(old: LiveObject | None, new: LiveObject | None, resource: str = resource) -> None:
                live = new or old
                if live is None or not self._is_in_run(live):
                    return
                self._last_change = asyncio.get_running_loop().time()
                self._changed.set()
                if resource in self.story.folders:
                    self._parent_keys[live.uid] = (resource, live.identity.name)
                if old is None or (new is not None and new.uid == old.uid):
                    return
                if self.before_old_view and old.uid not in self.before_old_view:
                    return
                if resource == "pods" and _was_deleted_by_name(old):
                    return
                # What is created while its parents are deleted goes with them, and may be created and collected again.
                owners = {self._parent_keys.get(each) for each in old.parent_uids}
                if not owners or owners & {None, *self.parents}:
                    self.trace.append(
                        f"{self.disturbance.step} {old.uid[:6]} {new and new.uid[:6]} {old.identity.name}"
                    )
                    self.deleted.append((resource, normalized(old.identity.name, self.namespace)))

            view.cache.listen(listen)

    def _is_in_run(self, live: LiveObject) -> bool:
        identity = live.identity
        # Kinds that a lagging watch hides from the first plan are recorded for the folder, and the record stays.
        if identity.name in {"kube-root-ca.crt", FOLDER_KINDS, self.namespace}:
            return False
        owners = live.body["metadata"].get("ownerReferences", ())
        if any(owner["kind"] in ("ReplicaSet", "StatefulSet", "Job") for owner in owners):
            return False
        return self.namespace in f"{identity.namespace} {identity.name}"

    async def seen(self) -> Objects:
        """The objects as the watches show them."""
        return {
            (resource, live.identity.name): live.body
            for resource in self.story.resources
            for live in (await self.desk.view(resource)).cache
            if self._is_in_run(live)
        }

    async def read(self) -> Objects:
        """The objects as the API server has them now."""
        found: Objects = {}
        for resource in self.story.resources:
            scope = (await self.desk.view(resource)).reflector.scope
            lives, _ = await self.client.list_scope(scope)
            found |= {(resource, live.identity.name): live.body for live in lives if self._is_in_run(live)}
        return found

    async def versions(self) -> dict[str, str]:
        """The resourceVersions that the resources have now."""
        watched = {*self.story.resources} - {"customresourcedefinitions.apiextensions.k8s.io"}
        scopes = {resource: (await self.desk.view(resource)).reflector.scope for resource in watched}
        return {resource: await self.client.latest_version(scope) for resource, scope in scopes.items()}

    async def _until(self, judge: Callable[[Objects], object]) -> Objects:
        """The objects once they are judged well, and all operators are idle."""
        while True:
            self._changed.clear()
            if self.idle and judge(await self.seen()):
                found = await self.read()
                await self.until_idle(0.1)
                if judge(found):
                    return found
            await asyncio.sleep(0.1)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await self._changed.wait()

    async def settled(self, number: int) -> Objects:
        """The objects once a step has come to its end, and nothing has changed for QUIET seconds. Raises AssertionError
        with what is there after PATIENCE.
        """
        step = self.story.steps[number]

        def judge(objects: Objects) -> object:
            quiet = asyncio.get_running_loop().time() - self._last_change
            ready = not self.story.reports_status or all(
                key in objects and is_ready(objects[key]) for key in self.parents
            )
            uids = {uid(body) for body in objects.values()}
            owned = all(
                owner["uid"] in uids
                for (resource, _), body in objects.items()
                if resource != "namespaces"
                for owner in body["metadata"].get("ownerReferences", ())
            )
            gone = all(key[0] not in self.story.folders or key in self.parents for key in objects)
            deleting = any("deletionTimestamp" in body["metadata"] for body in objects.values())
            gone = (gone and not deleting) or not step.decided
            return quiet > QUIET and ready and owned and gone and step.ends(objects)

        try:
            async with asyncio.timeout(PATIENCE):
                return await self._until(judge)
        except TimeoutError:
            found = await self.read()
            ready = {name: ready_condition(body) for (kind, name), body in found.items() if kind in self.story.folders}
            raise AssertionError(f"{step.name!r} has not ended: {ready}; there are {sorted(found)}") from None

    async def converged(self, expectation: Expectation, before: Values | None = None) -> list[Difference]:
        """How the objects differ from those of the unperturbed run, after PATIENCE; nothing as soon as they don't and
        all operators are idle. What this run drew has to be as `before`.
        """

        def differences(objects: Objects) -> list[Difference]:
            values = self.history.values(objects)
            found = expectation.differences(self.history.steps, values)
            if before is not None:
                found += expectation.changes(before, values)
                if not step.decided:
                    # An old view shows how a deletion began, and so decides it.
                    stays = {*objects, *self.parents}
                    found = [each for each in found if each.key in stays or each.key[0] not in self.story.folders]
            if not step.ends(objects):
                found.append(Difference(("the step", ""), "", "has not come to its end"))
            return found

        step = self.story.steps[self.disturbance.step]

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                found = await self._until(lambda objects: not differences(objects))
                self.history.steps.append(self.history.values(found))
                return []
        return differences(await self.read()) or [Difference(("the operator", ""), "", "is not idle")]


@asynccontextmanager
async def new_run(
    story: Story, cluster: Cluster, client: Client, folder: Path, perturbation: Perturbation | None
) -> AsyncIterator[Run]:
    """A run that has not begun, in a new namespace."""
    namespace = f"p-{uuid.uuid4().hex[:10]}"
    async with contextlib.AsyncExitStack() as stack:
        desk = await stack.enter_async_context(Desk(client, cluster.kubeconfig, "default").elsewhere(namespace))
        resource = await desk.mapper.resource_by_name("namespaces")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.apply(resource, "", namespace, encode(body), USER)
        stack.push_async_callback(_delete_namespaces, client, namespace)
        await desk.read("serviceaccounts", "default")
        run = Run(
            story=story,
            cluster=cluster,
            client=client,
            namespace=namespace,
            templates=story.write_templates(folder / namespace, namespace),
            disturbance=Disturbance(namespace, perturbation),
            history=History(namespace),
            desk=desk,
        )
        await run.watch()
        yield run


def _was_deleted_by_name(pod: LiveObject) -> bool:
    """Whether kwok deleted a pod that nobody had asked it to delete.

    As a kubelet it ends pods that are in deletion, but it deletes them by their names, and on a busy machine more than
    once: the next pod of that name goes, too. All others leave a scheduled pod its grace period, so that it is in
    deletion first.
    """
    return bool(pod.body["spec"].get("nodeName")) and not pod.deleting


async def _delete_namespaces(client: Client, namespace: str) -> None:
    """Delete the namespaces of a run; nothing waits for that."""
    for suffix in ("", "-team", "-registry", "-temp"):
        path = f"/api/v1/namespaces/{namespace}{suffix}"
        with contextlib.suppress(Exception):
            await client.send(Request(method="DELETE", path=path, subject=f"delete of {path}"))


def _has_left_children(live: LiveObject) -> bool:
    """Whether the garbage collector has left the children of an object that is deleted without them."""
    return live.deleting and "orphan" not in live.metadata.finalizers


async def play_unperturbed(
    story: Story, cluster: Cluster, client: Client, folder: Path, rest: float = 0.0
) -> tuple[History, Run]:
    """The history of a run without a perturbation. After each step, requests at rest are counted for `rest` seconds."""
    async with new_run(story, cluster, client, folder, None) as run, run.operating():
        for number in range(len(story.steps)):
            run.disturbance.step = number
            await run.act(number)
            run.history.steps.append(run.history.values(await run.settled(number)))
            sent = len(run.disturbance.requests)
            # There is no event for what does not happen.
            await asyncio.sleep(rest)
            run.at_rest += [f"{story.steps[number].name}: {each}" for each in run.disturbance.requests[sent:]]
    return run.history, run


async def reference(story: Story, cluster: Cluster, client: Client, folder: Path) -> Reference:
    """What two unperturbed runs have in common."""
    (one, first), (other, second) = [await play_unperturbed(story, cluster, client, folder) for _ in range(2)]
    return Reference(
        expectation=Expectation.of(one, other),
        deletions=counted(first.deleted) | counted(second.deleted),
        writes=tuple(sorted({*first.disturbance.writes, *second.disturbance.writes})),
        events=tuple(sorted({*first.disturbance.events, *second.disturbance.events})),
    )


def counted(deleted: Sequence[Key]) -> Counter[Key]:
    """How often objects were deleted, without the operator's own Secrets."""
    return Counter(key for key in deleted if not key[1].startswith(KEPT))


async def play(
    story: Story, cluster: Cluster, client: Client, folder: Path, known: Reference, perturbation: Perturbation
) -> Outcome:
    """The outcome of a perturbed run. A run that raises is one that fails."""
    try:
        async with asyncio.timeout(RUN_LIMIT):
            return await _play(story, cluster, client, folder, known, perturbation)
    except Exception as error:  # noqa: BLE001 - the other runs go on
        return Outcome(
            story=story.name, perturbation=str(perturbation), played=True, problem=f"the run raised {error!r}"
        )


async def _play(
    story: Story, cluster: Cluster, client: Client, folder: Path, known: Reference, perturbation: Perturbation
) -> Outcome:
    problems: list[str] = []
    differences: list[Difference] = []
    async with new_run(story, cluster, client, folder, perturbation) as run, run.operating():
        disturbance = run.disturbance
        for number in range(len(story.steps)):
            disturbance.step = number
            before = await run.versions() if isinstance(perturbation, OldView) else {}
            if isinstance(perturbation, Lag) and perturbation.step == number:
                disturbance.hold(perturbation.resource)
                disturbance.played = True
            await run.act(number)
            if isinstance(perturbation, Lag) and perturbation.step == number:
                await run.until_idle()
                disturbance.release()
            differences = await run.converged(known.expectation)
            if not differences and isinstance(perturbation, OldView) and perturbation.step == number:
                problems += await _restart_in_the_past(run, perturbation, before)
                disturbance.played = True
                differences = await run.converged(known.expectation, run.history.steps.pop())
                run.before_old_view = frozenset()
            if differences:
                problems.append(f"after {story.steps[number].name!r}: {described(differences)}")
                break
    lost = [str(difference) for difference in differences if difference.lost]
    wrong = sorted((counted(run.deleted) - known.deletions).elements()) if not differences else []
    problems += [f"{' '.join(key)} was deleted" for key in wrong]
    if problems and run.lost_leaderships:
        problems.append(f"replicas could not renew their Lease in time, {run.lost_leaderships} times")
    if wrong:
        problems.append(f"deleted: {run.trace}; expected {dict(known.deletions)}")
    return Outcome(
        story=story.name,
        perturbation=str(perturbation),
        played=disturbance.played,
        lost=tuple(lost),
        wrongly_deleted=tuple(" ".join(key) for key in wrong),
        problem="; ".join(problems),
    )


async def _restart_in_the_past(run: Run, perturbation: OldView, versions: dict[str, str]) -> list[str]:
    """Restart all operators with an old view. Returns which objects they delete by it."""
    before = {key: uid(body) for key, body in (await run.read()).items()}
    run.before_old_view = frozenset(before.values())
    chosen = {name: version for name, version in versions.items() if perturbation.resource in ("", name)}
    run.disturbance.old_versions.update(chosen)
    run.disturbance.hold(*chosen)
    for number, process in list(run.restarts.items()):
        former = run.operators[number]
        process.dead.set()
        while run.operators[number] is former or not run.operators[number].ready:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
    await run.until_idle()
    after = {key: uid(body) for key, body in (await run.read()).items()}
    run.disturbance.release()
    return [f"by its old view {' '.join(key)} was deleted" for key in before if after.get(key) != before[key]]

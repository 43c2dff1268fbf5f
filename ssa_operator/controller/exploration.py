"""Plays sequences of spec changes on parents in a cluster, and compares each state with that of a new parent.

Promises:
- The operator's own reconciler, queue and workers reconcile the parents, as in `ssa-operator apply`.
- Every parent is in a namespace of its own, and its children are deleted with it in the end.
- After each change that settles, the children equal those of a new parent with the same spec.
- From each failed state, the last good spec leads back to the state of a new parent.
- A change that is refused or fails deletes nothing that ran, and changes nothing that can't be rendered or applied.
- A spec that is reconciled twice changes nothing, and no reconcile changes things without an end.
- The same changes give the same checks, so that a sequence can be shortened and played again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ssa_operator.controller.file_parents import FileParents
from ssa_operator.controller.informers.parents import ParentKey
from ssa_operator.controller.reconcile.reconciler import Reconciled
from ssa_operator.controller.shared_informers import ParentError
from ssa_operator.core.objects.identity import Identity, split_api_version
from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.objects.manifest import group_kind
from ssa_operator.core.objects.render_result import Document
from ssa_operator.core.objects.spec_changes import PatchError, SpecChange, changed
from ssa_operator.core.planning.outcome import Result
from ssa_operator.core.redaction.child_comparison import (
    ChildDifference,
    ChildState,
    Names,
    Variation,
    child_state,
    children_differences,
    variation,
)
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError

QUIET = 0.4
"""Seconds without a reconcile after which a parent that is ready, or failed, is settled."""

UNREADY_QUIET = 4.0
"""Seconds without a reconcile after which a parent that is not ready is settled: kwok needs less for a pod or a Job."""

REMOVAL_SECONDS = 120.0
"""Seconds that a parent has to be finalized after a sequence."""

_ENDLESS_WRITES = 6
"""So many changes of one child by reconciles of one spec have no end."""

_WRITES = frozenset({Result.CREATED, Result.CONFIGURED, Result.RECREATED, Result.PRUNED})


class Rule(StrEnum):
    """What a sequence breaks."""

    DIFFERS = "DiffersFromNew"
    """The children differ from those of a new parent with the same spec."""
    STUCK = "NotReadyAsNew"
    """A new parent becomes ready, and this one doesn't; or the other way round."""
    ROLLBACK = "NoRecovery"
    """The last good spec doesn't lead back from a failed state."""
    BROKEN = "BrokenByInvalid"
    """A change that was refused or failed deleted or changed a child that it could not replace."""
    ENDLESS = "EndlessChange"
    """Reconciles of one spec change a child again and again."""
    CRASH = "Crash"
    """A reconcile ended with a bug."""
    REPEATED = "ChangedByRepeat"
    """A second reconcile of the same spec changes a child."""


class Phase(StrEnum):
    """What became of a spec."""

    READY = "ready"
    UNREADY = "unready"
    """Applied, and not ready in this cluster."""
    FAILED = "failed"
    """The parent reports an error that only another spec repairs."""
    REFUSED = "refused"
    """The API server refuses the parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A rule that a sequence breaks."""

    rule: Rule
    step: int
    """The position of the change, 0 for the parent as it begins."""
    message: str
    differences: tuple[ChildDifference, ...] = ()


@dataclass(slots=True, kw_only=True)
class Played:
    """What became of a sequence."""

    changes: list[SpecChange] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    """The phase after each change."""
    failure: Failure | None = None
    invalid: str = ""
    """Why the sequence can't be played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A parent that doesn't change any more, and its children."""

    phase: Phase
    message: str
    children: tuple[ChildState, ...] = ()
    identities: Mapping[Identity, str] = field(default_factory=dict)
    """The name of each child in `children`."""
    failed: frozenset[Identity] = frozenset()
    """The children that could not be applied."""
    rendered: frozenset[Identity] = frozenset()
    """The children that the templates render."""
    comparable: bool = True
    """False if the children depend on the time, or belong to another parent."""
    crash: str = ""
    endless: str = ""


@dataclass(slots=True, kw_only=True)
class _Stand:
    """A parent in a namespace of its own."""

    key: ParentKey
    namespace: str
    body: Mapping[str, Any] = field(default_factory=dict)
    writes: dict[Identity, int] = field(default_factory=dict)
    """How often reconciles of the present spec changed each child."""
    again: dict[Identity, str] = field(default_factory=dict)
    """What the last reconciles changed."""
    crash: str = ""
    reconciled_at: float = 0.0
    reconciles: int = 0
    event: asyncio.Event = field(default_factory=asyncio.Event)
    redactor: Redactor = NO_SECRETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is explored: the parent that every sequence begins with, and what is beside it."""

    folder: str
    """The name of the template folder."""
    parent: Document
    beside: tuple[Document, ...] = ()
    """Objects that the templates look up; each parent gets its own."""
    namespaced: bool = True


class Explorer:
    """Plays sequences on one cluster. `close` deletes what is left."""

    def __init__(
        self, client: Client, mapper: RESTMapper, parents: FileParents, token: str, patience: float = 120.0
    ) -> None:
        """`token` is the same in the names of all namespaces; `patience` is how long a parent has to settle."""
        self._client = client
        self._mapper = mapper
        self._parents = parents
        self._token = token
        self._patience = patience
        self._count = 0
        self._stands: dict[ParentKey, _Stand] = {}
        self._new: dict[bytes, tuple[Settled, Variation | None]] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self.remains: list[str] = []
        """The parents that could not be deleted."""
        parents.on_reconciled = self._reconciled

    # Sequences.

    async def play(
        self, subject: Subject, next_change: Callable[[Mapping[str, Any]], SpecChange | None], steps: int
    ) -> Played:
        """Play a sequence until a rule is broken or so many changes are played. Raises ApiError and ParentError."""
        played = Played()
        stand = await self._open(subject)
        try:
            good = subject.parent.body
            state = await self._apply(stand, subject, good)
            if state.phase is Phase.REFUSED or (state.phase is Phase.FAILED and not _own_failure(state, 0)):
                played.invalid = state.message
                return played
            played.failure = await self._check(stand, subject, state, good, 0)
            while played.failure is None and len(played.changes) < steps:
                change = next_change(good)
                if change is None:
                    break
                try:
                    body = changed(good, change)
                except PatchError as error:
                    played.invalid = str(error)
                    break
                played.changes.append(change)
                good, state = await self._step(stand, subject, played, good, body, state)
        finally:
            self._remove_later(stand)
        return played

    async def _step(
        self,
        stand: _Stand,
        subject: Subject,
        played: Played,
        good: Mapping[str, Any],
        body: Mapping[str, Any],
        before: Settled,
    ) -> tuple[Mapping[str, Any], Settled]:
        """Play one change. Returns the last good parent, and the state that it is in."""
        number = len(played.changes)
        new = asyncio.create_task(self._new_state(subject, body))
        try:
            after = await self._apply(stand, subject, body)
            played.phases.append(after.phase)
            if after.phase in (Phase.READY, Phase.UNREADY):
                played.failure = await self._check(stand, subject, after, body, number)
                return body, after
            played.failure = _own_failure(after, number) or _broken(before, after, number)
        finally:
            await _ended(new)
        if played.failure is None and after.phase is Phase.FAILED:
            after = await self._apply(stand, subject, good)
            played.failure = await self._check_rollback(stand, subject, before, after, good, number)
        return good, replace(after, phase=before.phase) if after.phase is Phase.REFUSED else after

    async def _check_rollback(
        self, stand: _Stand, subject: Subject, before: Settled, after: Settled, good: Mapping[str, Any], number: int
    ) -> Failure | None:
        if after.phase is not before.phase and Phase.READY in (before.phase, after.phase) and after.comparable:
            message = f"after the last good spec is back it is {after.phase}, and was {before.phase}: {after.message}"
            return Failure(rule=Rule.ROLLBACK, step=number, message=message)
        found = await self._check(stand, subject, after, good, number)
        if found is None or found.rule not in (Rule.DIFFERS, Rule.STUCK):
            return found
        return replace(found, rule=Rule.ROLLBACK, message=f"after the last good spec is back: {found.message}")

    async def _check(
        self, stand: _Stand, subject: Subject, state: Settled, body: Mapping[str, Any], number: int
    ) -> Failure | None:
        """Compare a settled parent with a new one, and reconcile it again."""
        if found := _own_failure(state, number):
            return found
        new, ignored = await self._new_state(subject, body)
        if new.crash or new.endless:
            found = _own_failure(new, number)
            return None if found is None else replace(found, message=f"a new parent of this spec: {found.message}")
        if not (state.comparable and new.comparable) or state.phase is Phase.FAILED:
            return None
        if state.phase is not new.phase:
            # A busy machine may only be late.
            if state.phase is Phase.UNREADY:
                await self._until_quiet(stand, unready=self._patience)
                state = await self._state(stand, subject)
            elif new.phase is Phase.UNREADY:
                new, ignored = await self._new_parent(subject, body, unready=self._patience), None
                self._new[_spec_key(subject, body)] = (new, ignored)
        if state.phase is not new.phase:
            message = f"it is {state.phase}: {state.message}; a new parent is {new.phase}: {new.message}"
            return Failure(rule=Rule.STUCK, step=number, message=message)
        if differences := children_differences(state.children, new.children, ignored):
            if ignored is None:
                ignored = await self._variation(subject, body, new)
            differences = children_differences(state.children, new.children, ignored)
        if differences:
            message = f"its children differ from those of a new {subject.parent.body['kind']} with the same spec"
            return Failure(rule=Rule.DIFFERS, step=number, message=message, differences=tuple(differences))
        return await self._check_repeat(stand, number)

    async def _check_repeat(self, stand: _Stand, number: int) -> Failure | None:
        stand.again.clear()
        self._parents.reconcile_again(stand.key)
        await self._until_quiet(stand, stand.reconciles + 1)
        if stand.crash:
            return Failure(rule=Rule.CRASH, step=number, message=stand.crash)
        if stand.again:
            message = "; ".join(f"{identity} was {result}" for identity, result in sorted(stand.again.items()))
            return Failure(rule=Rule.REPEATED, step=number, message=f"a second reconcile changes children: {message}")
        return None

    # Parents.

    async def _new_state(self, subject: Subject, body: Mapping[str, Any]) -> tuple[Settled, Variation | None]:
        """The state of a new parent with a spec, and what is known to differ between two of them."""
        key = _spec_key(subject, body)
        if key not in self._new:
            self._new[key] = (await self._new_parent(subject, body), None)
        return self._new[key]

    async def _new_parent(self, subject: Subject, body: Mapping[str, Any], unready: float = UNREADY_QUIET) -> Settled:
        stand = await self._open(subject)
        try:
            return await self._apply(stand, subject, body, unready)
        finally:
            self._remove_later(stand)

    async def _variation(self, subject: Subject, body: Mapping[str, Any], new: Settled) -> Variation:
        """What differs between two new parents of a spec."""
        other = await self._new_parent(subject, body)
        found = variation(new.children, other.children)
        self._new[_spec_key(subject, body)] = (new, found)
        return found

    async def _open(self, subject: Subject) -> _Stand:
        """A namespace with the objects beside the parent."""
        self._count += 1
        name = f"explore-{self._token}-{self._count:04}"
        own = subject.parent.body["metadata"]["name"] if subject.namespaced else name
        stand = _Stand(key=ParentKey(subject.folder, name if subject.namespaced else "", own), namespace=name)
        self._stands[stand.key] = stand
        try:
            if subject.namespaced:
                await self._create_namespace(name)
                for document in subject.beside:
                    await self._apply_beside(document, name)
        except BaseException:
            self._remove_later(stand)
            raise
        return stand

    async def _create_namespace(self, name: str) -> None:
        namespaces = await self._mapper.resource_by_name("namespaces")
        accounts = await self._mapper.resource_by_name("serviceaccounts")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self._client.create(namespaces, "", encode(body))
        async with asyncio.timeout(self._patience):
            while True:  # a pod is refused before
                with contextlib.suppress(ApiError):
                    await self._client.get(accounts, "default", name)
                    return
                await asyncio.sleep(0.05)

    async def _apply_beside(self, document: Document, namespace: str) -> None:
        """Apply an object that the templates look up. If it is a parent itself, it is reconciled, too."""
        own = {**document.body["metadata"], "namespace": namespace}
        document = replace(document, body={**document.body, "metadata": own})
        try:
            await self._parents.apply([document], namespace)
        except ParentError:
            version = split_api_version(document.body["apiVersion"])[1]
            resource = await self._mapper.resource(group_kind(document), version)
            sent = calls.apply(resource, namespace, own["name"], encode(document.body))
            await self._client.send(sent)
            return
        key = next(key for key in self._parents.parents if (key.namespace, key.name) == (namespace, own["name"]))
        stand = self._stands[key] = _Stand(key=key, namespace=namespace, body=document.body)
        await self._until_quiet(stand)

    async def _apply(
        self, stand: _Stand, subject: Subject, body: Mapping[str, Any], unready: float = UNREADY_QUIET
    ) -> Settled:
        """Apply a spec and wait until it is settled."""
        metadata = {**body["metadata"], "name": stand.key.name}
        metadata.pop("namespace", None)
        document = replace(subject.parent, body={**body, "metadata": metadata})
        try:
            stand.writes, stand.crash = {}, ""
            await self._parents.apply([document], stand.key.namespace)
        except ApiError as error:
            if not error.terminal:
                raise
            state = await self._state(stand, subject)
            return replace(state, phase=Phase.REFUSED, message=str(error))
        stand.body = body
        endless = not await self._until_quiet(stand, unready=unready)
        state = await self._state(stand, subject)
        counts = ", ".join(f"{each} {count} times" for each, count in stand.writes.items() if count >= _ENDLESS_WRITES)
        return replace(state, endless=counts if endless else "")

    async def _until_quiet(self, stand: _Stand, reconciles: int = 0, unready: float = UNREADY_QUIET) -> bool:
        """Wait until a parent is settled, after so many reconciles at least. False if it changes without an end.
        `unready` is how long a parent that is not ready must be quiet.
        """
        deadline = time.monotonic() + self._patience
        while (now := time.monotonic()) < deadline:
            parent = self._parents.parents[stand.key]
            done = parent.report is not None and stand.reconciles >= reconciles
            done = done and not self._parents.is_queued(stand.key)
            settled = parent.failed or (parent.ready and parent.report is not None and parent.report.complete)
            quiet = QUIET if settled else unready
            if done and now - stand.reconciled_at >= quiet:
                return True
            stand.event.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stand.event.wait(), min(quiet, UNREADY_QUIET) / 4)
        return not any(count >= _ENDLESS_WRITES for count in stand.writes.values())

    async def _state(self, stand: _Stand, subject: Subject) -> Settled:
        parent = self._parents.parents.get(stand.key)
        if parent is None:
            return Settled(phase=Phase.REFUSED, message="")
        observed, rendered, plan = await self._parents.planned(stand.key)
        steps = {step.identity: step for step in plan.steps}
        names = Names.of(parent.live, own_name=not subject.namespaced)
        own = [live for live in observed.children.own if not live.deleting]
        children = {}
        for live in own:
            step = steps.get(live.identity)
            children[live.identity] = child_state(live, step.manifest if step else None, names, stand.redactor)
        report = parent.report
        outcomes = report.outcomes if report is not None else ()
        claimed = any(outcome.step.claimed_by_other for outcome in outcomes)
        timed = rendered.aged or rendered.again_at is not None
        return Settled(
            phase=Phase.READY if parent.ready else Phase.FAILED if parent.failed else Phase.UNREADY,
            message=names.text(parent.state),
            children=tuple(children.values()),
            identities={identity: child.name for identity, child in children.items()},
            failed=frozenset(each.step.identity for each in outcomes if each.result is Result.FAILED),
            rendered=frozenset(identity for identity, step in steps.items() if step.location is not None),
            comparable=not (claimed or timed),
            crash=stand.crash,
        )

    def _reconciled(self, key: ParentKey, done: Reconciled) -> None:
        stand = self._stands.get(key)
        if stand is None:
            return
        stand.reconciled_at = time.monotonic()
        stand.reconciles += 1
        stand.redactor = done.state.redactor
        if done.error is not None and not isinstance(done.error, (ApiError, CredentialsError)):
            stand.crash = done.state.redactor.redact(f"{type(done.error).__name__}: {done.error}")
        for outcome in done.report.outcomes if done.report is not None else ():
            if outcome.result in _WRITES:
                identity = outcome.step.identity
                stand.writes[identity] = stand.writes.get(identity, 0) + 1
                stand.again[identity] = outcome.result.value
        stand.event.set()

    # Removal.

    def _remove_later(self, stand: _Stand) -> None:
        task = asyncio.create_task(self._remove(stand))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove(self, stand: _Stand) -> None:
        """Delete the parents of a namespace, and then the namespace."""
        keys = [key for key, each in self._stands.items() if each.namespace == stand.namespace]
        # At once, because one may wait for another one's deletion.
        await asyncio.gather(*(self._remove_parent(key) for key in keys), return_exceptions=True)
        if stand.key.namespace:
            with contextlib.suppress(ApiError):
                namespaces = await self._mapper.resource_by_name("namespaces")
                live = await self._client.get(namespaces, stand.namespace)
                await self._client.delete(namespaces, "", stand.namespace, DeleteOptions(uid=live.uid))
        for key in keys:
            del self._stands[key]

    async def _remove_parent(self, key: ParentKey) -> None:
        live = self._parents.find(key)
        if live is None:
            return
        await self._client.delete(await self._resource(key), key.namespace, key.name, DeleteOptions(uid=live.uid))
        deadline = time.monotonic() + REMOVAL_SECONDS
        while self._parents.find(key) is not None:
            if time.monotonic() > deadline:
                self.remains.append(str(key))
                return
            await asyncio.sleep(0.1)

    async def _resource(self, key: ParentKey) -> Resource:
        return await self._mapper.resource_by_name(key.folder)

    async def close(self) -> None:
        """Wait until everything is deleted."""
        while self._removals:
            await asyncio.gather(*self._removals, return_exceptions=True)


def _spec_key(subject: Subject, body: Mapping[str, Any]) -> bytes:
    return encode({"folder": subject.folder, "spec": body.get("spec"), "labels": body["metadata"].get("labels")})


def _own_failure(state: Settled, number: int) -> Failure | None:
    if state.crash:
        return Failure(rule=Rule.CRASH, step=number, message=f"a reconcile ended with {state.crash}")
    if state.endless:
        message = f"reconciles of the same spec change {state.endless}"
        return Failure(rule=Rule.ENDLESS, step=number, message=message)
    return None


def _broken(before: Settled, after: Settled, number: int) -> Failure | None:
    """What a change that was refused or failed did to the children that it could not replace."""
    refused = after.phase is Phase.REFUSED
    ours, theirs = ({child.name: child for child in state.children} for state in (before, after))
    known = before.identities
    # A failed change may still have changed what it renders and applies.
    kept = {
        name
        for identity, name in known.items()
        if refused or identity in after.failed or identity not in after.rendered
    }
    lost = [child for name, child in ours.items() if name not in theirs and (refused or not _replaced(child, after))]
    recreated = [ours[name] for name in kept if name in theirs and ours[name].uid != theirs[name].uid]
    if not after.comparable:
        return None
    what = "is refused" if refused else "fails"
    for children, verb in ((lost, "deletes"), (recreated, "recreates")):
        if children:
            named = ", ".join(sorted(child.name for child in children))
            message = f"the change {what}, and {verb} {named}: {after.message}"
            return Failure(rule=Rule.BROKEN, step=number, message=message)
    same = [name for name in kept if name in theirs]
    differences = children_differences([theirs[name] for name in same], [ours[name] for name in same])
    if differences:
        message = f"the change {what}, and still changes children: {after.message}"
        return Failure(rule=Rule.BROKEN, step=number, message=message, differences=tuple(differences))
    return None


def _replaced(child: ChildState, after: Settled) -> bool:
    """Whether a new child of the same kind took the place of a deleted one."""
    kind = child.name.partition("/")[0]
    return any(other.name.partition("/")[0] == kind for other in after.children)


async def _ended(task: asyncio.Task[Any]) -> None:
    """Wait for the end of a task, and leave its error to the next one that asks."""
    await asyncio.gather(task, return_exceptions=True)


def from_changes(changes: Sequence[SpecChange]) -> Callable[[Mapping[str, Any]], SpecChange | None]:
    """Changes in a fixed order, for `Explorer.play`."""
    left = iter(changes)
    return lambda _: next(left, None)

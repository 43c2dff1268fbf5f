"""Drives the rollouts of the running folders: keeps the loaded revisions, picks the one of each parent, begins waves.

Promises:
- Nothing of a folder without the setting `rollout` is read, watched or written.
- A folder with rollouts starts once its state is read, so that no parent gets a revision too early.
- What decides is stored before any parent is reconciled by it: an operator that is killed at any moment goes on.
- Every process reads the state. One writes it: the leader, and with shards that of shard 0.
- A revision that can't be read is named in the log, and its parents get the newest one.
- A set that doesn't load is no revision: after a restart, too, the parents go on with the stored ones.

How it works:
The state of a folder is an annotation of one ControllerRevision, which every process watches. A step of a folder takes
the state that the watch shows, loads the revisions that it names, and requeues the parents whose revision changed. Then
the process that decides looks at all parents (`decide` in `rules.py`), and writes the next state if there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api.backoff import earliest
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, NotLeader
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import Clock
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.rollout_settings import RolloutSettings
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.rollouts.memory import NO_PROGRESS, Progress
from ssa_operator.operator.rollouts.requests import Change, RevisionStore
from ssa_operator.operator.rollouts.revisions import RevisionError, read_state, state_name
from ssa_operator.operator.rollouts.rules import (
    Member,
    State,
    decide,
    first_state,
    planned,
    revision_of,
    with_loaded,
)
from ssa_operator.operator.rollouts.windows import next_opening
from ssa_operator.reconcile.parent_records.rules import NO_REVISION, read_parent_records
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.status.conditions import live_condition
from ssa_operator.reconcile.status.event_requests import Recorder
from ssa_operator.reconcile.status.events import Event
from ssa_operator.reconcile.suspension.rules import is_suspended
from ssa_operator.rendering.folder.loaded_folders import Folder, load_inputs

log = logging.getLogger("ssa_operator")

PAUSE = 0.2
"""Seconds between two looks at the parents, while reconciles end."""

SYNC_DEADLINE = 10.0
"""Seconds for which a folder, and all that change after it, wait for the state of rollouts."""

SLICE = 500
"""Parents that are looked at before other tasks have a turn."""

LOOK_SHARE = 10
"""How many times as long as a look at the parents the pause after it is."""

RETRY = 5.0
"""Seconds after which a step that failed is repeated."""

LIST_INTERVAL = 2.0
"""Seconds after which shard 0 lists the parents of all shards again, while a rollout is in progress."""

WINDOW_INTERVAL = 20.0
"""Seconds after which a closed window is looked at again."""

Plan = Callable[[Folder, frozenset[str]], Awaitable[tuple[int, str]]]
"""How many objects a set would delete or recreate for the parents with these uids, and which, in words."""


class RolloutUnavailableError(Exception):
    """The state of a folder's rollouts can't be read. The text has the reason."""


@dataclass(slots=True)
class _Followed:
    """A folder with rollouts."""

    newest: Folder
    """The set that was loaded from files last."""
    state: State | None = None
    """The state by which parents are reconciled, None until one is stored."""
    live: LiveObject | None = None
    """The object that holds it."""
    compiled: dict[str, Folder] = field(default_factory=dict)
    """The revisions that parents are on."""
    progress: Progress = NO_PROGRESS
    due: float | None = None
    """When the next look at the parents is due, in seconds on the monotonic clock."""
    problem: str = ""
    """Why the last step failed, as it is in the log."""


class Rollouts:
    """The rollouts of a running operator. `folders` are the running folders by name, `requeue` has a parent reconciled
    for a cause, `plan` finds what a revision would delete.
    """

    def __init__(
        self,
        client: Client,
        options: Options,
        folders: Mapping[str, Parents],
        requeue: Callable[[ParentKey, Cause], None],
        recorder: Recorder,
        metrics: Metrics,
        plan: Plan,
        clock: Clock,
    ) -> None:
        namespace = options.installation.namespace or client.credentials.namespace
        self.store = RevisionStore(client, namespace)
        self._client = client
        self._options = options
        self._folders = folders
        self._requeue = requeue
        self._recorder = recorder
        self._metrics = metrics
        self._plan = plan
        self._clock = clock
        self._cache = Cache()
        self._cache.listen(self._on_stored, own_writes=True)
        self.reflectors: tuple[Reflector, ...] = ()
        self.tasks: list[asyncio.Task[None]] = []
        """The watch of the states, once a folder needs it."""
        self._followed: dict[str, _Followed] = {}
        self._changed = asyncio.Event()
        self._pause = PAUSE

    async def prepare(self, folder: Folder) -> None:
        """Take a loaded set before its parents are reconciled. Raises ApiError, CredentialsError and
        RolloutUnavailableError.
        """
        name = folder.name
        if folder.settings.rollout is None:
            if self._followed.pop(name, None) is not None:
                self._metrics.forget_rollout(name)
            return
        await self._watch()
        known = self._followed.get(name)
        if known is None:
            known = _Followed(folder)
            await self._take_stored(name, known)
            self._followed[name] = known
        known.newest = folder
        if folder.revision:  # else it doesn't load, and the stored revisions stay in use
            known.compiled[folder.revision] = folder
        self._changed.set()

    def follow(self, parents: Parents) -> None:
        """Pick the revisions of a folder's parents, and look at them when one of them changes."""
        name = parents.folder.name
        if name in self._followed and parents.choose_folder is None:
            parents.listen_to_states(lambda *_: self._on_parent(name))
            parents.listen(lambda *_: self._on_parent(name))
        parents.choose_folder = partial(self._choose, name) if name in self._followed else None

    def _choose(self, name: str, live: LiveObject) -> Folder | None:
        """The set that renders a parent, None for the newest."""
        known = self._followed.get(name)
        if known is None or known.state is None:
            return None
        state, newest, parents = known.state, known.newest.revision, self._folders.get(name)
        runs, given = _runs(live, parents), _revision_of(state, live)
        if given == state.target and state.loaded == newest and runs != NO_REVISION:
            return known.compiled.get(given)
        # What something has run past is no state of this parent.
        if runs and (runs == newest or runs not in state.revisions):
            return None
        return known.compiled.get(given)

    async def run(self, prepared: asyncio.Task[None]) -> None:
        """Follow the states, and decide once `prepared` has ended, until cancelled."""
        prepared.add_done_callback(lambda _: self._changed.set())
        while True:
            due = earliest(*(known.due for known in self._followed.values()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - self._clock.monotonic())):
                    await self._changed.wait()
            self._changed.clear()
            decides = prepared.done() and (self._options.shard is None or self._options.shard.index == 0)
            for name, known in list(self._followed.items()):
                known.due = None
                try:
                    await self._step(name, known, decides=decides)
                    known.problem = ""
                except NotLeader:
                    known.due = self._clock.monotonic() + RETRY
                except (ApiError, CredentialsError, RolloutUnavailableError) as error:
                    if str(error) != known.problem:
                        log.warning("%s: its rollout waits: %s", name, error)
                    known.problem = str(error)
                    known.due = self._clock.monotonic() + RETRY
                except Exception:
                    log.exception("%s: its rollout waits: unexpected error", name)
                    known.due = self._clock.monotonic() + RETRY
            await self._clock.sleep(self._pause)
            self._pause = PAUSE

    async def close(self) -> None:
        """Stop the watch."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def measure(self) -> None:
        """Set the gauges."""
        for name, known in self._followed.items():
            state, parents = known.state, self._folders.get(name)
            self._metrics.rollout_in_progress.labels(name).set(bool(state and state.rollouts))
            self._metrics.rollout_stopped.labels(name).set(bool(state and state.stopped))
            if state is not None and parents is not None:
                reached = len(parents)
                if state.rollouts:
                    reached = sum(_revision_of(state, live) == state.target for live in parents)
                self._metrics.rollout_parents.labels(name).set(reached)

    async def _watch(self) -> None:
        if not self.reflectors:
            self.reflectors = (Reflector(self._client, self.store.states, self._cache),)
            self.tasks = [asyncio.create_task(each.run(), name="watch rollouts") for each in self.reflectors]
        for each in self.reflectors:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SYNC_DEADLINE):
                    await each.synced_or_unavailable()
            if not each.synced.is_set():
                why = each.problem or f"no answer within {SYNC_DEADLINE:g} s"
                raise RolloutUnavailableError(f"the state of its rollouts can't be read: {why}")

    def _on_stored(self, _old: LiveObject | None, _new: LiveObject | None) -> None:
        self._changed.set()

    def _on_parent(self, name: str) -> None:
        known = self._followed.get(name)
        if known is not None and known.state is not None and known.state.rollouts:
            self._changed.set()

    async def _step(self, name: str, known: _Followed, *, decides: bool) -> None:
        await self._take_stored(name, known)
        if not decides:
            return
        folder, rollout = known.newest, known.newest.settings.rollout
        assert rollout is not None
        if folder.inputs is not None and (known.state is None or known.state.loaded != folder.revision):
            used = known.state.revisions if known.state is not None else frozenset[str]()
            await self.store.store(name, folder.revision, folder.inputs, used)
            await self._change(name, known, lambda state: _loaded(state, folder.revision))
        parents = self._folders.get(name)
        if known.state is None or not known.state.rollouts or parents is None or not parents.serving:
            return
        await self._decide(name, known, parents, rollout)

    async def _decide(self, name: str, known: _Followed, parents: Parents, settings: RolloutSettings) -> None:
        assert known.state is not None
        before, now = known.state, self._clock.monotonic()
        opens = next_opening(settings.window, self._clock.now()) if settings.window is not None else ""
        members = await self._members(known, parents)
        found = decide(before, members, settings, known.progress, now, opens=opens)
        # With many parents a look takes long. It must not hold up their reconciles.
        self._pause = max(self._pause, LOOK_SHARE * (self._clock.monotonic() - now))
        known.progress = found.progress
        poll = [now + LIST_INTERVAL] if self._options.shard is not None else []
        poll += [now + WINDOW_INTERVAL] if opens else []
        known.due = earliest(found.due, *poll)
        state = found.state
        if found.needs_plan:
            state = await self._planned(known, members, found.state, settings)
        if state != before:
            await self._change(name, known, lambda stored: state if stored == before else None)
            known.due = now

    async def _planned(
        self, known: _Followed, members: Iterable[Member], state: State, settings: RolloutSettings
    ) -> State:
        """The state after it is known what the revision would delete. Raises ApiError and RolloutUnavailableError."""
        target = known.compiled.get(state.target)
        uids = frozenset(member.uid for member in members if revision_of(state, member) != state.target)
        deletions, described = await self._plan(target, uids) if target is not None and uids else (0, "")
        return planned(state, deletions, described, settings.max_prune)

    async def _change(self, name: str, known: _Followed, change: Change) -> None:
        """Change the stored state, and take what is stored then."""
        with self._cache.writing(self.store.namespace, state_name(name)):
            live = await self.store.change_state(name, change)
            if live is not None:
                self._cache.written(live)
        await self._take_stored(name, known)

    async def _take_stored(self, name: str, known: _Followed) -> None:
        """Reconcile the parents by the stored state. Raises ApiError."""
        live = self._cache.get(self.store.namespace, state_name(name))
        if live is None or live is known.live:
            return
        state = read_state(live)
        if state is None:
            log.warning("%s: the state of its rollouts can't be read; its rollouts begin again", name)
        for revision in sorted(state.revisions - known.compiled.keys()) if state is not None else ():
            if (folder := await self._compiled(name, known, revision)) is not None:
                known.compiled[revision] = folder
        before, known.state, known.live = known.state, state, live
        if state is None:
            return
        kept = {*state.revisions, known.newest.revision}
        known.compiled = {revision: folder for revision, folder in known.compiled.items() if revision in kept}
        if before is None:
            return
        async for each in _slices(self._folders.get(name, ())):
            if _revision_of(before, each) != _revision_of(state, each):
                identity = each.identity
                self._requeue(ParentKey(name, identity.namespace, identity.name), Cause.TEMPLATE)
        self._report(name, live, before, state)

    async def _compiled(self, name: str, known: _Followed, revision: str) -> Folder | None:
        """A stored revision, None if it can't be used. Raises ApiError."""
        if revision == known.newest.revision:
            return known.newest
        try:
            inputs = await self.store.read(name, revision)
            folder = await asyncio.to_thread(load_inputs, name, known.newest.root, inputs)
            if folder.problems:
                raise RevisionError(str(folder.problems[0]))
            if folder.revision != revision:
                raise RevisionError("its content is not the one that was stored")
        except RevisionError as error:
            log.warning("%s: revision %s can't be used, its parents get the newest: %s", name, revision, error)
            return None
        return folder

    def _report(self, name: str, live: LiveObject, before: State, after: State) -> None:
        """Log what changed, and emit Events of it on the object that holds the state."""
        events: list[Event] = []
        if after.target != before.target:
            events.append(_event("RolloutStarted", f"revision {after.target} is rolled out"))
        if after.held and after.held != before.held:
            events.append(_event("RolloutHeld", f"revision {after.target} waits: {after.held}", warning=True))
        if after.stopped and not before.stopped:
            events.append(_event("RolloutStopped", f"the rollout is stopped: {after.stopped}", warning=True))
        if before.rollouts and not after.rollouts:
            events.append(_event("RolloutComplete", f"revision {after.target} is rolled out to all parents"))
        for event in events:
            log.log(logging.WARNING if event.warning else logging.INFO, "%s: %s", name, event.note)
        decides = self._options.shard is None or self._options.shard.index == 0
        self._recorder.emit(live, events if decides else ())

    async def _members(self, known: _Followed, parents: Parents) -> list[Member]:
        """All parents, those of other shards included. Raises ApiError."""
        if self._options.shard is None or self._options.shard.count == 1:
            return [self._member(known, parents, live) async for live in _slices(parents) if not live.deleting]
        if not parents.reports_revision:
            raise RolloutUnavailableError("with shards, the CRD has to declare status.revision: {type: string}")
        members: list[Member] = []
        for reflector in parents.reflectors:
            lives, _ = await self._client.list(parents.served.resource, reflector.scope.namespace)
            members += [stored_member(live, parents.folder) async for live in _slices(lives) if not live.deleting]
        return members

    def _member(self, known: _Followed, parents: Parents, live: LiveObject) -> Member:
        """A parent as this process has reconciled it last."""
        state = parents.state(live)
        report, rendered = state.status.report, state.renders.digest
        # Two revisions may have the same files.
        expected = known.compiled.get(_revision_of(known.state, live)) if known.state is not None else None
        candidates = (expected or known.newest, *known.compiled.values())
        revision = next((each.revision for each in candidates if each.digest == rendered), "")
        is_known = report is not None or bool(state.retries.error)
        if not is_known and parents.parent(live).shows_conditions:
            is_known = live_condition(live, "Ready") is None  # a new parent, which is not Ready
        return replace(
            _unjudged_member(live, parents.folder),
            known=is_known,
            ready=state.ready and not state.retries.error,
            stalled=report is not None and report.verdict.stalled and not report.verdict.ready,
            revision=revision,
            message=report.verdict.message if report is not None else state.retries.error,
        )


def stored_member(live: LiveObject, folder: Folder | None) -> Member:
    """A parent as its status shows it; `folder` has the setting `suspendWhen`."""
    ready, stalled = live_condition(live, "Ready"), live_condition(live, "Stalled")
    status = live.body.get("status")
    reported = status if isinstance(status, Mapping) else {}
    current = reported.get("observedGeneration", live.metadata.generation) == live.metadata.generation
    return replace(
        _unjudged_member(live, folder),
        known=ready is not None,
        ready=current and ready is not None and ready.get("status") == "True",
        stalled=stalled is not None and stalled.get("status") == "True",
        revision=str(reported.get("revision", "")),
        message=str(ready.get("message", "")) if ready is not None else "",
    )


def _unjudged_member(live: LiveObject, folder: Folder | None) -> Member:
    """A parent without what its last reconcile found."""
    return Member(
        uid=live.uid,
        namespace=live.metadata.namespace,
        name=live.metadata.name,
        labels=live.metadata.labels,
        created=live.metadata.creation_timestamp or "",
        suspended=is_suspended(live, folder.settings.suspend_when if folder is not None else None),
    )


async def _slices(lives: Iterable[LiveObject]) -> AsyncIterator[LiveObject]:
    """The objects. Other tasks have a turn after each slice of them."""
    for count, live in enumerate([*lives], 1):
        yield live
        if count % SLICE == 0:
            await asyncio.sleep(0)


def _revision_of(state: State, live: LiveObject) -> str:
    """The revision that a parent is on."""
    return revision_of(state, Member(uid=live.uid, created=live.metadata.creation_timestamp or ""))


def _runs(live: LiveObject, parents: Parents | None) -> str:
    """The revision that a parent runs, NO_REVISION for a set without rollouts, '' for a new parent."""
    recorded, status = read_parent_records(live).revision.revision, live.body.get("status")
    if recorded or parents is None or not parents.reports_revision or not isinstance(status, Mapping):
        return recorded
    return str(status.get("revision") or (NO_REVISION if status.get("conditions") else ""))


def _loaded(state: State | None, revision: str) -> State:
    return first_state(revision) if state is None else with_loaded(state, revision)


def _event(reason: str, note: str, *, warning: bool = False) -> Event:
    return Event(reason=reason, action="Rollout", note=note, warning=warning)

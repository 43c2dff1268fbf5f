"""Drives the rollouts of the running folders: keeps the loaded revisions, picks the one of each parent, begins waves.

Promises:
- Nothing of a folder without the setting `rollout` is read, watched or written.
- A parent keeps the revision that its record names. No set reaches a parent before it is stored as a revision, and a
  wave before it is stored in the state. So an operator that is killed at any moment goes on.
- Every process reads the state. One writes it: the leader, and with shards that of shard 0.
- A state that is gone is written again, or follows from what the parents run and from the stored revisions.
- The parents of a revision that can't be read are left alone, and say so.
- A set that doesn't load is no revision: after a restart, too, the parents go on with the stored ones.
- Each folder has its own task, so that the plan of one holds up no other.

How it works:
The state of a folder is an annotation of one ControllerRevision, which every process watches. A step of a folder takes
the state that the watch shows, loads the revisions that parents run, and requeues the parents whose revision changed.
Then the process that decides looks at all parents (`decide` in `rules.py`), and writes the next state if there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator import __version__
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
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.objects.rollout_settings import RolloutSettings
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.rollouts.memory import NO_PROGRESS, Progress
from ssa_operator.operator.rollouts.requests import Change, RevisionStore
from ssa_operator.operator.rollouts.revisions import (
    RevisionError,
    RevisionResult,
    read_state,
    result_of_change,
    state_name,
)
from ssa_operator.operator.rollouts.rules import (
    Member,
    State,
    begins,
    decide,
    first_state,
    lost_state,
    place_of,
    planned,
    reaches,
    revision_of,
    unready_deadline,
    with_loaded,
)
from ssa_operator.operator.rollouts.windows import next_opening
from ssa_operator.reconcile.parent_records.rules import NO_REVISION, read_parent_records
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.status.conditions import live_condition, timestamp
from ssa_operator.reconcile.status.event_requests import Recorder
from ssa_operator.reconcile.status.events import Event
from ssa_operator.reconcile.suspension.rules import is_suspended
from ssa_operator.rendering.folder.loaded_folders import Folder, FolderInputs, load_inputs

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

SLOW_INTERVAL = 60.0
"""Seconds after which shard 0 looks again at a stopped rollout, and a revision is read again that can't be read."""

Plan = Callable[[Folder, frozenset[str]], Awaitable[tuple[int, str]]]
"""How many objects a set would delete or recreate for the parents with these uids, and which, in words."""


class RolloutUnavailableError(Exception):
    """The state of a folder's rollouts can't be read. The text has the reason."""


class Look(Struct, frozen=True, kw_only=True):
    """How far a folder's rollout is. Times are in seconds since 1970."""

    state: State | None
    """None until one is stored."""
    members: Sequence[Member]
    """Its parents, with shards those of this process, as their status shows them."""
    settings: RolloutSettings
    inputs: Mapping[str, FolderInputs]
    """What the revisions in use were compiled from."""
    fails_at: Mapping[str, float]
    """When a parent that the rollout has reached counts as failed, by its place, where this process decides."""
    settled_at: float | None
    """When `settle` is over, None while a parent of the wave is not Ready."""
    problem: str
    """Why the last step failed."""


@dataclass(slots=True)
class _Followed:
    """A folder with rollouts."""

    newest: Folder
    """The set that was loaded from files last."""
    first: Folder
    """The set that was loaded first. New parents get it until a state is stored."""
    state: State | None = None
    """The state by which parents are reconciled, None until one is stored."""
    live: LiveObject | None = None
    """The object that holds it, None where it is gone."""
    seen: LiveObject | None = None
    """What the watch showed last."""
    compiled: dict[str, Folder] = field(default_factory=dict)
    """The revisions that parents run or get. One that can't be read has no templates, and says why."""
    wanted: set[str] = field(default_factory=set)
    """Other revisions that parents run."""
    marked: State | None = None
    """The last state by which this process marked revisions."""
    progress: Progress = NO_PROGRESS
    due: float | None = None
    """When the next look at the parents is due, in seconds on the monotonic clock."""
    pause: float = PAUSE
    """Seconds until then at least."""
    read_again: float | None = None
    """When a revision is read again that can't be read, on that clock."""
    problem: str = ""
    """Why the last step failed, as it is in the log."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def revision_of(self, member: Member) -> str:
        """The revision that a parent gets, '' for a new one while no state is stored."""
        state, newest = self.state, self.newest.revision
        if member.runs == NO_REVISION and newest:
            return newest
        if state is None or (member.runs and newest and not state.revision and state.loaded != newest):
            return member.runs  # an old state knows nothing of what ran since
        return revision_of(state, member)

    def folder(self, revision: str) -> Folder:
        """The set of a revision. The parents of one that isn't read yet are left alone until it is."""
        if not revision:
            return self.first
        if revision not in self.compiled:
            self.wanted.add(revision)
            self.changed.set()
            return self.unusable(revision, "it is not read yet")
        found, state = self.compiled[revision], self.state
        if state is not None and revision == state.revision == state.planned and not (state.held or found.planned):
            found = self.compiled[revision] = replace(found, planned=True)
        return found

    def unusable(self, revision: str, why: str) -> Folder:
        """Stands for a revision that can't be rendered: nothing is applied or deleted, and the parent says so."""
        problem = RenderProblem(f"revision {revision}, which the parent runs, can't be rendered: {why}")
        return replace(self.newest, templates=None, digest="", revision=revision, inputs=None, problems=(problem,))


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
        self._started = asyncio.Event()
        self._prepared: asyncio.Task[None] | None = None

    async def prepare(self, folder: Folder) -> None:
        """Take a loaded set before its parents are reconciled. Raises ApiError, CredentialsError and
        RolloutUnavailableError.
        """
        name = folder.name
        if folder.settings.rollout is None:
            if (gone := self._followed.pop(name, None)) is not None:
                gone.changed.set()
                self._metrics.forget_rollout(name)
            return
        await self._watch()
        known = self._followed.get(name)
        if known is None:
            known = _Followed(folder, folder)
            await self._take_stored(name, known)
            self._followed[name] = known
        known.newest = folder
        if folder.revision:  # else it doesn't load, and the stored revisions stay in use
            known.compiled[folder.revision] = folder
        known.changed.set()
        self._started.set()

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
        return None if known is None else known.folder(known.revision_of(self._recorded(name, live)))

    def _recorded(self, name: str, live: LiveObject) -> Member:
        parents = self._folders.get(name)
        return _unjudged_member(live, None, reports_revision=parents is not None and parents.reports_revision)

    async def run(self, prepared: asyncio.Task[None]) -> None:
        """Follow the states, and decide once `prepared` has ended, until cancelled."""
        self._prepared = prepared
        prepared.add_done_callback(lambda _: self._wake())
        try:
            while True:
                for name, known in self._followed.items():
                    if known.task is None:
                        known.task = asyncio.create_task(self._follow(name, known), name=f"roll out {name}")
                await self._started.wait()
                self._started.clear()
        finally:
            tasks = [known.task for known in self._followed.values() if known.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, name: str, known: _Followed) -> None:
        while self._followed.get(name) is known:
            now, due = self._clock.monotonic(), earliest(known.due, known.read_again)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                    await known.changed.wait()
            known.changed.clear()
            known.due, known.pause = None, PAUSE
            try:
                await self._step(name, known)
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
            await self._clock.sleep(known.pause)

    def _wake(self) -> None:
        for known in self._followed.values():
            known.changed.set()

    @property
    def _decides(self) -> bool:
        first = self._options.shard is None or self._options.shard.index == 0
        return first and self._prepared is not None and self._prepared.done()

    async def close(self) -> None:
        """Stop the watch."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def measure(self) -> None:
        """Set the gauges."""
        for name, known in self._followed.items():
            state, parents = known.state, self._folders.get(name)
            self._metrics.rollout_in_progress.labels(name).set(bool(state and state.revision))
            self._metrics.rollout_stopped.labels(name).set(bool(state and state.stopped))
            if state is not None and parents is not None:
                reached = len(parents)
                if state.revision:
                    reached = sum(reaches(state, self._recorded(name, live)) for live in parents)
                self._metrics.rollout_parents.labels(name).set(reached)

    def look(self, name: str) -> Look | None:
        """How far a folder's rollout is by what this process knows, without a request. None without rollouts."""
        known, parents = self._followed.get(name), self._folders.get(name)
        if known is None or known.newest.settings.rollout is None:
            return None
        settings, progress = known.newest.settings.rollout, known.progress
        ahead = self._clock.now() - self._clock.monotonic()
        late = ahead + unready_deadline(settings.settle)
        return Look(
            state=known.state,
            members=[stored_member(live, None) for live in parents or () if not live.deleting],
            settings=settings,
            inputs={revision: each.inputs for revision, each in known.compiled.items() if each.inputs is not None},
            fails_at={place: late + since for place, since in progress.unready_since.items()},
            settled_at=None if progress.ready_since is None else ahead + progress.ready_since + settings.settle,
            problem=known.problem,
        )

    def state(self, name: str) -> State | None:
        """The state by which the parents of a folder are reconciled, None without one."""
        known = self._followed.get(name)
        return None if known is None else known.state

    def version(self, name: str) -> object:
        """What changes with a folder's rollout."""
        known = self._followed.get(name)
        return None if known is None else (known.state, known.progress, known.problem)

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
        self._wake()

    def _on_parent(self, name: str) -> None:
        known = self._followed.get(name)
        if known is not None and (known.state is None or known.state.revision):
            known.changed.set()

    async def _step(self, name: str, known: _Followed) -> None:
        await self._take_stored(name, known)
        await self._read_wanted(name, known)
        parents, folder = self._folders.get(name), known.newest
        if not self._decides:
            return
        if parents is None or not parents.serving:
            known.due = self._clock.monotonic() + LIST_INTERVAL  # no event tells of it where there are no parents
            return
        stored = known.state if known.live is not None else None
        if folder.inputs is not None and (stored is None or stored != self._loaded(stored, folder.revision)):
            try:
                await self._store(name, known, parents)
            except ApiError as error:
                why = str(error)
                await self._change(name, known, lambda found: replace(found, unstored=why) if found else None)
                raise
        if known.state is not None and known.state.revision and folder.settings.rollout is not None:
            await self._decide(name, known, parents, folder.settings.rollout)

    async def _store(self, name: str, known: _Followed, parents: Parents) -> None:
        """Store the loaded set and the revisions that are in use, and take it into the state. A state that is gone
        follows from what this process knows, or from what the parents run and what is stored.
        """
        folder, state = known.newest, known.state
        assert folder.inputs is not None
        members = await self._members(known, parents)
        used = {member.runs for member in members} | (state.revisions if state is not None else set())
        inputs = {each.revision: each.inputs for each in known.compiled.values() if each.inputs is not None}
        kept = {revision: inputs[revision] for revision in sorted(used & inputs.keys())}
        stored = await self.store.store(name, folder.revision, folder.inputs, used, kept)
        succeeded = [each for each in stored if each.result is not None and each.result.result == "Succeeded"]
        successes = [each.revision for each in sorted(succeeded, key=lambda each: each.number, reverse=True)]
        runs = {member.runs for member in members} - {"", NO_REVISION, folder.revision}
        if state is None:
            state = lost_state(folder.revision, members, successes) if runs or successes else None
        before = state or first_state(folder.revision)
        await self._change(name, known, lambda found: self._loaded(found or before, folder.revision))

    def _loaded(self, state: State, revision: str) -> State:
        """The state after a set was loaded by this operator."""
        state, namespaces = with_loaded(state, revision), tuple(self._options.namespaces)
        return replace(state, unstored="", namespaces=namespaces, selector=self._options.selector)

    async def _decide(self, name: str, known: _Followed, parents: Parents, settings: RolloutSettings) -> None:
        assert known.state is not None
        before, now = known.state, self._clock.monotonic()
        opens = next_opening(settings.window, self._clock.now()) if settings.window is not None else ""
        sharded = self._options.shard is not None and self._options.shard.count > 1
        waits = before.planned == before.revision and before.opens == opens and not begins(before)
        if sharded and waits:  # nothing that is to be asked would decide anything
            known.due = now + WINDOW_INTERVAL if opens else None
            return
        members = await self._members(known, parents)
        found = decide(before, members, settings, known.progress, now, opens=opens)
        # With many parents a look takes long. It must not hold up their reconciles.
        known.pause = max(PAUSE, LOOK_SHARE * (self._clock.monotonic() - now))
        known.progress = found.progress
        poll = [now + (SLOW_INTERVAL if found.state.stopped else LIST_INTERVAL)] if sharded else []
        poll += [now + WINDOW_INTERVAL] if opens else []
        known.due = earliest(found.due, *poll)
        state: State | None = found.state
        if found.needs_plan:
            state = await self._planned(name, known, members, found.state, settings)
        if state is not None and state != before:
            # A process that follows one that dies in between decides the same again.
            await self._mark(name, known, before, state)
            await self._change(name, known, lambda stored: state if stored == before else None)
            known.due = now

    async def _planned(
        self, name: str, known: _Followed, members: Iterable[Member], state: State, settings: RolloutSettings
    ) -> State | None:
        """The state after it is known what the revision would delete, None if it is another one meanwhile. Raises
        ApiError and RolloutUnavailableError.
        """
        target = known.compiled.get(state.target)
        uids = frozenset(member.uid for member in members if revision_of(state, member) != state.target)
        if target is None or not uids:
            return planned(state, 0, "", settings.max_prune)
        plan = asyncio.ensure_future(self._plan(target, uids))
        try:
            while not plan.done():
                changed = asyncio.create_task(known.changed.wait())
                await asyncio.wait({plan, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if not plan.done() and known.changed.is_set():
                    known.changed.clear()
                    live = self._cache.get(self.store.namespace, state_name(name))
                    if live is not known.seen or known.newest.revision not in ("", state.loaded):
                        known.changed.set()
                        return None
            deletions, described = plan.result()
        finally:
            plan.cancel()
            await asyncio.gather(plan, return_exceptions=True)
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
        if live is known.seen:
            return
        state = read_state(live) if live is not None else None
        if live is None or state is None:
            log.warning("%s: the state of its rollouts is gone or can't be read; it is made again", name)
            known.live, known.seen = None, live
            return
        await self._read(name, known, state.revisions)
        recorded = [(each, self._recorded(name, each)) async for each in _slices(self._folders.get(name, ()))]
        given = [known.revision_of(member) for _, member in recorded]
        before, known.state, known.live, known.seen = known.state, state, live, live
        kept = {*state.revisions, known.newest.revision, *(member.runs for _, member in recorded)}
        known.compiled = {revision: each for revision, each in known.compiled.items() if revision in kept}
        for (each, member), revision in zip(recorded, given, strict=True):
            if known.revision_of(member) != revision:
                self._requeue(ParentKey(name, each.identity.namespace, each.identity.name), Cause.TEMPLATE)
        if before is not None:
            await self._report(name, known, live, before, state)

    async def _read_wanted(self, name: str, known: _Followed) -> None:
        """Read the revisions that parents run and that are not read yet, and have these parents reconciled."""
        if known.read_again is not None and known.read_again <= self._clock.monotonic():
            known.read_again = None
            unread = {revision for revision, each in known.compiled.items() if each.templates is None}
            known.compiled = {revision: each for revision, each in known.compiled.items() if revision not in unread}
            known.wanted |= unread
        wanted, known.wanted = known.wanted - known.compiled.keys(), set()
        await self._read(name, known, wanted)
        async for each in _slices(self._folders.get(name, ()) if wanted else ()):
            if known.revision_of(self._recorded(name, each)) in wanted:
                self._requeue(ParentKey(name, each.identity.namespace, each.identity.name), Cause.TEMPLATE)

    async def _read(self, name: str, known: _Followed, revisions: Iterable[str]) -> None:
        """Read stored revisions. Raises ApiError."""
        for revision in sorted(set(revisions) - known.compiled.keys()):
            if revision == known.newest.revision:
                known.compiled[revision] = known.newest
                continue
            try:
                inputs = await self.store.read(name, revision)
                made_by = inputs.operator.get("version", "")
                if self._options.installation.hold_upgrade and made_by != __version__:
                    raise RevisionError(f"version {made_by} of the operator made it, and --hold-upgrade is given")
                folder = await asyncio.to_thread(load_inputs, name, known.newest.root, inputs)
                if folder.problems:
                    raise RevisionError(str(folder.problems[0]))
                if folder.revision != revision:
                    raise RevisionError("its content is not the one that was stored")
            except RevisionError as error:
                log.warning("%s: revision %s can't be used, its parents are left alone: %s", name, revision, error)
                folder = known.unusable(revision, str(error))
                known.read_again = self._clock.monotonic() + SLOW_INTERVAL
            known.compiled[revision] = folder

    async def _mark(self, name: str, known: _Followed, before: State, after: State) -> None:
        """Mark the revisions with what became of them by a change of the state. Raises ApiError."""
        if after == known.marked:
            return
        for revision, result in result_of_change(before, after):
            why = "" if result == "Succeeded" else after.stopped or before.stopped
            await self.store.mark(name, revision, RevisionResult(result, timestamp(self._clock.now()), why))
        known.marked = after

    async def _report(self, name: str, known: _Followed, live: LiveObject, before: State, after: State) -> None:
        """Log what changed, emit Events of it on the object that holds the state, and mark the revisions if another
        process changed it. Raises ApiError.
        """
        events: list[Event] = []
        if after.target != before.target:
            events.append(_event("RolloutStarted", f"revision {after.target} begins to roll out"))
        if after.held and after.held != before.held:
            events.append(_event("RolloutHeld", f"revision {after.target} waits: {after.held}", warning=True))
        if after.stopped and not before.stopped:
            events.append(_event("RolloutStopped", f"the rollout is stopped: {after.stopped}", warning=True))
        if before.stopped and after.revision == before.revision and not after.stopped:
            why = "a user resumed it" if after.excused != before.excused else "the parents that stopped it are Ready"
            events.append(_event("RolloutResumed", f"the rollout of revision {after.revision} goes on: {why}"))
        if before.revision and not after.revision:
            events.append(_event("RolloutComplete", f"revision {after.target} is rolled out to all parents"))
        for event in events:
            log.log(logging.WARNING if event.warning else logging.INFO, "%s: %s", name, event.note)
        if after.stopped and not before.stopped and self._prepared is not None and self._prepared.done():
            note = (
                f"it stopped the rollout of revision {after.revision}: it was Ready, and is not Ready at that revision"
            )
            failed = frozenset(after.failed)
            for parent in self._folders.get(name, ()):
                if place_of(parent.uid) in failed:
                    self._recorder.emit(parent, [_event("RolloutStopped", note, warning=True)])
        if self._decides:
            self._recorder.emit(live, events)
            await self._mark(name, known, before, after)

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
        member = _unjudged_member(live, parents.folder, reports_revision=parents.reports_revision)
        runs = known.compiled.get(member.runs)
        is_known = report is not None or bool(state.retries.error)
        if not is_known and parents.parent(live).shows_conditions:
            is_known = live_condition(live, "Ready") is None  # a new parent, which is not Ready
        return replace(
            member,
            known=is_known,
            ready=state.ready and not state.retries.error,
            stalled=report is not None and report.verdict.stalled and not report.verdict.ready,
            revision=member.runs if runs is not None and runs.digest == rendered else "",
            message=report.verdict.message if report is not None else state.retries.error,
        )


def stored_member(live: LiveObject, folder: Folder | None) -> Member:
    """A parent as its status shows it; `folder` has the setting `suspendWhen`, without it the status says it."""
    ready, stalled, suspended = (live_condition(live, each) for each in ("Ready", "Stalled", "Suspended"))
    status = live.body.get("status")
    reported = status if isinstance(status, Mapping) else {}
    current = reported.get("observedGeneration", live.metadata.generation) == live.metadata.generation
    member = _unjudged_member(live, folder, reports_revision="revision" in reported)
    return replace(
        member,
        suspended=member.suspended or (folder is None and suspended is not None and suspended.get("status") == "True"),
        known=ready is not None,
        ready=current and ready is not None and ready.get("status") == "True",
        stalled=stalled is not None and stalled.get("status") == "True",
        revision=str(reported.get("revision", "")),
        message=str(ready.get("message", "")) if ready is not None else "",
    )


def _unjudged_member(live: LiveObject, folder: Folder | None, *, reports_revision: bool) -> Member:
    """A parent without what its last reconcile found. What it runs is recorded on it, or in its status."""
    record, runs, status = read_parent_records(live).revision, "", live.body.get("status")
    if reports_revision and isinstance(status, Mapping):
        runs = str(status.get("revision") or (NO_REVISION if status.get("conditions") else ""))
    return Member(
        uid=live.uid,
        namespace=live.metadata.namespace,
        name=live.metadata.name,
        labels=live.metadata.labels,
        suspended=is_suspended(live, folder.settings.suspend_when if folder is not None else None),
        runs=record.revision or runs,
        ready_before=record.ready,
    )


async def _slices(lives: Iterable[LiveObject]) -> AsyncIterator[LiveObject]:
    """The objects. Other tasks have a turn after each slice of them."""
    for count, live in enumerate([*lives], 1):
        yield live
        if count % SLICE == 0:
            await asyncio.sleep(0)


def _event(reason: str, note: str, *, warning: bool = False) -> Event:
    return Event(reason=reason, action="Rollout", note=note, warning=warning)

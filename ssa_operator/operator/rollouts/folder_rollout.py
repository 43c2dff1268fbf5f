"""Follows the rollout of one folder: keeps the loaded revisions, picks the one of each parent, begins waves.

Promises:
- A parent keeps the revision that its record names. No set reaches a parent before it is stored as a revision, and a
  wave before it is stored in the state. So an operator that is killed at any moment goes on.
- A state that is gone is written again, or follows from what the parents run and from the stored revisions.
- The parents of a revision that can't be read are left alone, and say so. While a set can't be stored, all parents do.
- A set that doesn't load is no revision: after a restart, too, the parents go on with the stored ones.
- While nothing changes, nothing is asked and written, also if the rollout is stopped or paused.

How it works:
The state is an annotation of a ControllerRevision, which every process watches. A step takes the state that the watch
shows, loads the revisions that parents run, and requeues the parents whose revision changed. Then the process that
decides stores the loaded set, looks at all parents (`decide` in `rules.py`), and writes the next state if there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from ssa_operator import __version__
from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api.backoff import earliest
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, NotLeader
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import Clock
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.objects.rollout_settings import RolloutSettings
from ssa_operator.objects.scalars import timestamp
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.rollouts.members import reconciled_member, recorded_member, stored_member
from ssa_operator.operator.rollouts.requests import Change, RevisionStore, RolloutUnavailableError
from ssa_operator.operator.rollouts.revisions import (
    RevisionError,
    RevisionResult,
    read_state,
    result_of_change,
    state_name,
)
from ssa_operator.operator.rollouts.rules import (
    NO_PROGRESS,
    UNSTORED,
    Member,
    Progress,
    State,
    awaited,
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
    with_problem,
)
from ssa_operator.operator.rollouts.windows import next_opening
from ssa_operator.reconcile.parent_records.rules import NO_REVISION
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.status.event_requests import Recorder
from ssa_operator.reconcile.status.events import Event
from ssa_operator.rendering.folder.loaded_folders import Folder, load_inputs

log = logging.getLogger("ssa_operator")

PAUSE = 0.2
"""Seconds between two looks at the parents, while reconciles end."""

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

READ_INTERVAL = 60.0
"""Seconds after which a revision is read again that can't be read."""

Plan = Callable[[Folder, frozenset[str], int], Awaitable[str]]
"""Why a set has to be confirmed before the parents with these uids get it, '' if it hasn't; the number is how many
objects it may delete or recreate.
"""


@dataclass(slots=True, kw_only=True)
class Process:
    """What the rollouts of all folders of a process have in common."""

    client: Client
    options: Options
    folders: Mapping[str, Parents]
    """The running folders by name."""
    requeue: Callable[[ParentKey, Cause], None]
    """Has a parent reconciled for a cause."""
    recorder: Recorder
    plan: Plan
    clock: Clock
    cache: Cache = field(default_factory=Cache)
    """The objects that hold the states."""
    prepared: asyncio.Task[None] | None = None
    """Ends when this process may decide."""

    @property
    def store(self) -> RevisionStore:
        return RevisionStore(self.client, self.options.installation.namespace or self.client.credentials.namespace)

    @property
    def is_prepared(self) -> bool:
        return self.prepared is not None and self.prepared.done()

    @property
    def decides(self) -> bool:
        return self.is_prepared and (self.options.shard is None or self.options.shard.index == 0)


@dataclass(slots=True, kw_only=True)
class FolderRollout:
    """The rollout of a folder with the setting."""

    process: Process
    newest: Folder
    """The set that was loaded from files last."""
    first: Folder
    """The set that was loaded first. New parents get it until a state is stored."""
    state: State | None = None
    """The state by which parents are reconciled, None until one is stored."""
    seen: LiveObject | None = None
    """The object that holds it, as the watch showed it last; None where it is gone."""
    compiled: dict[str, Folder] = field(default_factory=dict)
    """The revisions that parents run or get. One that can't be read has no templates, and says why."""
    wanted: set[str] = field(default_factory=set)
    """Other revisions that parents run."""
    reached: int = 0
    """How many parents of this process the rollout had reached when the state changed last, or they were listed."""
    counted: tuple[State | None, bool] = (None, False)
    """The state of that, and whether the parents were listed."""
    unstored: str = ""
    """Why the newest set can't be stored, as the state has it, or this process knows where there is no state."""
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
    """`run`, once it has begun."""
    awaited: str = ""
    """The uid of the parent of any shard for which a stopped rollout waits, '' for none."""
    watch: asyncio.Task[None] | None = None
    """The watch of that parent."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.newest.name

    @property
    def parents(self) -> Parents | None:
        return self.process.folders.get(self.name)

    def choose(self, live: LiveObject) -> Folder:
        """The set that renders a parent."""
        return self.folder(chosen_revision(self.state, self.newest.revision, self._recorded(live)))

    def _recorded(self, live: LiveObject) -> Member:
        parents = self.parents
        return recorded_member(live, None, reports_revision=parents is not None and parents.reports_revision)

    def folder(self, revision: str) -> Folder:
        """The set of a revision, with the reason why there is no newer one."""
        found = self._folder(revision)
        if not self.unstored or found.templates is None:
            return found
        return replace(found, problems=(*found.problems, RenderProblem(self.unstored)))

    def _folder(self, revision: str) -> Folder:
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
        problem = RenderProblem(f"revision {revision} can't be rendered: {why}")
        return replace(self.newest, templates=None, digest="", revision=revision, inputs=None, problems=(problem,))

    @property
    def version(self) -> object:
        """What changes with it."""
        return self.state, self.progress, self.problem

    async def shown_members(self) -> list[Member]:
        """Its parents, with shards those of this process, as their status shows them."""
        return [stored_member(live, None) async for live in _slices(self.parents or ()) if not live.deleting]

    def fails_at(self, member: Member) -> float | None:
        """When a parent that the rollout has reached counts as failed, in seconds since 1970; None where this process
        doesn't decide that.
        """
        since, settings = self.progress.unready_since.get(member.place), self.newest.settings.rollout
        if since is None or settings is None:
            return None
        clock = self.process.clock
        return since + unready_deadline(settings.settle) + clock.now() - clock.monotonic()

    async def run(self) -> None:
        """Follow the state, and decide where this process does, until cancelled."""
        clock = self.process.clock
        try:
            while True:
                due = earliest(self.due, self.read_again)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if due is None else max(0.0, due - clock.monotonic())):
                        await self.changed.wait()
                self.changed.clear()
                self.due, self.pause = None, PAUSE
                await self._try_step()
                await clock.sleep(self.pause)
        finally:
            self._end_watch()

    async def _try_step(self) -> None:
        try:
            await self._step()
        except NotLeader:
            pass
        except (ApiError, CredentialsError, RolloutUnavailableError) as error:
            if str(error) != self.problem:
                log.warning("%s: its rollout waits: %s", self.name, error)
            self.problem = str(error)
        except Exception:
            log.exception("%s: its rollout waits: unexpected error", self.name)
        else:
            self.problem = ""
            return
        self.due = self.process.clock.monotonic() + RETRY

    def _end_watch(self) -> None:
        """Watch no parent any more."""
        if self.watch is not None:
            self.watch.cancel()
        self.awaited, self.watch = "", None

    async def _step(self) -> None:
        await self.take_stored()
        await self._read_wanted()
        await self._count_reached()
        parents, folder = self.parents, self.newest
        if not self.process.decides:
            return
        if parents is None or not parents.serving:
            self.due = self.process.clock.monotonic() + LIST_INTERVAL  # no event tells of it where there are no parents
            return
        refused: ApiError | RolloutUnavailableError | None = None
        try:
            await self._store(parents)
        except (ApiError, RolloutUnavailableError) as error:
            refused = error
            if not isinstance(error, ApiError) or error.terminal or str(error) == self.problem:
                await self._set_unstored(f"{UNSTORED}: {error}")
        state, settings = self.state, folder.settings.rollout
        if state is not None and state.revision and settings is not None and (state.undo or refused is None):
            await self._decide(parents, settings)
        if refused is not None:
            raise refused

    async def _store(self, parents: Parents) -> None:
        """Store the loaded set and the revisions that are in use, and take it into the state, unless it is stored. A
        state that is gone follows from what this process knows, or from what the parents run and what is stored.
        """
        folder, state = self.newest, self.state
        stored = read_state(self.seen) if self.seen is not None else None
        if folder.inputs is None or (stored is not None and stored == self._loaded(stored)):
            return
        members = await self._members(parents)
        used = {member.runs for member in members} | (state.revisions if state is not None else set())
        inputs = {each.revision: each.inputs for each in self.compiled.values() if each.inputs is not None}
        kept = {revision: inputs[revision] for revision in sorted(used & inputs.keys())}
        revisions = await self.process.store.store(self.name, folder.revision, folder.inputs, used, kept)
        succeeded = [each for each in revisions if each.result is not None and each.result.result == "Succeeded"]
        successes = [each.revision for each in sorted(succeeded, key=lambda each: each.number, reverse=True)]
        runs = {member.runs for member in members} - {"", NO_REVISION, folder.revision}
        if state is None:
            state = lost_state(folder.revision, members, successes) if runs or successes else None
        first = state or first_state(folder.revision)
        await self._change(lambda found: self._loaded(found or first))

    def _loaded(self, state: State) -> State:
        """The state after the newest set was stored by this operator."""
        namespaces, selector = tuple(self.process.options.namespaces), self.process.options.selector
        state = with_loaded(state, self.newest.revision)
        return replace(state, unstored="", namespaces=namespaces, selector=selector)

    async def _set_unstored(self, why: str) -> None:
        """Have all parents say why no set can be stored."""
        await self._change(lambda found: replace(found, unstored=why) if found else None)
        if self.unstored != why:
            self.unstored = why
            async for live in _slices(self.parents or ()):
                self._requeue_parent(live, Cause.RETRY)

    async def _decide(self, parents: Parents, settings: RolloutSettings) -> None:
        assert self.state is not None
        before, now = self.state, self.process.clock.monotonic()
        opens = next_opening(settings.window, self.process.clock.now()) if settings.window is not None else ""
        sharded = self.process.options.shard is not None and self.process.options.shard.count > 1
        waits = before.planned == before.revision and before.opens == opens and not begins(before)
        if sharded and waits:  # nothing that is to be asked would decide anything
            self.due = now + WINDOW_INTERVAL if opens else None
            return
        target = self.compiled[before.target]
        unrendered = str(target.problems[0]) if target.templates is None else ""
        held = with_problem(before, unrendered)
        if unrendered or held != before:
            await self._change(lambda stored: held if stored == before else None)
            return
        members = await self._members(parents)
        # In a thread, because with many parents a look takes long, and must not hold up their reconciles.
        found = await asyncio.to_thread(decide, before, members, settings, self.progress, now, opens=opens)
        self.pause = max(PAUSE, LOOK_SHARE * (self.process.clock.monotonic() - now))
        poll = [now + LIST_INTERVAL] if sharded and not found.state.stopped else []
        if sharded:
            self._watch_parent(parents, awaited(found.state, members))
        poll += [now + WINDOW_INTERVAL] if opens else []
        self.due = earliest(found.due, *poll)
        state: State | None = found.state
        settles = found.due is not None and found.due - now >= 1.0
        if settles and found.progress.ready_since not in (None, self.progress.ready_since):
            state = replace(found.state, settles=timestamp(self.process.clock.now() + (found.due or now) - now))
        self.progress = found.progress
        if found.needs_plan:
            state = await self._planned(members, found.state, settings)
        if state is not None and state != before:
            # A process that follows one that dies in between decides the same again.
            await self._mark(before, state)
            await self._change(lambda stored: state if stored == before else None)
            self.due = now

    def _watch_parent(self, parents: Parents, member: Member | None) -> None:
        """Look again when a parent changes, which another shard may have. With None, watch none any more."""
        uid = member.uid if member is not None else ""
        if uid == self.awaited:
            return
        self._end_watch()
        self.awaited = uid
        if member is not None:
            cache = Cache()
            cache.listen(lambda *_: self.changed.set())
            scope = Scope(parents.served.resource, member.namespace, name=member.name)
            self.watch = asyncio.create_task(Reflector(self.process.client, scope, cache).run(), name=f"watch {member}")

    async def _planned(self, members: Iterable[Member], state: State, settings: RolloutSettings) -> State | None:
        """The state after it is known what the revision would delete, None if it is another one meanwhile. Raises
        ApiError and RolloutUnavailableError.
        """
        uids = frozenset(member.uid for member in members if revision_of(state, member) != state.target)
        if not uids or state.confirmed:
            return planned(state, "")
        plan = asyncio.ensure_future(self.process.plan(self.compiled[state.target], uids, settings.max_prune))
        try:
            while not plan.done():
                changed = asyncio.create_task(self.changed.wait())
                await asyncio.wait({plan, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if not plan.done() and self.changed.is_set():
                    self.changed.clear()
                    live = self.process.cache.get(self.process.store.namespace, state_name(self.name))
                    if live is not self.seen or self.newest.revision not in ("", state.loaded):
                        self.changed.set()
                        return None
            return planned(state, plan.result())
        finally:
            plan.cancel()
            await asyncio.gather(plan, return_exceptions=True)

    async def _change(self, change: Change) -> None:
        """Change the stored state, and take what is stored then."""
        with self.process.cache.writing(self.process.store.namespace, state_name(self.name)):
            live = await self.process.store.change_state(self.name, change)
            if live is not None:
                self.process.cache.written(live)
        await self.take_stored()

    async def take_stored(self) -> None:
        """Reconcile the parents by the stored state. Raises ApiError."""
        live = self.process.cache.get(self.process.store.namespace, state_name(self.name))
        if live is self.seen:
            return
        state = read_state(live) if live is not None else None
        if live is None or state is None:
            log.warning("%s: the state of its rollouts is gone or can't be read; it is made again", self.name)
            self.seen = live
            return
        await self._read(state.revisions - self.compiled.keys())
        before, self.state, self.seen = self.state, state, live
        said, self.unstored = self.unstored, state.unstored
        used = set(state.revisions)
        async for each in _slices(self.parents or ()):
            member = self._recorded(each)
            used.add(member.runs)
            newest = self.newest.revision
            if chosen_revision(before, newest, member) != chosen_revision(state, newest, member):
                self._requeue_parent(each, Cause.TEMPLATE)
            elif said != state.unstored:
                self._requeue_parent(each, Cause.RETRY)
        used.add(self.newest.revision)
        self.compiled = {revision: each for revision, each in self.compiled.items() if revision in used}
        if before is not None:
            await self._report(live, before, state)

    async def _read_wanted(self) -> None:
        """Read the revisions that parents run and that are not read yet, and have these parents reconciled."""
        if self.read_again is not None and self.read_again <= self.process.clock.monotonic():
            self.read_again = None
            self.wanted |= {revision for revision, each in self.compiled.items() if each.templates is None}
        wanted = {*self.wanted}
        await self._read(wanted)
        self.wanted -= wanted
        async for each in _slices((self.parents or ()) if wanted else ()):
            if chosen_revision(self.state, self.newest.revision, self._recorded(each)) in wanted:
                self._requeue_parent(each, Cause.TEMPLATE)

    async def _count_reached(self) -> None:
        state, counted = self.state, (self.state, self.process.is_prepared)
        if state is not None and counted != self.counted:
            found = [reaches(state, self._recorded(live)) async for live in _slices(self.parents or ())]
            self.reached, self.counted = sum(found), counted

    def _requeue_parent(self, live: LiveObject, cause: Cause) -> None:
        self.process.requeue(ParentKey(self.name, live.identity.namespace, live.identity.name), cause)

    async def _read(self, revisions: Iterable[str]) -> None:
        """Read stored revisions. Raises ApiError."""
        for revision in sorted(revisions):
            if revision == self.newest.revision:
                self.compiled[revision] = self.newest
                continue
            try:
                inputs = await self.process.store.read(self.name, revision)
                made_by = inputs.operator.get("version", "")
                if self.process.options.installation.hold_upgrade and made_by != __version__:
                    raise RevisionError(f"version {made_by} of the operator made it, and --hold-upgrade is given")
                folder = await asyncio.to_thread(load_inputs, self.name, self.newest.root, inputs)
                if folder.problems:
                    raise RevisionError(str(folder.problems[0]))
                if folder.revision != revision:
                    raise RevisionError("its content is not the one that was stored")
            except RevisionError as error:
                log.warning("%s: revision %s can't be used, its parents are left alone: %s", self.name, revision, error)
                folder = self.unusable(revision, str(error))
                self.read_again = self.process.clock.monotonic() + READ_INTERVAL
            self.compiled[revision] = folder

    async def _mark(self, before: State, after: State) -> None:
        """Mark the revisions with what became of them by a change of the state. Raises ApiError."""
        if after == self.marked:
            return
        for revision, result in result_of_change(before, after):
            now, why = timestamp(self.process.clock.now()), after.stopped or before.stopped
            found = RevisionResult(result, now, "" if result == "Succeeded" else why)
            await self.process.store.mark(self.name, revision, found)
        self.marked = after

    async def _report(self, live: LiveObject, before: State, after: State) -> None:
        """Log what changed, emit Events of it on the object that holds the state, and mark the revisions if another
        process changed it. Raises ApiError.
        """
        events: list[Event] = []
        if after.target != before.target:
            events.append(_event("RolloutStarted", f"revision {after.target} begins to roll out"))
        if after.held and after.held != before.held:
            events.append(_event("RolloutHeld", f"the rollout waits: {after.held}", warning=True))
        if after.stopped and not before.stopped:
            events.append(_event("RolloutStopped", f"the rollout is stopped: {after.stopped}", warning=True))
        if before.stopped and after.revision == before.revision and not after.stopped:
            why = "a user resumed it" if after.excused != before.excused else "the parents that stopped it are Ready"
            events.append(_event("RolloutResumed", f"the rollout of revision {after.revision} goes on: {why}"))
        if before.revision and not after.revision:
            events.append(_event("RolloutComplete", f"revision {after.target} is rolled out to all parents"))
        for event in events:
            log.log(logging.WARNING if event.warning else logging.INFO, "%s: %s", self.name, event.note)
        failed = {*after.failed} - {*before.failed} if self.process.is_prepared else set()
        note = f"it stopped the rollout of revision {after.revision}: it was Ready, and is not Ready at that revision"
        async for parent in _slices((self.parents or ()) if failed else ()):
            if place_of(parent.uid) in failed:
                self.process.recorder.emit(parent, [_event("RolloutStopped", note, warning=True)])
        if self.process.decides:
            self.process.recorder.emit(live, events)
            await self._mark(before, after)

    async def _members(self, parents: Parents) -> list[Member]:
        """All parents, those of other shards included. Raises ApiError."""
        if self.process.options.shard is None or self.process.options.shard.count == 1:
            return [
                reconciled_member(live, parents, self.compiled) async for live in _slices(parents) if not live.deleting
            ]
        if not parents.reports_revision:
            raise RolloutUnavailableError("with shards, the CRD has to declare status.revision: {type: string}")
        members: list[Member] = []
        for reflector in parents.reflectors:
            listed, _ = await self.process.client.list(parents.served.resource, reflector.scope.namespace)
            members += [stored_member(live, parents.folder) async for live in _slices(listed) if not live.deleting]
        return members


def chosen_revision(state: State | None, newest: str, member: Member) -> str:
    """The revision that a parent gets, '' for a new one while no state is stored. `newest` was loaded last."""
    if member.runs == NO_REVISION and newest:
        return newest
    if state is None or (member.runs and newest and not state.revision and state.loaded != newest):
        return member.runs  # an old state knows nothing of what ran since
    return revision_of(state, member)


async def _slices(lives: Iterable[LiveObject]) -> AsyncIterator[LiveObject]:
    """The objects. Other tasks have a turn after each slice of them."""
    for count, live in enumerate([*lives], 1):
        yield live
        if count % SLICE == 0:
            await asyncio.sleep(0)


def _event(reason: str, note: str, *, warning: bool = False) -> Event:
    return Event(reason=reason, action="Rollout", note=note, warning=warning)

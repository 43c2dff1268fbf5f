"""Decides the waves of a rollout: which revision each parent is on, which parents come next, and what stops it.

Promises:
- Which revision a parent is on follows from the stored state and from the parent's uid, creation time and namespace
  alone, so that every process and every restart gives the same answer.
- A rollout reaches each parent once: the canaries, then batches in the order of the parents' places, then the parents
  that were not Ready before. No wave begins before all parents of the earlier ones are Ready at the new revision for
  `settle`.
- A parent that was Ready and fails stops the rollout, beyond `maxUnready`: it is Stalled, or not Ready for longer than
  `unready_deadline`. The rollout goes on by itself when the parent is Ready again.
- Suspended parents are skipped. Parents that were not Ready before stop nothing.
- A new parent is on the last revision that succeeded until the canaries are done, and then on the new one.
- A newer set supersedes: it begins at the canaries, and each parent stays on the revision that it is on until then.
  Parents that the superseded set broke have their turn as if they were Ready, and stop the rollout if they stay broken.
- An undo takes parents that are not Ready at once, and the others in batches.

How it works:
The place of a parent is a hash of its uid. A rollout stores its canaries and a place: parents up to it are reached,
those above it are not. So the state is small, however many parents there are. Only the parents that were not Ready when
their turn came are named one by one; a second place says up to where those are reached.

`State.rollouts` is a stack. The first one is in progress; those below it were superseded. A parent is on the revision
of the first one that has reached it, and else on the last that succeeded.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.objects.label_selectors import selects
from ssa_operator.objects.messages import counted
from ssa_operator.objects.rollout_settings import Canary, RolloutSettings
from ssa_operator.operator.rollouts.memory import NO_PROGRESS, Progress, observed

EVERYWHERE = "~"
"""A place after that of every parent."""

SUCCESSES = 10
"""Revisions that succeeded which are remembered: as many as are kept."""

LEAST_DEADLINE = 30.0
"""Seconds."""

_LONG_AGO = "0"
"""Before the creation time of every parent."""

_NAMED = 5
"""Parents that a reason names."""


def unready_deadline(settle: float) -> float:
    """For how many seconds a parent may be not Ready at its new revision before it counts as failed."""
    return max(LEAST_DEADLINE, 10 * settle)


@lru_cache(maxsize=100_000)
def place_of(uid: str) -> str:
    """The place of a parent in the order of all rollouts."""
    return hashlib.blake2b(uid.encode(), digest_size=5).hexdigest()


class Member(Struct, frozen=True, kw_only=True):
    """A parent of the folder, as its last reconcile left it."""

    uid: str
    namespace: str = ""
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    created: str = ""
    """Its creationTimestamp."""
    known: bool = True
    """Whether a reconcile has ended, so that the other fields hold."""
    ready: bool = False
    stalled: bool = False
    """Whether it can't become Ready without a change."""
    suspended: bool = False
    revision: str = ""
    """The revision of its last reconcile that came to its end."""
    message: str = ""
    """The message of its condition Ready."""

    @property
    def place(self) -> str:
        return place_of(self.uid)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Rollout(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far a revision was rolled out."""

    revision: str
    undo: bool = False
    canaries: tuple[str, ...] = ()
    """The places of the parents that come first, in order."""
    canaries_done: bool = False
    newest: str = ""
    """The creation time of the newest parent at the moment when the canaries were done."""
    until: str = ""
    """The creation time of the newest parent at the moment when it was superseded, '' while it is in progress."""
    through: str = ""
    """The place up to which parents are reached, except those in `last`."""
    last: tuple[str, ...] = ()
    """The places of the parents that were not Ready when their turn came, in order."""
    last_through: str = ""
    """The place up to which those are reached."""


class State(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The rollouts of a folder, as they are stored."""

    loaded: str
    """The revision that was loaded from files last."""
    successes: tuple[str, ...]
    """The revisions that succeeded, the last one first."""
    rollouts: tuple[Rollout, ...] = ()
    """The rollout in progress, and those that were superseded before they succeeded, newest first."""
    paused: bool = False
    stopped: str = ""
    """Why no wave begins: parents that failed. '' while none did."""
    planned: str = ""
    """The revision whose deletions are known."""
    held: str = ""
    """Why the first wave waits for `rollout resume`, '' if it doesn't."""
    opens: str = ""
    """When the window opens in which waves may begin, '' while it is open."""

    @property
    def succeeded(self) -> str:
        """The last revision that succeeded."""
        return self.successes[0]

    @property
    def target(self) -> str:
        """The revision that all parents are on, or get."""
        return self.rollouts[0].revision if self.rollouts else self.succeeded

    @property
    def revisions(self) -> frozenset[str]:
        """The revisions that parents may be on."""
        return frozenset({self.succeeded, *(each.revision for each in self.rollouts)})


class Decision(Struct, frozen=True, kw_only=True):
    """What follows from a look at all parents."""

    state: State
    progress: Progress = NO_PROGRESS
    due: float | None = None
    """When the next look is due without an event, on the clock of `now`."""
    needs_plan: bool = False
    """Whether it must become known what the revision would delete before its first wave."""


def first_state(revision: str) -> State:
    """The state of a folder whose first revision is loaded: every parent is on it."""
    return State(loaded=revision, successes=(revision,))


def reaches(rollout: Rollout, member: Member) -> bool:
    """Whether a rollout has reached a parent."""
    place = member.place
    if _has(rollout.canaries, place):
        return True
    if not rollout.canaries_done:
        return False
    if _is_new(rollout, member):
        return not rollout.until or member.created <= rollout.until
    return place <= (rollout.last_through if _has(rollout.last, place) else rollout.through)


def _has(places: Sequence[str], place: str) -> bool:
    """Whether a place is among others, which are in order and may be thousands."""
    at = bisect_left(places, place)
    return at < len(places) and places[at] == place


def _is_new(rollout: Rollout, member: Member) -> bool:
    """Whether a parent was created after the canaries were done."""
    return bool(rollout.newest) and member.created > rollout.newest


def revision_of(state: State, member: Member) -> str:
    """The revision that a parent is on."""
    return next((each.revision for each in state.rollouts if reaches(each, member)), state.succeeded)


def with_loaded(state: State, revision: str) -> State:
    """The state after a set was loaded from files."""
    if revision == state.loaded:
        return state  # an undo holds until the files change
    return _with_target(replace(state, loaded=revision), revision, undo=revision == state.succeeded)


def _with_target(state: State, revision: str, *, undo: bool) -> State:
    if revision == state.target:
        return state
    superseded = tuple(each for each in state.rollouts if each.canaries or each.canaries_done)
    return replace(
        state, rollouts=(Rollout(revision=revision, undo=undo), *superseded), stopped="", planned="", held=""
    )


def undo_target(state: State) -> str | None:
    """The revision to which an undo returns: the last that succeeded and is not the present one; None without one."""
    return next((each for each in state.successes if each != state.target), None)


def undone(state: State, revision: str) -> State:
    """The state after an undo to a revision."""
    return replace(_with_target(state, revision, undo=True), paused=False)


def paused(state: State) -> State:
    """The state in which no wave begins."""
    return replace(state, paused=True)


def resumed(state: State) -> State:
    """The state in which waves begin again. Of a paused rollout this confirms no deletions: they need another one."""
    return replace(state, paused=False) if state.paused else replace(state, held="")


def planned(state: State, deletions: int, described: str, limit: int) -> State:
    """The state after it became known what the revision would delete or recreate."""
    why = f"it would delete or recreate {described}; `rollout resume` confirms that" if deletions > limit else ""
    return replace(state, planned=state.target, held=why)


def decide(
    state: State,
    members: Sequence[Member],
    settings: RolloutSettings,
    progress: Progress,
    now: float,
    *,
    opens: str = "",
) -> Decision:
    """What follows from these parents. `now` is on a monotonic clock; `opens` is when the window of the settings opens,
    '' while it is open.
    """
    if not state.rollouts:
        return Decision(state=state)
    state = replace(_superseded(state, members), opens=opens)
    judged = _judge(state, members, settings, progress, now)
    progress = judged.progress
    if len(judged.failed) > settings.max_unready:
        why = _stop_reason(judged.failed, state.target, settings.max_unready)
        return Decision(state=replace(state, stopped=why), progress=replace(progress, ready_since=None), due=judged.due)
    state = replace(state, stopped="")
    if judged.waits:
        return Decision(state=state, progress=replace(progress, ready_since=None), due=judged.due)
    begins = not (state.rollouts[0].canaries or state.rollouts[0].canaries_done)
    ready_since = now if progress.ready_since is None else progress.ready_since
    progress = replace(progress, ready_since=ready_since)
    if not begins and now < ready_since + settings.settle:
        return Decision(state=state, progress=progress, due=ready_since + settings.settle)
    if any(not member.known and not member.suspended for member in members):
        return Decision(state=state, progress=progress)
    if begins and not state.rollouts[0].undo and state.planned != state.target:
        return Decision(state=state, progress=progress, needs_plan=True)
    new = _next_wave(state, members, settings)
    if new.rollouts and (state.paused or state.held or opens):
        return Decision(state=state, progress=progress)
    return Decision(state=new, progress=replace(progress, ready_since=None))


def _superseded(state: State, members: Sequence[Member]) -> State:
    """The state in which superseded rollouts reach no parent that is created from now on."""
    if all(each.until for each in state.rollouts[1:]):
        return state
    newest = max((member.created for member in members), default="") or _LONG_AGO
    below = (each if each.until else replace(each, until=newest) for each in state.rollouts[1:])
    return replace(state, rollouts=(state.rollouts[0], *below))


class _Judged(Struct, frozen=True):
    """The parents that the rollout in progress has reached."""

    progress: Progress
    failed: Sequence[Member]
    waits: bool
    """Whether one of them is not Ready and has not failed."""
    due: float | None
    """When the first of these fails."""


def _judge(
    state: State, members: Sequence[Member], settings: RolloutSettings, progress: Progress, now: float
) -> _Judged:
    rollout = state.rollouts[0]
    missed: list[tuple[Member, bool]] = []
    for member in members:
        if member.suspended or not reaches(rollout, member):
            continue
        excused, current = _is_excused(rollout, member), member.revision == rollout.revision
        if not current or not (excused or member.ready):
            missed.append((member, excused))
    progress = observed(progress, (member.place for member, _ in missed), now)
    deadline = unready_deadline(settings.settle)
    failed, due = [], []
    for member, excused in missed:
        until = progress.unready_since[member.place] + deadline
        stalled = member.stalled and member.revision == rollout.revision
        if now < until and not stalled:
            due.append(until)
        elif not excused:
            failed.append(member)
    return _Judged(progress, failed, bool(due), min(due, default=None))


def _is_excused(rollout: Rollout, member: Member) -> bool:
    """Whether a parent that is reached stops nothing: it was not Ready before, or is new."""
    if _is_new(rollout, member) or _has(rollout.last, member.place):
        return True
    return rollout.undo and _has(rollout.canaries, member.place)


def _was_ready(state: State, member: Member) -> bool:
    """Whether a superseded rollout has reached a parent while it was Ready, so that only that rollout broke it."""
    return any(reaches(each, member) and not _is_excused(each, member) for each in state.rollouts[1:])


def _stop_reason(failed: Sequence[Member], revision: str, allowed: int) -> str:
    named = [f"{member}: {member.message}" if member.message else str(member) for member in failed[:_NAMED]]
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    was, now = ("was", "is") if len(failed) == 1 else ("were", "are")
    beyond = f", more than maxUnready ({allowed})" if allowed else ""
    what = f"{counted(len(failed), 'parent')} that {was} Ready {now} not Ready at revision {revision}{beyond}"
    return f"{what} ({'; '.join(named)}{more})"


def _next_wave(state: State, members: Sequence[Member], settings: RolloutSettings) -> State:
    """The state in which the next wave has begun, or the rollout has succeeded."""
    rollout = state.rollouts[0]
    active = [member for member in members if not member.suspended]
    left = sorted(
        (member for member in active if revision_of(state, member) != rollout.revision), key=lambda each: each.place
    )
    ready = [each for each in left if each.ready or _was_ready(state, each)]
    newest = max((member.created for member in members), default="")
    if rollout.undo and not rollout.canaries_done:
        first = tuple(member.place for member in left if not member.ready)
        rollout = replace(rollout, canaries=first, canaries_done=True, newest=newest)
        if first:
            return _with_rollout(state, rollout)
    elif not rollout.canaries_done:
        if not rollout.canaries and ready:
            return _with_rollout(state, replace(rollout, canaries=canaries(ready, settings.canary)))
        rollout = replace(rollout, canaries_done=True, newest=newest)
    size = settings.batch.of(len(active))
    named = frozenset(rollout.last)
    wave = [member for member in ready if member.place not in named][:size]
    if wave:
        return _with_rollout(state, _through(rollout, wave[-1].place, left, wave))
    rollout = _through(rollout, EVERYWHERE, left, ())
    wave = left[:size]
    if wave:
        return _with_rollout(state, replace(rollout, last_through=wave[-1].place))
    successes = (rollout.revision, *(each for each in state.successes if each != rollout.revision))
    return replace(state, successes=successes[:SUCCESSES], rollouts=(), stopped="", planned="", held="", opens="")


def _with_rollout(state: State, rollout: Rollout) -> State:
    return replace(state, rollouts=(rollout, *state.rollouts[1:]))


def _through(rollout: Rollout, place: str, left: Iterable[Member], wave: Sequence[Member]) -> Rollout:
    """The rollout that has reached the parents up to a place, except those that are not in the wave: they come last."""
    chosen: AbstractSet[str] = {member.place for member in wave}
    later = {member.place for member in left if member.place <= place and member.place not in chosen}
    return replace(rollout, through=place, last=tuple(sorted({*rollout.last, *later})))


def canaries(ready: Sequence[Member], wanted: Canary) -> tuple[str, ...]:
    """The places of the canaries among the parents that are Ready: those that the selector selects are chosen first,
    and of different namespaces as far as possible.
    """
    selected: list[Member] = []
    others: list[Member] = []
    for member in ready:
        (selected if selects(wanted.selector, member.labels) else others).append(member)
    count = len(selected) if wanted.count is None and selected else wanted.count or 1
    chosen: list[Member] = []
    namespaces: set[str] = set()
    for candidates in (selected, others):
        first: list[Member] = []
        again: list[Member] = []
        for member in candidates:
            (again if member.namespace in namespaces else first).append(member)
            namespaces.add(member.namespace)
        chosen += [*first, *again]
    return tuple(sorted(member.place for member in chosen[:count]))

"""Decides the waves of a rollout: which revision each parent gets, which parents come next, and what stops it.

Promises:
- A parent keeps the revision that it runs, which is recorded on the parent, until a wave reaches it. So nothing that is
  stored elsewhere, however old, lost or unreadable, gives a parent a set.
- A rollout reaches each parent once: the canaries, then batches in the order of the parents' places, then the parents
  that were not Ready before. No wave begins before all parents of the earlier ones are Ready at the new revision for
  `settle`.
- Only a parent proves a wave that was Ready and is Ready at the new revision. A canary that is suspended, deleted or
  no longer selected proves nothing: the next one takes its place, and without any the rollout stops.
- A parent that was Ready and fails stops the rollout, beyond `maxUnready`: it is Stalled, or not Ready for longer than
  `unready_deadline`. The rollout goes on when the very parents that stopped it are Ready at the new revision for
  `settle`, or a user resumes it: then these don't count any more.
- Suspended parents are skipped. Parents that were not Ready before stop nothing.
- A new parent gets the last revision that succeeded until the canaries are done, and then the new one.
- A newer set supersedes: it begins at the canaries. Parents that the superseded set broke have their turn as if they
  were Ready, and stop the rollout if they stay broken.
- An undo waits for no window, no pause and no `settle`. It takes parents that are not Ready at once, and the others in
  batches.

How it works:
A parent is reached if it runs the revision, or if it is in the wave that the state names: no more than WAVE_LIMIT
parents by their places, until each of them has recorded the revision. So the state is small, however many parents there
are. The place of a parent is a hash of its uid.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.objects.label_selectors import selects
from ssa_operator.objects.messages import counted
from ssa_operator.objects.rollout_settings import Canary, RolloutSettings
from ssa_operator.reconcile.parent_records.rules import NO_REVISION

SUCCESSES = 10
"""Revisions that succeeded which are remembered: as many as are kept."""

LEAST_DEADLINE = 30.0
"""Seconds."""

WAVE_LIMIT = 2_000
"""Parents of a wave, however large the batches are."""

UNSTORED = "their revision can't be stored"
"""With this begins why no parent gets other templates, in the state and in the status of the parents."""

_NAMED = 5
"""Parents that a reason names."""


class RefusedError(ValueError):
    """What a user asks of a rollout makes no sense in its state. The text follows the folder's name."""


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
    known: bool = True
    """Whether a reconcile has ended, so that the other fields hold."""
    ready: bool = False
    stalled: bool = False
    """Whether it can't become Ready without a change."""
    suspended: bool = False
    runs: str = ""
    """The revision that it runs, NO_REVISION for a set without rollouts, '' for a new parent."""
    ready_before: str = ""
    """The last revision before that one at which it was Ready, that one if it can't be rendered, '' for none."""
    revision: str = ""
    """The revision of its last reconcile that came to its end."""
    message: str = ""
    """The message of its condition Ready."""

    @property
    def place(self) -> str:
        return place_of(self.uid)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class State(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The rollout of a folder, as it is stored."""

    loaded: str
    """The revision that was loaded from files last."""
    successes: tuple[str, ...]
    """The revisions that succeeded, the last one first."""
    revision: str = ""
    """The revision that is rolled out, '' while none is."""
    superseded: tuple[str, ...] = ()
    """Other revisions that parents may run, the last one first."""
    undo: bool = False
    undone: str = ""
    """The revision that was left by an undo, until the files change."""
    wave: tuple[str, ...] = ()
    """The places of the parents that get the revision now, in order."""
    batch: int = 0
    """The number of the present batch, 0 until there is one: for the canaries."""
    batches: int = 0
    """How many batches there are, if each parent becomes Ready and none is added."""
    settles: str = ""
    """When `settle` of the present wave is over (RFC 3339), '' while a parent of it is not Ready."""
    canaries_done: bool = False
    stopped: str = ""
    """Why no wave begins: parents that failed. '' while none did."""
    failed: tuple[str, ...] = ()
    """The places of the parents that stopped it."""
    excused: tuple[str, ...] = ()
    """The places of those that don't count any more, because a user resumed it all the same."""
    paused: bool = False
    planned: str = ""
    """The revision whose deletions are known."""
    held: str = ""
    """Why the first wave waits for `rollout resume`, '' if it doesn't. Where the revision can't be rendered, this says
    so, and its deletions are not known.
    """
    confirmed: bool = False
    """Whether a user wants this rollout whatever it deletes."""
    opens: str = ""
    """When the window opens in which waves may begin, '' while it is open."""
    opened: bool = False
    """Whether a user let this rollout go on outside of the window."""
    unstored: str = ""
    """Why the set that is loaded can't be stored, so that no parent gets it, '' if it is stored."""
    namespaces: tuple[str, ...] = ()
    """Those whose parents the operator has, () for all."""
    selector: str = ""
    """The labels of the parents that it has, '' for all."""

    @property
    def succeeded(self) -> str:
        """The last revision that succeeded."""
        return self.successes[0]

    @property
    def target(self) -> str:
        """The revision that all parents run, or get."""
        return self.revision or self.succeeded

    @property
    def revisions(self) -> frozenset[str]:
        """The revisions that most parents run or get."""
        return frozenset({self.target, self.succeeded, *self.superseded})


class Progress(Struct, frozen=True, kw_only=True):
    """How long the parents of a rollout have been Ready, or not, by the process's monotonic clock in seconds. If a
    process loses it, a wave has to be Ready for the whole time once more.
    """

    unready_since: Mapping[str, float] = field(default_factory=dict)
    """Since when each parent that was reached is not Ready at the new revision, by its place in the order."""
    ready_since: float | None = None
    """Since when all others are Ready, None while they are not."""


NO_PROGRESS = Progress()


class Decision(Struct, frozen=True, kw_only=True):
    """What follows from a look at all parents."""

    state: State
    progress: Progress = NO_PROGRESS
    due: float | None = None
    """When the next look is due without an event, on the clock of `now`."""
    needs_plan: bool = False
    """Whether it must become known what the revision would delete before its first wave."""


def first_state(revision: str) -> State:
    """The state of a folder whose first revision is loaded: every parent gets it."""
    return State(loaded=revision, successes=(revision,))


def lost_state(loaded: str, members: Iterable[Member], successes: Sequence[str]) -> State:
    """The state of a folder that had one, and has none: what the parents run is left alone, and the set that is loaded
    from files is rolled out from its canaries. `successes` are the stored revisions that are known to have succeeded,
    the last one first; without any, what most parents run has.
    """
    run = Counter(member.runs for member in members if member.runs not in ("", NO_REVISION, loaded))
    known = tuple(successes or [revision for revision, _ in run.most_common(1)] or [loaded])
    state = with_loaded(State(loaded="", successes=known), loaded)
    return state if state.revision or not run else replace(state, revision=loaded, undo=True)


def reaches(state: State, member: Member) -> bool:
    """Whether the rollout has reached a parent. While there is none, all parents are."""
    return not state.revision or member.runs in (state.revision, NO_REVISION) or _has(state.wave, member.place)


def revision_of(state: State, member: Member) -> str:
    """The revision that a parent gets."""
    if reaches(state, member):
        return state.target
    return member.runs or (state.revision if state.canaries_done else state.succeeded)


def _has(places: Sequence[str], place: str) -> bool:
    """Whether a place is among others, which are in order."""
    at = bisect_left(places, place)
    return at < len(places) and places[at] == place


# What users do.


def with_loaded(state: State, revision: str) -> State:
    """The state after a set was loaded from files."""
    if revision == state.loaded:
        return state  # an undo holds until the files change
    return _with_target(replace(state, loaded=revision, undone=""), revision, undo=revision == state.succeeded)


def _with_target(state: State, revision: str, *, undo: bool) -> State:
    if revision == state.target:
        return state
    begun = (state.revision, *state.superseded) if state.wave else state.superseded
    others = tuple(each for each in dict.fromkeys(begun) if each not in (revision, state.succeeded))
    return replace(_at_rest(state), revision=revision, undo=undo, superseded=others[:SUCCESSES])


def _at_rest(state: State) -> State:
    """The state without a rollout."""
    return State(
        loaded=state.loaded,
        successes=state.successes,
        undone=state.undone,
        paused=state.paused,
        namespaces=state.namespaces,
        selector=state.selector,
    )


def undo_target(state: State) -> str | None:
    """The revision to which an undo returns: the last that succeeded and is not the present one; None without one."""
    return next((each for each in state.successes if each != state.target), None)


def undone(state: State, revision: str, *, confirmed: bool = False) -> State:
    """The state after an undo to a revision. `confirmed`: whatever that deletes."""
    left = state.target if state.target != revision else state.undone
    state = replace(_with_target(state, revision, undo=True), paused=False, undone=left)
    return replace(state, held="", confirmed=True) if confirmed else state


def paused(state: State) -> State:
    """The state in which no wave begins. Raises RefusedError."""
    if state.paused:
        raise RefusedError("is already paused")
    return replace(state, paused=True)


def resumed(state: State) -> State:
    """The state in which waves begin again, for the first reason why none does. Raises RefusedError."""
    if state.paused:
        return replace(state, paused=False)
    if state.held and state.planned != state.revision:
        raise RefusedError(f"can't go on: {state.held}")
    if state.stopped:
        excused = tuple(sorted({*state.excused, *state.failed}))
        done = state.canaries_done or not state.failed
        return replace(state, stopped="", failed=(), excused=excused, canaries_done=done)
    if state.held:
        return replace(state, held="")
    if state.revision and state.opens and not state.opened:
        return replace(state, opened=True)
    raise RefusedError("is not paused")


def planned(state: State, held: str) -> State:
    """The state after it became known what the revision would do, and why that has to be confirmed, '' if it hasn't."""
    return replace(state, planned=state.target, held="" if state.confirmed else held)


def with_problem(state: State, problem: str) -> State:
    """The state after the revision was found to have a problem for which it can't be rendered, '' for none."""
    if problem:
        return replace(state, planned="", held=problem)
    if state.held and state.planned != state.revision:
        return replace(state, planned=state.revision if state.wave else "", held="")
    return state


def begins(state: State) -> bool:
    """Whether a wave may begin, as far as users and the window decide it."""
    if not state.revision or state.held:
        return False
    return state.undo or not (state.paused or (state.opens and not state.opened))


# What the parents show.


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
    if not state.revision:
        return Decision(state=state)
    state = replace(state, opens=opens)
    active = [member for member in members if not member.suspended]
    judged = _judge(state, active, settings, progress, now)
    state, progress = judged.state, judged.progress
    if judged.waits:
        state = replace(state, settles="")
        return Decision(state=state, progress=replace(progress, ready_since=None), due=judged.due)
    progress = replace(progress, ready_since=now if progress.ready_since is None else progress.ready_since)
    settled = (progress.ready_since or 0.0) + (settings.settle if state.wave and not state.undo else 0.0)
    if now < settled:
        return Decision(state=state, progress=progress, due=settled)
    if not all(member.known for member in active):
        return Decision(state=state, progress=progress)
    if not state.wave and state.planned != state.revision:
        return Decision(state=state, progress=progress, needs_plan=True)
    state = replace(state, stopped="", failed=())
    new = _next_wave(state, members, settings)
    if new.revision and not new.stopped and not begins(state):
        return Decision(state=state, progress=progress)
    return Decision(state=new, progress=progress if new.stopped else replace(progress, ready_since=None))


class _Judged(Struct, frozen=True):
    """What the parents show that the rollout has reached."""

    state: State
    """It is stopped if too many have failed."""
    progress: Progress
    waits: bool
    """Whether no wave may follow: one of them is not Ready yet, or the rollout is stopped."""
    due: float | None
    """When the first of these fails."""


def _judge(
    state: State, active: Sequence[Member], settings: RolloutSettings, progress: Progress, now: float
) -> _Judged:
    reached = [member for member in active if reaches(state, member)]
    missed = [
        member
        for member in reached
        if (_counts(state, member) and not _is_proof(state, member))
        or (_has(state.wave, member.place) and member.revision != state.revision)
    ]
    since = {member.place: progress.unready_since.get(member.place, now) for member in missed}
    deadline = unready_deadline(settings.settle)
    failed, due = [], []
    for member in missed:
        until = since[member.place] + deadline
        stalled = member.stalled and member.revision == state.revision
        if _counts(state, member) and (stalled or now >= until):
            failed.append(member)
        elif now < until and not (state.undo and member.revision == state.revision):
            due.append(until)
    if len(failed) > settings.max_unready:
        places = tuple(sorted({*state.failed, *(member.place for member in failed[:WAVE_LIMIT])}))
        why = _stop_reason(failed, state.revision, settings.max_unready)
        state = replace(state, stopped=why, failed=places)
    proven = {member.place for member in reached if _is_proof(state, member)}
    stopped = bool(state.stopped) and not proven.issuperset(state.failed)
    progress = replace(progress, unready_since=since)
    return _Judged(state, progress, stopped or bool(due), min(due, default=None))


def awaited(state: State, members: Iterable[Member]) -> Member | None:
    """A parent that has to become Ready before a stopped rollout goes on by itself, None if none can."""
    failed = (each for each in members if _has(state.failed, each.place) and not _is_proof(state, each))
    return next(failed, None) if state.stopped else None


def _is_proof(state: State, member: Member) -> bool:
    """Whether a parent is Ready at the new revision, by a reconcile that applied it."""
    return member.ready and member.runs == member.revision == state.revision


def _counts(state: State, member: Member) -> bool:
    """Whether a parent proves something or stops the rollout: it was Ready until it got the revision, or is Ready now
    and gets it. One that a superseded revision broke was Ready, too, and one whose revision can't be rendered any more.
    """
    before = member.ready_before
    if _has(state.excused, member.place) or NO_REVISION in (member.runs, before):
        return False
    if member.runs != state.revision and (member.ready or member.runs in state.successes):
        return member.ready or before == member.runs
    return before not in ("", member.runs) and (before == state.succeeded or before not in state.successes)


def _stop_reason(failed: Sequence[Member], revision: str, allowed: int) -> str:
    named = [f"{member}: {member.message}" if member.message else str(member) for member in failed[:_NAMED]]
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    was, now = ("was", "is") if len(failed) == 1 else ("were", "are")
    beyond = f", more than maxUnready ({allowed})" if allowed else ""
    what = f"{counted(len(failed), 'parent')} that {was} Ready {now} not Ready at revision {revision}{beyond}"
    return f"{what} ({'; '.join(named)}{more})"


def _next_wave(state: State, members: Sequence[Member], settings: RolloutSettings) -> State:
    """The state in which the next wave has begun, the rollout has succeeded, or nothing proves it any more."""
    in_order = sorted((each for each in members if not each.suspended), key=lambda each: each.place)
    left = [member for member in in_order if revision_of(state, member) != state.revision]
    sound = [member for member in left if _counts(state, member)]
    if not state.undo and not state.canaries_done:
        proofs = [member for member in in_order if _is_proof(state, member) and _counts(state, member)]
        wanted = canaries([*proofs, *sound], settings.canary)
        if missing := [member for member in wanted if not reaches(state, member)]:
            return _with_wave(state, missing, in_order)
        if not wanted and state.wave and not state.batch and members and not state.excused:
            return replace(state, stopped=f"no parent is left that was Ready and is at revision {state.revision}")
        state = replace(state, canaries_done=bool(wanted or state.excused))
    broken = [member for member in left if not member.ready] if state.undo else []
    if left:
        size = min(settings.batch.of(len(in_order)), WAVE_LIMIT)
        in_batches = [len(left) - len(broken)] if broken else [len(sound), len(left) - len(sound)]
        ahead = bool(broken) + sum(math.ceil(each / size) for each in in_batches)
        batch = broken or (sound or left)[:size]
        return _with_wave(state, batch, in_order, number=state.batch + 1, of=state.batch + ahead)
    successes = (state.revision, *(each for each in state.successes if each != state.revision))
    return replace(_at_rest(state), successes=successes[:SUCCESSES])


def _with_wave(
    state: State, wave: Sequence[Member], active: Iterable[Member], *, number: int = 0, of: int = 0
) -> State:
    """The state in which these parents get the revision, beside those that have not got it yet."""
    late = [each.place for each in active if _has(state.wave, each.place) and each.runs != state.revision]
    places = tuple(sorted([*late, *(each.place for each in wave)][:WAVE_LIMIT]))
    return state if places == state.wave else replace(state, wave=places, batch=number, batches=of, settles="")


def canaries(candidates: Sequence[Member], wanted: Canary) -> list[Member]:
    """The canaries among parents in the order of preference: those that the selector selects are chosen first, and of
    different namespaces as far as possible.
    """
    selected: list[Member] = []
    others: list[Member] = []
    for member in candidates:
        (selected if selects(wanted.selector, member.labels) else others).append(member)
    count = len(selected) if wanted.count is None and selected else wanted.count or 1
    chosen: list[Member] = []
    namespaces: set[str] = set()
    for each in (selected, others):
        first: list[Member] = []
        again: list[Member] = []
        for member in each:
            (again if member.namespace in namespaces else first).append(member)
            namespaces.add(member.namespace)
        chosen += [*first, *again]
    return chosen[:count]


# What is ahead.


def waves_ahead(
    state: State, members: Sequence[Member], settings: RolloutSettings, most: int
) -> list[tuple[State, list[Member]]]:
    """The next waves, if each parent becomes Ready and none is added: the state in which each begins, and its parents.
    At most so many.
    """
    found: list[tuple[State, list[Member]]] = []
    members = [_as_if_ready(state, each) if reaches(state, each) else each for each in members]
    while state.revision and len(found) < most:
        after = _next_wave(replace(state, stopped="", failed=()), members, settings)
        if after.wave == state.wave or not after.revision:
            break
        found.append((after, [each for each in members if _has(after.wave, each.place)]))
        state, members = after, [_as_if_ready(after, each) if reaches(after, each) else each for each in members]
    return found


def _as_if_ready(state: State, member: Member) -> Member:
    if member.suspended or _is_proof(state, member):
        return member
    before = member.runs if member.runs != state.revision else member.ready_before
    return replace(member, ready=True, stalled=False, runs=state.revision, ready_before=before, revision=state.revision)

"""Field conflicts: another manager changes fields that the operator applies, and the operator reverts the change.

Promises:
- The operator detects a foreign change by field ownership: its managedFields entry lost a field, another operator with
  the same field manager wrote, or the object was deleted. The message names the manager and the fields, as far as
  managedFields do.
- Each apply takes the fields of the manifest from any other manager, so it reverts a change. The operator reverts a few
  changes of a field at once. Past the limits of `ConflictPolicy` it is a conflict: the pauses between reverts grow to a
  cap. The operator never stops reverting, and has the last word when the other manager is quiet.
- A new value of the parent's `reconcile-at` ends every pause.
- A conflict is over when the other manager has left a revert alone for longer than its slowest answer. A changed
  manifest starts without history.
- Time is an argument, in seconds on the monotonic clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.kube.api.backoff import exponential
from ssa_operator.objects.annotations import APPLIED_EACH_TIME
from ssa_operator.objects.field_set import FieldSets, Path, changed_fields, lost_fields, path_text
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import MANAGER, LiveObject, split_entry
from ssa_operator.objects.managed_fields import managers_of, names_owners
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.field_conflicts.history import (
    ConflictHistory,
    ConflictingChange,
    ConflictPolicy,
    DatedChange,
    ForeignChange,
)
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.resync.unchanged import ApplyRecord, is_untouched, is_untouched_by_version, with_newest

RECORDED_FIELDS = 100
"""Fields that are recorded of a change by one manager. Further fields change with them, for example if a manager writes
the whole object.
"""

_RECORDED_CHANGES = 20
"""Foreign changes that a history holds beside the latest."""


def find_foreign_change(record: ApplyRecord, live: LiveObject | None) -> ForeignChange:
    """What others did to an object since the recorded apply. `live` is the object now, None if it is gone."""
    if live is None or live.uid != record.uid:
        return ForeignChange()
    return ForeignChange(find_field_changes(record.own_entry, record.applied, live))


def find_field_changes(
    own_entry: bytes, last_applied: LiveObject, live: LiveObject, subresource: str = ""
) -> tuple[ConflictingChange, ...]:
    """Which manager changed which of the fields in the operator's managedFields entry `own_entry`.

    Another operator with the same field manager leaves the entry's fields, and changes its time.
    """
    sets = FieldSets()
    time_before, fields_before = split_entry(own_entry)
    time, fields = split_entry(live.own_entry(subresource))
    missing = lost_fields(fields_before, fields, sets)
    comparable = last_applied.version == live.version
    altered = changed_fields(fields, last_applied.body, live.body, sets) if comparable else ()
    if live.shared is not None:
        # Each of several owners applies the object, and may add an owner.
        time, missing = time_before, tuple(path for path in missing if not names_owners(path))
        altered = tuple(path for path in altered if not names_owners(path))
    # A field that the operator still owns and that has another value was written under the operator's name.
    if fields and (time != time_before or altered or not missing):
        return (_field_change((MANAGER, "Apply", subresource), {*missing, *altered}),)
    if not live.managed_fields:
        return (ConflictingChange(fields=("metadata.managedFields",)),)
    found: dict[tuple[str, str, str], list[Path]] = {}
    owners = managers_of(live, missing, subresource == "status", time_before.decode(), sets)
    for path, owner in zip(missing, owners, strict=True):
        manager = (owner.manager, owner.operation, owner.subresource) if owner is not None else ("", "", "")
        found.setdefault(manager, []).append(path)
    return tuple(_field_change(by, paths) for by, paths in sorted(found.items()))


def with_foreign_change(
    history: ConflictHistory | None, digest: bytes, change: ForeignChange, now: float, conflict_policy: ConflictPolicy
) -> ConflictHistory:
    """The history with a foreign change that the operator sees for the first time."""
    if history is None or history.digest != digest:
        return ConflictHistory(digest=digest, changes=(DatedChange(now, change),), revert_due=now)
    recent = [dated for dated in history.changes if dated.seen_at > now - conflict_policy.window]
    changes = (*recent[-_RECORDED_CHANGES:], DatedChange(now, change))
    counts = Counter(field for dated in changes for field in dated.change.fields)
    in_conflict = history.in_conflict or max(counts.values()) > conflict_policy.allowed_changes
    conflict_changes = history.conflict_changes + 1 if in_conflict else 0
    response = now - (history.reverted_at or now)
    slowest = max(history.slowest_response if history.in_conflict else 0.0, response)
    pause = (
        exponential(conflict_policy.backoff_base, conflict_policy.backoff_cap, conflict_changes - 1)
        if in_conflict
        else 0.0
    )
    return replace(
        history,
        changes=changes,
        reverted_at=None,
        conflict_changes=conflict_changes,
        slowest_response=slowest,
        revert_due=now + pause,
        # The other may be slow, as a controller with an interval is: a conflict is over only after a longer silence.
        quiet_period=min(max(conflict_policy.quiet_period, 3 * slowest), conflict_policy.window),
    )


def with_revert(history: ConflictHistory, now: float) -> ConflictHistory:
    """The history after an apply reverted the latest change."""
    return replace(history, reverted_at=now) if history.reverted_at is None else history


def is_relevant(history: ConflictHistory, now: float, conflict_policy: ConflictPolicy) -> bool:
    """Whether the operator still needs the history."""
    if history.reverted_at is None:
        return True
    if history.in_conflict:
        return now < history.reverted_at + history.quiet_period
    return history.changes[-1].seen_at > now - conflict_policy.window


class AppliedChildren(Struct, frozen=True, kw_only=True):
    """A parent's children as the last applies left them, and as they are now."""

    memories: ChildMemories
    live: Mapping[Identity, LiveObject]
    """The objects as they are now."""
    synced: Callable[[Identity], bool]
    """Whether a watch shows an object, or that there is none."""

    @property
    def touched(self) -> bool:
        """Whether one of the objects is gone, or was changed by others or may have been."""
        for identity, row in self.memories.by_child.items():
            live, record = self.live.get(identity), row.applied
            if row.conflict is not None:
                return True
            if record is not None and (
                not is_untouched_by_version(record.applied, live) if live is not None else self.synced(identity)
            ):
                return True
        return False

    @property
    def compared_bytes(self) -> int:
        """The encoded sizes of the states of children that have to be compared field by field, all together."""
        rows = self.memories.by_child
        pairs = ((row.applied.applied, live) for each, live in self.live.items() if (row := rows[each]).applied)
        return sum(
            len(applied.raw) + len(live.raw)
            for applied, live in pairs
            if not live.deleting and not is_untouched_by_version(applied, live)
        )


def observe_conflicts(
    children: AppliedChildren, now: float, policy: ConflictPolicy, *, renewed: bool = False
) -> ChildMemories:
    """What is remembered at the beginning of a reconcile: without histories that are over, with each foreign change
    counted once, and with the newest versions of untouched children. `renewed` is whether `reconcile-at` has a new
    value: then nothing waits for the end of a pause.
    """
    changed = {}
    for identity, row in children.memories.by_child.items():
        record, live, history = row.applied, children.live.get(identity), row.conflict
        if history is not None and not is_relevant(history, now, policy):
            history = None
        if record is not None and live is not None and not live.deleting:
            record = with_newest(record, live)
        if record is not None and children.synced(identity):
            history = _conflict_now(history, record, live, now, policy)
        if history is not None and renewed:
            history = replace(history, revert_due=now)
        if record is not row.applied or history is not row.conflict:
            changed[identity] = replace(row, applied=record, conflict=history)
    return replace(children.memories.with_children(changed), observed_at=now)


def _conflict_now(
    history: ConflictHistory | None, record: ApplyRecord, live: LiveObject | None, now: float, policy: ConflictPolicy
) -> ConflictHistory | None:
    """The history of a child whose watch has synced."""
    if live is not None and live.deleting:
        return history
    if live is not None and is_untouched(record, live):
        return history and with_revert(history, now)  # the other reverted its change itself
    if history is not None and history.reverted_at is None and history.digest == record.digest:
        return history
    return with_foreign_change(history, record.digest, find_foreign_change(record, live), now, policy)


def conflict_after(outcome: Child, history: ConflictHistory, now: float) -> ConflictHistory | None:
    """The history of a child after this outcome. What others did to another manifest's object is forgotten."""
    if outcome.manifest is None or outcome.manifest.digest != history.digest:
        return None
    is_applied = outcome.action is Action.APPLY and outcome.result not in (Result.FAILED, Result.WAITING)
    return with_revert(history, now) if is_applied else history


def _field_change(by: tuple[str, str, str], paths: Collection[Path]) -> ConflictingChange:
    """The change of some fields by a manager, its operation and a subresource."""
    texts = tuple(path_text(path) for path in sorted(paths)[:RECORDED_FIELDS])
    others = len(paths) - len(texts)
    return ConflictingChange(manager=by[0], operation=by[1], subresource=by[2], fields=texts, others=others)


# Rows of the tables in reconcile.decide.


_PAUSED = "is changed by another manager again and again, and is reverted after a pause"


def with_message(observed: Observed, step: Child) -> Child:
    """The step with what it reverts, and with the message of a conflict."""
    found = _counted(step)
    if found is None:
        return step
    confidential = observed.confidential
    text = found.text(step.identity.group_kind, confidential=confidential) if found.in_conflict else ""
    return replace(step, foreign_change=found.unreverted, conflict=text)


def awaits_pause(observed: Observed, step: Child) -> Child | None:
    """A child that others deleted again and again is created after a pause."""
    return step.waiting(_PAUSED) if _is_paused(observed, step) else None


def is_paused(observed: Observed, step: Child) -> Child | None:
    """A child that others changed again and again is applied after a pause."""
    return step.left_unchanged(_PAUSED) if _is_paused(observed, step) else None


def _is_paused(observed: Observed, step: Child) -> bool:
    found = _counted(step)
    return found is not None and found.revert_delayed(observed.monotonic)


def _counted(step: Child) -> ConflictHistory | None:
    """What other managers changed in this child. What they did to another manifest's object doesn't count."""
    found = step.memory.conflict
    if found is None or found.digest != step.wanted.digest:
        return None
    return found if step.live is None or step.policy in APPLIED_EACH_TIME else None


LARGE = 2**16
"""Bytes of encoded objects. Comparing them takes some 20 milliseconds, usual children a twentieth of that."""

ATTEMPTS = 3

InThread = Callable[[Callable[[], ChildMemories]], Awaitable[ChildMemories]]
"""Runs a function in a thread."""


async def observe_foreign_changes(
    look: Callable[[], AppliedChildren],
    observe: Callable[[AppliedChildren], ChildMemories],
    in_thread: InThread,
) -> ChildMemories:
    """The result of `observe` for the children, or what is remembered already if there is nothing to observe. `look`
    returns their present state.

    A client that may write a child may fill it up to the API server's limit, again and again, and the time is linear in
    that. So on the event loop, LARGE bytes are compared at most. The result shows the state of the caches when it ends;
    if one changes during each of ATTEMPTS comparisons, it shows that child as it was before the last one, and the next
    reconcile has its change.
    """
    seen = look()
    if not seen.touched:
        return seen.memories
    for _ in range(ATTEMPTS):
        if seen.compared_bytes <= LARGE:
            return observe(seen)
        found = await in_thread(partial(observe, seen))
        now = look()
        if all(now.live.get(identity) is live for identity, live in seen.live.items()):
            break
        seen = now
    return found


def applied_children(memories: ChildMemories, children: ChildInformers, parent_uid: str) -> AppliedChildren:
    """A parent's children after their last applies, and in the present caches. Every thread may read it."""
    applied = memories.applied
    shown = children.of(parent_uid)
    live = {identity: found for identity in applied if (found := shown.get(identity)) is not None}
    known: AbstractSet[Identity] = live.keys()
    if len(live) < len(applied):
        known |= frozenset(filter(children.has_synced, applied - known))
    return AppliedChildren(memories=memories, live=live, synced=known.__contains__)

"""Slows down templates that react to their own changes: a child whose template reads an object that is derived from the
child, and a kind whose children get other names again and again.

Promises:
- Each child whose template reads what the operator writes has a bucket of changes, and so has each kind of a parent's
  children for new names. While it is empty, no reconcile makes such a change. Nothing else waits for it.
- Only an apply of another manifest is such a change, and only if no other manager changed the child since the last one:
  the operator reverts drift at once, and follows an autoscaler.
- A new name counts if another child of its kind is no longer rendered. Children that are added while all others stay
  don't count, however many they are (reconcile.child_limit).
- A change of the parent or of its templates fills all of its buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import Query, Selection
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Document
from ssa_operator.reconcile.child import CHANGED, Action, Child, Result
from ssa_operator.reconcile.child_memory import ChildMemories, ChildMemory
from ssa_operator.reconcile.feedback_loops.change_bucket import CAPACITY, MINUTES, ChangeBucket
from ssa_operator.reconcile.observed import Observed, ObservedParents
from ssa_operator.reconcile.resync.unchanged import is_untouched

_FULL = ChangeBucket()
_READS_SHOWN = 3


def changes_after(
    memories: ChildMemories, outcomes: Sequence[Child], parents: ObservedParents, now: float
) -> Mapping[Identity, ChangeBucket]:
    """The buckets of the children that a reconcile changed, as far as these changes count."""
    changed = {
        outcome.identity: outcome.wanted.document
        for outcome in outcomes
        if outcome.result in CHANGED
        and outcome.live is not None
        and _is_own_change(outcome, memories.of(outcome.identity), outcome.before)
    }
    children = {outcome.identity for outcome in outcomes} if changed else set()
    kinds = {identity.group_kind for identity in children}

    def may_follow(query: Query) -> bool:
        """Whether the answer may follow from what the operator writes: a child, or the status of a parent."""
        if isinstance(query, Reference) or query.group_kind in parents.crds:
            return True
        if isinstance(query, Selection):
            return query.group_kind in kinds
        return query.identity in children or query.identity in parents.claims

    return {
        identity: (memories.of(identity).changes or _FULL).after_change(now)
        for identity, document in changed.items()
        if any(map(may_follow, _reads(document)))
    }


def _is_own_change(step: Child, row: ChildMemory, live: LiveObject | None) -> bool:
    """Whether an apply of the step follows from what its template reads, and from no other manager's change of `live`,
    the object before it.
    """
    record, manifest = row.applied, step.manifest
    if manifest is None or step.foreign_change is not None or not _reads(manifest.document):
        return False
    if record is None:
        return True
    return record.digest != manifest.digest and (live is None or is_untouched(record, live))


def _reads(document: Document) -> Sequence[Query]:
    """What a template reads of the cluster to render a child."""
    asked = (each.query for each in document.dependencies if not each.after)
    return [query for query in asked if not isinstance(query, ApiKind)]


def names_after(memories: ChildMemories, outcomes: Sequence[Child], now: float) -> Mapping[GroupKind, ChangeBucket]:
    """The buckets of new names after a reconcile."""
    created = {
        outcome.identity.group_kind
        for outcome in outcomes
        if outcome.result is Result.CREATED and memories.of(outcome.identity).applied is None
    }
    if not created:
        return memories.new_names
    rendered = {outcome.identity for outcome in outcomes if outcome.location is not None}
    pruned = {outcome.identity for outcome in outcomes if outcome.action is Action.PRUNE}
    dropped = {identity.group_kind for identity in (pruned | memories.applied) - rendered}
    found = dict(memories.new_names)
    for kind in created:
        before = found.get(kind, _FULL)
        # During a pause, the child with the former name is pruned.
        if kind in dropped or before.is_slowed_down(now):
            found[kind] = before.after_change(now)
    return found


# Rows of the tables in reconcile.decide.


_PAUSED = "changes each time it is applied, and is applied after a pause"
_NAME_PAUSED = "takes the place of a child with another name again and again, and is created after a pause"


def with_message(observed: Observed, step: Child) -> Child:
    """The step with the message of a child, or of a kind, that is slowed down."""
    now, messages = observed.monotonic, []
    reads = _what_is_read(_reads(step.wanted.document))
    changes, names = step.memory.changes, _new_names(observed, step)
    if changes is not None and changes.is_slowed_down(now):
        messages.append(
            f"{step.identity} changes each time it is applied, at least {CAPACITY} times in {MINUTES} minutes without "
            f"a change of the parent or its templates{reads}; the operator applies it once a minute"
        )
    if names is not None and names.is_slowed_down(now):
        messages.append(
            f"the templates give a {step.identity.kind} a new name each time, last {step.identity}, at least "
            f"{CAPACITY} times in {MINUTES} minutes without a change of the parent or its templates{reads}; the "
            "operator creates one a minute"
        )
    return replace(step, feedback_loop="; ".join(messages)) if messages else step


def _what_is_read(reads: Sequence[Query]) -> str:
    more = len(reads) - _READS_SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return f"; its template reads {', '.join(map(str, reads[:_READS_SHOWN]))}{rest}" if reads else ""


def awaits_pause(observed: Observed, step: Child) -> Child | None:
    """A child that is slowed down and does not exist is created after a pause, and so is one with a new name."""
    if _is_paused(observed, step):
        return step.waiting(_PAUSED)
    names = _new_names(observed, step)
    return step.waiting(_NAME_PAUSED) if names is not None and names.is_empty(observed.monotonic) else None


def is_paused(observed: Observed, step: Child) -> Child | None:
    """A child that is slowed down is applied after a pause."""
    return step.left_unchanged(_PAUSED) if _is_paused(observed, step) else None


def _is_paused(observed: Observed, step: Child) -> bool:
    changes = step.memory.changes
    return changes is not None and changes.is_empty(observed.monotonic) and _is_own_change(step, step.memory, step.live)


def _new_names(observed: Observed, step: Child) -> ChangeBucket | None:
    """The bucket of new names, of a child that doesn't exist and was not applied before."""
    if step.live is not None or step.memory.applied is not None or step.memory.recreation is not None:
        return None
    return observed.memory.new_names.get(step.identity.group_kind)

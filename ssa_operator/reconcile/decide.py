"""Decides what is done with one manifest: it is applied, left unchanged, recreated, waits, or is refused.

Promises:
- A manifest that breaks a rule is refused alone, and the refusal names its template line.
- The decision on a manifest depends on no other manifest; reconcile.ordering and reconcile.plan order them.
- The operator never applies to an object of another parent or another controller, nor to one that it did not create and
  that the folder's setting `adopt` excludes.
- The tables CLAIM_RULES, ABSENT_RULES and PRESENT_RULES are the whole decision: the first rule that has an answer gives
  it. A rule is in the room of its promise.
- A rule of a promise that the manifest does not use is not asked: one of another `apply` policy, or one about what the
  process remembers where it remembers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from ssa_operator.objects.annotations import APPLIED_EACH_TIME, ApplyPolicy
from ssa_operator.reconcile import adoption, apply_once, ownership, shared_ownership
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.feedback_loops import rules as feedback_loops
from ssa_operator.reconcile.feedback_loops.change_bucket import ChangeBucket
from ssa_operator.reconcile.field_conflicts import rules as field_conflicts
from ssa_operator.reconcile.field_conflicts.history import ConflictHistory
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.recreate import rules as recreate
from ssa_operator.reconcile.resync import rules as resync
from ssa_operator.reconcile.resync.unchanged import ApplyRecord


def decide_step(observed: Observed, step: Child) -> Child:
    """What is done with a manifest. The step has its live object, also one that turned out to exist only when it was
    to be created.
    """
    row, names = step.memory, observed.memory.new_names.get(step.identity.group_kind)
    used: set[object] = {step.policy}
    for remembered in (row.applied, row.conflict, row.changes, names):
        if remembered is not None:
            used.add(type(remembered))
    decided = _first(CLAIM_RULES, observed, step, used)
    if decided is None:
        for with_message, memory in MESSAGES.items():
            if memory in used:
                step = with_message(observed, step)
        decided = _first(ABSENT_RULES if step.live is None else PRESENT_RULES, observed, step, used)
    assert decided is not None
    return decided


def _first(rules: Rules, observed: Observed, step: Child, used: AbstractSet[object]) -> Child | None:
    for rule, needs in rules.items():
        if not needs or not used.isdisjoint(needs):
            decided = rule(observed, step)
            if decided is not None:
                return decided
    return None


def _is_created(_: Observed, step: Child) -> Child:
    return step.applied("was deleted" if step.foreign_change is not None else "does not exist")


def _is_kept(_: Observed, step: Child) -> Child:
    return step.kept("exists and is left alone")


_EVERY: AbstractSet[object] = frozenset()
"""A rule that is asked about every manifest."""

Rule: TypeAlias = Callable[[Observed, Child], Child | None]
"""A rule gives the step of a manifest, or None where it has no answer. It gets the step that applies the manifest."""

Rules: TypeAlias = Mapping[Rule, AbstractSet[object]]
"""Rules in order, each with the policies, or the types of what is remembered of a child. One of them must be in use for
the rule to have an answer.
"""

CLAIM_RULES: Rules = {
    ownership.belongs_to_other_parent: APPLIED_EACH_TIME,
    ownership.owner_may_still_exist: APPLIED_EACH_TIME,
    apply_once.is_applied_once: {ApplyPolicy.ONCE},
}
"""Whether the manifest may have the object at all."""

ABSENT_RULES: Rules = {
    field_conflicts.awaits_pause: {ConflictHistory},
    feedback_loops.awaits_pause: {ChangeBucket},
    recreate.is_recreated: _EVERY,
    _is_created: _EVERY,
}
"""What is done if the object does not exist."""

PRESENT_RULES: Rules = {
    recreate.is_being_deleted: _EVERY,
    adoption.was_left_by_former_parent: {ApplyPolicy.ONCE, ApplyPolicy.IF_NOT_PRESENT},
    _is_kept: {ApplyPolicy.IF_NOT_PRESENT},
    adoption.is_controlled_by_other: _EVERY,
    adoption.is_not_adopted: _EVERY,
    shared_ownership.is_owned_otherwise: {ApplyPolicy.SHARED},
    shared_ownership.is_rendered_differently: {ApplyPolicy.SHARED},
    field_conflicts.is_paused: {ConflictHistory},
    shared_ownership.gets_owner: {ApplyPolicy.SHARED},
    resync.needs_no_apply: {ApplyRecord},
    feedback_loops.is_paused: {ChangeBucket},
    resync.is_applied: _EVERY,
}
"""What is done if the object exists."""

MESSAGES: Mapping[Callable[[Observed, Child], Child], type[object]] = {
    field_conflicts.with_message: ConflictHistory,
    feedback_loops.with_message: ChangeBucket,
}
"""What is said of what the process remembers, each with the type of that."""

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

from msgspec.structs import replace

from ssa_operator.objects.annotations import APPLIED_EACH_TIME, ApplyPolicy
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.reconcile.adoption import rules as adoption
from ssa_operator.reconcile.apply_once import rules as apply_once
from ssa_operator.reconcile.child_case import ChildCase, Rule
from ssa_operator.reconcile.child_history import NoMemory
from ssa_operator.reconcile.feedback_loops import rules as feedback_loops
from ssa_operator.reconcile.feedback_loops.memory import FeedbackLoops
from ssa_operator.reconcile.field_conflicts import rules as field_conflicts
from ssa_operator.reconcile.field_conflicts.history import ConflictHistory
from ssa_operator.reconcile.field_conflicts.memory import Conflicts
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.ownership import rules as ownership
from ssa_operator.reconcile.recreate import rules as recreate
from ssa_operator.reconcile.renames import rules as renames
from ssa_operator.reconcile.renames.memory import Renames
from ssa_operator.reconcile.resync import rules as resync
from ssa_operator.reconcile.resync.memory import ApplyRecords
from ssa_operator.reconcile.shared_ownership import rules as shared_ownership
from ssa_operator.reconcile.step import Step


def decide_step(observed: Observed, step: Step) -> Step:
    """What is done with a manifest. The step has its live object, also one that turned out to exist only when it was
    to be created.
    """
    manifest, live = step.manifest, step.live
    assert manifest is not None
    # A hook is applied until it is done, and has a record of its own for that.
    policy = ApplyPolicy.ALWAYS if manifest.instructions.finalize else manifest.instructions.apply
    identity, history = manifest.identity, observed.history
    used = {policy, *history.memories}
    case = ChildCase(
        observed=observed,
        step=step,
        manifest=manifest,
        record=history[ApplyRecords].by_child.get(identity),
        conflict=_conflict(observed, manifest, policy, live) if Conflicts in used else None,
        loop=history[FeedbackLoops].by_child.get(identity),
        names=history[Renames].by_kind.get(identity.group_kind),
    )
    decided = _first(CLAIM_RULES, case, used)
    if decided is None:
        for with_message, memory in MESSAGES.items():
            if memory in used:
                step = with_message(case, step)
        case = replace(case, step=step)
        decided = _first(ABSENT_RULES if live is None else PRESENT_RULES, case, used)
    assert decided is not None
    return decided


def _first(rules: Rules, case: ChildCase, used: AbstractSet[object]) -> Step | None:
    for rule, needs in rules.items():
        if not needs or not used.isdisjoint(needs):
            step = rule(case)
            if step is not None:
                return step
    return None


def _conflict(
    observed: Observed, manifest: Manifest, policy: ApplyPolicy, live: LiveObject | None
) -> ConflictHistory | None:
    """What other managers changed in this child. What they did to another manifest's object doesn't count."""
    if live is not None and policy not in APPLIED_EACH_TIME:
        return None
    found = observed.history[Conflicts].by_child.get(manifest.identity)
    return found if found is not None and found.digest == manifest.digest else None


def _is_created(case: ChildCase) -> Step:
    return case.applied("was deleted" if case.step.history.foreign_change is not None else "does not exist")


def _is_kept(case: ChildCase) -> Step:
    return case.kept("exists and is left alone")


_EVERY: AbstractSet[object] = frozenset()
"""A rule that is asked about every manifest."""

Rules: TypeAlias = Mapping[Rule, AbstractSet[object]]
"""Rules in order, each with the policies or the memories of which one must be in use for the rule to have an answer."""

CLAIM_RULES: Rules = {
    ownership.belongs_to_other_parent: APPLIED_EACH_TIME,
    ownership.owner_may_still_exist: APPLIED_EACH_TIME,
    apply_once.is_applied_once: {ApplyPolicy.ONCE},
}
"""Whether the manifest may have the object at all."""

ABSENT_RULES: Rules = {
    field_conflicts.awaits_pause: {Conflicts},
    feedback_loops.awaits_pause: {FeedbackLoops},
    recreate.is_recreated: _EVERY,
    renames.awaits_pause: {Renames},
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
    field_conflicts.is_paused: {Conflicts},
    shared_ownership.gets_owner: {ApplyPolicy.SHARED},
    resync.needs_no_apply: {ApplyRecords},
    feedback_loops.is_paused: {FeedbackLoops},
    resync.is_applied: _EVERY,
}
"""What is done if the object exists."""

MESSAGES: Mapping[Callable[[ChildCase, Step], Step], type[NoMemory]] = {
    field_conflicts.with_message: Conflicts,
    feedback_loops.with_message: FeedbackLoops,
    renames.with_message: Renames,
}
"""What is said of what the process remembers, each with the memory."""

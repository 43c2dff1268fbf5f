"""Whether a manifest may have an object that exists and that the operator did not create for this parent."""

from __future__ import annotations

from ssa_operator.objects.annotations import ApplyPolicy
from ssa_operator.objects.live_object import PARENT_UID_LABEL
from ssa_operator.objects.parent_settings import AdoptPolicy
from ssa_operator.reconcile.adoption.rules import belongs_to_former_parent, may_adopt, other_controller
from ssa_operator.reconcile.case import Case
from ssa_operator.reconcile.step import FailureReason, Step


def was_left_by_former_parent(case: Case) -> Step | None:
    """An object that is not applied each time, and that a former parent of this name left, is recreated."""
    parent = case.observed.parent
    if case.policy is ApplyPolicy.ALWAYS or not belongs_to_former_parent(case.live, parent):
        return None
    if case.observed.why_kept(case.live.identity):
        return None
    # Its owner is gone for certain, because the parent has its name: the garbage collector deletes it sooner or later.
    return case.recreated(f"was left by a former {parent.identity}; it is recreated")


def is_controlled_by_other(case: Case) -> Step | None:
    """Refuses a manifest whose object another controller controls."""
    controller = other_controller(case.live, case.observed.parent)
    if controller is None:
        return None
    who = f"{controller.kind} {controller.name}"
    why = f"is controlled by {who}; give it another name, or remove the owner reference to {who} from it"
    return case.refused(why, FailureReason.CONFLICT)


def is_not_adopted(case: Case) -> Step | None:
    """Refuses a manifest whose object the folder's setting `adopt` excludes."""
    live, parent = case.live, case.observed.parent
    if may_adopt(live, parent, case.observed.settings.adopt):
        return None
    why = (
        "exists, and the operator did not create it; give the manifest another name, or give the object the label "
        f"{PARENT_UID_LABEL}: {parent.uid}"
    )
    sufficient = (
        policy for policy in (AdoptPolicy.IN_NAMESPACE, AdoptPolicy.ALWAYS) if may_adopt(live, parent, policy)
    )
    if needed := next(sufficient, None):
        why += f", or set `adopt: {needed}` in the folder's _settings.yaml"
    return case.refused(why, FailureReason.CONFLICT)

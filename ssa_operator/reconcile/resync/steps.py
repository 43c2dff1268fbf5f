"""Whether a child that exists needs an apply, and why."""

from __future__ import annotations

from ssa_operator.reconcile.case import Case
from ssa_operator.reconcile.observed import ApplyScope
from ssa_operator.reconcile.resync.unchanged import is_counted_in_vain, is_unchanged
from ssa_operator.reconcile.step import Step

_COUNTED = "is as its last apply left it, and the API server counts each apply as a change"


def needs_no_apply(case: Case) -> Step | None:
    """A child that is as it was applied is applied by a resync only."""
    if not is_unchanged(case.manifest, case.live, case.record):
        return None
    refusal = case.step.history.refusal
    # No event tells when admission lets the manifest pass.
    refused = refusal is not None and bool(refusal.admission)
    if case.observed.apply_scope is ApplyScope.CHANGED and not refused:
        return case.left_unchanged("is proven unchanged", unchanged=True)
    if is_counted_in_vain(case.live, case.record) and not case.observed.renewed:
        return case.left_unchanged(_COUNTED, unchanged=True)
    return case.applied("this reconcile applies every manifest", unchanged=True)


def is_applied(case: Case) -> Step:
    """Any other child is applied."""
    return case.applied(_why_applied(case))


def _why_applied(case: Case) -> str:
    record, live, observed = case.record, case.live, case.observed
    if record is None:
        if not live.owned_fields():
            return "exists already and is adopted"
        return (
            "was not applied in the last reconcile"
            if observed.reconciled_before
            else "was not applied by this process yet"
        )
    if record.uid != live.uid:
        return "was replaced"
    if record.digest != case.manifest.digest:
        return "its manifest changed"
    if case.conflict is not None and case.conflict.unreverted is not None:
        return case.conflict.unreverted.text(confidential=observed.confidential)
    if record.own_entry != live.own_entry():
        return "another client changed our fields"
    return "this reconcile applies every manifest"

"""What is done with a manifest that is applied once."""

from __future__ import annotations

from msgspec.structs import replace

from ssa_operator.objects.annotations import Recreate
from ssa_operator.objects.readiness.rules import Readiness, ReadinessState
from ssa_operator.reconcile.adoption.rules import belongs_to_former_parent
from ssa_operator.reconcile.apply_once.rules import UNKNOWN_OUTCOME, digest, once_record
from ssa_operator.reconcile.case import Case
from ssa_operator.reconcile.step import Step


def is_applied_once(case: Case) -> Step | None:
    """Keeps what was applied once; None where it has to be applied now or when its object is gone."""
    observed, manifest, live = case.observed, case.manifest, case.step.live
    if not manifest.once:
        return None
    before = once_record(observed.records, manifest.identity)
    changed = before is not None and before.digest != digest(manifest.document, observed.parent)
    if live is not None and belongs_to_former_parent(live, observed.parent):
        return None
    if live is None or live.deleting:
        if before is not None and not changed:
            return _kept_as(case, before.readiness_when_gone)
        if before is None and live is not None and live.parent_uid == observed.parent.uid:
            # An earlier process created it and died before it recorded that. This reconcile records how it ends.
            return _kept_as(case, Readiness(ReadinessState.TERMINATING, "was applied once and is being deleted"))
        if before is None and live is None and observed.records_lost:
            return _kept_as(case, UNKNOWN_OUTCOME)
        return None
    origin = before.origin if before is not None else "was applied once"
    if before is None and live.parent_uid != observed.parent.uid:
        origin = "exists already, would be applied once,"
    if not changed:
        return case.kept(f"{origin} and is left alone")
    if manifest.instructions.recreate is not Recreate.NEVER:
        return None
    return case.kept(f"{origin} and is left alone; its manifest changed and is applied when the object is gone")


def _kept_as(case: Case, once_readiness: Readiness) -> Step:
    step = case.kept(once_readiness.message)
    return replace(step, history=replace(step.history, once_readiness=once_readiness))

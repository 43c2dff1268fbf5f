"""Records on the parent which manifests of `apply: Once` were applied, and how their objects ended.

Promises:
- The parent records each manifest that was applied once, and whether its object became ready or failed.
- An object that exists without a record is recorded only if the API server confirms that it exists.
- If the record can't be written, the outcome is a failure, because the manifest could be applied again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.apply_once.rules import (
    UNKNOWN_OUTCOME,
    OnceRecord,
    digest,
    final_state,
    once_record,
    with_once_record,
)
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.parent_records.rules import ParentRecords


def record_outcome(records: ParentRecords, outcome: Child, parent: LiveObject, now: float) -> ParentRecords:
    """The parent's records with the outcome of a manifest that is applied once; unchanged for any other manifest."""
    is_kept = outcome.action is Action.KEEP or (
        outcome.action is Action.APPLY
        and outcome.result in (Result.CREATED, Result.CONFIGURED, Result.UNCHANGED, Result.RECREATED)
    )
    if outcome.manifest is None or not is_kept or not outcome.manifest.once:
        return records
    before = once_record(records, outcome.identity)
    if before is None or outcome.action is Action.APPLY:
        found = outcome.action is Action.KEEP and outcome.live is not None and outcome.live.parent_uid != parent.uid
        before = OnceRecord(digest(outcome.manifest.document, parent), existed_before=found)
    return with_once_record(
        records,
        outcome.identity,
        replace(before, final_state=final_state(outcome.live, before.final_state, now)),
    )


def with_unknown(records: ParentRecords, steps: Iterable[Child], parent: LiveObject) -> ParentRecords:
    """The records with the manifests of these steps that may have been applied before the parent lost its records."""
    for step in steps:
        if step.manifest is not None and step.once_readiness is UNKNOWN_OUTCOME:
            unknown = OnceRecord(digest(step.manifest.document, parent), unknown=True)
            records = with_once_record(records, step.identity, unknown)
    return records


def is_found(records: ParentRecords, outcome: Child) -> bool:
    """Whether the outcome is of a manifest without a record, whose object exists already."""
    once = outcome.manifest is not None and outcome.manifest.once
    return (
        once
        and outcome.action is Action.KEEP
        and outcome.live is not None
        and once_record(records, outcome.identity) is None
    )


def unrecorded_outcome(outcome: Child, error: str) -> Child:
    """The failure of a manifest that is applied once, because it could not be recorded; any other outcome unchanged."""
    if outcome.manifest is None or not outcome.manifest.once:
        return outcome
    message = f"{outcome.identity} is applied once, and that can't be recorded on its parent: {error}"
    return replace(outcome, result=Result.FAILED, message=message, problem=FailureReason.APPLY_FAILED, retryable=True)

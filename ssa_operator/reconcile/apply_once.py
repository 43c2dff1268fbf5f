"""Manifests that are applied once in their parent's life (`ssa-operator.dev/apply: Once`), and the records of them.

Promises:
- The record identifies the author's manifest by a digest that the operator's own additions don't change: a newer
  operator recognizes the record of an older one. Generated values and the operator's annotations are no part of it.
- A record is valid for one parent: a parent that is recreated under the same name starts without records, even with all
  annotations of the old one.
- A manifest whose record its parent has lost, with all others, counts as applied: the record says that this is unknown.
- The record holds how the object ended, as far as the operator saw it. If the object succeeded, dependants don't wait
  for it.
- If the record can't be written, the outcome is a failure, because the manifest could be applied again.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import PREFIX, Recreate
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import Readiness, ReadinessState, readiness
from ssa_operator.objects.render_result import Document
from ssa_operator.reconcile.adoption import belongs_to_former_parent
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.parent_records.rules import (
    HOOK,
    ONCE_ANNOTATION,
    ParentRecords,
    identity_from_key,
    identity_key,
)

UNRENDERED_LIMIT = 100
"""Records of manifests that are no longer rendered, which the operator keeps in case they are rendered again. The
oldest are removed first.
"""

_EXISTED_BEFORE, _UNKNOWN = "found", "unknown"
"""The words that mark such records in the parent's annotation."""


class FinalState(StrEnum):
    """How an object ended, as far as the operator saw it."""

    UNSEEN = ""
    READY = "ready"
    FAILED = "failed"


class OnceRecord(Struct, frozen=True):
    """The record of one manifest that is applied once."""

    digest: str
    """The digest of what the manifest's author wrote."""
    final_state: FinalState = FinalState.UNSEEN
    existed_before: bool = False
    """Whether another writer had created the object before the operator would have, so that no watch shows it."""
    unknown: bool = False
    """Whether the manifest was perhaps never applied: the parent had lost its records, and there was no object."""

    def __str__(self) -> str:
        words = [_EXISTED_BEFORE] * self.existed_before + [_UNKNOWN] * self.unknown
        return " ".join(filter(None, (self.digest, self.final_state, *words)))

    @property
    def origin(self) -> str:
        """How the object came to be; the words follow its name."""
        if self.unknown:
            return "may have been applied once before its parent lost the record"
        return "existed before it would have been applied once" if self.existed_before else "was applied once"

    @property
    def readiness_when_gone(self) -> Readiness:
        """The readiness of the object once it no longer exists."""
        again = "it is applied again when its manifest changes"
        if self.unknown:
            again = f"to apply it again, remove the annotation {ONCE_ANNOTATION} from the parent"
        match self.final_state:
            case FinalState.READY:
                return Readiness(ReadinessState.CURRENT, f"{self.origin}, became ready and is gone; {again}")
            case FinalState.FAILED:
                return Readiness(ReadinessState.FAILED, f"{self.origin}, failed and is gone; {again}")
            case FinalState.UNSEEN:
                return Readiness(ReadinessState.CURRENT, f"{self.origin}, and is gone; {again}")


UNKNOWN_OUTCOME = OnceRecord("", unknown=True).readiness_when_gone
"""The readiness of an object that doesn't exist and may have been applied once."""


def digest(document: Document, parent: LiveObject) -> str:
    """The digest of what the manifest's author wrote, for this parent (by uid)."""
    metadata = dict(document.body["metadata"])
    annotations = {
        name: text for name, text in (metadata.pop("annotations", None) or {}).items() if not name.startswith(PREFIX)
    }
    if annotations:
        metadata["annotations"] = annotations
    text = json.dumps({**document.body, "metadata": metadata}, sort_keys=True, separators=(",", ":"))
    for value in document.generated_values:
        for spelling in (value, base64.b64encode(value.encode()).decode()):
            text = text.replace(spelling, "")
    return hashlib.blake2b(f"{parent.uid} {text}".encode(), digest_size=8).hexdigest()


def once_record(records: ParentRecords, identity: Identity) -> OnceRecord | None:
    """The record of a manifest, None if it was never applied."""
    text = records.once_records.get(identity_key(identity))
    return _parse(text) if text is not None else None


def is_done(once_records: Mapping[str, str], kind: str, name: str) -> bool:
    """Whether an object of this kind and name was applied once and, if it is gone, dependants don't wait for it."""
    for key, text in once_records.items():
        identity = identity_from_key(key)
        if (identity.kind, identity.name) == (kind, name) and not key.startswith(HOOK):
            return _parse(text).final_state is not FinalState.FAILED
    return False


def with_once_record(records: ParentRecords, identity: Identity, record: OnceRecord) -> ParentRecords:
    """The records with the one of this manifest; the newest is last."""
    added = identity_key(identity)
    if records.once_records.get(added) == str(record):
        return records
    others = {key: text for key, text in records.once_records.items() if key != added}
    return replace(records, once_records={**others, added: str(record)})


def with_final_states(
    records: ParentRecords, parent_uid: str, last_seen: Callable[[Identity], LiveObject | None], now: float
) -> ParentRecords:
    """The records of a parent with the final states that are known by now. `last_seen` gives the last known state of an
    object, deleted ones included. `now` is in seconds since the epoch.

    An object of another parent gives no state, because users who may edit a parent may write any name into its records.
    """
    for key, text in records.once_records.items():
        record = _parse(text)
        if key.startswith(HOOK) or record.final_state is not FinalState.UNSEEN:
            continue
        identity = identity_from_key(key)
        live = last_seen(identity)
        if live is None or live.parent_uid != parent_uid:
            continue
        state = final_state(live, record.final_state, now)
        if state is not record.final_state:
            records = with_once_record(records, identity, replace(record, final_state=state))
    return records


def trim_once_records(records: ParentRecords, rendered: Collection[Identity]) -> ParentRecords:
    """The records with at most UNRENDERED_LIMIT of manifests that are no longer rendered, the newest."""
    wanted = {identity_key(identity) for identity in rendered}
    unrendered = [key for key in records.once_records if key not in wanted and not key.startswith(HOOK)]
    removed = set(unrendered[:-UNRENDERED_LIMIT])
    if not removed:
        return records
    kept = {key: text for key, text in records.once_records.items() if key not in removed}
    return replace(records, once_records=kept)


def final_state(live: LiveObject | None, before: FinalState, now: float) -> FinalState:
    """The final state of an object so far; READY is never replaced. `now` is in seconds since the epoch."""
    if live is None or before is FinalState.READY:
        return before
    metadata = {name: value for name, value in live.body["metadata"].items() if name != "deletionTimestamp"}
    match readiness({**live.body, "metadata": metadata}, now).state:
        case ReadinessState.CURRENT:
            return FinalState.READY
        case ReadinessState.FAILED:
            return FinalState.FAILED
        case _:
            return FinalState.UNSEEN


def _parse(text: str) -> OnceRecord:
    manifest_digest, *words = text.split(" ")
    state = next((each for each in FinalState if each in words), FinalState.UNSEEN)
    return OnceRecord(manifest_digest, state, existed_before=_EXISTED_BEFORE in words, unknown=_UNKNOWN in words)


# Rows of the tables in reconcile.decide.


def is_applied_once(observed: Observed, step: Child) -> Child | None:
    """Keeps what was applied once; None where it has to be applied now or when its object is gone."""
    manifest, live = step.wanted, step.live
    before = once_record(observed.records, manifest.identity)
    changed = before is not None and before.digest != digest(manifest.document, observed.parent)
    if live is not None and belongs_to_former_parent(live, observed.parent):
        return None
    if live is None or live.deleting:
        if before is not None and not changed:
            return _kept_as(step, before.readiness_when_gone)
        if before is None and live is not None and live.parent_uid == observed.parent.uid:
            # An earlier process created it and died before it recorded that. This reconcile records how it ends.
            return _kept_as(step, Readiness(ReadinessState.TERMINATING, "was applied once and is being deleted"))
        if before is None and live is None and observed.records_lost:
            return _kept_as(step, UNKNOWN_OUTCOME)
        return None
    origin = before.origin if before is not None else "was applied once"
    if before is None and live.parent_uid != observed.parent.uid:
        origin = "exists already, would be applied once,"
    if not changed:
        return step.kept(f"{origin} and is left alone")
    if manifest.instructions.recreate is not Recreate.NEVER:
        return None
    return step.kept(f"{origin} and is left alone; its manifest changed and is applied when the object is gone")


def _kept_as(step: Child, once_readiness: Readiness) -> Child:
    step = step.kept(once_readiness.message)
    return replace(step, once_readiness=once_readiness)


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

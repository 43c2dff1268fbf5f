"""When parents resync: a phase for each parent within the interval, and a budget of applies a second for all of them.

Promises:
- Resyncs of different parents are spread over the interval: a hash of the uid gives each parent its phase, and the
  phase survives restarts.
- The budget grants resyncs in the order in which they were requested.
- A withdrawn request costs nothing.
- Times are in seconds, and arguments: those of the budget on the monotonic clock, those of a phase since the epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Generic, TypeVar

from msgspec.structs import replace

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.resync.unchanged import ApplyRecord, apply_record, is_counted_in_vain, is_unchanged

Key = TypeVar("Key", bound=Hashable)


def next_resync(uid: str, interval: float, now: float) -> float:
    """The first moment after `now` at which the parent's resync is due, in seconds since the epoch; `interval` in
    seconds, above 0.
    """
    phase = int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=4).digest(), "big") / 2**32 * interval
    periods = (now - phase) // interval + 1
    due = phase + periods * interval
    # A resync that is less than a tenth of the interval away would follow too soon after the reconcile that schedules
    # it.
    return due if due - now > interval / 10 else due + interval


class ResyncBudget(Generic[Key]):
    """Grants `rate` applies a second (above 0) to resyncs, in the order of their requests. After idle time it grants
    the applies of one second at once.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._requests: dict[Key, int] = {}
        """The applies that each waiting key requested, in the order of the requests."""
        self._requested = 0
        self._free_at = 0.0

    def __contains__(self, key: Key) -> bool:
        """Whether the key waits for its turn."""
        return key in self._requests

    def ask(self, key: Key, applies: int) -> None:
        """Request this number of applies. A key that waits already keeps its place and its number."""
        if key not in self._requests:
            self._requests[key] = max(applies, 1)
            self._requested += self._requests[key]

    def withdraw(self, key: Key) -> int:
        """Remove the key's request; returns the applies that it requested."""
        applies = self._requests.pop(key, 0)
        self._requested -= applies
        return applies

    def take(self, key: Key, now: float) -> None:
        """Spend the applies that the key requested."""
        self._free_at = max(self._free_at, now - 1.0) + self.withdraw(key) / self._rate

    def turn(self, now: float) -> tuple[Key, float] | None:
        """The key that is next, and the seconds until then; None if no key waits."""
        first = next(iter(self._requests), None)
        return None if first is None else (first, max(0.0, self._free_at - now))

    def lag(self, now: float) -> float:
        """Seconds that a request made now would wait."""
        return max(0.0, max(self._free_at, now - 1.0) + self._requested / self._rate - now)


# What is remembered of an apply.


def record_after(outcome: Child, before: ApplyRecord | None) -> ApplyRecord | None:
    """The record of the last apply of a child, after this outcome. Of an object that is as it was applied, only the
    newest version is kept. The version of an apply that changed nothing and that the API server counted is logged once
    for a manifest.
    """
    live = outcome.live
    if outcome.manifest is None or live is None:
        return None
    if outcome.action is Action.APPLY and outcome.result not in (Result.FAILED, Result.WAITING):
        return _after_apply(outcome.manifest, live, before, counted=outcome.counted)
    if before is not None and (outcome.result is Result.WAITING or outcome.action is Action.UNCHANGED):
        # It was not applied now; what an earlier apply left behind is as good as before.
        newer = outcome.unchanged and before.applied is not live
        return replace(before, applied=live) if newer else before
    return None


def _after_apply(manifest: Manifest, live: LiveObject, before: ApplyRecord | None, *, counted: bool) -> ApplyRecord:
    record = apply_record(manifest, live)
    if counted:
        return replace(record, counted_version=live.resource_version)
    # The version of an earlier apply of the same manifest says that the operator has logged it.
    is_same = before is not None and before.digest == record.digest and before.uid == record.uid
    return replace(record, counted_version=before.counted_version) if before is not None and is_same else record


# Rows of the tables in reconcile.decide.


_COUNTED = "is as its last apply left it, and the API server counts each apply as a change"


def needs_no_apply(observed: Observed, step: Child) -> Child | None:
    """A child that is as it was applied is applied by a resync only."""
    record = step.memory.applied
    if not is_unchanged(step.wanted, step.present, record):
        return None
    refusal = step.memory.refusal
    # No event tells when admission lets the manifest pass.
    refused = refusal is not None and bool(refusal.admission)
    if not observed.applies_all and not refused:
        return step.left_unchanged("is proven unchanged", unchanged=True)
    if is_counted_in_vain(step.present, record) and not observed.renewed:
        return step.left_unchanged(_COUNTED, unchanged=True)
    return step.applied("this reconcile applies every manifest", unchanged=True)


def is_applied(observed: Observed, step: Child) -> Child:
    """Any other child is applied."""
    record, live = step.memory.applied, step.present
    if record is None and not live.owned_fields():
        why = "exists already and is adopted"
    elif record is None:
        known = observed.reconciled_before
        why = "was not applied in the last reconcile" if known else "was not applied by this process yet"
    elif record.uid != live.uid:
        why = "was replaced"
    elif record.digest != step.wanted.digest:
        why = "its manifest changed"
    elif step.foreign_change is not None:
        why = step.foreign_change.text(confidential=observed.confidential)
    elif record.own_entry != live.own_entry():
        why = "another client changed our fields"
    else:
        why = "this reconcile applies every manifest"
    return step.applied(why)

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

from ssa_operator.reconcile.child_case import ChildCase
from ssa_operator.reconcile.observed import ApplyScope
from ssa_operator.reconcile.resync.unchanged import is_counted_in_vain, is_unchanged
from ssa_operator.reconcile.step import Step

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


# Rows of the tables in reconcile.decide.


_COUNTED = "is as its last apply left it, and the API server counts each apply as a change"


def needs_no_apply(case: ChildCase) -> Step | None:
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


def is_applied(case: ChildCase) -> Step:
    """Any other child is applied."""
    return case.applied(_why_applied(case))


def _why_applied(case: ChildCase) -> str:
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

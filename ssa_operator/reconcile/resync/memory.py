"""What the last apply of each child left behind, so that what is unchanged needs no apply.

Promises:
- Of an object that is as it was applied, only the newest version is kept.
- The version of an apply that changed nothing and that the API server counted is logged once for a manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.reconcile.child_history import CarriedOut, NoMemory
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.resync.unchanged import ApplyRecord, apply_record
from ssa_operator.reconcile.step import Action


class ApplyRecords(NoMemory, frozen=True):
    """The record of the last apply of each child."""

    by_child: Mapping[Identity, ApplyRecord] = NOTHING

    def after(self, done: CarriedOut, /) -> Self:
        records: dict[Identity, ApplyRecord] = {}
        for outcome in done.outcomes:
            step, live = outcome.step, outcome.live
            if step.manifest is None or live is None:
                continue
            before = self.by_child.get(step.identity)
            if step.action is Action.APPLY and outcome.result not in (Result.FAILED, Result.WAITING):
                records[step.identity] = _after_apply(step.manifest, live, before, counted=outcome.counted)
            elif before is not None and (outcome.result is Result.WAITING or step.action is Action.UNCHANGED):
                # It was not applied now; what an earlier apply left behind is as good as before.
                newer = step.unchanged and before.applied is not live
                records[step.identity] = replace(before, applied=live) if newer else before
        return replace(self, by_child=records)

    def news(self, outcomes: tuple[Outcome, ...], /) -> tuple[Outcome, ...]:
        return tuple(
            replace(each, counted=False) if each.counted and self._is_counted(each.step.identity) else each
            for each in outcomes
        )

    def _is_counted(self, identity: Identity) -> bool:
        record = self.by_child.get(identity)
        return record is not None and bool(record.counted_version)

    @property
    def at_rest(self) -> bool:
        """A resync applies all the same, and compares the answers with these records."""
        return True


def _after_apply(manifest: Manifest, live: LiveObject, before: ApplyRecord | None, *, counted: bool) -> ApplyRecord:
    record = apply_record(manifest, live)
    if counted:
        return replace(record, counted_version=live.resource_version)
    # The version of an earlier apply of the same manifest says that the operator has logged it.
    is_same = before is not None and before.digest == record.digest and before.uid == record.uid
    return replace(record, counted_version=before.counted_version) if before is not None and is_same else record

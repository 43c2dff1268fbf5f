"""In which waves a changed template set would reach the parents of a folder, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ssa_operator.objects.messages import counted
from ssa_operator.objects.rollout_settings import RolloutSettings
from ssa_operator.operator.rollouts.rules import WAVE_LIMIT, Member, canaries
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.suspension import is_suspended
from ssa_operator.tools.plan.changes import ParentChanges


@dataclass(slots=True)
class PlannedWaves:
    """The parents of a folder with rollouts, as they were planned."""

    settings: RolloutSettings
    members: list[Member] = field(default_factory=list)
    changed: bool = False
    pruned: int = 0
    recreated: int = 0

    def add(self, changes: ParentChanges) -> None:
        """Count one parent."""
        live, settings = changes.planned.parent.live, changes.planned.parent.folder.settings
        suspended = is_suspended(live, settings.suspend_when)
        of, labels = live.metadata, live.metadata.labels
        self.members.append(
            Member(uid=live.uid, namespace=of.namespace, name=of.name, labels=labels, suspended=suspended)
        )
        self.changed = self.changed or changes.differs or changes.failed
        self.pruned += sum(each.result is Result.PRUNED for each in changes.objects)
        self.recreated += sum(each.result is Result.RECREATED for each in changes.objects)

    def __str__(self) -> str:
        active = sorted((each for each in self.members if not each.suspended), key=lambda each: each.place)
        first = len(canaries(active, self.settings.canary))
        batch = min(self.settings.batch.of(len(active)), WAVE_LIMIT)
        batches = math.ceil((len(active) - first) / batch)
        waves = f"{'canary' if first == 1 else 'canaries'} {first}"
        waves += f", then {batches} {'batch' if batches == 1 else 'batches'} of at most {batch}" if batches else ""
        deletions = [counted(self.pruned, "deletion")] if self.pruned else []
        deletions += [counted(self.recreated, "recreation")] if self.recreated else []
        asks = self.pruned + self.recreated > self.settings.max_prune
        confirmed = f", more than maxPrune ({self.settings.max_prune}): it waits for `rollout resume`" if asks else ""
        return "; ".join([waves, " and ".join(deletions) + confirmed] if deletions else [waves])

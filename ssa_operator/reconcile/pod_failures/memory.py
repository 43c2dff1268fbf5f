"""The workloads that are not ready, with what their pods showed.

Promises:
- The pods of a parent that is being deleted are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from msgspec.structs import replace

from ssa_operator.kube.api.backoff import earliest
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.reconcile.child_history import NoMemory, Observation
from ssa_operator.reconcile.pod_failures.rules import PodCheck


class PodChecks(NoMemory, frozen=True):
    """The checks of pods, by child."""

    by_child: Mapping[Identity, PodCheck] = NOTHING

    def observed(self, seen: Observation, /) -> Self:
        return replace(self, by_child=NOTHING) if seen.deleting else self

    def due_at(self, _: float, /) -> float | None:
        """When pods are checked again."""
        return earliest(*(check.due for check in self.by_child.values()))

    @property
    def at_rest(self) -> bool:
        """The checks decide what a report says and when the next reconcile is due, and nothing else."""
        return True

"""The phases of a reconcile, which the line and the reconciles that leave it early share."""

from __future__ import annotations

from msgspec import Struct

from ssa_operator.kube.clock import Clock
from ssa_operator.reconcile.executor import Executor
from ssa_operator.reconcile.observe import Observer
from ssa_operator.reconcile.planner import Planner
from ssa_operator.reconcile.status.reporter import Reporter
from ssa_operator.reconcile.status.requests import Publisher


class Phases(Struct, frozen=True, kw_only=True):
    """What the reconciles of all parents go through, in this order."""

    observer: Observer
    planner: Planner
    executor: Executor
    reporter: Reporter
    publisher: Publisher
    clock: Clock

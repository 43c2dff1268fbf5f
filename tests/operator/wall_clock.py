"""A wall clock that a test sets for an operator."""

from __future__ import annotations

import time

from ssa_operator.kube.clock import SystemClock


class SteppingClock(SystemClock):
    """The clock of this machine, whose wall clock can be set."""

    stepped = 0.0

    def now(self) -> float:
        return time.time() + self.stepped

"""What the operator did in the last ten minutes, in numbers for small charts.

Promises:
- A figure is the difference of two counters of the metrics, so that charts and `/metrics` agree.
- The figures take the same memory after any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import Struct
from prometheus_client.metrics import MetricWrapperBase

from ssa_operator.operator.metrics import Metrics

INTERVAL = 10.0
"""Seconds between two samples."""

SAMPLES = 60


class Figures(Struct, frozen=True, kw_only=True):
    """Each has one number for each INTERVAL, the newest last."""

    reconciles: tuple[float, ...]
    """Reconciles a minute."""
    errors: tuple[float, ...]
    """Reconciles a minute that failed."""
    queue: tuple[int, ...]
    """Parents that wait to be reconciled."""


class FigureSamples:
    """Samples of the metrics of one operator."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._reconciles: deque[float] = deque(maxlen=SAMPLES)
        self._errors: deque[float] = deque(maxlen=SAMPLES)
        self._queue: deque[int] = deque(maxlen=SAMPLES)
        self.version = 0

    def take(self, metrics: Metrics, waiting: int) -> None:
        """Take one sample; `waiting` parents are in the work queue."""
        total = _sum(metrics.reconciles, ())
        failed = _sum(metrics.reconciles, ("failed", "error"))
        if self._before is not None:
            per_minute = 60 / INTERVAL
            self._reconciles.append(round((total - self._before[0]) * per_minute, 1))
            self._errors.append(round((failed - self._before[1]) * per_minute, 1))
        self._queue.append(waiting)
        self._before = total, failed
        self.version += 1

    def figures(self) -> Figures:
        """The figures of all samples."""
        return Figures(reconciles=tuple(self._reconciles), errors=tuple(self._errors), queue=tuple(self._queue))


def _sum(counter: MetricWrapperBase, results: Iterable[str]) -> float:
    """The sum of a counter over all folders, of these results or of all (())."""
    wanted = frozenset(results)
    return sum(
        sample.value
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and (not wanted or sample.labels.get("result") in wanted)
    )

"""Whether a figure of a long run grows.

Promises:
- A single high or low sample changes nothing: the slope is the median of the slopes between all pairs of samples
  (Theil and Sen).
- Times are in seconds.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence


def growth(samples: Sequence[tuple[float, float]]) -> float:
    """By how much a figure grows from the first sample to the last, by its trend. `samples` are times and values, in
    the order of time; fewer than two show no growth.
    """
    slopes = [(later[1] - sooner[1]) / (later[0] - sooner[0]) for sooner, later in itertools.combinations(samples, 2)]
    return statistics.median(slopes) * (samples[-1][0] - samples[0][0]) if slopes else 0.0


def tenths(values: Sequence[float]) -> list[float]:
    """The median of each tenth of the values, in the order of time; of few values, the values themselves."""
    size = max(1.0, len(values) / 10)
    bounds = [round(number * size) for number in range(min(10, len(values)) + 1)]
    return [statistics.median(values[start:end]) for start, end in itertools.pairwise(bounds)]

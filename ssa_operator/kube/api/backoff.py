"""Exponential backoff with jitter, and the earliest of several moments.

Promises:
- The pause doubles from the base to the cap and stays there: the operator never stops retrying.
- Jitter shortens a pause by at most half.
- Durations are in seconds. Jitter is an argument.
"""

from __future__ import annotations

BACKOFF_BASE = 0.5
BACKOFF_CAP = 120.0


def exponential(base: float, cap: float, times: int) -> float:
    """`base` doubled `times` times, at most `cap`."""
    return float(min(cap, base * 2.0 ** min(times, 30)))


def backoff(failures: int, jitter: float) -> float:
    """Seconds to wait after this number of consecutive failures (at least 1). `jitter` is in [0, 1) and shortens the
    pause by up to half.
    """
    return exponential(BACKOFF_BASE, BACKOFF_CAP, failures - 1) * (1 - jitter / 2)


def earliest(*moments: float | None) -> float | None:
    """The earliest of these moments, None if there is none."""
    return min([moment for moment in moments if moment is not None], default=None)

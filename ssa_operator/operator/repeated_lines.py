"""Limits log lines that are the same for many parents: a bad template with ten thousand parents doesn't log ten
thousand lines.

Promises:
- The first few similar lines of each window are logged, and the others are counted.
- The memory is bounded: the oldest kind of line is forgotten first.
- Times are in seconds on any one clock, and arguments.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from msgspec import Struct

WINDOW = 60.0
"""Seconds."""

KINDS = 1000
"""The most kinds of lines that are remembered."""


class _Window(Struct):
    began: float
    lines: int = 0


class RepeatedLines:
    """Counts lines that are alike; `limit` of them are logged in a window."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._windows: OrderedDict[Hashable, _Window] = OrderedDict()

    def count(self, alike: Hashable, now: float) -> tuple[bool, int]:
        """Count a line. Returns whether it is logged, and how many the window has omitted so far."""
        window = self._windows.get(alike)
        if window is None or now - window.began >= WINDOW:
            window = self._windows[alike] = _Window(now)
            self._windows.move_to_end(alike)
            if len(self._windows) > KINDS:
                self._windows.popitem(last=False)
        window.lines += 1
        omitted = max(0, window.lines - self._limit)
        return omitted == 0, omitted

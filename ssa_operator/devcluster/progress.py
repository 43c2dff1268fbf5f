"""What the control plane tells whoever waits for it, as values; how it looks is the command line's business."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is being done, and how far it is: `done` of `total` units, both 0 where nobody knows."""

    message: str
    done: int = 0
    total: int = 0


Report = Callable[[Progress], None]
"""Is told of every step; must not block, and may be called from another thread."""


def silent(progress: Progress) -> None:
    """The report of those who do not want to know."""

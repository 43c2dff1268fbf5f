"""The progress of starting and building a control plane, as values that the command line shows."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class Progress(Struct, frozen=True, kw_only=True):
    """A step, and how much of it is done: `done` of `total` units, both 0 if unknown."""

    message: str
    done: int = 0
    total: int = 0


ProgressCallback = Callable[[Progress], None]
"""Called with every step. It must not block, and another thread may call it."""


def ignore_progress(progress: Progress) -> None:
    """A callback that shows nothing."""

"""The setting `rollout` of a template folder: in which waves a changed set reaches the parents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class Batch(Struct, frozen=True):
    """The parents of one wave: a number, or a percentage of all parents."""

    number: int
    percent: bool = False

    def of(self, parents: int) -> int:
        """How many of so many parents a wave has: at least one. A percentage is rounded down."""
        return max(1, parents * self.number // 100 if self.percent else self.number)


class Canary(Struct, frozen=True, kw_only=True):
    """The parents of the first wave."""

    selector: Mapping[str, Any] | None = None
    """The LabelSelector of the parents that come first, None without one."""
    count: int | None = 1
    """How many parents; None for all that the selector selects."""


class Window(Struct, frozen=True, kw_only=True):
    """When waves may begin."""

    schedule: tuple[frozenset[int], ...]
    """The minutes, hours, days of the month, months and weekdays (0 is Sunday) at which the window opens."""
    either_day: bool
    """Whether the day of the month or the weekday suffices: cron's rule for a schedule that restricts both."""
    duration: float
    """For how many seconds it stays open."""
    time_zone: str = "UTC"
    text: str = ""
    """The schedule as the author wrote it."""


class RolloutSettings(Struct, frozen=True, kw_only=True):
    """How a changed template set is rolled out."""

    canary: Canary = field(default_factory=Canary)
    batch: Batch = Batch(10, percent=True)
    settle: float = 30.0
    """For how many seconds all parents of a wave must be Ready."""
    max_unready: int = 0
    """How many parents that were Ready may fail before the rollout stops."""
    max_prune: int = 0
    """How many children a new set may delete or recreate without a confirmation."""
    window: Window | None = None
    """When waves may begin; None for always."""

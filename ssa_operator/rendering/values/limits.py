"""Limits the time, the memory and the text that one template uses, with a budget for each render.

Promises:
- A template that loops, recurses or grows without end fails with an error that names the limit.
- The limits hold in every thread and need no signal: the render checks them at each step that a template can repeat.
- No single step makes a value that is larger than the limits.
- No single step reads a value that is larger than the limits, each part counted as often as it is read.
- A render within `interruptible` ends with Interrupted as soon as its caller requests it, whatever it is doing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from types import GeneratorType
from typing import Any
from weakref import WeakKeyDictionary

from jinja2 import TemplateRuntimeError

from ssa_operator.objects.context_values import set_within

OUTPUT_LIMIT = 3 * 2**20
"""Characters that one template may render: the API server takes request bodies of at most 3 MiB."""

WORK_LIMIT = 64 * 2**20
"""Characters that the expressions of one template may produce in each second that it may take; an entry of a list
counts as 8, a step as 64.
"""

STEP_LIMIT = 16 * 2**20
"""Characters that one step may read: nothing can stop a step before its end. An entry of a list counts as 8."""

ORDER_LIMIT = 8 * STEP_LIMIT
"""The same for a step that orders values, times the comparisons of each one: 300 000 names."""

DEPTH_LIMIT = 100
"""Levels of nesting in a value: no manifest has as many."""

SECONDS_LIMIT = 1.0
"""Seconds of processor time that one template may take, unless the settings of its folder say otherwise. A ConfigMap of
20 000 entries takes 0.4 s, a usual template a ten thousandth of that.
"""

MOST_SECONDS = 30.0
"""The most seconds that the settings of a folder may allow."""

SECONDS_AFTER_OVERRUN = 0.1
"""Seconds that each further template of a folder may take after one of them took too long."""

INTEGER_BITS = 4096
"""Bits of the largest number that an expression may compute."""

INTEGER_DIGITS = 4300
"""Digits of the largest number that a text may give, as in Python."""

_READ_BITS = 14285
"""Bits of a number of INTEGER_DIGITS digits."""

_STEPS_BETWEEN_CHECKS = 256
_STEP_SIZE = 64
ENTRY_SIZE = 8


_LARGE = 4096
"""The size of a result at which the time is checked: making it may take long."""


class LimitError(TemplateRuntimeError):
    """A template reached a limit."""


class TimeLimitError(LimitError):
    """A template took too long."""


class Interrupted(BaseException):
    """A render was interrupted by its caller. It is no error of a template, so that no render reports it as one."""


class Interrupt:
    """When renders are interrupted: at a moment of the processor time of the process, or by `now`, from any thread."""

    __slots__ = ("ends",)

    def __init__(self, ends: float = inf) -> None:
        self.ends = ends

    def now(self) -> None:
        """Interrupt the render at its next check."""
        self.ends = -inf


_interrupt: ContextVar[Interrupt | None] = ContextVar("ssa_operator_render_interrupt", default=None)


def interruptible(interrupt: Interrupt) -> set_within[Interrupt | None]:
    """Run a block of renders, which this interrupts: they raise Interrupted."""
    return set_within(_interrupt, interrupt)


def is_interruptible() -> bool:
    """Whether the present code is in a block of `interruptible`."""
    return _interrupt.get() is not None


class RenderBudget:
    """The work and the time that remain for the template that is being rendered."""

    __slots__ = ("_deadline", "_interrupt", "_steps", "_work", "chains", "seconds", "sizes")

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = SECONDS_LIMIT if seconds is None else seconds
        """Seconds of processor time in all."""
        self._deadline: float | None = None
        self._interrupt = _interrupt.get()
        self._steps = _STEPS_BETWEEN_CHECKS
        self._work = int(WORK_LIMIT * max(1.0, self.seconds))
        self.chains: WeakKeyDictionary[Iterator[Any], int] | None = None
        """How many generators read each other, by the last one; None without any."""
        self.sizes: dict[int, tuple[Any, Any]] = {}
        """The sizes of values by their id, each with its value, whose id is no other value's meanwhile."""

    def step(self) -> None:
        """Count one step that a template can repeat. Raises LimitError when the time is over."""
        self._steps -= 1
        if self._steps <= 0:
            self._steps = _STEPS_BETWEEN_CHECKS
            self.spend(_STEPS_BETWEEN_CHECKS * _STEP_SIZE)  # a usual template never reaches this line

    def check_time(self) -> None:
        """Raise LimitError when the time is over, or Interrupted; for a step that may take long itself."""
        # The thread's own time, so that no template fails because the machine is busy.
        now = time.thread_time()
        # The time of all threads, because other threads also delay the caller of this render.
        if self._interrupt is not None and time.process_time() > self._interrupt.ends:
            raise Interrupted
        if self._deadline is None:
            self._deadline = now + self.seconds
        if now > self._deadline:
            more = f", or set renderLimit, at most {MOST_SECONDS:g}s, in _settings.yaml"
            raise TimeLimitError(
                f"rendering takes longer than {self.seconds:g} second{'s' * (self.seconds != 1)}; "
                f"look for a loop that is too long{more if SECONDS_LIMIT <= self.seconds < MOST_SECONDS else ''}"
            )

    def produce(self, size: int) -> None:
        """Count the characters of a result before an expression makes it.

        Raises LimitError when one result, or all results together, would be too large.
        """
        if size > OUTPUT_LIMIT:
            raise LimitError(f"a value of {size} characters is larger than {OUTPUT_LIMIT // 2**20} MiB")
        self.spend(size)
        self.step()

    def read(self, size: int, most: int = STEP_LIMIT) -> None:
        """Count a step that reads values of this size, before it does. Raises LimitError if it would take too long."""
        if size > most:
            raise LimitError(
                f"a value is larger than {most // 2**20} MiB with all its parts, each counted as often as it occurs"
            )
        self.step()
        if size >= _LARGE:
            self.check_time()

    def spend(self, size: int) -> None:
        """Count the characters of a result that may be larger than the output, and check the time if it is large.

        Raises LimitError.
        """
        self._work -= size
        if self._work < 0:
            raise LimitError(
                "the loops and expressions of this template do too much work; look for one that is too long"
            )
        if size >= _LARGE:
            self.check_time()


_current: ContextVar[RenderBudget] = ContextVar("ssa_operator_render_budget")


def current() -> RenderBudget:
    """The budget of the render in progress; outside of a render, a new one."""
    budget = _current.get(None)
    return RenderBudget() if budget is None else budget


def enforced(seconds: float | None = None) -> set_within[RenderBudget]:
    """Run the block with a budget of its own, in this thread or task: `seconds`, by default SECONDS_LIMIT."""
    return set_within(_current, RenderBudget(seconds))


@contextmanager
def enforced_within(seconds: float | None = None) -> Iterator[None]:
    """The same if no render is in progress. Within a render, the block uses the render's budget."""
    if _current.get(None) is not None:
        yield
        return
    with enforced(seconds):
        yield


def counted(iterable: Iterable[Any]) -> Iterator[Any]:
    """The same items; each one counts as a step."""
    step = current().step
    for item in iterable:
        step()
        yield item


_CHAIN_LIMIT = 100
"""Filters that read each other's items one by one."""


def chained(generator: Iterator[Any], sources: Iterable[Any]) -> Iterator[Any]:
    """The items of a generator that may read other ones; each one counts as a step.

    Raises LimitError if too many generators read each other: Python ends them within each other.
    """
    budget = current()
    chains = budget.chains
    if chains is None:
        chains = budget.chains = WeakKeyDictionary()
    length = 1 + max((chains.get(source, 0) for source in sources if isinstance(source, GeneratorType)), default=0)
    if length > _CHAIN_LIMIT:
        raise LimitError(f"more than {_CHAIN_LIMIT} filters read each other's items; write `| list` after one of them")
    found = counted(generator)
    chains[found] = length
    return found


def size_of(value: object) -> int:
    """The size of a value in the budget's units, without the items of its items."""
    if isinstance(value, str):
        return len(value)
    return len(value) * ENTRY_SIZE if isinstance(value, Sized) else 1


def check_number(value: int) -> None:
    """Raise LimitError for a number with too many digits to compute with."""
    if value.bit_length() > _READ_BITS:
        raise LimitError(f"a number of more than {INTEGER_DIGITS} digits is too large")

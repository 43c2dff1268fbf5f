"""Limits the work of one rule, so that no rule and no object hold up a process.

Promises:
- An expression that does too much work is unknown offline, before it does it.

The API server has a budget of its own (`PerCallLimit` of k8s.io/apiserver), which counts other things: a rule that
exceeds this one may be valid there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

LIMIT = 1_000_000
"""The steps of one object's rules; reading an entry of a list or 16 characters of a text is one."""

CHARACTERS = 16
"""Characters that are read in one step."""


class CostError(Exception):
    """An expression does too much work."""


class _Budget:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = LIMIT


_current: ContextVar[_Budget] = ContextVar("ssa_operator_cel_budget")


@contextmanager
def limited() -> Iterator[None]:
    """Evaluate the expressions of the block with one budget."""
    token = _current.set(_Budget())
    try:
        yield
    finally:
        _current.reset(token)


def spend(steps: int = 1) -> None:
    """Count some steps before they are done. Raises CostError if they are too many."""
    budget = _current.get(None)
    if budget is None:
        return
    budget.left -= steps
    if budget.left < 0:
        raise CostError("the rules of the object do too much work")


def spend_reading(*values: Any) -> None:
    """Count the work to read some values."""
    spend(sum(map(steps_of, values)))


def steps_of(value: Any) -> int:
    """The steps to read a text or a list once, without the items of its items."""
    if isinstance(value, (str, bytes)):
        return len(value) // CHARACTERS
    raw = getattr(value, "raw", value)
    return len(raw) if isinstance(raw, (Mapping, Sequence)) else 1

"""Context variables that have a value within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def set_within(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Give a variable this value in the block, and in each task that it starts."""
    token = variable.set(value)
    try:
        yield
    finally:
        # A worker that is destroyed with its event loop ends in the context of whatever destroys it.
        with suppress(ValueError):
            variable.reset(token)

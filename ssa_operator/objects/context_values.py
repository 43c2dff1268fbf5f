"""Context variables that have a value within a block."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Generic, TypeVar

Value = TypeVar("Value")


class set_within(Generic[Value]):  # noqa: N801 - a context manager, which as a class costs a third
    """Give a variable this value in the block, and in each task that it starts."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Value], value: Value) -> None:
        self._variable = variable
        self._value = value
        self._token: Token[Value]

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        try:  # noqa: SIM105 - `suppress` costs more than the rest
            self._variable.reset(self._token)
        except ValueError:
            pass  # a worker that is destroyed with its event loop ends in the context of whatever destroys it

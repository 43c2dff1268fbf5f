"""The error that ends a command with one line for the user."""

from __future__ import annotations


class CommandError(Exception):
    """A command failed. The text has the reason and what to do; `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code

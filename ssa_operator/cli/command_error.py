"""What ends a command early, in words for its user."""

from __future__ import annotations


class CommandError(Exception):
    """A command that can't go on; the text says why and what to do. `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code

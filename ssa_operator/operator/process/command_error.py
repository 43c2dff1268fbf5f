"""The error that ends a command with one line for the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNWRITABLE = 2
"""The exit code of a command that can't write its output: `diff`, `check` and `test` have another meaning for 1."""


class CommandError(Exception):
    """A command failed. The text has the reason and what to do; `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise an error of the system as CommandError while the block writes a file."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"can't write {path}: {error.strerror}", UNWRITABLE) from error

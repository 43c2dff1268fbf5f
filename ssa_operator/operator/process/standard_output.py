"""Standard output of commands: a failed write ends a command with one sentence.

Promises:
- A full disk, or another error of the file behind standard output, is a CommandError with the system's reason.
- A closed pipe stays a BrokenPipeError, because it is no error if a reader stops reading.
- After an error nothing more is written, so that the end of the process reports no second error.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING

from ssa_operator.operator.process.command_error import UNWRITABLE, CommandError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def guard() -> None:
    """Make this process write to standard output by these rules from now on."""
    if sys.stdout is None:
        # The process was started without it. Each write to a file that is open for reading only is an error.
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_File(os.open(os.devnull, os.O_RDONLY), "w")))
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_File(sys.stdout.fileno(), "w", closefd=False)),
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            line_buffering=sys.stdout.line_buffering or sys.stdout.write_through,
        )


class _File(io.FileIO):
    """The file behind standard output."""

    _failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        if self._failed:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self._failed = True
            if error.errno == errno.EPIPE:
                raise
            raise CommandError(f"can't write standard output: {error.strerror}", UNWRITABLE) from error

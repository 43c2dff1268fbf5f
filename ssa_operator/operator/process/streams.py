"""The output of a command: its formats, the error that ends it, and the only writes to its standard streams.

Commands write texts from parents, files and the API server. The authors of these texts control neither the terminal of
the reader nor the log of a CI job (`objects/messages.py`).

Promises:
- Output for people has escapes in place of control characters, on a terminal and elsewhere. Only the commands set
  colours. No markup in a text is interpreted.
- Data is written unchanged: its encoder has escaped it, so that readers get the same values.
- A full disk, or another error of the file behind standard output, is a CommandError with the system's reason.
- A closed pipe stays a BrokenPipeError, because it is no error if a reader stops reading.
- After an error nothing more is written, so that the end of the process reports no second error.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ssa_operator.objects.messages import visible, visible_line, without_controls, without_workflow_commands

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The lowest level of log lines to show."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class OutputFormat(StrEnum):
    """The format of a command's data."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class ListFormat(StrEnum):
    """The format of a list of objects."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def data_format(self) -> OutputFormat:
        """The format of the data; a wide list is a table, too."""
        return OutputFormat.TABLE if self is ListFormat.WIDE else OutputFormat(self.value)


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


def line(text: str) -> None:
    """Write one line for people to standard output."""
    _write(sys.stdout, f"{visible_line(text)}\n")


def lines(text: str) -> None:
    """Write lines for people to standard output; the last one gets a line end if it has none."""
    _write(sys.stdout, _ended(visible(text)))


def error(text: str) -> None:
    """Write lines for people to standard error."""
    _write(sys.stderr, _ended(visible(text)))


def data(text: str) -> None:
    """Write data, or commands of a CI system, that are escaped already to standard output."""
    _write(sys.stdout, text)


def flush() -> None:
    """Write out what standard output still holds."""
    sys.stdout.flush()


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


def console(*, stderr: bool = False, **settings: Any) -> Console:
    """A console for styled text, trees and tables."""
    from rich.console import Console
    from rich.segment import Segment

    class Visible(Console):
        """A console that shows control characters in texts as escapes."""

        def render(self, renderable: Any, options: Any = None) -> Any:
            for segment in super().render(renderable, options):
                if segment.control or segment.text == "\n":
                    yield segment
                else:
                    yield Segment(without_controls(segment.text), segment.style)

    file: Any = _Lines(sys.stderr if stderr else sys.stdout)
    defaults = {"highlight": False, "markup": False, "emoji": False}
    return Visible(file=file, **defaults | settings)


class _Lines:
    """A stream that begins no workflow command."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(without_workflow_commands(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_standard_output() -> None:
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

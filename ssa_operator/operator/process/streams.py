"""Writes to standard output and standard error: the only module of the commands that does.

Commands write texts from parents, files and the API server. The authors of these texts control neither the terminal of
the reader nor the log of a CI job (`objects/visible_text.py`).

Promises:
- Output for people has escapes in place of control characters, on a terminal and elsewhere. Only the commands set
  colours. No markup in a text is interpreted.
- Data is written unchanged: its encoder has escaped it, so that readers get the same values.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from ssa_operator.objects.visible_text import (
    visible,
    visible_line,
    without_controls,
    without_workflow_commands,
)

if TYPE_CHECKING:
    from rich.console import Console


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

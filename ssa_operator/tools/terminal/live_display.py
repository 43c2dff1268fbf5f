"""Shows data again and again with --watch: in place in a terminal, and otherwise the lines that changed.

Promises:
- The data come from watches. Between two changes no request is sent; a terminal only redraws the ages.
- Without a terminal the first output is whole, and then each line that changed follows. JSON and YAML are a whole
  document after each change.
- While a watch fails, a line says that the data may be out of date, and why. The command goes on when the watch does.
- In a terminal, lines that don't fit are cut, and the number of the missing lines is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ssa_operator.objects.messages import visible_line
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import OutputFormat
from ssa_operator.tools.tree.listings import Watches
from ssa_operator.tools.tree.tree_view import Line

REDRAW = 1.0
"""Seconds after which a terminal shows the ages of objects that did not change."""

Read = Callable[[], Awaitable[Any]]
Draw = Callable[[Any, float], Sequence[Line]]


async def show_changes(watches: Watches, read: Read, draw: Draw, output: OutputFormat) -> None:
    """Read and show data until cancelled: once, and after each change."""
    from ssa_operator.tools.terminal import printing

    if output is OutputFormat.TABLE and streams.is_terminal():
        await _show_in_place(watches, read, draw)
        return
    last: Any = None
    shown: Sequence[Line] | None = None
    while True:
        async with watches.round():
            found = await read()
        if output is OutputFormat.TABLE:
            lines = _with_problems(draw(found, time.time()), watches)
            written = lines if shown is None else changes(shown, lines)
            streams.data("".join(f"{visible_line(str(line))}\n" for line in written))
            shown = lines
        elif found != last:
            printing.data(found, output, document=True)
        last = found
        streams.flush()
        await watches.change()


def _with_problems(lines: Sequence[Line], watches: Watches) -> Sequence[Line]:
    """The lines, with the reasons why they may be out of date."""
    # Each watch names itself first. The reason is the same for all of them.
    reasons = dict.fromkeys(problem.rpartition(": ")[2] for problem in watches.problems)
    return [*lines, *(Line.of_note(f"This may be out of date: {reason}") for reason in reasons)]


def changes(before: Sequence[Line], after: Sequence[Line]) -> list[str]:
    """The lines that changed, without their place in the tree, and those of objects that are gone as deleted."""
    known, now = {line.change for line in before}, {(line.kind, line.name) for line in after}
    gone = dict.fromkeys((line.kind, line.name) for line in before if line.kind and (line.kind, line.name) not in now)
    changed = [line.unindented for line in after if line.change not in known]
    return [*changed, *(f"{kind} {name}  Deleted" for kind, name in gone)]


async def _show_in_place(watches: Watches, read: Read, draw: Draw) -> None:
    from rich.live import Live as Screen

    console = streams.console()
    with Screen(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        while True:
            async with watches.round():
                found = await read()
            changed = asyncio.ensure_future(watches.change())
            try:
                while not changed.done():
                    lines = _with_problems(draw(found, time.time()), watches)
                    screen.update(fitting(lines, console.height), refresh=True)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(asyncio.shield(changed), REDRAW)
            finally:
                changed.cancel()


def fitting(lines: Sequence[Line], height: int) -> Any:
    """The lines that fit into a terminal, and the number of those that don't."""
    from rich.console import Group
    from rich.text import Text

    room = max(height - 1, 1)
    if len(lines) <= room:
        return Group(*(line.text() for line in lines))
    hidden = len(lines) - room + 1
    return Group(*(line.text() for line in lines[: room - 1]), Text(f"… {hidden} more lines", "dim"))

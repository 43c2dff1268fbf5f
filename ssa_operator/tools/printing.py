"""Prints objects as YAML or JSON, and tables, once or after each change; and YAML with one form for each value.

Promises:
- `--output json` prints several objects as a `v1` List. The user can apply the printed YAML unchanged.
- The data come from watches. Between two changes no request is sent; a terminal only redraws the ages. While a watch
  fails, a line says that the data may be out of date, and why.
- Without a terminal the first output is whole, and then each line that changed follows. JSON and YAML are a whole
  document after each change.
- In a terminal, lines that don't fit are cut, and the number of the missing lines is named.
- Reading canonical text gives the same values, types included. Two texts have the same sorted form if and only if their
  documents have the same values.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ssa_operator.objects.messages import escaped_json, visible_line
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import OutputFormat
from ssa_operator.rendering.yaml.to_yaml import yaml_document

if TYPE_CHECKING:
    from rich.console import Console

    from ssa_operator.kube.api.client import Client
    from ssa_operator.tools.tree.listings import Listings, Watches
    from ssa_operator.tools.tree.tree_view import Line


def objects(found: Sequence[Mapping[str, Any]], output: OutputFormat, comments: Sequence[str] = ()) -> None:
    """Print Kubernetes objects. In YAML, each has its comment above it, if there are comments."""
    if output is OutputFormat.JSON:
        value: Any = found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(found)}
        data(value, output)
    else:
        heads = [f"# {visible_line(comment)}\n" for comment in comments] or [""] * len(found)
        streams.data("---\n".join(head + yaml_document(each) for head, each in zip(heads, found, strict=True)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table as kubectl does: one line for each row, without wrapping or truncation."""
    from rich.table import Table
    from rich.text import Text

    columns = Table(*head, box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns.columns:
        column.no_wrap = True
    for row in rows:
        columns.add_row(*(Text(visible_line(each)) for each in row))
    width = streams.console(width=2**16).measure(columns).maximum
    streams.console(width=width).print(columns)


def lines(found: Iterable[Line]) -> None:
    """Print the lines of a tree: with styles in a terminal, and otherwise as text without wrapping."""
    if not streams.is_terminal():
        # One write, because there may be thousands.
        streams.data("".join(f"{visible_line(str(line))}\n" for line in found))
        return
    from ssa_operator.tools.tree.tree_view import Columns

    console, shown = streams.console(), list(found)
    columns = Columns.of(shown, console.width)
    for line in shown:
        console.print(columns.text(line), soft_wrap=True)


def data(value: Any, output: OutputFormat, *, document: bool = False) -> None:
    """Print any JSON value as JSON or YAML. With `document` others follow: JSON is one line, and YAML ends in `---`."""
    if output is OutputFormat.JSON and document:
        streams.data(escaped_json(msgspec.json.encode(value).decode()) + "\n")
    elif output is OutputFormat.JSON:
        streams.data(escaped_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n")
    else:
        streams.data(yaml_document(msgspec.to_builtins(value)) + ("---\n" if document else ""))


REDRAW = 1.0
"""Seconds after which a terminal shows the ages of objects that did not change."""

Read = Callable[[], Awaitable[Any]]
Draw: TypeAlias = "Callable[[Any, float], Sequence[Line]]"


async def show(
    client: Client, read: Callable[[Listings], Awaitable[Any]], draw: Draw, output: OutputFormat, *, watch: bool
) -> None:
    """Read data and print them: drawn as lines, or as JSON or YAML. With `watch`, again after each change."""
    from ssa_operator.tools.tree.listings import Lists, Watches

    if watch:
        async with Watches(client) as watches:
            await _show_changes(watches, lambda: read(watches), draw, output)
        return
    found = await read(Lists(client))
    if output is OutputFormat.TABLE:
        lines(draw(found, time.time()))
    else:
        data(found, output)


async def _show_changes(watches: Watches, read: Read, draw: Draw, output: OutputFormat) -> None:
    """Read and show data until cancelled: once, and after each change."""
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
            data(found, output, document=True)
        last = found
        streams.flush()
        await watches.change()


def _with_problems(lines: Sequence[Line], watches: Watches) -> Sequence[Line]:
    """The lines, with the reasons why they may be out of date."""
    from ssa_operator.tools.tree.tree_view import Line

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
    with live_lines() as show:
        while True:
            async with watches.round():
                found = await read()
            changed = asyncio.ensure_future(watches.change())
            try:
                while not changed.done():
                    show(_with_problems(draw(found, time.time()), watches))
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(asyncio.shield(changed), REDRAW)
            finally:
                changed.cancel()


@contextlib.contextmanager
def live_lines() -> Iterator[Callable[[Sequence[Line]], None]]:
    """Shows the lines of each call in place of the earlier ones, as many as fit into the terminal."""
    from rich.live import Live as Screen

    console = streams.console()
    with Screen(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        yield lambda lines: screen.update(_fitting(lines, console), refresh=True)


def _fitting(lines: Sequence[Line], console: Console) -> Any:
    """The lines that fit into a terminal, and the number of those that don't."""
    from rich.console import Group
    from rich.text import Text

    from ssa_operator.tools.tree.tree_view import Columns

    room, columns = max(console.height - 1, 1), Columns.of(lines, console.width)
    if len(lines) <= room:
        return Group(*map(columns.text, lines))
    hidden = len(lines) - room + 1
    return Group(*map(columns.text, lines[: room - 1]), Text(f"… {hidden} more lines", "dim"))


def canonical_text(documents: Iterable[Mapping[str, Any]], *, sort_keys: bool = False) -> str:
    """The documents as YAML, '' without any. With `sort_keys` the order of keys makes no difference."""
    return "---\n".join(yaml_document(_sorted(document) if sort_keys else document) for document in documents)


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value

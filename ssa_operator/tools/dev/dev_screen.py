"""Draws the screen of `ssa-operator dev`.

Promises:
- The screen has exactly the lines of the terminal, from 80x24 on: a title, the lines with KUBECONFIG and the address of
  the web view, the tree, the whole message of the selected line, errors and Events, and the keys. While the cluster is
  still starting, a line below the title says so. If the control plane is gone, the title says so.
- The selected line is always visible.
- States and ages stand in columns.
- An error is shown once, with its file and line, as long as it lasts: not again as a message or an Event. Events are
  shown with the newest last. Without errors the first warning of `check` is shown. The first of both is shown whole.
- Drawing changes nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ssa_operator.objects.messages import counted
from ssa_operator.tools.dev.scene import Row, Scene, event_text, most_telling, place_of
from ssa_operator.tools.dev.screen_state import FILTER_KEYS, KEYS, PAGER_KEYS, ScreenState
from ssa_operator.tools.tree.tree_view import READY, Columns, condition, group_of, name_of, one_line, totals, urgency

if TYPE_CHECKING:
    from rich.text import Text

MIN_TREE = 6
"""Lines of the tree that stay, however much else there is."""

MESSAGE_LINES = 4
"""The most lines of the selected line's message."""

EVENT_LINES = 6
"""The most lines of errors and Events."""

CLOSING_PARENTS = 5
"""The most parents that are not ready in the closing."""


def draw(state: ScreenState, scene: Scene, rows: Sequence[Row], size: tuple[int, int]) -> list[Text]:
    """The lines of the screen: `size` is its width and height."""
    from rich.text import Text

    width, height = size
    if state.pager is not None:
        room = height - 2
        shown = [Text.from_ansi(line) for line in state.pager[state.offset : state.offset + room]]
        lines = f"{state.offset + 1}-{state.offset + len(shown)} of {len(state.pager)}"
        title = f"{state.title}: {lines}" if len(shown) < len(state.pager) else state.title
        return _fitted([_bar(title, width), *shown], _bar(PAGER_KEYS, width), size)
    rows = state.shown(rows)
    selected = state.at(rows)
    words = scene.explained(rows[selected].line.message or rows[selected].line.note)
    message = textwrap.wrap(words, width)[:MESSAGE_LINES]
    head = [_bar(_title(scene, state), width), *([Text(scene.kubeconfig, "dim")] if scene.kubeconfig else [])]
    head += [Text(f"In a browser (w): {scene.page}", "dim")] if scene.page else []
    head += [Text(one_line(scene.outage), "bold red")] if scene.outage else []
    head += [Text(scene.cluster_note, "yellow")] if scene.cluster_note and not scene.outage else []
    height_left = height - 1 - len(head)
    free = max(height_left - MIN_TREE - (len(message) + 1 if message else 0), 0)
    remarks = _remarks(scene, place_of(words), (width, min(EVENT_LINES, max(free - 1, 0))))
    below = [_rule("", width), *(Text(line) for line in message)] if message else []
    below += [_rule("Errors and Events", width), *remarks] if remarks else []
    room = max(height_left - len(below), 1)
    first = max(min(selected - room // 2, len(rows) - room), 0)
    columns = Columns.of([row.line for row in rows], width)
    tree = [
        _row(row, columns, width, selected=place == selected, faded=bool(scene.outage))
        for place, row in enumerate(rows[first : first + room], first)
    ]
    filled = [*tree, *([Text("")] * (room - len(tree))), *below]
    return _fitted([*head, *filled], _bar(_bottom(state), width), size)


def _fitted(above: list[Text], last: Text, size: tuple[int, int]) -> list[Text]:
    """Exactly the lines of the screen, none wider than it."""
    from rich.text import Text

    width, height = size
    found = [*above[: height - 1], *([Text("")] * (height - 1 - len(above))), last]
    for line in found:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return found


def _title(scene: Scene, state: ScreenState) -> str:
    if scene.outage:
        return "ssa-operator dev: the control plane is gone; this is what it had last"
    unready = sum(not _is_ready(parent) for parent in scene.parents)
    problems = scene.problems
    parts = [counted(len(scene.parents), "parent")]
    parts += [f"{unready} not ready"] if unready else ["all ready"] if scene.parents else []
    parts += [f"{counted(len(scene.waiting), 'folder')} waiting"] if scene.waiting else []
    parts += [counted(len(problems), "error")] if problems else []
    parts += [counted(len(scene.warnings), "warning")] if scene.warnings else []
    parts += [f"only {state.word!r}"] if state.word and not state.typing else []
    return f"ssa-operator dev: {', '.join(parts)}"


def _bottom(state: ScreenState) -> str:
    return f"/{state.word}_   {FILTER_KEYS}" if state.typing else state.notice or KEYS


def _row(row: Row, columns: Columns, width: int, *, selected: bool, faded: bool) -> Text:
    """A line of the tree. The selected one has no colours, which its background would hide."""
    from rich.text import Text

    line = row.line
    found = columns.text(line)
    if row.hidden:
        found.append(f"  ▸ {counted(row.hidden, 'line')}", "dim")
    if selected:
        return Text(found.plain + " " * max(width - found.cell_len, 0), "reverse")
    return Text(found.plain, "dim") if faded else found


def _bar(text: str, width: int) -> Text:
    from rich.text import Text

    return Text(
        text[:width].ljust(width),
        "bold reverse" if text in (KEYS, PAGER_KEYS) or text.endswith(FILTER_KEYS) else "bold",
    )


def _rule(title: str, width: int) -> Text:
    from rich.text import Text

    return Text((f"── {title} " if title else "").ljust(width, "─"), "dim")


def _remarks(scene: Scene, selected: str, size: tuple[int, int]) -> list[Text]:
    """The newest Events, the operator's own and Warnings before routine ones, and after them the first errors that
    last, without those that the screen shows elsewhere: by the place that the selected line's message names. They fit
    into `size`, a width and a number of lines. Errors take precedence, and the first one is shown whole.
    """
    from rich.text import Text

    width, room = size
    errors = [] if scene.outage else scene.problems
    places = {*map(place_of, errors), selected}
    events = [event for event in scene.events if place_of(event.note) not in places]
    urgent, colour = [one_line(each) for each in errors if place_of(each) != selected], "red"
    # An error is more urgent than any warning.
    if scene.warnings and not errors:
        more = f" (c shows all {len(scene.warnings)})" if len(scene.warnings) > 1 else ""
        urgent, colour = [one_line(scene.warnings[0]) + more], "yellow"
    whole = textwrap.wrap(urgent[0], width)[:MESSAGE_LINES] if urgent else []
    shown = [Text(each, colour) for each in [*whole, *urgent[1:]][:room]]
    events = most_telling(events, room - len(shown))
    return [*(Text(event_text(each), "yellow" if each.type == "Warning" else "") for each in events), *shown]


def closing(parents: Sequence[Mapping[str, Any]], *, outage: bool = False) -> list[str]:
    """What remains in the terminal after `dev`: what ran, and what of it is not ready. After an outage that is not
    known.
    """
    if outage:
        return [f"dev ran {counted(len(parents), 'parent')} until the control plane was gone"]
    reasons = totals(parents).partition(": ")[2]
    found = [f"dev ran {counted(len(parents), 'parent')}{f': {reasons}' if reasons else ''}"]
    unready = [parent for parent in sorted(parents, key=urgency) if not _is_ready(parent)]
    found += [_closing_line(each) for each in unready[:CLOSING_PARENTS]]
    rest = len(unready) - CLOSING_PARENTS
    found += [f"and {counted(rest, 'other')} that {'is' if rest == 1 else 'are'} not ready"] if rest > 0 else []
    return found


def _is_ready(parent: Mapping[str, Any]) -> bool:
    return group_of(parent) == READY


def _closing_line(parent: Mapping[str, Any]) -> str:
    ready = condition(parent, "Ready") or {}
    name = name_of(parent)
    state = f"{ready.get('reason', 'Unknown')}: {ready.get('message', '')}" if ready else "not reconciled"
    return one_line(f"{parent['kind']} {name}  {state}").replace(f"{name} ", f"{name}  ", 1)

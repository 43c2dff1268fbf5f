"""The screen of `ssa-operator dev`: its content, and the effects of keys.

Promises:
- The screen has exactly the lines of the terminal, from 80x24 on: a title, the tree, the whole message of the selected
  line, errors and Events, and the keys. While the cluster is still starting, a line below the title says so.
- The selected line is always visible. It stays the same object while others come and go.
- An error of a template is shown with its file and line as long as it lasts. Events are shown with the newest last.
- A key changes the screen, or names a request for the selected parent. Drawing and keys change nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.objects.scalars import moment_of
from ssa_operator.tools.tree.parent_events import event_time
from ssa_operator.tools.tree.tree_view import Line, condition, lines, one_line

if TYPE_CHECKING:
    from rich.text import Text

MIN_TREE = 6
"""Lines of the tree that stay, however much else there is."""

MESSAGE_LINES = 4
"""The most lines of the selected line's message."""

EVENT_LINES = 6
"""The most lines of errors and Events."""

KEYS = "↑↓ select  p pause  r re-apply  d diff  b blame  e events  l log  q quit"
PAGER_KEYS = "↑↓ scroll  q back"


class KeyRequest(StrEnum):
    """A key's request to the session."""

    PAUSE = "pause"
    APPLY = "re-apply"
    DIFF = "diff"
    BLAME = "blame"
    QUIT = "quit"


_REQUESTS = {
    "p": KeyRequest.PAUSE,
    "r": KeyRequest.APPLY,
    "d": KeyRequest.DIFF,
    "b": KeyRequest.BLAME,
    "q": KeyRequest.QUIT,
}
_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": -(10**6), "end": 10**6}


class Row(Struct, frozen=True):
    """A line of the tree, and the parent that it belongs to."""

    line: Line
    parent: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the row while its object lasts."""
        return (str(self.parent.get("uid", "")), self.line.kind, self.line.name, self.line.note)

    @property
    def is_child(self) -> bool:
        """Whether it is a child of the parent, and not the parent or an object further below."""
        return self.line.depth == 1 and not self.line.note

    @property
    def suspended(self) -> bool:
        """Whether the parent is suspended."""
        return condition(self.parent, "Suspended") is not None


class Scene(Struct, frozen=True, kw_only=True):
    """The data to show at one moment."""

    parents: Sequence[Mapping[str, Any]] = ()
    """The data of the parents, as `status` and `tree` show it."""

    waiting: Mapping[str, str] = field(default_factory=dict)
    """The template folders that wait, with the reason."""

    errors: Sequence[str] = ()
    """The errors of templates that last, each with its file and line."""

    events: Sequence[Mapping[str, Any]] = ()
    """The Events on the shown objects, the oldest first."""

    log: Sequence[str] = ()
    """The newest lines of the operator's log, the oldest first."""

    cluster_note: str = ""
    """The remaining work of the cluster's start, empty if it is complete."""

    def rows(self, now: float) -> list[Row]:
        """The lines of the tree. `now` is in seconds since the epoch."""
        found = [Row(line, parent) for parent in self.parents for line in lines(parent, now)]
        found += [Row(Line.of_note(f"{name} waits: {reason}"), {}) for name, reason in self.waiting.items()]
        return found or [Row(Line.of_note("no parents yet"), {})]


class ScreenState(Struct, frozen=True, kw_only=True):
    """The user's choices."""

    selected: tuple[str, ...] = ()
    """The key of the selected row."""

    position: int = 0
    """The place of the selected row, for when it is gone."""

    notice: str = ""
    """The result of the last request."""

    pager: tuple[str, ...] | None = None
    """The lines of an opened diff or blame, None without any."""

    title: str = ""
    """The title of the opened text."""

    offset: int = 0
    """The first visible line of the opened text."""

    def at(self, rows: Sequence[Row]) -> int:
        """The place of the selected row."""
        places = (place for place, row in enumerate(rows) if row.key == self.selected)
        return next(places, min(self.position, len(rows) - 1))

    def opened(self, title: str, text: str) -> ScreenState:
        """The screen with a text instead of the tree."""
        return replace(self, pager=tuple(text.splitlines()) or ("(nothing)",), title=title, offset=0, notice="")


def on_key(state: ScreenState, key: str, rows: Sequence[Row], scene: Scene) -> tuple[ScreenState, KeyRequest | None]:
    """The screen after a key, and what the key asks for."""
    if state.pager is not None:
        if key in ("q", "escape", "enter"):
            return replace(state, pager=None), None
        offset = min(max(state.offset + _MOVES.get(key, 0), 0), len(state.pager) - 1)
        return replace(state, offset=offset), None
    if key in _MOVES:
        place = min(max(state.at(rows) + _MOVES[key], 0), len(rows) - 1)
        return replace(state, selected=rows[place].key, position=place, notice=""), None
    if key == "e":
        text = "\n".join(event_text(event) for event in reversed(scene.events))
        return state.opened("Errors and Events, newest first", "\n".join([*scene.errors, text])), None
    if key == "l":
        return state.opened("Log, newest first", "\n".join(reversed(scene.log))), None
    request = _REQUESTS.get(key)
    if request is not None and request is not KeyRequest.QUIT and not rows[state.at(rows)].parent:
        return replace(state, notice=f"select an object to {request}"), None
    return state, request


def draw(state: ScreenState, scene: Scene, rows: Sequence[Row], size: tuple[int, int]) -> list[Text]:
    """The lines of the screen: `size` is its width and height."""
    from rich.text import Text

    width, height = size
    if state.pager is not None:
        room = height - 2
        shown = [Text.from_ansi(line) for line in state.pager[state.offset : state.offset + room]]
        return _fitted([_bar(state.title, width), *shown], _bar(PAGER_KEYS, width), size)
    selected = state.at(rows)
    message = _wrapped(rows[selected].line.message or rows[selected].line.note, width)[:MESSAGE_LINES]
    remarks = _remarks(scene)
    head = [_bar(_title(scene), width), *([Text(scene.cluster_note, "yellow")] if scene.cluster_note else [])]
    height_left = height - 1 - len(head)
    free = max(height_left - MIN_TREE - (len(message) + 1 if message else 0), 0)
    remarks = remarks[-min(EVENT_LINES, max(free - 1, 0)) :] if free > 1 else []
    below = [_rule("", width), *(Text(line) for line in message)] if message else []
    below += [_rule("Errors and Events", width), *remarks] if remarks else []
    room = max(height_left - len(below), 1)
    first = max(min(selected - room // 2, len(rows) - room), 0)
    tree = [_row(row, place == selected, width) for place, row in enumerate(rows[first:], first)][:room]
    filled = [*tree, *([Text("")] * (room - len(tree))), *below]
    return _fitted([*head, *filled], _bar(state.notice or KEYS, width), size)


def _fitted(above: list[Text], last: Text, size: tuple[int, int]) -> list[Text]:
    """Exactly the lines of the screen, none wider than it."""
    from rich.text import Text

    width, height = size
    found = [*above[: height - 1], *([Text("")] * (height - 1 - len(above))), last]
    for line in found:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return found


def _title(scene: Scene) -> str:
    unready = sum((condition(parent, "Ready") or {}).get("status") != "True" for parent in scene.parents)
    count = len(scene.parents)
    state = f"{unready} not ready" if unready else "all ready" if count else "waiting"
    errors = f", {len(scene.errors)} template error{'s' if len(scene.errors) > 1 else ''}" if scene.errors else ""
    return f"ssa-operator dev: {count} parent{'' if count == 1 else 's'}, {state}{errors}"


def _row(row: Row, selected: bool, width: int) -> Text:
    found = row.line.text()
    if selected:
        found.pad_right(max(width - found.cell_len, 0))
        found.stylize("reverse")
    return found


def _bar(text: str, width: int) -> Text:
    from rich.text import Text

    return Text(text[:width].ljust(width), "bold reverse" if text in (KEYS, PAGER_KEYS) else "bold")


def _rule(title: str, width: int) -> Text:
    from rich.text import Text

    return Text((f"── {title} " if title else "").ljust(width, "─"), "dim")


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def _remarks(scene: Scene) -> list[Text]:
    """The newest Events, and after them the errors that last."""
    from rich.text import Text

    events = [Text(event_text(event), "yellow" if event.get("type") == "Warning" else "") for event in scene.events]
    return [*events[-EVENT_LINES:], *(Text(one_line(error), "red") for error in scene.errors)]


def event_text(event: Mapping[str, Any]) -> str:
    """An Event in one line: local time, reason, object and note."""
    regarding = event.get("regarding") or {}
    moment = moment_of(event_time(event))
    clock = moment.astimezone().strftime("%H:%M:%S") if moment is not None else "-"
    note = one_line(str(event.get("note", "")))
    return f"{clock} {event.get('reason', '')} {regarding.get('kind', '')}/{regarding.get('name', '')}: {note}"

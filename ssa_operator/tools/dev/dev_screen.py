"""The screen of `ssa-operator dev`: what the user has chosen, how a key changes it, and its lines.

Promises:
- A key changes the state of the screen, or names a request to the session. It, and drawing, change nothing else.
- The selected line stays the same object while others come and go, are filtered or folded. It is always visible.
- The screen has exactly the lines of the terminal, from 80x24 on: a title, the lines with KUBECONFIG and the address of
  the web view, the tree, the whole message of the selected line, errors and Events, and the keys. States and ages stand
  in columns.
- While the cluster is still starting, a line below the title says so. If the control plane is gone, the title says so.
- An error is shown once, with its file and line, as long as it lasts: not again as a message or an Event. Without
  errors the first warning of `check` is shown. The first of both is shown whole. Events are shown with the newest last.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.messages import counted
from ssa_operator.tools.dev.scene import Row, Scene, details, event_text, is_routine, most_telling, place_of
from ssa_operator.tools.tree.tree_view import (
    READY,
    Columns,
    Line,
    condition,
    group_of,
    name_of,
    one_line,
    totals,
    urgency,
)

KEYS = "↑↓ select  ⏎ details  / filter  n problem  e copy KUBECONFIG  ? keys  q quit"
PAGER_KEYS = "↑↓ scroll  q back"
FILTER_KEYS = "⏎ keep  esc show all"

HELP = """\
up, down, k, j    select a line, or scroll a text
page up, down     ten lines
home, end, g, G   the first line, the last line
enter             the whole text and details of the selected line
n, N              the next, the previous object that is not ready
/                 show only lines with a text; escape shows all again
left, right       fold, unfold what is below the selected line
f                 fold all parents, or unfold all
p                 pause the parent of the selected line, or resume it
r                 apply everything of this parent again
d                 a diff of this parent
b                 the blame of the selected child, or of all of the parent
v                 all errors and Events, the newest first
c                 the findings of check in the files as they were saved last
l                 the operator's log, the newest line first
e                 copy the line with KUBECONFIG for another terminal
w                 the web view in a browser; without a display, copy its address
?                 these keys
q                 close what is open, or quit"""


class KeyRequest(StrEnum):
    """A key's request to the session."""

    PAUSE = "pause"
    APPLY = "re-apply"
    DIFF = "diff"
    BLAME = "blame"
    COPY = "copy"
    PAGE = "open the web view"
    QUIT = "quit"


_REQUESTS = {
    "p": KeyRequest.PAUSE,
    "r": KeyRequest.APPLY,
    "d": KeyRequest.DIFF,
    "b": KeyRequest.BLAME,
    "e": KeyRequest.COPY,
    "w": KeyRequest.PAGE,
    "q": KeyRequest.QUIT,
}
_FAR = 10**6
_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, " ": 10}
_MOVES |= {"home": -_FAR, "g": -_FAR, "end": _FAR, "G": _FAR}


class ScreenState(Struct, frozen=True, kw_only=True):
    """The user's choices."""

    width: int = 80
    """The width of the terminal."""

    selected: tuple[str, ...] = ()
    """The key of the selected row."""

    position: int = 0
    """The place of the selected row, for when it is gone."""

    folded: frozenset[tuple[str, ...]] = frozenset()
    """The keys of the rows below which nothing is shown."""

    word: str = ""
    """Only lines with this text are shown, and those above them."""

    typing: bool = False
    """Whether keys change `word`."""

    notice: str = ""
    """The result of the last request."""

    pager: tuple[str, ...] | None = None
    """The lines of an opened text, None without any."""

    title: str = ""
    """The title of the opened text."""

    offset: int = 0
    """The first visible line of the opened text."""

    def shown(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that are neither filtered nor folded. There is at least one."""
        if self.word:
            return list(_with_word(rows, self.word)) or [Row(Line.of_note(f"no line has {self.word!r}"), {})]
        return list(_unfolded(rows, self.folded))

    def at(self, rows: Sequence[Row]) -> int:
        """The place of the selected row among the shown ones."""
        places = (place for place, row in enumerate(rows) if row.key == self.selected)
        return next(places, min(self.position, len(rows) - 1))

    def selecting(self, rows: Sequence[Row], place: int) -> ScreenState:
        """The screen with another selected row of the shown ones."""
        return replace(self, selected=rows[place].key, position=place, notice="")

    def opened(self, title: str, text: str) -> ScreenState:
        """The screen with a text instead of the tree."""
        found = tuple(part for line in text.splitlines() for part in _wrapped(line, self.width))
        return replace(self, pager=found or ("(nothing)",), title=title, offset=0, notice="")


def on_key(state: ScreenState, key: str, rows: Sequence[Row], scene: Scene) -> tuple[ScreenState, KeyRequest | None]:
    """The screen after a key, and what the key asks for. `rows` are all rows of the scene."""
    if state.pager is not None:
        if key in ("q", "escape", "enter"):
            return replace(state, pager=None), None
        offset = min(max(state.offset + _MOVES.get(key, 0), 0), len(state.pager) - 1)
        return replace(state, offset=offset), None
    if state.typing and (len(key) == 1 or key in ("backspace", "enter", "escape")):
        return _typed(state, key), None
    shown = state.shown(rows)
    place = state.at(shown)
    if key in _MOVES:
        return state.selecting(shown, min(max(place + _MOVES[key], 0), len(shown) - 1)), None
    if key in ("n", "N"):
        return _at_problem(state, shown, place, -1 if key == "N" else 1), None
    if key in ("left", "right", "f"):
        return _folded(state, rows, shown[place], key), None
    if key in ("/", "escape"):
        return replace(state, typing=key == "/", word=state.word if key == "/" else "", notice=""), None
    if (text := _text(key, shown[place], scene)) is not None:
        return state.opened(*text), None
    request = _REQUESTS.get(key)
    if request is KeyRequest.PAGE and not scene.page:
        return replace(state, notice="there is no web view, because --listen names no port"), None
    if request not in (None, KeyRequest.QUIT, KeyRequest.COPY, KeyRequest.PAGE) and not shown[place].parent:
        return replace(state, notice=f"select an object to {request}"), None
    return state, request


def _text(key: str, row: Row, scene: Scene) -> tuple[str, str] | None:
    """The title and text that a key opens."""
    match key:
        case "enter":
            return f"{row.line.kind} {row.line.name}".strip() or "Details", details(row, scene)
        case "v":
            newest = list(reversed(scene.events))
            events = map(event_text, sorted(newest, key=is_routine))
            return "Errors and Events, newest first", "\n".join([*scene.problems, *scene.warnings, *events])
        case "c":
            return "Findings of check", "\n".join(map(str, scene.findings))
        case "l":
            return "Log, newest first", "\n".join(reversed(scene.log))
        case "?":
            return "Keys", HELP
    return None


def _typed(state: ScreenState, key: str) -> ScreenState:
    if key == "backspace":
        return replace(state, word=state.word[:-1])
    if len(key) == 1:
        return replace(state, word=state.word + key)
    return replace(state, typing=False, word=state.word if key == "enter" else "")


def _at_problem(state: ScreenState, shown: Sequence[Row], place: int, step: int) -> ScreenState:
    """The screen with the next row that is a problem, from the last one on to the first one."""
    order = [(place + step * number) % len(shown) for number in range(1, len(shown) + 1)]
    found = next((each for each in order if shown[each].is_problem), None)
    return replace(state, notice="everything is ready") if found is None else state.selecting(shown, found)


def _folded(state: ScreenState, rows: Sequence[Row], row: Row, key: str) -> ScreenState:
    """The screen after a key that folds or unfolds: one row, or all parents."""
    if key == "right":
        return replace(state, folded=state.folded - {row.key})
    if key == "f":
        roots = frozenset(each.key for each in rows if each.line.depth == 0)
        return replace(state, folded=frozenset() if state.folded else roots)
    above = list(_above(rows, row))
    # A row with nothing below it folds the one above it.
    place = next((number for number, each in enumerate(rows) if each.key == row.key), len(rows))
    is_leaf = place + 1 >= len(rows) or rows[place + 1].line.depth <= row.line.depth
    target = above[-1] if above and (is_leaf or row.key in state.folded) else row
    return replace(state, folded=state.folded | {target.key}, selected=target.key)


def _above(rows: Sequence[Row], row: Row) -> Iterator[Row]:
    """The rows above a row in the tree, the root first."""
    path: list[Row] = []
    for each in rows:
        del path[each.line.depth :]
        if each.key == row.key:
            yield from path
            return
        path.append(each)


def _with_word(rows: Sequence[Row], word: str) -> Iterator[Row]:
    """The rows with a word, in any case of its letters, and those above them."""
    path: list[tuple[int, Row]] = []
    given = -1
    for place, row in enumerate(rows):
        del path[row.line.depth :]
        path.append((place, row))
        if word.casefold() in str(row.line).casefold():
            yield from (each for number, each in path if number > given)
            given = place


def _unfolded(rows: Sequence[Row], folded: frozenset[tuple[str, ...]]) -> Iterator[Row]:
    """The rows that are not below a folded one. A folded one has the number of those below it."""
    above: Row | None = None
    hidden = 0
    for row in rows:
        if above is not None and row.line.depth > above.line.depth:
            hidden += 1
            continue
        if above is not None:
            yield replace(above, hidden=hidden)
        above, hidden = (row, 0) if row.key in folded else (None, 0)
        if above is None:
            yield row
    if above is not None:
        yield replace(above, hidden=hidden)


def _wrapped(line: str, width: int) -> list[str]:
    """A line in the width of the screen. One with colours is a command's, which knows the width."""
    if len(line) <= width or "\x1b" in line:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, width, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


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

"""The keys of the screen of `dev`: what the user has chosen, and how a key changes it.

Promises:
- A key changes the state of the screen, or names a request to the session. It changes nothing else.
- The selected line stays the same object while others come and go, are filtered or folded.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.tools.dev.scene import Row, Scene, details, event_text, is_routine
from ssa_operator.tools.tree.tree_view import Line

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

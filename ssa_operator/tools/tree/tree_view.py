"""Draws a parent and the objects below it as lines of text.

Promises:
- The lines show states, reasons and messages exactly as the parent's status has them, the age of each object, and since
  when an object is not ready.
- If the status has no condition Ready, the parent's line has the number of Current children.
- A suspended parent says so, and keeps the state of its children. A parent of a folder with rollouts has its revision.
- A line is one object. Colours are styles beside the text, so the text is the same with and without them. In a
  terminal, states and ages stand in columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import counted
from ssa_operator.objects.scalars import age

if TYPE_CHECKING:
    from rich.text import Text

    from ssa_operator.reconcile.status.report import Report

COLOURS = {
    "Current": "green",
    "True": "green",
    "InProgress": "yellow",
    "Waiting": "yellow",
    "False": "yellow",
    "Terminating": "magenta",
    "Failed": "red",
    "NotFound": "red",
}


class Line(Struct, frozen=True, kw_only=True):
    """One object: its place in the tree, its name, and its state."""

    guides: str = ""
    """The lines of the tree before it."""

    kind: str = ""
    name: str = ""
    state: str = ""
    colour: str = ""
    times: str = ""
    """Its age and restarts; of a note, how long ago it was true."""

    message: str = ""

    duration: str = ""
    """For how long it has not been ready."""

    note: str = ""
    """A remark instead of an object."""

    @classmethod
    def of_note(cls, note: str, guides: str = "", times: str = "") -> Line:
        return cls(note=one_line(note), guides=guides, times=times)

    @property
    def segments(self) -> list[tuple[str, str]]:
        """The parts of the line, each with its style."""
        if self.note:
            return [(self.guides, ""), (self.note, "dim"), (f" ({self.times} ago)" if self.times else "", "dim")]
        parts = [(self.guides, ""), (f"{self.kind} ", "bold"), (f"{self.name}  ", ""), (self.state, self.colour)]
        parts += [(f"  {self.times}", "")] if self.times else []
        words = " ".join(filter(None, (self.message, f"(for {self.duration})" if self.duration else "")))
        return [*parts, (f"  {words}", "dim")] if words else parts

    @property
    def change(self) -> tuple[str, ...]:
        """The parts of the line that don't depend on the clock. If they differ, the object has changed."""
        return (self.kind, self.name, self.state, self.message, self.note)

    @property
    def depth(self) -> int:
        """How many objects it is below the root of the tree."""
        return len(self.guides) // 4

    @property
    def unindented(self) -> str:
        """The line without its place in the tree."""
        return "".join(text for text, _ in self.segments[1:])

    def __str__(self) -> str:
        return "".join(text for text, _ in self.segments)

    def text(self) -> Text:
        """The line with its styles."""
        from rich.text import Text

        return Text.assemble(*self.segments, no_wrap=True, overflow="ellipsis")


class Columns(Struct, frozen=True):
    """The columns in which a terminal shows the lines of trees."""

    name: int
    state: int
    age: int

    @classmethod
    def of(cls, lines: Sequence[Line], width: int) -> Columns:
        """The columns that fit the lines; a long name takes at most half of the terminal's width."""
        lines = [line for line in lines if not line.note]
        names = (len(f"{line.guides}{line.kind} {line.name}") for line in lines)
        ages = (len(line.times.partition("  ")[0]) for line in lines)
        return cls(
            min(max(names, default=0), width // 2),
            min(max((len(line.state) for line in lines), default=0), width // 4),
            max(ages, default=0),
        )

    def text(self, line: Line) -> Text:
        """A line with its styles, whose state, age and message begin in these columns."""
        if line.note:
            return line.text()
        from rich.text import Text

        created, _, restarts = line.times.partition("  ")
        since = f"(for {line.duration})" if line.duration else ""
        found = Text.assemble(
            (line.guides, ""), (f"{line.kind} ", "bold"), (line.name, ""), no_wrap=True, overflow="ellipsis"
        )
        ages = self.name + self.state + 2
        for text, style, column in ((line.state, line.colour, self.name), (created, "", ages)):
            found.append(" " * max(column - found.cell_len, 0) + "  ")
            found.append(text, style)
        found.append(" " * max(ages + self.age + 2 - found.cell_len, 0))
        found.append("".join(f"  {words}" for words in (restarts, line.message, since) if words), "dim")
        found.rstrip()
        return found


def entry(live: LiveObject, status: Mapping[str, Any]) -> dict[str, Any]:
    """The data of one parent for the tree and for `--output json`."""
    return {
        **asdict(live.identity),
        "uid": live.uid,
        "creationTimestamp": live.metadata.creation_timestamp,
        "conditions": status.get("conditions", []),
        "resources": list(status.get("resources", ())),
    }


def reported_entry(live: LiveObject, report: Report | None) -> dict[str, Any]:
    """The data of a parent by the report of its last reconcile, None if there was none."""
    return entry(live, {} if report is None else report.status)


def walk(objects: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The data of some objects and of all below them."""
    for each in objects:
        yield each
        yield from walk((*each.get("resources", ()), *each.get("objects", ())))


def name_of(named: Mapping[str, Any]) -> str:
    """The name of an object with its namespace, if it has one."""
    return f"{named['namespace']}/{named['name']}" if named.get("namespace") else str(named["name"])


def one_line(text: str) -> str:
    """A text from the cluster as one line that moves no cursor: with blanks for line ends and control characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def condition(parent: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The condition of a type in a parent's data, None without one."""
    return next((each for each in parent["conditions"] if each.get("type") == kind), None)


def not_ready_since(parent: Mapping[str, Any]) -> str | None:
    """Since when a parent is not ready, by its condition Ready; None if it is ready or has no such condition."""
    ready = condition(parent, "Ready")
    if ready is None or ready.get("status") == "True":
        return None
    time = ready.get("lastTransitionTime")
    return time if isinstance(time, str) else None


READY, WORKING, FAILED, UNKNOWN = "ready", "working", "failed", "unknown"
"""The groups of parents: Ready, may become ready by itself, needs a change, not reported yet."""


def group_of(parent: Mapping[str, Any]) -> str:
    """READY, WORKING, FAILED or UNKNOWN."""
    ready = condition(parent, "Ready")
    if ready is not None and ready.get("status") == "True":
        return READY
    return FAILED if condition(parent, "Stalled") is not None else WORKING if ready else UNKNOWN


def has_conflict(parent: Mapping[str, Any]) -> bool:
    """Whether another field manager changes what its templates write, or its status."""
    ready = condition(parent, "Ready") or {}
    return ready.get("reason") == "Conflict" or condition(parent, "Conflict") is not None


def searched_text(parent: Mapping[str, Any]) -> str:
    """The text that a search looks at, in small letters."""
    ready = condition(parent, "Ready") or {}
    message = "" if ready.get("status") == "True" else str(ready.get("message", ""))
    named = f"{parent['kind']} {parent['namespace']}/{parent['name']}"
    return f"{named} {ready.get('reason', 'Unknown')} {message}".lower()


def urgency(parent: Mapping[str, Any]) -> tuple[Any, ...]:
    """The sort key of a parent: first those that need a change, then those that may become ready, then the others."""
    ready, states = condition(parent, "Ready"), {child.get("state") for child in parent["resources"]}
    if ready is None:
        rank = 1 if "Failed" in states else 2 if states != {"Current"} else 4
    elif ready.get("status") == "True":
        rank = 4
    elif condition(parent, "Stalled") is not None:
        rank = 0
    else:
        rank = 1 if "Failed" in states else 3
    return rank, parent["kind"], parent.get("group", ""), parent["namespace"], parent["name"]


def lines(parent: Mapping[str, Any], now: float, *, wide: bool = False) -> Iterator[Line]:
    """The lines of one parent's `entry`. `now` is in seconds since the epoch. `wide` lines have API groups, and the
    messages of ready parents.
    """
    if wide:
        parent = _with_groups(parent)
    children, notes = parent["resources"], [(note, "") for note in parent.get("notes", ())]
    if event := parent.get("event"):
        notes.insert(0, (f"last Event: {event['reason']}: {event['note']}", age(event["time"], now)))
    ready = condition(parent, "Ready")
    if ready is not None:
        state, colour = str(ready.get("reason", "Unknown")), str(ready.get("status"))
        message = "" if ready.get("status") == "True" and not wide else str(ready.get("message", ""))
    elif "state" in parent:
        state, colour, message = _shown_state(parent), parent["state"], parent.get("message", "")
    else:
        (state, colour), message = _summary(children), ""
    if condition(parent, "Suspended") is not None:
        state += ", suspended"
    if parent.get("revision"):
        state += f", revision {parent['revision']}"
    yield _line("", parent, (state, colour), message, now, not_ready_since(parent) or parent.get("since"))
    yield from _below("", children, now, more=bool(notes))
    for number, (note, ago) in enumerate(notes, 1):
        yield Line.of_note(note, "└── " if number == len(notes) else "├── ", ago)


def _with_groups(named: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an object and of those below it, with kinds as kubectl names them: `Deployment.apps`."""
    below = {name: [_with_groups(each) for each in named[name]] for name in ("resources", "objects") if name in named}
    kind = f"{named['kind']}.{named['group']}" if named.get("group") else named["kind"]
    return {**named, **below, "kind": kind}


def totals(parents: Sequence[Mapping[str, Any]]) -> str:
    """How many parents there are, by the reason of their condition Ready: `3 parents: 1 RenderFailed, 2 Ready`."""
    reasons = Counter(
        str(ready.get("reason", "Unknown")) if (ready := condition(parent, "Ready")) else "Unknown"
        for parent in parents
    )
    ordered = sorted(reasons.items(), key=lambda each: (each[0] == "Ready", each[0]))
    return f"{counted(len(parents), 'parent')}: " + ", ".join(f"{count} {reason}" for reason, count in ordered)


def _below(guides: str, objects: Sequence[Mapping[str, Any]], now: float, *, more: bool = False) -> Iterator[Line]:
    """The lines of some objects and of those below them; `more` lines of the same level follow."""
    for number, each in enumerate(objects, 1):
        last = number == len(objects) and not more
        state = str(each.get("state", ""))
        colours = (_shown_state(each), state)
        yield _line(
            guides + ("└── " if last else "├── "), each, colours, str(each.get("message", "")), now, each.get("since")
        )
        yield from _below(guides + ("    " if last else "│   "), each.get("objects", ()), now)


def _shown_state(each: Mapping[str, Any]) -> str:
    """The state of an object. kubectl calls a pod Ready or Completed, not Current."""
    if each["kind"] != "Pod" or each.get("state") != "Current":
        return str(each.get("state", ""))
    return "Completed" if each.get("phase") == "Succeeded" else "Ready"


def _line(
    guides: str,
    named: Mapping[str, Any],
    state: tuple[str, str],
    message: str,
    now: float,
    since: str | None,
) -> Line:
    """`Kind namespace/name  State  age  message (for duration)`, without an age if there is no creationTimestamp."""
    created, restarted = named.get("creationTimestamp"), named.get("restarts")
    times = [age(created, now)] if created else []
    if restarted:
        last = f" ({age(named['restartedAt'], now)} ago)" if named.get("restartedAt") else ""
        times.append(f"{restarted} restart{'s' if restarted > 1 else ''}{last}")
    return Line(
        guides=guides,
        kind=named["kind"],
        name=name_of(named),
        state=state[0],
        colour=COLOURS.get(state[1], ""),
        times="  ".join(times),
        message=one_line(message),
        duration=age(since, now) if since else "",
    )


def _summary(children: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The number of Current children, and the colour of the text."""
    states = [child.get("state") for child in children]
    if not states:
        return "Unknown", "False"
    current = states.count("Current")
    failed = "Failed" in states
    return f"{current} of {len(states)} Current", "Failed" if failed else str(current == len(states))

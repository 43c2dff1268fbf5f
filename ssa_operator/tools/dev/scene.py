"""What the screen of `dev` shows at one moment, as values.

Promises:
- Parents come in the order of `status`: those that need a change first.
- An error is one error, however many parents, Events and findings of `check` name the same line of a file. If `check`
  has found it, it has the words of `check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ssa_operator.objects.scalars import moment_of
from ssa_operator.tools.tree.parent_events import event_time
from ssa_operator.tools.tree.tree_view import Line, condition, lines, one_line

_PLACE = re.compile(r"([\w.-]+/)?[\w.-]+\.(?:j2|ya?ml):\d+")


class Row(Struct, frozen=True):
    """A line of the tree, and the parent that it belongs to."""

    line: Line
    parent: Mapping[str, Any]

    hidden: int = 0
    """How many lines below it are folded."""

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the row while its object lasts."""
        return (str(self.parent.get("uid", "")), self.line.kind, self.line.name, self.line.note)

    @property
    def is_child(self) -> bool:
        """Whether it is a child of the parent, and not the parent or an object further below."""
        return self.line.depth == 1 and not self.line.note

    @property
    def is_problem(self) -> bool:
        """Whether it is an object that is not ready, or a folder that waits."""
        return self.line.colour not in ("", "green") or (not self.parent and " waits: " in self.line.note)

    @property
    def suspended(self) -> bool:
        """Whether the parent is suspended."""
        return condition(self.parent, "Suspended") is not None

    @property
    def object(self) -> Mapping[str, Any]:
        """The data of the object, empty for a note."""
        found = (each for each in _objects([self.parent]) if self.parent and _names(each) == self.line_names)
        return next(found, {})

    @property
    def line_names(self) -> tuple[str, str]:
        """The kind and name of the line."""
        return self.line.kind, self.line.name


def _names(each: Mapping[str, Any]) -> tuple[str, str]:
    name = f"{each['namespace']}/{each['name']}" if each.get("namespace") else each["name"]
    return each["kind"], name


def _objects(objects: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Some objects and all below them."""
    for each in objects:
        yield each
        yield from _objects((*each.get("resources", ()), *each.get("objects", ())))


class CheckFinding(Struct, frozen=True, kw_only=True):
    """A finding of `check`."""

    severity: str
    message: str
    code: str = ""
    file: str | None = None
    line: int | None = None
    fix: str = ""
    """What to write instead, '' if there is no single answer."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file else ""
        fix = f"; {self.fix}" if self.fix else ""
        return f"{place}{self.severity}: {self.message}{fix} [{self.code}]"


class Scene(Struct, frozen=True, kw_only=True):
    """The data to show at one moment."""

    parents: Sequence[Mapping[str, Any]] = ()
    """The data of the parents, as `status` and `tree` show it."""

    waiting: Mapping[str, str] = field(default_factory=dict)
    """The template folders that wait, with the reason."""

    errors: Sequence[str] = ()
    """The errors that last of templates, CRDs and examples, each with its file and line."""

    findings: Sequence[CheckFinding] = ()
    """The findings of `check` in the files as they were saved last."""

    events: Sequence[Mapping[str, Any]] = ()
    """The Events on the shown objects, the oldest first."""

    log: Sequence[str] = ()
    """The newest lines of the operator's log, the oldest first."""

    kubeconfig: str = ""
    """The command that makes other terminals use the cluster."""

    cluster_note: str = ""
    """The remaining work of the cluster's start, empty if it is complete."""

    outage: str = ""
    """Why the control plane is gone or does not answer, empty if it does."""

    @property
    def problems(self) -> list[str]:
        """The errors, those of `check` included, each once. The words of `check` win, because they say what to do."""
        return distinct([*self._found_errors, *self.errors])

    @property
    def warnings(self) -> list[str]:
        """The warnings of `check`."""
        return [str(each) for each in self.findings if each.severity != "error"]

    def explained(self, message: str) -> str:
        """A message in the words of `check` where it has an error in the same line of a file."""
        place = place_of(message)
        return next((each for each in self._found_errors if place_of(each) == place), message)

    @property
    def _found_errors(self) -> list[str]:
        return [str(each) for each in self.findings if each.severity == "error"]

    def rows(self, now: float) -> list[Row]:
        """The lines of the tree. `now` is in seconds since the epoch."""
        found = [Row(line, parent) for parent in self.parents for line in lines(parent, now)]
        found += [Row(Line.of_note(f"{name} waits: {reason}"), {}) for name, reason in self.waiting.items()]
        return found or [Row(Line.of_note("no parents yet"), {})]


def place_of(text: str) -> str:
    """The first file and line that a text names, by which errors are the same; the text if it names none."""
    # A finding of `check` begins with the templates folder, which the operator's own errors leave out.
    words = ("/".join(word.strip("():,;").split("/")[-2:]) for word in text.split())
    return next((word for word in words if _PLACE.fullmatch(word)), text)


def distinct(errors: Iterable[str]) -> list[str]:
    """The errors without those that name the same line as an earlier one."""
    found: dict[str, str] = {}
    for error in errors:
        found.setdefault(place_of(error), error)
    return list(found.values())


def event_text(event: Mapping[str, Any]) -> str:
    """An Event in one line: local time, reason, object and note."""
    regarding = event.get("regarding") or {}
    moment = moment_of(event_time(event))
    clock = moment.astimezone().strftime("%H:%M:%S") if moment is not None else "-"
    note = one_line(str(event.get("note", "")))
    return f"{clock} {event.get('reason', '')} {regarding.get('kind', '')}/{regarding.get('name', '')}: {note}"


def details(row: Row, scene: Scene) -> str:
    """All that is known of a row: its state, its whole message, its conditions and its Events, the newest first."""
    line, each = row.line, row.object
    if line.note:
        return line.note
    found = [f"{line.kind} {line.name}", "", f"state: {line.state}"]
    found += [f"age: {line.times}"] if line.times else []
    found += [f"not ready for: {line.duration}"] if line.duration else []
    found += [f"message: {line.message}"] if line.message else []
    shown = ("kind", "name", "namespace", "state", "message", "creationTimestamp", "since")
    found += [f"{key}: {value}" for key, value in each.items() if key not in shown and _is_scalar(value)]
    for each_condition in each.get("conditions", ()):
        words = [f"{each_condition.get('type')}={each_condition.get('status')}", str(each_condition.get("reason", ""))]
        found.append(f"condition {' '.join(filter(None, words))}: {one_line(str(each_condition.get('message', '')))}")
    uid = each.get("uid")
    events = [event_text(event) for event in scene.events if uid and (event.get("regarding") or {}).get("uid") == uid]
    return "\n".join([*found, *(["", "Events, newest first", *reversed(events)] if events else [])])


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""

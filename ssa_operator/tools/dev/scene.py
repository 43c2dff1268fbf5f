"""What the screen of `dev` shows at one moment, and reads it: reports, Events, and the findings of `check`.

Promises:
- Parents come in the order of `status`: those that need a change first.
- An error is one error, however many parents, Events and findings of `check` name the same line of a file. If `check`
  has found it, it has the words of `check`, which is a process of its own and has checked the last state of the files.
- The tree has the operator's own reports, not a second reading of the status. The objects below children and the Events
  come from watches.
- While the control plane is gone or does not answer, the scene says so, and has what was read last. Errors that follow
  from that are left out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.identity import read_identity
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.scalars import moment_of
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.status.event_requests import EVENTS
from ssa_operator.rendering.folder.hot_reload import changes
from ssa_operator.tools.command_target import NAME
from ssa_operator.tools.dev.dev_cluster import LocalCluster, ProjectFiles
from ssa_operator.tools.tree.listings import Watches
from ssa_operator.tools.tree.object_history import ObjectEvent
from ssa_operator.tools.tree.object_tree import owned_objects, owners_of, with_objects
from ssa_operator.tools.tree.parent_entries import with_children
from ssa_operator.tools.tree.tree_view import Line, condition, lines, name_of, one_line, reported_entry, urgency, walk

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
        objects = walk([self.parent]) if self.parent else ()
        names = self.line.kind, self.line.name
        return next((each for each in objects if (each["kind"], name_of(each)) == names), {})


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

    refused_crds: Mapping[str, str] = field(default_factory=dict)
    """Why CRDs are not applied, by their names, each with its file and line."""

    findings: Sequence[CheckFinding] = ()
    """The findings of `check` in the files as they were saved last."""

    events: Sequence[ObjectEvent] = ()
    """The Events on the shown objects, the oldest first."""

    log: Sequence[str] = ()
    """The newest lines of the operator's log, the oldest first."""

    kubeconfig: str = ""
    """The command that makes other terminals use the cluster."""

    page: str = ""
    """The address of the web view, empty without one."""

    cluster_note: str = ""
    """The remaining work of the cluster's start, empty if it is complete."""

    outage: str = ""
    """Why the control plane is gone or does not answer, empty if it does."""

    @property
    def problems(self) -> list[str]:
        """The errors, those of `check` included, each once. The words of `check` win, because they say what to do."""
        found = self._found_errors
        # A CRD's refusal names another line than `check`, or none.
        refused = [
            text for name, text in self.refused_crds.items() if not any(f"CRD {name}: " in each for each in found)
        ]
        return distinct([*found, *refused, *self.errors])

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


def event_text(event: ObjectEvent) -> str:
    """An Event in one line: local time, reason, object and note."""
    moment = moment_of(event.time)
    clock = moment.astimezone().strftime("%H:%M:%S") if moment is not None else "-"
    return f"{clock} {event.reason} {event.object}: {one_line(event.note)}"


def is_routine(event: ObjectEvent) -> bool:
    """Whether Kubernetes reports with it that something went as always."""
    return event.type != "Warning" and event.reporter != MANAGER


def most_telling(events: Sequence[ObjectEvent], most: int) -> list[ObjectEvent]:
    """The newest Events, the oldest first: the operator's own and Warnings, and where there is room, routine ones."""
    ranked = sorted(events, key=lambda each: (not is_routine(each), each.time))
    return sorted(ranked[max(len(ranked) - most, 0) :], key=lambda each: each.time)


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
    events = [event_text(event) for event in scene.events if uid and event.uid == uid]
    return "\n".join([*found, *(["", "Events, newest first", *reversed(events)] if events else [])])


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


EVENTS_LIMIT = 200
"""The most Events on the screen's list."""

TEMPLATE_ERRORS = frozenset({"RenderFailed", "InvalidManifest", "ApplyFailed", "Conflict", "DependencyCycle"})
"""The reasons of Ready whose message has a place in a template."""


@asynccontextmanager
async def scene_reader(
    operator: Operator, client: Client, cluster: LocalCluster, project: ProjectFiles, checks: SavedChecks
) -> AsyncIterator[SceneReader]:
    """A reader, whose watches end with the block."""
    async with Watches(client) as watches:
        yield SceneReader(operator, cluster, project, checks, watches, RESTMapper(client))


@dataclass(slots=True)
class SceneReader:
    """Reads scenes one after the other."""

    operator: Operator
    cluster: LocalCluster
    project: ProjectFiles
    checks: SavedChecks
    _watches: Watches
    _mapper: RESTMapper
    _last: Scene = dataclasses.field(default_factory=Scene)

    async def read(self, log: Sequence[str]) -> Scene:
        """The data to show now; `log` are the newest lines of the log."""
        outage = self.cluster.outage
        if not outage:
            try:
                self._last = await self._read(time.time())
            except ApiError as error:
                outage = str(error)
            outage = outage or next(iter(self._watches.problems), "")
        return replace(
            self._last,
            findings=self.checks.findings,
            log=log,
            kubeconfig=self.cluster.kubeconfig_command,
            cluster_note=self.cluster.note,
            outage=outage,
        )

    async def _read(self, now: float) -> Scene:
        parents = [with_children(parent, self._live, now) for parent in parent_entries(self.operator)]
        async with self._watches.round():
            owners = [owner for parent in parents for owner in owners_of(parent["resources"])]
            below = await owned_objects(self._watches, self._mapper, owners, now)
            found = (await self._watches.read([Scope(EVENTS)]))[Scope(EVENTS)].objects
        parents = [with_objects(parent, below) for parent in parents]
        shown = {each.get("uid") for each in walk(parents)} - {None, ""}
        events = [event for event in (ObjectEvent.of(each.body) for each in found) if event.uid in shown]
        return Scene(
            parents=sorted(parents, key=urgency),
            waiting=dict(self.operator.missing),
            errors=tuple(self._errors(parents)),
            refused_crds=dict(self.operator.controllers.refused_crds),
            events=most_telling(events, EVENTS_LIMIT),
        )

    def _live(self, child: Mapping[str, Any]) -> LiveObject | None:
        """A child in the operator's own caches."""
        identity = read_identity(child)
        return None if identity is None else self.operator.controllers.children.get(identity)

    def _errors(self, parents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The errors that last, each once."""
        found = dict.fromkeys(problem.text for problem in self.project.problems)
        for informer in self.operator.folders.values():
            found |= dict.fromkeys(map(str, informer.folder.problems))
        for parent in parents:
            ready = condition(parent, "Ready") or {}
            if ready.get("reason") in TEMPLATE_ERRORS:
                found[str(ready.get("message"))] = None
        yield from found


def parent_entries(operator: Operator) -> list[dict[str, Any]]:
    """The data of all parents by the operator's last reports, as `status` shows them."""
    return [
        reported_entry(live, informer.state(live).status.report)
        for informer in operator.folders.values()
        for live in informer
    ]


log = logging.getLogger("ssa_operator")


async def command_output(
    arguments: Sequence[str], *, together: bool = False, environment: Mapping[str, str] | None = None
) -> tuple[bytes, bytes]:
    """Run a command of the operator as a process, and return what it wrote to standard output and error, or all as
    output.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ssa_operator", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT if together else asyncio.subprocess.PIPE, env=environment,
    )  # fmt: skip
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out, err or b""


class SavedChecks:
    """The findings of `check`, which asks the local cluster called `cluster`."""

    def __init__(
        self,
        cluster: str,
        templates: Sequence[Path],
        values: Sequence[Path],
        crds: Sequence[Path],
        examples: Sequence[Path],
    ) -> None:
        self.findings: Sequence[CheckFinding] = ()
        self._environment = {**os.environ, NAME: cluster}
        paths = dict.fromkeys((*templates, *crds, *examples, *values))
        self._folders = [path for path in paths if not path.is_file()]
        self._files = [path for path in paths if path.is_file()]
        self._arguments = [
            *(f"--templates={path}" for path in templates),
            *(f"--values={path}" for path in values),
            *(f"--crds={path}" for path in crds if path.exists()),
            *(f"--examples={path}" for path in examples if path.exists()),
        ]

    async def follow(self) -> None:
        """Check now and after each change, until cancelled."""
        async for _ in changes(self._folders, self._files):
            await self._check()

    async def _check(self) -> None:
        out, err = await command_output(["check", "--output=json", *self._arguments], environment=self._environment)
        try:
            self.findings = msgspec.json.decode(out, type=list[CheckFinding])
        except msgspec.DecodeError:
            self.findings = ()
            log.warning("the project can't be checked: %s", err.decode(errors="replace").strip())

"""What disturbs one run of a story, and the operator's client that it disturbs.

Promises:
- A crashed process sends no request from its crash on. Its last write has reached the API server or not, as chosen.
- A watch that is behind shows each event in its order when it catches up, as an API server does. Only an event that is
  not observed is left out, with all before the one that takes its place, as in a list.
- An old view is what the API server really had at an older resourceVersion.
"""

from __future__ import annotations

import asyncio
import enum
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, ErrorStatus, Unreachable
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.transport import Response, Transport
from tests.operator.lagging_client import last_of_each, read_lines
from tests.perturbations.history import normalized


class Kind(enum.Enum):
    """The kinds of perturbations, in Sieve's words."""

    CRASH = "crash"
    STALE = "stale view"
    UNOBSERVED = "unobserved state"


@dataclass(frozen=True, slots=True, order=True)
class WritePoint:
    """One write of a run."""

    step: int
    request: str
    """Its verb and path."""
    number: int
    """Which one of the same requests of this step it is, from 1."""

    def __str__(self) -> str:
        return f"write {self.number} of {self.request} in step {self.step}"


@dataclass(frozen=True, slots=True, order=True)
class EventPoint:
    """One event of a watch."""

    step: int
    resource: str
    name: str
    number: int
    """Which one of the object's events in this step it is, from 1."""

    def __str__(self) -> str:
        return f"event {self.number} of {self.resource} {self.name} in step {self.step}"


@dataclass(frozen=True, slots=True)
class Crash:
    """The process dies at a write, before the request is sent or after the API server has carried it out."""

    at: WritePoint
    after: bool

    def __str__(self) -> str:
        return f"crash {'after' if self.after else 'before'} {self.at}"


@dataclass(frozen=True, slots=True)
class Late:
    """A watch withholds everything from an event on until the operator has nothing more to do without it."""

    at: EventPoint

    def __str__(self) -> str:
        return f"from {self.at} on nothing is observed until the operator is idle"


@dataclass(frozen=True, slots=True)
class Unobserved:
    """A watch withholds an event until the next one of the object, which takes its place; at most until the operator
    is idle.
    """

    at: EventPoint

    def __str__(self) -> str:
        return f"{self.at} is not observed"


@dataclass(frozen=True, slots=True)
class Lag:
    """The watches of a resource (all: '') show no event of a step until the operator is idle."""

    step: int
    resource: str

    def __str__(self) -> str:
        return f"{self.resource or 'every watch'} lags in step {self.step}"


@dataclass(frozen=True, slots=True)
class OldView:
    """After a step the operator restarts, and lists a resource (all: '') as it was before the step."""

    step: int
    resource: str

    def __str__(self) -> str:
        return f"restart after step {self.step}, {self.resource or 'every list'} as before it"


Perturbation = Crash | Late | Unobserved | Lag | OldView


class Process:
    """The state of one operator process."""

    def __init__(self) -> None:
        self.dead = asyncio.Event()


@dataclass(slots=True)
class Disturbance:
    """A perturbation while a run goes on, and what the run does that others can be perturbed at."""

    namespace: str
    perturbation: Perturbation | None = None
    step: int = 0
    played: bool = False
    """Whether the run came to the point of the perturbation."""
    writes: list[WritePoint] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """The subjects of all requests but those for a Lease, in their order."""
    events: list[EventPoint] = field(default_factory=list)
    old_versions: dict[str, str] = field(default_factory=dict)
    """The resourceVersions at which lists of resources are answered now, by resource."""
    current: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no watch is behind."""
    _behind: set[str] = field(default_factory=set)
    _seen: Counter[tuple[object, ...]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.current.set()

    def hold(self, *resources: str) -> None:
        """Withhold the events of these resources ('' are all) until `release`."""
        self._behind |= {*resources}
        self.current.clear()

    def release(self) -> None:
        self._behind.clear()
        self.old_versions.clear()
        self.current.set()

    def is_behind(self, resource: str) -> bool:
        return not self.current.is_set() and bool({resource, ""} & self._behind)

    def crashes_at(self, request: Request) -> bool | None:
        """Whether the process dies before this write (False) or after it (True); None if it goes on."""
        subject = f"{request.verb} {normalized(request.path, self.namespace)}"
        self._seen[self.step, subject] += 1
        point = WritePoint(self.step, subject, self._seen[self.step, subject])
        self.writes.append(point)
        if isinstance(self.perturbation, Crash) and self.perturbation.at == point and not self.played:
            self.played = True
            return self.perturbation.after
        return None

    def observe(self, resource: str, name: str, stream: object) -> bool:
        """Count an event of a watch. Returns whether the watch withholds it, and what follows."""
        name = normalized(name, self.namespace)
        self._seen[self.step, resource, name, stream] += 1
        point = EventPoint(self.step, resource, name, self._seen[self.step, resource, name, stream])
        if point not in self.events:
            self.events.append(point)
        match self.perturbation:
            case Late(at) | Unobserved(at) if at == point and not self.played:
                self.played = True
                self.hold(resource)
            case Unobserved(at) if self.played and (at.resource, at.name) == (resource, name) and at != point:
                self.release()
        return self.is_behind(resource)


class PerturbedClient(Client):
    """The client of one operator process."""

    disturbance: Disturbance
    process: Process

    async def send(self, request: Request) -> Response:
        await _alive(self.process, request)
        if "/leases" not in request.path:
            self.disturbance.requests.append(request.subject)
        if request.changes_cluster and "/events" not in request.path and "/leases" not in request.path:
            after = self.disturbance.crashes_at(request)
            if after is not None:
                if after:
                    await super().send(request)
                self.process.dead.set()
                await asyncio.Event().wait()
        response = await super().send(self._in_the_past(request))
        await _alive(self.process, request)
        return response

    def _in_the_past(self, request: Request) -> Request:
        version = self.disturbance.old_versions.get(request.resource_name)
        if version is None or request.verb != "list" or ("limit", "1") in request.query:
            return request
        query = tuple(pair for pair in request.query if pair[0] not in ("resourceVersion", "resourceVersionMatch"))
        if not any(name == "continue" for name, _ in query):
            query += (("resourceVersion", version), ("resourceVersionMatch", "Exact"))
        return replace(request, query=query)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await _alive(self.process, request)
        resource = request.resource_name
        if resource in self.disturbance.old_versions and ("sendInitialEvents", "true") in request.query:
            message = "an old view can't be streamed"
            raise ApiError(request.subject, ErrorStatus(code=422, reason="Invalid", message=message))
        async with super().stream(request) as pieces:
            lines: asyncio.Queue[bytes] = asyncio.Queue()
            reading = asyncio.create_task(read_lines(pieces, lines))
            try:
                yield self._shown(resource, lines, object())
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _shown(self, resource: str, lines: asyncio.Queue[bytes], stream: object) -> AsyncIterator[bytes]:
        """The events as the operator observes them."""
        disturbance = self.disturbance
        withheld: list[bytes] = []
        while True:
            if withheld and not disturbance.is_behind(resource):
                is_unobserved = isinstance(disturbance.perturbation, Unobserved)
                shown = last_of_each(withheld) if is_unobserved else withheld
                yield b"".join(line + b"\n" for line in shown)
                withheld.clear()
            line = await _next(lines, disturbance.current if withheld else None)
            if line is None:
                continue
            if not line:
                return
            behind = disturbance.is_behind(resource)
            if name := self._name(line):
                behind = disturbance.observe(resource, name, stream)
            if behind or withheld:
                withheld.append(line)
            else:
                yield line + b"\n"

    def _name(self, line: bytes) -> str:
        """The name of the object of an event of this run, '' for all others."""
        event = json.loads(line)
        metadata: dict[str, Any] = event["object"].get("metadata", {})
        name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace", ""))
        is_event = event["type"] in ("ADDED", "MODIFIED", "DELETED")
        return name if is_event and self.disturbance.namespace in f"{namespace} {name}" else ""


class MortalTransport(Transport):
    """The connections for the Lease of one operator process."""

    process: Process

    async def send(self, request: Request) -> Response:
        await _alive(self.process, request)
        return await super().send(request)


async def _alive(process: Process, request: Request) -> None:
    if process.dead.is_set():
        raise Unreachable(request.subject, "this process is dead", sent=False)


async def _next(lines: asyncio.Queue[bytes], current: asyncio.Event | None) -> bytes | None:
    """The next line; None once `current` is set."""
    if current is None:
        return await lines.get()
    line, caught_up = asyncio.create_task(lines.get()), asyncio.create_task(current.wait())
    try:
        await asyncio.wait([line, caught_up], return_when=asyncio.FIRST_COMPLETED)
        if line.done():
            return line.result()
        return None
    finally:
        line.cancel()
        caught_up.cancel()

"""A client whose view of the cluster lags, as behind an API server of several whose watch cache is behind.

Promises:
- While it lags, it shows no event of the chosen resources. Reads of single objects and writes reach the API server.
- When it catches up, it shows only the last event of each object: what happened in between is not observed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.watch.watch_events import LineSplitter


@dataclass(slots=True)
class Lag:
    """Withholds the events of some resources (`echoes`, `configmaps`)."""

    resources: frozenset[str]
    current: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the client is not behind."""
    withheld: int = 0
    """Events that are withheld."""

    def begin(self) -> None:
        self.current.clear()

    def end(self) -> None:
        self.current.set()

    def concerns(self, request: Request) -> bool:
        return request.path.rpartition("/")[2] in self.resources


class LaggingClient(Client):
    """A client that lags as its `lag` says."""

    lag: Lag

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with super().stream(request) as pieces:
            if not self.lag.concerns(request):
                yield pieces
                return
            lines: asyncio.Queue[bytes] = asyncio.Queue()
            reading = asyncio.create_task(read_lines(pieces, lines))
            try:
                yield self._coalesced(lines)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _coalesced(self, lines: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        while True:
            waiting = [await lines.get()]
            self.lag.withheld += not self.lag.current.is_set()
            await self.lag.current.wait()
            while not lines.empty():
                waiting.append(lines.get_nowait())
            if b"" in waiting:
                return
            yield b"".join(line + b"\n" for line in last_of_each(waiting))


async def read_lines(pieces: AsyncIterator[bytes], lines: asyncio.Queue[bytes]) -> None:
    """Puts the lines of a watch into a queue, and at its end an empty one."""
    splitter = LineSplitter()
    try:
        async for piece in pieces:
            for line in splitter.feed(piece):
                lines.put_nowait(line)
    finally:
        lines.put_nowait(b"")


def last_of_each(lines: list[bytes]) -> list[bytes]:
    """The last event of each object in the order of the events; a bookmark stays where it is."""
    last: dict[object, bytes] = {}
    for number, line in enumerate(lines):
        event = json.loads(line)
        metadata = event["object"].get("metadata", {})
        is_event = event["type"] in ("ADDED", "MODIFIED", "DELETED")
        key = (metadata.get("namespace"), metadata["name"]) if is_event else number
        last.pop(key, None)
        last[key] = line
    return list(last.values())

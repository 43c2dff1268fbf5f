"""Decides when a request leaves the process: retries after failures, the limit of parallel writes, and the end of
a process that no longer leads.

Promises:
- Whether and when a request is retried are pure functions of the error, the number of attempts and a random number.
- The client retries a request only if it is idempotent or if the API server has certainly not processed it.
- The client waits as long as the server's Retry-After asks. If that is longer than `PATIENCE`, it raises the error,
  and the caller reads `retry_after`.
- The limit of parallel writes rises additively and falls multiplicatively: several 429s for writes that were sent
  together halve it once.
- The limit is never less than one write.
- Waiting writes start in the order in which they arrived. A cancelled write frees its slot.
- After the deadline of a `WriteFence` the sockets of writes send nothing: even a write that waited for a slot, a
  connection or a TLS handshake stays in the process.
- The deadline is checked at each send, so a process that was stopped (SIGSTOP, a suspended machine) and wakes up after
  its deadline sends no write. No timer has to fire first.
- Reads, reviews of permissions and dry runs are not refused.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from ssa_operator.kube.api.backoff import exponential
from ssa_operator.kube.api.errors import ApiError, Unreachable
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.clock import uptime

ATTEMPTS = 4
"""The most attempts of one request. After these few seconds the backoff of the reconcile takes over."""

FIRST = 0.1
LONGEST = 3.0
PATIENCE = 10.0
"""Seconds."""

WATCH_FIRST = 0.8
WATCH_LONGEST = 30.0
"""Seconds, as in client-go's reflector."""


def retry_delay(request: Request, error: ApiError, attempt: int, chance: float) -> float | None:
    """Seconds before the request is sent again, None if it is not retried. `attempt` counts from 0; `chance` is in
    [0, 1).

    Exponential with full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    if attempt + 1 >= ATTEMPTS or error.terminal or not _is_retryable(request, error):
        return None
    delay = exponential(FIRST, LONGEST, attempt) * chance
    if error.retry_after is not None:
        # The jitter spreads clients that got the same Retry-After.
        delay += error.retry_after
    return delay if delay <= PATIENCE else None


def _is_retryable(request: Request, error: ApiError) -> bool:
    if isinstance(error, Unreachable):
        return request.idempotent or not error.sent
    if error.throttled:
        return True  # the server refuses it before it processes it
    return request.idempotent and error.code >= 500 and not error.missing_version


def watch_backoff(failures: int, chance: float) -> float:
    """Seconds before a watch is opened again after that many failures: 0.8 s, 1.6 s ... 30 s, with jitter."""
    return exponential(WATCH_FIRST, WATCH_LONGEST, failures - 1) * (1 + chance)


INITIAL_WRITES = 32
"""The first limit: about as many writes saturate an API server with two cores."""

MAX_WRITES = 128


class WriteLimiter:
    """The current limit of parallel writes, the running writes and those that wait for a slot."""

    def __init__(self) -> None:
        self.limit = float(INITIAL_WRITES)
        self.running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._started = 0
        self._lowered_at = 0

    async def acquire(self) -> int:
        """Wait for a slot, which `release` frees. Returns the write's number, for `throttled`."""
        if self.running >= int(self.limit) or self._waiting:
            slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(slot)
            try:
                await slot
            except asyncio.CancelledError:
                if slot.done() and not slot.cancelled():
                    self.release()
                else:
                    self._waiting.remove(slot)
                raise
        else:
            self.running += 1
        self._started += 1
        return self._started

    def accepted(self) -> None:
        """The API server accepted a write. As many accepted writes as there are slots add one slot."""
        if self.running >= int(self.limit) and self.limit < MAX_WRITES:
            self.limit += 1 / self.limit

    def throttled(self, number: int) -> None:
        """The API server answered this write with 429. Only the first 429 of the writes that are running halves the
        limit.
        """
        if number > self._lowered_at:
            self._lowered_at = self._started
            self.limit = max(1.0, self.limit / 2)

    def release(self) -> None:
        """Free a slot, and give it to the write that waits longest."""
        self.running -= 1
        while self._waiting and self.running < int(self.limit):
            slot = self._waiting.popleft()
            if not slot.done():
                self.running += 1
                slot.set_result(None)


class WriteFence:
    """Open until a deadline, which each renewal of the leadership moves; closed at first. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = uptime) -> None:
        self._clock = clock
        self._deadline = -math.inf

    @property
    def is_open(self) -> bool:
        return self._clock() < self._deadline

    def open_until(self, deadline: float) -> None:
        """Allow writes until this moment of the clock."""
        self._deadline = deadline

    def close(self) -> None:
        """Refuse every write from now on."""
        self._deadline = -math.inf


class FencedSocket(socket.socket):
    """A socket that sends nothing while a fence is closed. The event loop then closes its connection."""

    def __init__(self, fence: WriteFence, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._fence = fence

    def send(self, data: Any, flags: int = 0, /) -> int:
        self._check()
        return super().send(data, flags)

    def sendmsg(self, *arguments: Any) -> int:
        self._check()
        return super().sendmsg(*arguments)

    def _check(self) -> None:
        if not self._fence.is_open:
            raise ConnectionAbortedError("this replica does not lead, so it sends no write")

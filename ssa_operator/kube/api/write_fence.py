"""Refuses the writes of a process that no longer leads, at the last moment before they leave the process.

Promises:
- After its deadline the sockets of writes send nothing: even a write that waited for a slot, a connection or a TLS
  handshake stays in the process.
- The deadline is checked at each send, so a process that was stopped (SIGSTOP, a suspended machine) and wakes up after
  its deadline sends no write. No timer has to fire first.
- Reads, reviews of permissions and dry runs are not refused.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from typing import Any

from ssa_operator.kube.clock import uptime


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

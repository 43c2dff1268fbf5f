"""Parents that were being reconciled when the process died: they come last and alone after its restart.

Promises:
- A file in the scratch folder of the pod names the parents that are being reconciled. It outlives the process, and ends
  with the pod.
- A suspect is reconciled when all other parents had their first round, and while no other one is reconciled, for
  ALONE_DEADLINE seconds. The log names it.
- If an attempt ends the process again, the status and a metric name the parent, and the pauses before its attempts grow
  from FIRST_PAUSE to LONGEST_PAUSE seconds. A change of its spec or its templates ends the pause.
- A suspect whose reconcile came back, with or without an error, or that is gone, is suspected no longer.
- Any content of the file is read without an error. Without a file that can be written, nothing is remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.scalars import timestamp
from ssa_operator.operator.metrics import Metrics

log = logging.getLogger("ssa_operator")

ALONE_DEADLINE = 60.0
"""Seconds for which other parents wait for the reconcile of a suspect, and the suspect for theirs."""

FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0

FILE_NAME = "ssa-operator-parents"
SLOTS = 256
"""Parents that the file has place for: those that all workers reconcile, and the suspects."""

_SLOT = 1024
"""Bytes of a slot. A parent with a longer record is not remembered."""


class Version(Struct, frozen=True):
    """The inputs of a parent's reconcile."""

    generation: int
    templates: str
    """The digest of its folder's templates."""


class Suspect(Struct, frozen=True, kw_only=True):
    """A parent that is being reconciled, or that was when a process died."""

    key: ParentKey
    version: Version
    attempts: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """The reconciles alone that have not ended."""
    at: Annotated[float, Meta(ge=0, le=1e10)] = 0.0
    """When the last one began, in seconds since the epoch."""


def attempted(suspect: Suspect, version: Version, now: float) -> Suspect:
    """The suspect while an attempt goes on."""
    attempts = suspect.attempts if version == suspect.version else 0
    return replace(suspect, version=version, attempts=attempts + 1, at=now)


def due_at(suspect: Suspect, version: Version, now: float) -> float:
    """When the next attempt is due, in seconds since the epoch. If the wall clock is set, the attempt is delayed by one
    pause at most.
    """
    if version != suspect.version or not suspect.attempts:
        return now
    pause: float = min(FIRST_PAUSE * 2 ** min(suspect.attempts - 1, 10), LONGEST_PAUSE)
    return min(suspect.at, now) + pause


def suspicion(suspect: Suspect) -> str:
    """Why the parent is not ready, and what to do."""
    last = timestamp(suspect.at)
    times = "once" if suspect.attempts == 1 else f"{suspect.attempts} times"
    return (
        f"the operator died while it reconciled this parent and no other ({times}, last at {last}), so it is "
        "reconciled after all others, alone, and with growing pauses; change its spec or its templates, and it is "
        "tried at once"
    )


class ParentFile:
    """The parents in the file, each in a slot."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self.left = {slot: suspect for slot in range(SLOTS) if (suspect := self._read(slot)) is not None}
        """What the last process left, by slot."""
        self._free = [slot for slot in reversed(range(SLOTS)) if slot not in self.left]
        for slot in self._free:
            self._memory[slot * _SLOT] = 0

    @classmethod
    def open(cls) -> ParentFile:
        """The file of this container; outside of a cluster, memory that ends with the process."""
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            # A folder that can't be written costs the record of the last process.
            with contextlib.suppress(OSError):
                return cls(_mapped(Path(tempfile.gettempdir()) / FILE_NAME))
        return cls(mmap.mmap(-1, SLOTS * _SLOT))

    def add(self, suspect: Suspect) -> int | None:
        """Write a parent into a free slot. Gives the slot, None without a free one."""
        if not self._free:
            return None
        slot = self._free.pop()
        self.write(slot, suspect)
        return slot

    def write(self, slot: int, suspect: Suspect) -> None:
        """Replace the parent in a slot."""
        text = msgspec.json.encode(suspect)
        if len(text) < _SLOT:
            at = slot * _SLOT
            # The text before its end mark: what is half written is not read.
            self._memory[at : at + len(text) + 1] = text + b"\0"

    def remove(self, slot: int) -> None:
        """Free a slot."""
        self._memory[slot * _SLOT] = 0
        self._free.append(slot)

    def _read(self, slot: int) -> Suspect | None:
        text = self._memory[slot * _SLOT : (slot + 1) * _SLOT].partition(b"\0")[0]
        try:
            return msgspec.json.decode(text, type=Suspect) if text else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


def _mapped(path: Path) -> mmap.mmap:
    """The memory of a file of this user. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        os.ftruncate(descriptor, SLOTS * _SLOT)
        return mmap.mmap(descriptor, SLOTS * _SLOT)
    finally:
        os.close(descriptor)


class AloneTurn:
    """Lets one reconcile run while no other one does."""

    def __init__(self) -> None:
        self._others = 0
        self._free = asyncio.Event()
        self._free.set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextlib.asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        """Run the block beside others, and not while one runs alone."""
        while not self._free.is_set():
            await self._free.wait()
        self._others += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._others -= 1
            if not self._others:
                self._quiet.set()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Run the block alone. After ALONE_DEADLINE seconds, the block and the others run at the same time."""
        self._free.clear()
        timer: asyncio.TimerHandle | None = None
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALONE_DEADLINE):
                    await self._quiet.wait()
            timer = asyncio.get_running_loop().call_later(ALONE_DEADLINE, self._free.set)
            yield
        finally:
            if timer is not None:
                timer.cancel()
            self._free.set()


class SuspectedParents:
    """The suspects of this process."""

    def __init__(self, file: ParentFile, metrics: Metrics, clock: Clock = SYSTEM) -> None:
        self._file = file
        self._metrics = metrics
        self._clock = clock
        self._slots = {suspect.key: slot for slot, suspect in file.left.items()}
        self._suspects = {suspect.key: suspect for suspect in file.left.values()}
        self._changed = asyncio.Event()
        for key in self._suspects:
            log.warning("%s is suspected: the operator died while it reconciled this parent", key)
        self._measure()

    def __contains__(self, key: ParentKey) -> bool:
        return key in self._suspects

    def suspicion(self, key: ParentKey) -> str:
        """The message for the status, '' without one."""
        suspect = self._suspects.get(key)
        return suspicion(suspect) if suspect is not None and suspect.attempts else ""

    @contextlib.contextmanager
    def recorded(self, key: ParentKey, version: Version) -> Iterator[None]:
        """Have the parent in the file during the block. A suspect stays there."""
        slot = None if key in self._suspects else self._file.add(Suspect(key=key, version=version))
        try:
            yield
        finally:
            if slot is not None:
                self._file.remove(slot)

    def notice_change(self) -> None:
        """A suspect has an event: it may have changed, and be due."""
        self._changed.set()

    def reconciled(self, key: ParentKey) -> None:
        """A reconcile of a parent ended."""
        if self._suspects.pop(key, None) is not None:
            log.info("%s was reconciled, and is suspected no longer", key)
            self._file.remove(self._slots.pop(key))
            self._measure()

    async def run(
        self, reconcile: Callable[[ParentKey], Awaitable[None]], version_of: Callable[[ParentKey], Version | None]
    ) -> None:
        """Reconcile each suspect alone when it is due, until none is left. `version_of` returns None for a suspect that
        is gone.
        """
        while self._suspects:
            self._changed.clear()
            key, pause = self._next(version_of)
            if pause <= 0:
                await self._attempt(key, version_of, reconcile)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    def _next(self, version_of: Callable[[ParentKey], Version | None]) -> tuple[ParentKey, float]:
        """The suspect that is due next, and in how many seconds."""
        now = self._clock.now()
        due: list[tuple[float, ParentKey]] = []
        for key, suspect in self._suspects.items():
            version = version_of(key)
            due.append((now if version is None else due_at(suspect, version, now), key))
        when, key = min(due)
        return key, when - now

    async def _attempt(
        self,
        key: ParentKey,
        version_of: Callable[[ParentKey], Version | None],
        reconcile: Callable[[ParentKey], Awaitable[None]],
    ) -> None:
        version = version_of(key)
        if version is None:
            self.reconciled(key)
            return
        self._suspects[key] = attempted(self._suspects[key], version, self._clock.now())
        self._file.write(self._slots[key], self._suspects[key])
        log.warning("%s is suspected, and is reconciled alone now", key)
        await reconcile(key)

    def _measure(self) -> None:
        self._metrics.suspected_parents.clear()
        for key in self._suspects:
            self._metrics.suspected_parents.labels(*key).set(1)

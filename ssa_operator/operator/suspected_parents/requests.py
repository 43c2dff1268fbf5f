"""Keeps the parents that held up or ended a process from doing it again: they come last and alone.

Promises:
- A suspect is reconciled when all other parents had their first round, and while no other one is reconciled, for
  ALONE_DEADLINE seconds. Before each attempt, the attempt is recorded in the operator's Lease.
- A suspect whose reconcile ended, with or without an error, or that is gone, is also removed from the Lease.
- Until then the parent's status, the log and a metric name it.
- An operator that may not read or write its Lease reconciles without a record.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial

from msgspec.structs import replace

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.leases import LeaseAccess
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.lease import Lease
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.suspected_parents.rules import (
    SUSPECTS_ANNOTATION,
    Change,
    Suspect,
    Suspects,
    Version,
    due_at,
    read_suspects,
    suspicion,
    with_attempt,
    with_held,
    without,
    write_suspects,
)
from ssa_operator.reconcile.step_record import RecordedStep, StepRecord

log = logging.getLogger("ssa_operator")

ALONE_DEADLINE = 60.0
"""Seconds for which other parents wait for the reconcile of a suspect, and the suspect for theirs."""

RETRY_INTERVAL = 10.0
"""Seconds after which a read or write of the Lease is repeated."""

LOAD_DEADLINE = 30.0
"""Seconds for which the first reconcile waits for the record."""

_CONFLICTS = 10
"""Attempts of a write while other processes write the Lease."""

_SAVED_POLL = 0.1


class SuspectStore:
    """The record in the annotation of a Lease."""

    def __init__(self, access: LeaseAccess) -> None:
        self._access = access

    def __str__(self) -> str:
        return str(self._access)

    async def read(self) -> Suspects:
        """The record. Raises ApiError and CredentialsError."""
        lease = await self._access.get()
        return _suspects(lease) if lease is not None else ()

    async def change(self, change: Change) -> Suspects:
        """Change the record, even while other processes write the Lease. Creates a Lease without a holder if there is
        none.

        Raises ApiError and CredentialsError.
        """
        for attempt in range(_CONFLICTS):
            lease = await self._access.get() or Lease(holder="", duration=1)
            suspects = change(_suspects(lease))
            if suspects == _suspects(lease):
                return suspects
            try:
                await self._access.write(_with_suspects(lease, suspects))
            except ApiError as error:
                if attempt == _CONFLICTS - 1 or not (error.conflict or error.already_exists):
                    raise
                continue
            break
        return suspects


def _suspects(lease: Lease) -> Suspects:
    annotations = lease.metadata.get("annotations") or {}
    return read_suspects(str(annotations.get(SUSPECTS_ANNOTATION, "")))


def _with_suspects(lease: Lease, suspects: Suspects) -> Lease:
    annotations = {**(lease.metadata.get("annotations") or {}), SUSPECTS_ANNOTATION: write_suspects(suspects)}
    kept = {key: value for key, value in annotations.items() if value}
    return replace(lease, metadata={**lease.metadata, "annotations": kept}, duration=max(1, lease.duration))


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
    """The suspects of this process. `process` is its name in the record."""

    def __init__(
        self, store: SuspectStore, record: StepRecord, process: str, metrics: Metrics, clock: Clock = SYSTEM
    ) -> None:
        self.record = record
        self._store = store
        self._process = process
        self._metrics = metrics
        self._clock = clock
        self._suspects: dict[ParentKey, Suspect] = {}
        self._held: set[ParentKey] = set()
        """Parents that held the event loop, which the record may name."""
        self._obsolete: set[ParentKey] = set()
        """Parents to be removed from the record."""
        self._changed = asyncio.Event()
        self._failure = ""

    def __contains__(self, key: ParentKey) -> bool:
        return key in self._suspects

    def suspicion(self, key: ParentKey) -> tuple[str, bool]:
        """The message for the status, '' without one, and whether an attempt has failed."""
        suspect = self._suspects.get(key)
        if suspect is None or not suspect.times:
            return "", False
        return suspicion(suspect), suspect.times > 1

    async def load(self) -> None:
        """Read the record. The step record that the last process of this container left is added to it."""
        try:
            async with asyncio.timeout(LOAD_DEADLINE):
                while not await self._load():
                    await self._clock.sleep(1.0)
        except TimeoutError:
            log.warning("%s can't be read for suspected parents: %s", self._store, self._failure)
        for key, suspect in self._suspects.items():
            log.warning("%s is suspected: %s", key, suspicion(suspect))
        self._measure()
        self._changed.set()

    async def _load(self) -> bool:
        left = self.record.left
        try:
            if left:
                suspects = await self._store.change(partial(_with_steps, left, self._clock.now(), self._process))
                self.record.left = ()
            else:
                suspects = await self._store.read()
        except (ApiError, CredentialsError) as error:
            self._failure = str(error)
            terminal = isinstance(error, ApiError) and error.terminal
            if terminal:
                log.debug("%s can't be read for suspected parents: %s", self._store, error)
            return terminal
        self._suspects = {ParentKey(*each.key): each for each in suspects}
        return True

    def notice_change(self) -> None:
        """A suspect has an event: it may have changed, and be due."""
        self._changed.set()

    def on_held(self, step: RecordedStep) -> None:
        """A step of a parent held the event loop, and has ended."""
        self._held.add(ParentKey(step.folder, step.namespace, step.name))

    def reconciled(self, key: ParentKey) -> None:
        """A reconcile of a parent ended."""
        if key in self._suspects or key in self._held:
            if self._suspects.pop(key, None) is not None:
                log.info("%s was reconciled, and is suspected no longer", key)
                self._measure()
            self._held.discard(key)
            self._obsolete.add(key)
            self._changed.set()

    async def run(
        self, reconcile: Callable[[ParentKey], Awaitable[None]], version_of: Callable[[ParentKey], Version | None]
    ) -> None:
        """Reconcile each suspect alone when it is due, until cancelled. `version_of` returns None for a suspect that is
        gone.
        """
        while True:
            self._changed.clear()
            cleaned = await self._clean_up()
            key, pause = self._next(version_of)
            if key is not None and pause <= 0:
                await self._attempt(key, version_of, reconcile)
                continue
            wait = min(pause if key is not None else RETRY_INTERVAL, RETRY_INTERVAL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait if key is not None or not cleaned else None):
                    await self._changed.wait()

    def _next(self, version_of: Callable[[ParentKey], Version | None]) -> tuple[ParentKey | None, float]:
        """The suspect that is due next, and in how many seconds."""
        now = self._clock.now()
        due: list[tuple[float, ParentKey]] = []
        for key, suspect in self._suspects.items():
            version = version_of(key)
            due.append((now if version is None else due_at(suspect, version, now), key))
        if not due:
            return None, 0.0
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
        now = self._clock.now()
        change = partial(with_attempt, key=key, version=version, now=now, process=self._process)
        try:
            await self._store.change(change)
        except (ApiError, CredentialsError) as error:
            log.warning("%s: its attempt can't be recorded in %s: %s", key, self._store, error)
            if not (isinstance(error, ApiError) and error.terminal):
                await self._clock.sleep(RETRY_INTERVAL)
                return
        (self._suspects[key],) = change((self._suspects[key],))
        log.warning("%s is suspected, and is reconciled alone now", key)
        await reconcile(key)

    async def _clean_up(self) -> bool:
        """Remove parents from the record. Returns whether it is done."""
        if not self._obsolete:
            return True
        while self.record.being_saved:
            await self._clock.sleep(_SAVED_POLL)
        keys = frozenset(self._obsolete)
        try:
            await self._store.change(partial(without, keys=keys))
        except (ApiError, CredentialsError) as error:
            log.debug("%s: parents are not removed from the record: %s", self._store, error)
            return isinstance(error, ApiError) and error.terminal
        self._obsolete -= keys
        return True

    def _measure(self) -> None:
        self._metrics.suspected_parents.clear()
        for key in self._suspects:
            self._metrics.suspected_parents.labels(*key).set(1)


def _with_steps(steps: Iterable[RecordedStep], now: float, process: str, suspects: Suspects) -> Suspects:
    for step in steps:
        key, version = (step.folder, step.namespace, step.name), Version(step.generation, step.templates)
        suspects = with_held(suspects, key, version, now, process, certain=False)
    return suspects

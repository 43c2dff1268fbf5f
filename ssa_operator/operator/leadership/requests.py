"""Takes part in leader election: acquires the Lease, renews it, and releases it.

Promises:
- `run` never returns. It raises `LeadershipLost` if this replica has led and must not write any more.
- The fence of the client's writes is open only while this replica leads by the rules of
  `operator/leadership/rules.py`. It closes before the Lease is released.
- A candidate polls the Lease, and a watch of the Lease wakes it up, so that a released Lease is acquired at once. The
  watch only makes the election faster. Without it, the election is equally safe.
- No answer and no failure of the API server ends a candidate. It logs a failure once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.api.leases import LeaseAccess, new_identity
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock, uptime
from ssa_operator.operator.leadership.rules import (
    Election,
    LeaseAction,
    LeaseTiming,
    decide,
    next_attempt,
    observe,
    stepped_down,
    to_acquire,
    to_release,
    written,
)

log = logging.getLogger("ssa_operator")


class LeadershipLost(Exception):  # noqa: N818 - it is an event, and the operator ends in order
    """This replica led and may not write any more. The text has the reason."""


class Leadership:
    """The part of this replica in the election of one Lease. `elapsed` is the fence's clock. `purpose` begins the lines
    of the log, whose usual ones have the `level`.
    """

    def __init__(
        self,
        access: LeaseAccess,
        fence: WriteFence,
        timing: LeaseTiming,
        *,
        identity: str = "",
        clock: Clock = SYSTEM,
        elapsed: Callable[[], float] = uptime,
        purpose: str = "leader election",
        level: int = logging.INFO,
    ) -> None:
        self.access = access
        self.acquired = asyncio.Event()
        """Set when this replica leads for the first time."""
        self._fence = fence
        self._clock = clock
        self._elapsed = elapsed
        self._purpose = purpose
        self._level = level
        self._election = Election(identity=identity or new_identity(), timing=timing)
        self._known = False
        self._failure = ""
        self._holder: str | None = None
        self._wake_up = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    @property
    def leads(self) -> bool:
        return self._election.leads and self._fence.is_open

    @property
    def identity(self) -> str:
        """The name of this replica in the Lease."""
        return self._election.identity

    @property
    def leader(self) -> str:
        """The name of the replica that leads as far as this one knows, '' if it knows none."""
        return self.identity if self.leads else self._holder or ""

    async def run(self) -> None:
        """Acquire the Lease, and renew it until it is lost, which raises LeadershipLost; or until cancelled."""
        self._log("this replica is %s, and waits for %s", self.identity, self.access)
        try:
            while True:
                started = self._elapsed()
                # A leader's attempt, and its pause, end with its leadership at the latest.
                left = self._election.writes_until - started if self._election.leads else None
                if left is not None and left <= 0:
                    self._step_down()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        done = await self._attempt()
                        pause = next_attempt(self._election, started, self._clock.random(), failed=not done)
                        await self._pause(pause - (self._elapsed() - started))
        finally:
            await self._stop_watching()

    async def release(self) -> None:
        """Release the Lease if this replica leads, so that another one takes over at once. No write of this process may
        be under way.
        """
        election, leads = self._election, self.leads
        self.close()
        try:
            if leads and not self._known:
                # A renewal was cancelled, and the API server may have stored it.
                election = observe(election, await self.access.get(), self._elapsed())
            released = to_release(election, self._clock.now()) if leads else None
            if released is not None:
                await self.access.write(released)
                self._log("released %s", self.access)
        except (ApiError, CredentialsError) as error:
            log.warning("%s: %s was not released, and expires: %s", self._purpose, self.access, error)

    def close(self) -> None:
        """Send no further write. The Lease expires."""
        self._fence.close()
        self._election = stepped_down(self._election)

    async def _attempt(self) -> bool:
        """Read the Lease if its state is not known, and carry out the decision of the rules. Returns whether nothing
        failed.
        """
        try:
            # A leader knows the Lease that it wrote. The Lease that a candidate has read may be outdated by now.
            if not (self._election.leads and self._known):
                lease = await self.access.get()
                self._election = observe(self._election, lease, self._elapsed())
                self._known = True
            action = decide(self._election, self._elapsed())
            if action is LeaseAction.STEP_DOWN:
                self._step_down()
            if action is LeaseAction.WAIT:
                self._wait_for_holder()
            else:
                await self._write()
        except (ApiError, CredentialsError) as error:
            self._known = False
            self._log_failure(error)
            return False
        self._failure = ""
        return True

    async def _write(self) -> None:
        began, led = self._elapsed(), self._election.leads
        self._known = False
        lease = await self.access.write(to_acquire(self._election, self._clock.now()))
        self._known = True
        self._election = written(self._election, lease, began)
        if self._elapsed() >= self._election.writes_until:
            # The answer came too late, or the process was stopped meanwhile.
            if led:
                self._step_down()
            self._election, self._known = stepped_down(self._election), False
            return
        self._fence.open_until(self._election.writes_until)
        if not led:
            self._log("leads, by %s", self.access)
            self.acquired.set()
            await self._stop_watching()

    def _step_down(self) -> None:
        lease, timing = self._election.lease, self._election.timing
        self.close()
        if lease is not None and lease.holder != self.identity:
            raise LeadershipLost(f"lost {self.access}: {lease.holder or 'another process'} has written it")
        cause = f": {self._failure}" if self._failure else ""
        raise LeadershipLost(f"lost {self.access}: it was not renewed within {timing.renew_deadline:g} s{cause}")

    def _wait_for_holder(self) -> None:
        lease = self._election.lease
        holder = lease.holder if lease is not None else ""
        if holder != self._holder:
            self._holder = holder
            self._log("%s leads; this replica is a standby", holder or "another replica")
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name=f"watch {self.access}")

    async def _watch(self) -> None:
        """Wake up at each change of the Lease, until cancelled or until the watch is refused."""
        while True:
            lease = self._election.lease
            try:
                if lease is not None:
                    async for _ in self.access.events(lease):
                        self._wake_up.set()
            except (ApiError, CredentialsError) as error:
                if isinstance(error, ApiError) and error.terminal:
                    self._log("%s is polled, because it can't be watched: %s", self.access, error)
                    return
                log.debug("%s: %s", self._purpose, error)
            self._wake_up.set()
            await self._clock.sleep(self._election.timing.retry_period)

    async def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None

    async def _pause(self, seconds: float) -> None:
        """Wait; a candidate waits at most until the Lease changes."""
        if self._election.leads:
            self._wake_up.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wake_up.wait()
        self._wake_up.clear()

    def _log_failure(self, error: ApiError | CredentialsError) -> None:
        if isinstance(error, ApiError) and (error.conflict or error.already_exists):
            # Another replica was faster.
            return
        if str(error) != self._failure:
            log.warning("%s: %s", self._purpose, error)
        self._failure = str(error)

    def _log(self, text: str, *values: object) -> None:
        log.log(self._level, f"%s: {text}", self._purpose, *values)

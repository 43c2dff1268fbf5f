"""Leader election by a Lease: who may write, and when a replica acquires, renews or gives up the Lease.

Promises (client-go's, tools/leaderelection):
- Expiry is judged by locally observed change: a holder counts as alive for the lease duration after this process last
  saw the Lease change. The times in the Lease are never compared, so a jump of a wall clock changes nothing.
- A leader may write until the renew deadline after the moment at which its last successful write of the Lease began.
  The renew deadline is shorter than the lease duration, so it stops before another replica can take over.
- A leader that reads another holder steps down at once.
- A released Lease is acquired at once. A Lease that is deleted while another replica holds it counts as held for one
  more lease duration.
- Times are seconds on one monotonic clock of this process, which also counts while the process is stopped.
"""

from __future__ import annotations

import math
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.objects.lease import Lease
from ssa_operator.objects.scalars import micro_time

JITTER_FACTOR = 1.2
"""A candidate that waits for the Lease reads it after the retry period and up to this many times the retry period more,
as in client-go, so that replicas don't read it together.
"""


class LeaseTiming(Struct, frozen=True, kw_only=True):
    """The settings of leader election, in seconds. The defaults are those of client-go."""

    lease_duration: float = 15.0
    """How long a candidate considers a holder alive that does not renew."""

    renew_deadline: float = 10.0
    """Time without a renewal after which a leader stops writing."""

    retry_period: float = 2.0
    """Time between two renewals of a leader, and the shortest time between two attempts of a candidate."""

    @property
    def request_timeout(self) -> float:
        """The timeout of a request for the Lease: the renew deadline has room for two."""
        return self.renew_deadline / 2

    @property
    def problem(self) -> str | None:
        """Why these settings are not safe, by client-go's rules; None if they are."""
        if not 0 < self.retry_period < math.inf:
            return "the retry period must be more than 0"
        if self.lease_duration < 1:
            # The Lease has whole seconds.
            return "the lease duration must be at least 1s"
        if self.renew_deadline >= self.lease_duration:
            return (
                f"the renew deadline ({self.renew_deadline:g}s) must be less than the lease duration "
                f"({self.lease_duration:g}s), because a leader must stop before another replica takes over"
            )
        if self.renew_deadline <= JITTER_FACTOR * self.retry_period:
            return (
                f"the renew deadline ({self.renew_deadline:g}s) must be more than {JITTER_FACTOR:g} times the retry "
                f"period ({self.retry_period:g}s), because one failed renewal must not end the leadership"
            )
        return None


class LeaseAction(Enum):
    """What a replica does with the Lease now."""

    ACQUIRE = "acquire"
    """The Lease is free, or its holder expired: write it."""
    RENEW = "renew"
    """This replica leads: write it."""
    WAIT = "wait"
    """Another replica holds it."""
    STEP_DOWN = "step down"
    """This replica led, and may not write any more."""


class Election(Struct, frozen=True, kw_only=True):
    """What one replica knows of a Lease."""

    identity: str
    """The name of this replica in the Lease. No other process has it, nor did any earlier one."""

    timing: LeaseTiming = field(default_factory=LeaseTiming)

    lease: Lease | None = None
    """The Lease as last read or written, None if it does not exist or was not read yet."""

    held_until: float = -math.inf
    """The moment until which another holder counts as alive."""

    renewed_at: float | None = None
    """When the last successful write of the Lease by this replica began. None if it does not lead."""

    @property
    def leads(self) -> bool:
        return self.renewed_at is not None

    @property
    def writes_until(self) -> float:
        """The moment from which on this replica must not send a write."""
        return -math.inf if self.renewed_at is None else self.renewed_at + self.timing.renew_deadline


def observe(election: Election, lease: Lease | None, now: float) -> Election:
    """The replica's knowledge after it has read the Lease (None if it does not exist). `now` is when the answer
    arrived.
    """
    before = election.lease
    if lease is None:
        gone = before is not None and before.holder not in ("", election.identity)
        held_until = now + _duration(election, before) if gone else election.held_until
        return replace(election, lease=None, held_until=held_until)
    if before is not None and (before.uid, before.resource_version) == (lease.uid, lease.resource_version):
        return election
    held_until = -math.inf if lease.holder in ("", election.identity) else now + _duration(election, lease)
    return replace(election, lease=lease, held_until=held_until)


def _duration(election: Election, lease: Lease | None) -> float:
    """How long a holder counts as alive. Its settings may differ from those of this replica."""
    return max(election.timing.lease_duration, lease.duration if lease is not None else 0)


def decide(election: Election, now: float) -> LeaseAction:
    """What the replica does. A candidate decides only after it has read the Lease. If the Lease has changed since, the
    write's resourceVersion causes a conflict.
    """
    holder = election.lease.holder if election.lease is not None else ""
    if election.leads:
        replaced = election.lease is not None and holder != election.identity
        return LeaseAction.STEP_DOWN if replaced or now >= election.writes_until else LeaseAction.RENEW
    # It may be the holder without having led: the answer to its write was lost.
    return LeaseAction.ACQUIRE if holder == election.identity or now >= election.held_until else LeaseAction.WAIT


def to_acquire(election: Election, wall_clock: float) -> Lease:
    """The Lease to write, to acquire or renew it. `wall_clock` is in seconds since 1970."""
    before, timestamp = election.lease, micro_time(wall_clock)
    duration = math.ceil(election.timing.lease_duration)
    if before is None:
        return Lease(holder=election.identity, duration=duration, acquired=timestamp, renewed=timestamp)
    if before.holder == election.identity:
        return replace(before, duration=duration, renewed=timestamp)
    return replace(
        before,
        holder=election.identity,
        duration=duration,
        transitions=before.transitions + 1,
        acquired=timestamp,
        renewed=timestamp,
    )


def to_release(election: Election, wall_clock: float) -> Lease | None:
    """The Lease to write, to release it. None if this replica does not hold it."""
    if not election.leads or election.lease is None or election.lease.holder != election.identity:
        return None
    timestamp = micro_time(wall_clock)
    return replace(election.lease, holder="", duration=1, acquired=timestamp, renewed=timestamp)


def written(election: Election, lease: Lease, began: float) -> Election:
    """The replica after the API server accepted its Lease. `began` is when the write began."""
    return replace(election, lease=lease, held_until=-math.inf, renewed_at=began)


def stepped_down(election: Election) -> Election:
    """The replica without leadership."""
    return replace(election, renewed_at=None)


def next_attempt(election: Election, now: float, chance: float, *, failed: bool = False) -> float:
    """Seconds until the replica reads or writes the Lease again. `chance` is in [0, 1).

    A leader tries every retry period, at the latest at the end of its leadership. A candidate tries when the holder
    expires, or earlier. After an attempt that `failed` it waits for at least the retry period.
    """
    period = election.timing.retry_period
    if election.leads:
        return min(period, max(0.0, election.writes_until - now))
    pause = period * (1 + JITTER_FACTOR * chance)
    left = election.held_until - now
    return pause if failed or left <= 0 else min(pause, left)

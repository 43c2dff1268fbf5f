"""The rules of leader election, and a model of several replicas with slow requests, lost answers, pauses and clocks
that jump."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.lease import Lease
from ssa_operator.objects.scalars import micro_time
from ssa_operator.operator.leadership.rules import (
    JITTER_FACTOR,
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

WALL_CLOCK = 1_700_000_000.0


def lease(holder: str, version: int = 1, duration: int = 15, transitions: int = 0) -> Lease:
    metadata = {"resourceVersion": str(version), "uid": "u", "name": "n"}
    return Lease(holder=holder, duration=duration, transitions=transitions, metadata=metadata)


def leading(began: float = 100.0) -> Election:
    return written(Election(identity="a"), lease("a"), began)


# Who may write.


def test_a_leader_writes_until_the_renew_deadline_after_its_last_renewal_began() -> None:
    assert leading(began=100.0).writes_until == 110.0
    assert Election(identity="a").writes_until < 0


def test_a_leader_that_wakes_after_the_renew_deadline_steps_down_and_does_not_renew() -> None:
    assert decide(leading(began=100.0), 109.9) is LeaseAction.RENEW
    assert decide(leading(began=100.0), 110.0) is LeaseAction.STEP_DOWN


def test_a_leader_that_reads_another_holder_steps_down_at_once() -> None:
    assert decide(observe(leading(), lease("b", 2), 101.0), 101.0) is LeaseAction.STEP_DOWN


def test_a_leader_whose_lease_is_deleted_writes_it_again() -> None:
    gone = observe(leading(), None, 101.0)
    assert decide(gone, 101.0) is LeaseAction.RENEW
    assert to_acquire(gone, WALL_CLOCK).resource_version == ""


# When a candidate acquires.


def test_a_candidate_acquires_a_lease_that_does_not_exist_or_was_released() -> None:
    candidate = Election(identity="a")
    assert decide(observe(candidate, None, 0.0), 0.0) is LeaseAction.ACQUIRE
    assert decide(observe(candidate, lease(""), 0.0), 0.0) is LeaseAction.ACQUIRE


def test_a_holder_counts_as_alive_for_the_lease_duration_after_the_last_observed_change() -> None:
    candidate = observe(Election(identity="a"), lease("b", 1), 50.0)
    assert decide(candidate, 64.9) is LeaseAction.WAIT
    assert decide(observe(candidate, lease("b", 1), 65.0), 65.0) is LeaseAction.ACQUIRE
    assert decide(observe(candidate, lease("b", 2), 65.0), 79.9) is LeaseAction.WAIT


@given(st.sampled_from(["1970-01-01T00:00:00.000000Z", "9999-01-01T00:00:00.000000Z", "", "no time"]))
def test_the_times_in_the_lease_decide_nothing(time: str) -> None:
    candidate = observe(Election(identity="a"), replace(lease("b"), renewed=time, acquired=time), 50.0)
    assert decide(candidate, 64.9) is LeaseAction.WAIT
    assert decide(candidate, 65.0) is LeaseAction.ACQUIRE


def test_the_duration_of_the_holder_counts_if_it_is_longer() -> None:
    candidate = observe(Election(identity="a"), lease("b", duration=60), 0.0)
    assert decide(candidate, 59.9) is LeaseAction.WAIT
    assert decide(candidate, 60.0) is LeaseAction.ACQUIRE


def test_a_lease_that_is_deleted_while_another_replica_holds_it_counts_as_held_for_a_lease_duration() -> None:
    candidate = observe(observe(Election(identity="a"), lease("b"), 0.0), None, 14.0)
    assert decide(candidate, 28.9) is LeaseAction.WAIT
    assert decide(candidate, 29.0) is LeaseAction.ACQUIRE


def test_a_candidate_whose_write_succeeded_without_an_answer_writes_again() -> None:
    assert decide(observe(Election(identity="a"), lease("a"), 5.0), 5.0) is LeaseAction.ACQUIRE


# What is written.


def test_a_new_holder_counts_a_transition_and_a_renewal_does_not() -> None:
    candidate = observe(Election(identity="a"), lease("b", transitions=3), 0.0)
    acquired = to_acquire(candidate, WALL_CLOCK)
    assert (acquired.holder, acquired.transitions, acquired.duration) == ("a", 4, 15)
    assert acquired.acquired == acquired.renewed == micro_time(WALL_CLOCK) == "2023-11-14T22:13:20.000000Z"
    renewed = to_acquire(written(candidate, acquired, 0.0), WALL_CLOCK + 2)
    assert (renewed.transitions, renewed.acquired) == (4, acquired.acquired)
    assert renewed.renewed == micro_time(WALL_CLOCK + 2)


def test_only_the_holder_releases_and_a_released_lease_keeps_its_transitions() -> None:
    assert to_release(stepped_down(leading()), WALL_CLOCK) is None
    assert to_release(observe(leading(), lease("b", 2), 1.0), WALL_CLOCK) is None
    released = to_release(written(Election(identity="a"), lease("a", transitions=7), 0.0), WALL_CLOCK)
    assert released is not None
    assert (released.holder, released.transitions, released.resource_version) == ("", 7, "1")


# When the next attempt is.


@given(st.floats(0, 1, exclude_max=True))
def test_a_candidate_tries_again_within_the_jittered_retry_period_and_when_the_holder_expires(chance: float) -> None:
    candidate = observe(Election(identity="a"), lease("b"), 0.0)
    assert 2 <= next_attempt(candidate, 0.0, chance) <= 2 * (1 + JITTER_FACTOR)
    assert next_attempt(candidate, 14.5, chance) == 0.5
    # After it expired, and an attempt failed, it does not spin.
    assert next_attempt(candidate, 15.0, chance) >= 2
    assert next_attempt(candidate, 14.5, chance, failed=True) >= 2


def test_a_leader_tries_each_retry_period_but_not_later_than_its_deadline() -> None:
    assert next_attempt(leading(100.0), 100.5, 0.9) == 2
    assert next_attempt(leading(100.0), 109.5, 0.9) == 0.5
    assert next_attempt(leading(100.0), 111.0, 0.9) == 0


# Settings.


def test_the_settings_of_client_go_are_safe() -> None:
    timing = LeaseTiming()
    assert (timing.lease_duration, timing.renew_deadline, timing.retry_period) == (15, 10, 2)
    assert timing.problem is None
    assert timing.request_timeout < timing.renew_deadline


@pytest.mark.parametrize(
    ("lease_duration", "renew_deadline", "retry_period", "words"),
    [
        (10, 10, 2, "must be less than the lease duration (10s)"),
        (15, 2.4, 2, "must be more than 1.2 times the retry period (2s)"),
        (15, 10, 0, "the retry period must be more than 0"),
        (0.5, 0.4, 0.1, "the lease duration must be at least 1s"),
    ],
)
def test_unsafe_settings_have_a_reason(
    lease_duration: float, renew_deadline: float, retry_period: float, words: str
) -> None:
    timing = LeaseTiming(lease_duration=lease_duration, renew_deadline=renew_deadline, retry_period=retry_period)
    assert words in str(timing.problem)


# A model: an API server with one Lease, and replicas that it serves slowly, twice, or without an answer.


@dataclass(slots=True)
class Server:
    """The Lease as the API server stores it."""

    stored: Lease | None = None
    version: int = 0

    def write(self, wanted: Lease) -> Lease | None:
        """The stored Lease, None for a conflict."""
        current = self.stored.resource_version if self.stored is not None else ""
        if wanted.resource_version != current:
            return None
        self.version += 1
        self.stored = replace(wanted, metadata={"resourceVersion": str(self.version), "uid": "u"})
        return self.stored


@dataclass(slots=True)
class Replica:
    """A process with clocks of its own, and at most one request under way. It is stopped while it takes no step."""

    election: Election
    clock: float
    """How far its monotonic clock is ahead."""
    steps: Generator[None] = field(init=False)
    """What it does: each step ends where time may pass."""
    lost: list[Lease] = field(default_factory=list)
    """Writes that the API server may still receive."""


class Fate(Enum):
    """What happens in one step of the model."""

    NEXT = "the replica takes its next step"
    LOST = "its request or the answer is lost"
    LATE = "a request that timed out reaches the API server"
    KILLED = "the replica is killed, and another process starts"
    RELEASED = "the replica stops in order, and another process starts"


TIMINGS = (LeaseTiming(), LeaseTiming(lease_duration=30, renew_deadline=25, retry_period=2))


class Model:
    """Some replicas and one API server. `wall_clock` is that of the replica that writes."""

    def __init__(self, offsets: Sequence[float], timings: Sequence[LeaseTiming]) -> None:
        self.time = 0.0
        self.wall_clock = 0.0
        self.server = Server()
        self.started = 0
        self.leaders = 0
        self.replicas = [self._process(offset, timing) for offset, timing in zip(offsets, timings, strict=True)]

    @property
    def writers(self) -> list[str]:
        """The replicas that may write now."""
        return [each.election.identity for each in self.replicas if self._now(each) < each.election.writes_until]

    def step(self, number: int, fate: Fate) -> None:
        replica = self.replicas[number]
        if fate is Fate.NEXT:
            next(replica.steps)
        elif fate is Fate.LOST:
            replica.steps = self._run(replica)
        elif fate is Fate.LATE and replica.lost:
            self.server.write(replica.lost.pop(0))
        elif fate in (Fate.KILLED, Fate.RELEASED):
            released = to_release(replica.election, self.wall_clock) if fate is Fate.RELEASED else None
            if released is not None:
                self.server.write(released)
            self.replicas[number] = self._process(replica.clock, replica.election.timing)
            self.replicas[number].lost = replica.lost

    def _process(self, clock: float, timing: LeaseTiming) -> Replica:
        self.started += 1
        replica = Replica(election=Election(identity=f"process-{self.started}", timing=timing), clock=clock)
        replica.steps = self._run(replica)
        return replica

    def _now(self, replica: Replica) -> float:
        return self.time + replica.clock

    def _run(self, replica: Replica) -> Generator[None]:
        while True:
            replica.election = observe(replica.election, self.server.stored, self._now(replica))
            yield
            while (action := decide(replica.election, self._now(replica))) not in (
                LeaseAction.WAIT,
                LeaseAction.STEP_DOWN,
            ):
                began, request = self._now(replica), to_acquire(replica.election, self.wall_clock)
                replica.lost.append(request)
                yield
                answer = self.server.write(request)
                yield
                if request in replica.lost:
                    replica.lost.remove(request)
                if answer is None:
                    break
                self.leaders += not replica.election.leads
                replica.election = written(replica.election, answer, began)
                yield
            if action is LeaseAction.STEP_DOWN:
                replica.election = stepped_down(replica.election)


REPLICAS = 3
events = st.tuples(
    st.sampled_from([0.0, 0.0, 0.0, 2.0, 5.0, 10.0, 16.0]),
    st.integers(0, REPLICAS - 1),
    st.sampled_from([*[Fate.NEXT] * 16, *Fate]),
    st.floats(-1e8, 1e8),
)


@pytest.mark.exhaustive
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=REPLICAS, max_size=REPLICAS),
    st.lists(st.sampled_from(TIMINGS), min_size=REPLICAS, max_size=REPLICAS),
    st.lists(events, min_size=30, max_size=120),
)
@settings(max_examples=100)
def test_never_two_replicas_may_write_in_whatever_order_things_happen(
    offsets: list[float], timings: list[LeaseTiming], happening: list[tuple[float, int, Fate, float]]
) -> None:
    model = Model(offsets, timings)
    for seconds, number, fate, wall_clock in happening:
        model.time += seconds
        model.wall_clock = WALL_CLOCK + wall_clock
        model.step(number, fate)
        assert len(model.writers) <= 1

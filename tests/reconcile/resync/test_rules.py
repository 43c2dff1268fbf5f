"""When parents resync, and how many applies a second resyncs may take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.reconcile.resync.rules import ResyncBudget, next_resync

intervals = st.floats(0.1, 3600)
moments = st.floats(0, 2e9)


@given(st.uuids(), intervals, moments)
def test_a_resync_is_never_at_once_and_never_much_later_than_the_interval(
    uid: object, interval: float, now: float
) -> None:
    wait = next_resync(str(uid), interval, now) - now
    assert interval * 0.09 <= wait <= interval * 1.11


@given(st.uuids(), moments)
def test_resyncs_follow_one_another_at_the_interval(uid: object, now: float) -> None:
    first = next_resync(str(uid), 10.0, now)
    assert next_resync(str(uid), 10.0, first) == pytest.approx(first + 10.0, abs=1e-3)


def test_resyncs_of_many_parents_are_spread_over_the_interval() -> None:
    due = [next_resync(f"uid-{number}", 10.0, 1e9) - 1e9 for number in range(1000)]
    halves = sum(1 for wait in due if wait < 6)
    assert 400 < halves < 600


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0, 3)), min_size=1, max_size=50), st.floats(0.5, 100))
def test_a_budget_grants_no_more_than_its_rate_after_one_second_of_burst(
    requests: list[tuple[int, float]], rate: float
) -> None:
    budget, now, granted = ResyncBudget[int](rate), 100.0, 0
    for key, (applies, pause) in enumerate(requests):
        now += pause
        budget.ask(key, applies)
        turn = budget.turn(now)
        assert turn is not None
        assert turn[0] == key
        now += turn[1]
        assert granted / rate <= now - 100.0 + 1.0 + 1e-6
        budget.take(key, now)
        granted += applies


def test_an_idle_budget_grants_at_once() -> None:
    budget = ResyncBudget[str](20)
    assert budget.turn(50.0) is None
    budget.ask("a", 3)
    assert budget.turn(50.0) == ("a", 0.0)


def test_the_budget_grants_requests_in_their_order() -> None:
    budget = ResyncBudget[str](1)
    for key in "abca":
        budget.ask(key, 1)
    order = []
    while (turn := budget.turn(1000.0)) is not None:
        order.append(turn[0])
        budget.take(turn[0], 1000.0)
    assert order == ["a", "b", "c"]


def test_a_withdrawn_request_delays_no_other() -> None:
    budget = ResyncBudget[int](20)
    budget.ask(0, 2)
    budget.take(0, 100.0)
    for key in range(1, 1000):
        budget.ask(key, 2)
    assert budget.lag(100.0) == pytest.approx(99.0)
    for key in range(1, 1000):
        budget.withdraw(key)
    budget.ask(1000, 2)
    assert budget.turn(100.0) == (1000, 0.0)
    assert budget.lag(100.0) == 0.0

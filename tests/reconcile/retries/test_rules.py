"""The common limit of retries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.reconcile.retries import RateLimit

RATE = 10.0


@given(st.lists(st.floats(0, 5), min_size=1, max_size=200))
def test_no_second_has_more_turns_than_the_rate_and_those_of_the_idle_time_before(gaps: list[float]) -> None:
    budget, now, turns = RateLimit(RATE), 1000.0, list[float]()
    for gap in gaps:
        now += gap
        turns.append(now + budget.pause(now))
    assert turns == sorted(turns)
    for first, turn in enumerate(turns):
        assert sum(turn <= other < turn + 1.0 - 1e-6 for other in turns[first:]) <= 2 * RATE


def test_a_few_retries_wait_for_nobody() -> None:
    budget = RateLimit(RATE)
    assert [budget.pause(1000.0) for _ in range(10)] == pytest.approx([0.0] * 10, abs=1e-6)
    assert budget.pause(1000.0) == pytest.approx(1 / RATE)
    assert budget.pause(2000.0) == 0.0

"""The limit of log lines that are alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.operator.repeated_lines import KINDS, WINDOW, RepeatedLines


def test_ten_thousand_parents_with_the_same_failure_are_a_hundred_lines_in_each_minute() -> None:
    lines = RepeatedLines(100)
    for minute in range(3):
        found = [lines.count("RenderFailed", minute * WINDOW + number * 0.005) for number in range(10_000)]
        assert sum(logged for logged, _ in found) == 100
        assert [omitted for _, omitted in found].count(1) == 1, "one line reports that there are more"
        assert found[-1] == (False, 9_900)


def test_lines_that_differ_do_not_omit_each_other() -> None:
    lines = RepeatedLines(1)
    assert [lines.count(number, 0.0) for number in range(5)] == [(True, 0)] * 5


def test_the_kinds_of_lines_that_are_remembered_are_bounded() -> None:
    lines = RepeatedLines(1)
    for number in range(10 * KINDS):
        lines.count(number, 0.0)
    assert len(lines._windows) == KINDS


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 100)), max_size=200))
def test_no_window_has_more_lines_than_the_limit(steps: list[tuple[str, int]]) -> None:
    lines, now, logged = RepeatedLines(3), 0.0, list[tuple[str, float]]()
    for alike, pause in steps:
        now += pause
        is_logged, omitted = lines.count(alike, now)
        assert is_logged == (omitted == 0)
        if is_logged:
            logged.append((alike, now))
    for alike in "ab":
        times = [moment for kind, moment in logged if kind == alike]
        # Two windows that follow each other overlap with any other window of their length.
        assert all(sum(start <= each < start + WINDOW for each in times) <= 6 for start in times)

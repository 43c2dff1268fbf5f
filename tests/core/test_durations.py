"""Durations as Go, Kubernetes and people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.core.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("10s", 10),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("1h30m", 5400),
        ("300ms", 0.3),
        ("2us", 2e-6),
        ("2µs", 2e-6),
        ("5ns", 5e-9),
        ("7d", 604800),
        ("1d12h", 129600),
        ("1m1m", 120),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, abs=1e-12)


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "+5s", "5 s", "1h 30m", "1w", "1,5s", "1e3s", ".s", "٣s", "5S"])
def test_what_is_no_duration_is_an_error_that_shows_one(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write one like 500ms, 10s, 1h30m or 7d"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (0.25, "0.25s"), (10, "10s"), (90, "1m30s"), (3600, "1h"), (90061.5, "1d1h1m1.5s")]
)
def test_a_duration_is_written_in_its_largest_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@settings(deadline=None)
@given(st.integers(0, 10**16))
def test_what_is_written_reads_back(nanoseconds: int) -> None:
    seconds = nanoseconds / 1e9
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_what_is_no_length_of_time_is_not_written(seconds: float) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        format_duration(seconds)

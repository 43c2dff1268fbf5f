"""Durations in Go's syntax, and ages in kubectl's."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.objects.durations import age, parse_duration


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
def test_a_text_that_is_no_duration_is_an_error_that_shows_one(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write one like 500ms, 10s, 1h30m or 7d"):
        parse_duration(text)


@settings(deadline=None)
@given(st.integers(0, 10**16))
def test_a_duration_of_several_units_is_read_to_the_nanosecond(nanoseconds: int) -> None:
    seconds, fraction = divmod(nanoseconds, 10**9)
    text = f"{seconds // 86400}d{seconds // 3600 % 24}h{seconds // 60 % 60}m{seconds % 60}.{fraction:09d}s"
    assert parse_duration(text) == pytest.approx(nanoseconds / 1e9, rel=1e-12, abs=1e-9)


MADE = "2026-05-01T12:00:00Z"
DAY = 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        # The cases of k8s.io/apimachinery/pkg/util/duration.
        (-2, "<invalid>"),
        (-1.5, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (1.9, "1s"),
        (70, "70s"),
        (119.9, "119s"),
        (120, "2m"),
        (252, "4m12s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (3 * 3600 + 30 * 60, "3h30m"),
        (7 * 3600 + 59 * 60 + 59, "7h59m"),
        (8 * 3600, "8h"),
        (47 * 3600 + 3599, "47h"),
        (48 * 3600, "2d"),
        (7 * DAY + 23 * 3600, "7d23h"),
        (8 * DAY, "8d"),
        (2 * 365 * DAY - 1, "729d"),
        (2 * 365 * DAY, "2y"),
        (8 * 365 * DAY - 1, "7y364d"),
        (8 * 365 * DAY, "8y"),
        (25 * 365 * DAY, "25y"),
    ],
)
def test_an_age_is_written_as_kubectl_writes_it(seconds: float, text: str) -> None:
    assert age(MADE, datetime.fromisoformat(MADE).timestamp() + seconds) == text


@pytest.mark.parametrize("timestamp", [None, ""])
def test_without_a_timestamp_there_is_no_age(timestamp: str | None) -> None:
    assert age(timestamp, 0) == "<unknown>"

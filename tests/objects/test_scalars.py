"""Times that somebody writes into an object are read without an error."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.objects.readiness import readiness
from ssa_operator.objects.scalars import age, amount, moment_of, parse_duration, seconds_of
from ssa_operator.reconcile.finalization.hooks import _failed_at
from ssa_operator.tools.tree.object_history import unready_since

NO_TIMES = [
    "2026-11-26",
    "2026-11-26T08:00:00",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "2026-02-30T00:00:00Z",
    "2026-11-26T24:00:00Z",
    "2026-11-26T08:00:61Z",
    "2026-11-26T08:00:00+24:00",
    "2026-W48-4T08:00:00Z",
    "٢٠٢٦-11-26T08:00:00Z",
    f"2026-11-26T08:00:00.{'1' * 1000}Z",
    "1" * 1_000_000,
    "",
    None,
    0,
    {"a": 1},
    ["2026-11-26T08:00:00Z"],
]


@pytest.mark.parametrize("value", NO_TIMES, ids=lambda value: str(value)[:30])
def test_what_is_no_time_is_none_and_never_an_error(value: Any) -> None:
    assert moment_of(value) is None
    everywhere(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1),
        ("1970-01-01t01:00:01.5+01:00", 1.5),
        ("1969-12-31T23:00:01-01:00", 1),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1970-01-01T00:00:60Z", 60),
    ],
)
def test_a_time_has_a_moment(text: str, expected: float) -> None:
    assert seconds_of(text) == expected
    everywhere(text)


@given(st.text() | st.from_regex(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", fullmatch=True))
def test_any_text_is_a_comparable_moment_or_none(text: str) -> None:
    moment = moment_of(text)
    assert moment is None or isinstance(moment > datetime(2026, 1, 1, tzinfo=UTC), bool)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_is_read_as_it_is_written(moment: datetime) -> None:
    assert moment_of(moment.isoformat()) == moment


def everywhere(value: Any) -> None:
    """Read a time wherever an object may hold it."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": value}
    for kind, more in (("Pod", condition), ("Job", {"type": "Failed", "status": "True", "lastTransitionTime": value})):
        version = "v1" if kind == "Pod" else "batch/v1"
        metadata = {"name": "a", "creationTimestamp": value}
        body = {"apiVersion": version, "kind": kind, "metadata": metadata, "status": {"conditions": [more, value]}}
        readiness(body, 0.0, reports_status=True)
        unready_since(body)
        unready_since(
            {**body, "metadata": {**metadata, "deletionTimestamp": value, "deletionGracePeriodSeconds": 10**30}}
        )
        _failed_at(body, 0.0)
    for now in (0.0, 1e11):
        assert isinstance(age(value, now), str)


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
        ("2w", 1209600),
        ("1s500ms", 1.5),
        ("1m1m", 120),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, abs=1e-12)


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "+5s", "5 s", "1h 30m", "1y", "1,5s", "1e3s", ".s", "٣s", "5S"])
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


@pytest.mark.parametrize(
    ("one", "other"),
    [("1Gi", "1024Mi"), ("1", "1000m"), ("1k", "1e3"), ("1.5Gi", "1536Mi"), ("2", 2), ("0.5", "500m"), ("1E", "1e18")],
)
def test_two_spellings_of_one_quantity_have_the_same_amount(one: object, other: object) -> None:
    assert amount(one) == amount(other) is not None


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1gi", "Gi", None, True, "1e", "1..2"])
def test_a_text_that_is_no_quantity_has_no_amount(text: object) -> None:
    assert amount(text) is None


@given(st.integers(0, 10**15), st.sampled_from(["Ki", "Mi", "Gi", "Ti"]))
def test_a_larger_suffix_is_a_larger_amount(number: int, suffix: str) -> None:
    assert amount(f"{number}{suffix}") == Decimal(number) * 1024 ** (1 + ["Ki", "Mi", "Gi", "Ti"].index(suffix))

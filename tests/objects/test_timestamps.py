"""Times that somebody writes into an object are read without an error."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.durations import age
from ssa_operator.objects.readiness.rules import readiness
from ssa_operator.objects.readiness.transition_times import unready_since
from ssa_operator.objects.timestamps import moment_of, seconds_of
from ssa_operator.reconcile.finalization.hooks import _failed_at

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

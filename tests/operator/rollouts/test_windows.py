"""The windows in which waves may begin."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ssa_operator.objects.rollout_settings import Window
from ssa_operator.operator.rollouts.windows import is_open, next_opening
from ssa_operator.rendering.folder.folder_settings import parse_settings


def window(schedule: str, duration: str, zone: str = "UTC") -> Window:
    text = f"rollout: {{window: {{schedule: '{schedule}', duration: {duration}, timeZone: {zone}}}}}"
    rollout = parse_settings("_settings.yaml", text).rollout
    assert rollout is not None
    assert rollout.window is not None
    return rollout.window


@pytest.mark.parametrize(
    ("schedule", "duration", "moment", "opens"),
    [
        ("0 2 * * *", "4h", "2026-01-05 02:00:00", True),
        ("0 2 * * *", "4h", "2026-01-05 05:59:59", True),
        ("0 2 * * *", "4h", "2026-01-05 06:00:00", False),
        ("0 2 * * *", "4h", "2026-01-05 01:59:59", False),
        ("0 22 * * 5", "8h", "2026-01-10 05:00:00", True),  # a Saturday
        ("0 22 * * 5", "8h", "2026-01-11 05:00:00", False),
        ("0 0 * * 0,7", "1d", "2026-01-11 12:00:00", True),
        ("*/30 * * * *", "1m", "2026-01-05 10:30:59", True),
        ("*/30 * * * *", "1m", "2026-01-05 10:31:00", False),
        ("0 0 13 * 5", "1h", "2026-02-13 00:30:00", True),
        ("0 0 13 * 5", "1h", "2026-02-20 00:30:00", True),  # cron takes either day
        ("0 0 13 * 5", "1h", "2026-02-21 00:30:00", False),
        ("0 0 1-7/2 3 *", "1h", "2026-03-03 00:30:00", True),
        ("0 0 1-7/2 3 *", "1h", "2026-03-04 00:30:00", False),
    ],
)
def test_a_window_is_open_from_each_start_for_its_duration(
    schedule: str, duration: str, moment: str, opens: bool
) -> None:
    for zone in ("UTC", "America/New_York"):
        now = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone)).timestamp()
        assert is_open(window(schedule, duration, zone), now) is opens


@pytest.mark.parametrize(
    ("schedule", "zone", "moment", "opens"),
    [
        ("0 2 * * 1-5", "UTC", "2026-01-02T06:00+00:00", "2026-01-05T02:00+00:00"),  # from Friday to Monday
        ("0 2 * * *", "Europe/Berlin", "2026-01-05T01:30+00:00", ""),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T00:00+00:00", "2026-03-30T02:30+02:00"),  # 02:30 is skipped
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00+02:00", "2026-10-25T02:30+02:00"),
        ("0 0 29 2 *", "UTC", "2096-03-01T00:00+00:00", "2104-02-29T00:00+00:00"),
        ("0 0 31 2 *", "UTC", "2026-01-05T00:00+00:00", "never"),
    ],
)
def test_the_next_opening_of_a_window_is_known(schedule: str, zone: str, moment: str, opens: str) -> None:
    now = datetime.fromisoformat(moment).timestamp()
    assert next_opening(window(schedule, "1h", zone), now) == opens

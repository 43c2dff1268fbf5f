"""The setting `rollout` of a folder."""

from __future__ import annotations

import pytest

from ssa_operator.objects.rollout_settings import Batch, Canary, RolloutSettings
from ssa_operator.rendering.folder.folder_settings import parse_settings
from ssa_operator.rendering.yaml.nodes import DocumentError

WHOLE = """\
rollout:
  canary: {selector: {matchLabels: {tier: canary}}, count: 2}
  batch: 25%
  settle: 1m
  maxUnready: 1
  maxPrune: 5
"""


def test_the_setting_has_defaults_and_all_of_it_can_be_set() -> None:
    assert parse_settings("_settings.yaml", "interval: 5s").rollout is None
    default = parse_settings("_settings.yaml", "rollout: {}").rollout
    assert default == RolloutSettings(canary=Canary(), batch=Batch(10, percent=True), settle=30.0)
    whole = parse_settings("_settings.yaml", WHOLE).rollout
    assert whole == RolloutSettings(
        canary=Canary(selector={"matchLabels": {"tier": "canary"}}, count=2),
        batch=Batch(25, percent=True),
        settle=60.0,
        max_unready=1,
        max_prune=5,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rollout: true", "rollout must be a mapping of canary, batch"),
        ("rollout:\n  bach: 3", "rollout.bach is not a setting; did you mean batch?"),
        ("rollout:\n  batch: 0%", "rollout.batch must be a number of parents from 1, or a percentage"),
        ("rollout:\n  batch: 1.5", "rollout.batch must be a number of parents from 1, or a percentage"),
        ("rollout:\n  settle: soon", "rollout.settle is no duration: 'soon' is not a duration"),
        ("rollout:\n  maxUnready: -1", "rollout.maxUnready must be a whole number from 0"),
        ("rollout:\n  canary: {count: 0}", "rollout.canary.count must be a whole number from 1"),
        ("rollout:\n  canary: {selector: {app: x}}", "rollout.canary.selector has the field app"),
        ("rollout:\n  window: {duration: 1h}", "rollout.window has no schedule"),
        ("rollout:\n  window: {schedule: '0 2 * *', duration: 1h}", "must have the five fields of cron"),
        ("rollout:\n  window: {schedule: '0 24 * * *', duration: 1h}", "has the hour 24"),
        ("rollout:\n  window: {schedule: '0 2 * * *', duration: 8d}", "rollout.window.duration must be from 1m to 7d"),
        (
            "rollout:\n  window: {schedule: '0 2 * * *', duration: 1h, timeZone: Moon}",
            "rollout.window.timeZone must be a time zone",
        ),
    ],
)
def test_a_mistake_names_its_field_and_line(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as raised:
        parse_settings("things.example.com/_settings.yaml", text)
    assert message in str(raised.value)
    assert raised.value.location.line == text.count("\n") + 1

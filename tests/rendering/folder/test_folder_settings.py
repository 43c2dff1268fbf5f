"""The resources that have a template folder, and their settings, without compiled templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.objects.rollout_settings import Batch, Canary, RolloutSettings
from ssa_operator.rendering.folder.folder_settings import DEFAULT, parse_settings, read_resource_settings
from ssa_operator.rendering.folder.loaded_folders import load_all
from ssa_operator.rendering.yaml.nodes import DocumentError
from tests.operator.harness import ROOT


def test_the_settings_are_those_that_the_operator_loads(tmp_path: Path) -> None:
    for name, text in {
        "things.example.com/_settings.yaml": "clusterScope: true\n",
        "things.example.com/a.yaml.j2": "",
        "broken.example.com/a.yaml.j2": "{% if %}",
        "invalid.example.com/_settings.yaml": "clusterScope: 1\n",
        "_shared/a.yaml.j2": "",
        "Wrong/a.yaml": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    roots = [tmp_path, ROOT / "templates"]
    loaded = {name: folder.settings for name, folder in load_all(roots).folders.items()}
    assert read_resource_settings(roots) == loaded
    assert loaded["things.example.com"].cluster_scope
    assert loaded["invalid.example.com"] == DEFAULT


def test_a_resource_in_two_templates_folders_has_the_default(tmp_path: Path) -> None:
    for root in ("a", "b"):
        folder = tmp_path / root / "things.example.com"
        folder.mkdir(parents=True)
        (folder / "_settings.yaml").write_text("clusterScope: true\n")
    roots = [tmp_path / "a", tmp_path / "b"]
    assert read_resource_settings(roots) == {"things.example.com": DEFAULT}
    assert load_all(roots).folders["things.example.com"].settings == DEFAULT


def test_a_templates_folder_that_does_not_exist_has_no_resources(tmp_path: Path) -> None:
    assert read_resource_settings([tmp_path / "missing"]) == {}


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

"""An operator that dies at any write of a rollout goes on: each parent gets the set once, and never the former one, and
the history says that it succeeded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator import operator as operators
from ssa_operator.operator.rollouts.revisions import KEPT, RESULT_ANNOTATION, REVISIONS
from ssa_operator.rendering.folder.installation import Installation
from tests.operator.harness import Desk, MakeOptions
from tests.operator.rollouts.test_rollouts import Story, child
from tests.reconcile.test_crashes import Crash, crashing_operators

pytestmark = pytest.mark.cluster

WRITES = {6: 30, 20: 86}
"""Writes of a rollout at least: four for each parent (record, child, status, record), and six of the state."""

STRIDE = 6


@pytest.mark.parametrize(
    ("parents", "after", "first"),
    [
        pytest.param(6, False, 2, id="before some"),
        pytest.param(6, True, 2, id="after some", marks=pytest.mark.exhaustive),
        *(pytest.param(20, False, first, id=f"20 from {first}", marks=pytest.mark.exhaustive) for first in range(1, 7)),
    ],
)
async def test_after_a_crash_at_any_write_each_parent_gets_the_set_once(
    desk: Desk,
    cluster: Cluster,
    options: MakeOptions,
    group: str,
    namespace: str,
    tmp_path: Path,
    parents: int,
    after: bool,
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "DRAIN_DEADLINE", 0.0)
    story = Story(desk, f"things.{group}", tmp_path / "rolled", parents)
    story.write(child("'0'"))
    await story.create_parents()
    back: list[str] = []

    def watch(old: LiveObject | None, new: LiveObject | None) -> None:
        if old is not None and new is not None and int(new.body["data"]["text"]) < int(old.body["data"]["text"]):
            back.append(new.identity.name)

    crash = Crash(0, after)
    made = options(templates=story.templates, installation=Installation(namespace=namespace))
    async with crashing_operators(cluster, made, crash):
        await story.until_all_have("0")
        await story.until_stored('"successes":[')
        (await desk.view("configmaps")).cache.listen(watch)
        for number, at in enumerate(range(first, WRITES[parents], STRIDE), 1):
            crash.at = crash.writes + at
            story.write(child(f"'{number}'"))
            await story.until_all_have(str(number))
            assert (await story.rollout("status"))[0] == 0
            assert crash.writes >= crash.at, "the operator did not crash"
            assert await results(desk) == ["Succeeded"] * min(number, KEPT)
    assert not back, "a parent gets the former set again"


async def results(desk: Desk) -> list[str]:
    """What became of the revisions, as the history shows it. That of the first one is never known."""
    lives, _ = await desk.client.list(REVISIONS, desk.namespace)
    texts = (live.metadata.annotations.get(RESULT_ANNOTATION) for live in lives)
    return [json.loads(text)["result"] for text in texts if text is not None]

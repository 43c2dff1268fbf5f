"""Crashes and stale views at some points of one story. `python -m tests.perturbations` plays all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.operator import operator
from tests.examples.example_catalog import NAMES
from tests.perturbations.matrix import play_story, prepared
from tests.perturbations.perturbation import Kind, Perturbation
from tests.perturbations.play import REST, play_unperturbed
from tests.perturbations.record import Record
from tests.perturbations.stories import stories

KINDS = [Kind.CRASH, Kind.STALE]
STATES = ["shared objects", "rollout", "deletions that no operator saw", "two versions"]


def some(every: Sequence[Perturbation]) -> Sequence[Perturbation]:
    """Four points, from the first to the last part of a story."""
    return every[:: max(1, len(every) // 4)][:4]


def test_every_example_has_a_story(tmp_path: Path) -> None:
    assert {*NAMES} <= {story.name for story in stories(tmp_path)}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", ["service-index", *STATES])
async def test_a_perturbed_story_ends_as_an_undisturbed_one(
    name: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "DRAIN_DEADLINE", 0.0)
    (story,) = (each for each in stories(tmp_path) if each.name == name)
    async with prepared(cluster, [story]) as client:
        limit, record = asyncio.Semaphore(4), Record()
        rows = await play_story(story, cluster, client, tmp_path, KINDS, limit, record, choose=some)
    outcomes = [outcome for row in rows for outcome in row.outcomes]
    assert len(outcomes) == 4 * len(KINDS)
    assert any(outcome.played for outcome in outcomes)
    assert [outcome for outcome in outcomes if outcome.problem] == []


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
async def test_at_rest_no_request_goes_out(
    name: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "DRAIN_DEADLINE", 0.0)
    (story,) = (each for each in stories(tmp_path) if each.name == name)
    async with prepared(cluster, [story]) as client:
        _, run = await play_unperturbed(story, cluster, client, tmp_path, REST)
    assert run.at_rest == []

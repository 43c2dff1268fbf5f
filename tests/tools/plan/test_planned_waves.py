"""The words of a plan about the waves of a rollout."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ssa_operator.objects.rollout_settings import Batch, Canary, RolloutSettings
from ssa_operator.operator.rollouts.rules import Member
from ssa_operator.tools.plan.plan_summary import PlannedWaves

SETTINGS = RolloutSettings()
CANARIES = Canary(selector={"matchLabels": {"tier": "canary"}}, count=None)


def members(count: int, *, suspended: int = 0, canaries: int = 0) -> list[Member]:
    return [
        Member(
            uid=f"uid-{number}",
            name=f"p{number}",
            labels={"tier": "canary"} if number < canaries else {},
            suspended=number >= count,
        )
        for number in range(count + suspended)
    ]


@pytest.mark.parametrize(
    ("waves", "words"),
    [
        (PlannedWaves(SETTINGS, members(30)), "canary 1, then 10 batches of at most 3"),
        (PlannedWaves(SETTINGS, members(1)), "canary 1"),
        (PlannedWaves(SETTINGS, members(2, suspended=8)), "canary 1, then 1 batch of at most 1"),
        (
            PlannedWaves(replace(SETTINGS, canary=CANARIES, batch=Batch(5)), members(13, canaries=3)),
            "canaries 3, then 2 batches of at most 5",
        ),
        (
            PlannedWaves(SETTINGS, members(2), recreated=3),
            "canary 1, then 1 batch of at most 1; 3 recreations, more than maxPrune (0): it waits for `rollout resume`",
        ),
        (
            PlannedWaves(replace(SETTINGS, max_prune=4), members(2), recreated=3, pruned=1),
            "canary 1, then 1 batch of at most 1; 1 deletion and 3 recreations",
        ),
    ],
)
def test_a_plan_says_in_which_waves_a_change_reaches_the_parents(waves: PlannedWaves, words: str) -> None:
    assert str(waves) == words

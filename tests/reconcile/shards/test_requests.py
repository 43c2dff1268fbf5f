"""What a shard asks of the parents above a parent that other shards reconcile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import cast

import pytest

from ssa_operator.kube.api.errors import Unreachable
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import PARENT_UID_LABEL
from ssa_operator.reconcile.nested_parents import Ancestors, OtherParent
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.shards.other_shards import OtherShards, with_ancestors_in_other_shards
from tests.objects.example_objects import observed, parent


def named(name: str) -> Identity:
    return Identity("example.com", "Echo", "default", name)


class Others:
    """The parents of other shards, those whose name begins with `o`. It remembers what it was asked for."""

    def __init__(self, **creators: str) -> None:
        self.creators = creators
        self.asked: list[str] = []
        self.fails = False

    def their_uids(self, uids: Iterable[str]) -> frozenset[str]:
        return frozenset(uid for uid in uids if uid.startswith("o"))

    async def existing(self, uids: AbstractSet[str]) -> Mapping[str, OtherParent]:
        self.asked += uids
        if self.fails:
            raise Unreachable("GET /", "the connection broke", sent=True)
        return {uid: OtherParent(named(uid), self.creators[uid]) for uid in uids if uid in self.creators}


async def seen(others: Others, creator: str, max_depth: int = 8) -> Observed:
    """What is known of a parent with that creator. This shard reconciles `a`, which `o1` created, and `b`."""
    parents = {"a": named("a"), "b": named("b")}
    claims = ObjectClaims(parents, lambda: True, lambda _: None, {"a": "o1"})
    live = parent(labels={PARENT_UID_LABEL: creator})
    before = observed(parent=live, ancestors=claims.ancestors(live), max_depth=max_depth)
    return await with_ancestors_in_other_shards(before, claims, cast("OtherShards", others))


async def test_the_parents_above_are_asked_for_one_by_one_whichever_shard_has_them() -> None:
    others = Others(o2="a", o1="b")
    found = (await seen(others, "o2")).parents.ancestors
    assert found == Ancestors(line=(named("b"), named("o1"), named("a"), named("o2")))
    assert others.asked == ["o2", "o1"]


@pytest.mark.parametrize(("creator", "asked"), [("b", []), ("c", []), ("", []), ("o3", ["o3"])])
async def test_a_parent_that_is_gone_or_that_no_other_shard_has_ends_the_line(creator: str, asked: list[str]) -> None:
    others = Others()
    found = await seen(others, creator)
    assert found.parents.ancestors.missing == (creator if creator in {"c", "o3"} else "")
    assert found.parents.all_parents_known
    assert others.asked == asked


async def test_no_more_parents_are_asked_for_than_the_limit_of_nesting_counts_even_in_a_circle() -> None:
    endless = Others(**{f"o{number}": f"o{number + 1}" for number in range(99)})
    assert len((await seen(endless, "o0", max_depth=3)).parents.ancestors.line) == len(endless.asked) == 3
    circle = Others(o0="o3", o3="o0")
    assert len((await seen(circle, "o0")).parents.ancestors.line) == len(circle.asked) == 2


async def test_an_error_leaves_the_parents_above_unknown() -> None:
    others = Others()
    others.fails = True
    assert not (await seen(others, "o2")).parents.all_parents_known

"""Writes of an object that several parents share take turns, and no parent waits for a long one."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ssa_operator.informers import child_caches
from ssa_operator.informers.child_caches import ChildCaches, ChildListener
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.identity import Identity

SHARED = Identity("", "ConfigMap", "default", "common")


class _Requeued:
    """The parents that a turn that is over requeues."""

    def __init__(self) -> None:
        self.uids: list[str] = []

    def child_changed(self, parent_uid: str, _namespace: str) -> None:
        self.uids.append(parent_uid)


def caches(requeued: _Requeued) -> ChildCaches:
    return ChildCaches(cast("RESTMapper", None), cast("ChildListener", requeued))


async def test_turns_that_are_short_follow_each_other() -> None:
    requeued, order = _Requeued(), list[str]()
    children = caches(requeued)

    async def write(uid: str) -> None:
        async with children.shared_turn(SHARED, uid) as granted:
            assert granted
            await asyncio.sleep(0)
            order.append(uid)

    await asyncio.gather(*map(write, "abc"))
    assert order == ["a", "b", "c"]
    assert requeued.uids == []


async def test_a_parent_gives_up_a_long_turn_and_is_requeued_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    requeued = _Requeued()
    children = caches(requeued)
    async with children.shared_turn(SHARED, "a"):
        monkeypatch.setattr(child_caches, "TURN_WAIT", 0.0)
        for uid in "bc":
            async with children.shared_turn(SHARED, uid) as granted:
                assert not granted
        assert requeued.uids == []
    assert requeued.uids == ["b"]
    # Its turn is over before the next one is requeued, however often that one has asked meanwhile.
    async with children.shared_turn(SHARED, "b") as granted:
        assert granted
    assert requeued.uids == ["b", "c"]

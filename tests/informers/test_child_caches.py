"""What all kinds of children have in common: the turns to write a shared object, and which objects were deleted."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ssa_operator.informers import child_caches
from ssa_operator.informers.child_caches import ChildCaches, ChildListener
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from tests.objects.example_objects import child

SHARED = Identity("", "ConfigMap", "default", "common")


class _Requeued:
    """The parents that a turn that is over requeues."""

    def __init__(self) -> None:
        self.uids: list[str] = []

    def child_changed(self, parent_uid: str, _namespace: str) -> None:
        self.uids.append(parent_uid)

    def child_deleted(self, live: LiveObject) -> None:
        pass

    def child_written(self, live: LiveObject) -> None:
        pass


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


async def test_a_parent_that_gave_up_a_turn_has_the_next_one_however_often_others_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child_caches, "TURN_WAIT", 0.0)
    requeued, order = _Requeued(), list[str]()
    children = caches(requeued)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def write(uid: str, *, patient: bool = False) -> None:
        async with children.shared_turn(SHARED, uid, patient=patient) as granted:
            order.append(uid if granted else f"not {uid}")
            begun.set()
            await ended.wait()

    async with children.shared_turn(SHARED, "a"):
        # There is always another one.
        other = asyncio.create_task(write("b", patient=True))
        async with children.shared_turn(SHARED, "c") as granted:
            assert not granted
    assert requeued.uids == ["c"]
    await begun.wait()
    late = [asyncio.create_task(write("c")), asyncio.create_task(write("a"))]
    await asyncio.sleep(0)
    ended.set()
    await asyncio.gather(other, *late)
    assert order == ["b", "not a", "c"]


def test_an_object_counts_as_deleted_until_something_shows_it_again() -> None:
    children, live = caches(_Requeued()), child()
    assert not children.was_deleted(live.identity)
    children.deleted(live)
    assert children.was_deleted(live.identity)
    children.written(live)
    assert not children.was_deleted(live.identity)

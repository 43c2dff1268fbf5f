"""Slow renders one after the other, with the event loop between them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pytest

from ssa_operator.controller.reconcile import render_turns
from ssa_operator.controller.reconcile.render_turns import RenderTurns


async def renders_and_reads(turns: RenderTurns, folders: Sequence[str]) -> str:
    """The order of renders (`-`) and of what the event loop reads (the folder's first letter) if one reconcile of each
    folder begins in the same turn of the loop.
    """
    done = list[str]()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, lambda: done.append(ours.recv(1).decode()))

        async def reconcile(folder: str) -> None:
            async with turns.turn(folder, "digest"):
                done.append("-")
                theirs.send(folder[0].encode())

        await asyncio.gather(*map(reconcile, folders))
        loop.remove_reader(ours)
    return "".join(done)


async def test_the_event_loop_reads_its_sockets_between_two_slow_renders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_turns, "SLOW", 0.0)
    found = await renders_and_reads(RenderTurns(), ["echoes.example.com"] * 3)
    assert found[:5] == "-e-e-"


async def test_the_event_loop_reads_its_sockets_between_the_first_slow_renders_of_two_folders() -> None:
    moment, duration = 0.0, 0.0

    def clock() -> float:
        nonlocal moment
        moment += duration
        return moment

    folders, turns = ["a.example.com", "b.example.com", "c.example.com"], RenderTurns(clock)
    for folder in folders:
        async with turns.turn(folder, "digest"):
            pass
    duration = 1.0
    assert (await renders_and_reads(turns, folders))[:5] == "-a-b-"


async def test_a_fast_render_does_not_wait_for_a_slow_one_of_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_turns, "SLOW", float("inf"))
    turns, done = RenderTurns(), list[str]()
    async with turns.turn("fast.example.com", "digest"):
        pass

    async def reconcile(folder: str) -> None:
        async with turns.turn(folder, "digest"):
            done.append(folder)

    slow = asyncio.create_task(reconcile("new.example.com"))
    await asyncio.sleep(0)
    await reconcile("fast.example.com")
    assert done == ["fast.example.com"]
    await slow


async def test_new_templates_count_as_slow_until_their_first_render(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_turns, "SLOW", float("inf"))
    turns = RenderTurns()
    for digest, waits in (("old", True), ("old", False), ("new", True), ("new", False)):
        turn = turns.turn("echoes.example.com", digest)
        entering = asyncio.create_task(turn.__aenter__())
        await asyncio.sleep(0)
        assert entering.done() is not waits
        await entering
        await turn.__aexit__(None, None, None)

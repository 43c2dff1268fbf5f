"""Slow renders one after the other, with the event loop between them."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ssa_operator.controller.reconcile import render_turns
from ssa_operator.controller.reconcile.render_turns import RenderTurns


async def test_the_event_loop_reads_its_sockets_between_two_slow_renders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_turns, "SLOW", 0.0)
    turns, done = RenderTurns(), list[str]()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        loop = asyncio.get_running_loop()

        def read() -> None:
            done.append(ours.recv(1).decode())

        loop.add_reader(ours, read)

        async def reconcile(name: str) -> None:
            async with turns.turn("echoes.example.com", "digest"):
                done.append("render")
                theirs.send(name.encode())

        await asyncio.gather(*map(reconcile, "abc"))
        loop.remove_reader(ours)
    assert "".join(done).replace("render", "-")[:5] == "-a-b-"


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

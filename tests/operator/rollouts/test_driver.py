"""The driver of rollouts without a cluster."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.rollout_settings import RolloutSettings
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.rollouts import driver
from ssa_operator.operator.rollouts.driver import Rollouts
from ssa_operator.operator.rollouts.rules import Decision, Member, decide, first_state, place_of, with_loaded
from ssa_operator.rendering.folder.folder_settings import Settings
from ssa_operator.rendering.folder.loaded_folders import Folder


async def test_the_plan_of_one_folder_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, never = asyncio.Event(), asyncio.Event()

    async def nothing(*_: Any) -> None: ...

    async def step(_: Rollouts, name: str, _known: object) -> None:
        if name == "slow.example.com":
            await never.wait()
        ended.set()

    monkeypatch.setattr(Rollouts, "_step", step)
    monkeypatch.setattr(Rollouts, "_watch", nothing)
    client: Any = SimpleNamespace(credentials=SimpleNamespace(namespace="system"))
    unused: Any = None
    rollouts = Rollouts(client, Options(), {}, unused, unused, unused, unused, SYSTEM)
    for resource in ("slow", "other"):
        settings = Settings(rollout=RolloutSettings())
        await rollouts.prepare(Folder(resource=resource, group="example.com", files={}, settings=settings))
    running = asyncio.create_task(rollouts.run(asyncio.create_task(nothing())))
    async with asyncio.timeout(60):
        await ended.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_look_at_all_parents_leaves_the_event_loop_to_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    others, states = threading.Event(), []

    def look(*arguments: Any, **named: Any) -> Decision:
        assert others.wait(60), "no other task has a turn"
        return decide(*arguments, **named)

    async def members(*_: object) -> list[Member]:
        return [Member(uid="a", ready=True, runs="old", revision="old")]

    async def change(_: Rollouts, _name: str, _known: object, change: Any) -> None:
        states.append(change(state))

    monkeypatch.setattr(driver, "decide", look)
    monkeypatch.setattr(Rollouts, "_members", members)
    monkeypatch.setattr(Rollouts, "_change", change)
    client: Any = SimpleNamespace(credentials=SimpleNamespace(namespace="system"))
    unused: Any = None
    folder = Folder(resource="things", group="example.com", files={}, templates=unused)
    state = replace(with_loaded(first_state("old"), "new"), planned="new")
    known = driver.Followed(folder, folder, state=state, compiled={"new": replace(folder, templates=client)})
    rollouts = Rollouts(client, Options(), {}, unused, unused, unused, unused, SYSTEM)
    looking = asyncio.create_task(rollouts._decide(folder.name, known, unused, RolloutSettings()))
    while not looking.done():
        others.set()
        await asyncio.sleep(0)
    await looking
    assert [each.wave for each in states] == [(place_of("a"),)]

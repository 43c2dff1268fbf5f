"""The rollouts of a process without a cluster."""

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
from ssa_operator.operator.rollouts import folder_rollout
from ssa_operator.operator.rollouts.driver import Rollouts
from ssa_operator.operator.rollouts.folder_rollout import FolderRollout, Process
from ssa_operator.operator.rollouts.rules import Decision, Member, decide, first_state, place_of, with_loaded
from ssa_operator.rendering.folder.folder_settings import Settings
from ssa_operator.rendering.folder.loaded_folders import Folder

ANY: Any = SimpleNamespace(credentials=SimpleNamespace(namespace="system"))


def process() -> Process:
    return Process(client=ANY, options=Options(), folders={}, requeue=ANY, recorder=ANY, plan=ANY, clock=SYSTEM)


def folder(resource: str) -> Folder:
    settings = Settings(rollout=RolloutSettings())
    return Folder(resource=resource, group="example.com", files={}, settings=settings, templates=ANY)


async def test_the_plan_of_one_folder_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, never = asyncio.Event(), asyncio.Event()

    async def nothing(*_: Any) -> None: ...

    async def step(rollout: FolderRollout) -> None:
        if rollout.name == "slow.example.com":
            await never.wait()
        ended.set()

    monkeypatch.setattr(FolderRollout, "_step", step)
    monkeypatch.setattr(Rollouts, "_watch", nothing)
    rollouts = Rollouts(process(), ANY)
    for resource in ("slow", "other"):
        await rollouts.prepare(folder(resource))
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

    async def change(_: FolderRollout, change: Any) -> None:
        states.append(change(state))

    monkeypatch.setattr(folder_rollout, "decide", look)
    monkeypatch.setattr(FolderRollout, "_members", members)
    monkeypatch.setattr(FolderRollout, "_change", change)
    state, loaded = replace(with_loaded(first_state("old"), "new"), planned="new"), folder("things")
    rollout = FolderRollout(process=process(), newest=loaded, first=loaded, state=state, compiled={"new": loaded})
    looking = asyncio.create_task(rollout._decide(ANY, RolloutSettings()))
    while not looking.done():
        others.set()
        await asyncio.sleep(0)
    await looking
    assert [each.wave for each in states] == [(place_of("a"),)]

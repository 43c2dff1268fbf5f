"""The driver of rollouts without a cluster."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.rollout_settings import RolloutSettings
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.rollouts.driver import Rollouts
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

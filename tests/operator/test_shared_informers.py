"""What a command or the plan of a rollout watches ends with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.shared_informers import SharedInformers
from tests.operator.harness import MakeOptions

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("slow", ["CRDs", "the first folder's parents"])
async def test_no_watch_is_left_if_its_user_is_cancelled_while_another_watch_ends(
    client: Client, options: MakeOptions, templates: Path, slow: str
) -> None:
    """The plan of a rollout, for example, is cancelled by a newer set of templates."""
    (templates / "secrets").mkdir()
    (templates / "secrets" / "map.yaml.j2").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    mapper = RESTMapper(client)
    shared = SharedInformers(client, mapper, options(), Metrics(), Queue[ParentKey](SYSTEM.monotonic))
    leave, ending = asyncio.Event(), asyncio.Event()

    async def end_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.Event().wait()

    async def use() -> None:
        async with shared.synced(mapper):
            if slow != "CRDs":
                first, *_ = shared.controllers.folders.values()
                first.tasks.append(asyncio.create_task(end_slowly()))
                await asyncio.sleep(0)  # it begins
            await leave.wait()

    if slow == "CRDs":
        watch = shared.controllers.crds.reflector.run

        async def watch_and_end_slowly() -> None:
            await asyncio.gather(watch(), end_slowly())

        shared.controllers.crds.reflector.run = watch_and_end_slowly  # type: ignore[method-assign]
    user = asyncio.create_task(use())
    await shared.controllers.synced_or_unavailable()
    watches = shared.controllers.watch_tasks
    assert len(watches) > 1
    leave.set()
    await ending.wait()
    user.cancel()
    await asyncio.wait([user])
    assert [task.get_name() for task in watches if not task.done()] == []

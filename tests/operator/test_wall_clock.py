"""An operator whose wall clock is set back by an hour: nothing that measures an elapsed time waits for it."""

from __future__ import annotations

import asyncio

import pytest

from ssa_operator.objects.causes import Cause
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    Desk,
    Operate,
    Running,
    echo,
    holds,
    map_template,
    only,
    ready_condition,
)
from tests.operator.wall_clock import SteppingClock

pytestmark = pytest.mark.cluster

HOUR = 3600.0


async def resynced(running: Running, more: int) -> None:
    """Return once so many further resyncs have begun."""
    running.forget()
    async with asyncio.timeout(PATIENCE / 3):
        while sum(causes == Cause.RESYNC for _, causes in running.reconciles) < more:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.more_cases
@pytest.mark.parametrize("stepped", [-HOUR, HOUR])
async def test_resyncs_go_on(desk: Desk, operate: Operate, clock: SteppingClock, stepped: float) -> None:
    async with operate(resync_rate=50.0, interval=0.3) as running:
        only(running.templates, a=map_template("map", x="1"))
        await desk.apply_until_ready(echo("web"))
        await resynced(running, 3)
        clock.stepped = stepped
        await resynced(running, 10)


async def test_a_field_conflict_is_reverted_as_fast_as_before(
    desk: Desk, operate: Operate, clock: SteppingClock
) -> None:
    async with operate() as running:
        only(running.templates, a=map_template("map", x="1"))
        await desk.apply_until_ready(echo("web"))
        for number in range(8):
            await desk.patch("configmap", "web-map", data={"x": f"other {number}"})
            if ready_condition(await desk.read(ECHOES, "web")).get("reason") == "Conflict":
                break
            await desk.until("configmaps", "web-map", holds(x="1"))
        await desk.until(ECHOES, "web", lambda body: ready_condition(body).get("reason") == "Conflict")
        clock.stepped = -HOUR
        # A reconcile for another reason must not extend the pause.
        await desk.patch("echo", "web", metadata={"labels": {"touched": "yes"}})
        await desk.until("configmaps", "web-map", holds(x="1"))

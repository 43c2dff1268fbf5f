"""What a reconcile leaves to Python's garbage collector, whose pauses would delay the reconciles of others."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from pathlib import Path

import pytest

from ssa_operator.controller.permission_review import PermissionReviewer
from tests.controller.harness import ECHOES, Desk, Operate, echo, holds, map_template, only

pytestmark = pytest.mark.cluster


async def test_a_reconcile_leaves_nothing_of_the_operator_in_reference_cycles(
    desk: Desk, operate: Operate, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The review reads each set of templates once, in a thread, whenever the operator has nothing more urgent.
    monkeypatch.setattr(PermissionReviewer, "run", _not_running)
    only(templates, a=map_template("a", v="spec.replicas | string"))
    async with operate() as running:
        await desk.apply_until_ready(echo("web", 1))
        await running.reconciled(1)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for replicas in (2, 3, 4):
                await desk.apply(echo("web", replicas))
                await desk.until("configmaps", "web-a", holds(v=str(replicas)))
            await desk.ready(ECHOES, "web")
            gc.collect()
            left = Counter(type(each).__qualname__ for each in gc.garbage if _is_own(each))
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert left == Counter()


async def _not_running(_: PermissionReviewer) -> None:
    await asyncio.Event().wait()


def _is_own(each: object) -> bool:
    return type(each).__module__.startswith("ssa_operator.")

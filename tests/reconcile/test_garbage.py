"""What a reconcile leaves to Python's garbage collector, whose pauses would delay the reconciles of others."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.operator.permissions.requests import PermissionReviewer
from ssa_operator.operator.queue import FEW_DEADLINES
from ssa_operator.reconcile import reconciler
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.status.report import Report
from ssa_operator.reconcile.status.requests import publish
from tests.operator.harness import ECHOES, Desk, Operate, echo, holds, map_template, only

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def no_review(monkeypatch: pytest.MonkeyPatch) -> None:
    # The review reads each set of templates once, in a thread, whenever the operator has nothing more urgent.
    monkeypatch.setattr(PermissionReviewer, "run", _not_running)


async def _not_running(_: PermissionReviewer) -> None:
    await asyncio.Event().wait()


@contextmanager
def counted_garbage() -> Iterator[Counter[str]]:
    """Counts, when it ends, the operator's objects in reference cycles since it began, by the names of their types."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.update(type(each).__qualname__ for each in gc.garbage if _is_own(each))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _is_own(each: object) -> bool:
    return type(each).__module__.startswith("ssa_operator.")


async def test_a_reconcile_leaves_nothing_of_the_operator_in_reference_cycles(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=map_template("a", v="spec.replicas | string"))
    async with operate() as running:
        await desk.apply_until_ready(echo("web", 1))
        await running.reconciled(1)
        with counted_garbage() as left:
            for replicas in (2, 3, 4):
                await desk.apply(echo("web", replicas))
                await desk.until("configmaps", "web-a", holds(v=str(replicas)))
            await desk.ready(ECHOES, "web")
    assert left == Counter()


async def test_a_reconcile_that_ends_with_an_error_leaves_nothing_in_reference_cycles(
    desk: Desk, operate: Operate, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    async def conflicting(reconcile: Reconcile, report: Report) -> Report:
        if not refused:
            refused.append(reconcile.parent.live.identity.name)
            raise ApiError("apply of the status", ErrorStatus(code=409, reason="Conflict", message="changed"))
        return await publish(reconcile, report)

    only(templates, a=map_template("a", v="spec.replicas | string"))
    async with operate() as running:
        await desk.apply_until_ready(echo("web", 1))
        await running.reconciled(1)
        monkeypatch.setattr(reconciler, "publish", conflicting)
        with counted_garbage() as left:
            await desk.apply(echo("web", 2))
            await desk.until("configmaps", "web-a", holds(v="2"))
            await desk.ready(ECHOES, "web")
    assert refused == ["web"]
    assert left == Counter()


@pytest.mark.exhaustive
async def test_reconciles_of_a_parent_that_waits_for_a_month_leave_one_deadline(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=map_template("a", v="expired('30d') | string"))
    # The deadline of the next resync comes before that of the render.
    async with operate(resync_rate=20.0, interval=3600.0) as running:
        await desk.apply_until_ready(echo("web"))
        for number in range(FEW_DEADLINES + 20):
            running.forget()
            await desk.patch("echo", "web", metadata={"labels": {"number": str(number)}})
            await running.reconciled(1)
        state = running.operator.queue._state
        assert state.delayed < 5
        assert len(state._deadlines) <= 2 * 5 + FEW_DEADLINES

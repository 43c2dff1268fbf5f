"""A reconcile of many children leaves the event loop to others between its steps."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.lookups import LookupInformers
from ssa_operator.reconcile.long_steps import BATCH, LONG, LongSteps, run_all
from ssa_operator.reconcile.parent_view import ParentView
from tests.instruction_counts import is_linear
from tests.objects.example_objects import child, parent


async def test_others_run_after_a_long_step_and_what_follows_from_them() -> None:
    seconds, ran = [0.0], list[int]()
    steps, loop = LongSteps(lambda: seconds[0]), asyncio.get_running_loop()
    loop.call_soon(lambda: loop.call_soon(lambda: loop.call_soon(ran.append, 1)))
    seconds[0] = LONG / 2
    await steps.rest()
    assert ran == []
    seconds[0] = 2 * LONG
    await steps.rest()
    assert ran == [1]
    loop.call_soon(ran.append, 2)
    await steps.rest()
    assert ran == [1]


async def test_the_work_of_others_counts_for_no_reconcile() -> None:
    """A burst of parents: each reconcile waits for requests, while the others hold the loop for long."""
    seconds, ran = [0.0], list[int]()
    steps, loop = LongSteps(lambda: seconds[0]), asyncio.get_running_loop()

    def work(taken: float) -> None:
        seconds[0] += taken

    async def step(taken: float) -> bool:
        """Whether the reconcile rests after a step and a request."""
        work(taken)
        loop.call_soon(work, 3 * LONG)
        await asyncio.sleep(0)
        before = len(ran)
        loop.call_soon(ran.append, 1)
        await steps.rest()
        return len(ran) > before

    async def reconcile() -> list[bool]:
        return [await step(taken) for taken in (0.0, LONG / 4, LONG / 2, LONG, LONG / 4, LONG)]

    assert await steps.measured(reconcile()) == [False, False, False, True, False, True]


async def test_a_measured_reconcile_gets_errors_and_is_cancelled_as_any_other() -> None:
    seen, steps = list[str](), LongSteps()

    async def reconcile(waits_for: asyncio.Future[str]) -> str:
        try:
            return await waits_for
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        except OSError:
            return "failed"

    answers = [asyncio.get_running_loop().create_future() for _ in range(3)]

    async def run(waits_for: asyncio.Future[str]) -> str:
        return await steps.measured(reconcile(waits_for))

    tasks = [asyncio.create_task(run(answer)) for answer in answers]
    await asyncio.sleep(0)
    answers[0].set_result("done")
    answers[1].set_exception(OSError())
    tasks[2].cancel()
    assert await asyncio.gather(*tasks[:2]) == ["done", "failed"]
    with pytest.raises(asyncio.CancelledError):
        await tasks[2]
    assert seen == ["cancelled"]


async def test_others_run_while_many_requests_begin() -> None:
    begun, seen = [0], list[int]()

    async def request() -> None:
        begun[0] += 1

    async def other() -> None:
        while begun[0] < 5 * BATCH:
            seen.append(begun[0])
            await asyncio.sleep(0)

    others = asyncio.create_task(other())
    await run_all(request() for _ in range(5 * BATCH))
    await others
    assert {BATCH, 2 * BATCH, 3 * BATCH, 4 * BATCH} <= {*seen}


def test_templates_that_read_each_child_find_it_at_once() -> None:
    lookups = cast("LookupInformers", None)

    def read(count: int) -> None:
        children = tuple(child(f"map-{number}") for number in range(count))
        view = ParentView(
            now=0.0,
            parent=parent(),
            lookups=lookups,
            children=children,
            objects={},
            informers=cast("ChildInformers", None),
            kind_reports_status=bool,
        )
        assert all(view.child("ConfigMap", f"map-{number}") for number in range(count))
        assert view.child("ConfigMap", "other") is None

    assert is_linear(lambda count: lambda: read(count))

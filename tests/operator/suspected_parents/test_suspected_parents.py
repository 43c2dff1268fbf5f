"""A step record, and the turn in which a suspected parent is reconciled alone."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ssa_operator.objects.causes import Cause
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.suspected_parents import requests as suspected_parents
from ssa_operator.operator.suspected_parents.requests import AloneTurn
from ssa_operator.reconcile.step_record import FILE_NAME, RecordedCoroutine, RecordedStep, StepRecord, record_tasks
from tests.devcluster.waiting import until

STEP = RecordedStep("echoes.example.com", "default", "web", 3, "digest")


def running(record: StepRecord) -> RecordedStep | None:
    found = record.running()
    return found.step if found is not None else None


async def test_a_step_is_recorded_while_it_runs_and_not_while_it_waits() -> None:
    record, seen, go_on = StepRecord.open(), [], asyncio.Event()

    async def work() -> str:
        seen.append(running(record))
        await go_on.wait()
        seen.append(running(record))
        await asyncio.sleep(0)
        return "done"

    task = asyncio.create_task(_awaited(RecordedCoroutine(work(), record, STEP.encode())))
    await asyncio.sleep(0)
    assert (seen, running(record)) == ([STEP], None)
    go_on.set()
    assert await task == "done"
    assert (seen, running(record)) == ([STEP, STEP], None)


async def _awaited(work: RecordedCoroutine[str]) -> str:
    return await work


async def test_an_error_and_a_cancellation_end_a_step() -> None:
    record, seen = StepRecord.open(), []

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(running(record))
        return ""

    task = asyncio.create_task(_awaited(RecordedCoroutine(work(), record, STEP.encode())))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (seen, running(record)) == ([STEP], None)

    async def failing() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await RecordedCoroutine(failing(), record, STEP.encode())
    assert running(record) is None


async def test_the_steps_of_tasks_are_recorded_by_the_step_that_starts_them_or_by_their_names() -> None:
    record, seen, step = StepRecord.open(), [], b""

    async def child() -> None:
        seen.append(running(record))
        await asyncio.sleep(0)
        seen.append(running(record))

    loop = asyncio.get_running_loop()
    record_tasks(loop, record, lambda: step)
    try:
        await asyncio.gather(asyncio.create_task(child(), name="watch echoes"), child())
        step = STEP.encode()
        async with asyncio.TaskGroup() as group:
            group.create_task(child(), name="child")
            group.create_task(child())
    finally:
        loop.set_task_factory(None)
    named = [RecordedStep(handler="watch echoes"), RecordedStep(handler=child.__qualname__)]
    assert seen == named * 2 + [STEP] * 4


async def test_a_task_is_recorded_with_the_object_that_it_handles_and_a_step_within_it_is_recorded_alone() -> None:
    now, reported, seen = [1.0], [], []
    record = StepRecord(StepRecord.open()._memory, lambda: now[0])
    record.on_held = lambda step, seconds: reported.append((str(step), step.what, seconds))

    async def inner() -> None:
        record.handles("default", "other")
        seen.append(running(record))
        now[0] += 2.0

    async def outer() -> None:
        record.handles("default", "web")
        seen.append(running(record))
        now[0] += 0.9
        await RecordedCoroutine(inner(), record, STEP.encode())
        seen.append(running(record))
        now[0] += 0.9

    record.handles("default", "nobody")
    watch = RecordedStep(handler="watch echoes")
    await RecordedCoroutine(outer(), record, watch.encode())
    about_web = watch._replace(namespace="default", name="web")
    assert seen == [about_web, STEP, about_web]
    assert reported == [("echoes.example.com default/web", "a step of its reconcile", 2.0)]
    assert running(record) is None

    async def long() -> None:
        record.handles("", "node")
        now[0] += 3.0

    await RecordedCoroutine(long(), record, watch.encode())
    assert reported[1:] == [("watch echoes: node", "this task", 3.0)]
    admission = RecordedStep("echoes.example.com", "default", "web", handler="admission")
    assert str(admission) == "admission: echoes.example.com default/web"
    assert str(watch) == "watch echoes"


async def test_a_step_that_took_long_is_reported_when_it_has_ended() -> None:
    now, reported = [0.0], []
    record = StepRecord(StepRecord.open()._memory, lambda: now[0])
    record.on_held = lambda step, seconds: reported.append((step, seconds))

    async def work(seconds: float) -> None:
        now[0] += seconds

    await RecordedCoroutine(work(0.9), record, STEP.encode())
    assert reported == []
    await RecordedCoroutine(work(1.5), record, STEP.encode())
    assert reported == [(STEP, 1.5)]


@pytest.mark.parametrize(
    "step",
    [
        RecordedStep("f", "", "cluster-scoped", 1, ""),
        RecordedStep("f" * 253, "n" * 63, "x" * 253, 2**60, "0" * 64),
    ],
)
def test_any_parent_fits_in_the_record(step: RecordedStep) -> None:
    record = StepRecord.open()
    record.begin(step.encode())
    assert running(record) == step


def test_a_step_that_does_not_fit_is_not_recorded() -> None:
    record = StepRecord.open()
    record.begin(RecordedStep("f", "n", "x" * 10_000, 1, "digest").encode())
    assert running(record) is None
    assert not record.being_saved


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_the_first_process_of_a_container_finds_the_step_in_which_the_last_one_died(tmp_path: Path) -> None:
    code = """
import os, sys
from ssa_operator.reconcile.step_record import RecordedStep, StepRecord
record = StepRecord.open()
print(os.getpid(), *record.left, flush=True)
record.begin(RecordedStep("f", "n", sys.argv[1], 1, "d").encode())
with record.in_thread(RecordedStep("f", "n", "thread", 1, "d").encode()):
    pass
if sys.argv[1] == "threaded":
    kept = record.in_thread(RecordedStep("f", "n", "thread", 1, "d").encode())
    kept.__enter__()
if sys.argv[1] == "ends":
    record.end_all()
    sys.exit()
os.kill(os.getpid(), 9)
os._exit(9)
"""

    def first_process(name: str) -> str:
        command = ["unshare", "--pid", "--fork", sys.executable, "-c", code, name]
        done = subprocess.run(command, env={"TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False)
        if "Operation not permitted" in done.stderr:
            pytest.skip("needs the permission to make a process namespace")
        assert done.stdout, done.stderr
        return done.stdout.strip()

    assert first_process("web") == "1"
    assert first_process("ends") == "1 f n/web"
    assert first_process("threaded") == "1"
    assert first_process("again") == "1 f n/threaded f n/thread"
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


async def test_a_reconcile_alone_waits_for_others_and_they_for_it() -> None:
    turn, order, go_on = AloneTurn(), [], asyncio.Event()

    async def beside(name: str) -> None:
        async with turn.beside_others():
            order.append(f"{name} begins")
            await go_on.wait()
            order.append(f"{name} ends")

    async def alone() -> None:
        async with turn.alone():
            order.append("alone begins")
            await asyncio.sleep(0.01)
            order.append("alone ends")

    async with asyncio.TaskGroup() as group:
        group.create_task(beside("a"))
        group.create_task(beside("b"))
        await asyncio.sleep(0)
        group.create_task(alone())
        await asyncio.sleep(0)
        group.create_task(beside("c"))
        await asyncio.sleep(0)
        go_on.set()
    assert order == ["a begins", "b begins", "a ends", "b ends", "alone begins", "alone ends", "c begins", "c ends"]


async def test_neither_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspected_parents, "ALONE_DEADLINE", 0.01)
    turn, order = AloneTurn(), []
    stuck = asyncio.Event()

    async def beside(name: str) -> None:
        async with turn.beside_others():
            order.append(name)
            await stuck.wait()

    async def alone() -> None:
        async with turn.alone():
            order.append("alone")
            await stuck.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(beside("a"))
        await asyncio.sleep(0)
        group.create_task(alone())
        await until(lambda: order == ["a", "alone"])
        group.create_task(beside("b"))
        await until(lambda: order == ["a", "alone", "b"])
        stuck.set()


async def test_a_queue_is_idle_when_the_last_parent_is_done() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    await queue.until_idle()
    queue.add("a", Cause.PARENT)
    idle = asyncio.create_task(queue.until_idle())
    await queue.get()
    await asyncio.sleep(0)
    assert not idle.done()
    queue.add("b", Cause.PARENT)
    queue.done("a")
    await asyncio.sleep(0.01)
    assert not idle.done()
    await queue.get()
    queue.done("b")
    await idle

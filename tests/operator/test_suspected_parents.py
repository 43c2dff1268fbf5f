"""A parent whose reconcile ends the operator's process: after a restart it comes last and alone, and is named.

The processes run with other code before each render. They have the scratch folder of one pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.informers.parents import ParentKey
from ssa_operator.objects.causes import Cause
from ssa_operator.operator import suspected_parents
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.suspected_parents import (
    FILE_NAME,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    SLOTS,
    AloneTurn,
    ParentFile,
    Suspect,
    SuspectedParents,
    Version,
    attempted,
    due_at,
    suspicion,
)
from tests.cli.process import Command
from tests.devcluster.waiting import until
from tests.operator.harness import ECHOES, ROOT, Desk, echo, not_ready_because, only, plain_template

CONFIG_MAP = plain_template("ConfigMap")

PATCHED = """
import os, re, signal, threading
from ssa_operator.rendering import render as renderer
from ssa_operator.rendering.values import limits
render = renderer.render
def end_in_thread():
    with limits.enforced(60.0):
        while threading.current_thread() is threading.main_thread():
            limits.current().step()
    os.kill(os.getpid(), signal.SIGKILL)
def patched(folder, parent, *arguments, **options):
    generation, name = parent["metadata"]["generation"], parent["metadata"]["name"]
    if name == "pill" and generation == 1:
        {code}
    return render(folder, parent, *arguments, **options)
renderer.render = patched
from ssa_operator.operator.process import session
session.HANG = 1.0
from ssa_operator.cli.main import main
main()
"""

HOLDS = 're.match("(a+)+$", "a" * 100 + "b")'
"""A step in C, which holds Python's lock: a regular expression that backtracks."""
DIES = "os.kill(os.getpid(), signal.SIGSEGV)"
DIES_IN_THREAD = "end_in_thread()"
NOTHING = "pass"


@contextlib.asynccontextmanager
async def started(code: str, desk: Desk, templates: Path, *more: str) -> AsyncIterator[Command]:
    """An operator with other code before each render of the pill's first spec. Killed at the end."""
    folder = only(templates, map=CONFIG_MAP) if not (templates / ECHOES / "map.yaml.j2").exists() else templates
    pipe = asyncio.subprocess.PIPE
    pod = {"POD_NAMESPACE": desk.namespace, "KUBERNETES_SERVICE_HOST": "127.0.0.1", "TMPDIR": str(templates.parent)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PATCHED.format(code=code), "run", f"--templates={folder}"),
        *(f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}", "--listen=127.0.0.1:0", *more),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=ROOT,
        env=os.environ | pod,
    )
    command = Command(process)
    try:
        yield command
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def metrics(command: Command) -> str:
    port = (await command.says("listening on")).strip().rpartition(":")[2]
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        return await answer.text()


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("code", [DIES, DIES_IN_THREAD])
async def test_a_parent_that_ends_the_process_comes_last_and_alone_and_is_named(
    desk: Desk, templates: Path, code: str
) -> None:
    async with started(code, desk, templates) as command:
        await desk.apply(echo("pill"))
        await command.ended()
    await desk.apply(*(echo(f"other-{number}") for number in range(5)))
    async with started(code, desk, templates) as command:
        await command.says("pill is suspected")
        await command.says("is reconciled alone now")
        await command.ended()
    for number in range(5):
        await desk.ready(ECHOES, f"other-{number}")
    # It ended two processes. The third one waits with it, and serves all others.
    async with started(code, desk, templates) as command:
        await desk.until(ECHOES, "pill", not_ready_because("Suspected"))
        await desk.apply_until_ready(echo("new"))
        series = f'ssa_operator_suspected_parents{{folder="{ECHOES}",name="pill",namespace="{desk.namespace}"}} 1.0'
        assert series in await metrics(command)
        # A change of its spec is tried at once.
        await desk.apply_until_ready(echo("pill", replicas=2))
        await command.says("is suspected no longer")
        assert "ssa_operator_suspected_parents{" not in await metrics(command)
    async with started(NOTHING, desk, templates) as command:
        await desk.apply_until_ready(echo("last"))
        assert not any("suspected" in line for line in command.lines)


@pytest.mark.cluster
@pytest.mark.slow
async def test_while_a_parent_holds_the_process_its_stack_is_shown_and_after_a_restart_it_comes_last(
    desk: Desk, templates: Path
) -> None:
    async with started(HOLDS, desk, templates) as command:
        await desk.apply(echo("pill"))
        await command.says("re/__init__.py")  # written by a thread that needs no lock of Python
        command.process.send_signal(signal.SIGKILL)
        await command.ended()
    await desk.apply(echo("other"))
    async with started(HOLDS, desk, templates) as command:
        await command.says("pill is suspected")
        await desk.ready(ECHOES, "other")
        await command.says("is reconciled alone now")


OLD, NEW = Version(1, "digest"), Version(2, "digest")
PILL = ParentKey("echoes.example.com", "default", "pill")
SUSPECT = Suspect(key=PILL, version=OLD)


@pytest.mark.parametrize(
    ("attempts", "pause"), [(0, 0.0), (1, FIRST_PAUSE), (2, 2 * FIRST_PAUSE), (7, LONGEST_PAUSE), (100, LONGEST_PAUSE)]
)
def test_pauses_between_attempts_grow_to_a_limit(attempts: int, pause: float) -> None:
    suspect = SUSPECT
    for _ in range(attempts):
        suspect = attempted(suspect, OLD, 0.0)
    assert due_at(suspect, OLD, 0.0) == pause
    assert due_at(suspect, NEW, 5.0) == 5.0
    assert due_at(suspect, OLD, -1000.0) <= pause - 1000.0 or not attempts, "the wall clock was set back"
    assert attempted(suspect, NEW, 9.0).attempts == 1


def test_a_message_names_the_attempts_and_what_to_do() -> None:
    message = suspicion(attempted(attempted(SUSPECT, OLD, 1.0), OLD, 60.0))
    assert "(2 times, last at 1970-01-01T00:01:00Z)" in message
    assert "change its spec or its templates" in message


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The scratch folder of a pod."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_the_next_process_of_a_pod_suspects_what_was_being_reconciled_and_nothing_that_had_ended(pod: Path) -> None:
    suspects = SuspectedParents(ParentFile.open(), Metrics())
    open_work = suspects.recorded(PILL, OLD)
    with suspects.recorded(ParentKey("echoes.example.com", "default", "web"), OLD):
        open_work.__enter__()
    file = ParentFile.open()
    assert (pod / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert [*file.left.values()] == [SUSPECT]
    suspects = SuspectedParents(file, Metrics())
    with suspects.recorded(PILL, OLD):
        pass
    assert PILL in suspects, "only a reconcile that came back ends the suspicion"
    assert suspects.suspicion(PILL) == "", "nothing is said of it before it ends a second process"
    assert [*ParentFile.open().left.values()] == [SUSPECT]
    suspects.reconciled(PILL)
    assert ParentFile.open().left == {}


async def test_an_attempt_is_in_the_file_before_it_begins(pod: Path) -> None:
    ParentFile.open().add(SUSPECT)
    suspects = SuspectedParents(ParentFile.open(), Metrics())
    seen = []

    async def reconcile(key: ParentKey) -> None:
        seen.append([each.attempts for each in ParentFile.open().left.values()])
        suspects.reconciled(key)

    await suspects.run(reconcile, lambda _: OLD)
    assert (seen, PILL in suspects) == ([[1]], False)


async def test_a_suspect_that_is_gone_is_forgotten(pod: Path) -> None:
    ParentFile.open().add(SUSPECT)
    suspects = SuspectedParents(ParentFile.open(), Metrics())

    async def reconcile(key: ParentKey) -> None:
        raise AssertionError(key)

    await suspects.run(reconcile, lambda _: None)
    assert ParentFile.open().left == {}


@given(st.binary(max_size=3000))
def test_any_content_of_the_file_is_read(content: bytes) -> None:
    file = ParentFile.open()
    file._memory[: len(content)] = content
    read = ParentFile(file._memory)
    assert len(read.left) + len(read._free) == SLOTS


def test_more_parents_than_the_file_has_place_for_are_reconciled_without_a_record() -> None:
    file = ParentFile.open()
    slots = [file.add(SUSPECT) for _ in range(SLOTS + 1)]
    assert slots[-1] is None
    file.remove(0)
    assert file.add(SUSPECT) == 0
    long = Suspect(key=ParentKey("f", "n", "x" * 10_000), version=OLD)
    file.write(0, long)
    assert ParentFile(file._memory).left[0] == SUSPECT


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

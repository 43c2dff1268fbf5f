"""A parent whose reconcile holds the operator's process or ends it: it is named, and after a restart it comes last.

The operators run as processes with other code before each render. A step in C, which holds Python's lock, is a regular
expression that backtracks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ssa_operator.operator.process.watchdog import place_in
from tests.cli.process import Command
from tests.operator.harness import ECHOES, ROOT, Desk, echo, not_ready_because, only, plain_template

pytestmark = pytest.mark.cluster

LEASES = "leases.coordination.k8s.io"

CONFIG_MAP = plain_template("ConfigMap")

PATCHED = """
import asyncio, os, re, signal, sys, threading
from ssa_operator.operator import event_router
from ssa_operator.reconcile import renderer
from ssa_operator.rendering.values import limits
parent_changed = event_router.EventRouter.parent_changed
def handled(self, key, cause):
    {handler}
    parent_changed(self, key, cause)
event_router.EventRouter.parent_changed = handled
render = renderer.render
seen = []
def end_in_thread():
    with limits.enforced(60.0):
        while threading.current_thread() is threading.main_thread():
            limits.current().step()
    os.kill(os.getpid(), signal.SIGKILL)
def patched(folder, parent, *arguments, **options):
    generation, name = parent["metadata"]["generation"], parent["metadata"]["name"]
    {code}
    return render(folder, parent, *arguments, **options)
renderer.render = patched
from ssa_operator.cli.main import main
main()
"""

HOLDS = 'if name == "pill" and generation == 1: re.match("(a+)+$", "a" * 100 + "b")'
HOLDS_BRIEFLY = 'if name == "pill" and not seen: seen.append(name); re.match("(a+)+$", "a" * 26 + "b")'
DIES = 'if name == "pill" and generation == 1: os.kill(os.getpid(), signal.SIGSEGV)'
DIES_IN_THREAD = 'if name == "pill" and generation == 1: end_in_thread()'
NOTHING = "pass"

HOLDS_WATCH = 'if key.name == "pill" and not seen: seen.append(key); re.match("(a+)+$", "a" * 25 + "b")'
"""Code before each event of a parent is handled."""


@contextlib.asynccontextmanager
async def started(code: str, *arguments: str, namespace: str, handler: str = NOTHING) -> AsyncIterator[Command]:
    """An operator with other code before each render and before it handles a parent's event. Killed at the end."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PATCHED.format(code=code, handler=handler),
        *arguments,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=ROOT,
        env=os.environ | {"POD_NAMESPACE": namespace},
    )
    command = Command(process)
    try:
        yield command
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def operator(desk: Desk, templates: Path, *more: str) -> tuple[str, ...]:
    folder = only(templates, map=CONFIG_MAP) if not (templates / ECHOES / "map.yaml.j2").exists() else templates
    return (
        "run",
        f"--templates={folder}",
        f"--namespace={desk.namespace}",
        f"--kubeconfig={desk.kubeconfig}",
        "--listen=127.0.0.1:0",
        *more,
    )


def _suspects(lease: dict[str, Any]) -> list[dict[str, Any]]:
    annotations = lease["metadata"].get("annotations", {})
    found: list[dict[str, Any]] = json.loads(annotations.get("ssa-operator.dev/suspected-parents", "[]"))
    return found


async def recorded(desk: Desk, times: int) -> None:
    """Return once the operator's Lease names the pill alone, as recorded that often."""

    def judge(lease: dict[str, Any]) -> bool:
        found = [(each["namespace"], each["name"], each.get("times", 0)) for each in _suspects(lease)]
        return found == [(desk.namespace, "pill", times)]

    await desk.until(LEASES, "ssa-operator", judge)


async def forgotten(desk: Desk) -> None:
    """Return once the operator's Lease names no parent."""
    await desk.until(LEASES, "ssa-operator", lambda lease: not _suspects(lease))


async def metrics(command: Command) -> str:
    port = (await command.says("listening on")).strip().rpartition(":")[2]
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        return await answer.text()


@pytest.mark.exhaustive
async def test_a_parent_that_holds_the_process_is_named_at_once_and_comes_last_after_a_restart(
    desk: Desk, templates: Path
) -> None:
    run = operator(desk, templates)
    async with started(HOLDS, *run, namespace=desk.namespace) as command:
        await desk.apply(echo("pill"))
        line = await command.says("holds the event loop")
        assert f"{ECHOES} {desk.namespace}/pill" in line
        assert "in match (re/__init__.py:" in line
        assert ", called by " in line
        assert " (ssa_operator/" in line
        await recorded(desk, 1)
        command.process.kill()
        await command.process.wait()
    await desk.apply(*(echo(f"other-{number}") for number in range(5)))
    async with started(HOLDS, *run, namespace=desk.namespace) as command:
        await command.says("is suspected")
        for number in range(5):
            await desk.ready(ECHOES, f"other-{number}")
        await desk.until(ECHOES, "pill", not_ready_because("Suspected"))
        await command.says("is reconciled alone now")
        await command.says("holds the event loop")
        command.process.kill()
        await command.process.wait()
    await recorded(desk, 2)
    # It killed two processes. The third one waits with it, and serves all others.
    async with started(HOLDS, *run, namespace=desk.namespace) as command:
        await desk.until(ECHOES, "pill", not_ready_because("Suspected"))
        await desk.apply_until_ready(echo("new"))
        series = f'ssa_operator_suspected_parents{{folder="{ECHOES}",name="pill",namespace="{desk.namespace}"}} 1.0'
        assert series in await metrics(command)
        # A change of its spec is tried at once.
        await desk.apply_until_ready(echo("pill", replicas=2))
        await command.says("is suspected no longer")
        await forgotten(desk)
        assert "ssa_operator_suspected_parents{" not in await metrics(command)


@pytest.mark.exhaustive
async def test_a_parent_that_holds_the_process_for_some_seconds_is_in_the_log_a_metric_and_an_event(
    desk: Desk, templates: Path
) -> None:
    async with started(HOLDS_BRIEFLY, *operator(desk, templates), namespace=desk.namespace) as command:
        await desk.apply_until_ready(echo("pill"))
        await command.says("holds the event loop")
        await command.says("held the event loop for")
        assert 'ssa_operator_event_loop_held_seconds{folder="echoes.example.com",name="pill"' in await metrics(command)
        await desk.until_event("HeldUp", "held the operator up for", about="pill")
        await forgotten(desk)


@pytest.mark.exhaustive
async def test_a_parent_that_ends_the_process_at_once_comes_last_after_a_restart(desk: Desk, templates: Path) -> None:
    run = operator(desk, templates)
    async with started(DIES, *run, namespace=desk.namespace) as command:
        await desk.apply(echo("pill"))
        assert await command.ended() == -signal.SIGSEGV
        assert any("died in a step of its reconcile" in line and "pill" in line for line in command.lines)
    await recorded(desk, 0)
    await desk.apply(*(echo(f"other-{number}") for number in range(5)))
    async with started(DIES, *run, namespace=desk.namespace) as command:
        for number in range(5):
            await desk.ready(ECHOES, f"other-{number}")
        assert await command.ended() == -signal.SIGSEGV
    await recorded(desk, 1)
    async with started(NOTHING, *run, namespace=desk.namespace) as command:
        await desk.ready(ECHOES, "pill")
        await forgotten(desk)


@pytest.mark.slow
async def test_a_parent_in_whose_thread_the_process_is_killed_comes_last_and_alone_and_is_named(
    desk: Desk, templates: Path
) -> None:
    run = operator(desk, templates)
    async with started(DIES_IN_THREAD, *run, namespace=desk.namespace) as command:
        await desk.apply(echo("pill"))
        assert await command.ended() == -signal.SIGKILL
        assert any("died in a step of its reconcile" in line and "pill" in line for line in command.lines)
    lease = await desk.until(LEASES, "ssa-operator", _suspects)
    (first,) = (each.get("times", 0) for each in _suspects(lease))  # 1 if the machine was busy for a second
    await desk.apply(*(echo(f"other-{number}") for number in range(3)))
    for times in range(first + 1, 3):
        async with started(DIES_IN_THREAD, *run, namespace=desk.namespace) as command:
            await command.says("pill is suspected")
            await command.says("is reconciled alone now")
            assert await command.ended() == -signal.SIGKILL
        await recorded(desk, times)
        for number in range(3):
            await desk.ready(ECHOES, f"other-{number}")
    async with started(DIES_IN_THREAD, *run, namespace=desk.namespace) as command:
        await desk.until(ECHOES, "pill", not_ready_because("Suspected"))
        await desk.apply_until_ready(echo("new"))
        series = f'ssa_operator_suspected_parents{{folder="{ECHOES}",name="pill",namespace="{desk.namespace}"}} 1.0'
        assert series in await metrics(command)
        await desk.apply_until_ready(echo("pill", replicas=2))
        await command.says("is suspected no longer")
        await forgotten(desk)


@pytest.mark.exhaustive
async def test_a_watch_whose_event_holds_the_process_is_named_with_the_object(desk: Desk, templates: Path) -> None:
    run = operator(desk, templates)
    async with started(NOTHING, *run, namespace=desk.namespace, handler=HOLDS_WATCH) as command:
        await desk.apply_until_ready(echo("web"))
        await desk.apply(echo("pill"))
        named = f"watch {ECHOES}: {desk.namespace}/pill: this task"
        line = await command.says(f"{named} holds the event loop")
        assert "in match (re/__init__.py:" in line
        await command.says(f"{named} held the event loop for")
        await desk.ready(ECHOES, "pill")
        lease = await desk.find(LEASES, "ssa-operator")
        assert lease is None or not _suspects(lease)


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_standby_takes_over_without_the_parent_that_holds_the_leader(desk: Desk, templates: Path) -> None:
    timing = ("--leader-elect", "--lease-duration=6s", "--lease-renew-deadline=4s", "--lease-retry-period=500ms")
    run = operator(desk, templates, *timing)
    async with started(HOLDS, *run, namespace=desk.namespace) as leader:
        await leader.says("leader election: leads")
        async with started(HOLDS, *run, namespace=desk.namespace) as standby:
            await standby.says("this replica is a standby")
            await standby.says("caches of this replica are warm")
            leader.process.send_signal(signal.SIGSTOP)  # it reads the parent no earlier than the standby
            await desk.apply(echo("pill"))
            await standby.says("holds the event loop")
            await recorded(desk, 1)
    async with started(HOLDS, *run, namespace=desk.namespace) as next_leader:
        await next_leader.says("leader election: leads")
        await desk.apply_until_ready(echo("web"))
        await next_leader.says("is reconciled alone now")


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        ("", ""),
        ("Current thread 0x1 (most recent call first):\n  <no Python frame>\n", ""),
        (
            'File "/lib/python3.11/re/__init__.py", line 166 in match\n  File "/v/ssa_operator/kube/a.py", line 7 in f',
            "match (re/__init__.py:166), called by f (ssa_operator/kube/a.py:7)",
        ),
        ('  File "/app/ssa_operator/rendering/a.py", line 7 in f\n', "f (ssa_operator/rendering/a.py:7)"),
        (
            '  File "/app/ssa_operator/rendering/a.py", line 7 in f\n  File "echoes/map.yaml.j2", line 3 in root\n',
            "f (ssa_operator/rendering/a.py:7) while echoes/map.yaml.j2 is rendered",
        ),
        (
            '  File "/a/ssa_operator/cli/run.py", line 7 in main\n  File "/bin/ssa-operator", line 8 in <module>\n',
            "main (ssa_operator/cli/run.py:7)",
        ),
    ],
)
def test_a_place_names_the_code_and_the_template(stack: str, place: str) -> None:
    assert place_in(stack) == place

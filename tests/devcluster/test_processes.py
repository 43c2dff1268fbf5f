"""The end of process groups, whichever process ends first."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ssa_operator.devcluster import processes
from ssa_operator.devcluster.processes import ProcessCommand, ProcessError, ProcessGroup
from tests.devcluster.waiting import until

STARTER = """
import asyncio, os, sys
from pathlib import Path
from ssa_operator.devcluster.processes import ProcessCommand, ProcessGroup

async def main():
    directory = Path(sys.argv[1])
    group = ProcessGroup(directory)
    for name in ("one", "two"):
        # The shell's own child is a grandchild of the supervisor.
        argv = ("/bin/sh", "-c", "sleep 1000 & wait")
        command = ProcessCommand(name=name, argv=argv, log=directory / name, directory=directory)
        print(await group.start(command), flush=True)
    if sys.argv[2] == "detach":
        await group.detach()
    elif sys.argv[2] == "fork" and os.fork() == 0:
        os.close(1)  # the test reads to the end of it
        sys.stdin.read()  # a child that keeps the lifeline open
    else:
        print("ready", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


def start_starter(directory: Path, mode: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A process that owns a group in `directory`, and the ids of the group's processes."""
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(directory), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    pids = [int(starter.stdout.readline()) for _ in range(2)]
    if mode != "detach":
        assert starter.stdout.readline() == "ready\n"
    return starter, pids


def finish(starter: subprocess.Popen[str]) -> None:
    for pipe in (starter.stdin, starter.stdout):
        assert pipe is not None
        pipe.close()
    starter.wait()


async def until_gone(directory: Path) -> None:
    """Returns after the last process of the group has ended."""
    await until(lambda: not processes.is_alive(directory))


def sleeper(directory: Path, script: str = "sleep 1000 & wait", *, task: bool = False) -> ProcessCommand:
    return ProcessCommand(
        name="one", argv=("/bin/sh", "-c", script), log=directory / "one.log", directory=directory, task=task
    )


async def test_kill_9_of_the_starter_leaves_no_process(tmp_path: Path) -> None:
    starter, _ = start_starter(tmp_path, "stay")
    assert processes.is_alive(tmp_path)
    starter.kill()
    await until_gone(tmp_path)
    finish(starter)


async def test_a_forked_child_of_the_starter_does_not_keep_the_group_alive(tmp_path: Path) -> None:
    starter, _ = start_starter(tmp_path, "fork")
    starter.kill()
    await until_gone(tmp_path)
    finish(starter)


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
async def test_kill_9_of_the_supervisor_leaves_none_of_its_processes(tmp_path: Path) -> None:
    starter, pids = start_starter(tmp_path, "stay")
    os.kill(int((tmp_path / processes.LOCK_NAME).read_text()), signal.SIGKILL)
    await until(lambda: not any(is_running(pid) for pid in pids))
    await processes.kill(tmp_path)
    assert not processes.is_alive(tmp_path)
    finish(starter)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_detached_group_survives_its_starter_until_it_is_killed(tmp_path: Path) -> None:
    starter, pids = start_starter(tmp_path, "detach")
    finish(starter)
    assert starter.returncode == 0
    assert processes.is_alive(tmp_path)
    for pid in pids:
        os.kill(pid, 0)
    await processes.kill(tmp_path)
    assert not processes.is_alive(tmp_path)


async def test_an_old_lock_file_kills_no_process_that_has_its_process_id_now(tmp_path: Path) -> None:
    stranger = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    (tmp_path / processes.LOCK_NAME).write_text(str(stranger.pid))
    assert not processes.is_alive(tmp_path)
    await processes.kill(tmp_path)
    assert stranger.returncode is None
    stranger.kill()
    assert await stranger.wait() == -signal.SIGKILL


async def test_a_process_that_ends_by_itself_ends_the_others_and_is_named_with_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    group = ProcessGroup(tmp_path)
    other = ProcessCommand(name="two", argv=("sleep", "1000"), log=tmp_path / "two.log", directory=tmp_path)
    await group.start(other)
    await group.start(sleeper(tmp_path, "echo something is wrong; exit 3"))
    await until_gone(tmp_path)
    with pytest.raises(ProcessError, match=r"one ended by itself with code 3(?s:.*)something is wrong"):
        await group.running()
    await group.end()


async def test_a_task_may_end(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    await group.start(sleeper(tmp_path, f"read line <{gate}", task=True))
    assert await group.running() == {"one"}
    gate.write_text("go\n")
    async with asyncio.timeout(30):
        while await group.running():
            pass
    assert processes.is_alive(tmp_path)
    await group.end()
    assert not processes.is_alive(tmp_path)


async def test_one_process_can_be_stopped_and_started_again(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path)
    command = ProcessCommand(name="one", argv=("sleep", "1000"), log=tmp_path / "one.log", directory=tmp_path)
    first = await group.start(command)
    await group.stop("one")
    assert await group.running() == frozenset()
    assert await group.start(command) != first
    assert await group.running() == {"one"}
    await group.end()


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path)
    missing = ProcessCommand(name="one", argv=("/nowhere/etcd",), log=tmp_path / "one.log", directory=tmp_path)
    with pytest.raises(ProcessError, match="/nowhere/etcd"):
        await group.start(missing)
    await group.end()


async def test_a_second_group_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path)
    with pytest.raises(ProcessError, match="still running there"):
        ProcessGroup(tmp_path)
    await group.end()

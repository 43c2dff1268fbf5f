"""Finds, downloads or builds the five programs of the control plane.

Promises:
- The sources are tried in this order: KUBEBUILDER_ASSETS, the user's cache, the official releases, a build from Go
  modules.
- A folder in the cache is complete: it gets its name after its last file.
- One process downloads or builds; other processes wait for it.
- If every source fails, one error names each of them with its reason.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import platformdirs
from msgspec import Struct, field

from ssa_operator.devcluster import build, release
from ssa_operator.devcluster.file_lock import hold_lock
from ssa_operator.devcluster.progress import Progress, ProgressCallback, ignore_progress
from ssa_operator.devcluster.release import Platform, ReleaseURLs
from ssa_operator.devcluster.versions import ETCD, KUBERNETES, KWOK, PROGRAMS, UnavailableError

CACHE_DIRECTORY_VARIABLE = "SSA_OPERATOR_CACHE_DIR"
"""Folder of the programs of the local control plane. Default: ssa-operator in XDG_CACHE_HOME."""

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
"""Folder with programs of a control plane, which are used instead of those of the cache."""

_GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class BinariesError(Exception):
    """Every source of the programs failed. The text names each with its reason."""


class BinaryLocations(Struct, frozen=True, kw_only=True):
    """The folders and addresses of the programs."""

    assets: Path | None
    """KUBEBUILDER_ASSETS."""

    cache: Path
    """The folder of all versions."""

    platform: Platform

    releases: ReleaseURLs = field(default_factory=ReleaseURLs)

    @property
    def directory(self) -> Path:
        """The folder of these versions on this platform. If it exists, it is complete."""
        key = f"kubernetes-{KUBERNETES}_etcd-{ETCD}_kwok-{KWOK}_{self.platform.system}-{self.platform.machine}"
        return self.cache / key


def from_environment() -> BinaryLocations:
    """The locations by the environment variables and the platform of this machine."""
    configured = os.environ.get(CACHE_DIRECTORY_VARIABLE)
    root = Path(configured) if configured else platformdirs.user_cache_path("ssa-operator")
    assets = os.environ.get(ASSETS_VARIABLE)
    machine = platform.machine()
    return BinaryLocations(
        assets=Path(assets).absolute() if assets else None,
        cache=root.absolute() / "control-plane",
        platform=Platform(system=platform.system().lower(), machine=_GO_MACHINES.get(machine, machine)),
    )


async def acquire(locations: BinaryLocations, report: ProgressCallback = ignore_progress) -> Path:
    """The folder that has all five programs. Raises BinariesError."""
    reasons: list[str] = []
    for name, find in (("KUBEBUILDER_ASSETS", _find_assets), ("the cache", _find_cached)):
        try:
            return find(locations)
        except UnavailableError as error:
            reasons.append(f"{name}: {error}")
            if name == "KUBEBUILDER_ASSETS" and locations.assets is not None:
                report(Progress(message=f"Not using {ASSETS_VARIABLE}: {error}"))
    async with hold_lock(_lock(locations), "downloading or building the control plane", report):
        try:
            return _find_cached(locations)  # the process that held the lock before may have installed them
        except UnavailableError:
            return await _download_or_build(locations, report, reasons)


def _find_assets(locations: BinaryLocations) -> Path:
    if locations.assets is None:
        raise UnavailableError("not set")
    return _check_complete(locations.assets)


def _find_cached(locations: BinaryLocations) -> Path:
    return _check_complete(locations.directory / "bin")


def _check_complete(folder: Path) -> Path:
    if not folder.is_dir():
        raise UnavailableError(f"there is no folder {folder}")
    missing = [program for program in PROGRAMS if not os.access(folder / program, os.X_OK)]
    if missing:
        raise UnavailableError(f"{folder} lacks {', '.join(missing)}")
    return folder


def _lock(locations: BinaryLocations) -> Path:
    return locations.directory.with_name(f"{locations.directory.name}.lock")


async def _download_or_build(locations: BinaryLocations, report: ProgressCallback, reasons: list[str]) -> Path:
    """Installs the programs into the cache. `reasons` are why the earlier sources failed."""

    async def download(folder: Path) -> None:
        await release.download(locations.releases, locations.platform, folder, report)

    async def compile_modules(folder: Path) -> None:
        await build.build(locations.cache, folder, report)

    sources: tuple[tuple[str, Callable[[Path], Awaitable[None]]], ...] = (
        ("the official releases", download),
        ("a build from Go modules", compile_modules),
    )
    for name, fill in sources:
        try:
            return await _install(locations, fill)
        except UnavailableError as error:
            report(Progress(message=f"Cannot use {name}: {error}"))
            reasons.append(f"{name}: {error}")
    tried = "".join(f"\n- {reason}" for reason in reasons)
    raise BinariesError(
        f"the programs of the control plane ({', '.join(PROGRAMS)}) could not be downloaded or built. Tried:{tried}\n"
        f"Connect to the internet and start again, or put all five into one folder and set {ASSETS_VARIABLE} to it, or "
        f"copy {locations.directory} from a machine of the same kind that has it."
    )


async def _install(locations: BinaryLocations, fill: Callable[[Path], Awaitable[None]]) -> Path:
    """Fills a new folder, and replaces the cached one by it once it is complete."""
    new = locations.directory.with_name(f"{locations.directory.name}.new")
    await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
    (new / "bin").mkdir(parents=True)
    try:
        await fill(new / "bin")
        _check_complete(new / "bin")
        await asyncio.to_thread(shutil.rmtree, locations.directory, ignore_errors=True)
        new.rename(locations.directory)
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
        raise
    return locations.directory / "bin"

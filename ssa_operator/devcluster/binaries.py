"""The five programs of the control plane, wherever they can be had.

Promises:
- The ways are tried in one order: KUBEBUILDER_ASSETS, the user's cache, the official releases, a build from Go
  modules. A way that cannot serve says why, and the next one is tried.
- What is in the cache is complete: it gets its name when its last file is there.
- Of several processes one downloads or builds, the others wait for it.
- If every way fails, one error names each of them with its reason.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from ssa_operator.devcluster import build, release
from ssa_operator.devcluster.file_lock import turn
from ssa_operator.devcluster.progress import Progress, Report, silent
from ssa_operator.devcluster.release import Platform, Sources
from ssa_operator.devcluster.versions import ETCD, KUBERNETES, KWOK, PROGRAMS, UnavailableError

CACHE_DIRECTORY_VARIABLE = "SSA_OPERATOR_CACHE_DIR"
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
_GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class BinariesError(Exception):
    """No way led to the programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where programs are looked for and put: `assets` is KUBEBUILDER_ASSETS, `cache` the folder of all versions."""

    assets: Path | None
    cache: Path
    platform: Platform
    sources: Sources = field(default_factory=Sources)

    @property
    def directory(self) -> Path:
        """The folder of these versions on this platform; it exists when it is complete."""
        key = f"kubernetes-{KUBERNETES}_etcd-{ETCD}_kwok-{KWOK}_{self.platform.system}-{self.platform.machine}"
        return self.cache / key


def from_environment() -> Place:
    """The place that the environment variables and this machine make."""
    configured = os.environ.get(CACHE_DIRECTORY_VARIABLE)
    root = Path(configured) if configured else platformdirs.user_cache_path("ssa-operator")
    assets = os.environ.get(ASSETS_VARIABLE)
    machine = platform.machine()
    return Place(
        assets=Path(assets).absolute() if assets else None,
        cache=root.absolute() / "control-plane",
        platform=Platform(system=platform.system().lower(), machine=_GO_MACHINES.get(machine, machine)),
    )


async def acquire(location: Place, report: Report = silent) -> Path:
    """The folder that has all five programs; raises BinariesError."""
    reasons: list[str] = []
    for name, way in (("KUBEBUILDER_ASSETS", _find_assets), ("the cache", _find_cached)):
        try:
            return way(location)
        except UnavailableError as error:
            reasons.append(f"{name}: {error}")
            if name == "KUBEBUILDER_ASSETS" and location.assets is not None:
                report(Progress(message=f"Not using {ASSETS_VARIABLE}: {error}"))
    async with turn(_lock(location), "downloading or building the control plane", report):
        try:
            return _find_cached(location)  # whoever had the turn before has got them
        except UnavailableError:
            return await _get(location, report, reasons)


def _find_assets(location: Place) -> Path:
    if location.assets is None:
        raise UnavailableError("not set")
    return _complete(location.assets)


def _find_cached(location: Place) -> Path:
    return _complete(location.directory / "bin")


def _complete(folder: Path) -> Path:
    if not folder.is_dir():
        raise UnavailableError(f"there is no folder {folder}")
    missing = [program for program in PROGRAMS if not os.access(folder / program, os.X_OK)]
    if missing:
        raise UnavailableError(f"{folder} lacks {', '.join(missing)}")
    return folder


def _lock(location: Place) -> Path:
    return location.directory.with_name(f"{location.directory.name}.lock")


async def _get(location: Place, report: Report, reasons: list[str]) -> Path:
    """Downloads or builds; `reasons` are those of the ways before."""

    async def download(folder: Path) -> None:
        await release.download(location.sources, location.platform, folder, report)

    async def compile_modules(folder: Path) -> None:
        await build.build(location.cache, folder, report)

    ways: tuple[tuple[str, Callable[[Path], Awaitable[None]]], ...] = (
        ("the official releases", download),
        ("a build from Go modules", compile_modules),
    )
    for name, way in ways:
        try:
            return await _install(location, way)
        except UnavailableError as error:
            report(Progress(message=f"Cannot use {name}: {error}"))
            reasons.append(f"{name}: {error}")
    tried = "".join(f"\n- {reason}" for reason in reasons)
    raise BinariesError(
        f"the programs of the control plane ({', '.join(PROGRAMS)}) could not be had. Tried:{tried}\n"
        f"Connect to the internet and start again, or put all five into one folder and set {ASSETS_VARIABLE} to it, or "
        f"copy {location.directory} from a machine of the same kind that has it."
    )


async def _install(location: Place, way: Callable[[Path], Awaitable[None]]) -> Path:
    """What `way` leaves in a new folder becomes the cached one, as a whole or not at all."""
    new = location.directory.with_name(f"{location.directory.name}.new")
    await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
    (new / "bin").mkdir(parents=True)
    try:
        await way(new / "bin")
        _complete(new / "bin")
        await asyncio.to_thread(shutil.rmtree, location.directory, ignore_errors=True)
        new.rename(location.directory)
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
        raise
    return location.directory / "bin"

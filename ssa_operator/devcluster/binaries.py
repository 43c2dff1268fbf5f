"""Finds, downloads or builds the five programs of the control plane.

Promises:
- The sources are tried in this order: KUBEBUILDER_ASSETS, the user's cache, the official releases, a build from Go
  modules. A program that one source lacks comes from the next.
- A program in the cache is complete, because it gets its name last. A start that is killed keeps what it has completed,
  and the next start goes on with the rest.
- One process downloads or builds; other processes wait for it.
- If every source fails, one error names each of them with its reason.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import platformdirs
from msgspec import Struct, field

from ssa_operator.devcluster import build, release
from ssa_operator.devcluster.processes import Progress, ProgressCallback, hold_lock, ignore_progress
from ssa_operator.devcluster.release import Platform, ReleaseURLs
from ssa_operator.devcluster.versions import (
    CONTROLLERS,
    ETCD,
    KUBERNETES,
    KWOK,
    PROGRAMS,
    STORAGE,
    UnavailableError,
)

CACHE_DIRECTORY_VARIABLE = "SSA_OPERATOR_CACHE_DIR"
"""Folder of the programs of the local control plane. Default: ssa-operator in XDG_CACHE_HOME."""

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
"""Folder with programs of a control plane, which are used instead of those of the cache."""

_FIRST_START = (
    "The first start gets etcd and kube-apiserver, and then kube-controller-manager, kube-scheduler and kwok. It "
    "downloads what is published for this machine and compiles the rest, which takes about 11 minutes on two cores for "
    "all five. Later starts take seconds."
)

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
        """The folder of these versions on this platform."""
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


async def acquire(
    locations: BinaryLocations, report: ProgressCallback = ignore_progress, programs: Sequence[str] = PROGRAMS
) -> Path:
    """The folder that has these of the five programs. Raises BinariesError."""
    reasons: list[str] = []
    try:
        # The folder has to have all five, whichever are asked for: a start mixes no versions.
        return _check_complete(_assets(locations), PROGRAMS)
    except UnavailableError as error:
        reasons.append(f"{ASSETS_VARIABLE}: {error}")
        if locations.assets is not None and programs != CONTROLLERS:  # else the start has reported it
            report(Progress(message=f"Not using {ASSETS_VARIABLE}: {error}"))
    folder = locations.directory / "bin"
    try:
        return _check_complete(folder, programs)
    except UnavailableError as error:
        reasons.append(f"the cache: {error}")
    async with hold_lock(_lock(locations), "downloading or building the control plane", report):
        # The process that held the lock before may have installed some of them.
        if missing := _missing(folder, programs):
            folder.mkdir(parents=True, exist_ok=True)
            if set(missing) & set(STORAGE):
                report(Progress(message=_FIRST_START))
            await _install(locations, missing, report, reasons)
            if not _missing(folder, PROGRAMS):
                await _remove_remains(locations, report)
    return folder


def _assets(locations: BinaryLocations) -> Path:
    if locations.assets is None:
        raise UnavailableError("not set")
    return locations.assets


def _check_complete(folder: Path, programs: Sequence[str]) -> Path:
    if not folder.is_dir():
        raise UnavailableError(f"there is no folder {folder}")
    if missing := _missing(folder, programs):
        raise UnavailableError(f"{folder} lacks {', '.join(missing)}")
    return folder


def _missing(folder: Path, programs: Sequence[str]) -> tuple[str, ...]:
    return tuple(program for program in programs if not os.access(folder / program, os.X_OK))


def _lock(locations: BinaryLocations) -> Path:
    return locations.directory.with_name(f"{locations.directory.name}.lock")


async def _install(
    locations: BinaryLocations, programs: Sequence[str], report: ProgressCallback, reasons: list[str]
) -> None:
    """Installs the programs into the cache. `reasons` are why the earlier sources failed."""
    folder = locations.directory / "bin"

    async def download(missing: Sequence[str]) -> None:
        await release.download(locations.releases, locations.platform, folder, missing, report)

    async def compile_modules(missing: Sequence[str]) -> None:
        await build.build(locations.cache, folder, missing, report)

    sources: tuple[tuple[str, str, Callable[[Sequence[str]], Awaitable[None]]], ...] = (
        ("the official releases", "download", download),
        ("a build from Go modules", "compile", compile_modules),
    )
    for name, verb, fill in sources:
        missing = _missing(folder, programs)
        try:
            await fill(missing)
        except UnavailableError as error:
            report(Progress(message=f"Cannot {verb} {', '.join(_missing(folder, programs))}: {error}"))
            reasons.append(f"{name}: {error}")
        else:
            _check_complete(folder, programs)
            return
    tried = "".join(f"\n- {reason}" for reason in reasons)
    raise BinariesError(
        f"programs of the control plane ({', '.join(_missing(folder, programs))}) could not be downloaded or built. "
        f"Tried:{tried}\n"
        f"Connect to the internet and start again, or put all five ({', '.join(PROGRAMS)}) into one folder and set "
        f"{ASSETS_VARIABLE} to it, or copy {locations.directory} from a machine of the same kind that has it."
    )


async def _remove_remains(locations: BinaryLocations, report: ProgressCallback) -> None:
    """Removes what a complete cache does not need: the build cache, and the parts of interrupted downloads."""
    for part in (locations.directory / "bin").glob(f"*{release.PART}"):
        part.unlink()
    await build.remove_cache(locations.cache, report)

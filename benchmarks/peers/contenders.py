"""The operators that are compared: how each is built, once for each state of its sources, and how it is started.

Promises:
- Builds go to the user's cache folder, never into the repository.
- A peer whose tools are missing is left out, and the reason is told.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

import ssa_operator
from benchmarks.peers import job
from benchmarks.process import environment

RAW = "raw"
"""The bare client: the least that can be sent."""


class BuildError(Exception):
    """A peer could not be built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """An operator that runs as a process. `quiet` are the arguments that take away its ticks; for peers the variable
    REQUEUE_SECONDS does that.
    """

    name: str
    version: str
    command: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    quiet: Sequence[str] = ()

    def start(self, kubeconfig: Path, *, ticks: bool) -> tuple[list[str], dict[str, str]]:
        """Command and environment."""
        replaced = {"KUBECONFIG": str(kubeconfig), "REQUEUE_SECONDS": "10" if ticks else "0"}
        return [*self.command, *(() if ticks else self.quiet)], {**environment(), **self.variables, **replaced}


def prepare(names: Sequence[str], scratch: Path) -> tuple[list[Contender], dict[str, str]]:
    """The contenders of these names, built, and why others are left out. `scratch` is a folder for this run alone.

    Raises BuildError where a peer's tools are there and its build fails.
    """
    found: list[Contender] = []
    missing: dict[str, str] = {}
    for name in names:
        if name == RAW:
            continue
        try:
            found.append(CONTENDERS[name](name, scratch))
        except FileNotFoundError as error:
            missing[name] = f"{error.filename} is not installed"
    return found, missing


def _own(name: str, scratch: Path) -> Contender:
    options = [f"--templates={job.FOLDER / 'ssa-operator'}", "--listen="]
    if name.endswith("changed"):
        options.append("--apply=changed")
    return Contender(
        name=name,
        version=ssa_operator.__version__,
        command=[sys.executable, "-m", "ssa_operator", "run", *options],
        variables={"PYTHONPYCACHEPREFIX": str(scratch / "bytecode"), "PYTHONPATH": str(job.FOLDER.parent.parent)},
        quiet=["--tick-rate=0"],
    )


def _kube_rs(name: str, _: Path) -> Contender:
    def build(sources: Path, made: Path) -> None:
        _run([_tool("cargo"), "build", "--release", f"--target-dir={sources / 'target'}"], sources)
        shutil.copy(sources / "target" / "release" / "echo-kube-rs", made)

    sources = job.FOLDER / "kube-rs"
    version = _version(sources / "Cargo.toml", r'^kube = \{ version = "=([^"]+)"')
    return Contender(name=name, version=version, command=[str(_built(sources, version, "cargo", build))])


def _controller_runtime(name: str, _: Path) -> Contender:
    def build(sources: Path, made: Path) -> None:
        _run([_tool("go"), "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), "."], sources, CGO_ENABLED="0")

    sources = job.FOLDER / "controller-runtime"
    version = _version(sources / "go.mod", r"^\s*sigs.k8s.io/controller-runtime v(\S+)")
    workers = name.rpartition("-x")[2]
    return Contender(
        name=name, version=version, command=[str(_built(sources, version, "go", build)), f"-workers={workers}"]
    )


def _kopf(name: str, scratch: Path) -> Contender:
    def build(sources: Path, made: Path) -> None:
        _run([sys.executable, "-m", "venv", str(made)], sources)
        install = ["-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", "requirements.txt"]
        _run([str(made / "bin" / "python"), *install], sources)

    sources = job.FOLDER / "kopf"
    version = _version(sources / "requirements.txt", r"^kopf==(\S+)")
    python = _built(sources, version, sys.executable, build, "requirements.txt") / "bin" / "python"
    options = ["-m", "kopf", "run", "--quiet", "--standalone", "--all-namespaces"]
    return Contender(
        name=name,
        version=version,
        command=[str(python), *options, str(sources / "echo.py")],
        variables={"PYTHONPYCACHEPREFIX": str(scratch / "bytecode-kopf")},
    )


CONTENDERS: Mapping[str, Callable[[str, Path], Contender]] = {
    "ssa-operator": _own,
    "ssa-operator-changed": _own,
    "kube-rs": _kube_rs,
    "controller-runtime-x1": _controller_runtime,
    "controller-runtime-x10": _controller_runtime,
    "kopf": _kopf,
}
"""By name; what each is made of."""


def _built(sources: Path, version: str, tool: str, build: Callable[[Path, Path], None], files: str = "**/*") -> Path:
    """Where the build of these files is: the name has a digest of them and of the tool's own version.

    Raises FileNotFoundError where the tool is missing, and BuildError.
    """
    digest = hashlib.sha256(_output([_tool(tool), "version" if tool == "go" else "--version"]).encode())
    found = sorted(each for each in sources.glob(files) if each.is_file() and "__pycache__" not in each.parts)
    for each in found:
        digest.update(each.relative_to(sources).as_posix().encode() + b"\0" + each.read_bytes())
    folder = platformdirs.user_cache_path("ssa-operator") / "benchmark-peers"
    made = folder / f"{sources.name}-{version}-{digest.hexdigest()[:12]}"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"building {sources.name} {version}, which takes minutes", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as scratch:
            copied = Path(scratch) / "sources"
            for each in found:
                (copied / each.relative_to(sources)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(each, copied / each.relative_to(sources))
            try:
                build(copied, made)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise
    return made


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(2, "not installed", name)
    return found


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _run(command: Sequence[str], folder: Path, **variables: str) -> None:
    done = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}: {done.stderr[-3000:]}")


def _version(file: Path, pattern: str) -> str:
    found = re.search(pattern, file.read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{file}: no version in it")
    return found[1]

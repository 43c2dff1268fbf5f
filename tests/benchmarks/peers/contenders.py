"""The compared operators: how to build and start each of them.

Promises:
- The benchmark omits a peer whose tools are missing, and reports the reason.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ssa_operator
from tests.benchmarks import builds
from tests.benchmarks.peers import job
from tests.benchmarks.process import environment

RAW = "raw"
"""The bare client, which sends the minimum of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """An operator that runs as a process. `quiet` are the arguments that switch off its resyncs; for peers the variable
    REQUEUE_SECONDS does that.
    """

    name: str
    version: str
    command: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    quiet: Sequence[str] = ()

    def start(self, kubeconfig: Path, *, resyncs: bool) -> tuple[list[str], dict[str, str]]:
        """Command and environment."""
        replaced = {"KUBECONFIG": str(kubeconfig), "REQUEUE_SECONDS": "10" if resyncs else "0"}
        return [*self.command, *(() if resyncs else self.quiet)], {**environment(), **self.variables, **replaced}


def prepare(names: Sequence[str], scratch: Path) -> tuple[list[Contender], dict[str, str]]:
    """The contenders of these names, built, and why others are left out. `scratch` is a folder for this run alone.

    Raises builds.BuildError where a peer's tools are there and its build fails.
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
        variables={"PYTHONPYCACHEPREFIX": str(scratch / "bytecode"), "PYTHONPATH": str(job.FOLDER.parents[2])},
        quiet=["--resync-rate=0"],
    )


def _kube_rs(name: str, _: Path) -> Contender:
    def build(sources: Path, made: Path) -> None:
        builds.run([builds.tool("cargo"), "build", "--release", f"--target-dir={sources / 'target'}"], sources)
        shutil.copy(sources / "target" / "release" / "echo-kube-rs", made)

    sources = job.FOLDER / "kube-rs"
    version = builds.version(sources / "Cargo.toml", r'^kube = \{ version = "=([^"]+)"')
    return Contender(name=name, version=version, command=[str(builds.built(sources, version, "cargo", build))])


def _controller_runtime(name: str, _: Path) -> Contender:
    sources = job.FOLDER / "controller-runtime"
    version = builds.version(sources / "go.mod", r"^\s*sigs.k8s.io/controller-runtime v(\S+)")
    workers = name.rpartition("-x")[2]
    return Contender(
        name=name, version=version, command=[str(builds.go_program(sources, version)), f"-workers={workers}"]
    )


def _kopf(name: str, scratch: Path) -> Contender:
    def build(sources: Path, made: Path) -> None:
        builds.run([sys.executable, "-m", "venv", str(made)], sources)
        install = ["-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", "requirements.txt"]
        builds.run([str(made / "bin" / "python"), *install], sources)

    sources = job.FOLDER / "kopf"
    version = builds.version(sources / "requirements.txt", r"^kopf==(\S+)")
    python = builds.built(sources, version, sys.executable, build, "requirements.txt") / "bin" / "python"
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

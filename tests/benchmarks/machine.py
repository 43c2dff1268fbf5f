"""The machine of a benchmark, and the spread of its figures.

Promises:
- A result names every version that its figures depend on, and how busy the machine was.
- Nothing in a result identifies the machine or its user: no host name, no path.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

import ssa_operator

_PACKAGES = ("aiohttp", "jinja2", "kubernetes", "msgspec", "pyyaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Several measurements of one thing."""

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of at least one value, rounded to four significant digits."""
        found = sorted(values)
        low, middle, high = (float(f"{each:.4g}") for each in (found[0], statistics.median(found), found[-1]))
        return cls(min=low, median=middle, max=high)

    def __str__(self) -> str:
        return f"{self.median:g} ({self.min:g} to {self.max:g})"


def description() -> dict[str, Any]:
    """Processor, cores, load, versions, and the commit with `+` where files differ from it."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "ssa-operator": ssa_operator.__version__,
        "commit": _commit(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }


def write_json(file: Path, result: object) -> None:
    """Write a result into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def busy() -> float:
    """Seconds of CPU that this machine spent, for any process; 0 if the system doesn't report it (not Linux).

    Time that the host of a virtual machine took away (steal) counts: it was not there to be used.
    """
    user, nice, system, _idle, _waiting, irq, softirq, steal = _ticks(Path("/proc/stat"), slice(1, 9), 8)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """Seconds of CPU of a process; 0 if the system doesn't report it, or the process has ended."""
    return sum(_ticks(Path(f"/proc/{pid}/stat"), slice(13, 15), 2)) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> float:
    """The largest resident set of a process, in MiB; 0 if the system doesn't report it, or the process has ended."""
    return _status(pid, "VmHWM")


def memory(pid: int) -> float:
    """The resident set of a process, in MiB; 0 if the system doesn't report it, or the process has ended."""
    return _status(pid, "VmRSS")


def _status(pid: int, name: str) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _ticks(file: Path, columns: slice, count: int) -> list[int]:
    """Numbers of a file's first line (proc_pid_stat(5), proc_stat(5)); zeros where there is no such file."""
    try:
        line = file.read_text().splitlines()[0]
    except OSError:
        return [0] * count
    # The second column of a process is its name in brackets, which may hold blanks.
    return [int(each) for each in re.sub(r"\(.*\)", "()", line).split()[columns]]


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """Empty outside of a clone."""
    root = Path(__file__).parents[2]

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "ssa_operator", "tests/benchmarks")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""

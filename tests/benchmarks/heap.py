"""`python -m tests.benchmarks.heap ARGUMENTS`: runs ssa-operator, and writes what its heap has at SIGPROF, as JSON.

The variable CENSUS names the file. The operator has SIGUSR1 and SIGUSR2 itself.

Promises:
- An object counts once, however many others refer to it.
- Free memory is given back to the system before the resident set is read, where the C library can do that.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.benchmarks import machine

CENSUS = "CENSUS"


def census() -> Mapping[str, Any]:
    """The resident set in MiB, and the number and bytes of the objects of each type, most bytes first."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    resident = machine.memory(os.getpid())
    counts, sizes = _by_type()
    return {"resident": resident, "types": {name: [counts[name], size] for name, size in sizes.most_common()}}


def _by_type() -> tuple[Counter[str], Counter[str]]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    pending = gc.get_objects()
    while pending:
        each = pending.pop()
        # What `Raw` refers to is counted by itself, and it has no size of its own that could be read.
        if id(each) in seen or each is pending or each is seen or isinstance(each, msgspec.Raw):
            continue
        seen.add(id(each))
        kind = type(each)
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        counts[name] += 1
        sizes[name] += sys.getsizeof(each, 0)
        pending += [other for other in gc.get_referents(each) if id(other) not in seen]
    return counts, sizes


def _write(*_: object) -> None:
    path = Path(os.environ[CENSUS])
    temporary = path.with_suffix(".new")
    temporary.write_bytes(msgspec.json.encode(census()))
    temporary.rename(path)


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, _write)
    from ssa_operator.cli.main import main

    main()

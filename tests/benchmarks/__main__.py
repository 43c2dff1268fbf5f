"""`python -m tests.benchmarks NAME [ARGUMENT...]`: runs one of the benchmarks; without a name, lists them.

`NAME --help` lists the arguments of one.
"""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

_HEAD = re.compile(r'"""`python -m tests\.benchmarks ([a-z]\w*)[^`]*`: (.+)\.')


def benchmarks() -> Mapping[str, str]:
    """What each of them measures, by name: the head of its module."""
    modules = (*Path(__file__).parent.glob("*.py"), *Path(__file__).parent.glob("*/__main__.py"))
    heads = (_HEAD.match(path.read_text(encoding="utf-8")) for path in modules)
    return dict(sorted((head[1], head[2]) for head in heads if head is not None))


def main() -> None:
    """Run the command line."""
    known = benchmarks()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in known:
        print("\n".join(("usage: python -m tests.benchmarks NAME [ARGUMENT...]", "", *map(_line, known.items()))))
        sys.exit(f"there is no benchmark {name}" if name else 0)
    del sys.argv[1]
    runpy.run_module(f"tests.benchmarks.{name}", run_name="__main__", alter_sys=True)


def _line(head: tuple[str, str]) -> str:
    return f"  {head[0]:<10}{head[1]}"


if __name__ == "__main__":
    main()

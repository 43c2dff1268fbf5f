"""Types the commands of pages into a shell that starts no program, and records which programs it would start.

Promises:
- bash itself reads the commands: their quotes, pipes, subshells, `$(...)`, redirections and comments.
- No program runs. The commands of a page see an empty file for each file of the repository, and the files that the
  page's earlier commands wrote.
- What bash can't do is an error of its block: a syntax error, a folder or a file that it doesn't find.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.docs.blocks.pages import INDENTED, Block, blocks
from tests.packaging.checkout import ROOT, files

ENVIRONMENT = ".venv/bin/"
"""The programs of the environment that `make install` creates, as CONTRIBUTING.md names them."""

_BASH = shutil.which("bash") or "bash"

_SHELL = r"""
(( BASH_VERSINFO[0] >= 5 )) || { echo "the commands of pages are typed into bash 5 or later" >&2; exit 1; }
command_not_found_handle() { printf '%s\0' "$PWD" "$@" > "$RECORDS/$BLOCK.$EPOCHREALTIME.$BASHPID.start"; }
checkout=$PWD
for script in "$RECORDS"/*.sh; do
    BLOCK=${script%.sh} BLOCK=${BLOCK##*/}
    cd "$checkout"
    exec 2> "$RECORDS/$BLOCK.errors"
    eval "$(<"$script")"
    wait
done
"""
"""Types block after block. bash calls the function in place of a program that it doesn't find, and it finds none."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """The start of a program."""

    words: tuple[str, ...]
    """The program and its arguments, as it gets them."""
    folder: PurePosixPath
    """The folder in which it starts, below the root of the repository."""

    @property
    def program(self) -> str:
        return self.words[0]

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.words[1:]

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Typed:
    """What became of the commands of a block."""

    invocations: tuple[Invocation, ...]
    errors: str
    """The words of bash about what it can't do, '' for none."""
    written: frozenset[str]
    """The files that the commands of the page write, by their paths in the repository."""


def holds_commands(block: Block) -> bool:
    """Whether a reader types what a block holds."""
    return block.language in ("sh", INDENTED)


@functools.cache
def typed(page: str) -> dict[Block, Typed]:
    """What the commands of each block of a page start."""
    return typed_blocks([block for block in blocks(page) if holds_commands(block)])


def typed_blocks(commands: Sequence[Block]) -> dict[Block, Typed]:
    """What the commands of blocks start, one block after the other."""
    if not commands:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder)
        for number, block in enumerate(commands):
            (records / f"{number:03}.sh").write_text(block.text.replace(ENVIRONMENT, ""), encoding="utf-8")
        checkout = empty_checkout()
        subprocess.run(
            [_BASH, "--noprofile", "--norc", "-c", _SHELL],
            cwd=checkout,
            env={"PATH": "/nowhere", "RECORDS": str(records)},
            stdin=subprocess.DEVNULL,
            check=True,
        )
        written = _written(checkout)
        for path in written:
            (checkout / path).unlink()
        return {block: _typed(records, f"{number:03}", written) for number, block in enumerate(commands)}


def _typed(records: Path, block: str, written: frozenset[str]) -> Typed:
    """What the shell recorded of a block."""
    starts = (path.read_text(encoding="utf-8") for path in sorted(records.glob(f"{block}.*.start")))
    invocations = []
    for start in starts:
        folder, *words = start.removesuffix("\0").split("\0")
        invocations.append(Invocation(tuple(words), PurePosixPath(folder).relative_to(empty_checkout())))
    return Typed(tuple(invocations), (records / f"{block}.errors").read_text(encoding="utf-8"), written)


@functools.cache
def empty_checkout() -> Path:
    """A copy of the repository in which all files are empty."""
    folder = Path(tempfile.mkdtemp(prefix="ssa-operator-pages-")).resolve()
    atexit.register(shutil.rmtree, folder)
    for path in tracked():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    return folder


@functools.cache
def tracked() -> frozenset[str]:
    """The files of the repository, by their paths in it."""
    return frozenset(path.relative_to(ROOT).as_posix() for path in files())


def _written(checkout: Path) -> frozenset[str]:
    """The files that commands wrote."""
    start = len(f"{checkout}/")
    found = (f"{folder}/{name}"[start:] for folder, _, names in os.walk(checkout) for name in names)
    return frozenset(found) - tracked()

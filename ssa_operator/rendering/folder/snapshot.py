"""Reads all files of the templates folder in one consistent state.

Promises:
- All files come from one state of the folder. If a file changes during the read (the kubelet swaps a ConfigMap's
  `..data` link, an editor writes), the operator reads the folder again.
- The operator reads `.j2`, `.yaml` and `.yml` files, and ignores hidden files and the backup files of editors.
- A file that can't be read is a problem with its name. The other files are read nevertheless.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ssa_operator.core.objects.render_result import RenderProblem
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.rendering.values.limits import OUTPUT_LIMIT

SUFFIXES = (".j2", ".yaml", ".yml")

_ATTEMPTS = 10

FolderState: TypeAlias = Mapping[str, tuple[int, ...]]
"""One state of the folder: device, inode, size and time of each folder and file, by relative path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The files of the templates folder at one moment; paths are relative to it."""

    folders: tuple[str, ...]
    """The names of its folders."""
    files: Mapping[str, str]
    """The text of each file."""
    problems: Mapping[str, RenderProblem]
    """The problem of each file that can't be read."""


class FolderChangingError(OSError):
    """The folder changed during every attempt to read it."""


def read_snapshot(root: Path) -> Snapshot:
    """All files below `root`.

    Raises OSError if `root` itself can't be read, and FolderChangingError if it changes during every attempt.
    """
    for _ in range(_ATTEMPTS):
        before = folder_state(root)
        snapshot = _read_files(root, before)
        if folder_state(root) == before:
            return snapshot
    raise FolderChangingError(f"{root} changes while it is read")


def folder_state(root: Path) -> FolderState:
    """The state of the folder. Raises OSError if `root` itself can't be read."""
    next(root.iterdir(), None)
    return dict(sorted(_walk(root, "", frozenset())))


def _read_files(root: Path, paths: FolderState) -> Snapshot:
    files: dict[str, str] = {}
    problems: dict[str, RenderProblem] = {}
    for relative, known in paths.items():
        if relative.endswith("/"):
            continue
        location = SourceLocation(relative, 1)
        if known and known[2] > OUTPUT_LIMIT:
            problems[relative] = RenderProblem(
                f"is larger than {OUTPUT_LIMIT // 2**20} MiB; no template needs to be", location
            )
            continue
        try:
            encoded = (root / relative).read_bytes()
            text = encoded.decode("utf-8-sig")
        except OSError as error:
            problems[relative] = RenderProblem(f"can't be read: {error.strerror}", location)
        except UnicodeDecodeError as error:
            line = encoded.count(b"\n", 0, error.start) + 1
            problems[relative] = RenderProblem("is not UTF-8 text; save it as UTF-8", SourceLocation(relative, line))
        else:
            files[relative] = text.replace("\r\n", "\n")
    folders = tuple(path[:-1] for path in paths if path.count("/") == 1 and path.endswith("/"))
    return Snapshot(folders=folders, files=files, problems=problems)


def _walk(root: Path, relative: str, above: frozenset[tuple[int, int]]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Paths and their file status; a folder's path ends with a slash. `above` stops the walk at circular links."""
    try:
        entries = list((root / relative).iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = relative + entry.name
        try:
            found = entry.stat()
        except OSError:
            # A broken link; the read reports it.
            if entry.name.endswith(SUFFIXES):
                yield path, ()
            continue
        status = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if stat.S_ISDIR(found.st_mode):
            if status[:2] not in above:
                yield f"{path}/", status[:2]
                yield from _walk(root, f"{path}/", above | {status[:2]})
        elif stat.S_ISREG(found.st_mode) and entry.name.endswith(SUFFIXES):
            yield path, status

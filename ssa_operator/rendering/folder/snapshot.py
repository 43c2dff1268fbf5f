"""Reads all files of the templates folder in one consistent state.

Promises:
- All files come from one state of the folder. If a file changes during the read (the kubelet swaps a ConfigMap's
  `..data` link, an editor writes), the operator reads the folder again.
- The operator reads `.j2`, `.yaml` and `.yml` files, and ignores hidden files and the backup files of editors.
- A file that can't be read is a problem with its name. The other files are read nevertheless.
- The operator reads all files below `files/` in a template folder, whatever their names and content, except those that
  are too large and those that a symbolic link finds outside of it.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from ssa_operator.core.objects.render_result import RenderProblem
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.rendering.jinja.folder_files import FILE_LIMIT, FILES
from ssa_operator.rendering.values.limits import OUTPUT_LIMIT

SUFFIXES = (".j2", ".yaml", ".yml")

_ATTEMPTS = 10

FolderState: TypeAlias = Mapping[str, tuple[int, ...]]
"""One state of the folder: device, inode, size and time of each folder and file, by relative path."""

FilesState: TypeAlias = Mapping[Path, FolderState]
"""One state of several folders and files, each of them by its path; empty where there is none."""

ReadState: TypeAlias = Callable[[Path], FolderState]
"""Reads the state of a folder. Raises OSError if the folder itself can't be read."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """The files of the templates folder at one moment; paths are relative to it."""

    folders: tuple[str, ...]
    """The names of its folders."""
    files: Mapping[str, str]
    """The text of each file."""
    problems: Mapping[str, RenderProblem]
    """The problem of each file that can't be read."""
    data: Mapping[str, bytes | str]
    """The content of each file below `files/` of a template folder; a string is the reason why there is none."""


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


def files_state(
    folders: Iterable[Path], files: Iterable[Path] = (), read_state: ReadState = folder_state
) -> FilesState:
    """The state of all that one load reads."""
    found = {folder: _current_state(folder, read_state) for folder in folders}
    return found | {file: _file_state(file) for file in files}


def _current_state(root: Path, read_state: ReadState) -> FolderState:
    try:
        found = root.stat()
        return {"": (found.st_dev, found.st_ino), **read_state(root)}
    except OSError:
        return {}


def _file_state(path: Path) -> FolderState:
    try:
        found = path.stat()
    except OSError:
        return {}
    return {"": (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)}


def _read_files(root: Path, paths: FolderState) -> Snapshot:
    files: dict[str, str] = {}
    problems: dict[str, RenderProblem] = {}
    data: dict[str, bytes | str] = {}
    for relative, known in paths.items():
        if relative.endswith("/"):
            continue
        if is_data(relative):
            data[relative] = _read_data(root, relative, known)
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
    return Snapshot(folders=folders, files=files, problems=problems, data=data)


def is_data(path: str) -> bool:
    """Whether a path is below `files/` of a template folder."""
    return path.split("/", 2)[1:2] == [FILES] and path.count("/") > 1


def _is_read_as_data(path: str) -> bool:
    return is_data(path) and not path.endswith("~")


def _read_data(root: Path, relative: str, known: tuple[int, ...]) -> bytes | str:
    if not known:
        return "can't be read: its symbolic link leads nowhere"
    if len(known) == 1:
        return f"is a symbolic link that leads out of {FILES}/; copy the file"
    if known[2] > FILE_LIMIT:
        return f"is larger than {FILE_LIMIT // 2**20} MiB"
    try:
        return (root / relative).read_bytes()
    except OSError as error:
        return f"can't be read: {error.strerror}"


def _leads_out(root: Path, path: str) -> bool:
    """Whether a path below `files/` is elsewhere in truth. What the links of a mounted ConfigMap name is within it."""
    folder = (root / path.split("/", 1)[0]).resolve()
    files = (folder / FILES).resolve()
    return not (files.is_relative_to(folder) and (root / path).resolve().is_relative_to(files))


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
            if entry.name.endswith(SUFFIXES) or is_data(path):
                yield path, ()
            continue
        if is_data(path) and _leads_out(root, path):
            yield path, (found.st_ino,)
            continue
        status = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if stat.S_ISDIR(found.st_mode):
            if status[:2] not in above:
                yield f"{path}/", status[:2]
                yield from _walk(root, f"{path}/", above | {status[:2]})
        elif stat.S_ISREG(found.st_mode) and (entry.name.endswith(SUFFIXES) or _is_read_as_data(path)):
            yield path, status

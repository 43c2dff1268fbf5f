"""Reads all files of the templates folder in one consistent state.

Promises:
- All files come from one state of the folder. If a file changes during the read (the kubelet swaps a ConfigMap's
  `..data` link, an editor writes), the operator reads the folder again.
- The operator reads `.j2`, `.yaml`, `.yml` and `.json` files, and ignores hidden files and the backup files of editors.
- A file that can't be read is a problem with its name. The other files are read nevertheless.
- The operator reads all files below `files/` in a template folder, whatever their names and content, except those that
  are too large and those that a symbolic link leads to outside of it.
- A symbolic link that leads out of the templates folder is not followed, and is a problem that names its target
  (`contained_files.py`). The same holds for anything that is neither a file nor a folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.folder.contained_files import is_within, new_texts, read_bytes
from ssa_operator.rendering.jinja.folder_files import FILE_LIMIT, FILES
from ssa_operator.rendering.values.limits import OUTPUT_LIMIT

SUFFIXES = (".j2", ".yaml", ".yml", ".json")

MAX_ENTRIES = 100_000
"""The most files and folders that are walked."""

_FOLDER_OF_A_MOUNT = "this is a folder and no file; mount a file that exists, or rename the folder"
"""The problem of a folder in the place of a template: a mount of a missing file creates one."""

_ATTEMPTS = 10

FolderState: TypeAlias = Mapping[str, tuple[int, ...]]
"""One state of the folder: device, inode, size and time of each folder and file, by relative path."""

FilesState: TypeAlias = Mapping[Path, FolderState]
"""One state of several folders and files, each of them by its path; empty if there is none."""

ReadState: TypeAlias = Callable[[Path], FolderState]
"""Reads the state of a folder. Raises OSError if the folder itself can't be read."""


class FolderSnapshot(Struct, frozen=True, kw_only=True):
    """The files of the templates folder at one moment; paths are relative to it."""

    folders: tuple[str, ...]
    """The names of its folders, and of links to folders that are refused."""
    files: Mapping[str, str]
    """The text of each file."""
    problems: Mapping[str, RenderProblem]
    """The problem of each file that can't be read."""
    data: Mapping[str, bytes | str]
    """The content of each file below `files/` of a template folder; a string is the reason why there is none."""


class FolderChangingError(OSError):
    """The folder changed during every attempt to read it."""


def read_snapshot(root: Path) -> FolderSnapshot:
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
    return dict(sorted(_Walk(root).below("", frozenset())))


def files_state(
    folders: Iterable[Path], files: Iterable[Path] = (), read_state: ReadState = folder_state
) -> FilesState:
    """The state of everything that one load reads."""
    states: dict[Path, FolderState] = {}
    for path, read in [*((folder, read_state) for folder in folders), *((file, None) for file in files)]:
        states[path] = {}
        with contextlib.suppress(OSError):
            status = _status(path.stat())
            states[path] = {"": status} if read is None else {"": status[:2], **read(path)}
    return states


def _status(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _read_files(root: Path, paths: FolderState) -> FolderSnapshot:
    files: dict[str, str] = {}
    problems: dict[str, RenderProblem] = {}
    data: dict[str, bytes | str] = {}
    for relative, known in paths.items():
        if relative.endswith("/"):
            path = relative.removesuffix("/")
            if "/" in path and path.endswith(SUFFIXES) and not is_data(path):
                problems[path] = RenderProblem(_FOLDER_OF_A_MOUNT, SourceLocation(path, 1))
            continue
        if is_data(relative):
            data[relative] = _read_data(root, relative, known)
            continue
        location = SourceLocation(relative, 1)
        if known and len(known) > 1 and known[2] > OUTPUT_LIMIT:
            problems[relative] = RenderProblem(
                f"the file is larger than {OUTPUT_LIMIT // 2**20} MiB; no template needs to be", location
            )
            continue
        try:
            encoded = read_bytes(root / relative, root, OUTPUT_LIMIT)
            text = encoded.decode("utf-8-sig")
        except OSError as error:
            problems[relative] = RenderProblem(f"the file can't be read: {error.strerror}", location)
        except UnicodeDecodeError as error:
            line = encoded.count(b"\n", 0, error.start) + 1
            problems[relative] = RenderProblem(
                "the file is not UTF-8 text; save it as UTF-8", SourceLocation(relative, line)
            )
        else:
            files[relative] = text.replace("\r\n", "\n")
    new = {path: text for path, text in new_texts(root).items() if path.endswith(SUFFIXES) and not is_data(path)}
    if new:
        files = dict(sorted({**files, **new}.items()))
    names = [path for path in paths if path.count("/") == 1 and path.endswith("/")]
    folders = tuple(dict.fromkeys(path.partition("/")[0] for path in (*names, *new) if "/" in path))
    refused = tuple(
        path for path, known in paths.items() if "/" not in path and len(known) == 1 and not path.endswith(SUFFIXES)
    )
    return FolderSnapshot(folders=(*folders, *refused), files=files, problems=problems, data=data)


def is_data(path: str) -> bool:
    """Whether a path is below `files/` of a template folder."""
    return path.split("/", 2)[1:2] == [FILES] and path.count("/") > 1


def _is_read_as_data(path: str) -> bool:
    return is_data(path) and not path.endswith("~")


def _read_data(root: Path, relative: str, known: tuple[int, ...]) -> bytes | str:
    if not known:
        return "can't be read: its symbolic link leads nowhere"
    files = root / relative.split("/", 1)[0] / FILES
    if len(known) == 1 and _leads_out(root, relative):
        target = os.path.realpath(root / relative)
        return f"is a symbolic link that leads out of {FILES}/, to {target}; copy the file"
    if len(known) > 1 and known[2] > FILE_LIMIT:
        return f"is larger than {FILE_LIMIT // 2**20} MiB"
    try:
        return read_bytes(root / relative, files, FILE_LIMIT)
    except OSError as error:
        return f"can't be read: {error.strerror}"


def _leads_out(root: Path, path: str) -> bool:
    """Whether the real path of a path below `files/` is elsewhere. The targets of a mounted ConfigMap's links are
    within it.
    """
    folder = root / path.split("/", 1)[0]
    return not (is_within(folder / FILES, folder) and is_within(root / path, folder / FILES))


class _Walk:
    """Walks the folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._left = MAX_ENTRIES

    def below(
        self, relative: str, above: frozenset[tuple[int, int]], *, linked: bool = False
    ) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Paths and their file status; a folder's path ends with a slash. A path that is refused has one number.

        `above` stops the walk at circular links. `linked` is whether a link led here: in such a folder no link to a
        folder is followed, because links within each other make more paths than files.
        """
        try:
            entries = list((self._root / relative).iterdir())
        except OSError:
            return
        self._left -= len(entries)
        if self._left < 0:
            raise OSError(errno.EFBIG, f"{self._root} has more than {MAX_ENTRIES} files and folders")
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = relative + entry.name
            is_read = entry.name.endswith(SUFFIXES) or _is_read_as_data(path)
            try:
                own = entry.lstat()
                is_link = stat.S_ISLNK(own.st_mode)
                found = entry.stat() if is_link else own
            except OSError:
                # A broken link; the read reports it.
                if is_read:
                    yield path, ()
                continue
            is_folder = stat.S_ISDIR(found.st_mode)
            if is_link and not self._follows(path, entry, linked=linked and is_folder):
                if is_folder or is_read:
                    yield path, (own.st_ino,)
                continue
            status = _status(found)
            if is_folder:
                if status[:2] not in above:
                    yield f"{path}/", status[:2]
                    yield from self.below(f"{path}/", above | {status[:2]}, linked=linked or is_link)
            elif is_read:
                yield path, status if stat.S_ISREG(found.st_mode) else (own.st_ino,)

    def _follows(self, path: str, entry: Path, *, linked: bool) -> bool:
        """Whether a link counts."""
        if linked:
            return False
        return not _leads_out(self._root, path) if is_data(path) else is_within(entry, self._root)

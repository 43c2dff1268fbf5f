"""Reads and writes files, and never follows a symbolic link out of their folder.

The author of a repository chooses its links. A command or a CI job that reads them acts with the permissions of its
user.

Promises:
- A link is followed only if its target is within the same folder. The layout of a mounted ConfigMap does
  (`x.yaml -> ..data/x.yaml`). A hidden file or folder, such as `.git`, is no target.
- The folder itself may be a link, or be reached through links.
- A link that takes the place of a file or a folder after the check is not followed: each part of the path is opened
  without following links.
- Only regular files are read and written: no FIFO, device or socket is opened. A larger file than the limit is not
  read.
- In a block of `unsaved_texts`, a file of that path has the text that an editor holds.

A hard link can't be distinguished from a file. Git creates none, and Linux lets no user link to a file that they can't
write (`fs.protected_hardlinks`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from ssa_operator.objects.context_values import set_within
from ssa_operator.objects.messages import visible_line

GIVEN_LIMIT = 2**26
"""Bytes of a file of objects; the CRDs of a large operator take a few MiB."""

NAME_LIMIT = 255
"""Bytes of a file's name."""

_MARKS = ("templates", ".git")
"""The entries that mark a project's folder."""

_TYPES = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Opens a folder to open its entries, and never a link."""


_unsaved: ContextVar[Mapping[Path, str]] = ContextVar("ssa_operator_unsaved_texts", default={})  # noqa: B039 - not changed


def unsaved_texts(texts: Mapping[Path, str]) -> set_within[Mapping[Path, str]]:
    """Read files in the block as if an editor had saved these texts. The paths are real ones."""
    return set_within(_unsaved, texts)


def new_texts(folder: Path) -> dict[str, str]:
    """The unsaved texts of files below a folder that are not on the disk yet, by relative path."""
    unsaved = _unsaved.get()
    root = Path(os.path.realpath(folder)) if unsaved else folder
    below = {path: text for path, text in unsaved.items() if path.is_relative_to(root) and not path.exists()}
    return {path.relative_to(root).as_posix(): text for path, text in below.items()}


class RefusedFileError(OSError):
    """A file that is not opened because of its place or its type; `strerror` says why and what to do."""

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(errno.EACCES, reason, str(path))


def is_file_name(name: str) -> bool:
    """Whether a foreign name may be the name of a file: a visible segment of a path, not too long for Linux."""
    if not name or name.startswith(".") or not name.isprintable() or "/" in name or "\\" in name:
        return False
    return len(os.fsencode(name)) <= NAME_LIMIT


def real_path(path: Path, within: Path) -> Path:
    """Where a path leads, which need not exist. Raises RefusedFileError if that is not within the folder."""
    root, found = os.path.realpath(within), os.path.realpath(path)
    if found != root and not found.startswith(root.rstrip("/") + "/"):
        raise RefusedFileError(
            f"a symbolic link leads to {visible_line(found)}, which is outside of {within}; copy what it names", path
        )
    parts = Path(found).relative_to(root).parts
    given = Path(_absolute(path)).parts
    if hidden := [part for part in parts if _is_hidden(part) and part not in given]:
        raise RefusedFileError(
            f"a symbolic link leads to {visible_line(found)}, and {hidden[0]} is hidden; copy what it names", path
        )
    return Path(found)


def _is_hidden(name: str) -> bool:
    """Whether a name is hidden. The kubelet's own links name `..data` and `..2026_01_31_...`."""
    return name.startswith(".") and not name.startswith("..")


def project_folder(path: Path) -> Path:
    """The folder that the links of a file may not leave: the nearest one above it that has `templates/` or `.git`, or
    is the working directory; otherwise its own. Neither the root of the file system nor the home of the user is one.
    """
    absolute = Path(_absolute(path))
    too_large = {Path(absolute.anchor), Path(os.path.expanduser("~"))}  # noqa: PTH111 - raises no error
    try:
        here: Path | None = Path.cwd()
    except FileNotFoundError:  # it was deleted
        here = None
    for folder in absolute.parents:
        if folder in too_large or folder.is_symlink():
            continue
        if folder == here or any(os.path.lexists(folder / mark) for mark in _MARKS):
            return folder
    return absolute.parent


def project_of(folder: Path) -> Path:
    """The same for a folder that a user names, which may be a link, or be reached through links."""
    return project_folder(folder.resolve() / "any")


def read_bytes(path: Path, within: Path, limit: int) -> bytes:
    """The content of a file. Raises OSError, and RefusedFileError if it is outside, no regular file, or too large."""
    unsaved = _unsaved.get()
    if unsaved and (text := unsaved.get(real_path(path, within))) is not None:
        return text.encode()
    with _opened(path, within, os.O_RDONLY) as descriptor:
        return _read(descriptor, path, limit)


def read_text(path: Path, within: Path | None = None) -> str:
    """The text of a file that a user names, or of one in a folder, with the line ends of Unix. Its links may not leave
    `within`, by default its project. Raises OSError and UnicodeDecodeError.
    """
    return read_given(path, within).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def read_given(path: Path, within: Path | None = None) -> bytes:
    """The same as bytes.

    Standard input, and the file of a shell's `<(command)`, are below /dev or /proc, where no repository has files.
    """
    if within is None and _is_stream(path):
        with path.open("rb") as file:
            found = file.read(GIVEN_LIMIT + 1)
        if len(found) > GIVEN_LIMIT:
            raise _too_large(path, GIVEN_LIMIT)
        return found
    return read_bytes(path, project_folder(path) if within is None else within, GIVEN_LIMIT)


def _is_stream(path: Path) -> bool:
    """Whether a path is one of the files that this process has open."""
    return _absolute(path).startswith(("/dev/fd/", "/dev/std", "/proc/self/fd/"))


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - Path.absolute keeps `..`


def write_bytes(path: Path, data: bytes, within: Path | None = None) -> None:
    """Write a file, and make the folders above it; `within` is its project's folder by default. Raises OSError."""
    with _opened(path, project_folder(path) if within is None else within, os.O_WRONLY | os.O_CREAT) as descriptor:
        os.ftruncate(descriptor, 0)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)


def write_output(path: Path, data: bytes) -> None:
    """Write a file that a user names for output, which may be a device such as /dev/stdout. Raises OSError."""
    if _absolute(path).startswith("/dev/") or _is_stream(path):
        path.write_bytes(data)
    else:
        write_bytes(path, data)


def remove(path: Path, within: Path) -> None:
    """Remove a file in a folder if it exists; a link is removed, not its target. Raises OSError."""
    with _folder_of(real_path(path.parent, within) / path.name, within, path) as folder:
        if os.path.lexists(path):
            os.unlink(path.name, dir_fd=folder)


def yaml_files(folder: Path, suffixes: tuple[str, ...], *, depth: int = 1) -> Iterator[Path]:
    """The files of a folder with these suffixes, those directly in it first, then those one level deeper, up to
    `depth`. No link leads out of the project of the folder.
    """
    yield from sorted(each for each in folder.iterdir() if each.suffix in suffixes)
    if depth > 1:
        for each in sorted(folder.iterdir()):
            if each.is_dir() and is_within(each, folder):
                yield from yaml_files(each, suffixes, depth=depth - 1)


def is_within(path: Path, folder: Path) -> bool:
    """Whether a path leads to a place within a folder."""
    try:
        real_path(path, folder)
    except RefusedFileError:
        return False
    return True


@contextmanager
def _opened(path: Path, within: Path, flags: int) -> Iterator[int]:
    """A regular file, opened without following a link."""
    found = real_path(path, within)
    with _folder_of(found, within, path, create=bool(flags & os.O_CREAT)) as folder:
        # Opening a FIFO waits for the other end, and opening a device may do anything.
        if not flags & os.O_CREAT or os.path.lexists(found):
            _check_type(os.stat(found.name, dir_fd=folder, follow_symlinks=False), path)
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(found.name, flags, 0o666, dir_fd=folder)
    try:
        _check_type(os.fstat(descriptor), path)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _folder_of(found: Path, within: Path, path: Path, *, create: bool = False) -> Iterator[int]:
    """The opened folder of a real path within a folder."""
    root = Path(os.path.realpath(within))
    if found == root:
        raise RefusedFileError("it is a folder", path)
    if create:
        root.mkdir(parents=True, exist_ok=True)
    folder = os.open(root, _FOLDER)
    try:
        for part in found.relative_to(root).parts[:-1]:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _check_type(found: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise RefusedFileError("it became a symbolic link while it was opened; try again", path)
    if not stat.S_ISREG(found.st_mode):
        kind = _TYPES.get(stat.S_IFMT(found.st_mode), "no regular file")
        raise RefusedFileError(f"it is {kind}; only regular files are read and written", path)


def _read(descriptor: int, path: Path, limit: int) -> bytes:
    size = os.fstat(descriptor).st_size
    if size > limit:
        raise _too_large(path, limit)
    parts: list[bytes] = []
    left = limit + 1
    # A file may grow while it is read, and one of /proc has no size.
    while left and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    if not left:
        raise _too_large(path, limit)
    return b"".join(parts)


def _too_large(path: Path, limit: int) -> RefusedFileError:
    return RefusedFileError(f"it is larger than {limit // 2**20} MiB", path)

"""Copies a virtual environment, and of the image around it only what its Python needs, into the root of a new image.

Promises:
- The root has the interpreter, the standard library, their shared libraries and the certificate authorities. It has no
  shell and no package manager.
- Every file but bytecode, the linker's cache and the lists of users is a copy, at the path that it has here.
- The root names the Debian packages of its files in /var/lib/dpkg/status.d, as distroless images do, for scanners.

Usage, with the Python of the environment: python -I root.py ENVIRONMENT ROOT
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

UNUSED = (
    "__pycache__", "site-packages", "dist-packages", "config-*", "*.a",
    "test", "tests", "idlelib", "tkinter", "turtle*", "ensurepip", "venv", "lib2to3", "distutils", "pydoc_data",
    "_tkinter.*", "_test*", "_ctypes_test*", "_xx*", "xx*",
    "sqlite3", "_sqlite3*", "curses", "_curses*", "readline*", "dbm", "_dbm*", "_gdbm*", "nis.*", "ossaudiodev*",
    "audioop*",
)  # fmt: skip
"""Names in the standard library that only developers, databases, graphical and terminal programs use."""

USER = 65532
FILES = {
    "etc/passwd": f"root:x:0:0::/root:/usr/sbin/nologin\nssa-operator:x:{USER}:{USER}::/tmp:/usr/sbin/nologin\n",
    "etc/group": f"root:x:0:\nssa-operator:x:{USER}:\n",
    # Without it, the C library asks the name servers before it reads /etc/hosts.
    "etc/nsswitch.conf": "hosts: files dns\n",
}
"""The numeric user has an entry, because the kubelet reads only the number from an image: without an entry the user
would be in root's group.
"""


def interpreter(environment: Path) -> Path:
    """The name outside of the environment under which its Python starts."""
    path = environment / "bin" / "python"
    while path.is_relative_to(environment):
        path = path.parent / path.readlink()
    return path


def shared_objects(folders: Iterable[Path]) -> Iterator[Path]:
    """The shared objects in some folders."""
    for folder in folders:
        for path in sorted(folder.rglob("*.so*")):
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
                yield path


def linked(listed: str) -> set[Path]:
    """The shared libraries in the output of ldd, the dynamic linker included. Raises SystemExit if one is missing."""
    lines = [line.split() for line in listed.splitlines() if line.startswith("\t")]
    if missing := sorted({words[0] for words in lines if words[-2:] == ["not", "found"]}):
        raise SystemExit(f"root.py: shared libraries are missing: {', '.join(missing)}")
    return {Path(word) for words in lines for word in words if word.startswith("/")}


def copy(path: Path, root: Path) -> None:
    """Copy a file to the same path under another root. A link such as /lib stays one: both paths lead to the file."""
    folder = path.parent.resolve()
    target = root / folder.relative_to("/")
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target / path.name)
    first = Path("/", path.parts[1])
    link = root / path.parts[1]
    if first.is_symlink() and not link.is_symlink():
        link.symlink_to(first.readlink())


def copy_standard_library(root: Path) -> Path:
    """Copy and compile the standard library, and return its folder in the root."""
    folder = Path(sysconfig.get_path("stdlib"))
    target = root / folder.relative_to("/")

    def unused(_: str, names: list[str]) -> set[str]:
        return {name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in UNUSED)}

    shutil.copytree(folder, target, ignore=unused)
    # Python never checks the bytecode against the source: the root file system is read-only at run time.
    compiling = (
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode=unchecked-hash",
        "-s",
        str(root),
        "-p",
        "/",
        str(target),
    )
    subprocess.run([sys.executable, "-I", *compiling], check=True)
    return target


def copy_certificate_authorities(root: Path) -> None:
    """Copy the bundle to the file that OpenSSL reads first, if the image has one."""
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    if bundle.exists():
        target = root / Path(ssl.get_default_verify_paths().openssl_cafile).relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(bundle, target)


def record_packages(files: Iterable[Path], root: Path) -> None:
    """Write an entry for each Debian package that one of the files belongs to."""
    if shutil.which("dpkg-query") is None:
        return
    # A package may name a file under /lib, under /usr/lib, where it is linked to, or the other way round.
    paths = {str(path) for file in files for path in (file, file.resolve(), Path("/", *file.parts[2:]))}
    owners = subprocess.run(["dpkg-query", "-S", *sorted(paths)], capture_output=True, text=True, check=False).stdout
    names = {line.partition(": ")[0] for line in owners.splitlines() if not line.startswith("diversion ")}
    folder = root / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True, exist_ok=True)
    if names:
        entries = subprocess.run(
            ["dpkg-query", "-s", *sorted(names)], capture_output=True, text=True, check=True
        ).stdout
        for entry in entries.strip().split("\n\n"):
            name = entry.partition("\n")[0].removeprefix("Package: ")
            (folder / name).write_text(entry + "\n", encoding="utf-8")
    shutil.copy("/etc/os-release", root / "etc/os-release")


def fill(environment: Path, root: Path) -> None:
    """Write the root of the image."""
    program = interpreter(environment)
    standard = copy_standard_library(root)
    shutil.copytree(environment, root / environment.relative_to("/"), symlinks=True)
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    copy_certificate_authorities(root)
    objects = [program.resolve(), *shared_objects((standard, environment))]
    listed = subprocess.run(["ldd", *map(str, objects)], capture_output=True, text=True, check=False).stdout
    needed = {each for each in linked(listed) if not each.is_relative_to(environment)}
    for path in (program, *sorted(needed)):
        copy(path, root)
    record_packages((program.resolve(), Path(os.__file__), *needed), root)
    (root / "app").mkdir(exist_ok=True)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    # A user's PATH may lack the folder of the administrator's programs.
    search = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
    subprocess.run([shutil.which("ldconfig", path=search) or "ldconfig", "-r", str(root)], check=True)


if __name__ == "__main__":
    fill(Path(sys.argv[1]), Path(sys.argv[2]))

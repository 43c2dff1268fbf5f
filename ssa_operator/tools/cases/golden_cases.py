"""Reads golden cases: the folders `tests/<plural>.<group>/<case>/` beside `templates/`.

Promises:
- `parent.yaml` holds the parent, `children.yaml` its live children, `others.yaml` other live objects, and `now.txt` the
  time.
- An unknown file in a case, invalid YAML, and a case whose template folder does not exist are errors with file and
  line.
- One invalid case hides no other one.
- No symbolic link leads out of the project (`rendering/folder/contained_files.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.objects.messages import did_you_mean
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.contained_files import RefusedFileError, project_of, read_text, real_path
from ssa_operator.rendering.folder.object_files import FileError, load_objects
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues

CASES = "tests"
"""The folder of the cases, beside the templates folder."""

PARENT, CHILDREN, OTHERS, NOW = "parent.yaml", "children.yaml", "others.yaml", "now.txt"
GIVEN = (PARENT, CHILDREN, OTHERS, NOW)
"""The files that a user writes."""

EXPECTED, STATUS, WAITS, PROBLEMS = "expected.yaml", "status.yaml", "waits.txt", "problems.txt"
EXPECTED_FILES = (EXPECTED, STATUS, WAITS, PROBLEMS)
"""The files with the expected render of the parent. A file that would be empty is left out."""

INVALID = 2
"""The exit code for a case that can't be run."""


class Case(Struct, frozen=True, kw_only=True):
    """One golden case."""

    path: Path
    """Its folder."""
    parent: Document
    children: tuple[Document, ...] = ()
    """The live children of the parent."""
    others: tuple[Document, ...] = ()
    """The other live objects."""
    now: float = 0.0
    """Seconds since the epoch; without `now.txt` 0."""
    documents: Mapping[str, Sequence[Mapping[str, Any]]]
    """The documents of each expected YAML file, by its name, without empty ones; none if there is no such file."""
    lines: Mapping[str, Sequence[str]]
    """The lines of each expected text file, by its name; none if there is no such file."""

    @property
    def folder(self) -> str:
        """The name of its template folder."""
        return self.path.parent.name

    @property
    def name(self) -> str:
        """Its name in the output."""
        return case_name(self.path)


def case_name(path: Path) -> str:
    """The name of the case in a folder: `<plural>.<group>/<case>`."""
    return f"{path.parent.name}/{path.name}"


def find_cases(folder: Path, resources: Iterable[str]) -> list[Path]:
    """The cases in a folder `tests` for these template folders, in the order of their names.

    Raises CommandError if there are cases of another template folder, because no templates would render them.
    """
    check_cases_folder(folder)
    known = set(resources)
    found: list[Path] = []
    for each in _folders(folder):
        if each.name in known:
            found += _folders(each)
        elif any((case / PARENT).exists() for case in _folders(each)):
            hint = did_you_mean(each.name, known, "remove the cases, or name them after a template folder")
            raise CommandError(f"{each}: there is no template folder {each.name}; {hint}", code=INVALID)
    return found


def check_cases_folder(folder: Path) -> None:
    """Raises CommandError if the folder of the cases is a link out of the project."""
    try:
        real_path(folder, project_of(folder.parent))
    except RefusedFileError as error:
        raise CommandError(f"{folder} can't be read: {error.strerror}", code=INVALID) from error


def project_of_case(path: Path) -> Path:
    """The folder that the links of a case may not leave: the project that its folder `tests` is in."""
    return project_of(path.parent.parent)


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith((".", "_")))


def read_case(path: Path) -> Case:
    """The case in a folder. Raises CommandError with every fault."""
    within = project_of_case(path)
    try:
        real_path(path, within)
    except RefusedFileError as error:
        raise CommandError(f"{path}: can't be read: {error.strerror}", code=INVALID) from error
    problems = list(_unknown_files(path))
    documents: dict[str, tuple[Document, ...]] = {}
    for name in (PARENT, CHILDREN, OTHERS):
        try:
            documents[name] = tuple(load_objects([path / name], within)) if (path / name).exists() else ()
        except FileError as error:
            problems += map(str, error.problems)
    now = 0.0
    expected: dict[str, list[dict[str, Any]]] = {}
    lines: dict[str, list[str]] = {}
    try:
        now = _read_now(path / NOW, within)
        expected = {name: _read_documents(path / name, within) for name in (EXPECTED, STATUS)}
        lines = {name: _read_text(path / name, within).splitlines() for name in (WAITS, PROBLEMS)}
    except CommandError as error:
        problems.append(str(error))
    if PARENT in documents and len(documents[PARENT]) != 1:
        count = len(documents[PARENT])
        found = f"holds {count} objects" if (path / PARENT).exists() else "is missing"
        problems.append(f"{path / PARENT}:1: {found}; a case needs one parent")
    if problems:
        raise CommandError("\n".join(problems), code=INVALID)
    (parent,) = documents[PARENT]
    return Case(
        path=path,
        parent=parent,
        children=documents[CHILDREN],
        others=documents[OTHERS],
        now=now,
        documents=expected,
        lines=lines,
    )


def _unknown_files(path: Path) -> Iterator[str]:
    known = (*GIVEN, *EXPECTED_FILES)
    for each in sorted(path.iterdir()):
        if each.name not in known and not each.name.startswith(".") and not each.name.endswith("~"):
            hint = did_you_mean(each.name, known, f"a case has {', '.join(known)}")
            yield f"{each}:1: is no file of a case; {hint}"


def _read_now(path: Path, within: Path) -> float:
    if not path.exists():
        return 0.0
    text = _read_text(path, within).strip()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f"{path}:1: {text!r} is no time; write it as 2026-01-31T12:00:00Z"
        raise CommandError(message, code=INVALID) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _read_text(path: Path, within: Path) -> str:
    """The text of a file, '' if there is none."""
    if not path.exists():
        return ""
    try:
        return read_text(path, within)
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}:1: is not UTF-8 text", code=INVALID) from error
    except OSError as error:
        raise CommandError(f"{path}:1: can't be read: {error.strerror}", code=INVALID) from error


def _read_documents(path: Path, within: Path) -> list[dict[str, Any]]:
    """The documents of an expected file without empty ones. Raises CommandError if it is not YAML with mappings."""
    documents: list[dict[str, Any]] = []
    try:
        for node in parse(StaticText(_read_text(path, within), str(path))):
            document = node.build(SlotValues())
            if not isinstance(document, dict):
                raise CommandError(f"{node.location}: must be a mapping", code=INVALID)
            if document:
                documents.append(document)
    except DocumentError as error:
        raise CommandError(f"{error.location}: {error}", code=INVALID) from error
    return documents

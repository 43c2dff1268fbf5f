"""The templates folder: which resources have one, and what is in it.

Promises:
- All files are read before the first one is compiled, from one state of the folder.
- A folder that fails to load keeps its last good templates; the other folders aren't touched.
- What did not change is not compiled again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssa_operator.core.durations import parse_duration
from ssa_operator.core.place import Place
from ssa_operator.core.rendered import Problem
from ssa_operator.rendering.documents import DocumentError, Filling, parse
from ssa_operator.rendering.places import Places
from ssa_operator.rendering.templates import SHARED, LoadError, Templates

_SETTINGS = "_settings.yaml"
_NAME = re.compile(r"[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `_settings.yaml` says: `interval` in seconds, `version` of the resource, whether children may be outside
    of the parent's namespace.
    """

    interval: float | None = None
    version: str | None = None
    cluster_scope: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The templates of one resource.

    problems: why the last load failed; then everything else is of the last good load, and `templates` is None if
    there was none. digest: names the templates in use.
    """

    resource: str
    group: str
    settings: Settings = Settings()
    files: Mapping[str, str]
    templates: Templates | None = None
    digest: str = ""
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All folders by name, and the problems that belong to none of them."""

    folders: Mapping[str, Folder]
    problems: tuple[Problem, ...] = ()


def load(root: Path, previous: Sources | None = None) -> Sources:
    """Read and compile the templates folder; what fails is as `previous` had it."""
    old = previous.folders if previous is not None else {}
    if not root.is_dir():
        return Sources(folders=old, problems=(Problem(f"the templates folder {root} does not exist; create it"),))
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and path.name[0] not in "._")
    shared, problems = _read(root, SHARED)
    folders: dict[str, Folder] = {}
    for name in names:
        if not _NAME.fullmatch(name):
            problems.append(Problem(f"{name} is no name of a resource; call the folder <plural>.<group>"))
            continue
        folders[name] = _folder(root, name, shared, old.get(name))
    return Sources(folders=folders, problems=tuple(problems))


def _folder(root: Path, name: str, shared: Mapping[str, str], old: Folder | None) -> Folder:
    files, problems = _read(root, name)
    resource, _, group = name.partition(".")
    digest = _digest({**files, **shared})
    if old is not None and not problems and old.digest == digest and not old.problems:
        return old
    settings = Settings()
    templates = None
    try:
        settings = _settings(name, files)
    except DocumentError as error:
        problems.append(Problem(str(error), error.place))
    try:
        templates = Templates(name, {**files, **shared}, digest)
        if not templates.entries:
            problems.append(Problem(f"{name} has no templates; remove the folder if that is meant"))
    except LoadError as error:
        problems.extend(error.problems)
    if problems:
        if old is not None:
            return Folder(
                resource=resource,
                group=group,
                settings=old.settings,
                files=old.files,
                templates=old.templates,
                digest=old.digest,
                problems=tuple(problems),
            )
        return Folder(resource=resource, group=group, files=files, problems=tuple(problems))
    return Folder(resource=resource, group=group, settings=settings, files=files, templates=templates, digest=digest)


def _read(root: Path, name: str) -> tuple[dict[str, str], list[Problem]]:
    files: dict[str, str] = {}
    problems: list[Problem] = []
    for path in sorted(_paths(root / name)) if (root / name).is_dir() else ():
        relative = path.relative_to(root).as_posix()
        try:
            files[relative] = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            problems.append(Problem(f"can't be read: {error.strerror}", Place(relative, 1)))
        except UnicodeDecodeError:
            problems.append(Problem("is not UTF-8 text", Place(relative, 1)))
    return files, problems


def _paths(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _paths(path)
        elif path.name.endswith((".j2", ".yaml", ".yml")):
            yield path


def _digest(files: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        for text in (name, files[name]):
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8) + encoded)
    return digest.hexdigest()


def _settings(folder: str, files: Mapping[str, str]) -> Settings:
    name = f"{folder}/{_SETTINGS}"
    if name not in files:
        return Settings()
    start = Place(name, 1)
    nodes = parse(Places(files[name], [name], start))
    found: Any = nodes[0].build(Filling()) if nodes else {}
    if not isinstance(found, dict):
        raise DocumentError("must be a mapping", start)
    interval = found.get("interval")
    return Settings(
        interval=None if interval is None else parse_duration(str(interval)),
        version=found.get("version"),
        cluster_scope=bool(found.get("clusterScope", False)),
    )

"""Loads the templates folders: one compiled folder for each resource.

Promises:
- The operator reads all files from one state of the folder before it compiles the first one.
- A folder that fails to load keeps its last good templates and settings, and the other folders load.
- A folder that did not change is not compiled again.
- A resource that has a folder in two templates folders fails to load; the operator uses neither of the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ssa_operator.core.objects.render_result import RenderProblem
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.rendering.folder.resource_settings import RESOURCE_NAME
from ssa_operator.rendering.folder.settings import DEFAULT, SETTINGS, Settings, parse_settings
from ssa_operator.rendering.folder.snapshot import Snapshot, read_snapshot
from ssa_operator.rendering.jinja.coverage import Coverage
from ssa_operator.rendering.jinja.templates import SHARED, STATUS, LoadError, Templates
from ssa_operator.rendering.yaml.nodes import DocumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The templates of one resource. If the last load failed, all but `problems` is of the last good load."""

    resource: str
    """The plural name of the resource."""
    group: str
    """The API group of the resource, '' for the core group."""
    root: Path = Path()
    """The templates folder that contains this folder."""
    settings: Settings = DEFAULT
    """The settings in `_settings.yaml`."""
    files: Mapping[str, str]
    """The text of each file, by its path below this folder."""
    templates: Templates | None = None
    """The compiled templates, None if no load succeeded."""
    digest: str = ""
    """Identifies the templates in use, '' if there are none."""
    problems: tuple[RenderProblem, ...] = ()
    """The problems of the last load."""

    @property
    def name(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All folders by name, and the problems that concern no single folder."""

    folders: Mapping[str, Folder]
    problems: tuple[RenderProblem, ...] = ()


def load_all(roots: Sequence[Path], previous: Sources | None = None, *, coverage: Coverage | None = None) -> Sources:
    """Read and compile several templates folders. A folder that fails keeps its state in `previous`. `coverage` records
    what renders reach.
    """
    if len(roots) == 1:
        return load(roots[0], previous, coverage=coverage)
    folders: dict[str, Folder] = {}
    problems: list[RenderProblem] = []
    for root in dict.fromkeys(roots):
        found = load(root, previous, coverage=coverage)
        problems += [RenderProblem(f"{root}: {problem}") for problem in found.problems]
        for name, folder in found.folders.items():
            known = folders.get(name)
            folders[name] = folder if known is None else _with_conflict(known, folder, previous)
    return Sources(folders=folders, problems=tuple(problems))


def _with_conflict(one: Folder, other: Folder, previous: Sources | None) -> Folder:
    """The folder of a resource that is in two templates folders: its previous state, with the problem."""
    problem = RenderProblem(f"{one.name} has a folder in {one.root} and one in {other.root}; remove one of them")
    last = previous.folders.get(one.name) if previous is not None else None
    if last is None:
        last = Folder(resource=one.resource, group=one.group, root=one.root, files={})
    return replace(last, problems=(problem,))


def load(root: Path, previous: Sources | None = None, *, coverage: Coverage | None = None) -> Sources:
    """Read and compile one templates folder. A folder that fails keeps its state in `previous`."""
    known = previous.folders if previous is not None else {}
    old = {name: folder for name, folder in known.items() if folder.root == root}
    try:
        snapshot = read_snapshot(root)
    except FileNotFoundError:
        return Sources(folders=old, problems=(RenderProblem(f"the templates folder {root} does not exist; create it"),))
    except OSError as error:
        return Sources(folders=old, problems=(RenderProblem(f"the templates folder {root} can't be read: {error}"),))
    problems = [problem for path, problem in snapshot.problems.items() if path.startswith(f"{SHARED}/")]
    problems += [
        RenderProblem(f"{path} is in no resource's folder; move it to <plural>.<group>/ or to {SHARED}/")
        for path in snapshot.files
        if "/" not in path
    ]
    folders: dict[str, Folder] = {}
    for name in snapshot.folders:
        if name.startswith("_"):
            continue
        if RESOURCE_NAME.fullmatch(name):
            folders[name] = _load_folder(name, root, snapshot, old.get(name), coverage)
        else:
            problems.append(RenderProblem(f"{name} is not the name of a resource; call the folder <plural>.<group>"))
    return Sources(folders=folders, problems=tuple(problems))


def _load_folder(name: str, root: Path, snapshot: Snapshot, old: Folder | None, coverage: Coverage | None) -> Folder:
    files = {path: text for path, text in snapshot.files.items() if path.startswith((f"{name}/", f"{SHARED}/"))}
    own = {path.removeprefix(f"{name}/"): text for path, text in files.items() if path.startswith(f"{name}/")}
    problems = [problem for path, problem in snapshot.problems.items() if path.startswith(f"{name}/")]
    digest = _digest(files)
    if old is not None and old.digest == digest and not problems and not old.problems:
        return old
    resource, _, group = name.partition(".")
    settings = DEFAULT
    templates = None
    problems += [
        RenderProblem(f"is not read; call it {known}", SourceLocation(f"{name}/{path}", 1))
        for path in own
        for known in (SETTINGS, STATUS)
        if path != known and path.startswith(known.partition(".")[0] + ".")
    ]
    try:
        settings = parse_settings(f"{name}/{SETTINGS}", own.get(SETTINGS, ""))
    except DocumentError as error:
        problems.append(RenderProblem(str(error), error.location))
    try:
        templates = Templates(name, files, digest, coverage=coverage)
    except LoadError as error:
        problems.extend(error.problems)
    if templates is not None and not templates.manifest_files and not problems:
        problems.append(
            RenderProblem(f"{name} has no templates; remove the folder if the operator should ignore the resource")
        )
    if problems:
        last = old or Folder(resource=resource, group=group, root=root, files=own)
        return replace(last, problems=tuple(problems))
    return Folder(
        resource=resource,
        group=group,
        root=root,
        settings=settings,
        files=own,
        templates=templates,
        digest=digest,
    )


def _digest(files: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name, text in sorted(files.items()):
        for part in (name.encode(), text.encode()):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()

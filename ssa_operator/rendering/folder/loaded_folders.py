"""Loads the templates folders: one compiled folder for each resource.

Promises:
- The operator reads all files from one state of the folder before it compiles the first one.
- A folder that fails to load keeps its last good templates and settings, and the other folders load.
- A folder that did not change is not compiled again. Its `files/` and its values are part of it.
- A resource that has a folder in two templates folders fails to load; the operator uses neither of the two.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.messages import did_you_mean, visible_line
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.folder.folder_settings import (
    DEFAULT,
    RESOURCE_NAME,
    SCHEMA,
    SETTINGS,
    Settings,
    parse_settings,
)
from ssa_operator.rendering.folder.folder_snapshot import FolderSnapshot, read_snapshot
from ssa_operator.rendering.folder.installation import Installation, Overrides, folder_values, read_overrides
from ssa_operator.rendering.jinja.folder_files import FILES, FolderFiles
from ssa_operator.rendering.jinja.templates import SHARED, STATUS, VALUES, LoadError, Surroundings, Templates
from ssa_operator.rendering.values.manifest_values import json_text
from ssa_operator.rendering.yaml.nodes import DocumentError

if TYPE_CHECKING:
    from ssa_operator.rendering.jinja.coverage import TemplateCoverage

NO_INSTALLATION = Installation()

_READS_VALUES = re.compile(r"\bvalues\b")


RENDERING_VERSION = 1
"""Increases when the same files render something else than before, so that they are another revision."""

_READS_OPERATOR = re.compile(r"\boperator\b")


class FolderInputs(Struct, frozen=True, kw_only=True):
    """Everything that a folder is compiled from, so that it can be compiled again when its files are others."""

    files: Mapping[str, str]
    """The text of each file of the folder and of `_shared`, by its path below the templates folder."""
    data: Mapping[str, bytes | str]
    """The content of each file below `files/` of these two, as `FolderSnapshot.data` has it."""
    overrides: tuple[Mapping[str, Any], ...] = ()
    """The values of `--values`."""
    operator: Mapping[str, str] = {}
    """The variable `operator` of templates."""
    rendering: int = RENDERING_VERSION
    """The RENDERING_VERSION of the operator that loaded it first."""
    hold_upgrade: bool = False
    """Whether the operator's version counts, as if templates read it."""


class Folder(Struct, frozen=True, kw_only=True):
    """The templates of one resource. If the last load failed, everything but `problems` is from the last good load."""

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
    """The compiled templates, None if no load succeeded. If the caller asked for a part, only those without a fault."""
    digest: str = ""
    """Identifies the templates in use, '' if there are none."""
    revision: str = ""
    """Identifies all that decides the manifests, the operator's rendering included; '' without `rollout`."""
    inputs: FolderInputs | None = None
    """What the templates in use are compiled from; None without the setting `rollout`."""
    planned: bool = False
    """Whether a rollout has planned what this set deletes of all parents, and a user has confirmed it where needed."""
    problems: tuple[RenderProblem, ...] = ()
    """The problems of the last load."""
    failed_files: Mapping[str, str] = {}
    """The text of each file of the last load, if it failed."""
    failed_shared_files: Mapping[str, str] = {}
    """The text of each file in `_shared` of that load, by its path below the templates folder."""

    @property
    def name(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class Sources(Struct, frozen=True, kw_only=True):
    """All folders by name, and the problems that concern no single folder."""

    folders: Mapping[str, Folder]
    problems: tuple[RenderProblem, ...] = ()

    @property
    def problem_lines(self) -> tuple[str, ...]:
        """Every problem, those of the folders included."""
        of_folders = (each for folder in self.folders.values() for each in folder.problems)
        return tuple(map(str, (*self.problems, *of_folders)))


def load_all(
    roots: Sequence[Path],
    previous: Sources | None = None,
    installation: Installation = NO_INSTALLATION,
    *,
    coverage: TemplateCoverage | None = None,
    partial: bool = False,
) -> Sources:
    """Read and compile several templates folders. A folder that fails keeps its state in `previous`. `coverage` records
    what renders reach. With `partial`, a folder that fails has the templates without those at fault.
    """
    overrides = read_overrides(installation.values)
    found = _load_roots(roots, previous, _Given(installation, overrides, coverage, partial))
    unknown = [
        RenderProblem(
            f"there is no template folder {name}, so these values have no effect{hint and f'; {hint}'}", location
        )
        for name, location in overrides.locations.items()
        if name not in found.folders
        for hint in [did_you_mean(name, found.folders)]
    ]
    return replace(found, problems=(*found.problems, *unknown)) if unknown else found


def no_folder_message(roots: Sequence[Path], sources: Sources) -> str | None:
    """The message about templates folders without the folder of a resource, None if there is one or a problem."""
    if sources.folders or sources.problems:
        return None
    return no_folder_advice(roots)


FIRST_FOLDER = "ssa-operator new KIND --group example.com"
"""The command that writes the first templates."""


def no_folder_advice(roots: Sequence[Path]) -> str:
    """What to do if templates folders have no folder of a resource."""
    named = " and ".join(map(str, roots))
    return f"{named} has no folder of a resource; add one, named <plural>.<group>, for example by `{FIRST_FOLDER}`"


class _Given(Struct, frozen=True):
    """The inputs that all folders share."""

    installation: Installation
    overrides: Overrides
    coverage: TemplateCoverage | None
    partial: bool
    """Whether a folder that fails is compiled without the files at fault."""
    stored: FolderInputs | None = None
    """What was kept of the folder, if it is compiled from that; None if it is read from files."""


def _load_roots(roots: Sequence[Path], previous: Sources | None, given: _Given) -> Sources:
    if len(roots) == 1:
        return _load(roots[0], previous, given)
    folders: dict[str, Folder] = {}
    problems: list[RenderProblem] = []
    for root in dict.fromkeys(roots):
        found = _load(root, previous, given)
        problems += [RenderProblem(f"{root}: {problem.message}", problem.location) for problem in found.problems]
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


def load(root: Path, previous: Sources | None = None) -> Sources:
    """Read and compile one templates folder. A folder that fails keeps its state in `previous`."""
    return load_all([root], previous)


def _load(root: Path, previous: Sources | None, given: _Given) -> Sources:
    known = previous.folders if previous is not None else {}
    old = {name: folder for name, folder in known.items() if folder.root == root}
    try:
        snapshot = read_snapshot(root)
    except FileNotFoundError:
        return Sources(folders=old, problems=(RenderProblem(f"the templates folder {root} does not exist; create it"),))
    except OSError as error:
        return Sources(folders=old, problems=(RenderProblem(f"the templates folder {root} can't be read: {error}"),))
    problems = [problem for path, problem in snapshot.problems.items() if _is_in(SHARED, path)]
    problems += [
        problem for path, problem in snapshot.problems.items() if "/" not in path and path not in snapshot.folders
    ]
    is_resource = "." in root.name and RESOURCE_NAME.fullmatch(root.name)
    what_to_do = f"move it to <plural>.<group>/ or to {SHARED}/"
    if is_resource:  # the folder of a resource is given in place of the one above it
        what_to_do = f"name the folder that has {root.name} as the templates folder"
    problems += [
        RenderProblem(
            f"{visible_line(path)} is in no resource's folder; {what_to_do}",
            SourceLocation(path, 1),
        )
        for path in snapshot.files
        if "/" not in path
    ]
    folders: dict[str, Folder] = {}
    for name in snapshot.folders:
        if name.startswith("_"):
            continue
        if RESOURCE_NAME.fullmatch(name):
            folders[name] = _load_folder(name, root, snapshot, given, old.get(name))
        else:
            problems.append(
                RenderProblem(
                    f"{visible_line(name)} is not the name of a resource; call the folder <plural>.<group>",
                    SourceLocation(next((path for path in sorted(snapshot.files) if _is_in(name, path)), name), 1),
                )
            )
    return Sources(folders=folders, problems=tuple(problems))


def load_inputs(name: str, root: Path, inputs: FolderInputs) -> Folder:
    """The folder of a resource, compiled from what was kept of it."""
    snapshot = FolderSnapshot(folders=(name,), files=inputs.files, problems={}, data=inputs.data)
    overrides = Overrides(by_folder={name: inputs.overrides}, folder_problems={}, locations={})
    given = _Given(NO_INSTALLATION, overrides, None, partial=False, stored=inputs)
    return _load_folder(name, root, snapshot, given, None)


def _load_folder(name: str, root: Path, snapshot: FolderSnapshot, given: _Given, old: Folder | None) -> Folder:
    overrides = given.overrides
    files = {path: text for path, text in snapshot.files.items() if path.startswith((f"{name}/", f"{SHARED}/"))}
    own = {path.removeprefix(f"{name}/"): text for path, text in files.items() if path.startswith(f"{name}/")}
    problems = [problem for path, problem in snapshot.problems.items() if _is_in(name, path)]
    problems += [*overrides.problems, *overrides.folder_problems.get(name, ())]
    data = _data(name, snapshot)
    override = overrides.by_folder.get(name, ())
    digest = _digest(files, data, override)
    if old is not None and old.digest == digest and not problems and not old.problems:
        return old
    resource, _, group = name.partition(".")
    settings = DEFAULT
    templates = None
    unread = {path for path in snapshot.problems if path.startswith((f"{name}/", f"{SHARED}/"))}
    misnamed = {
        path: known
        for path in own
        for known in (SCHEMA, SETTINGS, STATUS, VALUES)
        if path != known and path.startswith(known.partition(".")[0] + ".")
    }
    for path, known in misnamed.items():
        problems.append(RenderProblem(f"{path} is not read; call it {known}", SourceLocation(f"{name}/{path}", 1)))
        unread.add(f"{name}/{known}")
    values: Mapping[str, Any] = {}
    try:
        settings = parse_settings(f"{name}/{SETTINGS}", own.get(SETTINGS, ""))
    except DocumentError as error:
        problems.append(RenderProblem(str(error), error.location))
        unread.add(f"{name}/{SETTINGS}")
    try:
        values = folder_values(f"{name}/{VALUES}", own.get(VALUES, ""), override)
    except DocumentError as error:
        problems.append(RenderProblem(str(error), error.location))
        unread.add(f"{name}/{VALUES}")
    if f"{name}/{VALUES}" in unread or overrides.problems:
        unread |= {path for path, text in files.items() if _READS_VALUES.search(text)}
    try:
        stored = given.stored
        operator = given.installation.operator() if stored is None else stored.operator
        around = Surroundings(
            values=values, operator=operator, files=FolderFiles(data), render_limit=settings.render_limit
        )
        coverage = given.coverage
        templates = Templates(name, files, digest, around, coverage, unread if given.partial else None)
        problems += templates.problems
    except LoadError as error:
        problems.extend(error.problems)
    had_manifests = old is not None and old.templates is not None and bool(old.templates.manifest_files)
    has_any = templates is not None and (templates.manifest_files or (templates.status and not had_manifests))
    if templates is not None and not has_any and not problems:
        other = next((path for path in own if path.endswith(".j2") and not path.startswith("_")), "")
        advice = "add one, or remove the folder if the operator should ignore the resource"
        advice = f"call {other} {other.removesuffix('.j2')}.yaml.j2" if other else advice
        location = SourceLocation(f"{name}/{other}", 1) if other else None
        problems.append(RenderProblem(f"{name} has no templates; {advice}", location))
    if problems and not given.partial:
        last = old or Folder(resource=resource, group=group, root=root, settings=settings, files=own)
        shared = {path: text for path, text in files.items() if path.startswith(f"{SHARED}/")}
        return replace(last, problems=tuple(problems), failed_files=own, failed_shared_files=shared)
    inputs, revision = None, ""
    if settings.rollout is not None and templates is not None:
        kept = {path: each for path, each in snapshot.data.items() if path.startswith((f"{name}/", f"{SHARED}/"))}
        inputs = given.stored or FolderInputs(
            files=files,
            data=kept,
            overrides=tuple(override),
            operator=around.operator,
            hold_upgrade=given.installation.hold_upgrade,
        )
        revision = _revision(digest, inputs)
    return Folder(
        resource=resource,
        group=group,
        root=root,
        settings=settings,
        files=own,
        templates=templates,
        digest=digest,
        revision=revision,
        inputs=inputs,
        problems=tuple(problems),
    )


def _revision(digest: str, inputs: FolderInputs) -> str:
    """The digest of all that decides the manifests."""
    reads_operator = inputs.hold_upgrade or any(_READS_OPERATOR.search(text) for text in inputs.files.values())
    operator = json_text(dict(inputs.operator)) if reads_operator else ""
    return hashlib.sha256(f"{inputs.rendering} {digest} {operator}".encode()).hexdigest()[:12]


def _is_in(folder: str, path: str) -> bool:
    """Whether a path is a folder or in it."""
    return path == folder or path.startswith(f"{folder}/")


def _data(name: str, snapshot: FolderSnapshot) -> dict[str, bytes | str]:
    """The files that the templates of a folder can read, by the names that they use."""
    found: dict[str, bytes | str] = {}
    for path, content in snapshot.data.items():
        for folder, prefix in ((SHARED, f"{SHARED}/"), (name, "")):
            if path.startswith(f"{folder}/{FILES}/"):
                found[prefix + path.removeprefix(f"{folder}/{FILES}/")] = content
    return found


def _digest(files: Mapping[str, str], data: Mapping[str, bytes | str], override: Sequence[Mapping[str, Any]]) -> str:
    digest = hashlib.sha256()
    parts = [(name, text.encode()) for name, text in sorted(files.items())]
    parts += [
        (f"{FILES}/{name}", each.encode() if isinstance(each, str) else each) for name, each in sorted(data.items())
    ]
    if override:
        parts.append(("--values", json_text([*override]).encode()))
    for name, content in parts:
        for part in (name.encode(), content):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()

"""Golden cases: reads the folders `tests/<plural>.<group>/<case>/` beside `templates/`, finds those that a user names,
renders their parents, and compares the results with the expected files.

Promises:
- An unknown file in a case, invalid YAML, and a case whose template folder does not exist are errors with file and
  line. An invalid case is reported, and all others run. No symbolic link leads out of the project
  (`rendering/folder/contained_files.py`).
- A user names a project, its templates, its cases, the cases of one template folder, or one case. What does not exist
  is an error, so that a typo is never a success.
- A parent is rendered by the functions of the operator and of `render`, with the live objects of the case.
- The files are compared by their values: comments, quotes and the order of keys make no difference, types and the order
  of manifests do. A diff shows no content of a Secret: a short hash stands for it.
- An update writes only files that differ, writes no empty file, and removes those that are no longer needed.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.messages import did_you_mean
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.process.streams import CommandError, writing
from ssa_operator.reconcile.secrets.content_fields import NO_CONTENT, ContentFields, Mask, hidden_in_manifest
from ssa_operator.rendering.folder.contained_files import (
    RefusedFileError,
    project_of,
    read_text,
    real_path,
    remove,
    write_bytes,
)
from ssa_operator.rendering.folder.folder_settings import RESOURCE_NAME
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import NO_INSTALLATION, Sources, load_all
from ssa_operator.rendering.folder.object_files import FileError, load_objects
from ssa_operator.rendering.jinja.coverage import TemplateCoverage
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues
from ssa_operator.tools.offline.offline_cluster import (
    OfflineCluster,
    OfflineParent,
    RefusedParentError,
    RenderedParents,
    live_objects,
)
from ssa_operator.tools.offline.project import CRDKind, cluster_scoped, crds_of, find_folder, read_crd_kinds
from ssa_operator.tools.printing import canonical_text

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


class CaseProject(Struct, frozen=True, kw_only=True):
    """The templates and CRDs that cases are rendered with."""

    sources: Sources
    kinds: Mapping[GroupKind, CRDKind]
    """The kinds of the CRDs."""


def load_project(
    templates: Sequence[Path],
    crds: Sequence[Path],
    installation: Installation = NO_INSTALLATION,
    coverage: TemplateCoverage | None = None,
) -> CaseProject:
    """The project of these folders; `coverage` records what the cases reach. Raises CommandError for an invalid CRD."""
    sources = load_all(templates, installation=installation, coverage=coverage)
    return CaseProject(sources=sources, kinds=read_crd_kinds(crds))


class CaseOutput(Struct, frozen=True, kw_only=True):
    """What the parent of a case renders."""

    documents: Mapping[str, Sequence[Mapping[str, Any]]]
    """The documents of the expected YAML files, by name."""
    lines: Mapping[str, Sequence[str]]
    """The lines of the expected text files, by name."""
    contents: Mapping[Identity, ContentFields]
    """Where the manifests hold content of the case's Secrets."""
    rendered: OfflineParent

    def text(self, name: str) -> str:
        """The content of an expected file, '' if it is not needed."""
        if name in self.documents:
            return canonical_text(self.documents[name])
        return "".join(f"{line}\n" for line in self.lines[name])


class FileDifference(Struct, frozen=True, kw_only=True):
    """An expected file that differs from what the case renders."""

    path: Path
    diff: tuple[str, ...]
    """The lines of a unified diff, without the content of Secrets."""
    text: str
    """The expected content of the file; '' if it should be missing."""


def render_case(case: Case, project: CaseProject) -> CaseOutput:
    """The render of the parent of a case. Raises CommandError if its templates don't load, or if its parent is not one
    of its template folder.
    """
    location = case.parent.location
    try:
        folder = find_folder(case.parent.body, project.sources, project.kinds)
    except CommandError as error:
        raise CommandError(f"{location}: {error}", code=INVALID) from error
    if folder.name != case.folder:
        message = f"{location}: the parent's templates are in {folder.name}, and the case in {case.folder}"
        raise CommandError(message, code=INVALID)
    problems = [*project.sources.problems, *folder.problems]
    if problems:
        raise CommandError("\n".join(map(str, problems)), code=INVALID)
    scoped = cluster_scoped(project.kinds)
    namespace = case.parent.body["metadata"].get("namespace") or "default"
    objects = live_objects((*case.children, *case.others), scoped, namespace)
    offline = OfflineCluster(
        sources=project.sources,
        kinds=project.kinds,
        now=case.now,
        objects=objects,
        children=live_objects(case.children, scoped, namespace).keys(),
    )
    try:
        rendered = offline.render(case.parent, verify=False)
    except RefusedParentError as error:
        raise CommandError("\n".join(error.lines), code=INVALID) from error
    except CommandError as error:
        raise CommandError(f"{location}: {error}", code=INVALID) from error
    found = RenderedParents(now=case.now, names_parents=False)
    found.add(rendered.planned, rendered.problems)
    manifests = [step.manifest.document.body for step in found.steps if step.manifest is not None]
    status = rendered.status.fields
    return CaseOutput(
        documents={EXPECTED: manifests, STATUS: [status] if status else []},
        lines={WAITS: found.waits, PROBLEMS: found.problems},
        contents={
            each.document.identity: ContentFields(secret=each.document.secret, manifest=each)
            for each in (step.manifest for step in found.steps)
            if each is not None
        },
        rendered=rendered,
    )


def differences(case: Case, output: CaseOutput, salt: bytes) -> list[FileDifference]:
    """The expected files that differ from the output. `salt` is that of the hashes of one run."""
    mask = Mask(salt=salt)
    found = []
    for name in EXPECTED_FILES:
        before: Sequence[str]
        after: Sequence[str]
        if name in output.documents:
            expected, documents = case.documents[name], output.documents[name]
            if _values(expected) == _values(documents):
                continue
            before, after = (_masked_lines(each, mask, output.contents) for each in (expected, documents))
        else:
            if [*case.lines[name]] == [*output.lines[name]]:
                continue
            before, after = case.lines[name], output.lines[name]
        diff = tuple(difflib.unified_diff(before, after, f"{name} (expected)", f"{name} (rendered)", lineterm=""))
        found.append(FileDifference(path=case.path / name, diff=diff, text=output.text(name)))
    return found


def _values(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """The values of the documents with their types, whatever the order of keys."""
    return [json.dumps(document, sort_keys=True) for document in documents]


def _masked_lines(
    documents: Iterable[Mapping[str, Any]], mask: Mask, contents: Mapping[Identity, ContentFields]
) -> list[str]:
    masked = [
        mask.masked(each, hidden_in_manifest(each, contents.get(_identity(each), NO_CONTENT))) for each in documents
    ]
    return canonical_text(masked, sort_keys=True).splitlines()


def _identity(document: Mapping[str, Any]) -> Identity:
    """The identity of a document as `Document.identity` gives it; a file may hold anything."""
    metadata = document.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    group = split_api_version(str(document.get("apiVersion", "")))[0]
    return Identity(group, str(document.get("kind", "")), named.get("namespace") or "", str(named.get("name", "")))


def update_case(path: Path, project: CaseProject) -> tuple[Path, ...]:
    """Write the expected files of the case in a folder that differ, and remove those that are no longer needed.

    Returns the files that were written or removed. Raises CommandError for an invalid case, and writes nothing.
    """
    case = read_case(path)
    found = differences(case, render_case(case, project), b"")
    write(found)
    return tuple(each.path for each in found)


def write(found: Iterable[FileDifference]) -> None:
    """Write the expected files."""
    write_files((each.path, each.text) for each in found)


def write_files(texts: Iterable[tuple[Path, str]]) -> None:
    """Write the files of a case. A file that would be empty is removed. Raises CommandError."""
    for path, text in texts:
        with writing(path):
            if text:
                write_bytes(path, text.encode(), project_of_case(path.parent))
            else:
                remove(path, project_of_case(path.parent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Cases that the same templates render."""

    templates: tuple[Path, ...]
    """The templates folders."""
    crds: tuple[Path, ...]
    installation: Installation
    folder: str = ""
    """The only template folder whose cases run; '' for all."""
    case: str = ""
    """The name of the only case; '' for all."""
    coverage: TemplateCoverage | None = field(default=None, compare=False)
    """Records what the cases reach."""

    @property
    def cases(self) -> tuple[Path, ...]:
        """The folders `tests`."""
        return tuple(dict.fromkeys(templates.parent / CASES for templates in self.templates))


class CaseState(StrEnum):
    """The result of a case."""

    PASSED = "passed"
    UPDATED = "updated"
    DIFFERS = "differs"
    INVALID = "invalid"


class CaseResult(Struct, frozen=True, kw_only=True):
    """The result of a case."""

    path: Path
    state: CaseState
    differences: tuple[FileDifference, ...] = ()
    """The files that differ, or that were updated."""
    problem: str = ""
    """Why the case could not be run."""
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return case_name(self.path)


def find_suites(
    folders: Sequence[str], templates: Sequence[Path], crds: Sequence[Path] | None, installation: Installation
) -> list[Suite]:
    """The suites that the arguments name; without arguments that of the templates folders. Raises CommandError."""
    default = Suite(
        templates=tuple(templates),
        crds=tuple(crds_of(templates, crds)),
        installation=installation,
    )
    if not folders:
        return [default]
    return list(dict.fromkeys(_find_suite(folder, default, crds) for folder in folders))


def _find_suite(argument: str, default: Suite, crds: Sequence[Path] | None) -> Suite:
    if not Path(argument).is_dir():
        if any((templates / argument).is_dir() for templates in default.templates):
            return replace(default, folder=argument)
        if any((cases / argument).is_dir() for cases in default.cases):
            argument = str(next(cases / argument for cases in default.cases if (cases / argument).is_dir()))
        else:
            raise CommandError(
                f"{argument} is no folder of golden cases; name a project, a template folder or a case", code=INVALID
            )
    path = Path(argument).resolve()
    root, folder, case = _place(path, {each.resolve() for each in default.templates})
    if root is None:
        raise CommandError(f"{argument} has no templates folder, and there is none beside it", code=INVALID)
    templates = _shown(root)
    own = tuple(crds_of([templates], crds))
    return replace(default, templates=(templates,), crds=own, folder=folder, case=case)


def _place(path: Path, known: Iterable[Path]) -> tuple[Path | None, str, str]:
    """The templates folder, the name of the template folder, and the case that a folder means."""

    def is_templates(folder: Path) -> bool:
        return folder in known or (folder.name == "templates" and folder.is_dir())

    def beside(cases: Path) -> Path | None:
        found = [each for each in known if each.parent == cases.parent] or [cases.parent / "templates"]
        return found[0] if cases.name == CASES and found[0].is_dir() else None

    if (path / PARENT).exists() and (root := beside(path.parent.parent)):
        return root, path.parent.name, path.name
    if is_templates(path):
        return path, "", ""
    if is_templates(path.parent) and RESOURCE_NAME.fullmatch(path.name):
        return path.parent, path.name, ""
    if (path / "templates").is_dir():
        return path / "templates", "", ""
    if root := beside(path):
        return root, "", ""
    if root := beside(path.parent):
        return root, path.name, ""
    return None, "", ""


def _shown(path: Path) -> Path:
    """The path as a user would write it: relative if it is below the current folder."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def run_suites(
    suites: Sequence[Suite],
    names: Sequence[str] = (),
    *,
    update: bool = False,
    salt: bytes = b"",
) -> list[CaseResult]:
    """Run the cases of the suites whose names match, all without `names`. Raises CommandError if there is none."""
    results: dict[Path, CaseResult] = {}
    seen: list[str] = []
    for suite in suites:
        project = load_suite(suite)
        for path in suite_cases(suite, project):
            name = case_name(path)
            seen.append(name)
            if path not in results and (not names or any(_matches(name, each) for each in names)):
                results[path] = run_case(path, project, update=update, salt=salt)
    if not results:
        raise CommandError(_nothing_found(suites, names, seen), code=INVALID)
    return list(results.values())


def load_suite(suite: Suite) -> CaseProject:
    """The templates and CRDs of a suite. Raises CommandError for an invalid CRD."""
    return load_project(suite.templates, suite.crds, suite.installation, suite.coverage)


def suite_cases(suite: Suite, project: CaseProject) -> list[Path]:
    """The cases of a suite. Raises CommandError if the templates folder can't be read, or has no templates for some."""
    if project.sources.problems and not project.sources.folders:
        raise CommandError("\n".join(map(str, project.sources.problems)), code=INVALID)
    found = [path for cases in suite.cases for path in find_cases(cases, project.sources.folders)]
    return [path for path in found if suite.folder in ("", path.parent.name) and suite.case in ("", path.name)]


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.partition("/")[2], pattern)


def _nothing_found(suites: Sequence[Suite], names: Sequence[str], seen: Sequence[str]) -> str:
    if names and seen:
        short = [name.partition("/")[2] for name in seen]
        hint = did_you_mean(names[0], [*seen, *short], "test without --case runs all")
        return f"there is no case {' or '.join(names)}; {hint}"
    where = " or ".join(str(cases / (suite.folder or "<plural>.<group>")) for suite in suites for cases in suite.cases)
    return f"there are no golden cases; capture one, or write parent.yaml into a folder {where}/<case>"


def run_case(path: Path, project: CaseProject, *, update: bool = False, salt: bytes = b"") -> CaseResult:
    """Run one case; with `update`, write the expected files that differ."""
    began = time.perf_counter()
    try:
        case = read_case(path)
        found = tuple(differences(case, render_case(case, project), salt))
        if update:
            write(found)
    except CommandError as error:
        seconds = time.perf_counter() - began
        return CaseResult(path=path, state=CaseState.INVALID, problem=str(error), seconds=seconds)
    state = CaseState.PASSED
    if found:
        state = CaseState.UPDATED if update else CaseState.DIFFERS
    return CaseResult(path=path, state=state, differences=found, seconds=time.perf_counter() - began)

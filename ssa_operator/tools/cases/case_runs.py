"""Runs golden cases: renders the parent of a case, compares the result with the expected files, and updates them.

Promises:
- A parent is rendered by the functions of the operator and of `render`, with the live objects of the case.
- The files are compared by their values: comments, quotes and the order of keys make no difference, types and the order
  of manifests do.
- An update writes only files that differ, writes no empty file, and removes those that are no longer needed.
- A diff shows no content of a Secret: a short hash stands for it.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.operator.process.streams import CommandError, writing
from ssa_operator.reconcile.secrets.content_fields import NO_CONTENT, ContentFields, Mask, hidden_in_manifest
from ssa_operator.rendering.folder.contained_files import remove, write_bytes
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import NO_INSTALLATION, Sources, load_all
from ssa_operator.rendering.jinja.coverage import TemplateCoverage
from ssa_operator.tools.cases.golden_cases import (
    EXPECTED,
    EXPECTED_FILES,
    INVALID,
    PROBLEMS,
    STATUS,
    WAITS,
    Case,
    project_of_case,
    read_case,
)
from ssa_operator.tools.offline.offline_cluster import OfflineCluster, OfflineParent, RefusedParentError, live_objects
from ssa_operator.tools.offline.rendered_parents import RenderedParents
from ssa_operator.tools.offline.template_folders import CRDKind, cluster_scoped, find_folder, read_crd_kinds
from ssa_operator.tools.printing import canonical_text


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

"""Checks the templates and CRDs of a project, for `ssa-operator check`.

Promises:
- Every finding has a code, a severity, and the file and line where there is one.
- With `--fix`, the fixes that can't change a meaning are written, reported on standard error, and no longer findings.
- Only the text that a finding names is replaced. Line ends, the byte order mark and the mode of the file stay.
- If the old text of an edit isn't where the finding saw it, the edit is left out.
- No symbolic link leads out of the templates folder.
- Each replacement is reported with file and line.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from ssa_operator.objects.problem_hints import hint
from ssa_operator.objects.render_result import Document, RenderProblem
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.crd_files import read_crds
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError, writing
from ssa_operator.rendering.folder.contained_files import read_given, unsaved_texts, write_bytes
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Sources, load_all
from ssa_operator.rendering.folder.object_files import read_objects
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.checks.checked_project import CheckedProject
from ssa_operator.tools.checks.crd_rules import (
    CRD_REFUSED,
    check_against,
    check_crds,
    earlier_crds,
    unknown_fields,
    unreported_revisions,
)
from ssa_operator.tools.checks.refusal_rules import AskedManifest, Refusal
from ssa_operator.tools.checks.template_checks import INVALID_EXAMPLE, check_templates
from ssa_operator.tools.findings import Finding
from ssa_operator.tools.offline.project import readable_crd_kinds
from ssa_operator.tools.schema_rules import UNKNOWN_KIND

if TYPE_CHECKING:
    from ssa_operator.tools.findings import Edit, Finding


def apply_fixes(findings: Iterable[Finding], roots: Sequence[Path]) -> list[str]:
    """Apply the edits of the findings to files of the templates folders `roots`, and return a sentence for each
    replacement. Raises CommandError.
    """
    by_file: dict[str, set[tuple[int, Edit]]] = {}
    for finding in findings:
        if finding.location is not None and finding.edits:
            edits = {(finding.location.line, edit) for edit in finding.edits}
            by_file.setdefault(finding.location.file, set()).update(edits)
    return [sentence for file, edits in sorted(by_file.items()) for sentence in _edit_file(Path(file), edits, roots)]


def _edit_file(path: Path, edits: Iterable[tuple[int, Edit]], roots: Sequence[Path]) -> list[str]:
    within = next((root for root in roots if path.is_relative_to(root)), None)
    sentences: list[str] = []
    try:
        text = read_given(path, within).decode()
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        lines = text.removeprefix(mark).split("\n")
        # The columns of a line stay right if its last edit comes first.
        for number, edit in sorted(edits, key=lambda each: (each[0], -(each[1].column or 0))):
            line = lines[number - 1] if number <= len(lines) else ""
            column = column_of_edit(line, edit)
            if column is not None:
                lines[number - 1] = line[:column] + edit.new + line[column + len(edit.old) :]
                sentences.append(f"{path}:{number}: {edit.old} -> {edit.new}")
        if sentences:
            with writing(path):
                write_bytes(path, (mark + "\n".join(lines)).encode(), within)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} can't be fixed: {error}") from error
    return sentences


def column_of_edit(line: str, edit: Edit) -> int | None:
    """Where the old text begins in a line, None if it isn't there."""
    if edit.column is not None:
        return edit.column if line.startswith(edit.old, edit.column) else None
    found = [each.start() for each in re.finditer(rf"(?<![\w.-]){re.escape(edit.old)}(?=[\"']?\s*:(?:\s|$))", line)]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFiles:
    """The files and folders that are checked."""

    templates: Sequence[Path]
    installation: Installation
    crds: Sequence[Path]
    examples: Sequence[Path]
    schemas: KubernetesSchemas
    """The schemas of the targeted Kubernetes, without the CRDs."""
    against: str = ""
    """The earlier state with which the CRDs are compared, '' for none."""
    only: Sequence[Path] = ()
    """The files and folders whose findings count; () for all."""
    ask: Callable[[Sequence[AskedManifest], Sequence[Document]], Sequence[Refusal]] = lambda *_: ()
    """Asks an API server about manifests, given the project's CRDs."""
    unsaved: Mapping[Path, str] = field(default_factory=dict)
    """The texts of files that an editor has not saved, by their real paths."""


class LoadedProject(CheckedProject, frozen=True, kw_only=True, eq=False):
    """One state of the files of a project."""

    files: CheckedFiles
    definitions: Sequence[Document]
    """The CRDs that can be read."""
    sound: Sequence[Document]
    """Those of them without a value of a wrong type."""
    unreadable: Mapping[str, str]
    """Why other CRDs can't be read, by name."""
    mistyped: Mapping[str, str]
    """The CRDs with a value of a wrong type, by name."""
    faults: Sequence[RenderProblem]
    """Why examples can't be read."""

    @classmethod
    def load(cls, files: CheckedFiles, loaded: Sources | None = None) -> Self:
        """The project of these files. Folders that did not change since they were `loaded` are not compiled again."""
        with unsaved_texts(files.unsaved):
            definitions, unreadable = read_crds(*(path for path in files.crds if path.exists()))
            kinds, mistyped = readable_crd_kinds(definitions)
            sound = [each for each in definitions if _name_of(each) not in mistyped]
            examples, faults = read_objects(files.examples)
            return cls(
                files=files,
                definitions=definitions,
                sound=sound,
                unreadable=unreadable,
                mistyped=mistyped,
                faults=faults,
                sources=load_all(files.templates, loaded, files.installation, partial=True),
                kinds=kinds,
                examples=examples,
                unread_examples=bool(faults),
                now=time.time(),
                ask=lambda manifests: files.ask(manifests, sound),
                schemas=files.schemas.with_crds(definition.body for definition in sound),
            )


def find_problems(files: CheckedFiles) -> list[Finding]:
    """All findings in the project of these files."""
    return check_project(LoadedProject.load(files))


def check_project(project: LoadedProject) -> list[Finding]:
    """All findings, in the order of files and lines. A folder whose CRD can't be read, or has a value of a wrong type,
    is not checked.
    """
    with unsaved_texts(project.files.unsaved):
        return _check(project)


def _check(project: LoadedProject) -> list[Finding]:
    files, definitions = project.files, project.sound
    unreadable = {**project.unreadable, **project.mistyped}
    project = replace(project, unclear_crds=frozenset(unknown_fields(definitions, files.schemas)))
    before = earlier_crds(files.against, files.crds, files.templates) if files.against else []
    changes = check_against([each for each in before if _name_of(each) not in unreadable], definitions)
    unread = [
        Finding(code=INVALID_EXAMPLE, message=each.message, location=each.location, fix=hint(each.message))
        for each in project.faults
    ]
    unknown = unreadable.keys() - set(map(_name_of, definitions))
    unread += [_unreadable(line) for text in dict.fromkeys(unreadable.values()) for line in text.splitlines()]
    checked = [*check_templates(files.templates, project), *unreported_revisions(project.sources, definitions)]
    findings = [
        _with_path(finding, files.templates)
        for finding in checked
        if not (unreadable and ((finding.code == UNKNOWN_KIND and finding.about) or _folder_of(finding) in unknown))
    ]
    found = [
        each
        for each in (*unread, *changes, *check_crds(definitions, files.schemas), *findings)
        if _is_within(each, files.only)
    ]
    return sorted(found, key=_place)


def _name_of(definition: Document) -> str:
    name: str = definition.body["metadata"]["name"]
    return name


_LINE = re.compile(r":([0-9]+): ")


def _unreadable(text: str) -> Finding:
    """The finding of a CRD that can't be read, from the words of `read_crds`."""
    found = _LINE.search(text)
    if found is None:
        return Finding(code=CRD_REFUSED, message=text)
    message, location = text[found.end() :], SourceLocation(text[: found.start()], int(found[1]))
    return Finding(code=CRD_REFUSED, message=message, location=location, fix=hint(message))


def _folder_of(finding: Finding) -> str:
    return finding.location.file.partition("/")[0] if finding.location is not None else finding.about


def _is_within(finding: Finding, only: Sequence[Path]) -> bool:
    """Whether a finding is in one of some files and folders; one without a file is in all."""
    if not only or finding.location is None:
        return True
    path = Path(finding.location.file).resolve()
    return any(path.is_relative_to(each.resolve()) for each in only)


_FIX_ROUNDS = 10
"""Rounds of fixes: a fix can uncover another finding, because a folder that doesn't load is not rendered."""


def fixed(files: CheckedFiles, findings: list[Finding]) -> list[Finding]:
    """The findings that are left after the fixes of the others."""
    for _ in range(_FIX_ROUNDS):
        replaced = apply_fixes(findings, files.templates)
        if not replaced:
            break
        for sentence in replaced:
            streams.error(f"fixed {sentence}")
        findings = find_problems(files)
    return findings


def _with_path(finding: Finding, templates: Sequence[Path]) -> Finding:
    """The finding with the path of its file, as an editor opens it, in place of the path in its templates folder."""
    if finding.location is None:
        return finding
    paths = (folder / finding.location.file for folder in templates)
    path = next((path for path in paths if os.path.lexists(path)), Path(finding.location.file))
    return dataclasses.replace(finding, location=replace(finding.location, file=str(path)))


def _place(finding: Finding) -> tuple[Any, ...]:
    location = finding.location
    return (location is None, location.file if location else "", location.line if location else 0, finding.code)

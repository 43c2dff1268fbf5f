"""A project as an editor has it: template folders, CRDs and examples, some of them with unsaved texts.

Promises:
- A file of a project belongs to the nearest folder above it that is called `templates`, or has such a folder in it.
- A broken file leaves out what it declares, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.render_result import Document
from ssa_operator.rendering.folder.contained_files import read_text
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.checks.project_checks import CheckedFiles, LoadedProject
from ssa_operator.tools.checks.refusal_rules import AskedManifest, Refusal
from ssa_operator.tools.offline.project import CRDKind, crds_of, examples_of, read_version

TEMPLATES = "templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectOptions:
    """What the command line says of the projects."""

    schemas: KubernetesSchemas
    installation: Installation
    templates: Sequence[Path] = ()
    """The templates folders of all files; () for those that a file's place names."""
    crds: Sequence[Path] | None = None
    examples: Sequence[Path] | None = None
    ask: Callable[[Sequence[AskedManifest], Sequence[Document]], Sequence[Refusal]] = lambda *_: ()
    """Asks an API server about manifests, given the project's CRDs."""


class EditedProject(LoadedProject, frozen=True, kw_only=True, eq=False):
    """A loaded project, with the places of its files."""

    @property
    def unsaved(self) -> Mapping[Path, str]:
        return self.files.unsaved

    def folder_of(self, path: Path) -> Folder | None:
        """The template folder in which a file is; for an example, the folder of its kind is not meant."""
        root = next((each for each in self.files.templates if path.is_relative_to(each)), None)
        parts = path.relative_to(root).parts if root is not None else ()
        return self.sources.folders.get(parts[0]) if len(parts) > 1 else None

    def name_of(self, path: Path) -> str | None:
        """The name of a file below its templates folder, None for another file."""
        root = next((each for each in self.files.templates if path.is_relative_to(each)), None)
        return None if root is None else path.relative_to(root).as_posix()

    def path_of(self, name: str) -> Path:
        """The path of a file below a templates folder."""
        found = (root / name for root in self.files.templates)
        return next((path for path in found if path in self.unsaved or path.exists()), self.files.templates[0] / name)

    def kind_of(self, folder: Folder | None) -> CRDKind | None:
        """The kind of a template folder's parents, None without a CRD."""
        return next((each for each in self.kinds.values() if folder is not None and each.folder == folder.name), None)

    def parent_schema(self, folder: Folder | None) -> Schema | None:
        """The schema of a template folder's parents, with descriptions and defaults."""
        kind = self.kind_of(folder)
        if kind is None or folder is None:
            return None
        return object_schema(kind.definition, read_version(folder, kind.definition))

    def text(self, path: Path) -> str:
        """The text of a file as the editor has it, '' if it can't be read."""
        if path in self.unsaved:
            return self.unsaved[path]
        try:
            return read_text(path)
        except (OSError, UnicodeDecodeError):
            return ""


def templates_of(path: Path, options: ProjectOptions) -> tuple[Path, ...]:
    """The templates folders of the project of a file, () if it is in none."""
    if options.templates:
        return tuple(options.templates)
    for folder in path.parents:
        if folder.name == TEMPLATES:
            return (folder,)
        if (folder / TEMPLATES).is_dir():
            return (folder / TEMPLATES,)
    return ()


def checked_files(templates: Sequence[Path], options: ProjectOptions, unsaved: Mapping[Path, str]) -> CheckedFiles:
    """What `check` checks for these templates folders. Raises CommandError if a folder leads out of its project."""
    return CheckedFiles(
        templates=templates,
        installation=options.installation,
        crds=crds_of(templates, options.crds),
        examples=examples_of(options.examples, templates),
        schemas=options.schemas,
        ask=options.ask,
        unsaved=unsaved,
    )


def load_project(files: CheckedFiles, previous: EditedProject | None = None) -> EditedProject:
    """The project of these files. What did not change since `previous` is not compiled again."""
    return EditedProject.load(files, None if previous is None else previous.sources)


def value_of(value: Any, *names: str) -> Any:
    """The value below these names of mappings, None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value

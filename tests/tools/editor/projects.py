"""Projects as an editor has them, from the repository and from texts."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.tools.editor.edited_project import (
    EditedProject,
    ProjectOptions,
    checked_files,
    load_project,
    templates_of,
)
from ssa_operator.tools.editor.expression_types import Reading
from ssa_operator.tools.schema_rules import bundled_schemas
from tests.operator.harness import ROOT

PLACE = "§"
"""Marks the place in a text."""


@cache
def options() -> ProjectOptions:
    return ProjectOptions(schemas=bundled_schemas(KUBERNETES_VERSION), installation=Installation(namespace=""))


def loaded(templates: Path, unsaved: dict[Path, str] | None = None) -> EditedProject:
    """The project of a templates folder."""
    return load_project(checked_files((templates,), options(), unsaved or {}))


@cache
def project_of(path: Path) -> EditedProject:
    """The project of a file of the repository."""
    [templates] = templates_of(path, options())
    return loaded(templates)


def corpus() -> list[Path]:
    """The files of all projects of the repository."""
    folders = ("templates", "crds", "examples")
    return sorted(path for each in folders for path in (ROOT / each).rglob("*") if path.suffix in (".yaml", ".j2"))


def marked(text: str) -> tuple[str, int, int]:
    """The text without its mark, and the line and column of the mark."""
    before, _, after = text.partition(PLACE)
    return before + after, before.count("\n"), len(before) - before.rfind("\n") - 1


def reading(project: EditedProject, name: str, text: str) -> Reading:
    """A text of a file, by its name below the templates folder."""
    path = Path(os.path.normpath(project.files.templates[0] / name))
    return Reading(project=project, path=path, text=text)

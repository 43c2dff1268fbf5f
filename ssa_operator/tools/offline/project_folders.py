"""The folders of a project beside its templates: CRDs and examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ssa_operator.operator.process.option_values import check_crd_folders
from ssa_operator.operator.process.streams import CommandError


class CheckedPaths(NamedTuple):
    """What `check PATH` checks."""

    templates: Sequence[Path]
    only: Sequence[Path]
    """The files and folders whose findings are shown; [] for those of whole projects."""


def examples_of(given: Sequence[Path] | None, templates: Sequence[Path]) -> list[Path]:
    """The files and folders that `--examples` gives, or the folders `examples` beside the templates that exist."""
    if given is not None:
        return list(given)
    return [path for folder in templates if (path := _beside(folder, "examples")).is_dir()]


def crds_of(templates: Sequence[Path], named: Sequence[Path] | None) -> list[Path]:
    """The folders of CRDs that --crds names; without any, the default ones of some template folders, which need not
    exist; and the `_schema.yaml` of the template folders. Raises CommandError if a named one does not exist.
    """
    from ssa_operator.operator.crd_files import schema_files

    check_crd_folders(named or ())
    folders = named or dict.fromkeys(_beside(folder, "crds") for folder in templates)
    return [*folders, *schema_files(templates)]


def checked_paths(paths: Sequence[Path], templates: Sequence[Path]) -> CheckedPaths:
    """The templates folders of some paths; `templates` are those of `--templates`.

    A path is a project, a templates folder, or anything in one of them. Raises CommandError for another path.
    """
    roots: list[Path] = []
    only: list[Path] = []
    for path in paths:
        if not path.exists():
            raise CommandError(
                f"there is no file or folder {path}; name a project, a template folder or a file", code=2
            )
        root = _templates_of(path, templates)
        roots.append(root)
        if path.resolve() not in (root.resolve(), root.resolve().parent):
            only.append(path)
    return CheckedPaths(templates=list(dict.fromkeys(roots)), only=only if len(only) == len(paths) else [])


def _templates_of(path: Path, templates: Sequence[Path]) -> Path:
    """The templates folder that a path is, contains, or is in or beside. Raises CommandError."""
    above = (
        [path, *path.parents] if path.is_absolute() or path == Path() else [path, *path.parents, *Path.cwd().parents]
    )
    for folder in above:
        known = next((each for each in templates if each.resolve() == folder.resolve()), None)
        if known is not None or folder.resolve().name == "templates":
            return known or folder
        if (folder / "templates").is_dir():
            return folder / "templates"
    if path.is_dir():
        return path if not list(path.glob("*.j2")) else path.parent
    raise CommandError(f"{path} is in no folder of templates; name their folder with --templates", code=2)


def _beside(templates: Path, name: str) -> Path:
    """A folder beside the templates folder. Raises CommandError if it is a link out of the project."""
    path = templates.parent / name
    if path.is_symlink():
        from ssa_operator.rendering.folder.contained_files import RefusedFileError, project_of, real_path

        try:
            real_path(path, project_of(path.parent))
        except RefusedFileError as error:
            raise CommandError(f"{path} can't be read: {error.strerror}, or name it with --{name}", code=2) from error
    return path

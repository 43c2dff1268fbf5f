"""The folders of a project beside its templates: CRDs and examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ssa_operator.operator.process.option_values import check_crd_folders
from ssa_operator.operator.process.streams import CommandError


def examples_of(given: Sequence[Path] | None, templates: Sequence[Path]) -> list[Path]:
    """The files and folders that `--examples` gives, or the folders `examples` beside the templates that exist."""
    if given is not None:
        return list(given)
    return [path for folder in templates if (path := _beside(folder, "examples")).is_dir()]


def crds_of(templates: Sequence[Path], named: Sequence[Path] | None) -> list[Path]:
    """The folders of CRDs that --crds names; without any, the default ones of some template folders, which need not
    exist. Raises CommandError if a named one does not exist.
    """
    if named:
        check_crd_folders(named)
        return list(named)
    return list(dict.fromkeys(_beside(folder, "crds") for folder in templates))


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

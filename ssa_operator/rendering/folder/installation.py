"""What templates see of the installation: its settings, and the operator itself.

Promises:
- The `_values.yaml` of a folder holds its settings. Files of `--values` override them by the names of the folders; the
  last file wins.
- A file that is not a mapping is a problem with file and line. The affected folders keep their last good state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator import __version__
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.folder.contained_files import read_given
from ssa_operator.rendering.jinja.strategic_merge import merge_mappings
from ssa_operator.rendering.values.manifest_values import UnfitValueError
from ssa_operator.rendering.yaml.documents import parse_mapping
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues, find_location

VALUES_LIMIT = 2**20
"""Bytes of a file of values: a ConfigMap can't hold more."""

_NO_MAPPING = "values must be a mapping"


class Installation(Struct, frozen=True, kw_only=True):
    """How the operator is installed."""

    values: tuple[Path, ...] = ()
    """The files of `--values`, the last one wins."""
    namespace: str = ""
    """The operator's namespace, '' without a cluster."""
    hold_upgrade: bool = False
    """Whether another version of the operator is another revision of each folder, which reaches parents in waves."""

    def operator(self) -> dict[str, str]:
        """The variable `operator` of templates."""
        return {"namespace": self.namespace or "default", "version": __version__}


class Overrides(Struct, frozen=True, kw_only=True):
    """The content of the files of `--values`."""

    by_folder: Mapping[str, tuple[Mapping[str, Any], ...]]
    """The values of each folder, the last ones win. A null of a later file removes a value of the folder, too."""
    folder_problems: Mapping[str, tuple[RenderProblem, ...]]
    """The problems that concern one folder each."""
    problems: tuple[RenderProblem, ...] = ()
    """The problems of whole files, which concern all folders."""
    locations: Mapping[str, SourceLocation]
    """The first line that names each folder."""


def read_overrides(files: Iterable[Path]) -> Overrides:
    """The values of all files. A file that can't be read is one of its problems."""
    by_folder: dict[str, tuple[Mapping[str, Any], ...]] = {}
    folder_problems: dict[str, tuple[RenderProblem, ...]] = {}
    locations: dict[str, SourceLocation] = {}
    problems: list[RenderProblem] = []
    for path in files:
        try:
            found, node = parse_mapping(str(path), _read(path), _NO_MAPPING)
        except DocumentError as error:
            problems.append(RenderProblem(str(error), error.location))
            continue
        for folder, values in found.items():
            location = find_location(node, (folder,), SlotValues()) if node else SourceLocation(str(path), 1)
            locations.setdefault(folder, location)
            if isinstance(values, dict):
                by_folder[folder] = (*by_folder.get(folder, ()), values)
            else:
                problem = RenderProblem(f"the values of {folder} must be a mapping", location)
                folder_problems[folder] = (*folder_problems.get(folder, ()), problem)
    return Overrides(
        by_folder=by_folder, folder_problems=folder_problems, problems=tuple(problems), locations=locations
    )


def folder_values(name: str, text: str, overrides: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The values of a folder: those of its file `name`, with the overrides. Raises DocumentError."""
    found, _ = parse_mapping(name, text, _NO_MAPPING)
    try:
        merged = merge_mappings({}, found)
        for override in overrides:
            merged = merge_mappings(merged, override)
    except UnfitValueError as error:
        raise DocumentError(str(error), SourceLocation(name, 1)) from None
    return merged


def _read(path: Path) -> str:
    location = SourceLocation(str(path), 1)
    try:
        encoded = read_given(path)
        if len(encoded) > VALUES_LIMIT:
            raise DocumentError(f"the file is larger than {VALUES_LIMIT // 2**20} MiB", location)
        return encoded.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise DocumentError(
            f"the file can't be read: {error.strerror}; name an existing file with --values", location
        ) from None
    except UnicodeDecodeError as error:
        line = encoded.count(b"\n", 0, error.start) + 1
        raise DocumentError("the file is not UTF-8 text; save it as UTF-8", SourceLocation(str(path), line)) from None

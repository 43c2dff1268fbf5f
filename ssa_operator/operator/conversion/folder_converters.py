"""Converts by the templates of folders, for those that read no objects but from files and requests of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ssa_operator.operator.conversion.rules import Converter, converter
from ssa_operator.rendering.folder.loaded_folders import Folder, load_all


def converter_of(templates: Sequence[Path]) -> Callable[[Mapping[str, Any]], Converter | None]:
    """Makes the converter of a CRD by the template folders, which are loaded once it is needed. None if they don't
    convert its objects.
    """

    @cache
    def folders() -> Mapping[str, Folder]:
        return load_all([each for each in templates if each.is_dir()]).folders

    def of(definition: Mapping[str, Any]) -> Converter | None:
        if (definition["spec"].get("conversion") or {}).get("strategy", "None") == "None":
            return None
        folder = folders().get(definition["metadata"]["name"])
        if folder is None or folder.templates is None or not folder.templates.conversions:
            return None
        return converter(folder.templates, definition)

    return of

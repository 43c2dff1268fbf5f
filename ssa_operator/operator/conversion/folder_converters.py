"""The converters of template folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ssa_operator.operator.conversion.rules import Body, Converter, version_of
from ssa_operator.rendering.conversions import render_conversion
from ssa_operator.rendering.folder.loaded_folders import Folder, load_all
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.schema.crd_schema import needed_conversions


def converter(templates: Templates, definition: Mapping[str, Any], key: bytes = b"") -> Converter:
    """Converts the objects of a CRD by the templates of its folder. Versions with the same schema need none."""
    needed = frozenset(needed_conversions(definition))

    def render(body: Body, version: str) -> Body:
        way = (version_of(body), version)
        return (
            {}
            if way not in needed and way not in templates.conversions
            else render_conversion(templates, body, version)
        )

    return Converter(definition=definition, render=render, key=key)


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

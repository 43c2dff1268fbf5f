"""Reads the files of CRDs.

Promises:
- An error names the CRD's file and line.
- As for the API server, a field that is null is missing. A null in place of a property's schema or of a list's item is
  an error with the field.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ssa_operator.core.objects.render_result import Document
from ssa_operator.core.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.rendering.folder.object_files import FileError, load_objects


class DefinitionError(ValueError):
    """A CRD can't be installed. The message names the CRD and the reason."""


def load(*folders: Path) -> list[Document]:
    """The CRDs of folders. Raises DefinitionError."""
    for folder in folders:
        if not folder.exists():
            raise DefinitionError(f"there is no folder {folder}; name the folder of the CRDs with --crds")
    try:
        documents = load_objects(dict.fromkeys(folders))
    except FileError as error:
        raise DefinitionError(str(error)) from error
    locations: dict[str, SourceLocation] = {}
    for document in documents:
        if document.body["kind"] != "CustomResourceDefinition":
            raise DefinitionError(
                f"{document.location}: this is a {document.body['kind']}; a folder of CRDs may contain only CRDs"
            )
        name = document.body["metadata"]["name"]
        if name in locations:
            raise DefinitionError(
                f"{document.location}: {name} is defined at {locations[name]} already; remove one of them"
            )
        locations[name] = document.location
    return [_without_nulls(document) for document in documents]


_JSON_FIELDS = frozenset({"default", "enum", "example"})
"""Fields of a schema that hold any JSON, null included."""


def _without_nulls(document: Document) -> Document:
    """The CRD without the fields of its spec that are null."""

    def reduced(value: Any, path: FieldPath, *, is_properties: bool = False) -> Any:
        if isinstance(value, list):
            return [reduced(required(item, (*path, at)), (*path, at)) for at, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        found = {}
        for name, item in value.items():
            at = (*path, name)
            if is_properties:
                found[name] = reduced(required(item, at), at)
            elif name in _JSON_FIELDS:
                found[name] = item
            elif item is not None:
                found[name] = reduced(item, at, is_properties=name == "properties")
        return found

    def required(value: Any, path: FieldPath) -> Any:
        if value is None:
            name = document.body["metadata"]["name"]
            raise DefinitionError(
                f"{document.location_of(path)}: CRD {name}: {field_text(path)} is null; write its value, or remove it"
            )
        return value

    body = document.body
    return replace(document, body={**body, "spec": reduced(body["spec"], ("spec",))}) if "spec" in body else document

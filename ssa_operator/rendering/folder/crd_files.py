"""Reads the files of CRDs.

Promises:
- An error names the CRD's file and line.
"""

from __future__ import annotations

from pathlib import Path

from ssa_operator.core.objects.render_result import Document
from ssa_operator.core.objects.source_location import SourceLocation
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
    return documents

"""Reads static YAML files of objects: CRDs, examples, and the files of a command line.

Promises:
- The files are read as kubectl reads them: YAML 1.1's scalars, lists of any kind, and metadata without a value.
- Every fault names its file and line.
- No symbolic link leads out of the project of a file (`contained_files.py`).
- `load_crds` reports all errors at once; `read_crds` also returns the CRDs that can be read.
- A null field of a CRD counts as missing, as for the API server. A null in place of a property's schema or of a list's
  item is an error with the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ssa_operator.objects.render_result import Document, RenderProblem
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.rendering.folder.contained_files import project_of, read_text, yaml_files
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues
from ssa_operator.rendering.yaml.validation import manifests

SUFFIXES = (".yaml", ".yml")


class FileError(ValueError):
    """Files that are no valid manifests; `problems` has every fault."""

    def __init__(self, problems: Iterable[RenderProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def objects(text: str, name: str) -> list[Document]:
    """The objects of one text; `name` is the file in its locations. Raises FileError."""
    try:
        nodes = parse(StaticText(text, name), for_kubectl=True)
    except DocumentError as error:
        raise FileError([RenderProblem(str(error), error.location)]) from error
    found = [each for node in nodes for each in manifests(node, SlotValues())]
    problems = [each for each in found if isinstance(each, RenderProblem)]
    if problems:
        raise FileError(problems)
    return [_with_stored_metadata(each) for each in found if isinstance(each, Document)]


def _with_stored_metadata(document: Document) -> Document:
    """The document with its metadata as the API server stores it: a null is a missing field, and '' in a mapping of
    texts.
    """
    metadata = {field: value for field, value in document.body["metadata"].items() if value is not None}
    for field in ("annotations", "labels"):
        if field in metadata:
            metadata[field] = {key: "" if value is None else value for key, value in metadata[field].items()}
    return replace(document, body={**document.body, "metadata": metadata})


def load_objects(paths: Iterable[Path], within: Path | None = None) -> list[Document]:
    """The objects of `read_objects`. Raises FileError with every fault."""
    documents, problems = read_objects(paths, within)
    if problems:
        raise FileError(problems)
    return documents


def read_objects(paths: Iterable[Path], within: Path | None = None) -> tuple[list[Document], list[RenderProblem]]:
    """The objects of files, and of the YAML files directly in folders, in the order of their names, and the faults of
    the files that can't be read. Links may not leave the folder `within`, by default the project of a file.
    """
    documents: list[Document] = []
    problems: list[RenderProblem] = []
    for path, root in _files(paths, within):
        try:
            documents.extend(objects(read_text(path, root), str(path)))
        except FileError as error:
            problems.extend(error.problems)
        except UnicodeDecodeError:
            problems.append(RenderProblem("is not UTF-8 text; save it as UTF-8", SourceLocation(str(path), 1)))
        except OSError as error:
            problems.append(RenderProblem(f"{path} can't be read: {error.strerror}"))
    return documents, problems


def _files(paths: Iterable[Path], within: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """Each file, and the folder that its links may not leave; None for that of its project."""
    for path in paths:
        if path.is_dir():
            yield from ((each, within or project_of(path)) for each in yaml_files(path, SUFFIXES))
        else:
            yield path, within


class DefinitionError(ValueError):
    """A CRD can't be installed. The message names the CRD and the reason."""


def load_crds(*folders: Path) -> list[Document]:
    """The CRDs of folders. Raises DefinitionError with every fault."""
    documents, problems = read_crds(*folders)
    if problems:
        raise DefinitionError("\n".join(dict.fromkeys(problems.values())))
    return documents


def read_crds(*folders: Path) -> tuple[list[Document], dict[str, str]]:
    """The CRDs of folders that can be read, and the faults of the others: by CRD, or by the name of a file (without its
    ending) that can't be parsed. Raises DefinitionError if a folder doesn't exist.
    """
    for folder in folders:
        if not folder.exists():
            raise DefinitionError(f"there is no folder {folder}; name the folder of the CRDs with --crds")
    documents: dict[str, Document] = {}
    problems: dict[str, str] = {}
    for folder in dict.fromkeys(folders):
        for path in yaml_files(folder, SUFFIXES) if folder.is_dir() else [folder]:
            try:
                found = load_objects([path], project_of(folder) if folder.is_dir() else None)
            except FileError as error:
                problems[path.stem] = str(error)
                continue
            for document in found:
                _read(document, documents, problems)
    return [*documents.values()], problems


def _read(document: Document, documents: dict[str, Document], problems: dict[str, str]) -> None:
    """Add a document to the CRDs or to the problems."""
    name = document.body["metadata"]["name"]
    if document.body["kind"] != "CustomResourceDefinition":
        what = f"this is a {document.body['kind']}; a folder of CRDs may contain only CRDs"
        problems[f"{document.body['kind']} {name}"] = f"{document.location}: {what}"
    elif name in documents:
        problems[name] = (
            f"{document.location}: {name} is defined at {documents[name].location} already; remove one of them"
        )
    else:
        try:
            documents[name] = _without_nulls(document)
        except DefinitionError as error:
            problems[name] = str(error)


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

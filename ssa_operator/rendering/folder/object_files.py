"""Reads static YAML files of objects: examples, CRDs, and the files of a command line.

Promises:
- The files are read as kubectl reads them: YAML 1.1's scalars, lists of any kind, and metadata without a value.
- Every fault names its file and line.
- No symbolic link leads out of the project of a file (`contained_files.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ssa_operator.objects.render_result import Document, RenderProblem
from ssa_operator.objects.source_location import SourceLocation
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
            problems.append(RenderProblem("the file is not UTF-8 text; save it as UTF-8", SourceLocation(str(path), 1)))
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

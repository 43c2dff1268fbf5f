"""Reads the parents in the files of a command line.

Promises:
- A folder stands for the YAML files directly in it, `-` for standard input.
- Files follow the YAML rules of manifests. Every fault is named with file and line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ssa_operator.objects.render_result import Document, RenderProblem
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.object_files import FileError, load_objects, objects


def given_files(arguments: Sequence[str] | None, filename: Sequence[str] | None, words: str) -> list[str]:
    """The files of a command's arguments and of `-f`. `words` say what the command needs.

    Raises CommandError if both name nothing, or if `-f` names a file that does not exist.
    """
    for file in filename or ():
        if file != "-" and not Path(file).exists():
            raise CommandError(f"there is no file or folder {file}; correct -f", code=2)
    found = [*(arguments or ()), *(filename or ())]
    if not found:
        raise CommandError(f"{words}; - is standard input", code=2)
    return found


def are_files(arguments: Sequence[str]) -> bool:
    """Whether a command's arguments are files and not objects of the cluster. A folder that is named as an object is
    one only among other files. Raises CommandError for a mixture.
    """
    if all(Path(argument).is_dir() for argument in arguments):
        return True
    files = [
        argument == "-" or argument.endswith((".yaml", ".yml", ".json")) or Path(argument).is_file()
        for argument in arguments
    ]
    if any(files):
        files = [file or Path(argument).is_dir() for file, argument in zip(files, arguments, strict=True)]
    if any(files) and not all(files):
        named = arguments[files.index(False)]
        raise CommandError(f"{named} is no file; name files only, or objects of the cluster only", code=2)
    return all(files)


def read_parents(files: Sequence[str | Path]) -> list[Document]:
    """The parents in some files. Raises CommandError, for example if there is none."""
    found = read_objects(files)
    if not found:
        raise CommandError("there is no object in " + ", ".join(map(str, files)))
    return found


def check_namespaces(documents: Iterable[Document], namespace: str) -> None:
    """Raises CommandError if `--namespace` is not the namespace that an object names; '' allows all."""
    problems = []
    for document in documents:
        own = document.body["metadata"].get("namespace")
        if namespace and own and own != namespace:
            # The words of kubectl (setNamespace in k8s.io/cli-runtime/pkg/resource/visitor.go).
            problems.append(
                f'{document.location}: the namespace from the provided object "{own}" does not match the namespace '
                f'"{namespace}"; pass --namespace={own}, or remove metadata.namespace'
            )
    if problems:
        raise CommandError("\n".join(problems), code=2)


def read_objects(files: Sequence[str | Path], unnamed: list[RenderProblem] | None = None) -> list[Document]:
    """The objects in some files; `unnamed` gets the problems of those with a generateName. Raises CommandError."""
    problems: list[str] = []
    found: list[Document] = []
    for file in files:
        try:
            if str(file) == "-":
                found += objects(_standard_input(), "standard input", unnamed)
            else:
                found += load_objects([Path(file)], unnamed=unnamed)
        except FileError as error:
            problems += map(str, error.problems)
    if problems:
        raise CommandError("\n".join(problems))
    return found


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError("standard input is not UTF-8 text") from error

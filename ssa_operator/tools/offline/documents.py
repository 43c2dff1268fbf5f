"""Parents in files: read, with their template folder and namespaces, and applied.

Promises:
- A folder stands for the YAML files directly in it, `-` for standard input.
- Files follow the YAML rules of manifests. Every fault is named with file and line.
- The API server validates a parent strictly, and even in a dry run its defaults are those of a real apply.
- A field of a parent that a file no longer has is removed, if an earlier apply of a file wrote it.
- A user whose permissions are limited to a namespace can preview and apply parents in it. An administrator's command
  notices the parents of all namespaces.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Applied, Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions, Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.render_result import Document, RenderProblem
from ssa_operator.operator.folder_controllers import FolderControllers
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.rendering.folder.object_files import FileError, load_objects, objects

FILE_MANAGER = "ssa-operator-apply"
"""The field manager of parents that are applied from files."""


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


def folder_of(controllers: FolderControllers, kind: GroupKind) -> Parents:
    """The informer of the parents of a kind. Raises ParentError if no folder has templates for it."""
    for parents in controllers.folders.values():
        if parents.served.resource.group_kind == kind:
            return parents
    waiting = "; ".join(f"{name} waits: {reason}" for name, reason in sorted(controllers.missing.items()))
    hint = waiting or "name the folder of your templates with --templates"
    raise ParentError(f"no template folder that the cluster serves is for {kind}; {hint}")


async def apply_parent(
    client: Client, served: Resource, body: Mapping[str, Any], namespace: str, *, dry_run: bool
) -> Applied:
    """Apply the parent of a file, or try it. `namespace` is that of a parent without one.

    Raises ParentError if it is in a namespace although its kind is cluster-scoped, and ApiError if the API server
    refuses it.
    """
    resource = replace(served, version=split_api_version(body["apiVersion"])[1])
    metadata, name = dict(body["metadata"]), body["metadata"]["name"]
    if resource.namespaced:
        namespace = metadata["namespace"] = metadata.get("namespace") or namespace
    elif metadata.get("namespace"):
        raise ParentError(f"{resource.kind} {name} is cluster-scoped; remove metadata.namespace")
    else:
        namespace = ""
    sent = {key: value for key, value in body.items() if key != "status"} | {"metadata": metadata}
    options = ApplyOptions(dry_run=dry_run, manager=FILE_MANAGER)
    return await client.apply(resource, namespace, name, encode(sent), options)


def namespaces_of_documents(documents: Iterable[Document], namespace: str) -> tuple[str, ...]:
    """The namespaces of parents in files; `namespace` is that of a parent without one."""
    found = (document.body["metadata"].get("namespace") or namespace for document in documents)
    return tuple(dict.fromkeys(found))


async def watched_namespaces(
    client: Client, mapper: RESTMapper, templates: Sequence[Path], needed: Sequence[str]
) -> tuple[str, ...]:
    """() for all namespaces, or the needed ones if the user may not list the parents of all namespaces.

    Raises ApiError if the API server can't be reached.
    """
    names = [path.name for root in templates for path in root.iterdir() if path.is_dir() and path.name[0] not in "_."]
    allowed = await asyncio.gather(*(_may_list(client, mapper, name) for name in names))
    return () if all(allowed) else tuple(needed)


async def _may_list(client: Client, mapper: RESTMapper, name: str) -> bool:
    try:
        resource = await mapper.resource_by_name(name)
    except UnknownKind:
        return True
    if not resource.namespaced:
        return True
    try:
        await client.send(calls.list_page(Scope(resource), limit=1))
    except ApiError as error:
        if not error.forbidden:
            raise
        return False
    return True

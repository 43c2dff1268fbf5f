"""Reads the CRDs of a project: the files of a folder such as `crds/`, and the `_schema.yaml` of template folders.

Promises:
- `load_crds` reports all errors at once; `read_crds` also returns the CRDs that can be read.
- A null field of a CRD counts as missing, as for the API server. A null in place of a property's schema or of a list's
  item is an error with the field.
- A `_schema.yaml` takes the place of a CRD. A CRD that has both is an error with both files.
- If the fields of two versions differ, a `_schema.yaml` without a conversion to and from the stored one is an error.
- If a folder has conversions, a CRD that stores another version than the operator reads is an error.
- A CRD whose folder has conversions says from the beginning that the API server needs them.
- An error about the CRD of a `_schema.yaml` names the line of the field there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.rendering.folder.contained_files import project_of, read_text, yaml_files
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS, Settings, parse_settings
from ssa_operator.rendering.folder.object_files import SUFFIXES, FileError, load_objects
from ssa_operator.rendering.jinja.templates import CONVERT
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues, find_location
from ssa_operator.schema.crd_schema import Way, needed_conversions, stored_version, version_priority


class DefinitionError(ValueError):
    """A CRD can't be installed. The message names the CRD and the reason."""


def load_crds(*folders: Path) -> list[Document]:
    """The CRDs of folders. Raises DefinitionError with every fault."""
    documents, problems = read_crds(*folders)
    if problems:
        raise DefinitionError("\n".join(dict.fromkeys(problems.values())))
    return documents


def read_crds(*folders: Path) -> tuple[list[Document], dict[str, str]]:
    """The CRDs of folders and files that can be read, and the faults of the others: by CRD, or by the name of a file
    (without its ending) that can't be parsed. Raises DefinitionError if a folder doesn't exist.
    """
    for folder in folders:
        if not folder.exists():
            raise DefinitionError(f"there is no folder {folder}; name the folder of the CRDs with --crds")
    documents: dict[str, Document] = {}
    problems: dict[str, str] = {}
    beside = [path.with_name(CONVERT) for path in folders if path.name == SCHEMA]
    folders = (*folders, *(folder for folder in beside if folder.is_dir()))
    conversions = [folder for folder in dict.fromkeys(folders) if folder.name == CONVERT]
    for folder in dict.fromkeys(folders):
        if folder in conversions:
            continue
        for path in yaml_files(folder, SUFFIXES) if folder.is_dir() else [folder]:
            try:
                within = project_of(folder) if folder.is_dir() else None
                found = [short_crd(path)] if path.name == SCHEMA else load_objects([path], within)
            except (DefinitionError, FileError) as error:
                problems[path.absolute().parent.name if path.name == SCHEMA else path.stem] = str(error)
                continue
            for document in found:
                _read(document, documents, problems)
    for folder in conversions:
        _use_conversions(folder, documents, problems)
    return [*documents.values()], problems


CONVERSION: Mapping[str, Any] = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"service": {"namespace": "ssa-operator", "name": "ssa-operator-conversion"}},
        "conversionReviewVersions": ["v1"],
    },
}
"""`spec.conversion` of a CRD that needs conversions, until an operator says where it serves them. Until then the API
server refuses what needs one. Without it, it would drop the fields that the other version doesn't have.
"""


def _use_conversions(folder: Path, documents: dict[str, Document], problems: dict[str, str]) -> None:
    """Let the CRD of a template folder use its `_convert/`, if it needs that."""
    name = folder.absolute().parent.name
    document = documents.get(name)
    if document is None or not needed_conversions(document.body):
        return
    if fault := _conversion_fault(document, folder):
        problems[name] = fault
        del documents[name]
    else:
        spec = {**document.body["spec"], "conversion": CONVERSION}
        documents[name] = replace(document, body={**document.body, "spec": spec})


def _conversion_fault(document: Document, folder: Path) -> str | None:
    """Why a CRD can't use the conversions of a folder; None if it can."""
    spec = document.body["spec"]
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        where = document.location_of(("spec", "conversion"))
        return f"{where}: has a conversion of its own, and {folder} has others; remove one of them"
    return missing_conversions(document, folder) or _unread_storage(document, folder)


def _unread_storage(document: Document, folder: Path) -> str | None:
    """The message about objects that are stored in another version than the operator reads; None if they aren't."""
    body, stored = document.body, stored_version(document.body)
    read = read_version(body, folder.parent)
    if read == stored:
        return None
    at = [each["name"] for each in body["spec"]["versions"]].index(stored)
    where = document.location_of(("spec", "versions", at, "name"))
    return (
        f"{where}: objects are stored in {stored} and the operator reads {read}, so that one that can't be "
        f"converted would keep it from all others; store {read}, or write `version: {stored}` in "
        f"{folder.with_name(SETTINGS)}"
    )


def read_version(definition: Mapping[str, Any], folder: Path) -> str:
    """The version of a CRD's objects that the operator reads for a template folder; '' if the CRD serves none."""
    settings = _settings_of(folder)
    served = [str(each["name"]) for each in definition["spec"].get("versions", ()) if each.get("served")]
    return (settings and settings.version) or max(served, key=version_priority, default="")


def missing_conversions(document: Document, folder: Path) -> str | None:
    """The message about the conversions that the objects of a CRD need and a folder lacks; None if it has all."""
    versions = [str(each["name"]) for each in document.body["spec"]["versions"]]
    missing = [
        (way, path) for way in needed_conversions(document.body) if not (path := conversion_file(folder, way)).is_file()
    ]
    if not missing:
        return None
    stored = stored_version(document.body)
    other = next(each for each in missing[0][0] if each != stored)
    where = document.location_of(("spec", "versions", versions.index(other), "name"))
    names = " and ".join(str(path) for _, path in missing)
    return f"{where}: the fields of {other} differ from those of {stored}, so objects need a conversion; add {names}"


def conversion_file(folder: Path, way: Way) -> Path:
    """The file of a conversion."""
    return folder / f"{way[0]}-to-{way[1]}.yaml.j2"


def _read(document: Document, documents: dict[str, Document], problems: dict[str, str]) -> None:
    """Add a document to the CRDs or to the problems."""
    name = document.identity.name
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


def schema_files(templates: Iterable[Path]) -> list[Path]:
    """The `_schema.yaml` and the `_convert/` of the template folders, which `read_crds` takes, too."""
    found = (
        each
        for folder in templates
        if folder.is_dir()
        for name in (SCHEMA, CONVERT)
        for each in sorted(folder.glob(f"*/{name}"))
    )
    return list(dict.fromkeys(found))


_UNQUOTED = re.compile(r":\s*\[\]\s*\w")


def short_crd(path: Path, folder: str = "") -> Document:
    """The CRD of a `_schema.yaml`; `folder` is the name of its template folder, '' for the folder that it is in. Raises
    DefinitionError with every mistake.
    """
    # Only a project with a `_schema.yaml` loads the rules of CRDs.
    from ssa_operator.schema.short_schema.expanded_crd import short_schema  # noqa: PLC0415
    from ssa_operator.schema.short_schema.field_texts import right_form  # noqa: PLC0415

    try:
        text = read_text(path, path.parent.parent)
        nodes = parse(StaticText(text, str(path)), for_kubectl=True)
        if len(nodes) != 1:
            where = nodes[1].location if nodes else SourceLocation(str(path), 1)
            what = "the file is empty; begin with kind: and spec:" if not nodes else "there may be only one document"
            raise DefinitionError(f"{where}: {what}")
        [node] = nodes
        given = node.build(SlotValues())
    except DocumentError as error:
        line = "".join(text.split("\n")[error.location.line - 1 : error.location.line])
        name, _, field = line.partition(":")
        message = f'{error}; write "[]TYPE" in double quotes' if _UNQUOTED.search(line) else str(error)
        if ": " in field and (form := right_form(field)):
            form = f"'{form}'" if ": " in form else form
            message = f"a field is type | marker=value; write {name.strip()}: {form}"
        raise DefinitionError(f"{error.location}: {message}") from error
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{path}:1: is not UTF-8 text; save it as UTF-8") from error
    except OSError as error:
        raise DefinitionError(f"{path} can't be read: {error.strerror}") from error
    found = short_schema(folder or path.absolute().parent.name, given)

    def location(at: FieldPath) -> SourceLocation:
        return find_location(node, at, SlotValues())

    if found.mistakes:
        raise DefinitionError("\n".join(f"{location(each.path)}: {each}" for each in found.mistakes))
    first = SourceLocation(str(path), 1)
    settings = _settings_of(path.parent)
    if settings is not None and settings.rollout is not None:
        for version in found.crd["spec"]["versions"]:
            status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
            status["properties"].setdefault("revision", {"type": "string"})
    document = Document(body=found.crd, location=first, location_of=lambda at: location(found.source(at)))
    if missing := missing_conversions(document, path.parent / CONVERT):
        raise DefinitionError(missing)
    return document


def _settings_of(folder: Path) -> Settings | None:
    """The settings of a template folder, None if it has none that can be read."""
    with contextlib.suppress(OSError, UnicodeDecodeError, DocumentError):
        path = folder / SETTINGS
        return parse_settings(str(path), read_text(path, folder.parent))
    return None


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
            name = document.identity.name
            raise DefinitionError(
                f"{document.location_of(path)}: CRD {name}: {field_text(path)} is null; write its value, or remove it"
            )
        return value

    body = document.body
    return replace(document, body={**body, "spec": reduced(body["spec"], ("spec",))}) if "spec" in body else document

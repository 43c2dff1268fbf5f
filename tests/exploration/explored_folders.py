"""The parents of the project's template folders that an exploration begins with.

Promises:
- A sequence begins with each example of the folder's kind, else with a golden case of it.
- The labels and annotations that the templates read are part of the schema. Of a built-in kind nothing else is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.template_contents import TemplateContents
from ssa_operator.rendering.folder.loaded_folders import Folder, load
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.tools.cases.golden_cases import find_cases, read_case
from ssa_operator.tools.offline.documents import read_objects
from ssa_operator.tools.offline.project import CRDKind, examples_of, read_crd_kinds
from tests.exploration.explored_parents import Subject

_METADATA = ("labels", "annotations")


def starts(
    templates: Path, resource: str, crd_folders: Sequence[Path], builtin: GroupKind
) -> list[tuple[Subject, Schema]]:
    """The parents of a template folder, each with its schema. `builtin` is the kind without a CRD."""
    folder = load(templates).folders[resource]
    contents, kinds = template_contents(folder), read_crd_kinds(crd_folders)
    kind, known = next(((each, known) for each, known in kinds.items() if known.folder == resource), (builtin, None))
    examples = read_objects(examples_of(None, [templates]))
    found = [each for each in examples if group_kind(each) == kind]
    found = found or [read_case(path).parent for path in find_cases(templates.parent / "tests", [resource])]
    return [(_subject(folder, contents, each, examples, known), _schema(contents, each, known)) for each in found]


def _subject(
    folder: Folder, contents: TemplateContents, parent: Document, examples: Sequence[Document], known: CRDKind | None
) -> Subject:
    """The parent, with the examples that its templates look up beside it."""
    read = {field.path[0] for field in contents.fields}
    kept = {key: value for key, value in parent.body["metadata"].items() if key in ("name", *_METADATA)}
    metadata = {**{name: {} for name in _METADATA if name in read}, **kept}
    body = {key: value for key, value in parent.body.items() if key != "status"} | {"metadata": metadata}
    looked_up = looked_up_objects(contents, parent, examples)
    shared = [each for each in looked_up if _is_shared(contents, each)]
    return Subject(
        folder=folder.name,
        document=replace(parent, body=body),
        beside=tuple(each for each in looked_up if each not in shared),
        shared=tuple(shared),
        namespaced=known is not None and known.definition["spec"]["scope"] == "Namespaced",
    )


def looked_up_objects(contents: TemplateContents, parent: Document, examples: Sequence[Document]) -> list[Document]:
    """The examples of the kinds that the templates look up, without the parent: one namespace has both."""
    kinds = {lookup.group_kind for lookup in contents.lookups}
    return [each for each in examples if group_kind(each) in kinds and _name(each) != _name(parent)]


def _name(document: Document) -> tuple[GroupKind, str]:
    return group_kind(document), document.body["metadata"]["name"]


def _is_shared(contents: TemplateContents, document: Document) -> bool:
    """Whether the templates look an object up in a namespace that they name, or in all, where each parent would see the
    objects beside all others.
    """
    own = document.body["metadata"].get("namespace")
    namespaces = {each.namespace for each in contents.lookups if each.group_kind == group_kind(document)}
    return own is not None and (own in namespaces or namespaces == {""})


def _schema(contents: TemplateContents, parent: Document, known: CRDKind | None) -> Schema:
    """The schema of a parent with the labels and annotations that the templates read, and no other metadata."""
    version = split_api_version(parent.body["apiVersion"])[1]
    schema: Mapping[str, Any] = {} if known is None else object_schema(known.definition, version) or {}
    metadata = {}
    for name in _METADATA:
        present = parent.body["metadata"].get(name) or {}
        keys = sorted({field.path[1] for field in contents.fields if field.path[0] == name and len(field.path) > 1})
        fields = {key: {"type": "string", **({"default": present[key]} if key in present else {})} for key in keys}
        metadata[name] = {"type": "object", "properties": fields}
    properties = {**(schema.get("properties") or {}), "metadata": {"type": "object", "properties": metadata}}
    return {**schema, "properties": properties}

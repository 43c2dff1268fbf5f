"""The kinds that an exploration changes, with their schemas.

Promises:
- The schema of a folder's parents is that of the CRD in the files, else that of the CRD in the cluster, else that of a
  built-in kind in the API server's OpenAPI document.
- A folder that can't be explored has a reason, and what a user can do about it.
- The labels and annotations that the templates read are part of the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.openapi import read_group_version
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.template_contents import TemplateContents
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.samples import sample_object
from ssa_operator.tools.offline.project import CRDKind, read_version
from tests.exploration.built_in_schemas import kind_schema

_METADATA = ("labels", "annotations")

_CRDS = "customresourcedefinitions.apiextensions.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredKind:
    """The parents of a template folder."""

    group_kind: GroupKind
    namespaced: bool
    version: str
    """The version that the operator reads."""
    definition: Mapping[str, Any] | None = None
    """The CRD, None for a built-in kind."""
    built_in: Schema | None = None
    """The schema of a built-in kind."""

    def schema(self, api_version: str) -> Schema:
        """The schema of the parents in a version."""
        if self.definition is None:
            return self.built_in or {}
        return object_schema(self.definition, split_api_version(api_version)[1]) or {}

    def sample(self) -> Mapping[str, Any] | None:
        """A sample parent, None for a built-in kind."""
        return None if self.definition is None else sample_object(self.definition, self.version).body


async def explored_kind(
    client: Client, mapper: RESTMapper, folder: Folder, kinds: Mapping[GroupKind, CRDKind]
) -> ExploredKind | str:
    """The kind of a folder's parents, or why they can't be explored. Raises ApiError."""
    for group_kind, known in kinds.items():
        if known.folder == folder.name:
            return _of_definition(folder, group_kind, known.definition)
    crd = await client.find(await mapper.resource_by_name(_CRDS), folder.name)
    if crd is not None:
        spec = crd.body["spec"]
        return _of_definition(folder, GroupKind(spec["group"], spec["names"]["kind"]), crd.body)
    try:
        resource = await mapper.resource_by_name(folder.name)
    except UnknownKind:
        return f"neither --crds nor the cluster has a CRD {folder.name}; name the folder of the CRD with --crds"
    return await _of_built_in(client, resource)


def _of_definition(folder: Folder, group_kind: GroupKind, definition: Mapping[str, Any]) -> ExploredKind:
    return ExploredKind(
        group_kind=group_kind,
        namespaced=definition["spec"].get("scope") == "Namespaced",
        version=read_version(folder, definition),
        definition=definition,
    )


async def _of_built_in(client: Client, resource: Resource) -> ExploredKind | str:
    if not resource.namespaced and resource.name != "namespaces":
        return f"a {resource.kind} belongs to the whole cluster, so changes of one may disturb everything else in it"
    document = await read_group_version(client, resource.api_version)
    schema = kind_schema(document, resource.group, resource.version, resource.kind)
    if schema is None:
        return f"the API server's OpenAPI document of {resource.api_version} has no schema of {resource.kind}"
    return ExploredKind(
        group_kind=resource.group_kind, namespaced=resource.namespaced, version=resource.version, built_in=schema
    )


def with_read_metadata(schema: Schema, contents: TemplateContents, parent: Mapping[str, Any]) -> Schema:
    """A schema that declares the labels and annotations which the templates read, and no other metadata."""
    metadata = {}
    for name in _METADATA:
        present = parent["metadata"].get(name) or {}
        keys = sorted({field.path[1] for field in contents.fields if field.path[0] == name and len(field.path) > 1})
        fields = {key: {"type": "string", **({"default": present[key]} if key in present else {})} for key in keys}
        metadata[name] = {"type": "object", "properties": fields}
    properties = {**(schema.get("properties") or {}), "metadata": {"type": "object", "properties": metadata}}
    return {**schema, "properties": properties}


def with_room_for_metadata(body: Mapping[str, Any], contents: TemplateContents) -> dict[str, Any]:
    """The parent with `labels` and `annotations` where the templates read them, so that a change can add some."""
    read = {field.path[0] for field in contents.fields}
    metadata = {**{name: {} for name in _METADATA if name in read}, **body["metadata"]}
    return {**body, "metadata": metadata}

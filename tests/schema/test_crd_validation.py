"""CRDs are refused offline where the API server refuses them, for the same fields."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import pytest

from ssa_operator.kube.api import request
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.json_encoding import encode
from ssa_operator.schema.crd_validation import validate_crd
from tests.operator.harness import definition

pytestmark = pytest.mark.cluster

CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
SCHEMA = ("spec", "versions", 0, "schema", "openAPIV3Schema")
SPEC = (*SCHEMA, "properties", "spec")
A = (*SPEC, "properties", "a")
VERSION = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}}


def crd(path: tuple[str | int, ...] = (), value: Any = None) -> dict[str, Any]:
    """A CRD with one field changed."""
    found = copy.deepcopy(definition("sites", "mistakes.example.com", "Site"))
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    inner: Any = found
    for part in path[:-1]:
        inner = inner[part]
    if path:
        inner[path[-1]] = value
    return found


CHANGES: tuple[tuple[tuple[str | int, ...], Any], ...] = (
    ((), None),
    (("metadata", "name"), "site.mistakes.example.com"),
    (("spec", "group"), "Mistakes.example.com"),
    (("spec", "group"), "mistakes"),
    (("spec", "scope"), "Namespace"),
    (("spec", "names", "plural"), "Sites"),
    (("spec", "names", "singular"), "a_site"),
    (("spec", "names", "kind"), "My Site"),
    (("spec", "names", "kind"), "site"),
    (("spec", "names", "listKind"), "Site"),
    (("spec", "names", "shortNames"), ["S"]),
    (("spec", "versions", 0, "name"), "1"),
    (("spec", "versions", 0, "name"), "v1.0"),
    (("spec", "versions", 0, "storage"), False),
    (("spec", "versions"), [*crd()["spec"]["versions"], VERSION]),
    (("spec", "versions"), [*crd()["spec"]["versions"], {**VERSION, "storage": True}]),
    (("spec", "versions"), [*crd()["spec"]["versions"], {**VERSION, "name": "v1"}]),
    ((*A, "type"), "int"),
    ((*A, "type"), "str"),
    ((*SCHEMA, "type"), "string"),
    (A, {"type": "array"}),
    (A, {"type": "array", "items": {"type": "text"}}),
    (A, {"type": "integer", "default": "1"}),
    (A, {"type": "integer", "default": 1}),
    (A, {"type": "string", "enum": ["a"], "default": "b"}),
    (A, {"type": "string", "pattern": "^b", "default": "a"}),
    (A, {"type": "string", "pattern": "["}),
    (A, {"type": "string", "pattern": "(?<=a)b"}),
    (A, {"type": "integer", "minimum": 1, "default": 0}),
    (A, {"type": "array", "items": {"type": "string"}, "default": ["a", 1]}),
    (A, {"type": "object", "default": {"b": 1}, "properties": {"c": {"type": "string"}}}),
    (A, {"type": "object", "default": {"b": 1}, "properties": {"b": {"type": "string"}}}),
    (A, {"type": "object", "default": {}, "required": ["b"], "properties": {"b": {"type": "string"}}}),
    (A, {"type": "object", "default": {}, "required": ["b"], "properties": {"b": {"type": "string", "default": "a"}}}),
    (A, {"type": "boolean", "default": "true"}),
    (A, {"type": "string", "nullable": True, "default": None}),
    (A, {"type": "object", "additionalProperties": {"type": "string"}, "default": {"x": "y"}}),
    (A, {"type": "object", "additionalProperties": {"type": "string", "default": 2}}),
    (A, {"x-kubernetes-int-or-string": True, "default": "50%"}),
    ((*SPEC, "required"), ["b"]),
)


async def refused_fields(client: Client, body: Mapping[str, Any]) -> list[str]:
    """The fields for which the API server refuses a new CRD."""
    create = request.create(CRDS, "", encode(body))
    query = (("dryRun", "All"), ("fieldManager", "test"))
    try:
        await client.send(dataclasses.replace(create, query=query, dry_run=True))
    except ApiError as error:
        return sorted({each.field for each in error.causes}) or [error.message]
    return []


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=[f"{path[-1:]}-{value}" for path, value in CHANGES])
async def test_a_crd_is_refused_as_by_the_api_server(client: Client, path: tuple[str | int, ...], value: Any) -> None:
    body = crd(path, value)
    ours = {each.field for each in validate_crd(body)}
    theirs = {_field(each) for each in await refused_fields(client, body)}
    assert bool(ours) == bool(theirs), theirs
    assert ours <= theirs


def _field(field: str) -> str:
    """A field in the words of `v1`: where all versions have one schema, the API server names that of `v1beta1`."""
    field = field.replace("spec.validation.", "spec.versions[0].schema.").replace(".[", "[")
    return re.sub(r"\[(\D[^]]*)]", r".\1", field)

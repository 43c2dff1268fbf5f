"""A parent that is read from files is the parent that the API server returns."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api import request
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.tools.offline.project import as_served, read_crd_kinds
from tests.operator.harness import Desk, definition

pytestmark = pytest.mark.cluster


async def test_a_parent_that_is_written_in_one_version_and_read_in_another_has_the_defaults_of_both(
    desk: Desk, tmp_path: Path
) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    crd = definition("things", group, "Thing")
    (version,) = crd["spec"]["versions"]
    crd["spec"]["versions"] = [
        _with_defaults(version, "v1", storage=False, a=1, b=1),
        _with_defaults(version, "v2", storage=True, b=2, c=2),
        _with_defaults(version, "v3", storage=False, c=3, d=3),
    ]
    (tmp_path / "thing.yaml").write_text(json.dumps(crd))
    await desk.define(crd)
    try:
        body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "web"}, "spec": {}}
        written = await desk.mapper.resource(GroupKind(group, "Thing"), "v1")
        await desk.client.send(request.create(written, desk.namespace, encode(body)))
        read = await desk.mapper.resource(GroupKind(group, "Thing"))
        live = await desk.client.get(read, "web", desk.namespace)
    finally:
        await desk.delete("crd", f"things.{group}", wait=False)
    folder = Folder(resource="things", group=group, files={})
    found = as_served(body, folder, read_crd_kinds([tmp_path])).body
    assert (found["apiVersion"], found["spec"]) == (live.body["apiVersion"], live.body["spec"])
    assert found["apiVersion"] == f"{group}/v3"


def _with_defaults(version: dict[str, Any], name: str, *, storage: bool, **defaults: int) -> dict[str, Any]:
    """A version of a CRD with some numbers, some of which have a default."""
    integer: dict[str, Any] = {"type": "integer"}
    numbers = dict.fromkeys("abcd", integer)
    numbers |= {field: integer | {"default": value} for field, value in defaults.items()}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": numbers}}}
    return version | {"name": name, "storage": storage, "schema": {"openAPIV3Schema": schema}}

"""`crds plan`, and the refusal of `crds apply` and `run --install-crds` to lose what is stored."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.process import run
from tests.operator.harness import Desk, definition

pytestmark = pytest.mark.cluster

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "password": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def crd(group: str, **properties: Any) -> dict[str, Any]:
    """The CRD of `vaults` with other properties; `...` removes one."""
    found: dict[str, Any] = copy.deepcopy(definition("vaults", group, "Vault"))
    spec = copy.deepcopy(SPEC)
    for name, schema in properties.items():
        if schema is ...:
            del spec["properties"][name]
        else:
            spec["properties"][name] = schema
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    return found


def vault(group: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Vault", "metadata": {"name": name}, "spec": spec}


async def test_nothing_that_is_stored_is_lost_unless_it_is_allowed(desk: Desk, group: str, tmp_path: Path) -> None:
    await desk.define(crd(group))
    await desk.apply(vault(group, "a", size=1, password="s3cr3t"), vault(group, "b", size=9))
    file, kubeconfig = tmp_path / "vaults.yaml", f"--kubeconfig={desk.kubeconfig}"
    resource = f"vaults.{group}"

    async def planned(changed: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        file.write_text(yaml.safe_dump(changed))
        code, out, err = await run("crds", "plan", f"--crds={tmp_path}", kubeconfig, "--output=json")
        assert "s3cr3t" not in out + err
        return code, json.loads(out)

    code, plan = await planned(crd(group))
    assert (code, plan) == (0, {"objects": 2, "refused": [], "pruned": [], "defaulted": 0})
    code, plan = await planned(
        crd(group, size={"type": "integer", "default": 3}, more={"type": "string", "default": "x"})
    )
    assert (code, plan["defaulted"], plan["refused"], plan["pruned"]) == (0, 2, [], [])
    code, plan = await planned(crd(group, size={"type": "integer", "maximum": 5}, password=...))
    assert code == 1
    (refused,), (lost,) = plan["refused"], plan["pruned"]
    assert {**refused, "message": ""} == {
        "resource": resource, "namespace": desk.namespace, "name": "b", "path": "spec.size", "message": "",
    }  # fmt: skip
    assert "should be less than or equal to 5" in refused["message"]
    assert (lost["name"], lost["path"]) == ("a", "spec.password")
    assert lost["message"] == "spec.password would be lost (8 bytes)"

    code, _, err = await run("crds", "apply", f"--crds={tmp_path}", kubeconfig)
    assert code == 1
    assert f"{file}:1: 2 of 2 stored objects would be refused or lose fields: {desk.namespace}/b: spec.size" in err
    assert "crds apply --allow-data-loss" in err
    assert "s3cr3t" not in err
    assert (await desk.read(resource, "a"))["spec"]["password"] == "s3cr3t"

    code, out, err = await run("crds", "apply", f"--crds={tmp_path}", kubeconfig, "--allow-data-loss")
    assert (code, out) == (0, f"{resource} established\n"), err


async def test_a_narrower_crd_that_concerns_no_object_is_applied(desk: Desk, group: str, tmp_path: Path) -> None:
    await desk.define(crd(group))
    await desk.apply(vault(group, "a", size=1))
    (tmp_path / "vaults.yaml").write_text(
        yaml.safe_dump(crd(group, size={"type": "integer", "maximum": 5}, password=...))
    )
    code, out, err = await run("crds", "apply", f"--crds={tmp_path}", f"--kubeconfig={desk.kubeconfig}")
    assert (code, out) == (0, f"vaults.{group} established\n"), err


async def test_a_migration_stores_all_objects_in_the_storage_version(desk: Desk, group: str) -> None:
    first = crd(group)
    await desk.define(first)
    await desk.apply(vault(group, "a", size=1), vault(group, "b", size=2))
    second, resource = copy.deepcopy(first), f"vaults.{group}"
    (version,) = second["spec"]["versions"]
    second["spec"]["versions"] = [{**version, "storage": False}, {**version, "name": "v2"}]
    await desk.apply(second)
    crds = "customresourcedefinitions.apiextensions.k8s.io"
    both = await desk.until(crds, resource, lambda body: body["status"]["storedVersions"] == ["v1", "v2"])
    assert both
    before = {name: (await desk.read(resource, name))["metadata"] for name in "ab"}
    command = ("crds", "migrate", resource, f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run(*command)
    assert (code, out) == (0, f"{resource}: no object is stored in v1 any more\n"), err
    assert f"{resource}: 2 of 2 objects" in err
    assert (await desk.read(crds, resource))["status"]["storedVersions"] == ["v2"]
    after = {name: await desk.read(resource, name) for name in "ab"}
    for name, body in after.items():
        assert body["metadata"]["resourceVersion"] != before[name]["resourceVersion"]
        assert body["metadata"]["generation"] == before[name]["generation"]
    assert [after[name]["spec"]["size"] for name in "ab"] == [1, 2]
    code, out, err = await run(*command)
    assert (code, out) == (0, f"{resource}: nothing to migrate\n"), err

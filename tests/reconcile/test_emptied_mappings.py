"""Mappings of a custom resource that a manifest empties. The API server makes them null where server-side apply removes
all their fields, and refuses the null (https://github.com/kubernetes/kubernetes/issues/135841). Where the schema allows
any value, it stores the null.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import run
from tests.operator.harness import Desk, Operate, definition, echo, map_template, only, version

pytestmark = pytest.mark.cluster

LIMITS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
RESOURCES = {"type": "object", "properties": {"limits": LIMITS, "requests": LIMITS}}
MEMBER = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "labels": LIMITS},
}
SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "maximum": 9},
        "selector": LIMITS,
        "resources": RESOURCES,
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "members": {
            "type": "array",
            "items": MEMBER,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    },
}
POOL = definition("pools", "emptied.example.com", "Pool")
STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"selected": LIMITS}}
POOL["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {"spec": SPEC, "status": STATUS}
POOLS = "pools.emptied.example.com"

TEMPLATE = """\
apiVersion: emptied.example.com/v1
kind: Pool
metadata:
  name: {{ name }}
spec: {{ metadata.annotations.spec | from_json }}
"""

FILLED: dict[str, Any] = {
    "size": 1,
    "selector": {},
    "resources": {"limits": {"cpu": "1"}},
    "free": {"inner": {"value": 1}, "items": [{"inner": {"value": 1}}], "other": 1},
    "members": [{"name": "a", "labels": {"tier": "x"}}, {"name": "b"}],
}
EMPTIED: dict[str, Any] = {
    "size": 2,
    "selector": {},
    "resources": {},
    "free": {"inner": {}, "items": [{"inner": {}}], "other": 1},
    "members": [{"name": "a", "labels": {}}, {"name": "b"}],
}


def parent(spec: dict[str, Any]) -> dict[str, Any]:
    """An Echo with a Pool of this spec."""
    body = echo("web")
    body["metadata"]["annotations"] = {"spec": json.dumps(spec)}
    return body


def pool(spec: dict[str, Any], **metadata: str) -> dict[str, Any]:
    api_version = "emptied.example.com/v1"
    return {"apiVersion": api_version, "kind": "Pool", "metadata": {"name": "web", **metadata}, "spec": spec}


def has_selected(selected: dict[str, str], body: dict[str, Any]) -> bool:
    return bool(body.get("status", {}).get("selected") == selected)


@pytest.fixture
async def pools(desk: Desk, templates: Path) -> Path:
    """Templates of an Echo that has a Pool, whose CRD the cluster has."""
    await desk.define(POOL)
    only(templates, pool=TEMPLATE)
    return templates


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "emptied",
    [EMPTIED, {}, {"resources": {"limits": {}}}, FILLED | {"free": EMPTIED["free"]}, FILLED | {"free": {}}],
    ids=["some mappings", "the spec", "an inner mapping", "a mapping without a schema", "all that has no schema"],
)
async def test_a_child_gets_the_mappings_that_its_manifest_empties(
    desk: Desk, operate: Operate, pools: Path, emptied: dict[str, Any]
) -> None:
    async with operate() as running:
        running.record_reconciles()
        await desk.apply_until_ready(parent(FILLED))
        assert (await desk.read(POOLS, "web"))["spec"] == FILLED
        await desk.apply(parent(emptied))
        await desk.until(POOLS, "web", lambda found: found.get("spec") == emptied)
        await running.reported(lambda report: report.complete)
        running.forget()
        before = version(await desk.read(POOLS, "web"))
        await desk.apply(parent(emptied) | {"spec": {"replicas": 2}})
        await running.reconciled(1)
    found = await desk.read(POOLS, "web")
    assert (version(found), found["spec"]) == (before, emptied)


async def test_a_preview_shows_the_object_without_the_emptied_mappings(
    desk: Desk, operate: Operate, pools: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(parent(FILLED))
    await desk.apply(parent(EMPTIED))
    before = version(await desk.read(POOLS, "web"))
    options = (f"--templates={pools}", "-n", desk.namespace, f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run("diff", "echo/web", *options)
    assert (code, err) == (1, ""), out
    assert "-  resources:" in out
    assert "+  size: 2" in out
    assert version(await desk.read(POOLS, "web")) == before


@pytest.mark.exhaustive
async def test_a_parent_in_a_file_may_empty_a_mapping(desk: Desk, pools: Path) -> None:
    (pools / POOLS).mkdir()
    (pools / POOLS / "size.yaml.j2").write_text(map_template("size", size="spec.size"))
    file = pools.parent / "pool.yaml"
    options = (f"--templates={pools}", "-n", desk.namespace, f"--kubeconfig={desk.kubeconfig}")
    for spec in (FILLED, EMPTIED):
        file.write_text(json.dumps(pool(spec)))
        code, out, err = await run("apply", str(file), *options)
        assert (code, err) == (0, ""), out
        assert (await desk.read(POOLS, "web"))["spec"] == spec


async def test_a_status_may_empty_a_mapping(desk: Desk, operate: Operate, pools: Path) -> None:
    async with operate() as running:
        running.write(f"{POOLS}/size.yaml.j2", map_template("size", size="spec.size"))
        running.write(f"{POOLS}/_status.yaml.j2", "selected: {{ {'tier': 'x'} if spec.size == 1 else {} }}\n")
        for size, selected in ((1, {"tier": "x"}), (2, {})):
            await desk.apply(pool({"size": size}))
            await desk.until(POOLS, "web", partial(has_selected, selected))


async def test_an_apply_to_a_known_version_empties_a_mapping_of_that_version_only(desk: Desk, pools: Path) -> None:
    await desk.apply(pool(FILLED))
    known = (await desk.read(POOLS, "web"))["metadata"]["resourceVersion"]
    await desk.apply(pool(EMPTIED, resourceVersion=known))
    filled = FILLED | {"free": EMPTIED["free"]}
    for spec in (EMPTIED, FILLED, filled):
        known = (await desk.read(POOLS, "web"))["metadata"]["resourceVersion"]
        await desk.apply(pool(spec, resourceVersion=known))
        assert (await desk.read(POOLS, "web"))["spec"] == spec
    await desk.apply(pool(FILLED))
    with pytest.raises(AssertionError, match="please apply your changes to the latest version"):
        await desk.apply(pool(EMPTIED, resourceVersion=known))
    assert (await desk.read(POOLS, "web"))["spec"] == FILLED


async def test_a_manifest_that_is_wrong_elsewhere_changes_nothing(desk: Desk, pools: Path) -> None:
    await desk.apply(pool(FILLED))
    with pytest.raises(AssertionError, match=r"spec\.size"):
        await desk.apply(pool(EMPTIED | {"size": 100}))
    assert (await desk.read(POOLS, "web"))["spec"] == FILLED

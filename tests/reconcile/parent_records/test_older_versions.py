"""The operator takes over what older versions of it left, and deletes nothing because of what a newer version wrote.

`older_versions/README.md` describes the folders that are played here.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator.objects.identity import GroupKind, split_api_version
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    ROLES,
    Desk,
    Operate,
    echo,
    entries,
    is_ready,
    not_ready_because,
    ready_condition,
    uid,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

VERSIONS_FOLDER = Path(__file__).parent / "older_versions"
VERSIONS = sorted(path.parent for path in VERSIONS_FOLDER.glob("*/objects.yaml"))
FINALIZER = "ssa-operator.dev/cleanup"
HELD = "ssa-operator.dev/held"
INVENTORY = "ssa-operator.dev/inventory"
ONCE = "ssa-operator.dev/once"
RECONCILE_AT = "ssa-operator.dev/reconcile-at"
RECORDS = ("annotations", "finalizers")
APPLIED = "ssa-operator.dev/applied"
HOLD = "PruneHeld"
CLUSTER_SCOPE = "clusterScope: true\n"


def once_digest(parent_uid: str) -> str:
    """The digest of the Job `web-once`, as each version up to now computes it: the parent's uid is part of it."""
    containers = [{"name": "a", "image": "a:1"}]
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "web-once"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(f"{parent_uid} {text}".encode(), digest_size=8).hexdigest()


def bucket(parent_uid: str) -> str:
    """The parent's bucket: the first two digits of the 64-bit FNV-1a hash of its uid."""
    value = 0xCBF29CE484222325
    for byte in parent_uid.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{value:016x}"[:2]


async def apply_as(desk: Desk, manager: str, body: dict[str, Any], *more: str) -> None:
    """`kubectl apply --server-side` as the field manager of an operator."""
    await desk.kubectl("apply", "--server-side", f"--field-manager={manager}", *more, "-f", "-", stdin=json.dumps(body))


async def leave(desk: Desk, text: str) -> list[dict[str, Any]]:
    """Have the cluster as the older version left it; returns the children."""
    own = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "web"}, "spec": {"replicas": 1}}
    await desk.create(own)
    parent_uid = uid(await desk.read(ECHOES, "web"))
    for name, value in {
        "PARENT-UID": parent_uid,
        "NAMESPACE": desk.namespace,
        "ONCE-DIGEST": once_digest(parent_uid),
        "BUCKET": f'"{bucket(parent_uid)}"',
    }.items():
        text = text.replace(name, value)
    parent, *children = yaml.safe_load_all(text)
    for child in children:
        await apply_as(desk, "ssa-operator", child)
    status = parent.pop("status")
    del parent["spec"]
    if parent["metadata"].keys() - {"name"}:
        await apply_as(desk, "ssa-operator-parent", parent)
    identity = {key: parent[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": "web"}}
    await apply_as(desk, "ssa-operator", identity | {"status": status}, "--subresource=status")
    return children


async def read_all(desk: Desk, children: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for child in children:
        group, _ = split_api_version(child["apiVersion"])
        resource = await desk.mapper.resource(GroupKind(group, child["kind"]))
        found.append(await desk.read(resource.name, child["metadata"]["name"]))
    return found


def templates_of(version: Path, templates: Path) -> Path:
    folder = templates / ECHOES
    for path in folder.iterdir():
        path.unlink()
    (folder / "template.yaml.j2").write_text((version / "template.yaml.j2").read_text())
    (folder / "_settings.yaml").write_text(CLUSTER_SCOPE)
    return templates


def essence(body: dict[str, Any]) -> dict[str, Any]:
    """What the operator writes of a child, and its uid. A controller may write a status meanwhile."""
    metadata = body["metadata"]
    kept = {key: metadata.get(key) for key in ("uid", "ownerReferences", "generation")}
    labels = {key: value for key, value in metadata["labels"].items() if key != "ssa-operator.dev/bucket"}
    return {"metadata": kept | {"labels": labels}, **{key: body.get(key) for key in ("spec", "data", "rules")}}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
async def test_what_an_older_version_left_is_taken_over(
    desk: Desk, operate: Operate, templates: Path, version: Path
) -> None:
    children = await leave(desk, (version / "objects.yaml").read_text())
    before = [essence(body) for body in await read_all(desk, children)]
    records = {key: value for key, value in (await desk.read(ECHOES, "web"))["metadata"].items() if key in RECORDS}
    async with operate(templates=templates_of(version, templates)) as running:
        await running.reconciled(1)
        parent = await desk.until(ECHOES, "web", lambda body: is_ready(body) or ready_condition(body)["reason"] == HOLD)
    assert [essence(body) for body in await read_all(desk, children)] == before
    # The only record that is new is what was applied.
    annotations = {key: value for key, value in parent["metadata"]["annotations"].items() if key != APPLIED}
    now = parent["metadata"] | {"annotations": annotations}
    assert {key: now[key] for key in RECORDS if now.get(key)} == records
    in_status = sorted((each["kind"], each["name"]) for each in parent["status"]["resources"])
    once = [("Job", "web-once")] if ONCE in parent["metadata"].get("annotations", {}) else []
    assert in_status == sorted([*((each["kind"], each["metadata"]["name"]) for each in children), *once])
    assert await desk.find("jobs.batch", "web-once") is None


@pytest.mark.parametrize("name", ["records", "shards"])
async def test_a_parent_that_an_older_version_left_is_deleted_with_all_that_its_records_name(
    desk: Desk, operate: Operate, templates: Path, name: str
) -> None:
    version = VERSIONS_FOLDER / name
    await leave(desk, (version / "objects.yaml").read_text())
    hooks = await desk.view("jobs.batch")
    seen: set[str] = set()
    hooks.cache.listen(lambda _, new: seen.add(new.identity.name) if new else None)
    async with operate(templates=templates_of(version, templates)):
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.gone(ROLES, f"{desk.namespace}-web")
        await desk.gone(ECHOES, "web")
    # The garbage collector deletes the hook with the parent.
    async with asyncio.timeout(PATIENCE):
        while "web-hook" not in seen:
            await hooks.change(hooks.changes)
    assert await desk.find("configmaps", "web-kept") is not None


async def test_a_prune_that_an_older_version_held_is_confirmed_as_before(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    version = VERSIONS_FOLDER / "held-prune"
    await leave(desk, (version / "objects.yaml").read_text())
    async with operate(templates=templates_of(version, templates)) as running:
        await running.reconciled(1)
        await desk.until(ECHOES, "web", not_ready_because(HOLD))
        await desk.kubectl("annotate", "echo", "web", f"{RECONCILE_AT}=now")
        await desk.gone("configmaps", "web")
        await desk.until(ECHOES, "web", lambda body: HELD not in body["metadata"]["annotations"])


NEWER = {
    INVENTORY: '[{"kind":"ClusterRole","group":"rbac.authorization.k8s.io","name":"x","deletion":"Orphan"}]',
    ONCE: '{"Job.batch/web-once":{"digest":"5baafb1e68b86a11","attempts":2}}',
    HELD: '{"version":2,"reconcileAt":"","children":[]}',
    "ssa-operator.dev/generated-values": "H4sIAAAAAAAA",
}
"""Records as a newer version may write them."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("annotation", NEWER)
async def test_a_record_of_a_newer_version_is_named_and_nothing_is_applied_or_deleted_until_it_is_removed(
    desk: Desk, operate: Operate, templates: Path, annotation: str
) -> None:
    folder = templates_of(VERSIONS_FOLDER / "records", templates) / ECHOES
    role = f"{desk.namespace}-web"
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web"))
    await desk.kubectl("delete", "job", "web-once")
    await desk.patch("echo", "web", metadata={"annotations": {annotation: NEWER[annotation]}})
    folder.joinpath("template.yaml.j2").write_text(RENDERS_LESS)
    try:
        async with operate(templates=templates) as running:
            parent = await desk.until(ECHOES, "web", not_ready_because("UnreadableRecord", annotation))
            # No template renders its kind now. The next process finds it by this entry.
            assert "ConfigMap/web-kept" in entries(parent)
            assert await desk.find("jobs.batch", "web-once") is None
            assert await desk.find("configmaps", "web-kept") is not None
            await desk.delete("echo", "web", wait=False)
            generation = (await desk.read(ECHOES, "web"))["metadata"]["generation"]
            await running.reported(lambda report: report.status["observedGeneration"] == generation)
            parent = await desk.until(ECHOES, "web", not_ready_because("UnreadableRecord", annotation))
            assert parent["metadata"]["annotations"][annotation] == NEWER[annotation]
            assert FINALIZER in parent["metadata"]["finalizers"]
            assert await desk.find(ROLES, role) is not None
            await desk.kubectl("annotate", "echo", "web", f"{annotation}-")
            await desk.gone(ECHOES, "web")
    finally:
        await desk.kubectl("delete", "clusterrole", role, "--ignore-not-found")


RENDERS_LESS = (VERSIONS_FOLDER / "records" / "template.yaml.j2").read_text().partition("---\n")[2]
"""The template without its first document. With the records unread, the Job would run again."""


async def test_a_plan_reports_a_record_of_a_newer_version_and_tries_nothing(desk: Desk, templates: Path) -> None:
    body = echo("web")
    body["metadata"]["annotations"] = {ONCE: NEWER[ONCE]}
    await desk.create(body)
    options = (f"--kubeconfig={desk.kubeconfig}", f"--templates={templates}", f"--namespace={desk.namespace}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ssa_operator", "plan", *options, "--output=json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 1
    assert f"the annotation {ONCE} can't be read" in output.decode()
    assert '"created": 1' not in output.decode()


async def test_conditions_and_fields_of_another_version_leave_the_status(desk: Desk, operate: Operate) -> None:
    await leave(desk, FOREIGN_STATUS)
    async with operate():
        status = (await desk.ready(ECHOES, "web"))["status"]
    assert [each["type"] for each in status["conditions"]] == ["Ready"]
    assert [each["name"] for each in status["resources"]] == ["web"]


FOREIGN_STATUS = """\
apiVersion: example.com/v1
kind: Echo
metadata:
  name: web
spec:
  replicas: 1
status:
  conditions:
    - {type: Ready, status: "True", reason: Fine, message: "", lastTransitionTime: "2026-11-21T13:05:00Z"}
    - {type: Audited, status: "True", reason: Fine, message: "", lastTransitionTime: "2026-11-21T13:05:00Z"}
  observedGeneration: 1
  resources:
    - {kind: Future, group: example.org, name: x, state: Dreaming}
"""

"""A mutating webhook that came later and changes immutable fields within each apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.operator.admission_webhook import ALLOWED, changed, webhook
from tests.operator.harness import Desk, Operate, entries, other_than, uid
from tests.reconcile.recreate.test_recreate import box, job, manifest, stateful_set
from tests.reconcile.refusals.test_refusals import BOXES, SHAPES, again, boxes, shape, shown

__all__ = ["boxes"]

pytestmark = pytest.mark.cluster

Body = dict[str, Any]

ROLE = "rbac.authorization.k8s.io"
UNREAD: Body = {"ssa-operator.dev/wait": "false"}


class Case(NamedTuple):
    """A child, what the webhook changes in it, and what the message says of that."""

    child: Body
    resource: str
    path: str
    value: Any
    words: tuple[str, ...]


def config(kind: str, **fields: Any) -> Body:
    return manifest("v1", kind, "Background", immutable=True, **fields)


def service(**spec: Any) -> Body:
    return manifest("v1", "Service", "Background", spec={"ports": [{"port": 80}], "selector": {"a": "b"}, **spec})


def claim() -> Body:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}
    made = manifest("v1", "PersistentVolumeClaim", spec=spec)
    made["metadata"]["annotations"] |= UNREAD
    return made


def binding() -> Body:
    return manifest(
        f"{ROLE}/v1",
        "RoleBinding",
        "Background",
        roleRef={"apiGroup": ROLE, "kind": "ClusterRole", "name": "view"},
        subjects=[{"kind": "ServiceAccount", "name": "default"}],
    )


CASES = [
    Case(job("Background"), "jobs.batch", "/spec/template/spec/containers/0/image", "mirror", ("image", "mirror")),
    Case(stateful_set("Orphan", replicas=0), "statefulsets.apps", "/spec/serviceName", "other", ("serviceName",)),
    Case(service(), "services", "/spec/clusterIP", "10.0.0.250", ("clusterIP",)),
    Case(config("Secret", stringData={"a": "one"}), "secrets", "/data/a", "dHdv", ("data",)),
    Case(config("ConfigMap", data={"a": "one"}), "configmaps", "/data/a", "two", ("data", "two")),
    Case(claim(), "persistentvolumeclaims", "/spec/accessModes/0", "ReadOnlyMany", ("spec", "ReadOnlyMany")),
    Case(binding(), f"rolebindings.{ROLE}", "/roleRef/name", "edit", ("roleRef", "edit")),
    Case(shape("Background", frozen=3), SHAPES, "/spec/frozen", 4, ("spec.frozen", "4")),
]


async def test_a_webhook_that_changes_immutable_fields_of_any_kind_has_nothing_deleted_and_is_named(
    desk: Desk, operate: Operate, boxes: Path, tmp_path: Path
) -> None:
    patches = {each.child["kind"]: (each.path, each.value) for each in CASES}

    def answer(request: Body) -> Body:
        body, (path, value) = request["object"], patches[request["kind"]["kind"]]
        if not body["metadata"]["name"].startswith("web"):
            return ALLOWED
        operations = [{"op": "add", "path": path, "value": value}]
        if path.endswith("clusterIP"):
            operations.append({"op": "add", "path": "/spec/clusterIPs", "value": [value]})
        return changed(*operations)

    def all_say(parent: Body) -> bool:
        return all("admission" in entry.get("message", "") for entry in entries(parent).values())

    async with operate() as running:
        await desk.apply_until_ready(box(*(each.child for each in CASES)))
        before = {each.resource: await desk.read(each.resource, "web") for each in CASES}
        async with webhook(desk, tmp_path, [SHAPES, *(each.resource for each in CASES)], answer):
            await again(desk)
            parent = await desk.until(BOXES, "box", all_say)
            found = entries(await desk.ready(BOXES, "box"))
            for each in CASES:
                entry = found[f"{each.child['kind']}/web"]
                assert entry["state"] == "Current" or each.child["kind"] == "PersistentVolumeClaim", entry
                assert all(word in entry["message"] for word in ("changes", *each.words)), entry
            assert "dHdv" not in found["Secret/web"]["message"]
            running.forget()
            await again(desk)
            await running.reconciled(1)
            await desk.until(BOXES, "box", all_say)
            await desk.ready(BOXES, "box")
            assert "admission" in await shown(desk, boxes, "plan", code=0)
            for each in CASES:
                live = await desk.read(each.resource, "web")
                assert uid(live) == uid(before[each.resource]), each.resource
                assert live["metadata"].get("generation") == before[each.resource]["metadata"].get("generation")
        await again(desk)
        parent = await desk.until(BOXES, "box", lambda body: "admission" not in str(body["status"]))
        assert all(entry["state"] in ("Current", "InProgress") for entry in entries(parent).values())


async def test_under_such_a_webhook_a_changed_template_recreates_as_before(
    desk: Desk, operate: Operate, boxes: Path, tmp_path: Path
) -> None:
    def answer(request: Body) -> Body:
        return changed({"op": "add", "path": "/spec/frozen", "value": 4})

    async with operate():
        await desk.apply_until_ready(box(shape("Background", frozen=3, image="one")))
        old = await desk.read(SHAPES, "web")
        async with webhook(desk, tmp_path, [SHAPES], answer):
            await desk.apply(box(shape("Background", frozen=3, image="two")))
            new = await desk.until(SHAPES, "web", other_than(old))
            assert (new["spec"]["frozen"], new["spec"]["image"]) == (4, "two")

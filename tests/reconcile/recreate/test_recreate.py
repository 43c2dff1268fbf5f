"""Changes of immutable fields: the object stays, or the operator recreates it if its manifest allows that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Applied, Client
from ssa_operator.kube.api.errors import ApiError, ErrorStatus, Unreachable
from ssa_operator.kube.api.request import DEFAULT_APPLY, ApplyOptions, DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth import credentials
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.settings import ApplyMode
from tests.operator.harness import (
    CountingClient,
    Desk,
    MakeOptions,
    Operate,
    administrator,
    config_map,
    definition,
    entries,
    is_ready,
    not_ready_because,
    operating,
    other_than,
    ready_condition,
    uid,
)
from tests.operator.limited_accounts import with_token

pytestmark = pytest.mark.cluster

Body = dict[str, Any]

GROUP = "recreate.example.com"
BOXES = f"boxes.{GROUP}"

TEMPLATE = """\
{% for manifest in spec.manifests %}
---
{{ manifest | to_yaml }}
{% endfor %}
"""
"""A Box's manifests are in its spec, so that a test changes them by one `kubectl apply`."""

FROZEN = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
"""The schema of an immutable field, without a message about that."""


@pytest.fixture
async def boxes(desk: Desk, templates: Path) -> Path:
    """The templates of Boxes, whose CRD is installed; and of Things, which are their children."""
    (templates / BOXES).mkdir()
    (templates / BOXES / "any.yaml.j2").write_text(TEMPLATE)
    things = definition("things", GROUP, "Thing")
    fields = {
        "frozen": FROZEN,
        "worded": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
        },
        "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10", "message": "is immutable law"}]},
        "stubborn": {"type": "string", "x-kubernetes-validations": [{"rule": "self != self && self == oldSelf"}]},
    }
    things["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "properties": fields,
    }
    await desk.define(definition("boxes", GROUP, "Box"), things)
    return templates


def box(*manifests: Body, **annotations: str) -> Body:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Box",
        "metadata": {
            "name": "box",
            "annotations": {f"ssa-operator.dev/{key}": value for key, value in annotations.items()},
        },
        "spec": {"manifests": list(manifests)},
    }


def manifest(api_version: str, kind: str, recreate: str = "", **fields: Any) -> Body:
    annotations = {"ssa-operator.dev/recreate": recreate} if recreate else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "annotations": annotations}, **fields}


def thing(recreate: str = "", **spec: Any) -> Body:
    return manifest(f"{GROUP}/v1", "Thing", recreate, spec=spec)


def pods(**labels: str) -> Body:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    return {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}


def deployment(recreate: str = "", *, app: str = "one", **spec: Any) -> Body:
    selected = {"selector": {"matchLabels": {"app": app}}, "template": pods(app=app)}
    return manifest("apps/v1", "Deployment", recreate, spec={"replicas": 1, **selected, **spec})


def stateful_set(recreate: str = "", *, storage: str = "", storage_class: str = "standard", **spec: Any) -> Body:
    selected: Body = {"serviceName": "web", "selector": {"matchLabels": {"app": "db"}}, "template": pods(app="db")}
    if storage:
        resources = {"requests": {"storage": storage}}
        claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": resources}
        selected["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return manifest("apps/v1", "StatefulSet", recreate, spec={"replicas": 2, **selected, **spec})


def job(recreate: str = "", image: str = "one") -> Body:
    container = {"name": "main", "image": image}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return manifest("batch/v1", "Job", recreate, spec={"template": template})


def conflict(*words: str) -> Callable[[Body], bool]:
    return not_ready_because("Conflict", "immutable", "ssa-operator.dev/recreate", *words)


async def test_without_the_annotation_the_object_stays_and_the_status_names_what_to_do(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(box(deployment(), config_map("extra")))
        old = await desk.read("deployments.apps", "web")
        await desk.apply(box(deployment(app="two")))
        words = ("Deployment", "web", "spec.selector", "Background", f"{BOXES}/any.yaml.j2:")
        parent = await desk.until(BOXES, "box", conflict(*words))
        stalled = next(each for each in parent["status"]["conditions"] if each["type"] == "Stalled")
        assert stalled["status"] == "True"
        # Nothing is pruned while an apply fails.
        await desk.read("configmaps", "extra")
        assert uid(await desk.read("deployments.apps", "web")) == uid(old)

        await desk.apply_until_ready(box(deployment()))
        await desk.gone("configmaps", "extra")


async def test_a_long_value_in_the_api_servers_message_is_shortened(desk: Desk, operate: Operate, boxes: Path) -> None:
    """A Job's refused change quotes its whole pod template."""
    first, second = job(), job(image="two")
    for each in (first, second):
        each["spec"]["template"]["spec"]["containers"][0]["args"] = [f"word-{number}" for number in range(400)]
    async with operate():
        await desk.apply(box(first))
        await desk.read("jobs.batch", "web")
        await desk.apply(box(second))
        words = ("spec.template.spec.containers[0].image is immutable", "(spec.template: Invalid value", "immutable)")
        parent = await desk.until(BOXES, "box", conflict(*words))
    assert len(ready_condition(parent)["message"]) < 1000


@pytest.mark.more_cases
@pytest.mark.parametrize("strategy", ["Background", "Foreground", "Orphan"])
async def test_a_deployment_is_recreated_if_its_manifest_allows_it(
    desk: Desk, operate: Operate, boxes: Path, strategy: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ssa_operator")
    async with operate():
        await desk.apply_until_ready(box(deployment(strategy)))
        old = await desk.read("deployments.apps", "web")
        (before,) = (await desk.view("replicasets.apps")).cache
        await desk.apply(box(deployment(strategy, app="two")))
        new = await desk.until("deployments.apps", "web", other_than(old))
        await desk.ready(BOXES, "box")
        assert new["spec"]["selector"] == {"matchLabels": {"app": "two"}}
        if strategy == "Orphan":
            left = await desk.read("replicasets.apps", before.identity.name)
            assert "ownerReferences" not in left["metadata"]
        else:
            await desk.gone("replicasets.apps", before.identity.name)
    assert f"Deployment {desk.namespace}/web recreated" in caplog.text


@pytest.mark.exhaustive
async def test_a_stateful_set_keeps_its_pods_with_orphan(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(stateful_set("Orphan")))
        old = await desk.read("statefulsets.apps", "web")
        names = ("web-0", "web-1")
        before = {name: uid(await desk.read("pods", name)) for name in names}
        await desk.apply(box(stateful_set("Orphan", podManagementPolicy="Parallel")))
        new = await desk.until("statefulsets.apps", "web", other_than(old))
        await desk.ready(BOXES, "box")
        for name in names:
            adopted = await desk.until("pods", name, owned_by(new))
            assert uid(adopted) == before[name]


def relabelled() -> Body:
    """The selector and the pods of a StatefulSet that can't adopt those of `stateful_set`."""
    return {"selector": {"matchLabels": {"app": "other"}}, "template": pods(app="other")}


def with_cache() -> Body:
    """The volumes and pods of a StatefulSet whose controller can't update the pods of `stateful_set`."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = pods(app="db")
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "cache", "mountPath": "/cache"}]
    return {"volumeClaimTemplates": [{"metadata": {"name": "cache"}, "spec": claim}], "template": template}


@pytest.mark.parametrize(
    "changed", [relabelled(), with_cache(), with_cache() | relabelled()], ids=["selector", "volumes", "both"]
)
async def test_pods_that_orphan_left_and_that_the_new_stateful_set_cannot_adopt_are_replaced(
    desk: Desk, operate: Operate, boxes: Path, changed: Body
) -> None:
    async with operate():
        await desk.apply(
            manifest("v1", "Pod", **pods(app="db")) | {"metadata": {"name": "web-7", "labels": {"app": "x"}}}
        )
        await desk.apply_until_ready(box(stateful_set("Orphan")))
        old = await desk.read("statefulsets.apps", "web")
        names = ("web-0", "web-1")
        before = {name: uid(await desk.read("pods", name)) for name in names}
        await desk.apply(box(stateful_set("Orphan", **changed)))
        new = await desk.until("statefulsets.apps", "web", other_than(old))
        await desk.ready(BOXES, "box")
        for name in names:
            replaced = await desk.until("pods", name, owned_by(new))
            assert uid(replaced) != before[name]
        stranger = await desk.read("pods", "web-7")
        assert stranger["metadata"]["labels"] == {"app": "x"}


def owned_by(owner: Body) -> Callable[[Body], bool]:
    return lambda body: any(each["uid"] == uid(owner) for each in body["metadata"].get("ownerReferences", ()))


@pytest.fixture
async def expandable(desk: Desk) -> AsyncIterator[str]:
    """A StorageClass whose volumes can grow, and are bound as those of `standard`."""
    name = f"{desk.namespace}-expandable"
    standard = await desk.read("storageclasses.storage.k8s.io", "standard")
    kept = {key: standard[key] for key in ("apiVersion", "kind", "provisioner", "volumeBindingMode")}
    await desk.apply({**kept, "metadata": {"name": name}, "allowVolumeExpansion": True})
    yield name
    await desk.delete("storageclass", name)


async def test_volumes_grow_before_their_stateful_set_is_recreated(
    desk: Desk, operate: Operate, boxes: Path, expandable: str
) -> None:
    async with operate():
        await desk.apply_until_ready(box(stateful_set("Orphan", storage="1Gi", storage_class=expandable)))
        old = await desk.read("statefulsets.apps", "web")
        before = [await desk.until("persistentvolumeclaims", f"data-web-{n}", is_bound) for n in (0, 1)]
        await desk.apply(box(stateful_set("Orphan", storage="2Gi", storage_class=expandable)))
        await desk.until("statefulsets.apps", "web", other_than(old))
        await desk.ready(BOXES, "box")
        for claim in before:
            grown = await desk.read("persistentvolumeclaims", claim["metadata"]["name"])
            assert grown["spec"]["resources"]["requests"]["storage"] == "2Gi"
            assert uid(grown) == uid(claim)


async def test_a_stateful_set_stays_if_its_volumes_cannot_grow(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(stateful_set("Orphan", storage="1Gi")))
        old = await desk.read("statefulsets.apps", "web")
        await desk.apply(box(stateful_set("Orphan", storage="2Gi")))
        words = ("data-web-", "can't grow from 1Gi to 2Gi", "must support resize", "kept as it is")
        await desk.until(BOXES, "box", not_ready_because("ApplyFailed", *words))
        assert uid(await desk.read("statefulsets.apps", "web")) == uid(old)


def is_bound(body: Body) -> bool:
    return bool(body.get("status", {}).get("phase") == "Bound")


@pytest.mark.exhaustive
async def test_a_stateful_set_stays_if_its_volumes_would_be_deleted_with_it(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    policy: Body = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}
    async with operate():
        await desk.apply_until_ready(box(stateful_set("Background", storage="1Gi", **policy)))
        changed = {**policy, "podManagementPolicy": "Parallel"}
        await desk.apply(box(stateful_set("Background", storage="1Gi", **changed)))
        await desk.until(BOXES, "box", conflict("whenDeleted", "Orphan"))
        claim = await desk.read("persistentvolumeclaims", "data-web-0")
        await desk.apply(box(stateful_set("Orphan", storage="1Gi", **changed)))
        await desk.until("statefulsets.apps", "web", lambda body: body["spec"]["podManagementPolicy"] == "Parallel")
        await desk.ready(BOXES, "box")
        assert uid(await desk.read("persistentvolumeclaims", "data-web-0")) == uid(claim)


@pytest.mark.exhaustive
async def test_a_completed_job_is_replaced_by_its_changed_manifest(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(job("Background")))
        old = await desk.read("jobs.batch", "web")
        await desk.apply(box(job("Background", "two")))
        new = await desk.until("jobs.batch", "web", other_than(old))
        await desk.ready(BOXES, "box")
        assert new["spec"]["template"]["spec"]["containers"][0]["image"] == "two"


async def test_a_service_with_a_fixed_port_is_recreated(desk: Desk, operate: Operate, boxes: Path) -> None:
    """Only one Service at a time can have the port and the address."""
    port = {"port": 80, "nodePort": 30917}
    spec = {"type": "LoadBalancer", "ports": [port], "clusterIP": "10.0.91.7", "selector": {"app": "one"}}

    def service(load_balancer: str) -> Body:
        return manifest("v1", "Service", "Background", spec={**spec, "loadBalancerClass": load_balancer})

    async with operate():
        await desk.apply(box(service("example.com/one")))
        old = await desk.read("services", "web")
        await desk.apply(box(service("example.com/two")))
        new = await desk.until("services", "web", other_than(old))
    assert (new["spec"]["clusterIP"], new["spec"]["ports"][0]["nodePort"]) == ("10.0.91.7", 30917)


@pytest.mark.exhaustive
async def test_a_quota_that_the_old_object_uses_up_does_not_prevent_the_new_one(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    hard = {"count/deployments.apps": "1"}
    await desk.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"}, "spec": {"hard": hard}})
    await desk.until("resourcequotas", "one", lambda body: bool(body.get("status", {}).get("used")))
    async with operate():
        await desk.apply_until_ready(box(deployment("Background")))
        old = await desk.read("deployments.apps", "web")
        await desk.until("resourcequotas", "one", lambda body: body["status"]["used"] == hard)
        await desk.apply(box(deployment("Background", app="two")))
        await desk.until("deployments.apps", "web", other_than(old))
        await desk.ready(BOXES, "box")


async def test_an_invalid_new_manifest_keeps_the_old_object(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(deployment("Background")))
        old = await desk.read("deployments.apps", "web")
        wrong = deployment("Background", app="two", template=pods(app="three"))
        await desk.apply(box(wrong))
        words = ("kept as it is", "dry run", "spec.template.metadata.labels", f"Deployment {desk.namespace}/web failed")
        await desk.until(BOXES, "box", not_ready_because("ApplyFailed", *words))
        assert uid(await desk.read("deployments.apps", "web")) == uid(old)


@pytest.mark.exhaustive
async def test_a_custom_resource_is_recreated_whether_its_rule_has_a_message_or_not(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    things = f"things.{GROUP}"
    async with operate():
        await desk.apply_until_ready(box(thing(frozen="a", worded="a")))
        old = await desk.read(things, "web")
        await desk.apply(box(thing(frozen="b", worded="a")))
        await desk.until(BOXES, "box", conflict("spec.frozen", "failed rule: self == oldSelf"))
        await desk.apply(box(thing(frozen="a", worded="b")))
        await desk.until(BOXES, "box", conflict("spec.worded"))
        assert uid(await desk.read(things, "web")) == uid(old)
        await desk.apply(box(thing("Background", frozen="b", worded="a")))
        new = await desk.until(things, "web", other_than(old))
        await desk.ready(BOXES, "box")
        await desk.apply(box(thing("Background", frozen="b", worded="b")))
        await desk.until(things, "web", other_than(new))
        await desk.ready(BOXES, "box")


@pytest.mark.exhaustive
async def test_an_ordinary_rule_of_a_crd_never_deletes_anything(desk: Desk, operate: Operate, boxes: Path) -> None:
    things = f"things.{GROUP}"
    async with operate():
        await desk.apply_until_ready(box(thing("Background", size=1)))
        old = await desk.read(things, "web")
        await desk.apply(box(thing("Background", size=11)))
        await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "spec.size", "is immutable law"))
        assert uid(await desk.read(things, "web")) == uid(old)


@pytest.mark.exhaustive
async def test_an_object_that_refuses_every_update_is_recreated_for_another_manifest_only(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    """Its rule refuses an update that changes nothing, too."""
    things = f"things.{GROUP}"

    def refuses(body: Body) -> bool:
        return "spec.stubborn is immutable" in ready_condition(body)["message"]

    async with operate():
        await desk.apply_until_ready(box(thing("Background", stubborn="a")))
        first = await desk.read(things, "web")
        await desk.apply(box(thing("Background", stubborn="a"), **{"reconcile-at": "1"}))
        assert is_ready(await desk.until(BOXES, "box", refuses))
        await desk.apply(box(thing("Background", stubborn="a"), config_map("later"), **{"reconcile-at": "2"}))
        await desk.until(BOXES, "box", reports("later"))
        assert uid(await desk.read(things, "web")) == uid(first)
        # Another manifest is another matter.
        await desk.apply(box(thing("Background", stubborn="b")))
        await desk.until(things, "web", other_than(first))
        await desk.ready(BOXES, "box")


def reports(name: str) -> Callable[[Body], bool]:
    return lambda body: any(each["name"] == name for each in body["status"]["resources"])


async def test_an_object_that_holds_data_is_never_recreated(desk: Desk, operate: Operate, boxes: Path) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    def claim(recreate: str = "", **more: Any) -> Body:
        return manifest("v1", "PersistentVolumeClaim", recreate, spec={**spec, **more})

    async with operate():
        await desk.apply(box(claim("Background")))
        await desk.until(BOXES, "box", not_ready_because("InvalidManifest", "PersistentVolumeClaim", "never deleted"))
        await desk.apply_until_ready(box(claim()))
        await desk.apply(box(claim(accessModes=["ReadOnlyMany"])))
        await desk.until(BOXES, "box", conflict("spec.accessModes", "delete the object yourself"))


async def test_an_object_of_another_manager_is_never_deleted(desk: Desk, operate: Operate, boxes: Path) -> None:
    await desk.apply(deployment(app="theirs"))
    old = await desk.read("deployments.apps", "web")
    async with operate():
        await desk.apply(box(deployment("Background")))
        await desk.until(BOXES, "box", conflict("was not created for this parent"))
        assert uid(await desk.read("deployments.apps", "web")) == uid(old)


class LateClient(Client):
    """A client whose first delete comes late: another manager replaces the object just before."""

    before_delete: Callable[[Resource, str, str], Any] | None = None

    async def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> LiveObject | None:
        if self.before_delete is not None:
            meddle, self.before_delete = self.before_delete, None
            await meddle(resource, namespace, name)
        return await super().delete(resource, namespace, name, options)


@pytest.fixture
async def late_client(cluster: Cluster) -> AsyncIterator[LateClient]:
    async with LateClient(await administrator(cluster)) as client:
        yield client


@pytest.mark.exhaustive
async def test_an_object_that_took_the_name_meanwhile_is_not_deleted(
    late_client: LateClient, desk: Desk, options: MakeOptions, boxes: Path
) -> None:
    replaced: list[Body] = []

    async def replace(_resource: Resource, _namespace: str, name: str) -> None:
        await desk.delete("deployment", name)
        await desk.apply(deployment(app="theirs"))
        replaced.append(await desk.until("deployments.apps", name, lambda body: uid(body) != uid(old)))

    async with operating(late_client, options()):
        await desk.apply_until_ready(box(deployment("Background")))
        old = await desk.read("deployments.apps", "web")
        late_client.before_delete = replace
        await desk.apply(box(deployment("Background", app="two")))
        await desk.until(BOXES, "box", conflict("was not created for this parent"))
        assert uid(await desk.read("deployments.apps", "web")) == uid(replaced[0])


class DisconnectingClient(CountingClient):
    """A client that loses its connection right after it deleted an object of a kind."""

    kind = "Deployment"

    async def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> LiveObject | None:
        left = await super().delete(resource, namespace, name, options)
        self.met["deletion"] = (resource.kind, name) == (self.kind, "web")
        return left

    async def apply(
        self, resource: Resource, namespace: str, name: str, body: bytes, options: ApplyOptions = DEFAULT_APPLY
    ) -> Applied:
        if self.met.pop("deletion", 0):
            self.met["loss"] += 1
            raise Unreachable(f"apply of {name}", "the connection broke", sent=True)
        return await super().apply(resource, namespace, name, body, options)


async def test_a_deleted_object_is_recreated_also_if_the_connection_breaks_in_between(
    cluster: Cluster, desk: Desk, options: MakeOptions, boxes: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ssa_operator")
    async with DisconnectingClient(await administrator(cluster)) as unlucky, operating(unlucky, options()):
        await desk.apply_until_ready(box(deployment("Background"), config_map("extra")))
        old = await desk.read("deployments.apps", "web")
        await desk.apply(box(deployment("Background", app="two")))
        await desk.until("deployments.apps", "web", other_than(old))
        await desk.ready(BOXES, "box")
        await desk.gone("configmaps", "extra")
    assert f"Deployment {desk.namespace}/web recreated" in caplog.text


SECRET = """\
{% set password = generated(20) %}
apiVersion: v1
kind: Secret
metadata:
  name: web
  annotations: {ssa-operator.dev/recreate: Background}
type: {{ spec.type }}
stringData:
  password: {{ password }}
"""


def is_of(kind: str) -> Callable[[Body], bool]:
    return lambda body: bool(body["type"] == kind)


def box_of(kind: str) -> Body:
    parent = box()
    parent["spec"]["type"] = kind
    return parent


async def test_a_secret_stays_whose_generated_value_would_be_lost_with_orphan(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    (boxes / BOXES / "secret.yaml.j2").write_text(SECRET.replace("Background", "Orphan"))
    async with operate():
        await desk.apply_until_ready(box_of("example.com/one"))
        old = await desk.read("secrets", "web")
        await desk.apply(box_of("example.com/two"))
        words = ("type", "generated values could be lost", "set ssa-operator.dev/recreate to Background")
        await desk.until(BOXES, "box", conflict(*words))
        assert uid(await desk.read("secrets", "web")) == uid(old)


async def test_a_secret_stays_whose_generated_value_could_be_lost_because_of_a_finalizer(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    (boxes / BOXES / "secret.yaml.j2").write_text(SECRET)
    async with operate():
        await desk.apply_until_ready(box_of("example.com/one"))
        old = await desk.read("secrets", "web")
        await desk.hold("secret", "web")
        await desk.apply(box_of("example.com/two"))
        await desk.until(BOXES, "box", conflict("type", "generated values could be lost", "finalizer a.b/hold"))
        assert uid(await desk.read("secrets", "web")) == uid(old)
        # The finalizer is gone: the operator goes on without a resync.
        await desk.release("secret", "web")
        new = await desk.until("secrets", "web", is_of("example.com/two"))
        await desk.ready(BOXES, "box")
        assert new["data"] == old["data"]


@pytest.mark.exhaustive
async def test_a_generated_value_outlives_a_connection_that_breaks_while_its_secret_is_recreated(
    cluster: Cluster, desk: Desk, options: MakeOptions, boxes: Path
) -> None:
    (boxes / BOXES / "secret.yaml.j2").write_text(SECRET)
    async with DisconnectingClient(await administrator(cluster)) as unlucky, operating(unlucky, options()):
        unlucky.kind = "Secret"
        await desk.apply_until_ready(box_of("example.com/one"))
        old = await desk.read("secrets", "web")
        await desk.apply(box_of("example.com/two"))
        new = await desk.until("secrets", "web", is_of("example.com/two"))
        await desk.ready(BOXES, "box")
        assert unlucky.met["loss"] == 1
    assert new["data"] == old["data"]


class RefusedClient(CountingClient):
    """A client whose first delete of a Secret that keeps generated values the API server answers with an error."""

    async def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> LiveObject | None:
        if name.startswith("ssa-operator-kept-") and not self.met["refusal"]:
            self.met["refusal"] += 1
            raise ApiError(f"delete of {name}", ErrorStatus(code=500, reason="InternalError", message="etcd is busy"))
        return await super().delete(resource, namespace, name, options)


@pytest.mark.exhaustive
async def test_a_secret_that_keeps_values_and_was_not_deleted_is_deleted_by_the_retry(
    cluster: Cluster, desk: Desk, options: MakeOptions, boxes: Path
) -> None:
    (boxes / BOXES / "secret.yaml.j2").write_text(SECRET)
    changed = options(apply=ApplyMode.CHANGED)
    async with RefusedClient(await administrator(cluster)) as refused, operating(refused, changed):
        await desk.apply_until_ready(box_of("example.com/one"))
        await desk.apply_until_ready(box_of("example.com/two"))
        annotation = "ssa-operator.dev/generated-values"
        await desk.until(BOXES, "box", lambda body: annotation not in body["metadata"].get("annotations", {}))
        assert refused.met["refusal"] == 1
    names = [live.identity.name for live in (await desk.view("secrets")).cache]
    for name in names:
        if name.startswith("ssa-operator-kept-"):
            await desk.gone("secrets", name)


@pytest.mark.more_cases
@pytest.mark.parametrize("strategy", ["Background", "Foreground"])
async def test_a_recreated_secret_keeps_its_generated_value(
    desk: Desk, operate: Operate, boxes: Path, strategy: str
) -> None:
    (boxes / BOXES / "secret.yaml.j2").write_text(SECRET.replace("Background", strategy))
    async with operate():
        await desk.apply_until_ready(box_of("example.com/one"))
        old = await desk.read("secrets", "web")
        await desk.apply_until_ready(box_of("example.com/two"))
        new = await desk.until("secrets", "web", is_of("example.com/two"))
    assert uid(new) != uid(old)
    assert new["data"] == old["data"]


@pytest.mark.exhaustive
async def test_the_next_process_too_waits_for_a_deletion_that_takes_long(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(box(deployment("Background"), config_map("extra")))
        old = await desk.read("deployments.apps", "web")
        await desk.hold("deployment", "web")
        await desk.apply(box(deployment("Background", app="two")))
        parent = await desk.until(BOXES, "box", not_ready_because("Progressing", "is being deleted", "a.b/hold"))
        assert entries(parent)["Deployment/web"]["state"] == "Terminating"
        # Nothing is pruned meanwhile.
        assert await desk.find("configmaps", "extra") is not None
        assert ready_condition(parent)["status"] == "False"
    await desk.release("deployment", "web")
    await desk.gone("deployments.apps", "web")
    async with operate():
        await desk.until("deployments.apps", "web", other_than(old))
        # The templates are those that were applied: the data decided it.
        await desk.gone("configmaps", "extra")
        await desk.ready(BOXES, "box")


async def test_the_end_of_a_deletion_is_the_event_that_recreates_the_object(
    desk: Desk, operate: Operate, boxes: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ssa_operator")
    async with operate():
        await desk.apply_until_ready(box(thing("Background", frozen="a")))
        things = f"things.{GROUP}"
        old = await desk.read(things, "web")
        await desk.hold(f"thing.{GROUP}", "web")
        await desk.apply(box(thing("Background", frozen="b")))
        await desk.until(BOXES, "box", not_ready_because("Progressing", "a.b/hold"))
        await desk.release(f"thing.{GROUP}", "web")
        await desk.until(things, "web", other_than(old))
        await desk.ready(BOXES, "box")
    assert f"Thing {desk.namespace}/web recreated: spec.frozen is immutable" in caplog.text


@pytest.fixture
async def clerk(desk: Desk, tmp_path: Path) -> AsyncIterator[Client]:
    """A client with all permissions but delete."""
    name = f"{desk.namespace}-clerk"
    verbs = "--verb=get,list,watch,create,update,patch"
    await desk.kubectl("create", "serviceaccount", "clerk")
    await desk.kubectl("create", "clusterrole", name, verbs, "--resource=*.*")
    account = f"--serviceaccount={desk.namespace}:clerk"
    await desk.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", account)
    path = with_token(desk.kubeconfig, tmp_path, await desk.kubectl("create", "token", "clerk"))
    async with Client(await credentials.load(str(path), None)) as client:
        yield client
    await desk.delete("clusterrole", name)
    await desk.delete("clusterrolebinding", name)


async def test_without_the_permission_to_delete_the_object_stays_and_the_status_reports_it(
    clerk: Client, desk: Desk, options: MakeOptions, boxes: Path
) -> None:
    async with operating(clerk, options()):
        await desk.apply_until_ready(box(deployment("Background")))
        old = await desk.read("deployments.apps", "web")
        await desk.apply(box(deployment("Background", app="two")))
        words = ("kept as it is", "delete of Deployment", "forbidden", "cannot delete resource")
        await desk.until(BOXES, "box", not_ready_because("ApplyFailed", *words))
        assert uid(await desk.read("deployments.apps", "web")) == uid(old)


async def test_pods_of_a_stateful_set_that_could_not_be_deleted_stay_its_pods_when_the_change_is_reverted(
    clerk: Client, desk: Desk, options: MakeOptions, boxes: Path
) -> None:
    names = ("web-0", "web-1")
    async with operating(clerk, options()):
        await desk.apply_until_ready(box(stateful_set("Orphan")))
        old = await desk.read("statefulsets.apps", "web")
        before = [uid(await desk.read("pods", name)) for name in names]
        await desk.apply(box(stateful_set("Orphan", **relabelled())))
        await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "kept as it is", "cannot delete resource"))
        await desk.apply_until_ready(box(stateful_set("Orphan")))
        found = [await desk.until("pods", name, owned_by(old)) for name in names]
    assert [uid(pod) for pod in found] == before
    assert [pod["metadata"]["labels"]["app"] for pod in found] == ["db", "db"]

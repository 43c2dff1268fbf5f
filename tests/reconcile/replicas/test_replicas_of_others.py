"""The number of replicas that others set outlives the recreation of its object, and templates that stop writing it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator import operator as operators
from ssa_operator.reconcile.parent_records.rules import REPLICAS_ANNOTATION
from tests.operator.harness import Desk, MakeOptions, Operate, definition, other_than, uid
from tests.reconcile.test_crashes import Crash, crashing_operators

pytestmark = pytest.mark.cluster

Body = dict[str, Any]

GROUP = "scaled.example.com"
CRATES = f"crates.{GROUP}"
FLEETS = f"fleets.{GROUP}"

HANDOVER = "handover-from-ssa-operator"
AUTOSCALER = ("autoscaler", "Update", "scale")
"""The manager, operation and subresource of `Desk.scale`."""

TEMPLATE = """\
{% for manifest in spec.manifests %}
---
{{ manifest | to_yaml }}
{% endfor %}
"""
"""A Crate's manifests are in its spec, so that a test changes them by one `kubectl apply`."""


def fleets() -> Body:
    """The CRD of a kind that is scaled by another field than built-in kinds, and has an immutable field."""
    crd = definition("fleets", GROUP, "Fleet")
    version = crd["spec"]["versions"][0]
    frozen = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    workers = {"type": "object", "properties": {"count": {"type": "integer", "default": 1}, "size": {"type": "string"}}}
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "properties": {"frozen": frozen, "workers": workers},
    }
    scale = {"specReplicasPath": ".spec.workers.count", "statusReplicasPath": ".status.count"}
    version["subresources"] = {"status": {}, "scale": scale}
    return crd


@pytest.fixture
async def crates(desk: Desk, templates: Path) -> Path:
    """The templates of Crates, whose CRD is installed, and that of Fleets."""
    (templates / CRATES).mkdir()
    (templates / CRATES / "any.yaml.j2").write_text(TEMPLATE)
    await desk.define(definition("crates", GROUP, "Crate"), fleets())
    return templates


def crate(*manifests: Body, name: str = "crate", **annotations: str) -> Body:
    given = {f"ssa-operator.dev/{key}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": given}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Crate", "metadata": metadata, "spec": {"manifests": list(manifests)}}


def manifest(api_version: str, kind: str, recreate: str, spec: Body, name: str = "web") -> Body:
    annotations = {"ssa-operator.dev/recreate": recreate} if recreate else {}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }


def pods(app: str) -> Body:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def stateful_set(recreate: str = "", name: str = "web", **spec: Any) -> Body:
    selected: Body = {"serviceName": "web", "selector": {"matchLabels": {"app": name}}, "template": pods(name)}
    return manifest("apps/v1", "StatefulSet", recreate, {**selected, **spec}, name)


def deployment(recreate: str = "", app: str = "one", **spec: Any) -> Body:
    selected: Body = {"selector": {"matchLabels": {"app": app}}, "template": pods(app)}
    return manifest("apps/v1", "Deployment", recreate, {**selected, **spec})


def replica_set(recreate: str = "", app: str = "one", **spec: Any) -> Body:
    return {**deployment(recreate, app, **spec), "kind": "ReplicaSet"}


def fleet(recreate: str = "", frozen: str = "one", name: str = "web", **workers: Any) -> Body:
    """A Fleet. Without a field of its workers, nothing of the mapping is left."""
    spec = {"frozen": frozen} | ({"workers": workers} if workers else {})
    return manifest(f"{GROUP}/v1", "Fleet", recreate, spec, name)


def number(body: Body) -> Any:
    return body["spec"].get("workers", {}).get("count") if body["kind"] == "Fleet" else body["spec"].get("replicas")


def owners(body: Body) -> list[tuple[str, str, str]]:
    """The managers that own the number of replicas, each with operation and subresource."""
    path = ("f:spec", "f:workers", "f:count") if body["kind"] == "Fleet" else ("f:spec", "f:replicas")
    found = []
    for entry in body["metadata"]["managedFields"]:
        fields = entry["fieldsV1"]
        for step in path:
            fields = fields.get(step) if fields is not None else None
        if fields is not None:
            found.append((entry["manager"], entry["operation"], entry.get("subresource", "")))
    return found


def has(count: int, *managers: tuple[str, str, str]) -> Callable[[Body], bool]:
    return lambda body: number(body) == count and (not managers or owners(body) == [*managers])


def owned_by(owner: Body) -> Callable[[Body], bool]:
    return lambda body: any(each["uid"] == uid(owner) for each in body["metadata"].get("ownerReferences", ()))


async def test_an_orphaned_stateful_set_keeps_the_pods_that_somebody_else_scaled_it_to(
    desk: Desk, operate: Operate, crates: Path
) -> None:
    names = [f"web-{ordinal}" for ordinal in range(6)]
    async with operate():
        await desk.apply_until_ready(crate(stateful_set("Orphan")))
        await desk.scale("statefulset", "web", 6)
        old = await desk.until("statefulsets.apps", "web", lambda body: body["status"].get("readyReplicas") == 6)
        before = {name: uid(await desk.read("pods", name)) for name in names}
        deleted: list[str] = []

        def witness(was: LiveObject | None, now: LiveObject | None) -> None:
            if was is not None and now is None:
                deleted.append(was.identity.name)

        (await desk.view("pods")).cache.listen(witness)
        await desk.apply(crate(stateful_set("Orphan", podManagementPolicy="Parallel")))
        new = await desk.until("statefulsets.apps", "web", other_than(old))
        assert (number(new), new["spec"]["podManagementPolicy"]) == (6, "Parallel")
        for name in names:
            assert uid(await desk.until("pods", name, owned_by(new))) == before[name]
        parent = await desk.ready(CRATES, "crate")
        new = await desk.read("statefulsets.apps", "web")
        assert new["status"]["observedGeneration"] == new["metadata"]["generation"]
        assert new["status"]["readyReplicas"] == 6
        assert owners(new) == owners(old) == []
        assert deleted == []
        assert REPLICAS_ANNOTATION not in parent["metadata"]["annotations"]


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("resource", "make", "strategy", "count"),
    [
        pytest.param("deployments.apps", deployment, "Background", 0, id="Deployment, Background"),
        pytest.param("deployments.apps", deployment, "Foreground", 3, id="Deployment, Foreground"),
        pytest.param("replicasets.apps", replica_set, "Orphan", 3, id="ReplicaSet, Orphan"),
        pytest.param(FLEETS, fleet, "Background", 3, id="custom resource, Background"),
        pytest.param(FLEETS, fleet, "Orphan", 0, id="custom resource, Orphan"),
    ],
)
async def test_a_recreated_object_has_the_number_that_others_set(
    desk: Desk,
    operate: Operate,
    crates: Path,
    resource: str,
    make: Callable[..., Body],
    strategy: str,
    count: int,
) -> None:
    kind = resource.partition(".")[0]
    async with operate():
        await desk.apply_until_ready(crate(make(strategy)))
        await desk.scale(kind, "web", count)
        old = await desk.until(resource, "web", has(count))
        await desk.apply_until_ready(crate(make(strategy, "two")))
        new = await desk.until(resource, "web", other_than(old))
        assert (number(new), owners(new)) == (count, owners(old))
        # The operator's own applies leave it alone, as they left that of the old object.
        await desk.apply_until_ready(crate(make(strategy, "two"), **{"reconcile-at": "now"}))
        assert number(await desk.read(resource, "web")) == count


@pytest.mark.exhaustive
@pytest.mark.parametrize("restarted", [False, True], ids=["same process", "restarted"])
async def test_a_number_that_others_set_while_the_old_object_is_being_deleted_counts(
    desk: Desk, operate: Operate, crates: Path, restarted: bool
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(operate())
        await desk.apply_until_ready(crate(fleet("Background")))
        await desk.scale("fleet", "web", 3)
        old = await desk.until(FLEETS, "web", has(3))
        await desk.hold("fleet", "web")
        await desk.apply(crate(fleet("Background", "two")))
        await desk.until(FLEETS, "web", lambda body: "deletionTimestamp" in body["metadata"])
        if restarted:
            await stack.aclose()
        await desk.scale("fleet", "web", 5)
        if restarted:
            running = await stack.enter_async_context(operate())
            await running.reconciled(1)
        await desk.release("fleet", "web")
        new = await desk.until(FLEETS, "web", other_than(old))
        assert (number(new), new["spec"]["frozen"]) == (5, "two")
        await desk.ready(CRATES, "crate")
        left = await desk.read(FLEETS, "web")
        assert (number(left), owners(left)) == (5, owners(old))


async def by_scale(desk: Desk, resource: Resource, name: str) -> None:
    await desk.scale(resource.plural, name, 3)


async def by_kubectl_scale(desk: Desk, resource: Resource, name: str) -> None:
    await desk.kubectl("scale", resource.name, name, "--replicas=3")


async def by_update(desk: Desk, resource: Resource, name: str) -> None:
    await desk.update_as("scaler", resource, name, {"spec": with_count(resource, 3)})


async def by_apply(desk: Desk, resource: Resource, name: str) -> None:
    metadata = {"name": name}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    encoded = encode(body | {"spec": with_count(resource, 3)})
    await desk.client.apply(resource, desk.namespace, name, encoded, ApplyOptions(manager="scaler"))


def with_count(resource: Resource, count: int) -> Body:
    return {"workers": {"count": count}} if resource.name == FLEETS else {"replicas": count}


def child(resource: Resource, name: str, strategy: str, immutable: str, count: int | None = None) -> Body:
    """A manifest with an immutable field of the value `one` or `two`, with a number of replicas or without."""
    fields = {} if count is None else with_count(resource, count)
    if resource.name == FLEETS:
        return fleet(strategy, immutable, name, **fields.get("workers", {}))
    if resource.kind == "StatefulSet":
        policy = {"one": "OrderedReady", "two": "Parallel"}[immutable]
        return stateful_set(strategy, name, podManagementPolicy=policy, **fields)
    body = deployment(strategy, f"{name}-{immutable}", **fields)
    return body | {"kind": resource.kind, "metadata": body["metadata"] | {"name": name}}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["deployments.apps", "replicasets.apps", "statefulsets.apps", FLEETS])
async def test_each_strategy_keeps_the_number_and_its_owners_whoever_set_it(
    desk: Desk, operate: Operate, crates: Path, kind: str
) -> None:
    """A template writes a number, leaves it to another manager, has the object recreated, and takes the number back."""
    resource = await desk.mapper.resource_by_name(kind)
    managers = {"scale": by_scale, "kubectl": by_kubectl_scale, "update": by_update, "apply": by_apply}
    async with operate():
        for strategy, (manager, set_number) in product(("Background", "Foreground", "Orphan"), managers.items()):
            name = f"{strategy.lower()}-{manager}"
            await desk.apply(crate(child(resource, name, strategy, "one", 2), name=name))
            await desk.until(kind, name, has(2, ("ssa-operator", "Apply", "")))
            await desk.apply(crate(child(resource, name, strategy, "one"), name=name))
            await desk.until(kind, name, has(2, (HANDOVER, "Update", "")))
            await set_number(desk, resource, name)
            old = await desk.until(kind, name, has(3))
            await desk.apply(crate(child(resource, name, strategy, "two"), name=name))
            new = await desk.until(kind, name, other_than(old))
            assert number(new) == 3
            await desk.until(kind, name, has(3, *owners(old)))
            await desk.apply(crate(child(resource, name, strategy, "two", 1), name=name))
            await desk.until(kind, name, lambda body: number(body) == 1)
            await desk.delete("crate", name)


async def test_a_number_in_the_manifest_of_a_recreated_object_wins(desk: Desk, operate: Operate, crates: Path) -> None:
    async with operate():
        await desk.apply_until_ready(crate(deployment("Background", replicas=2)))
        old = await desk.read("deployments.apps", "web")
        await desk.apply_until_ready(crate(deployment("Background", "two", replicas=3)))
        new = await desk.until("deployments.apps", "web", other_than(old))
    assert (number(new), owners(new)) == (3, [("ssa-operator", "Apply", "")])


GIVEN_UP = [
    pytest.param("deployments.apps", deployment, "replicas", id="Deployment"),
    pytest.param("statefulsets.apps", stateful_set, "replicas", id="StatefulSet"),
    pytest.param("replicasets.apps", replica_set, "replicas", id="ReplicaSet"),
    pytest.param(FLEETS, fleet, "count", id="custom resource"),
]


@pytest.mark.more_cases
@pytest.mark.parametrize(("resource", "make", "field"), GIVEN_UP)
async def test_a_number_that_a_template_stops_writing_stays_until_another_writes_it(
    desk: Desk, operate: Operate, crates: Path, resource: str, make: Callable[..., Body], field: str
) -> None:
    async with operate() as running:
        await desk.apply_until_ready(crate(make(**{field: 3})))
        await desk.apply_until_ready(crate(make()))
        given_up = await desk.until(resource, "web", has(3, (HANDOVER, "Update", "")))
        running.forget()
        await desk.apply_until_ready(crate(make(), **{"reconcile-at": "now"}))
        await running.reconciled(1)
        left = await desk.read(resource, "web")
        assert left["metadata"]["managedFields"] == given_up["metadata"]["managedFields"]

        await desk.scale(resource.partition(".")[0], "web", 4)
        await desk.until(resource, "web", has(4, AUTOSCALER))
        await desk.apply_until_ready(crate(make(), **{"reconcile-at": "later"}))
        assert owners(await desk.read(resource, "web")) == [AUTOSCALER]
        # A template that writes it again takes it back, and can leave it again.
        await desk.apply_until_ready(crate(make(**{field: 2})))
        await desk.until(resource, "web", has(2, ("ssa-operator", "Apply", "")))
        await desk.apply_until_ready(crate(make()))
        await desk.until(resource, "web", has(2, (HANDOVER, "Update", "")))


@pytest.mark.exhaustive
async def test_a_number_that_a_template_stops_writing_in_the_same_change_as_an_immutable_field_stays(
    desk: Desk, operate: Operate, crates: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(crate(stateful_set("Orphan", replicas=3)))
        old = await desk.read("statefulsets.apps", "web")
        await desk.apply_until_ready(crate(stateful_set("Orphan", podManagementPolicy="Parallel")))
        new = await desk.until("statefulsets.apps", "web", other_than(old))
        assert (number(new), owners(new)) == (3, [(HANDOVER, "Update", "")])
        # Whoever owns the number of the old object owns that of the new one.
        await desk.scale("statefulset", "web", 2)
        old = await desk.until("statefulsets.apps", "web", has(2, AUTOSCALER))
        await desk.apply_until_ready(crate(stateful_set("Orphan")))
        new = await desk.until("statefulsets.apps", "web", other_than(old))
        assert (number(new), owners(new)) == (2, [AUTOSCALER])


async def test_an_adopted_object_keeps_the_number_of_its_former_manager(
    desk: Desk, operate: Operate, crates: Path
) -> None:
    await desk.kubectl_apply(deployment(replicas=4))
    async with operate():
        await desk.apply_until_ready(crate(deployment()))
        assert number(await desk.until("deployments.apps", "web", lambda body: bool(owners(body)))) == 4
        await desk.until("deployments.apps", "web", has(4, (HANDOVER, "Update", "")))


async def test_another_field_that_a_template_stops_writing_is_removed_as_before(
    desk: Desk, operate: Operate, crates: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(crate(deployment(replicas=2, minReadySeconds=1)))
        await desk.apply_until_ready(crate(deployment(replicas=2)))
        found = await desk.until("deployments.apps", "web", lambda body: "minReadySeconds" not in body["spec"])
    assert owners(found) == [("ssa-operator", "Apply", "")]


async def give_up_and_recreate(desk: Desk, name: str) -> None:
    """A template stops writing a number, another manager sets it, and its object is recreated. Fails if the number is
    ever another one, or if its record is left over.
    """
    seen: set[Any] = set()

    def witness(_: LiveObject | None, new: LiveObject | None) -> None:
        if new is not None and new.identity.name == name:
            seen.add(number(new.body))

    (await desk.view(FLEETS)).cache.listen(witness)
    await desk.apply_until_ready(crate(fleet(name=name, count=3), name=name))
    await desk.apply_until_ready(crate(fleet("Background", name=name), name=name))
    await desk.until(FLEETS, name, has(3, (HANDOVER, "Update", "")))
    await desk.scale("fleet", name, 4)
    old = await desk.until(FLEETS, name, has(4, AUTOSCALER))
    await desk.apply_until_ready(crate(fleet("Background", "two", name=name), name=name))
    new = await desk.until(FLEETS, name, other_than(old))
    await desk.until(FLEETS, name, has(4, AUTOSCALER))
    await desk.until(CRATES, name, lambda body: REPLICAS_ANNOTATION not in body["metadata"].get("annotations", {}))
    assert new["spec"]["frozen"] == "two"
    assert seen == {3, 4}
    await desk.delete("crate", name, wait=False)
    await desk.gone(CRATES, name)


@pytest.mark.parametrize(
    ("after", "stride"),
    [
        pytest.param(False, 7, id="before some"),
        pytest.param(False, 1, id="before each", marks=pytest.mark.exhaustive),
        pytest.param(True, 1, id="after each", marks=pytest.mark.exhaustive),
    ],
)
async def test_after_a_crash_between_any_two_writes_the_number_is_the_same(
    desk: Desk,
    cluster: Cluster,
    options: MakeOptions,
    crates: Path,
    after: bool,
    stride: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "DRAIN_DEADLINE", 0.0)
    made, crash = options(templates=crates), Crash()
    async with crashing_operators(cluster, made, crash):
        await give_up_and_recreate(desk, "fleet-x")
    count = crash.writes
    for at in range(1, count + 1, stride):
        crash = Crash(at, after)
        async with crashing_operators(cluster, made, crash):
            await give_up_and_recreate(desk, f"fleet-{at}")
    assert count > 10

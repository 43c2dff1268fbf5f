"""The operator that `new` makes of a chart of a clustered database: made again, and with parents side by side."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.label_selectors import selects
from ssa_operator.operator import crd_installation as crds
from ssa_operator.operator.operator_options import Options
from tests.conftest import new_namespace
from tests.examples.example_catalog import GALLERY
from tests.operator.harness import Desk, Running, operating
from tests.tools.scaffold.projects import invoke

EXAMPLE = GALLERY / "clustered-database"
DATABASES = "databases.gallery.example.com"


def test_the_example_is_what_new_writes_for_its_manifests(tmp_path: Path) -> None:
    command = ["new", "Database", "--group=gallery.example.com", "--api-version=v1", "--crd"]
    result = invoke(tmp_path, *command, f"--from-manifests={EXAMPLE / 'manifests.yaml'}")
    assert result.exit_code == 0, result.output
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {path: (EXAMPLE / path).read_text() for path in made}
    folders = [EXAMPLE / name for name in ("crds", "examples", "templates", "tests")]
    assert {path.relative_to(EXAMPLE) for folder in folders for path in folder.rglob("*") if path.is_file()} == {*made}


def database(name: str) -> dict[str, Any]:
    secrets = {"dbAuthUsername": "app", "dbBackupBucket": "https://backups.example.com/app"}
    spec = {"secrets": secrets, "host": f"{name}.example.com"}
    return {"apiVersion": "gallery.example.com/v1", "kind": "Database", "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True, slots=True)
class Owned:
    """The objects of one parent in its namespace, and all pods that are there."""

    parent: str
    namespace: str
    children: Mapping[tuple[str, str], dict[str, Any]]
    """By kind and name."""
    pods: Mapping[str, Mapping[str, str]]
    """The labels of each pod by its name."""
    endpoints: Mapping[str, frozenset[str]]
    """The pods behind each Service, by the EndpointSlices that Kubernetes writes."""

    @property
    def own_pods(self) -> frozenset[str]:
        return frozenset(name for name in self.pods if name.startswith(f"{self.parent}-db-"))

    def names(self, kind: str) -> set[str]:
        return {name for each, name in self.children if each == kind}


async def owned(desk: Desk, parent: str) -> Owned:
    found = await desk.ready(DATABASES, parent)
    children = {}
    for entry in found["status"]["resources"]:
        resource = await desk.mapper.resource(GroupKind(entry["group"], entry["kind"]))
        body = await desk.find(resource.name, entry["name"])
        if body is not None:
            children[entry["kind"], entry["name"]] = body
    lists = {kind: json.loads(await desk.kubectl("get", kind, "--output=json"))["items"] for kind in _LISTED}
    endpoints: dict[str, frozenset[str]] = {}
    for piece in lists["endpointslices"]:
        service = piece["metadata"]["labels"]["kubernetes.io/service-name"]
        chosen = {each["targetRef"]["name"] for each in piece.get("endpoints") or ()}
        endpoints[service] = endpoints.get(service, frozenset()) | chosen
    pods = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in lists["pods"]}
    return Owned(parent, desk.namespace, children, pods, endpoints)


_LISTED = ("pods", "endpointslices")


def leaves(value: Any) -> Iterator[str]:
    """All texts of an object, without those that the API server writes."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in ("managedFields", "ownerReferences", "status"):
                yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str):
        yield value


def references(value: Any) -> Iterator[tuple[str, str]]:
    """The kind and the name of each object that a manifest names in a field."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in _REFERENCES:
                kind, field = _REFERENCES[key]
                yield kind, item[field] if field else item
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


_REFERENCES = {
    "configMap": ("ConfigMap", "name"),
    "roleRef": ("Role", "name"),
    "secretKeyRef": ("Secret", "name"),
    "secretRef": ("Secret", "name"),
    "service": ("Service", "name"),
    "serviceAccountName": ("ServiceAccount", ""),
    "serviceName": ("Service", ""),
}


def selectors(value: Any) -> Iterator[Mapping[str, Any]]:
    """The LabelSelectors of pods in a manifest."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "podSelector" or key == "labelSelector":
                yield item
            yield from selectors(item)
    elif isinstance(value, list):
        for item in value:
            yield from selectors(item)


def check_references(found: Owned, others: list[str]) -> None:
    """Each name in the children of a parent is one of its own objects."""
    hosts = 0
    for (kind, name), body in found.children.items():
        for target, named in references(body.get("spec", body)):
            if named != "default":
                assert (target, named) in found.children, (kind, name, target, named)
        for subject in body.get("subjects", ()):
            assert ("ServiceAccount", subject["name"]) in found.children
            assert subject["namespace"] == found.namespace
        for rule in body.get("rules", ()) if kind == "Role" else ():
            known = found.own_pods if rule["resources"] == ["pods"] else found.names("ConfigMap")
            assert {*rule["resourceNames"]} <= known
        texts = "\n".join(leaves({key: body[key] for key in body.keys() & {"spec", "data", "rules"}}))
        assert not re.search(rf"(?<![\w.-])({'|'.join(others)})-db", texts), (kind, name)
        if kind != "Secret":
            assert "shop" not in texts, (kind, name)
        for pod, service, rest in re.findall(rf"({found.parent}-db-\d+)\.([a-z-]+)((?:\.[a-z0-9-]+)*)", texts):
            assert pod in found.own_pods
            assert pod in found.endpoints[service]
            assert not rest or rest.startswith(f".{found.namespace}.svc")
            hosts += 1
    assert hosts == 7


def check_selectors(found: Owned) -> None:
    """Each selector of a parent selects pods of its own only, and those of the set."""
    peers = {f"{found.parent}-db-{at}" for at in range(3)}
    assert {service: found.endpoints[service] for service in found.names("Service")} == {
        f"{found.parent}-db": peers,
        f"{found.parent}-db-headless": peers,
    }
    budget = found.children["PodDisruptionBudget", f"{found.parent}-db"]
    assert budget["status"]["expectedPods"] == 3
    count = 0
    for kind in ("Deployment", "NetworkPolicy", "StatefulSet"):
        for name in found.names(kind):
            for selector in selectors(found.children[kind, name]):
                chosen = {pod for pod, labels in found.pods.items() if selects(selector, labels)}
                assert chosen <= found.own_pods, (kind, name, selector)
                count += bool(chosen)
    assert count == 6


def written(body: dict[str, Any]) -> dict[str, Any]:
    """What the operator wrote of a child, and when."""
    fields = [each for each in body["metadata"]["managedFields"] if each["manager"] == "ssa-operator"]
    return {"uid": body["metadata"]["uid"], "generation": body["metadata"].get("generation"), "fields": fields}


@pytest.mark.cluster
@pytest.mark.slow
async def test_parents_side_by_side_reach_their_own_objects(cluster: Cluster, client: Client, desk: Desk) -> None:
    await crds.install(client, crds.load_crds(EXAMPLE / "crds"))
    async with new_namespace(cluster) as second, desk.elsewhere(second) as there:
        options = Options(
            templates=(EXAMPLE / "templates",), namespaces=(desk.namespace, second), resync_rate=0.0, listen=None
        )
        async with operating(client, options) as running:
            places: list[tuple[Desk, str]] = [(desk, "orders"), (desk, "invoices"), (there, "orders")]
            for place, name in places:
                await place.apply(database(name))
            found = [await owned(place, name) for place, name in places]
            for each in found:
                check_references(each, ["invoices"] if each.parent == "orders" else ["orders"])
                check_selectors(each)
            passwords = {each.children["Secret", f"{each.parent}-db-auth"]["data"]["password"] for each in found}
            assert len(passwords) == 3
            await check_that_a_reconcile_changes_nothing(running, places, found)
            await desk.delete(DATABASES, "orders")
            await check_that_one_is_gone_and_others_stay(desk, there, found)
            for place, name in places[1:]:
                await place.delete(DATABASES, name)


async def check_that_a_reconcile_changes_nothing(
    running: Running, places: list[tuple[Desk, str]], found: list[Owned]
) -> None:
    for (place, name), before in zip(places, found, strict=True):
        running.forget()
        await place.patch(DATABASES, name, metadata={"annotations": {"ssa-operator.dev/reconcile-at": "now"}})
        await running.reconciled(1)
        after = await owned(place, name)
        for key, body in before.children.items():
            assert written(after.children[key]) == written(body), key


async def check_that_one_is_gone_and_others_stay(desk: Desk, there: Desk, found: list[Owned]) -> None:
    gone, *left = found
    for kind, name in gone.children:
        resource = await desk.mapper.resource(_GROUPS.get(kind, GroupKind("", kind)))
        await desk.gone(resource.name, name)
    for place, before in zip((desk, there), left, strict=True):
        after = await owned(place, before.parent)
        assert {key: written(body) for key, body in after.children.items()} == {
            key: written(body) for key, body in before.children.items()
        }
        check_selectors(after)


_GROUPS = {
    **{kind: GroupKind("apps", kind) for kind in ("Deployment", "StatefulSet")},
    **{kind: GroupKind("networking.k8s.io", kind) for kind in ("Ingress", "NetworkPolicy")},
    **{kind: GroupKind("rbac.authorization.k8s.io", kind) for kind in ("Role", "RoleBinding")},
    "Job": GroupKind("batch", "Job"),
    "PodDisruptionBudget": GroupKind("policy", "PodDisruptionBudget"),
}

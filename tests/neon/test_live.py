"""A NeonDatabase on a real control plane, whose pods become ready but do nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, View, not_ready_because, operating

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

PARENTS = "neondatabases.melenion.com"
ORDER = [
    "statefulsets/db-minio",
    "jobs/db-bucket",
    "deployments/db-broker",
    "statefulsets/db-safekeeper",
    "statefulsets/db-pageserver",
    "jobs/db-tenant",
    "jobs/db-timeline",
    "deployments/db-compute",
]
"""The workloads of a database in the order in which they begin."""


def database(name: str = "db", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "melenion.com/v1",
        "kind": "NeonDatabase",
        "metadata": {"name": name},
        "spec": {"postgres_version": 17, **spec},
    }


def applied(cluster: Cluster, namespace: str) -> list[tuple[str, int]]:
    """`resource/name` and the answer's code of all applies of children in a namespace, in order."""
    assert cluster.audit_log is not None
    found = []
    for event in map(json.loads, cluster.audit_log.read_text().splitlines()):
        at = event.get("objectRef", {})
        ours = event["verb"] == "patch" and "fieldManager=ssa-operator&" in f"{event['requestURI']}&"
        if ours and at.get("namespace") == namespace and "subresource" not in at:
            found.append((f"{at['resource']}/{at['name']}", event["responseStatus"]["code"]))
    return found


def created(cluster: Cluster, namespace: str) -> list[str]:
    """The children that were created in a namespace, in order."""
    return [name for name, code in applied(cluster, namespace) if code == 201]


async def test_a_database_begins_part_by_part(
    cluster: Cluster, client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()):
        await desk.apply(database())
        body = await desk.ready(PARENTS, "db")
    assert body["status"]["phase"] == "Ready"
    assert all(component["ready"] for component in body["status"]["components"].values())
    assert body["status"]["tenantId"] == body["metadata"]["uid"].replace("-", "")
    made = created(cluster, desk.namespace)
    assert [each for each in made if each in ORDER] == ORDER
    # One request a child, whatever was waited for.
    assert len(applied(cluster, desk.namespace)) == len(made) == len(set(made)) == len(body["status"]["resources"])


@pytest.mark.slow
async def test_an_operator_that_ends_after_each_part_goes_on_where_it_was(
    cluster: Cluster, client: Client, desk: Desk, options: MakeOptions
) -> None:
    await desk.apply(database())
    for part in ORDER:
        resource, name = part.split("/")
        group = {"jobs": "batch"}.get(resource, "apps")
        async with operating(client, options()):
            await desk.until(f"{resource}.{group}", name, lambda _: True)
    secrets = await desk.view("secrets")
    before = {live.identity.name: live.body["data"] for live in secrets.cache}
    async with operating(client, options()):
        await desk.ready(PARENTS, "db")
    made = created(cluster, desk.namespace)
    assert [each for each in made if each in ORDER] == ORDER
    assert len(made) == len(set(made))
    for name in ("db-credentials", "db-minio"):
        found = secrets.find(name)
        assert found is not None
        assert found.body["data"] == before[name]


async def test_two_databases_stand_side_by_side(client: Client, desk: Desk, options: MakeOptions) -> None:
    names = ("db", "db-minio")
    async with operating(client, options()):
        await desk.apply(*(database(name, safekeepers={"count": 1}) for name in names))
        first, second = [await desk.ready(PARENTS, name) for name in names]
    children = [{(each["kind"], each["name"]) for each in body["status"]["resources"]} for body in (first, second)]
    assert len(children[0]) == len(children[1])
    assert not children[0] & children[1]
    assert first["status"]["tenantId"] != second["status"]["tenantId"]


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "kept"), [("Retain", 3), ("Delete", 0)])
async def test_its_volumes_are_kept_or_go_with_a_database(
    client: Client, desk: Desk, options: MakeOptions, policy: str, kept: int
) -> None:
    async with operating(client, options()):
        await desk.apply(database(deletion_policy=policy, safekeepers={"count": 1}))
        await desk.ready(PARENTS, "db")
        claims = await desk.view("persistentvolumeclaims")
        names = sorted(live.identity.name for live in claims.cache)
        assert names == ["data-db-minio-0", "data-db-pageserver-0", "data-db-safekeeper-1"]
        await desk.kubectl("delete", "nd", "db", "--wait=false")
        for component in ("minio", "safekeeper", "pageserver"):
            await desk.gone("statefulsets.apps", f"db-{component}")
            await desk.gone("pods", f"db-{component}-{int(component == 'safekeeper')}")
        for name in names:
            if kept:
                await desk.until(
                    "persistentvolumeclaims", name, lambda body: "deletionTimestamp" not in body["metadata"]
                )
            else:
                await desk.gone("persistentvolumeclaims", name)
        await desk.gone("secrets", "db-credentials")
    assert len(claims.cache) == kept


def safekeepers_of(pods: View) -> list[dict[str, Any]]:
    found = [live.body for live in pods.cache if live.identity.name.startswith("db-safekeeper-")]
    return [body for body in found if "deletionTimestamp" not in body["metadata"] and pod_is_ready(body)]


def pod_is_ready(body: dict[str, Any]) -> bool:
    conditions = body.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@pytest.mark.slow
async def test_an_image_reaches_everything_and_one_safekeeper_at_a_time(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()):
        await desk.apply(database())
        before = await desk.ready(PARENTS, "db")
        pods = await desk.view("pods")
        assert len(safekeepers_of(pods)) == 3
        fewest = [3]
        pods.cache.listen(lambda _old, _new: fewest.append(len(safekeepers_of(pods))))
        await desk.apply(database(neon_image_ref="neon:2", compute_image_ref="compute:2"))
        after = await desk.ready(PARENTS, "db")
    components = after["status"]["components"]
    for component in ("broker", "safekeeper", "pageserver", "tenant", "timeline"):
        assert components[component]["image"] == "neon:2"
    assert components["compute"]["image"] == "compute:2"
    assert all(component["ready"] for component in components.values())
    assert min(fewest) == 2
    images = {body["spec"]["containers"][0]["image"] for body in safekeepers_of(pods)}
    assert images == {"neon:2"}
    for field in ("tenantId", "timelineId", "connectionString"):
        assert after["status"][field] == before["status"][field]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_a_larger_volume_makes_the_set_anew_and_keeps_its_pod_and_its_volume(
    client: Client, desk: Desk, options: MakeOptions, policy: str
) -> None:
    # The cluster's own class can't.
    name = f"grows-{desk.namespace}"
    grows = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kwok.x-k8s.io/volume",
        "allowVolumeExpansion": True,
    }
    await desk.apply(grows)
    small: dict[str, Any] = {"safekeepers": {"count": 1}, "storage_class": name, "deletion_policy": policy}
    async with operating(client, options()):
        await desk.apply(database(**small))
        await desk.ready(PARENTS, "db")
        pod = await desk.until("pods", "db-pageserver-0", lambda _: True)
        first = await desk.until("statefulsets.apps", "db-pageserver", lambda _: True)
        of_first = [uid_of(first)] if policy == "Delete" else []
        claim = await desk.until("persistentvolumeclaims", CLAIM, lambda body: owners(body) == of_first)
        await desk.apply(database(**small, pageserver={"storage_size": "20Gi"}))
        await desk.ready(PARENTS, "db")
        second = await desk.until("statefulsets.apps", "db-pageserver", lambda body: uid_of(body) != uid_of(first))
        # Adopted again: pod and volume belong to the new set.
        of_second = [uid_of(second)]
        kept = await desk.until("pods", "db-pageserver-0", lambda body: owners(body) == of_second)
        grown = await desk.until(
            "persistentvolumeclaims", CLAIM, lambda body: owners(body) == (of_second if of_first else [])
        )
    await desk.kubectl("delete", "storageclass", name)
    (asked,) = second["spec"]["volumeClaimTemplates"]
    for size in (asked, grown):
        assert size["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert (uid_of(kept), uid_of(grown)) == (uid_of(pod), uid_of(claim))
    assert "deletionTimestamp" not in grown["metadata"]


CLAIM = "data-db-pageserver-0"


def uid_of(body: dict[str, Any]) -> str:
    return str(body["metadata"]["uid"])


def owners(body: dict[str, Any]) -> list[str]:
    return [owner["uid"] for owner in body["metadata"].get("ownerReferences", ())]


async def test_a_database_waits_for_the_keys_of_its_bucket(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await desk.apply(database(s3={"bucket": "mine", "secret_ref": {"name": "keys"}}))
        await desk.until(PARENTS, "db", not_ready_because("WaitingForDependency", "Secret", "keys"))
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        await desk.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": keys})
        body = await desk.ready(PARENTS, "db")
    assert "minio" not in body["status"]["components"]
    assert body["status"]["phase"] == "Ready"


@pytest.mark.slow
async def test_a_changed_password_restarts_postgres_with_it(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await desk.apply(database(safekeepers={"count": 1}))
        await desk.ready(PARENTS, "db")
        before = await desk.until("deployments.apps", "db-compute", lambda _: True)
        patch = json.dumps({"stringData": {"password": "correct horse battery staple"}})
        await desk.kubectl("patch", "secret", "db-credentials", f"--patch={patch}")
        digest = annotation(before)
        await desk.until("deployments.apps", "db-compute", lambda body: annotation(body) != digest)
        await desk.ready(PARENTS, "db")
        found = await desk.until("secrets", "db-credentials", lambda _: True)
    assert base64.b64decode(found["data"]["password"]) == b"correct horse battery staple"
    assert b":correct horse battery staple@" in base64.b64decode(found["data"]["uri"])


def annotation(deployment: dict[str, Any]) -> Any:
    return deployment["spec"]["template"]["metadata"]["annotations"]["melenion.com/config"]

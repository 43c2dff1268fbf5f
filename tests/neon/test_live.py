"""A NeonDatabase on a real control plane, whose pods become ready but do nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.devcluster.audit import audited
from tests.operator.harness import Desk, not_ready_because, operating

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

PARENTS = "neondatabases.melenion.com"
BRANCHES = "neonbranches.melenion.com"
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


KINDS = "statefulsets,deployments,jobs,services,configmaps,networkpolicies,poddisruptionbudgets"


async def objects(desk: Desk, kinds: str = KINDS) -> dict[str, dict[str, Any]]:
    """The objects of a namespace by `Kind/name`."""
    found = json.loads(await desk.kubectl("get", kinds, "--output=json"))["items"]
    return {f"{body['kind']}/{body['metadata']['name']}": body for body in found}


def database(name: str = "db", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "melenion.com/v1",
        "kind": "NeonDatabase",
        "metadata": {"name": name},
        "spec": {"postgres_version": 17, **spec},
    }


def owners(body: dict[str, Any]) -> list[str]:
    """The uids of an object's owners."""
    return [owner["uid"] for owner in body["metadata"].get("ownerReferences", ())]


def branch(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "melenion.com/v1",
        "kind": "NeonBranch",
        "metadata": {"name": name},
        "spec": {"database": "db", **spec},
    }


def applied(cluster: Cluster, namespace: str) -> list[tuple[str, int]]:
    """`resource/name` and the answer's code of all applies of children in a namespace, in order."""
    found = []
    for event in audited(cluster):
        at = event.get("objectRef", {})
        ours = event["verb"] == "patch" and "fieldManager=ssa-operator&" in f"{event['requestURI']}&"
        if ours and at.get("namespace") == namespace and "subresource" not in at:
            found.append((f"{at['resource']}/{at['name']}", event["responseStatus"]["code"]))
    return found


def created(cluster: Cluster, namespace: str) -> list[str]:
    """The children that were created in a namespace, in order."""
    return [name for name, code in applied(cluster, namespace) if code == 201]


@pytest.mark.slow
async def test_branches_begin_after_their_database_and_it_is_kept_until_they_are_deleted(
    cluster: Cluster, client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()):
        # In the wrong order: everything waits for what it needs.
        await desk.apply(branch("two", ancestor="db"), branch("db"))
        await desk.until(BRANCHES, "db", not_ready_because("WaitingForDependency", "NeonDatabase"))
        await desk.apply(database(safekeepers={"count": 1}))
        bodies = [await desk.ready(BRANCHES, name) for name in ("db", "two")]
        parent = await desk.ready(PARENTS, "db")
        assert parent["status"]["branches"] == ["db", "two"]
        assert bodies[1]["status"]["ancestorTimelineId"] == bodies[0]["status"]["timelineId"]
        assert bodies[0]["status"]["ancestorTimelineId"] == parent["status"]["timelineId"]
        made = created(cluster, desk.namespace)
        order = [*ORDER[:-1], "jobs/db-branch-timeline", "jobs/two-branch-timeline", "deployments/two-branch-compute"]
        assert [each for each in made if each in order] == order
        # The database says why it stays; its Postgres goes on meanwhile.
        await desk.delete("nd", "db", wait=False)
        kept = await desk.until(PARENTS, "db", lambda body: "db, two" in body["status"].get("message", ""))
        assert kept["status"]["phase"] == "Deleting"
        await desk.until("deployments.apps", "db-compute", lambda body: "deletionTimestamp" not in body["metadata"])
        for name in ("two", "db"):
            await desk.delete("nb", name, wait=False)
            await desk.gone(BRANCHES, name)
        await desk.gone(PARENTS, "db")
    # A finalize hook deleted each timeline while the pageserver still ran.
    made = created(cluster, desk.namespace)
    assert {"jobs/two-branch-deletion", "jobs/db-branch-deletion"} <= set(made)


@pytest.mark.slow
async def test_a_namespace_with_a_database_and_its_branches_can_be_deleted(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    """Where a namespace is being deleted, no Job can be created that deletes a timeline."""
    async with operating(client, options()):
        await desk.apply(database(safekeepers={"count": 1}), branch("dev"))
        await desk.ready(BRANCHES, "dev")
        await desk.delete("namespace", desk.namespace, wait=False)
        await desk.gone(BRANCHES, "dev")
        await desk.gone(PARENTS, "db")


@pytest.mark.slow
async def test_roles_and_databases_are_created_once_postgres_is_ready(
    cluster: Cluster, client: Client, desk: Desk, options: MakeOptions
) -> None:
    spec: dict[str, Any] = {"safekeepers": {"count": 1}, "databases": [{"name": "shop", "owner": "app"}]}
    async with operating(client, options()):
        await desk.apply(database(roles=[{"name": "app"}, {"name": "mine", "secretRef": {"name": "own"}}], **spec))
        await desk.until(PARENTS, "db", not_ready_because("WaitingForDependency", "Secret", "own"))
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own"}, "stringData": {"password": "p"}}
        await desk.apply(secret)
        body = await desk.ready(PARENTS, "db")
        found = await desk.until("secrets", "db-role-mine", lambda _: True)
    assert base64.b64decode(found["data"]["password"]) == b"p"
    assert [each["secretName"] for each in body["status"]["roles"]] == ["db-role-app", "db-role-mine"]
    assert body["status"]["phase"] == "Ready"
    assert created(cluster, desk.namespace)[-1] == "jobs/db-databases"


@pytest.mark.slow
async def test_a_job_that_failed_is_named_with_what_to_do(client: Client, desk: Desk, options: MakeOptions) -> None:
    """As after the pageserver lost its volume, when it answers 404 to the Job of the timeline."""
    huge = {"resources": {"requests": {"cpu": "10000"}}}
    external = {"bucket": "mine", "secret_ref": {"name": "keys"}}
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    async with operating(client, options()):
        await desk.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": keys})
        await desk.apply(database(safekeepers={"count": 1}, s3=external, jobs=huge))
        await desk.until("jobs.batch", "db-tenant", lambda _: True)
        await desk.kubectl("patch", "job", "db-tenant", "--type=merge", '--patch={"spec":{"activeDeadlineSeconds":1}}')
        body = await desk.until(PARENTS, "db", lambda body: body.get("status", {}).get("phase") == "Failed")
        message = body["status"]["message"]
        assert message.startswith("Job db-tenant failed: Job was active longer than specified deadline")
        assert "delete the Job; the operator creates it again" in message
        await desk.apply(database(safekeepers={"count": 1}, s3=external))
        ready = await desk.ready(PARENTS, "db")
    assert ready["status"]["phase"] == "Ready"
    assert "message" not in ready["status"]


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_databases_stand_side_by_side_where_pod_security_is_restricted(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    names = ("db", "db-minio", "db-" + 60 * "x")
    await desk.kubectl("label", "namespace", desk.namespace, "pod-security.kubernetes.io/enforce=restricted")
    async with operating(client, options()):
        await desk.apply(*(database(name, safekeepers={"count": 1}) for name in names))
        bodies = [await desk.ready(PARENTS, name) for name in names]
    children = [{(each["kind"], each["name"]) for each in body["status"]["resources"]} for body in bodies]
    assert len({len(each) for each in children}) == 1
    assert len(set().union(*children)) == sum(map(len, children))
    for field in ("tenantId", "timelineId", "connectionString", "secretName"):
        assert len({body["status"][field] for body in bodies}) == len(names)
    # No selector of one takes a pod of another.
    pods = (await desk.view("pods")).cache
    instances = [live.body["metadata"]["labels"]["app.kubernetes.io/instance"] for live in pods]
    assert set(instances) == set(names)
    claims = {live.identity.name for live in (await desk.view("persistentvolumeclaims")).cache}
    assert len(claims) == 3 * len(names)


@pytest.mark.slow
async def test_what_can_not_run_is_replaced_once_the_database_is_corrected(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    """Where no node has so much; an image that is nowhere does the same."""
    huge = {"resources": {"requests": {"cpu": "10000"}}}

    def unschedulable(body: dict[str, Any]) -> bool:
        return any(each.get("reason") == "Unschedulable" for each in body["status"].get("conditions", ()))

    pods = {"minio": ["db-minio-0"], "safekeepers": [f"db-safekeeper-{number}" for number in (1, 2, 3)]}
    async with operating(client, options()):
        # None of them ever ran.
        broken: dict[str, Any] = dict.fromkeys(pods, huge)
        for field, names in pods.items():
            await desk.apply(database(**broken))
            for name in names:
                await desk.until("pods", name, unschedulable)
            del broken[field]
        await desk.apply(database())
        await desk.ready(PARENTS, "db")
        for field, name in {"pageserver": "db-pageserver-0", "safekeepers": "db-safekeeper-3"}.items():
            change: dict[str, Any] = {field: huge}
            await desk.apply(database(**change))
            await desk.until("pods", name, unschedulable)
            await desk.apply(database())
            await desk.ready(PARENTS, "db")


@pytest.mark.exhaustive
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
        for name in names:
            await desk.until("persistentvolumeclaims", name, lambda body: bool(owners(body)) == (kept == 0))
        await desk.delete("nd", "db", wait=False)
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


@pytest.mark.slow
async def test_a_database_waits_for_the_keys_of_its_bucket(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await desk.apply(database(s3={"bucket": "mine", "secret_ref": {"name": "keys"}}))
        await desk.until(PARENTS, "db", not_ready_because("WaitingForDependency", "Secret", "keys"))
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        await desk.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": keys})
        body = await desk.ready(PARENTS, "db")
        made = await objects(desk, f"{KINDS},secrets,persistentvolumeclaims")
    assert "minio" not in body["status"]["components"]
    assert body["status"]["phase"] == "Ready"
    assert not [name for name in made if "minio" in name or "bucket" in name]
    secrets = {name for name in made if name.startswith("Secret/")}
    assert secrets == {"Secret/keys", "Secret/db-compute", "Secret/db-credentials"}

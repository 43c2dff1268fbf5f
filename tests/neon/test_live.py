"""A NeonDatabase on a real control plane, whose pods become ready but do nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from tests.controller.harness import Desk, View, not_ready_because, operating
from tests.devcluster.audit import audited

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


def database(name: str = "db", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "melenion.com/v1",
        "kind": "NeonDatabase",
        "metadata": {"name": name},
        "spec": {"postgres_version": 17, **spec},
    }


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


KINDS = "statefulsets,deployments,jobs,services,configmaps,networkpolicies,poddisruptionbudgets"


async def objects(desk: Desk, kinds: str = KINDS) -> dict[str, dict[str, Any]]:
    """The objects of a namespace by `Kind/name`."""
    found = json.loads(await desk.kubectl("get", kinds, "--output=json"))["items"]
    return {f"{body['kind']}/{body['metadata']['name']}": body for body in found}


@pytest.mark.slow
async def test_a_restarted_operator_changes_what_it_is_asked_to_and_nothing_else(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    def states(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
        # What has no generation has no status either that others write.
        metadata = {name: body["metadata"] for name, body in found.items()}
        return {
            name: (each["uid"], each.get("generation") or each["resourceVersion"]) for name, each in metadata.items()
        }

    kinds = f"{KINDS},secrets"
    async with operating(client, options()):
        await desk.apply(database(safekeepers={"count": 1}))
        first = await desk.ready(PARENTS, "db")
    before = states(await objects(desk, kinds))
    async with operating(client, options()):
        await desk.apply(database(safekeepers={"count": 1}, compute={"max_connections": 50}))
        second = await desk.ready(PARENTS, "db")
    after = states(await objects(desk, kinds))
    assert {name for name in before | after if before.get(name) != after.get(name)} == {
        "Secret/db-compute",
        "Deployment/db-compute",
    }
    for field in ("tenantId", "timelineId", "connectionString", "secretName", "endpoints"):
        assert second["status"][field] == first["status"][field]
    assert "finalizers" not in second["metadata"]


@pytest.mark.slow
async def test_nobody_sees_a_password_who_may_not_read_secrets(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()):
        await desk.apply(database(safekeepers={"count": 1}))
        await desk.ready(PARENTS, "db")
        secrets = await objects(desk, "secrets")
    shown = await desk.kubectl(
        *("get", f"{KINDS},nd,pods,replicasets,events,persistentvolumeclaims,controllerrevisions"),
        *("--output=json", "--show-managed-fields"),
    )
    fields = {"db-credentials": ("password", "uri"), "db-minio": ("AWS_SECRET_ACCESS_KEY",)}
    for name, keys in fields.items():
        for key in keys:
            encoded = secrets[f"Secret/{name}"]["data"][key]
            assert encoded not in shown
            assert base64.b64decode(encoded).decode() not in shown


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


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after", "kept"), [("Retain", "Delete", 0), ("Delete", "Retain", 3)])
async def test_the_last_word_on_its_volumes_counts(
    client: Client, desk: Desk, options: MakeOptions, before: str, after: str, kept: int
) -> None:
    async with operating(client, options()):
        for policy in (before, after):
            await desk.apply(database(deletion_policy=policy, safekeepers={"count": 1}))
            await desk.ready(PARENTS, "db")
        claims = await desk.view("persistentvolumeclaims")
        names = sorted(live.identity.name for live in claims.cache)
        assert len(names) == 3
        for name in names:
            await desk.until("persistentvolumeclaims", name, lambda body: bool(owners(body)) == (after == "Delete"))
        await desk.delete("nd", "db", wait=False)
        for component in ("minio", "safekeeper", "pageserver"):
            await desk.gone("pods", f"db-{component}-{int(component == 'safekeeper')}")
        if not kept:
            for name in names:
                await desk.gone("persistentvolumeclaims", name)
    assert [bool(live.body["metadata"].get("deletionTimestamp")) for live in claims.cache] == [False] * kept


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


def safekeepers_of(pods: View) -> list[dict[str, Any]]:
    found = [live.body for live in pods.cache if live.identity.name.startswith("db-safekeeper-")]
    return [body for body in found if "deletionTimestamp" not in body["metadata"] and pod_is_ready(body)]


def pod_index(body: dict[str, Any]) -> str:
    return str(body["metadata"]["labels"]["apps.kubernetes.io/pod-index"])


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
        # What a safekeeper is told to be its id.
        ids = {body["metadata"]["name"]: pod_index(body) for body in safekeepers_of(pods)}
        assert ids == {f"db-safekeeper-{number}": str(number) for number in (1, 2, 3)}
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
        await desk.apply(database(**small, pageserver={"storage_size": "30Gi"}))
        await desk.ready(PARENTS, "db")
        second = await desk.until("statefulsets.apps", "db-pageserver", lambda body: uid_of(body) != uid_of(first))
        # Adopted again: pod and volume belong to the new set.
        of_second = [uid_of(second)]
        kept = await desk.until("pods", "db-pageserver-0", lambda body: owners(body) == of_second)
        grown = await desk.until(
            "persistentvolumeclaims", CLAIM, lambda body: owners(body) == (of_second if of_first else [])
        )
        # Back again is for the next volumes: those that are there don't shrink, and nobody minds.
        await desk.apply(database(**small))
        await desk.ready(PARENTS, "db")
        third = await desk.until("statefulsets.apps", "db-pageserver", lambda body: uid_of(body) != uid_of(second))
        still = await desk.until(
            "persistentvolumeclaims", CLAIM, lambda body: owners(body) != of_second or not of_first
        )
    await desk.delete("storageclass", name)
    (again,) = third["spec"]["volumeClaimTemplates"]
    assert again["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert (uid_of(still), still["spec"]) == (uid_of(grown), grown["spec"])
    (asked,) = second["spec"]["volumeClaimTemplates"]
    for size in (asked, grown):
        assert size["spec"]["resources"]["requests"]["storage"] == "30Gi"
    assert (uid_of(kept), uid_of(grown)) == (uid_of(pod), uid_of(claim))
    assert "deletionTimestamp" not in grown["metadata"]


CLAIM = "data-db-pageserver-0"


def uid_of(body: dict[str, Any]) -> str:
    return str(body["metadata"]["uid"])


def owners(body: dict[str, Any]) -> list[str]:
    return [owner["uid"] for owner in body["metadata"].get("ownerReferences", ())]


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
    assert b":correct%20horse%20battery%20staple@" in base64.b64decode(found["data"]["uri"])


def annotation(deployment: dict[str, Any]) -> Any:
    return deployment["spec"]["template"]["metadata"]["annotations"]["melenion.com/config"]

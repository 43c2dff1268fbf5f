"""The changes of a NeonDatabase on a real control plane, whose pods become ready but do nothing: the tests change the
same database one after the other, because its beginning takes most of the time.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.reconcile.parent_records.rules import FOLDER_KINDS
from tests.conftest import new_namespace
from tests.neon.test_live import KINDS, ORDER, PARENTS, MakeOptions, applied, database, objects, owners
from tests.operator.harness import Desk, View, operating

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CLAIM = "data-db-pageserver-0"


@dataclass(frozen=True, slots=True)
class Beginning:
    """The database once it was ready for the first time, and the applies of its children up to then."""

    body: dict[str, Any]
    applied: list[tuple[str, int]]


@pytest.fixture(scope="module")
def shared_namespace(cluster: Cluster) -> Iterator[str]:
    """The namespace of the database."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        made = new_namespace(cluster)
        name = runner.run(made.__aenter__())
        yield name
        runner.run(made.__aexit__(None, None, None))
        runner.run(_delete_storage_class(cluster, name))


async def _delete_storage_class(cluster: Cluster, namespace: str) -> None:
    async with cluster.connect() as server:
        await server.delete(f"/apis/storage.k8s.io/v1/storageclasses/grows-{namespace}")


@pytest.fixture
def namespace(shared_namespace: str) -> str:
    return shared_namespace


@pytest.fixture(scope="module")
def beginnings() -> list[Beginning]:
    """That of the database, once it has begun."""
    return []


@pytest.fixture
async def beginning(
    cluster: Cluster, client: Client, desk: Desk, options: MakeOptions, beginnings: list[Beginning]
) -> Beginning:
    if not beginnings:
        # The volumes of the cluster's own class can't grow.
        grows = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": f"grows-{desk.namespace}"},
            "provisioner": "kwok.x-k8s.io/volume",
            "allowVolumeExpansion": True,
        }
        await desk.apply(grows)
        async with operating(client, options()):
            await desk.apply(spec_of(desk))
            body = await desk.ready(PARENTS, "db")
        beginnings.append(Beginning(body, applied(cluster, desk.namespace)))
    return beginnings[0]


def spec_of(desk: Desk, **changes: Any) -> dict[str, Any]:
    """The database with some changes of the spec that it begins with."""
    return database(storage_class=f"grows-{desk.namespace}", **changes)


async def changed(desk: Desk, **changes: Any) -> dict[str, Any]:
    """The database with some changes of the spec that it begins with, once it is ready."""
    await desk.apply(spec_of(desk, **changes))
    return await desk.ready(PARENTS, "db")


def test_a_database_begins_part_by_part(beginning: Beginning) -> None:
    body = beginning.body
    assert body["status"]["phase"] == "Ready"
    assert all(component["ready"] for component in body["status"]["components"].values())
    assert body["status"]["tenantId"] == body["metadata"]["uid"].replace("-", "")
    made = [name for name, code in beginning.applied if code == 201]
    assert [each for each in made if each in ORDER] == ORDER
    # One request a child, whatever was waited for.
    children = [name for name, _ in beginning.applied if name != f"configmaps/{FOLDER_KINDS}"]
    assert len(children) == len(made) == len(set(made)) == len(body["status"]["resources"])


@pytest.mark.usefixtures("beginning")
async def test_nobody_sees_a_password_who_may_not_read_secrets(desk: Desk) -> None:
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


@pytest.mark.usefixtures("beginning")
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
        first = await changed(desk)
    before = states(await objects(desk, kinds))
    async with operating(client, options()):
        second = await changed(desk, compute={"max_connections": 50})
    after = states(await objects(desk, kinds))
    assert {name for name in before | after if before.get(name) != after.get(name)} == {
        "Secret/db-compute",
        "Deployment/db-compute",
    }
    for field in ("tenantId", "timelineId", "connectionString", "secretName", "endpoints"):
        assert second["status"][field] == first["status"][field]
    assert "finalizers" not in second["metadata"]


@pytest.mark.usefixtures("beginning")
async def test_a_changed_password_restarts_postgres_with_it(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await changed(desk)
        before = await desk.until("deployments.apps", "db-compute", lambda _: True)
        await desk.patch("secret", "db-credentials", stringData={"password": "correct horse battery staple"})
        digest = annotation(before)
        await desk.until("deployments.apps", "db-compute", lambda body: annotation(body) != digest)
        await desk.ready(PARENTS, "db")
        found = await desk.until("secrets", "db-credentials", lambda _: True)
    assert base64.b64decode(found["data"]["password"]) == b"correct horse battery staple"
    assert b":correct%20horse%20battery%20staple@" in base64.b64decode(found["data"]["uri"])


def annotation(deployment: dict[str, Any]) -> Any:
    return deployment["spec"]["template"]["metadata"]["annotations"]["melenion.com/config"]


@pytest.mark.usefixtures("beginning")
async def test_the_last_word_on_its_volumes_counts(client: Client, desk: Desk, options: MakeOptions) -> None:
    """Volumes with an owner go with the database, as test_live shows, and the others are kept."""
    claims = await desk.view("persistentvolumeclaims")
    async with operating(client, options()):
        for policy in ("Retain", "Delete", "Retain"):
            await changed(desk, deletion_policy=policy)
            names = sorted(live.identity.name for live in claims.cache)
            assert len(names) == 5
            for name in names:
                await desk.until("persistentvolumeclaims", name, owned if policy == "Delete" else kept)


def owned(claim: dict[str, Any]) -> bool:
    return owners(claim) != []


def kept(claim: dict[str, Any]) -> bool:
    return owners(claim) == []


@pytest.mark.exhaustive
@pytest.mark.usefixtures("beginning")
@pytest.mark.parametrize(("policy", "size"), [("Retain", "30Gi"), ("Delete", "40Gi")])
async def test_a_larger_volume_makes_the_set_anew_and_keeps_its_pod_and_its_volume(
    client: Client, desk: Desk, options: MakeOptions, policy: str, size: str
) -> None:
    async with operating(client, options()):
        await changed(desk, deletion_policy=policy)
        pod = await desk.until("pods", "db-pageserver-0", lambda _: True)
        first = await desk.until("statefulsets.apps", "db-pageserver", lambda _: True)
        of_first = [uid_of(first)] if policy == "Delete" else []
        claim = await desk.until("persistentvolumeclaims", CLAIM, lambda body: owners(body) == of_first)
        await changed(desk, deletion_policy=policy, pageserver={"storage_size": size})
        second = await desk.until("statefulsets.apps", "db-pageserver", lambda body: uid_of(body) != uid_of(first))
        # Adopted again: pod and volume belong to the new set.
        of_second = [uid_of(second)]
        kept = await desk.until("pods", "db-pageserver-0", lambda body: owners(body) == of_second)
        grown = await desk.until(
            "persistentvolumeclaims", CLAIM, lambda body: owners(body) == (of_second if of_first else [])
        )
        # Back again is for the next volumes: those that are there don't shrink, and nobody minds.
        await changed(desk, deletion_policy=policy)
        third = await desk.until("statefulsets.apps", "db-pageserver", lambda body: uid_of(body) != uid_of(second))
        still = await desk.until(
            "persistentvolumeclaims", CLAIM, lambda body: owners(body) != of_second or not of_first
        )
    (again,) = third["spec"]["volumeClaimTemplates"]
    assert again["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert (uid_of(still), still["spec"]) == (uid_of(grown), grown["spec"])
    (asked,) = second["spec"]["volumeClaimTemplates"]
    for claimed in (asked, grown):
        assert claimed["spec"]["resources"]["requests"]["storage"] == size
    assert (uid_of(kept), uid_of(grown)) == (uid_of(pod), uid_of(claim))
    assert "deletionTimestamp" not in grown["metadata"]


def uid_of(body: dict[str, Any]) -> str:
    return str(body["metadata"]["uid"])


def safekeepers_of(pods: View) -> list[dict[str, Any]]:
    found = [live.body for live in pods.cache if live.identity.name.startswith("db-safekeeper-")]
    return [body for body in found if "deletionTimestamp" not in body["metadata"] and pod_is_ready(body)]


def pod_index(body: dict[str, Any]) -> str:
    return str(body["metadata"]["labels"]["apps.kubernetes.io/pod-index"])


def pod_is_ready(body: dict[str, Any]) -> bool:
    conditions = body.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("beginning")
async def test_an_image_reaches_everything_and_one_safekeeper_at_a_time(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()):
        before = await changed(desk)
        pods = await desk.view("pods")
        # What a safekeeper is told to be its id.
        ids = {body["metadata"]["name"]: pod_index(body) for body in safekeepers_of(pods)}
        assert ids == {f"db-safekeeper-{number}": str(number) for number in (1, 2, 3)}
        fewest = [3]
        pods.cache.listen(lambda _old, _new: fewest.append(len(safekeepers_of(pods))))
        after = await changed(desk, neon_image_ref="neon:2", compute_image_ref="compute:2")
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

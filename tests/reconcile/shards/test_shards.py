"""Shards: several operators, each with the parents of its buckets, as one operator without shards."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import PAGE, Client
from ssa_operator.kube.api.errors import Unreachable
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.live_object import BUCKET_LABEL, LiveObject
from ssa_operator.objects.shards import Shard, bucket_name, bucket_of
from ssa_operator.rendering.folder.installation import Installation
from tests.devcluster.audit import own_requests
from tests.devcluster.waiting import until
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    ROLE,
    ROLES,
    Desk,
    MakeOptions,
    Operate,
    Running,
    administrator,
    echo,
    holds,
    map_template,
    not_ready_because,
    only,
    operating,
    uid,
)

pytestmark = pytest.mark.cluster

MAPS = "configmaps"
PARENTS = 12

ONCE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-once
  annotations: {ssa-operator.dev/apply: Once}
"""

ABSENT = "live('ConfigMap', name ~ '-base') is none"
"""A value that an object which is taken for a missing one would change, from the second reconcile on."""


@pytest.fixture
def maps(templates: Path) -> Path:
    """Templates of a cluster-scoped child, of a child that reads another one, and of one that is applied once."""
    only(
        templates,
        role=ROLE,
        base=map_template("base", n="spec.replicas"),
        reader=map_template("reader", uid="child('ConfigMap', name ~ '-base').metadata.uid", absent=ABSENT),
        once=ONCE,
    )
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    return templates


@contextlib.asynccontextmanager
async def sharded(desk: Desk, operate: Operate, *shards: Shard, **options: Any) -> AsyncIterator[list[Running]]:
    """An operator for each shard. Their Leases are in the test's namespace."""
    options["installation"] = Installation(namespace=desk.namespace)
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(operate(shard=shard, **options)) for shard in shards]


def all_of(count: int) -> tuple[Shard, ...]:
    return tuple(Shard(index, count) for index in range(count))


def parents_of(running: Running) -> list[str]:
    """The names of the parents that an operator keeps."""
    folder = running.operator.folders.get(ECHOES)
    return sorted(live.identity.name for live in folder) if folder is not None else []


async def until_ready(operators: Iterable[Running], parents: Mapping[str, str]) -> None:
    """Wait until each operator has reconciled all parents of its shard, and all are ready. `parents` are the uids."""
    for running in operators:
        shard = running.operator.options.shard
        expected = sorted(name for name, each in parents.items() if shard is None or shard.owns(each))
        await until(lambda each=running, names=expected: _has_ready(each, names), PATIENCE)  # type: ignore[misc]


def _has_ready(running: Running, expected: list[str]) -> bool:
    folder = running.operator.folders.get(ECHOES)
    return (
        running.operator.ready
        and folder is not None
        and parents_of(running) == expected
        and folder.ready_count == len(expected)
    )


async def create_parents(desk: Desk, count: int = PARENTS, *, shards: int = 1) -> dict[str, str]:
    """Create parents, and more of them until each of so many shards has one; returns their uids by name."""
    names = [f"web-{number}" for number in range(count)]
    await desk.create(*map(echo, names))
    parents = {name: uid(await desk.read(ECHOES, name)) for name in names}
    # The API server draws the uids.
    while not all(any(map(shard.owns, parents.values())) for shard in all_of(shards)):
        name = f"web-{len(parents)}"
        await desk.create(echo(name))
        parents[name] = uid(await desk.read(ECHOES, name))
    return parents


async def children(desk: Desk) -> dict[str, dict[str, Any]]:
    """All ConfigMaps and roles of the test, by name."""
    maps, _ = await desk._list(MAPS)
    roles, _ = await desk._list(ROLES)
    bodies = [each.body for each in maps]
    bodies += [each.body for each in roles if each.identity.name.startswith(desk.namespace)]
    return {each["metadata"]["name"]: each for each in bodies if "ssa-operator.dev/parent-uid" in labels(each)}


async def versions(desk: Desk) -> dict[str, tuple[str, str]]:
    """The uid and the resourceVersion of all children, and of all parents."""
    parents, _ = await desk._list(ECHOES)
    bodies = (await children(desk)) | {f"parent {each.identity.name}": each.body for each in parents}
    return {name: (uid(body), body["metadata"]["resourceVersion"]) for name, body in bodies.items()}


def labels(body: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = body["metadata"].get("labels", {})
    return found


def has_right_bucket(body: dict[str, Any]) -> bool:
    parent = labels(body)["ssa-operator.dev/parent-uid"]
    return labels(body).get(BUCKET_LABEL) == bucket_name(bucket_of(parent))


def deletions(cluster: Cluster, namespace: str) -> list[str]:
    """The names of the objects that operators deleted."""
    requests = own_requests(cluster, namespace)
    return [event["objectRef"]["name"] for event in requests if event["verb"] == "delete"]


def shares(operators: Iterable[Running]) -> list[set[str]]:
    """The names of the parents that each operator reconciled."""
    return [{name for name, _ in running.reconciles} for running in operators]


async def test_every_parent_is_reconciled_by_exactly_one_shard(
    desk: Desk, operate: Operate, maps: Path, cluster: Cluster
) -> None:
    async with sharded(desk, operate, *all_of(3), templates=maps) as operators:
        parents = await create_parents(desk, shards=3)
        await until_ready(operators, parents)
        for running, names in zip(operators, shares(operators), strict=True):
            shard = running.operator.options.shard
            assert shard is not None
            assert names == {name for name, each in parents.items() if shard.owns(each)}
            # It keeps no object of another shard.
            kept = {live.parent_uid for live in running.operator.controllers.children.values()}
            assert kept & set(parents.values()) == {parents[name] for name in names}
        found = await children(desk)
        assert len(found) == 4 * len(parents)
        assert all(has_right_bucket(body) for body in found.values())
    selectors = {
        selector
        for event in own_requests(cluster, desk.namespace)
        if event["verb"] == "watch" and event["objectRef"]["resource"] == MAPS
        for selector in parse_qs(urlsplit(event["requestURI"]).query).get("labelSelector", ())
    }
    assert selectors == {shard.child_selector for shard in all_of(3)}


@pytest.mark.slow
async def test_another_number_of_shards_moves_parents_and_writes_nothing(
    desk: Desk, operate: Operate, maps: Path, cluster: Cluster
) -> None:
    async with sharded(desk, operate, *all_of(2), templates=maps) as operators:
        parents = await create_parents(desk)
        await until_ready(operators, parents)
    before = await versions(desk)
    for count in (3, 4, 1):
        async with sharded(desk, operate, *all_of(count), templates=maps) as operators:
            await until_ready(operators, parents)
            assert set.union(*shares(operators)) == set(parents)
        assert await versions(desk) == before
    assert deletions(cluster, desk.namespace) == []


@pytest.mark.slow
async def test_old_and_new_shards_that_overlap_during_a_rollout_do_no_harm(
    desk: Desk, operate: Operate, maps: Path, cluster: Cluster
) -> None:
    async with sharded(desk, operate, *all_of(2), *all_of(4), templates=maps) as operators:
        parents = await create_parents(desk)
        await until_ready(operators, parents)
        before = {name: uid(body) for name, body in (await children(desk)).items()}
        for name in parents:
            await desk.patch("echo", name, spec={"replicas": 2})
        for name in parents:
            await desk.until(MAPS, f"{name}-base", holds(n="2"))
            await desk.ready(ECHOES, name)
        assert {name: uid(body) for name, body in (await children(desk)).items()} == before
        assert all(has_right_bucket(body) for body in (await children(desk)).values())
    assert deletions(cluster, desk.namespace) == []


@pytest.mark.slow
async def test_shards_take_over_from_an_operator_without_shards_and_back(
    desk: Desk, operate: Operate, maps: Path, cluster: Cluster
) -> None:
    async with operate(templates=maps) as alone:
        parents = await create_parents(desk)
        await until_ready([alone], parents)
        for name in parents:
            # From the second reconcile on, the child that it reads is there.
            await desk.patch("echo", name, spec={"replicas": 2})
            await desk.until(MAPS, f"{name}-base", holds(n="2"))
            await desk.until(MAPS, f"{name}-reader", lambda body: body["data"]["absent"] == "false")
            await desk.ready(ECHOES, name)
    before = await children(desk)
    assert not any(BUCKET_LABEL in labels(body) for body in before.values())

    async with sharded(desk, operate, *all_of(2), templates=maps) as operators:
        await until_ready(operators, parents)
        assert all(report.verdict.ready for running in operators for report in running.reports)
    labelled = await children(desk)
    # The operator leaves a child alone that is applied once, and still knows it as the parent's.
    once = {f"{name}-once" for name in parents}
    assert {name for name, body in labelled.items() if BUCKET_LABEL not in labels(body)} == once
    assert all(has_right_bucket(body) for name, body in labelled.items() if name not in once)
    assert without_bucket(labelled) == without_bucket(before)

    unchanged = await versions(desk)
    async with operate(templates=maps) as alone:
        await until_ready([alone], parents)
    assert await versions(desk) == unchanged
    assert deletions(cluster, desk.namespace) == []


def without_bucket(bodies: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The uid, the labels but that of the bucket, and the data of some objects."""
    return {
        name: (uid(body), {**labels(body), BUCKET_LABEL: ""}, body.get("data"), body["metadata"].get("ownerReferences"))
        for name, body in bodies.items()
    }


@pytest.mark.exhaustive
async def test_a_child_without_bucket_is_pruned_and_deleted_with_its_parent(
    desk: Desk, operate: Operate, maps: Path
) -> None:
    obsolete = maps / ECHOES / "obsolete.yaml.j2"
    obsolete.write_text(map_template("obsolete", n="spec.replicas"))
    async with operate(templates=maps) as alone:
        parents = await create_parents(desk, 4)
        await until_ready([alone], parents)
    obsolete.unlink()
    async with sharded(desk, operate, *all_of(2), templates=maps):
        for name in parents:
            await desk.gone(MAPS, f"{name}-obsolete")
    async with sharded(desk, operate, *all_of(3), templates=maps):
        await desk.kubectl("delete", "echo", "--all")
        for name in parents:
            await desk.gone(ECHOES, name)
            # Its parent can't own it, so the shard itself deletes it.
            assert await desk.find(ROLES, f"{desk.namespace}-{name}") is None


@pytest.mark.exhaustive
async def test_a_child_whose_bucket_another_client_changed_is_neither_missing_nor_recreated(
    desk: Desk, operate: Operate, maps: Path, cluster: Cluster
) -> None:
    async with sharded(desk, operate, *all_of(2), templates=maps) as operators:
        parents = await create_parents(desk, 1)
        await until_ready(operators, parents)
        (name, parent_uid) = next(iter(parents.items()))
        await desk.patch("echo", name, spec={"replicas": 2})
        await desk.until(MAPS, f"{name}-reader", lambda body: body["data"]["absent"] == "false")
        before = await children(desk)
        for running in operators:
            running.forget()
        other = bucket_name((bucket_of(parent_uid) + 128) % 256)
        await desk.patch("configmap", f"{name}-base", metadata={"labels": {BUCKET_LABEL: other}})
        await desk.until(MAPS, f"{name}-base", has_right_bucket)
        await desk.ready(ECHOES, name)
        (owner,) = (running for running in operators if name in parents_of(running))
        await owner.reported(lambda report: report.verdict.ready)
        assert all(report.verdict.ready for running in operators for report in running.reports)
        assert without_bucket(await children(desk)) == without_bucket(before)
    assert deletions(cluster, desk.namespace) == []


def names_by_shard(parents: Mapping[str, str], shards: Iterable[Shard]) -> list[list[str]]:
    return [[name for name, each in parents.items() if shard.owns(each)] for shard in shards]


SHARED = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-shared
rules: []
"""


@pytest.mark.slow
async def test_an_object_belongs_to_one_parent_also_if_the_other_one_is_in_another_shard(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, shared="{% if spec.replicas > 1 %}\n" + SHARED + "{% endif %}\n")
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    async with sharded(desk, operate, *all_of(2), templates=templates) as operators:
        parents = await create_parents(desk, shards=2)
        await until_ready(operators, parents)
        first, second = (names[0] for names in names_by_shard(parents, all_of(2)))
        await desk.patch("echo", first, spec={"replicas": 2})
        role = await desk.read(ROLES, f"{desk.namespace}-shared")
        await desk.ready(ECHOES, first)

        await desk.patch("echo", second, spec={"replicas": 2})
        await desk.until(
            ECHOES, second, not_ready_because("InvalidManifest", f"belongs to Echo {desk.namespace}/{first}")
        )
        assert labels(await desk.read(ROLES, f"{desk.namespace}-shared")) == labels(role)

        # No event of the other shard's parent comes here: the operator tries again.
        await desk.delete("echo", first)
        await desk.ready(ECHOES, second)
        found = await desk.read(ROLES, f"{desk.namespace}-shared")
        assert labels(found)["ssa-operator.dev/parent-uid"] == parents[second]


KEPT = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: kept
  annotations: {ssa-operator.dev/prune: "false"}
"""


@pytest.mark.exhaustive
async def test_an_object_that_a_deleted_parent_of_another_shard_kept_is_adopted(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, kept="{% if spec.replicas > 1 %}\n" + KEPT + "{% endif %}\n")
    async with sharded(desk, operate, *all_of(2), templates=templates) as operators:
        parents = await create_parents(desk, shards=2)
        await until_ready(operators, parents)
        first, second = (names[0] for names in names_by_shard(parents, all_of(2)))
        await desk.patch("echo", first, spec={"replicas": 2})
        kept = await desk.read(MAPS, "kept")
        await desk.ready(ECHOES, first)
        await desk.delete("echo", first)
        await desk.gone(ECHOES, first)
        await desk.patch("echo", second, spec={"replicas": 2})
        await desk.ready(ECHOES, second)
        adopted = await desk.read(MAPS, "kept")
        assert uid(adopted) == uid(kept)
        assert labels(adopted)["ssa-operator.dev/parent-uid"] == parents[second]
        assert has_right_bucket(adopted)


class Failing(Client):
    """A client whose first lists of the parents of all shards fail."""

    failures = 2

    async def list_scope(
        self,
        scope: Scope,
        limit: int = PAGE,
        keep: Callable[[LiveObject], bool] | None = None,
        reduce: Callable[[LiveObject], LiveObject] | None = None,
        after_page: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[list[LiveObject], str]:
        if scope.metadata_only and scope.resource.name == ECHOES and self.failures:
            self.failures -= 1
            raise Unreachable("list of Echo", "the connection broke", sent=True)
        return await super().list_scope(scope, limit, keep, reduce, after_page)


@pytest.mark.slow
async def test_a_parent_goes_on_when_the_parents_of_other_shards_can_be_listed_again(
    desk: Desk, cluster: Cluster, options: MakeOptions, templates: Path
) -> None:
    only(
        templates,
        base=map_template("base", n="name"),
        kept="{% if spec.replicas > 1 %}\n" + KEPT + "{% endif %}\n",
    )
    parents = await create_parents(desk, shards=2)
    ours, theirs = (names[0] for names in names_by_shard(parents, all_of(2)))
    labels = {"ssa-operator.dev/parent-uid": parents[theirs]}
    await desk.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "labels": labels}})
    made = options(templates=templates, shard=Shard(0, 2), installation=Installation(namespace=desk.namespace))
    async with Failing(await administrator(cluster)) as client, operating(client, made):
        await desk.ready(ECHOES, ours)
        await desk.patch("echo", ours, spec={"replicas": 2})
        # No event and no resync follows the failure: the operator retries.
        await desk.until(
            ECHOES, ours, not_ready_because("InvalidManifest", f"belongs to Echo {desk.namespace}/{theirs}")
        )
        assert not client.failures


@pytest.mark.exhaustive
async def test_lookups_see_the_children_of_all_shards(desk: Desk, operate: Operate, templates: Path) -> None:
    count = "lookup_all('v1', 'ConfigMap', labels={'app': 'base'}) | length"
    base = map_template("base", n="spec.replicas").replace("metadata:\n", "metadata:\n  labels: {app: base}\n")
    only(templates, base=base, count=map_template("count", n=count))
    async with sharded(desk, operate, *all_of(2), templates=templates) as operators:
        parents = await create_parents(desk)
        await until_ready(operators, parents)
        for name in parents:
            await desk.until(MAPS, f"{name}-count", holds(n=str(PARENTS)))


LEASES = "leases.coordination.k8s.io"


def metric(running: Running, line: str) -> bool:
    """Whether an operator exports this line now."""
    running.operator.measure()
    return line in running.operator.metrics.text().decode().splitlines()


def lease(index: int, count: int, seconds: int) -> dict[str, object]:
    """The Lease of a shard that nothing renews."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": f"ssa-operator-shard-{index}",
            "labels": {"ssa-operator.dev/shard": f"{index}-of-{count}"},
        },
        "spec": {"holderIdentity": "ssa-operator-1", "leaseDurationSeconds": seconds},
    }


@pytest.mark.slow
async def test_each_shard_keeps_a_lease_and_sees_those_of_the_others(desk: Desk, operate: Operate) -> None:
    async with sharded(desk, operate, *all_of(2)) as operators:
        for index in range(2):
            kept = await desk.until(LEASES, f"ssa-operator-shard-{index}", lambda body: body["spec"]["holderIdentity"])
            assert labels(kept)["ssa-operator.dev/shard"] == f"{index}-of-2"
        for running in operators:
            await until(lambda each=running: metric(each, 'ssa_operator_shard_up{shard="0"} 1.0'), PATIENCE)  # type: ignore[misc]
            await until(lambda each=running: metric(each, 'ssa_operator_shard_up{shard="1"} 1.0'), PATIENCE)  # type: ignore[misc]
            assert metric(running, 'ssa_operator_shard_buckets{state="uncovered"} 0.0')
            assert metric(running, 'ssa_operator_shard_buckets{state="overlapping"} 0.0')
    for index in range(2):
        await desk.until(LEASES, f"ssa-operator-shard-{index}", lambda body: not body["spec"].get("holderIdentity"))


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_dead_shard_is_seen_in_the_metrics_and_in_the_log_of_the_others(
    desk: Desk, operate: Operate, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.create(lease(1, 2, seconds=8))
    async with sharded(desk, operate, Shard(0, 2)) as [running]:
        await until(lambda: metric(running, 'ssa_operator_shard_up{shard="1"} 1.0'), PATIENCE)
        await until(lambda: metric(running, 'ssa_operator_shard_up{shard="1"} 0.0'), PATIENCE)
        assert metric(running, 'ssa_operator_shard_buckets{state="uncovered"} 128.0')
        await until(lambda: "shard 1/2 (buckets 80-ff) is gone: ssa-operator-1" in caplog.text, PATIENCE)
        await until(lambda: "no shard reconciles the buckets 80-ff" in caplog.text, PATIENCE)


async def test_shards_that_overlap_are_seen_in_the_metrics(desk: Desk, operate: Operate) -> None:
    await desk.create(lease(1, 2, seconds=3600))
    async with sharded(desk, operate, Shard(2, 4)) as [running]:
        await until(lambda: metric(running, 'ssa_operator_shard_buckets{state="overlapping"} 64.0'), PATIENCE)
        assert metric(running, 'ssa_operator_shard_up{shard="1"} 0.0')

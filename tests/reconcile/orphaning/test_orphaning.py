"""Parents that are deleted without their children (`kubectl delete --cascade=orphan`), and made again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Applied, Client
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
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
    map_template,
    not_ready_because,
    only,
    operating,
    uid,
)
from tests.operator.test_burst import held
from tests.reconcile.apply_once.test_once import MADE_ONCE

pytestmark = pytest.mark.cluster

MAPS, CLAIMS, JOBS = "configmaps", "persistentvolumeclaims", "jobs.batch"

CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ name }}-data
  annotations: {ssa-operator.dev/wait: "false"}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
"""

HOOK = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-bye
  annotations: {ssa-operator.dev/on: finalize}
"""

AFTER = map_template("after", x="child('ConfigMap', name ~ '-plain').data.x")

CHILDREN = ((MAPS, "web-plain"), (MAPS, "web-after"), (MAPS, "web-once"), (CLAIMS, "web-data"))


@pytest.fixture
def stateful(templates: Path) -> Path:
    """Templates with children that depend on each other, a claim, one made once, a cluster-scoped one, and a hook."""
    only(
        templates,
        plain=map_template("plain", x="spec.replicas"),
        after=AFTER,
        claim=CLAIM,
        once=MADE_ONCE,
        role=ROLE,
        hook=HOOK,
    )
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    return templates


async def uids(desk: Desk) -> dict[str, str]:
    """The uids of all children by name; fails where one is gone."""
    found = {name: uid(await desk.read(resource, name)) for resource, name in CHILDREN}
    role = f"{desk.namespace}-web"
    return {**found, role: uid(await desk.read(ROLES, role))}


def owners(body: dict[str, Any]) -> list[str]:
    return [owner["uid"] for owner in body["metadata"].get("ownerReferences", [])]


async def assert_taken_back(desk: Desk, before: dict[str, str]) -> None:
    """A parent of the same name takes its children back: none is recreated or pruned."""
    parent = await desk.apply_until_ready(echo("web", 2))
    assert await uids(desk) == before
    for resource, name in CHILDREN[:2]:
        assert owners(await desk.read(resource, name)) == [uid(parent)]
    role = await desk.read(ROLES, f"{desk.namespace}-web")
    assert role["metadata"]["labels"]["ssa-operator.dev/parent-uid"] == uid(parent)
    # As any parent's, they go with it.
    await desk.delete("echo", "web")
    for resource, name in (*CHILDREN[:2], (ROLES, f"{desk.namespace}-web")):
        await desk.gone(resource, name)


async def test_children_are_left_behind_and_taken_back_by_a_parent_of_the_same_name(
    desk: Desk, operate: Operate, stateful: Path
) -> None:
    messages: set[str] = set()

    def note(_: Any, new: Any) -> None:
        for condition in (new.body.get("status") or {}).get("conditions", []) if new else []:
            messages.add(condition["message"])

    async with operate(templates=stateful):
        await desk.apply_until_ready(echo("web", 1))
        (await desk.view(ECHOES)).cache.listen(note)
        before = await uids(desk)
        await desk.kubectl("delete", "echo", "web", "--cascade=orphan")
        await desk.until_event("ChildrenOrphaned", "--cascade=orphan", "no finalize hook runs", about="web")
        assert any("is being deleted without its children (--cascade=orphan)" in message for message in messages)
        assert await uids(desk) == before
        assert await desk.find(MAPS, "web-bye") is None
        await assert_taken_back(desk, before)


@pytest.mark.exhaustive
async def test_children_are_left_behind_also_where_kubernetes_is_done_before_the_operator_looks(
    desk: Desk, operate: Operate, stateful: Path
) -> None:
    async with operate(templates=stateful) as running:
        await desk.apply_until_ready(echo("web", 1))
        before = await uids(desk)
        async with held(running.operator):
            await desk.kubectl("delete", "echo", "web", "--cascade=orphan", "--wait=false")
            await desk.until(ECHOES, "web", lambda body: "orphan" not in body["metadata"]["finalizers"])
        await desk.gone(ECHOES, "web")
        assert await uids(desk) == before
        assert await desk.find(MAPS, "web-bye") is None


NO_OPTIONS = ApplyOptions()


class OrphaningClient(Client):
    """A client that deletes the parent once, without its children, in the midst of a reconcile."""

    desk: Desk
    running: Running
    deleted: bool = False

    async def delete_parent(self) -> None:
        self.deleted = True
        await self.desk.kubectl("delete", "echo", "web", "--cascade=orphan", "--wait=false")

    def parent(self, namespace: str) -> LiveObject | None:
        """The parent, as the operator knows it."""
        return self.running.operator.controllers.folders[ECHOES].find(namespace, "web")


class DeletingClient(OrphaningClient):
    """Deletes the parent when it has applied a ConfigMap of a second version."""

    async def apply(
        self, resource: Resource, namespace: str, name: str, body: bytes, options: ApplyOptions = NO_OPTIONS
    ) -> Applied:
        applied = await super().apply(resource, namespace, name, body, options)
        if not self.deleted and name == "web-plain" and applied.live.body["data"]["x"] == "2":
            await self.delete_parent()
            await until(lambda: self.parent(namespace) is None, PATIENCE)
        return applied


@pytest.mark.exhaustive
async def test_a_child_gets_no_owner_again_from_a_reconcile_that_runs_when_its_parent_is_deleted(
    desk: Desk, cluster: Cluster, options: MakeOptions, templates: Path
) -> None:
    """The garbage collector would delete it."""
    only(templates, plain=map_template("plain", x="spec.replicas"), after=AFTER)
    async with (
        DeletingClient(await administrator(cluster)) as client,
        operating(client, options(templates=templates)) as running,
    ):
        client.desk, client.running = desk, running
        await desk.apply_until_ready(echo("web", 1))
        before = uid(await desk.read(MAPS, "web-after"))
        await desk.apply(echo("web", 2))
        await desk.gone(ECHOES, "web")
        queue = running.operator.queue
        await until(lambda: not len(queue) and not queue.processing(), PATIENCE)
        after = await desk.read(MAPS, "web-after")
        assert (uid(after), owners(after), after["data"]) == (before, [], {"x": "1"})


class LateClient(OrphaningClient):
    """Its apply of a ConfigMap of a second version goes out late: once Kubernetes has orphaned the child."""

    async def apply(
        self, resource: Resource, namespace: str, name: str, body: bytes, options: ApplyOptions = NO_OPTIONS
    ) -> Applied:
        if not self.deleted and name == "web-plain" and b'"x":"2"' in body:
            await self.delete_parent()
            await self.desk.until(MAPS, "web-plain", lambda child: not owners(child))
            await until(lambda: (live := self.parent(namespace)) is None or live.deleting, PATIENCE)
        return await super().apply(resource, namespace, name, body, options)


async def test_an_owner_that_an_apply_gave_back_is_taken_away_before_the_parent_goes(
    desk: Desk, cluster: Cluster, options: MakeOptions, templates: Path
) -> None:
    """The parent has the operator's finalizer. The garbage collector would delete the child."""
    only(templates, plain=map_template("plain", x="spec.replicas"), role=ROLE)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    async with (
        LateClient(await administrator(cluster)) as client,
        operating(client, options(templates=templates)) as running,
    ):
        client.desk, client.running = desk, running
        await desk.apply_until_ready(echo("web", 1))
        before = uid(await desk.read(MAPS, "web-plain"))
        await desk.apply(echo("web", 2))
        await desk.gone(ECHOES, "web")
        child = await desk.read(MAPS, "web-plain")
        assert (uid(child), owners(child), child["data"]) == (before, [], {"x": "2"})
        await desk.delete("clusterrole", f"{desk.namespace}-web")


async def deleted_while_no_operator_runs(desk: Desk, cascade: str) -> None:
    await desk.kubectl("delete", "echo", "web", f"--cascade={cascade}", "--wait=false")
    await desk.until(ECHOES, "web", lambda body: "orphan" not in body["metadata"]["finalizers"])


async def decide(desk: Desk, decision: str) -> None:
    await desk.kubectl("annotate", "Echo.example.com", "web", f"ssa-operator.dev/deletion={decision}")


UNDECIDED = not_ready_because("Deleting", "waits for a decision, and nothing is deleted until then", "deletion=Orphan")


async def test_children_are_left_behind_also_where_no_operator_runs_meanwhile(
    desk: Desk, operate: Operate, stateful: Path
) -> None:
    async with operate(templates=stateful):
        await desk.apply_until_ready(echo("web", 1))
        before = await uids(desk)
    await deleted_while_no_operator_runs(desk, "orphan")
    async with operate(templates=stateful):
        await desk.until(ECHOES, "web", UNDECIDED)
        assert await uids(desk) == before
        await decide(desk, "Orphan")
        await desk.gone(ECHOES, "web")
        assert await uids(desk) == before
        assert await desk.find(MAPS, "web-bye") is None
        await assert_taken_back(desk, before)


SPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: {{ namespace }}-{{ name }}
"""


@pytest.mark.parametrize("owned", [None, "{{ fail('broken') }}"], ids=["no owned child", "one whose template fails"])
async def test_nothing_is_deleted_where_it_is_unknown_whether_the_children_stay(
    desk: Desk, operate: Operate, templates: Path, owned: str | None
) -> None:
    folder = only(templates, space=SPACE, role=ROLE) / ECHOES
    (folder / "_settings.yaml").write_text("clusterScope: true\n")
    plain = folder / "plain.yaml.j2"
    if owned:
        plain.write_text(map_template("plain", x="1"))
    name = f"{desk.namespace}-web"
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web", 1))
        before = uid(await desk.read("namespaces", name))
    await deleted_while_no_operator_runs(desk, "orphan")
    if owned:
        plain.write_text(owned)
    async with operate(templates=templates):
        await desk.until(ECHOES, "web", UNDECIDED)
        found = await desk.read("namespaces", name)
        assert (uid(found), found["metadata"].get("deletionTimestamp")) == (before, None)
        assert await desk.find(ROLES, name) is not None
        # A restart decides nothing either, and then the user does.
    async with operate(templates=templates):
        await desk.until(ECHOES, "web", UNDECIDED)
        await decide(desk, "Delete")
        await desk.gone(ROLES, name)
        await desk.gone("namespaces", name)
        await desk.gone(ECHOES, "web")


async def test_a_deletion_while_no_operator_runs_takes_the_children_along_as_long_as_one_shows_its_owner(
    desk: Desk, operate: Operate, stateful: Path
) -> None:
    async with operate(templates=stateful):
        await desk.apply_until_ready(echo("web", 1))
    await deleted_while_no_operator_runs(desk, "background")
    async with operate(templates=stateful):
        await desk.gone(ECHOES, "web")
        await desk.gone(ROLES, f"{desk.namespace}-web")
        await desk.gone(MAPS, "web-plain")


async def test_owner_references_that_a_process_with_an_old_view_gave_back_are_no_proof(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder = only(templates, role=ROLE, plain=map_template("plain", x="1")) / ECHOES
    (folder / "_settings.yaml").write_text("clusterScope: true\n")
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web", 1))
    child = await desk.read(MAPS, "web-plain")
    await deleted_while_no_operator_runs(desk, "orphan")
    # Only the child is left, so that nothing but its owner keeps the garbage collector from it.
    await desk.delete("clusterrole", f"{desk.namespace}-web")
    kept = {field: child["metadata"][field] for field in ("name", "labels", "ownerReferences")}
    # Times have no fractions: an apply in the second of the deletion counts as older.
    second = int(time.time())
    await until(lambda: time.time() >= second + 1, PATIENCE)
    resource, body = await desk.mapper.resource_by_name(MAPS), encode({**child, "metadata": kept})
    await desk.client.apply(resource, desk.namespace, "web-plain", body)
    async with operate(templates=templates):
        await desk.until(ECHOES, "web", UNDECIDED)
        await decide(desk, "Orphan")
        await desk.gone(ECHOES, "web")
    left = await desk.read(MAPS, "web-plain")
    assert (uid(left), owners(left)) == (uid(child), [])


SHARED_ROLE = ROLE.replace("{{ name }}", "common\n  annotations: {ssa-operator.dev/apply: Shared}").replace(
    "rules: []", "rules: [{apiGroups: [''], resources: [pods], verbs: ['{{ spec.replicas }}']}]"
)


async def test_an_owner_that_was_deleted_without_its_children_does_not_keep_a_shared_object(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder = only(templates, role=SHARED_ROLE, plain=map_template("plain", x="1")) / ECHOES
    (folder / "_settings.yaml").write_text("clusterScope: true\n")
    role = f"{desk.namespace}-common"
    async with operate(templates=templates):
        for name in ("web", "other"):
            await desk.apply_until_ready(echo(name, 1))
        await desk.kubectl("delete", "echo", "web", "--cascade=orphan")
        await desk.apply_until_ready(echo("other", 2))
        assert (await desk.read(ROLES, role))["rules"][0]["verbs"] == ["2"]
        await desk.delete("echo", "other")
        await desk.gone(ROLES, role)


async def test_children_that_lost_their_owner_references_do_not_make_a_deletion_leave_them(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder = only(templates, role=ROLE, plain=map_template("plain", x="1")) / ECHOES
    (folder / "_settings.yaml").write_text("clusterScope: true\n")
    role = f"{desk.namespace}-web"
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web", 1))
    await desk.patch("configmap", "web-plain", metadata={"ownerReferences": []})
    await deleted_while_no_operator_runs(desk, "background")
    async with operate(templates=templates):
        await desk.until(ECHOES, "web", UNDECIDED)
        assert await desk.find(ROLES, role) is not None
        await decide(desk, "Delete")
        for resource, child in ((ROLES, role), (MAPS, "web-plain"), (ECHOES, "web")):
            await desk.gone(resource, child)

"""The children of a deleted parent: those that the garbage collector deletes, and those that it can't."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.reconcile.child_memory import ChildMemory
from ssa_operator.reconcile.feedback_loops.change_bucket import CAPACITY, REFILL, ChangeBucket
from tests.operator.harness import (
    ECHOES,
    ROLE,
    ROLES,
    Desk,
    Operate,
    Running,
    config_map,
    definition,
    echo,
    entries,
    holds,
    map_template,
    not_ready_because,
    only,
    other_than,
    requests_for,
    version,
)

pytestmark = pytest.mark.cluster

CLEANUP = "ssa-operator.dev/cleanup"
INVENTORY = "ssa-operator.dev/inventory"
HOOK = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ name }}-bye
  annotations:
    ssa-operator.dev/on: finalize
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: bye
          image: busybox
"""
CLUSTER_SCOPE = "clusterScope: true\n"


@pytest.fixture
def wide(templates: Path) -> Path:
    """The Echo templates with a cluster-scoped child."""
    folder = templates / ECHOES
    (folder / "_settings.yaml").write_text(CLUSTER_SCOPE)
    (folder / "role.yaml.j2").write_text(ROLE)
    return templates


@pytest.fixture
async def elsewhere(desk: Desk) -> AsyncIterator[str]:
    """A second namespace."""
    name = f"other-{uuid.uuid4().hex[:8]}"
    await desk.kubectl("create", "namespace", name)
    yield name
    await desk.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def inventory(parent: dict[str, Any]) -> list[str]:
    recorded = json.loads(parent["metadata"].get("annotations", {}).get(INVENTORY, "[]"))
    return [f"{each['kind']} {each.get('namespace', '')}/{each['name']}" for each in recorded]


def finalizers(parent: dict[str, Any]) -> list[str]:
    found: list[str] = parent["metadata"].get("finalizers", [])
    return found


def is_going(body: dict[str, Any]) -> bool:
    return "deletionTimestamp" in body["metadata"]


async def test_a_cluster_scoped_child_is_recorded_before_its_creation_and_deleted_with_its_parent(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    role = f"{desk.namespace}-web"
    recorded: list[int] = []
    (await desk.view(ECHOES)).cache.listen(
        lambda _, new: recorded.append(version(new.body)) if new and inventory(new.body) else None
    )
    async with operate(templates=wide):
        parent = await desk.apply_until_ready(echo("web"))
        assert inventory(parent) == [f"ClusterRole /{role}"]
        assert CLEANUP in finalizers(parent)
        made = await desk.read(ROLES, role)
        assert recorded[0] < version(made)
        assert "ownerReferences" not in made["metadata"]
        assert entries(parent)[f"ClusterRole/{role}"]["state"] == "Current"
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ROLES, role)
        await desk.gone(ECHOES, "web")


COPY = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  annotations: {{ annotations }}
data:
  own: "{{ metadata.annotations | length }}"
"""


@pytest.mark.exhaustive
async def test_a_child_may_have_the_annotations_of_a_parent_that_the_operator_annotates(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    (wide / ECHOES / "copy.yaml.j2").write_text(COPY)
    parent = echo("web")
    parent["metadata"]["annotations"] = {"a.b/c": "d", "ssa-operator.dev/reconcile-at": "now"}
    async with operate(templates=wide):
        await desk.kubectl_apply(parent)
        parent = await desk.ready(ECHOES, "web")
        assert inventory(parent)
        assert "kubectl.kubernetes.io/last-applied-configuration" in parent["metadata"]["annotations"]
        # All five are in what the template sees as metadata.annotations.
        copy = await desk.until("configmaps", "web", holds(own="5"))
        assert copy["metadata"]["annotations"] == {"a.b/c": "d"}
        await desk.patch("echo", "web", metadata={"annotations": {"a.b/c": "e"}})
        copy = await desk.until("configmaps", "web", lambda body: body["metadata"]["annotations"]["a.b/c"] == "e")
        assert copy["metadata"]["annotations"] == {"a.b/c": "e"}
        await desk.ready(ECHOES, "web")


async def test_a_parent_with_nothing_to_clean_up_has_no_finalizer_and_no_record(desk: Desk, operate: Operate) -> None:
    async with operate():
        parent = await desk.apply_until_ready(echo("web"))
    assert finalizers(parent) == []
    assert inventory(parent) == []


async def test_the_status_of_a_parent_in_deletion_lists_no_object_that_only_has_the_label_of_its_children(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    """As an EndpointSlice, which has its Service's labels, or the Secret that keeps generated values."""
    only(templates, map=map_template("map", word="name"))
    async with operate():
        await desk.apply(echo("web") | {"metadata": {"name": "web", "finalizers": ["example.com/hold"]}})
        parent = await desk.ready(ECHOES, "web")
        labels = {"ssa-operator.dev/parent-uid": parent["metadata"]["uid"]}
        copy = config_map("copy")
        await desk.apply(copy | {"metadata": {"name": "copy", "labels": labels}})
        await desk.delete("echo", "web", wait=False)
        parent = await desk.until(ECHOES, "web", not_ready_because("Deleting"))
        assert "ConfigMap/copy" not in entries(parent)
        assert "ConfigMap/web-map" in entries(parent)
        await desk.patch("echo", "web", metadata={"finalizers": None})
        await desk.gone(ECHOES, "web")


@pytest.mark.exhaustive
async def test_the_finalizer_is_removed_with_the_last_child_that_needs_it(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    async with operate(templates=wide) as running:
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", lambda body: CLEANUP in finalizers(body))
        running.remove(f"{ECHOES}/role.yaml.j2")
        await desk.gone(ROLES, f"{desk.namespace}-web")
        parent = await desk.until(ECHOES, "web", lambda body: not finalizers(body))
        assert inventory(parent) == []


@pytest.mark.exhaustive
async def test_a_child_in_a_namespace_that_the_operator_is_not_limited_to_is_deleted_with_its_parent(
    desk: Desk, operate: Operate, wide: Path, elsewhere: str
) -> None:
    far = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ name }}}}\n  namespace: {elsewhere}\n"
    (wide / ECHOES / "far.yaml.j2").write_text(far + "data:\n  n: '{{ spec.replicas }}'\n")
    async with operate(templates=wide), desk.elsewhere(elsewhere) as other:
        await desk.apply_until_ready(echo("web"))
        assert holds(n="1")(await other.read("configmaps", "web"))
        # Drift there is seen as well as anywhere.
        await other.patch("configmap", "web", data={"n": "7"})
        await other.until("configmaps", "web", holds(n="1"))
        await desk.delete("echo", "web", wait=False)
        await other.gone("configmaps", "web")
        await desk.gone(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_child_that_is_never_pruned_stays_when_its_parent_is_deleted(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    keep = '  annotations:\n    ssa-operator.dev/prune: "false"\nrules:'
    (wide / ECHOES / "role.yaml.j2").write_text(ROLE.replace("rules:", keep))
    role = f"{desk.namespace}-web"
    async with operate(templates=wide):
        parent = await desk.apply_until_ready(echo("web"))
        assert finalizers(parent) == []
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ECHOES, "web")
    assert not is_going(await desk.read(ROLES, role))
    await desk.delete("clusterrole", role)


@pytest.mark.exhaustive
async def test_recorded_children_are_deleted_also_after_a_restart_with_templates_that_fail(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    role = f"{desk.namespace}-web"
    async with operate(templates=wide):
        await desk.apply_until_ready(echo("web"))
    await desk.delete("echo", "web", wait=False)
    for file in (wide / ECHOES).glob("*.yaml.j2"):
        file.write_text("a: {{ spec.nothing.at.all }}\n")
    async with operate(templates=wide):
        await desk.gone(ROLES, role)
        await desk.gone(ECHOES, "web")


BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ namespace }}-{{ name }}
  finalizers: [example.com/held]
  labels:
    role: {{ child('ClusterRole', namespace + '-' + name).metadata.uid }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ namespace }}-{{ name }}
"""


async def test_children_are_deleted_in_the_reverse_order_of_their_creation(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    (wide / ECHOES / "binding.yaml.j2").write_text(BINDING)
    role = f"{desk.namespace}-web"
    async with operate(templates=wide):
        await desk.apply_until_ready(echo("web"))
        await desk.delete("echo", "web", wait=False)
        await desk.until(ECHOES, "web", not_ready_because("Deleting", f"ClusterRoleBinding {role} is being deleted"))
        assert not is_going(await desk.read(ROLES, role))
        await desk.release("clusterrolebinding", role)
        await desk.gone(ROLES, role)
        await desk.gone(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_kind_that_the_cluster_no_longer_serves_keeps_no_parent_in_deletion(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    crd = definition("gadgets", group, "Gadget", scope="Cluster")
    await desk.define(crd)
    gadget = f"apiVersion: {group}/v1\nkind: Gadget\nmetadata:\n  name: {{{{ name }}}}\n"
    (wide / ECHOES / "gadget.yaml.j2").write_text(gadget)
    async with operate(templates=wide) as running:
        await desk.apply_until_ready(echo("web"))
        running.remove(f"{ECHOES}/gadget.yaml.j2")
        await desk.gone(f"gadgets.{group}", "web")
        running.write(f"{ECHOES}/gadget.yaml.j2", gadget)
        await desk.read(f"gadgets.{group}", "web")
        await desk.delete("crd", f"gadgets.{group}")
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ECHOES, "web")


@pytest.mark.slow
async def test_a_hook_runs_before_the_other_children_are_deleted_and_the_parent_waits_for_it(
    desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    (templates / ECHOES / "bye.yaml.j2").write_text(HOOK)
    async with operate(templates=templates):
        parent = await desk.apply_until_ready(echo("web"))
        assert finalizers(parent) == [CLEANUP]
        assert list(entries(parent)) == ["Deployment/web"]
        jobs, deployments = await desk.view("jobs.batch"), await desk.view("deployments.apps")
        seen: list[bool] = []
        jobs.cache.listen(lambda _old, _new: seen.append(deployments.find("web") is not None))
        await desk.delete("echo", "web", wait=False)
        await desk.until("jobs.batch", "web-bye", lambda body: body["status"].get("succeeded") == 1)
        assert seen
        assert all(seen)
        await desk.gone(ECHOES, "web")
        await desk.gone("deployments.apps", "web")
    assert requests_for(cluster, desk.namespace, "web-bye") == ["patch"]


async def test_children_that_depend_on_others_are_deleted_before_them(desk: Desk, operate: Operate, wide: Path) -> None:
    held = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n  finalizers: [example.com/held]\n"
        "  annotations: {ssa-operator.dev/after: 'Deployment/{{ name }}'}\n"
    )
    (wide / ECHOES / "reader.yaml.j2").write_text(held)
    async with operate(templates=wide):
        await desk.apply_until_ready(echo("web"))
        await desk.delete("echo", "web", wait=False)
        waits = not_ready_because("Deleting", "ConfigMap", "is being deleted", "is deleted after ConfigMap")
        await desk.until(ECHOES, "web", waits)
        assert not is_going(await desk.read("deployments.apps", "web"))
        await desk.release("configmap", "web")
        await desk.gone("deployments.apps", "web")
        await desk.gone(ECHOES, "web")


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_hook_that_fails_is_retried_until_its_template_is_repaired(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    failing = HOOK.replace("spec:\n  template:", "spec:\n  activeDeadlineSeconds: 1\n  template:").replace(
        "      restartPolicy", "      nodeSelector: {no: where}\n      restartPolicy"
    )
    (templates / ECHOES / "bye.yaml.j2").write_text(failing)
    async with operate(templates=templates) as running:
        await desk.apply_until_ready(echo("web"))
        await desk.delete("echo", "web", wait=False)
        first = await desk.until("jobs.batch", "web-bye", lambda body: bool(body["status"].get("conditions")))
        await desk.until(ECHOES, "web", not_ready_because("Deleting", "Job", "web-bye"))
        await desk.until("jobs.batch", "web-bye", other_than(first))
        running.write(f"{ECHOES}/bye.yaml.j2", HOOK)
        await desk.gone(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_hook_survives_a_foreground_deletion_of_its_parent(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    (templates / ECHOES / "bye.yaml.j2").write_text(HOOK)
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web"))
        done = asyncio.Event()
        jobs = await desk.view("jobs.batch")
        jobs.cache.listen(lambda _old, new: done.set() if new and new.body["status"].get("succeeded") else None)
        await desk.kubectl("delete", "echo", "web", "--wait=false", "--cascade=foreground")
        await desk.gone(ECHOES, "web")
        assert done.is_set()
        await desk.gone("jobs.batch", "web-bye")


async def test_a_hook_that_can_no_longer_be_rendered_keeps_no_parent_in_deletion(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    (wide / ECHOES / "bye.yaml.j2").write_text(HOOK)
    async with operate(templates=wide) as running:
        await desk.apply_until_ready(echo("web"))
        running.write(f"{ECHOES}/bye.yaml.j2", HOOK + "{{ spec.gone.missing }}")
        await desk.until(ECHOES, "web", not_ready_because("RenderFailed", "bye.yaml.j2"))
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ROLES, f"{desk.namespace}-web")
        await desk.gone(ECHOES, "web")


SERVICE = "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ name }}\nspec:\n  ports: [{port: 80}]\n"
READER = HOOK.replace(
    "          image: busybox\n",
    "          image: busybox\n          args: [\"{{ child('Service', name).spec.clusterIP }}\"]\n",
)


@pytest.mark.exhaustive
async def test_an_object_that_a_completed_hook_read_may_be_deleted_before_the_parent(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    folder = wide / ECHOES
    (folder / "service.yaml.j2").write_text(SERVICE)
    (folder / "bye.yaml.j2").write_text(READER)
    uses = "  labels: {ip: \"x{{ child('Service', name).spec.clusterIP }}\"}\nrules: []"
    (folder / "role.yaml.j2").write_text(ROLE.replace("rules: []", uses))
    async with operate(templates=wide):
        await desk.apply_until_ready(echo("web"))
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ECHOES, "web")
        await desk.gone(ROLES, f"{desk.namespace}-web")


async def test_a_hook_that_reads_a_child_that_never_existed_keeps_no_parent_in_deletion(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder = templates / ECHOES
    waits = "  annotations: {x: \"{{ lookup('v1', 'ConfigMap', 'missing').data.x }}\"}\nspec:"
    (folder / "service.yaml.j2").write_text(SERVICE.replace("spec:", waits))
    (folder / "bye.yaml.j2").write_text(READER)
    async with operate(templates=templates):
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", lambda body: CLEANUP in finalizers(body))
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "missing"))
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ECHOES, "web")


@pytest.mark.slow
async def test_a_namespace_with_a_parent_that_has_a_hook_can_be_deleted(
    desk: Desk, operate: Operate, templates: Path, elsewhere: str
) -> None:
    (templates / ECHOES / "bye.yaml.j2").write_text(HOOK)
    async with operate(templates=templates, namespaces=(elsewhere,)), desk.elsewhere(elsewhere) as other:
        await other.apply(echo("web"))
        await other.until(ECHOES, "web", lambda body: CLEANUP in finalizers(body))
        await desk.delete("namespace", elsewhere, wait=False)
        await other.gone(ECHOES, "web")
        await desk.gone("namespaces", elsewhere)


@contextlib.asynccontextmanager
async def silent(running: Running, kind: GroupKind) -> AsyncIterator[None]:
    """The operator's informer of a kind receives nothing meanwhile, like one with a dead connection."""
    informers = running.operator.controllers.children.informers
    (informer,) = (each for scope, each in informers.items() if scope.kind == kind)
    await informer.stop()
    try:
        yield
    finally:
        informer.task = asyncio.create_task(informer.reflector.run())


@pytest.mark.exhaustive
async def test_a_deleted_child_that_the_cache_still_holds_is_reported_and_retried_until_the_watch_catches_up(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    role = f"{desk.namespace}-web"
    async with operate(templates=wide) as running:
        await desk.apply_until_ready(echo("web"))
        async with silent(running, GroupKind("rbac.authorization.k8s.io", "ClusterRole")):
            await desk.delete("clusterrole", role)
            await desk.kubectl("create", "clusterrole", role, "--verb=get", "--resource=pods")
            await desk.delete("echo", "web", wait=False)
            await desk.until(ECHOES, "web", not_ready_because("Deleting", role, "another object has its name"))
            running.forget()
            await running.reconciled(1)
            assert running.reports[0].retryable
            assert running.reports[0].again_at is None
        await desk.gone(ECHOES, "web")
        assert not is_going(await desk.read(ROLES, role))
    await desk.delete("clusterrole", role)


async def test_a_feedback_loop_ends_when_its_parent_is_deleted(desk: Desk, operate: Operate, wide: Path) -> None:
    role = f"{desk.namespace}-web"
    async with operate(templates=wide) as running:
        await desk.apply_until_ready(echo("web"))
        await desk.hold("clusterrole", role)
        parents = running.operator.folders[ECHOES]
        live = parents.find(desk.namespace, "web")
        assert live is not None
        restless = Identity("", "ConfigMap", desk.namespace, "restless")
        long_ago = ChangeBucket(left=0.0, changed_at=-CAPACITY * REFILL)
        state = parents.state(live)
        memories = state.children.with_children({restless: ChildMemory(changes=long_ago)})
        parents.save_state(live, replace(state, children=memories))
        await desk.delete("echo", "web", wait=False)
        await desk.until(ECHOES, "web", not_ready_because("Deleting", f"ClusterRole {role} is being deleted"))
        await running.reported(lambda report: report.verdict.reason == "Deleting" and report.again_at is None)
        await desk.release("clusterrole", role)
        await desk.gone(ECHOES, "web")


async def co_own(desk: Desk, *flags: str) -> None:
    """Write the Echo `web` back as it is, records and finalizer included, as a user does who restores a backup."""
    body = await desk.read(ECHOES, "web")
    kept = {key: body["metadata"][key] for key in ("name", "annotations", "finalizers")}
    saved = json.dumps({**{key: body[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept})
    await desk.kubectl("apply", *flags, "-f", "-", stdin=saved)


async def restored(desk: Desk, name: str = "web", **annotations: str) -> None:
    """An Echo that is created with the operator's finalizer, as from a backup: kubectl owns that by an Update."""
    body = echo(name)
    body["metadata"] |= {"finalizers": [CLEANUP], "annotations": annotations}
    await desk.create(body)


BACKUP = ("--server-side", "--field-manager=backup", "--force-conflicts")


def owners(parent: dict[str, Any], field: str) -> set[str]:
    """The field managers that own a field of a parent's metadata."""
    entries = parent["metadata"]["managedFields"]
    return {each["manager"] for each in entries if f'"f:{field}"' in json.dumps(each["fieldsV1"])}


@pytest.mark.exhaustive
async def test_a_parent_is_deleted_also_if_another_manager_applies_the_finalizer_and_records(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    async with operate(templates=wide):
        await desk.apply_until_ready(echo("web"))
        await co_own(desk, *BACKUP)
        parent = await desk.ready(ECHOES, "web")
        assert {"backup", "ssa-operator-parent"} <= owners(parent, "finalizers")
        assert {"backup", "ssa-operator-parent"} <= owners(parent, INVENTORY)
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ROLES, f"{desk.namespace}-web")
        await desk.gone(ECHOES, "web")


async def test_a_parent_is_deleted_also_if_kubectl_created_it_with_the_finalizer(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    await restored(desk)
    async with operate(templates=wide):
        parent = await desk.ready(ECHOES, "web")
        assert owners(parent, "finalizers") == {"kubectl-create"}
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ROLES, f"{desk.namespace}-web")
        await desk.gone(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_restored_parent_that_needs_neither_finalizer_nor_records_loses_both(
    desk: Desk, operate: Operate
) -> None:
    gone = json.dumps([{"group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{desk.namespace}-web"}])
    await restored(desk, **{INVENTORY: gone, "ssa-operator.dev/held": '{"reconcileAt":"","children":["ConfigMap/a"]}'})
    async with operate():
        parent = await desk.until(ECHOES, "web", lambda body: not finalizers(body))
        assert inventory(parent) == []
        assert "ssa-operator.dev/held" not in parent["metadata"].get("annotations", {})


@pytest.mark.exhaustive
async def test_the_finalizer_and_records_are_removed_with_the_last_child_also_if_another_manager_applies_them(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    async with operate(templates=wide) as running:
        await desk.apply_until_ready(echo("web"))
        await co_own(desk, *BACKUP)
        running.remove(f"{ECHOES}/role.yaml.j2")
        await desk.gone(ROLES, f"{desk.namespace}-web")
        parent = await desk.until(ECHOES, "web", lambda body: not finalizers(body))
        assert INVENTORY not in parent["metadata"].get("annotations", {})


async def test_the_finalizers_of_other_managers_stay_when_the_operators_is_removed(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    async with operate(templates=wide):
        await desk.apply_until_ready(echo("web"))
        await desk.patch("echo", "web", metadata={"finalizers": ["a.b/first", CLEANUP, "a.b/last"]})
        await desk.delete("echo", "web", wait=False)
        parent = await desk.until(ECHOES, "web", lambda body: CLEANUP not in finalizers(body))
        assert finalizers(parent) == ["a.b/first", "a.b/last"]
        await desk.release("echo", "web")
        await desk.gone(ECHOES, "web")


async def test_the_finalizer_is_restored_after_a_user_removed_it(desk: Desk, operate: Operate, wide: Path) -> None:
    async with operate(templates=wide):
        parent = await desk.apply_until_ready(echo("web"))
        assert CLEANUP in finalizers(parent)
        await desk.release("echo", "web")
        await desk.until(ECHOES, "web", lambda body: CLEANUP in finalizers(body))

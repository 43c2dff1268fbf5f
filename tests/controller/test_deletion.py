"""What becomes of a parent's children when it goes: those that Kubernetes collects, and those that it can't."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, definition, echo, not_ready_because, operating, requests_for

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

ECHOES = "echoes.example.com"
CLEANUP = "ssa-operator.dev/cleanup"
INVENTORY = "ssa-operator.dev/inventory"
ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-{{ name }}
rules: []
"""
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
    await desk.kubectl("delete", "namespace", name, "--wait=false")


def inventory(parent: dict[str, Any]) -> list[str]:
    entries = json.loads(parent["metadata"].get("annotations", {}).get(INVENTORY, "[]"))
    return [f"{entry['kind']} {entry.get('namespace', '')}/{entry['name']}" for entry in entries]


def finalizers(parent: dict[str, Any]) -> list[str]:
    found: list[str] = parent["metadata"].get("finalizers", [])
    return found


async def test_a_cluster_scoped_child_is_recorded_before_it_is_made_and_goes_with_its_parent(
    client: Client, desk: Desk, options: MakeOptions, wide: Path
) -> None:
    role = f"{desk.namespace}-web"
    async with operating(client, options(templates=wide)):
        await desk.apply(echo("web"))
        parent = await desk.ready(ECHOES, "web")
        assert inventory(parent) == [f"ClusterRole /{role}"]
        assert CLEANUP in finalizers(parent)
        made = await desk.until("clusterroles.rbac.authorization.k8s.io", role, lambda _: True)
        assert "ownerReferences" not in made["metadata"]
        states = {entry["kind"]: entry["state"] for entry in parent["status"]["resources"]}
        assert states["ClusterRole"] == "Current"
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.gone("clusterroles.rbac.authorization.k8s.io", role)
        await desk.gone(ECHOES, "web")


async def test_a_parent_with_nothing_to_clean_up_has_no_finalizer_and_no_record(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web"))
        parent = await desk.ready(ECHOES, "web")
    assert finalizers(parent) == []
    assert inventory(parent) == []


async def test_the_finalizer_goes_with_the_last_child_that_needs_it(
    client: Client, desk: Desk, options: MakeOptions, wide: Path
) -> None:
    async with operating(client, options(templates=wide)) as running:
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", lambda body: CLEANUP in finalizers(body))
        running.remove(f"{ECHOES}/role.yaml.j2")
        await desk.gone("clusterroles.rbac.authorization.k8s.io", f"{desk.namespace}-web")
        parent = await desk.until(ECHOES, "web", lambda body: not finalizers(body))
        assert inventory(parent) == []


async def test_a_child_in_another_namespace_that_the_operator_does_not_look_after_goes_with_its_parent(
    client: Client, desk: Desk, options: MakeOptions, wide: Path, elsewhere: str
) -> None:
    far = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ name }}}}\n  namespace: {elsewhere}\n"
    (wide / ECHOES / "far.yaml.j2").write_text(far + "data:\n  n: '{{ spec.replicas }}'\n")
    other = Desk(desk.client, desk.kubeconfig, elsewhere)
    try:
        async with operating(client, options(templates=wide)):
            await desk.apply(echo("web"))
            await other.until("configmaps", "web", lambda body: body["data"] == {"n": "1"})
            await desk.ready(ECHOES, "web")
            # Drift there is seen as well as anywhere.
            await other.kubectl("patch", "configmap", "web", "-p", '{"data": {"n": "7"}}')
            await other.until("configmaps", "web", lambda body: body["data"] == {"n": "1"})
            await desk.kubectl("delete", "echo", "web", "--wait=false")
            await other.gone("configmaps", "web")
            await desk.gone(ECHOES, "web")
    finally:
        await other.close()


async def test_a_child_that_is_to_stay_stays_when_its_parent_goes(
    client: Client, desk: Desk, options: MakeOptions, wide: Path
) -> None:
    keep = '  annotations:\n    ssa-operator.dev/prune: "false"\nrules:'
    (wide / ECHOES / "role.yaml.j2").write_text(ROLE.replace("rules:", keep))
    role = f"{desk.namespace}-web"
    async with operating(client, options(templates=wide)):
        await desk.apply(echo("web"))
        parent = await desk.ready(ECHOES, "web")
        assert finalizers(parent) == []
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.gone(ECHOES, "web")
    await desk.kubectl("delete", "clusterrole", role)


async def test_what_was_recorded_goes_also_when_the_operator_was_down_and_its_templates_fail_now(
    client: Client, desk: Desk, options: MakeOptions, wide: Path
) -> None:
    role = f"{desk.namespace}-web"
    async with operating(client, options(templates=wide)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
    await desk.kubectl("delete", "echo", "web", "--wait=false")
    for file in (wide / ECHOES).glob("*.yaml.j2"):
        file.write_text("a: {{ spec.nothing.at.all }}\n")
    async with operating(client, options(templates=wide)):
        await desk.gone("clusterroles.rbac.authorization.k8s.io", role)
        await desk.gone(ECHOES, "web")


async def test_what_is_made_later_goes_first(client: Client, desk: Desk, options: MakeOptions, wide: Path) -> None:
    binding = """\
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
    (wide / ECHOES / "binding.yaml.j2").write_text(binding)
    role = f"{desk.namespace}-web"
    async with operating(client, options(templates=wide)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.until(ECHOES, "web", not_ready_because("Deleting", f"ClusterRoleBinding {role} is being deleted"))
        view = await desk.view("clusterroles.rbac.authorization.k8s.io")
        standing = view.find(role)
        assert standing is not None
        assert not standing.deleting
        await desk.kubectl(
            "patch", "clusterrolebinding", role, "--type=merge", "-p", '{"metadata": {"finalizers": null}}'
        )
        await desk.gone("clusterroles.rbac.authorization.k8s.io", role)
        await desk.gone(ECHOES, "web")


async def test_a_kind_that_the_cluster_has_no_more_keeps_no_parent(
    client: Client, desk: Desk, options: MakeOptions, wide: Path
) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    crd = definition("gadgets", group, "Gadget", scope="Cluster")
    await desk.apply(crd)
    await desk.kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}")
    gadget = f"apiVersion: {group}/v1\nkind: Gadget\nmetadata:\n  name: {{{{ name }}}}\n"
    (wide / ECHOES / "gadget.yaml.j2").write_text(gadget)
    async with operating(client, options(templates=wide)) as running:
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        running.remove(f"{ECHOES}/gadget.yaml.j2")
        await desk.gone(f"gadgets.{group}", "web")
        running.write(f"{ECHOES}/gadget.yaml.j2", gadget)
        await desk.until(f"gadgets.{group}", "web", lambda _: True)
        await desk.kubectl("delete", "crd", f"gadgets.{group}")
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.gone(ECHOES, "web")


async def test_a_hook_runs_while_the_other_children_stand_and_the_parent_waits_for_it(
    client: Client, desk: Desk, options: MakeOptions, templates: Path, cluster: Cluster
) -> None:
    (templates / ECHOES / "bye.yaml.j2").write_text(HOOK)
    async with operating(client, options(templates=templates)):
        await desk.apply(echo("web"))
        parent = await desk.ready(ECHOES, "web")
        assert finalizers(parent) == [CLEANUP]
        assert {entry["kind"] for entry in parent["status"]["resources"]} == {"Deployment"}
        jobs, deployments = await desk.view("jobs.batch"), await desk.view("deployments.apps")
        seen: list[bool] = []
        jobs.cache.listen(lambda _old, _new: seen.append(deployments.find("web") is not None))
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.until("jobs.batch", "web-bye", lambda body: body["status"].get("succeeded") == 1)
        assert seen
        assert all(seen)
        await desk.gone(ECHOES, "web")
        await desk.gone("deployments.apps", "web")
    assert requests_for(cluster, desk.namespace, "web-bye") == ["patch"]


async def test_children_that_depend_on_others_go_before_them(
    client: Client, desk: Desk, options: MakeOptions, wide: Path
) -> None:
    held = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n  finalizers: [example.com/held]\n"
        "  annotations: {ssa-operator.dev/after: 'Deployment/{{ name }}'}\n"
    )
    (wide / ECHOES / "reader.yaml.j2").write_text(held)
    async with operating(client, options(templates=wide)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        waits = not_ready_because("Deleting", "ConfigMap", "is being deleted", "goes after ConfigMap")
        await desk.until(ECHOES, "web", waits)
        deployments = await desk.view("deployments.apps")
        standing = deployments.find("web")
        assert standing is not None
        assert not standing.deleting
        await desk.kubectl("patch", "configmap", "web", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        await desk.gone("deployments.apps", "web")
        await desk.gone(ECHOES, "web")


async def test_a_hook_that_fails_is_run_again_and_again_until_its_template_is_repaired(
    client: Client, desk: Desk, options: MakeOptions, templates: Path
) -> None:
    failing = HOOK.replace("spec:\n  template:", "spec:\n  activeDeadlineSeconds: 1\n  template:").replace(
        "      restartPolicy", "      nodeSelector: {no: where}\n      restartPolicy"
    )
    (templates / ECHOES / "bye.yaml.j2").write_text(failing)
    async with operating(client, options(templates=templates)) as running:
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        first = await desk.until("jobs.batch", "web-bye", lambda body: bool(body["status"].get("conditions")))
        await desk.until(ECHOES, "web", not_ready_because("Deleting", "Job", "web-bye"))
        await desk.until("jobs.batch", "web-bye", lambda body: body["metadata"]["uid"] != first["metadata"]["uid"])
        running.write(f"{ECHOES}/bye.yaml.j2", HOOK)
        await desk.gone(ECHOES, "web")


async def test_a_hook_survives_that_the_parents_dependants_are_collected_first(
    client: Client, desk: Desk, options: MakeOptions, templates: Path
) -> None:
    (templates / ECHOES / "bye.yaml.j2").write_text(HOOK)
    async with operating(client, options(templates=templates)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        done = asyncio.Event()
        jobs = await desk.view("jobs.batch")
        jobs.cache.listen(lambda _old, new: done.set() if new and new.body["status"].get("succeeded") else None)
        await desk.kubectl("delete", "echo", "web", "--wait=false", "--cascade=foreground")
        await desk.gone(ECHOES, "web")
        assert done.is_set()
        await desk.gone("jobs.batch", "web-bye")


async def test_a_hook_that_can_no_longer_be_rendered_keeps_no_parent(
    client: Client, desk: Desk, options: MakeOptions, wide: Path
) -> None:
    (wide / ECHOES / "bye.yaml.j2").write_text(HOOK)
    async with operating(client, options(templates=wide)) as running:
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        running.write(f"{ECHOES}/bye.yaml.j2", HOOK + "{{ spec.gone.missing }}")
        await desk.until(ECHOES, "web", not_ready_because("RenderFailed", "bye.yaml.j2"))
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.gone("clusterroles.rbac.authorization.k8s.io", f"{desk.namespace}-web")
        await desk.gone(ECHOES, "web")


SERVICE = "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ name }}\nspec:\n  ports: [{port: 80}]\n"
READER = HOOK.replace(
    "          image: busybox\n",
    "          image: busybox\n          args: [\"{{ child('Service', name).spec.clusterIP }}\"]\n",
)


async def test_what_a_done_hook_read_may_go_before_the_parent(
    client: Client, desk: Desk, options: MakeOptions, wide: Path
) -> None:
    folder = wide / ECHOES
    (folder / "service.yaml.j2").write_text(SERVICE)
    (folder / "bye.yaml.j2").write_text(READER)
    uses = "  labels: {ip: \"x{{ child('Service', name).spec.clusterIP }}\"}\nrules: []"
    (folder / "role.yaml.j2").write_text(ROLE.replace("rules: []", uses))
    async with operating(client, options(templates=wide)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.gone(ECHOES, "web")
        await desk.gone("clusterroles.rbac.authorization.k8s.io", f"{desk.namespace}-web")


async def test_a_hook_that_reads_what_was_never_made_keeps_no_parent(
    client: Client, desk: Desk, options: MakeOptions, templates: Path
) -> None:
    folder = templates / ECHOES
    waits = "  annotations: {x: \"{{ lookup('v1', 'ConfigMap', 'missing').data.x }}\"}\nspec:"
    (folder / "service.yaml.j2").write_text(SERVICE.replace("spec:", waits))
    (folder / "bye.yaml.j2").write_text(READER)
    async with operating(client, options(templates=templates)):
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", lambda body: CLEANUP in finalizers(body))
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "missing"))
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.gone(ECHOES, "web")


async def test_a_namespace_goes_with_a_parent_that_has_a_hook(
    client: Client, desk: Desk, options: MakeOptions, templates: Path, elsewhere: str
) -> None:
    (templates / ECHOES / "bye.yaml.j2").write_text(HOOK)
    other = Desk(desk.client, desk.kubeconfig, elsewhere)
    try:
        async with operating(client, options(templates=templates, namespaces=(elsewhere,))):
            await other.apply(echo("web"))
            await other.until(ECHOES, "web", lambda body: CLEANUP in finalizers(body))
            await desk.kubectl("delete", "namespace", elsewhere, "--wait=false")
            await other.gone(ECHOES, "web")
            await desk.gone("namespaces", elsewhere)
    finally:
        await other.close()
        await desk.kubectl("create", "namespace", elsewhere)


async def test_the_finalizer_is_put_back_where_somebody_took_it_away(
    client: Client, desk: Desk, options: MakeOptions, wide: Path
) -> None:
    async with operating(client, options(templates=wide)):
        await desk.apply(echo("web"))
        parent = await desk.ready(ECHOES, "web")
        assert CLEANUP in finalizers(parent)
        await desk.kubectl("patch", "echo", "web", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        await desk.until(
            ECHOES,
            "web",
            lambda body: (
                CLEANUP in finalizers(body)
                and body["metadata"]["resourceVersion"] != parent["metadata"]["resourceVersion"]
            ),
        )

"""The order of applies, on the real control plane: `after` annotations, dependency cycles, and causes of waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.devcluster.audit import own_requests
from tests.operator.harness import (
    DEPLOYMENT,
    ECHOES,
    Desk,
    Operate,
    Running,
    echo,
    entries,
    holds,
    not_ready_because,
    only,
    ready_condition,
    uid,
    version,
)

pytestmark = pytest.mark.cluster

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ name }}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: work}]
"""

NOWHERE = "      nodeSelector: {nowhere: here}\n"

TEMPLATE = f"{ECHOES}/deployment.yaml.j2"
UNSCHEDULABLE = DEPLOYMENT.replace("      automount", NOWHERE + "      automount")
"""The template of an Echo's Deployment, whose pods fit on no node."""


def annotated_map(name: str, data: str = "", **annotations: str) -> str:
    lines = "".join(f'    ssa-operator.dev/{key}: "{value}"\n' for key, value in annotations.items())
    more = f"  annotations:\n{lines}" if lines else ""
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{more}data:\n  {data or 'a: b'}\n"


def message_of(parent: dict[str, Any], child: str) -> str:
    """The message of a child in the status, by `Kind/name`."""
    return str(entries(parent).get(child, {}).get("message", ""))


def is_current(parent: dict[str, Any], child: str) -> bool:
    return entries(parent).get(child, {}).get("state") == "Current"


def is_stalled(parent: dict[str, Any]) -> bool:
    return any(each["type"] == "Stalled" for each in parent["status"]["conditions"])


async def test_a_manifest_after_a_job_is_applied_when_the_job_is_complete(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/job.yaml.j2", JOB)
        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("{{ name }}", after="Job/{{ name }}, Deployment/{{ name }}"))
        await desk.apply_until_ready(echo("web", 2))
        made = await desk.read("configmaps", "web")
        job = await desk.read("jobs.batch", "web")
        deployment = await desk.read("deployments.apps", "web")
    assert any(each["type"] == "Complete" for each in job["status"]["conditions"])
    assert deployment["status"]["readyReplicas"] == 2
    assert version(job) < version(made)
    assert version(deployment) < version(made)
    assert "annotations" not in made["metadata"]


@pytest.mark.exhaustive
async def test_changes_of_two_dependent_manifests_are_applied_one_after_the_other(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        data = "replicas: '{{ spec.replicas }}'"
        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("{{ name }}", data, after="Deployment/{{ name }}"))
        stuck = "      {% if spec.replicas == 2 %}\n" + NOWHERE + "      {% endif %}\n      automount"
        running.write(TEMPLATE, DEPLOYMENT.replace("      automount", stuck))
        await desk.apply_until_ready(echo("web", 1))
        before = await desk.until("configmaps", "web", holds(replicas="1"))

        await desk.apply(echo("web", 2))
        words = ("ConfigMap", "waiting for Deployment/web to be ready (")
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))
        assert version(await desk.read("configmaps", "web")) == version(before)

        await desk.apply_until_ready(echo("web", 3))
        after = await desk.until("configmaps", "web", holds(replicas="3"))
        deployment = await desk.until("deployments.apps", "web", lambda body: body["status"]["readyReplicas"] == 3)
        assert version(deployment) < version(after)


async def test_an_unchanged_child_stays_current_while_its_dependency_is_unready(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("{{ name }}", after="Deployment/{{ name }}"))
        await desk.apply_until_ready(echo("web", 1))
        running.write(TEMPLATE, UNSCHEDULABLE)
        body = await desk.until(ECHOES, "web", not_ready_because("Progressing", "Deployment "))
        assert {child: entry["state"] for child, entry in entries(body).items()} == {
            "ConfigMap/web": "Current",
            "Deployment/web": "InProgress",
        }


PATH = "ConfigMap/a -> ConfigMap/b -> ConfigMap/a"


def write_cycle(running: Running) -> None:
    """Templates of a and b, which read each other, of c after them, and of an independent one."""
    running.write(f"{ECHOES}/b.yaml.j2", annotated_map("b", "x: '{{ child('ConfigMap', 'a').data.x }}'"))
    running.write(f"{ECHOES}/c.yaml.j2", annotated_map("c", after="ConfigMap/b"))
    running.write(f"{ECHOES}/a.yaml.j2", annotated_map("a", "x: '{{ child('ConfigMap', 'b').metadata.uid }}'"))
    running.write(f"{ECHOES}/free.yaml.j2", annotated_map("free"))


def reports_cycle(parent: dict[str, Any]) -> bool:
    """Whether the parent and the manifest that waits name the cycle, and the independent manifest is applied."""
    waiting = message_of(parent, "ConfigMap/c")
    return (
        not_ready_because("DependencyCycle", PATH)(parent)
        and waiting.startswith("waiting for ConfigMap/b to be ready (ConfigMap ")
        and PATH in waiting
        and is_current(parent, "ConfigMap/free")
    )


@pytest.mark.exhaustive
async def test_a_dependency_cycle_is_named_with_its_path_and_everything_else_is_applied(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        write_cycle(running)
        await desk.apply(echo("web", 2))
        await desk.until(ECHOES, "web", reports_cycle)
        await desk.until("deployments.apps", "web", lambda body: body["spec"]["replicas"] == 2)
        for name in "abc":
            assert await desk.find("configmaps", name) is None

        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("a", "x: y"))
        await desk.ready(ECHOES, "web")
        await desk.read("configmaps", "c")


@pytest.mark.exhaustive
async def test_existing_children_stay_when_templates_form_a_dependency_cycle(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        for name in ("a", "b", "old"):
            running.write(f"{ECHOES}/{name}.yaml.j2", annotated_map(name))
        await desk.apply_until_ready(echo("web", 1))
        running.remove(f"{ECHOES}/old.yaml.j2")
        await desk.gone("configmaps", "old")
        write_cycle(running)
        await desk.apply(echo("web", 2))
        await desk.until(ECHOES, "web", reports_cycle)
        await desk.until("deployments.apps", "web", lambda body: body["spec"]["replicas"] == 2)
        assert holds(a="b")(await desk.read("configmaps", "a"))
        assert await desk.find("configmaps", "c") is None

        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("a", "x: y"))
        await desk.ready(ECHOES, "web")
        await desk.read("configmaps", "c")


async def test_a_chain_of_manifests_is_applied_to_its_end_without_events(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/c0.yaml.j2", annotated_map("c0", "x: '{{ spec.replicas }}'"))
        for number in range(1, 30):
            data = f"x: '{{{{ child('ConfigMap', 'c{number - 1}').data.x }}}}'"
            running.write(f"{ECHOES}/c{number}.yaml.j2", annotated_map(f"c{number}", data))
        await desk.apply_until_ready(echo("web", 1))
        await desk.apply_until_ready(echo("web", 2))
        assert holds(x="2")(await desk.read("configmaps", "c29"))


@pytest.mark.exhaustive
async def test_manifests_that_change_each_other_without_end_do_not_keep_the_operator_busy(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        for name, other in ("ab", "ba"):
            data = f"x: '{{{{ child('ConfigMap', '{other}').metadata.resourceVersion | default(0) }}}}'"
            running.write(f"{ECHOES}/{name}.yaml.j2", annotated_map(name, data))
        await desk.apply(echo("web", 1))
        # The status is written once reconciles no longer follow each other at once.
        await desk.until(ECHOES, "web", lambda body: bool(ready_condition(body)))


async def test_a_child_whose_readiness_is_ignored_affects_no_verdict(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        text = UNSCHEDULABLE.replace("\nspec:", '\n  annotations: {ssa-operator.dev/wait: "false"}\nspec:', 1)
        running.write(TEMPLATE, text)
        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("a", "x: '{{ child('Deployment', name).metadata.uid }}'"))
        running.write(f"{ECHOES}/b.yaml.j2", annotated_map("b", after="Deployment/{{ name }}"))
        body = await desk.apply_until_ready(echo("web", 1))
        deployment = await desk.read("deployments.apps", "web")
        made = await desk.read("configmaps", "a")
        await desk.read("configmaps", "b")
    assert holds(x=uid(deployment))(made)
    assert entries(body)["Deployment/web"]["state"] == "InProgress"


@pytest.mark.exhaustive
async def test_a_manifest_that_waits_for_a_failed_job_names_the_failure(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        stuck = JOB.replace("backoffLimit: 0", "backoffLimit: 0\n  activeDeadlineSeconds: 1")
        running.write(f"{ECHOES}/job.yaml.j2", stuck.replace("      restartPolicy", NOWHERE + "      restartPolicy"))
        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("a", after="Job/{{ name }}"))
        await desk.apply(echo("web", 1))
        body = await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "DeadlineExceeded"))
    assert message_of(body, "ConfigMap/a").startswith("waiting for Job/web to be ready (it failed: DeadlineExceeded: ")
    assert "Job" in ready_condition(body)["message"].split(":")[0]
    assert is_stalled(body)


SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports: [{port: {{ spec.replicas * 100000 }}}]\n"


async def test_a_manifest_that_reads_a_refused_child_and_the_condition_name_the_refusal(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/service.yaml.j2", SERVICE)
        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("a", "x: '{{ child('Service', 's').spec.clusterIP }}'"))
        running.write(f"{ECHOES}/b.yaml.j2", annotated_map("b", after="ConfigMap/a"))
        await desk.apply(echo("web", 1))
        body = await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "service.yaml.j2:5", "ports"))
        assert "waiting for Service/s to be ready (apply of Service" in message_of(body, "ConfigMap/a")
        assert message_of(body, "ConfigMap/b").startswith("waiting for ConfigMap/a to be ready (it is waiting for")
        await desk.read("deployments.apps", "web")
        running.write(f"{ECHOES}/service.yaml.j2", SERVICE.replace("{{ spec.replicas * 100000 }}", "80"))
        await desk.ready(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_manifest_that_reads_a_child_whose_template_fails_names_that_template(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("a", "x: '{{ spec.replicas }}'"))
        both = "x: '{{ child('ConfigMap', 'a').data.x }}{{ spec.replicas }}'"
        running.write(f"{ECHOES}/b.yaml.j2", annotated_map("b", both))
        await desk.apply_until_ready(echo("web", 1))
        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("a", "x: '{{ spec.nope }}'"))
        await desk.until(ECHOES, "web", not_ready_because("RenderFailed", "a.yaml.j2:6", "spec.nope"))
        await desk.apply(echo("web", 2))
        body = await desk.until(ECHOES, "web", lambda body: "waiting" in message_of(body, "ConfigMap/b"))
        words = "waiting for ConfigMap/a to be ready (a template that failed may render it"
        assert words in message_of(body, "ConfigMap/b")
        assert holds(x="11")(await desk.read("configmaps", "b"))


@pytest.mark.slow
async def test_a_workload_that_does_not_become_ready_shows_the_failure_of_its_pods(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(TEMPLATE, UNSCHEDULABLE)
        running.write(f"{ECHOES}/a.yaml.j2", annotated_map("a", after="Deployment/{{ name }}"))
        await desk.apply(echo("web", 1))
        words = ("ConfigMap", "0 of 1 replicas available; pod web-", "Unschedulable: ")
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))


@pytest.mark.exhaustive
async def test_a_deployment_that_makes_no_progress_is_stalled_with_its_own_message(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        text = UNSCHEDULABLE.replace("  replicas:", "  progressDeadlineSeconds: 1\n  replicas:", 1)
        running.write(TEMPLATE, text)
        await desk.apply(echo("web", 1))
        body = await desk.until(ECHOES, "web", not_ready_because("Progressing", "ProgressDeadlineExceeded: "))
    assert is_stalled(body)


CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ name }}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {{ namespace }}
  resources: {requests: {storage: 1Gi}}
"""
USER = """\
apiVersion: v1
kind: Pod
metadata:
  name: {{ name }}
spec:
  containers: [{name: main, image: none}]
  volumes:
    - name: data
      persistentVolumeClaim:
        claimName: {{ child('PersistentVolumeClaim', name).metadata.name }}
"""


@pytest.mark.exhaustive
async def test_a_claim_that_waits_for_its_first_consumer_does_not_hold_it_back(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": desk.namespace},
        "provisioner": "kwok.x-k8s.io/volume",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await desk.apply(storage)
    only(templates, claim=CLAIM, user=USER)
    async with operate(templates=templates):
        await desk.apply(echo("web"))
        await desk.until("persistentvolumeclaims", "web", lambda body: body["status"].get("phase") == "Bound")
        await desk.ready(ECHOES, "web")
    await desk.delete("storageclass", desk.namespace)


RBAC = "rbac.authorization.k8s.io"
CREATION_ORDER = (
    {"serviceaccounts"},
    {"roles"},
    {"rolebindings"},
    {"secrets", "configmaps"},
    {"services", "deployments", "jobs"},
    {"poddisruptionbudgets"},
)
STAGES = {resource: number for number, resources in enumerate(CREATION_ORDER) for resource in resources}
MANIFESTS = {
    "poddisruptionbudgets": "apiVersion: policy/v1\nkind: PodDisruptionBudget\nspec: {minAvailable: 1}",
    "jobs": """\
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      serviceAccountName: {{ name }}
      restartPolicy: Never
      containers: [{name: main, image: work, envFrom: [{configMapRef: {name: "{{ name }}"}}]}]
""",
    "deployments": """\
apiVersion: apps/v1
kind: Deployment
spec:
  selector: {matchLabels: {app: "{{ name }}"}}
  template:
    metadata: {labels: {app: "{{ name }}"}}
    spec:
      serviceAccountName: {{ name }}
      containers: [{name: main, image: serve, envFrom: [{secretRef: {name: "{{ name }}"}}]}]
""",
    "services": "apiVersion: v1\nkind: Service\nspec: {selector: {app: '{{ name }}'}, ports: [{port: 80}]}",
    "configmaps": "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}",
    "secrets": "apiVersion: v1\nkind: Secret\nstringData: {a: '{{ generated(8) }}'}",
    "rolebindings": f"""\
apiVersion: {RBAC}/v1
kind: RoleBinding
roleRef: {{apiGroup: {RBAC}, kind: Role, name: "{{{{ name }}}}"}}
subjects: [{{kind: ServiceAccount, name: "{{{{ name }}}}"}}]
""",
    "roles": f"apiVersion: {RBAC}/v1\nkind: Role\nrules: [{{apiGroups: [''], resources: [pods], verbs: [get]}}]",
    "serviceaccounts": "apiVersion: v1\nkind: ServiceAccount",
}
"""A manifest of each resource, in the worst order."""


def created_resources(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """The resources that the operator applied for the first time for this name, in the order of the answers."""
    found = dict.fromkeys(
        event["objectRef"]["resource"]
        for event in own_requests(cluster, namespace)
        if event["verb"] == "patch" and event["objectRef"].get("name") == name
    )
    return [resource for resource in found if resource in MANIFESTS]


async def test_new_children_are_created_in_the_order_in_which_they_need_each_other_so_that_no_pod_is_refused(
    desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    named = "metadata: {name: '{{ name }}'}\n"
    texts = {f"{number}-{resource}": named + text for number, (resource, text) in enumerate(MANIFESTS.items())}
    only(templates, **texts)
    names = [f"web-{number}" for number in range(5)]
    async with operate():
        await desk.apply(*map(echo, names))
        for name in names:
            await desk.ready(ECHOES, name)
            created = [STAGES[each] for each in created_resources(cluster, desk.namespace, name)]
            assert (len(created), created) == (len(STAGES), sorted(created))
            # No controller writes to these, so they have the versions of their creation.
            found = [
                await desk.read(each, name) for each in ("serviceaccounts", f"roles.{RBAC}", "secrets", "services")
            ]
            assert [*map(version, found)] == sorted(map(version, found))
        events = await desk.kubectl("get", "events", "--output=jsonpath={.items[*].reason}")
    assert "SuccessfulCreate" in events.split()
    assert "FailedCreate" not in events.split()


@pytest.mark.exhaustive
async def test_a_secret_that_the_api_server_refuses_holds_back_no_workload(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    refused = "metadata: {name: '{{ name }}'}\napiVersion: v1\nkind: Secret\nstringData: {'a b': c}\n"
    only(templates, secret=refused, deployment=DEPLOYMENT)
    async with operate():
        await desk.apply(echo("web", 2))
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "Secret"))
        await desk.until("deployments.apps", "web", lambda body: body["spec"]["replicas"] == 2)

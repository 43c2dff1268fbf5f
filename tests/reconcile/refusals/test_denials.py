"""Admission that refuses an object for a while: quotas, policies, and plugins that look for another object."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.operator.harness import (
    ECHOES,
    Desk,
    MakeOptions,
    Operate,
    echo,
    not_ready_because,
    only,
    plain_template,
    ready_condition,
)

pytestmark = pytest.mark.cluster

MAP = plain_template("ConfigMap")
SECRET = plain_template("Secret") + "stringData: {a: hunter2}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {{ name }}
  annotations: {ssa-operator.dev/wait: "false"}
spec:
  containers: [{name: a, image: a}]
"""
ACCOUNT = plain_template("ServiceAccount")
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ name }}
  annotations: {ssa-operator.dev/wait: "false"}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 2Gi}}
"""
MANY = 20


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("template", "resource"), [(MAP, "configmaps"), (SECRET, "secrets")], ids=["ConfigMap", "Secret"]
)
async def test_a_child_that_a_quota_refuses_is_stalled_and_is_created_when_the_quota_is_gone_without_a_resync(
    desk: Desk, operate: Operate, options: MakeOptions, template: str, resource: str
) -> None:
    hard = {f"count/{resource}": "0"}
    await desk.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": hard}}
    )
    await desk.until("resourcequotas", "none", lambda body: body.get("status", {}).get("hard") == hard)
    async with operate(templates=only(options().templates[0], child=template)):
        await desk.apply(echo("web"))
        parent = await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "exceeded quota: none"))
        assert any(each["type"] == "Stalled" for each in parent["status"]["conditions"])
        await desk.delete("resourcequota", "none")
        await desk.read(resource, "web")
        await desk.ready(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_pod_and_its_service_account_in_one_folder_become_ready_in_one_reconcile_without_a_resync(
    desk: Desk, operate: Operate, options: MakeOptions
) -> None:
    pod = f"{POD}  serviceAccountName: {{{{ name }}}}\n"
    async with operate(templates=only(options().templates[0], a=pod, b=ACCOUNT)) as running:
        names = [f"web-{number}" for number in range(MANY)]
        await desk.apply(*map(echo, names))
        for name in names:
            await desk.ready(ECHOES, name)
        assert not [report for report in running.reports if "service account" in report.verdict.message]


@pytest.fixture
async def cluster_names(desk: Desk) -> AsyncIterator[str]:
    """The name of cluster-scoped objects of the test, which are deleted at its end."""
    name = desk.namespace
    yield name
    for kind in ("priorityclass", "runtimeclass"):
        await desk.kubectl("delete", kind, name, "--ignore-not-found", "--wait=false")


async def test_each_denial_of_an_admission_plugin_is_retried_until_its_cause_is_gone_without_a_resync(
    desk: Desk, operate: Operate, options: MakeOptions, cluster_names: str
) -> None:
    name = cluster_names
    templates = f"""\
{{% if name == "claim" %}}
{CLAIM}
{{% else %}}
{POD}
{{% if name == "account" %}}  serviceAccountName: later{{% endif %}}
{{% if name == "priority" %}}  priorityClassName: {name}{{% endif %}}
{{% if name == "runtime" %}}  runtimeClassName: {name}{{% endif %}}
{{% if name == "security" %}}  hostNetwork: true{{% endif %}}
{{% endif %}}
"""
    limits = [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]
    await desk.apply(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": limits}}
    )
    level = "pod-security.kubernetes.io/enforce"
    await desk.kubectl("label", "namespace", desk.namespace, f"{level}=baseline")
    denials = {
        "account": "error looking up service account",
        "priority": "no PriorityClass with name",
        "runtime": "RuntimeClass",
        "security": "violates PodSecurity",
        "claim": "maximum storage usage per PersistentVolumeClaim is 1Gi",
    }
    async with operate(templates=only(options().templates[0], child=templates)):
        await desk.apply(*map(echo, denials))
        for parent, words in denials.items():
            found = await desk.until(ECHOES, parent, not_ready_because("ApplyFailed", words))
            assert "child.yaml.j2" in ready_condition(found)["message"]
        await desk.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "later"}})
        await desk.apply(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}
        )
        await desk.apply(
            {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "a"}
        )
        await desk.kubectl("label", "namespace", desk.namespace, f"{level}-")
        await desk.delete("limitrange", "small")
        for parent in denials:
            await desk.ready(ECHOES, parent)


SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}
spec:
  type: NodePort
  selector: {app: a}
  ports: [{port: 80}]
"""


@pytest.mark.more_cases
@pytest.mark.parametrize("kind", ["port", "address"])
async def test_a_service_gets_its_port_or_address_when_another_service_frees_it_without_a_resync(
    desk: Desk, operate: Operate, options: MakeOptions, kind: str
) -> None:
    await desk.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "other"},
            "spec": {"type": "NodePort", "selector": {"app": "a"}, "ports": [{"port": 80}]},
        }
    )
    spec = (await desk.read("services", "other"))["spec"]
    port, address = spec["ports"][0]["nodePort"], spec["clusterIP"]
    template = SERVICE.replace("port: 80", f"port: 80, nodePort: {port}")
    if kind == "address":
        template = SERVICE.replace("type: NodePort", f"clusterIP: {address}")
    async with operate(templates=only(options().templates[0], child=template)):
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "already allocated"))
        await desk.delete("service", "other")
        await desk.ready(ECHOES, "web")
        assert (await desk.read("services", "web"))["spec"]["ports"][0]["port"] == 80

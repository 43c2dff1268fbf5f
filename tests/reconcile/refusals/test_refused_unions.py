"""Fields of unions that another client set, or that the API server defaulted, when the template sets another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.operator.harness import Desk, Operate, ready_condition, uid
from tests.reconcile.recreate.test_recreate import box, deployment, manifest
from tests.reconcile.refusals.test_refusals import BOXES, SHAPES, boxes, shape, with_env

__all__ = ["boxes"]

pytestmark = pytest.mark.cluster

Body = dict[str, Any]


class Case(NamedTuple):
    """What a template renders first, what a person does with kubectl, and what it renders then."""

    first: Body
    commands: tuple[tuple[str, ...], ...]
    then: Body
    gone: tuple[str, ...] = ()
    """What the spec has no more."""
    here: tuple[str, ...] = ()
    """What it has."""


def service(**spec: Any) -> Body:
    return manifest("v1", "Service", spec={"selector": {"a": "b"}, **spec})


PORTS = {"ports": [{"port": 80}]}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}


def ingress(port: Body, **spec: Any) -> Body:
    return manifest(
        "networking.k8s.io/v1", "Ingress", spec={"defaultBackend": {"service": {"name": "web", "port": port}}, **spec}
    )


def budget(**spec: Any) -> Body:
    return manifest("policy/v1", "PodDisruptionBudget", spec={"selector": {"matchLabels": {"a": "b"}}, **spec})


def metric(target: Body) -> Body:
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def scaler(target: Body) -> Body:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    return manifest(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        spec={"scaleTargetRef": reference, "maxReplicas": 3, "metrics": [metric(target)]},
    )


def probed(**probe: Any) -> Body:
    made = deployment(replicas=0)
    made["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
    return made


def mounting(**source: Any) -> Body:
    made = deployment(replicas=0)
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "data", **source}]
    return made


def policy(peer: Body) -> Body:
    return manifest("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, "ingress": [{"from": [peer]}]})


def cron(**spec: Any) -> Body:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}]}
    return manifest(
        "batch/v1",
        "CronJob",
        spec={"schedule": "1 1 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": {"spec": pod}}}, **spec},
    )


def patched(kind: str, **spec: Any) -> tuple[str, ...]:
    return ("patch", kind, "web", "--type=merge", "-p", json.dumps({"spec": spec}))


def patched_container(**fields: Any) -> tuple[str, ...]:
    containers = {"spec": {"template": {"spec": {"containers": [{"name": "main", **fields}]}}}}
    return ("patch", "deployment", "web", "-p", json.dumps(containers))


CASES = {
    "strategy-by-patch": Case(
        deployment(replicas=0),
        (patched("deployment", strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 5}}),),
        deployment(replicas=0, strategy={"type": "Recreate"}),
        ("rollingUpdate",),
    ),
    "service-to-external-name": Case(
        service(**PORTS),
        (),
        manifest("v1", "Service", spec={"type": "ExternalName", "externalName": "a.example.com"}),
        ("clusterIP", "internalTrafficPolicy"),
    ),
    "service-from-external-name": Case(
        manifest("v1", "Service", spec={"type": "ExternalName", "externalName": "a.example.com"}),
        (),
        service(type="ClusterIP", **PORTS),
        ("externalName",),
        ("clusterIP",),
    ),
    "service-from-node-port": Case(
        service(type="NodePort", **PORTS), (), service(type="ClusterIP", **PORTS), ("nodePort",)
    ),
    "service-by-patch": Case(
        service(**PORTS),
        (patched("service", type="NodePort", externalTrafficPolicy="Local"),),
        service(type="ClusterIP", **PORTS),
        ("externalTrafficPolicy",),
    ),
    "service-from-load-balancer": Case(
        service(type="LoadBalancer", externalTrafficPolicy="Local", **PORTS),
        (),
        service(type="ClusterIP", **PORTS),
        ("externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"),
    ),
    "service-affinity": Case(
        service(sessionAffinity="ClientIP", **PORTS),
        (),
        service(sessionAffinity="None", **PORTS),
        ("sessionAffinityConfig",),
    ),
    "ingress-port": Case(
        ingress({"number": 80}),
        (patched("ingress", defaultBackend={"service": {"port": {"number": 81}}}),),
        ingress({"name": "http"}),
        ("number",),
    ),
    "ingress-backend": Case(
        ingress({"number": 80}),
        (patched("ingress", defaultBackend={"service": {"name": "other"}}),),
        manifest(
            "networking.k8s.io/v1",
            "Ingress",
            spec={"defaultBackend": {"resource": {"apiGroup": "a.b", "kind": "C", "name": "d"}}},
        ),
        ("service",),
    ),
    "budget": Case(
        budget(minAvailable=1), (patched("pdb", minAvailable=2),), budget(maxUnavailable=1), ("minAvailable",)
    ),
    "autoscaler": Case(
        scaler({"type": "Utilization", "averageUtilization": 50}),
        (patched("hpa", metrics=[metric({"type": "Utilization", "averageUtilization": 60})]),),
        scaler({"type": "AverageValue", "averageValue": "1"}),
        ("averageUtilization",),
    ),
    "probe-by-patch": Case(
        probed(httpGet={"path": "/", "port": 80}),
        (patched_container(readinessProbe={"httpGet": {"path": "/x", "port": 90}}),),
        probed(tcpSocket={"port": 80}),
        ("httpGet",),
    ),
    "probe": Case(probed(httpGet={"port": 80}), (), probed(exec={"command": ["a"]}), ("httpGet",)),
    "volume-by-patch": Case(
        deployment(replicas=0),
        (patched("deployment", template={"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}),),
        mounting(configMap={"name": "data"}),
        ("emptyDir",),
    ),
    "volume": Case(mounting(emptyDir={}), (), mounting(secret={"secretName": "a"}), ("emptyDir",)),
    "network-policy": Case(
        policy({"podSelector": {}}), (), policy({"ipBlock": {"cidr": "10.0.0.0/8"}}), ("podSelector': {}}",)
    ),
    "cron-job": Case(cron(), (patched("cronjob", timeZone="Etc/UTC"),), cron(schedule="2 2 2 2 *"), (), ("timeZone",)),
    "node-port-by-patch": Case(
        service(**PORTS),
        (patched("service", type="NodePort", ports=[{"port": 80, "nodePort": 30123}]),),
        service(type="ClusterIP", **PORTS),
        ("30123",),
    ),
    "env-by-set": Case(
        with_env(),
        (
            ("create", "configmap", "some", "--from-literal=TOKEN=a"),
            ("set", "env", "deployment/web", "--from=configmap/some"),
        ),
        with_env(value="abc"),
        ("valueFrom",),
        ("abc",),
    ),
    "one-of-default": Case(shape(label="a"), (), shape(label="a", engine={"fast": "x"}), ("slow",), ("fast",)),
    "one-of": Case(
        shape(source={"git": "a"}), (patched(SHAPES, source={"git": "b"}),), shape(source={"oci": "c"}), ("git",)
    ),
}


@pytest.mark.more_cases
@pytest.mark.parametrize("name", CASES)
async def test_another_arm_of_a_union_is_applied(desk: Desk, operate: Operate, boxes: Path, name: str) -> None:
    case = CASES[name]
    kind = case.first["kind"].lower()
    found = SHAPES if kind == "shape" else kind
    async with operate():
        await desk.apply_until_ready(box(waits_not(case.first)))
    old = json.loads(await desk.kubectl("get", found, "web", "-o", "json"))
    for command in case.commands:
        await desk.kubectl(*command)
    async with operate():
        await desk.apply(box(waits_not(case.then)))
        await desk.ready(BOXES, "box")
    new = json.loads(await desk.kubectl("get", found, "web", "-o", "json"))
    assert uid(new) == uid(old)
    spec = str(new["spec"])
    assert [word for word in case.gone if word in spec] == []
    assert [word for word in case.here if word not in spec] == []


UNANSWERED = {
    # What can't make way is named with its manager: the name of a port, and an immutable value.
    "name-of-a-port": Case(
        service(ports=[{"port": 80, "name": "a"}]),
        (("patch", "service", "web", "-p", '{"spec":{"ports":[{"port":81,"name":"b"}]}}'),),
        service(ports=[{"port": 80, "name": "a"}, {"port": 82, "name": "b"}]),
        here=("Duplicate value", "spec.ports[port=81,protocol=TCP] is of kubectl-patch (Update), written at 20"),
    ),
    "immutable": Case(
        shape(label="a"),
        (patched(SHAPES, frozen=2),),
        shape(label="a", frozen=1),
        here=("spec.frozen is immutable", "spec.frozen is of kubectl-patch (Update), written at 20"),
    ),
}


@pytest.mark.parametrize("name", UNANSWERED)
async def test_what_a_person_set_and_cannot_make_way_is_named(
    desk: Desk, operate: Operate, boxes: Path, name: str
) -> None:
    case = UNANSWERED[name]
    async with operate():
        await desk.apply_until_ready(box(case.first))
        for command in case.commands:
            await desk.kubectl(*command)
        await desk.apply(box(case.then))
        await desk.until(BOXES, "box", lambda body: all(word in ready_condition(body)["message"] for word in case.here))


def waits_not(body: Body) -> Body:
    annotations = {**body["metadata"].get("annotations", {}), "ssa-operator.dev/wait": "false"}
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}

"""`merge` gives what the API server's strategic merge patch gives, within the rule that docs/templates.md has."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ssa_operator.rendering.jinja.strategic_merge import LIST_KEYS, merge
from tests.conftest import Kubectl

pytestmark = pytest.mark.cluster

POD: dict[str, Any] = {
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
    "imagePullSecrets": [{"name": "one"}],
    "initContainers": [{"name": "init", "image": "init:1", "command": ["sh", "-c", "true"]}],
    "containers": [
        {
            "name": "main",
            "image": "main:1",
            "args": ["--verbose"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 443, "name": "https"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "conf", "mountPath": "/conf"}],
        },
        {"name": "side", "image": "side:1"},
    ],
    "nodeSelector": {"disk": "ssd"},
    "securityContext": {"runAsNonRoot": True, "supplementalGroups": [1]},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ],
    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "conf"}}],
}

OVERRIDES: list[dict[str, Any]] = [
    {},
    {"containers": [{"name": "main", "image": "main:2", "args": ["--quiet", "--fast"]}]},
    {"containers": [{"name": "more", "image": "more:1"}, {"name": "side", "env": [{"name": "C", "value": "3"}]}]},
    {"containers": [{"name": "main", "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}]},
    {
        "containers": [
            {
                "name": "main",
                "env": [{"name": "B", "value": None, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            }
        ]
    },
    {"containers": [{"name": "main", "env": []}]},
    {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 81}, {"containerPort": 8080}]}]},
    {"containers": [{"name": "main", "resources": {"limits": {"cpu": None}, "requests": {"cpu": "500m"}}}]},
    {"containers": [{"name": "main", "args": None, "env": None}]},
    {"containers": [{"name": "main", "volumeMounts": [{"name": "conf", "mountPath": "/data", "readOnly": True}]}]},
    {"initContainers": [{"name": "second", "image": "second:1"}]},
    {"initContainers": None},
    {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["b"]}, {"ip": "10.0.0.2", "hostnames": ["c"]}]},
    {"imagePullSecrets": [{"name": "two"}]},
    {"nodeSelector": {"disk": None, "zone": "a"}},
    {"securityContext": {"supplementalGroups": [2, 3], "fsGroup": 4}},
    {"tolerations": [{"key": "b", "operator": "Exists"}]},
    {
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule"},
        ]
    },
    {"volumes": [{"name": "data", "emptyDir": None, "persistentVolumeClaim": {"claimName": "data"}}]},
    {"volumes": [{"name": "new", "emptyDir": {"medium": "Memory"}}], "serviceAccountName": "me"},
]


def deployment(pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": "a"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def service(*ports: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": list(ports)}}


def sorted_items(value: Any, field: str = "") -> Any:
    """The same, with the items of lists that merge sorted: `merge` puts new items last, and the API server first."""
    if isinstance(value, dict):
        return {key: sorted_items(item, key) for key, item in value.items()}
    if isinstance(value, list):
        items = [sorted_items(item) for item in value]
        return sorted(items, key=json.dumps) if field in LIST_KEYS else items
    return value


@pytest.mark.slow
def test_a_merge_is_the_servers_strategic_merge_patch(kubectl: Kubectl, namespace: str) -> None:
    def stored(*words: str, body: dict[str, Any]) -> Any:
        found = kubectl(*words, "--dry-run=server", "--output=json", f"--namespace={namespace}", input=json.dumps(body))
        return json.loads(found)["spec"]

    kubectl("create", f"--namespace={namespace}", "--filename=-", input=json.dumps(deployment(POD)))
    for override in OVERRIDES:
        patch = {"spec": {"template": {"spec": override}}}
        before = copy.deepcopy((POD, patch))
        merged = merge(deployment(POD), patch)
        assert (POD, patch) == before
        merged["metadata"]["name"] = "b"
        patched = stored("patch", "deployment", "a", "--type=strategic", f"--patch={json.dumps(patch)}", body={})
        assert sorted_items(stored("create", "--filename=-", body=merged)) == sorted_items(patched), override


def test_ports_of_a_service_merge_by_port_and_protocol(kubectl: Kubectl, namespace: str) -> None:
    """The API server's patch merges them by port alone, and would give the second port the name of the first."""
    dns = service({"port": 53, "protocol": "TCP", "name": "tcp"}, {"port": 53, "protocol": "UDP", "name": "udp"})
    merged = merge(dns, service({"port": 53, "protocol": "UDP", "name": "dns"}))
    found = kubectl("create", "--dry-run=server", "-ojson", f"-n={namespace}", "-f-", input=json.dumps(merged))
    assert [each["name"] for each in json.loads(found)["spec"]["ports"]] == ["tcp", "dns"]

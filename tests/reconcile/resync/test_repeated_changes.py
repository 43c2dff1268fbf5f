"""Applies that change nothing and that the API server counts as changes: they are sent once, and not with each resync.

The API server drops the empty list in these manifests, and raises `metadata.generation` with each apply of them.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.operator.harness import ECHOES, Desk, Operate, Running, definition, echo, entries, only

pytestmark = pytest.mark.cluster

POLICIES = "networkpolicies.networking.k8s.io"
WEBHOOKS = "validatingwebhookconfigurations.admissionregistration.k8s.io"

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ name }}
  labels: {replicas: "{{ spec.replicas }}"}
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress: []
"""
WEBHOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: {{ namespace }}-{{ name }}
webhooks: []
"""
RESYNCS: dict[str, Any] = {"resync_rate": 1000.0, "interval": 0.2}
FOREIGN: list[dict[str, Any]] = [
    {"ingress": [{}]},
    {"policyTypes": ["Ingress", "Egress"]},
    {"podSelector": {"matchLabels": {"a": "b"}}},
]
"""What others write into the spec of the policy."""
CREATED_AND_REPEATED = 2
"""The generation of an object that was created, and whose apply was repeated once."""


def generation(body: dict[str, Any]) -> int:
    return int(body["metadata"]["generation"])


async def resyncs(running: Running, count: int = 6) -> None:
    running.forget()
    await running.reconciled(count)


@pytest.fixture
def policies(templates: Path) -> Path:
    return only(templates, policy=POLICY)


async def test_resyncs_write_an_object_once_if_nothing_changes(
    desk: Desk, operate: Operate, templates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    only(templates, policy=POLICY, webhook=WEBHOOK)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    name = f"{desk.namespace}-web"
    caplog.set_level(logging.INFO)
    async with operate(**RESYNCS) as running:
        await desk.apply_until_ready(echo("web"))
        await resyncs(running, 3)
        policy, webhook = await desk.read(POLICIES, "web"), await desk.read(WEBHOOKS, name)
        assert (generation(policy), generation(webhook)) == (CREATED_AND_REPEATED, CREATED_AND_REPEATED)
        await resyncs(running)
        assert await desk.find(POLICIES, "web") == policy
        assert await desk.find(WEBHOOKS, name) == webhook
        said = [each.message for each in caplog.records if "counts each apply as a change" in each.message]
        assert [sum(name in each for each in said) for name in ("NetworkPolicy", "Webhook")] == [1, 1]
        assert not [
            each.message for each in caplog.records if "NetworkPolicy" in each.message and "configured" in each.message
        ]
    async with operate(**RESYNCS) as running:
        await running.reconciled(8)
        again = await desk.read(POLICIES, "web")
        assert generation(again) == generation(policy) + 1
        await desk.delete("echo", "web")


@pytest.mark.exhaustive
async def test_whatever_others_change_in_such_an_object_is_applied_again(
    desk: Desk, operate: Operate, policies: Path
) -> None:
    async with operate(**RESYNCS) as running:
        await desk.apply_until_ready(echo("web"))
        for spec in FOREIGN:
            await resyncs(running, 3)
            await desk.patch("networkpolicy", "web", spec=spec)
            await desk.until(
                POLICIES, "web", lambda body: body["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
            )
        await resyncs(running, 3)
        before = await desk.read(POLICIES, "web")
        await resyncs(running)
        assert await desk.find(POLICIES, "web") == before
        await desk.delete("networkpolicy", "web")
        await desk.read(POLICIES, "web")


async def test_a_change_of_the_manifest_and_a_new_reconcile_at_apply_such_an_object(
    desk: Desk, operate: Operate, policies: Path
) -> None:
    async with operate(**RESYNCS) as running:
        await desk.apply_until_ready(echo("web"))
        await resyncs(running, 3)
        before = await desk.read(POLICIES, "web")
        await desk.patch("echo", "web", metadata={"annotations": {"ssa-operator.dev/reconcile-at": "now"}})
        repeated = await desk.until(POLICIES, "web", lambda body: generation(body) == generation(before) + 1)
        await resyncs(running)
        assert await desk.find(POLICIES, "web") == repeated
        await desk.patch("echo", "web", spec={"replicas": 2})
        await desk.until(POLICIES, "web", lambda body: body["metadata"]["labels"]["replicas"] == "2")


THING = """\
apiVersion: {{ annotations.api }}
kind: Thing
metadata: {name: NAME}
spec: SPEC
"""
SPECS = {
    "defaults": "{}",
    "empty": "{items: [], words: {}, free: {a: {}, b: [], c: ''}}",
    "nulls": "{size: null, words: {a: null}, free: {a: null, b: [null]}}",
    "numbers": "{size: 2, quantity: 1000m, port: '80'}",
    "whole": "{quantity: 1, port: 80, items: [a, a]}",
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 1},
        "nested": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "b"}}},
        "items": {"type": "array", "items": {"type": "string"}},
        "words": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "quantity": {"x-kubernetes-int-or-string": True},
        "port": {"x-kubernetes-int-or-string": True},
    },
}
SPELLINGS = {
    "quota": "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: a}\n"
    "spec: {hard: {requests.cpu: 1000m, pods: '10'}}\n",
    "limits": "apiVersion: v1\nkind: LimitRange\nmetadata: {name: a}\n"
    "spec: {limits: [{type: Container, max: {memory: 1024Mi}}]}\n",
    "secret": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: b}\ndata: {}\n",
    "account": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\nimagePullSecrets: []\nsecrets: []\n",
    "role": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a, labels: {}, annotations: {}}\n"
    "rules: [{apiGroups: [''], resources: [pods, pods], verbs: [get, get], resourceNames: []}]\n",
    "deployment": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: 0\n"
    "  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}, annotations: {}}\n"
    "    spec:\n      nodeSelector: {}\n      volumes: []\n"
    "      tolerations: [{key: a, operator: Exists}, {key: a, operator: Exists}]\n"
    "      containers: [{name: a, image: a, env: [], resources: {limits: {cpu: 1000m, memory: 1024Mi}}}]\n",
    "service": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
    "spec: {selector: {}, externalIPs: [], ports: [{port: 80}]}\n",
    "scaler": "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n"
    "spec: {maxReplicas: 2, metrics: [], scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}}\n",
}


@pytest.mark.exhaustive
async def test_defaults_empty_values_nulls_and_other_spellings_are_written_once(
    desk: Desk, operate: Operate, templates: Path, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    crd = definition("things", group, "Thing")
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = SCHEMA
    await desk.define(crd)
    things = {
        f"thing-{name}": THING.replace("NAME", name)
        .replace("SPEC", spec)
        .replace("}\nspec", ", annotations: {}}\nspec")
        for name, spec in SPECS.items()
    }
    only(templates, **things, **SPELLINGS)
    parent = echo("web")
    parent["metadata"]["annotations"] = {"api": f"{group}/v1"}
    resources = {
        f"things.{group}": SPECS.keys(),
        **dict.fromkeys(("resourcequotas", "limitranges", "secrets", "serviceaccounts", "services"), "a"),
        **dict.fromkeys(("roles.rbac.authorization.k8s.io", "deployments.apps"), "a"),
        "horizontalpodautoscalers.autoscaling": "a",
    }

    async def written() -> dict[tuple[str, str], Any]:
        """What the operator's own entry in managedFields says, which changes with each write of the operator."""
        found = {}
        for resource, names in resources.items():
            for name in names:
                metadata = (await desk.read(resource, name))["metadata"]
                own = [each for each in metadata["managedFields"] if each["manager"] == "ssa-operator"]
                found[resource, name] = (metadata.get("generation"), own)
        return found

    async with operate(**RESYNCS) as running:
        await desk.apply(parent)
        await written()
        await resyncs(running, 3)
        before = await written()
        await resyncs(running)
        assert await written() == before
        assert "counts each apply as a change" not in caplog.text
        found = entries(await desk.read(ECHOES, "web"))
        assert not [name for name, each in found.items() if each["state"] == "Failed"]

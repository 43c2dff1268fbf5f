"""Applies that change nothing and that the API server counts as changes: they are sent once, and not with each resync.

The API server drops the empty list in these manifests, and raises `metadata.generation` with each apply of them.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.controller.harness import ECHOES, Desk, Operate, Running, echo, only

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
TICKS: dict[str, Any] = {"tick_rate": 1000.0, "interval": 0.2}
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


async def ticks(running: Running, count: int = 6) -> None:
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
    async with operate(**TICKS) as running:
        await desk.apply_until_ready(echo("web"))
        await ticks(running, 3)
        policy, webhook = await desk.read(POLICIES, "web"), await desk.read(WEBHOOKS, name)
        assert (generation(policy), generation(webhook)) == (CREATED_AND_REPEATED, CREATED_AND_REPEATED)
        await ticks(running)
        assert await desk.find(POLICIES, "web") == policy
        assert await desk.find(WEBHOOKS, name) == webhook
        said = [each.message for each in caplog.records if "counts each apply as a change" in each.message]
        assert [sum(name in each for each in said) for name in ("NetworkPolicy", "Webhook")] == [1, 1]
        assert not [
            each.message for each in caplog.records if "NetworkPolicy" in each.message and "configured" in each.message
        ]
    async with operate(**TICKS) as running:
        await running.reconciled(8)
        again = await desk.read(POLICIES, "web")
        assert generation(again) == generation(policy) + 1
        await desk.delete("echo", "web")


async def test_whatever_others_change_in_such_an_object_is_applied_again(
    desk: Desk, operate: Operate, policies: Path
) -> None:
    async with operate(**TICKS) as running:
        await desk.apply_until_ready(echo("web"))
        for spec in FOREIGN:
            await ticks(running, 3)
            await desk.patch("networkpolicy", "web", spec=spec)
            await desk.until(
                POLICIES, "web", lambda body: body["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
            )
        await ticks(running, 3)
        before = await desk.read(POLICIES, "web")
        await ticks(running)
        assert await desk.find(POLICIES, "web") == before
        await desk.delete("networkpolicy", "web")
        await desk.read(POLICIES, "web")


async def test_a_change_of_the_manifest_and_a_new_reconcile_at_apply_such_an_object(
    desk: Desk, operate: Operate, policies: Path
) -> None:
    async with operate(**TICKS) as running:
        await desk.apply_until_ready(echo("web"))
        await ticks(running, 3)
        before = await desk.read(POLICIES, "web")
        await desk.patch("echo", "web", metadata={"annotations": {"ssa-operator.dev/reconcile-at": "now"}})
        repeated = await desk.until(POLICIES, "web", lambda body: generation(body) == generation(before) + 1)
        await ticks(running)
        assert await desk.find(POLICIES, "web") == repeated
        await desk.patch("echo", "web", spec={"replicas": 2})
        await desk.until(POLICIES, "web", lambda body: body["metadata"]["labels"]["replicas"] == "2")

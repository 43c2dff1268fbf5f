"""The variables of docs/operation.md give each pod of a StatefulSet its shard."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import yaml

from ssa_operator.objects.shards import Shard, coverage
from tests.conftest import Kubectl
from tests.docs.blocks.pages import blocks
from tests.operator.harness import ROOT

(BLOCK,) = (block for block in blocks("docs/operation.md") if "SSA_OPERATOR_SHARD" in block.text)

REPLICAS = 4


def stateful_set(namespace: str) -> dict[str, Any]:
    """The Deployment of deploy/base as a StatefulSet with the variables of the page."""
    body: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "base" / "deployment.yaml").read_text())
    body["kind"] = "StatefulSet"
    body["metadata"]["namespace"] = namespace
    del body["spec"]["strategy"]
    body["spec"] |= {"replicas": REPLICAS, "serviceName": "ssa-operator", "podManagementPolicy": "Parallel"}
    body["spec"]["template"]["spec"]["containers"][0]["env"] += BLOCK.value["env"]
    return body


@pytest.mark.cluster
@pytest.mark.slow
async def test_the_pods_are_the_shards_of_all_parents(kubectl: Kubectl, namespace: str) -> None:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "ssa-operator", "namespace": namespace},
    }
    items = {"apiVersion": "v1", "kind": "List", "items": [account, stateful_set(namespace)]}
    await asyncio.to_thread(kubectl, "apply", "-f", "-", input=json.dumps(items))
    wait = ("wait", "statefulset/ssa-operator", f"--for=jsonpath={{.status.readyReplicas}}={REPLICAS}", "--timeout=90s")
    await asyncio.to_thread(kubectl, f"--namespace={namespace}", *wait)
    text = await asyncio.to_thread(kubectl, f"--namespace={namespace}", "get", "pods", "--output=json")
    values = {each["name"]: each for each in BLOCK.value["env"]}
    path = values["POD_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"]
    label = path.removeprefix("metadata.labels['").removesuffix("']")
    shards = [
        # As the kubelet does.
        Shard.parse(values["SSA_OPERATOR_SHARD"]["value"].replace("$(POD_INDEX)", pod["metadata"]["labels"][label]))
        for pod in json.loads(text)["items"]
    ]
    assert len(shards) == REPLICAS
    assert coverage(shards).text == ""

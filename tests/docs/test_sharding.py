"""The StatefulSet of docs/sharding.md gives each pod its shard."""

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

(BLOCK,) = blocks("docs/sharding.md")


def stateful_set() -> dict[str, Any]:
    body: dict[str, Any] = BLOCK.value
    return body


def container() -> dict[str, Any]:
    found: dict[str, Any] = stateful_set()["spec"]["template"]["spec"]["containers"][0]
    return found


def test_the_container_is_that_of_the_deployment_but_for_the_shard() -> None:
    deployment = yaml.safe_load((ROOT / "deploy" / "base" / "deployment.yaml").read_text())
    (base,) = deployment["spec"]["template"]["spec"]["containers"]
    own = container()
    shard = [each for each in own["env"] if each["name"] in ("POD_INDEX", "SSA_OPERATOR_SHARD")]
    assert [each["name"] for each in shard] == ["POD_INDEX", "SSA_OPERATOR_SHARD"]
    assert {**own, "env": [each for each in own["env"] if each not in shard]} == base


@pytest.mark.cluster
@pytest.mark.slow
async def test_the_pods_are_the_shards_of_all_parents(kubectl: Kubectl, namespace: str) -> None:
    body = stateful_set()
    body["metadata"]["namespace"] = namespace
    replicas = body["spec"]["replicas"]
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "ssa-operator", "namespace": namespace},
    }
    items = {"apiVersion": "v1", "kind": "List", "items": [account, body]}
    await asyncio.to_thread(kubectl, "apply", "-f", "-", input=json.dumps(items))
    wait = ("wait", "statefulset/ssa-operator", f"--for=jsonpath={{.status.readyReplicas}}={replicas}", "--timeout=90s")
    await asyncio.to_thread(kubectl, f"--namespace={namespace}", *wait)
    text = await asyncio.to_thread(kubectl, f"--namespace={namespace}", "get", "pods", "--output=json")
    values = {each["name"]: each for each in container()["env"]}
    path = values["POD_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"]
    label = path.removeprefix("metadata.labels['").removesuffix("']")
    shards = [
        # As the kubelet does.
        Shard.parse(values["SSA_OPERATOR_SHARD"]["value"].replace("$(POD_INDEX)", pod["metadata"]["labels"][label]))
        for pod in json.loads(text)["items"]
    ]
    assert len(shards) == replicas
    assert coverage(shards).text == ""

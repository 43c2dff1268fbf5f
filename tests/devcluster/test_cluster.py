"""What a user of the local control plane notices, on the real one."""

from __future__ import annotations

import json

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.conftest import Kubectl

pytestmark = pytest.mark.cluster


def test_a_new_cluster_has_its_default_namespace_and_two_ready_nodes(cluster: Cluster, kubectl: Kubectl) -> None:
    assert kubectl("get", "namespace", "default", "--output=name") == "namespace/default\n"
    nodes = json.loads(kubectl("get", "nodes", "--output=json"))["items"]
    conditions = [condition for node in nodes for condition in node["status"]["conditions"]]
    assert [condition["status"] for condition in conditions if condition["type"] == "Ready"] == ["True", "True"]


async def test_a_job_completes(namespace: str, kubectl: Kubectl) -> None:
    kubectl("create", "job", "work", "--image=none", f"--namespace={namespace}")
    kubectl("wait", "job/work", "--for=condition=Complete", "--timeout=30s", f"--namespace={namespace}")

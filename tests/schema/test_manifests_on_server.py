"""`check` gives the API server's verdict on objects of built-in kinds, and on mutations of each of their fields."""

from __future__ import annotations

import sys

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.rendering.folder.object_files import objects
from tests.manifest_comparison import Trial, compare, mutated
from tests.schema.built_in_objects import OBJECTS

pytestmark = pytest.mark.cluster

FREQUENT = (
    "Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Service", "Ingress",
    "HorizontalPodAutoscaler", "PodDisruptionBudget", "PersistentVolumeClaim", "ConfigMap", "Secret", "Role",
    "ClusterRole", "RoleBinding", "ClusterRoleBinding",
)  # fmt: skip
"""The kinds of which `check` finds 70 % of the mistakes without an API server."""

BODIES = [each.body for each in objects(OBJECTS, "all.yaml")]


async def test_valid_objects_of_built_in_kinds_have_no_errors(client: Client) -> None:
    result = await compare(client, [Trial("valid", str(body), body) for body in BODIES])
    assert result.total("refused") == 0
    assert not result.alarms, "\n".join(result.alarms)


@pytest.mark.exhaustive
async def test_mutations_are_refused_as_by_the_api_server(client: Client) -> None:
    frequent = await compare(client, mutated(each for each in BODIES if each["kind"] in FREQUENT))
    others = await compare(client, mutated(each for each in BODIES if each["kind"] not in FREQUENT))
    for result in (frequent, others):
        sys.stdout.write(f"{result}\n")
        assert not result.alarms, "\n".join(result.alarms)
        assert not result.missed, "\n".join(result.missed)
    assert frequent.total("missed alone") <= frequent.total("refused") * 0.3

"""ClusterRoles with an aggregationRule: a controller of Kubernetes fills their rules, and the operator leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operator.harness import ECHOES, ROLES, Desk, Operate, echo, is_ready, only

pytestmark = pytest.mark.cluster

AGGREGATED = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-all
aggregationRule:
  clusterRoleSelectors: [{matchLabels: {part-of: "{{ namespace }}"}}]
rules: []
"""
PART = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-part
  labels: {part-of: "{{ namespace }}"}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get]}
"""


async def test_the_rules_of_an_aggregated_role_stay_though_its_manifest_has_an_empty_list(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, all=AGGREGATED, part=PART)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    name = f"{desk.namespace}-all"
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        before = await desk.until(ROLES, name, lambda role: role.get("rules"))
        for moment in ("first", "second"):
            running.forget()
            await desk.patch("echo", "web", metadata={"annotations": {"ssa-operator.dev/reconcile-at": moment}})
            await running.reconciled(1)
            now = await desk.find(ROLES, name)
            assert now is not None
            assert (now["rules"], now["metadata"]["resourceVersion"]) == (
                before["rules"],
                before["metadata"]["resourceVersion"],
            )
        assert is_ready(await desk.read(ECHOES, "web"))
        await desk.delete("echo", "web")

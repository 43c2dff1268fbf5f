"""Rules about fields that the control plane writes, as values."""

from __future__ import annotations

import pytest

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.tools.checks.codes import CODES
from ssa_operator.tools.checks.field_rules import check_control_plane_fields, scale_path
from ssa_operator.tools.findings import Finding

ROLE = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all}
aggregationRule:
  clusterRoleSelectors: [{matchLabels: {part-of: all}}]
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get]}
"""
WEB = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
"""
HPA = """---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaler}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 5
"""
SCALED = """---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: scaler}
spec:
  scaleTargetRef: {name: web}
"""
SHARDS: dict[GroupKind, FieldPath] = {GroupKind("a.example.com", "Cache"): ("spec", "size")}


def check(text: str, scale_paths: dict[GroupKind, FieldPath] = SHARDS) -> list[Finding]:
    return check_control_plane_fields(objects(text, "all.yaml"), "default", scale_paths)


def lines(text: str) -> list[tuple[str, int]]:
    return [(each.code, each.location.line) for each in check(text) if each.location is not None]


def test_rules_beside_an_aggregation_rule_are_found_at_their_line() -> None:
    assert lines(ROLE) == [("server-field", 6)]
    assert "spec" not in str(check(ROLE)[0])


@pytest.mark.parametrize(
    "text",
    [
        ROLE.partition("rules:")[0],
        ROLE.partition("rules:")[0] + "rules: []\n",
        ROLE.replace("aggregationRule:\n  clusterRoleSelectors: [{matchLabels: {part-of: all}}]\n", ""),
        ROLE.replace("rbac.authorization.k8s.io", "other.example.com"),
        ROLE.replace("{name: all}", "{name: all, annotations: {ssa-operator.dev/apply: IfNotPresent}}"),
    ],
    ids=["no rules", "no rule", "no aggregation", "another kind", "applied only if absent"],
)
def test_a_role_that_nothing_else_fills_is_no_finding(text: str) -> None:
    assert check(text) == []


@pytest.mark.parametrize(
    "text",
    [
        WEB + HPA,
        WEB + HPA.replace("autoscaling/v2", "autoscaling/v1"),
        WEB + HPA.replace("apps/v1", "apps/v1beta1"),
        WEB + SCALED,
        WEB.replace("Deployment", "StatefulSet") + SCALED.replace("{name: web}", "{name: web, kind: StatefulSet}"),
        WEB.replace("{name: web}", "{name: web, namespace: default}") + HPA,
        WEB.replace("replicas: 2", "replicas: 0") + HPA,
    ],
    ids=[
        "HPA",
        "HPA of v1",
        "another version of the target",
        "ScaledObject",
        "ScaledObject of another kind",
        "with its namespace",
        "no replica",
    ],
)
def test_replicas_beside_an_autoscaler_are_found_at_their_line_with_the_autoscalers(text: str) -> None:
    [found] = check(text)
    assert found.location is not None
    assert (found.code, found.location.line) == ("server-field", 5)
    assert found.code in CODES
    target = next(number for number, line in enumerate(text.splitlines(), 1) if "scaleTargetRef" in line)
    assert f" scaler (all.yaml:{target}) scales the object" in found.message


def test_a_custom_kind_is_scaled_by_the_field_of_its_scale_subresource() -> None:
    cache = "apiVersion: a.example.com/v1\nkind: Cache\nmetadata: {name: web}\nspec:\n  replicas: 1\n  size: 2\n"
    scaler = HPA.replace("apps/v1, kind: Deployment", "a.example.com/v1, kind: Cache")
    assert lines(cache + scaler) == [("server-field", 6)]
    assert check(cache + scaler, {GroupKind("a.example.com", "Cache"): ()}) == []
    version = {"subresources": {"scale": {"specReplicasPath": ".spec.size"}}}
    assert scale_path({"spec": {"versions": [{"subresources": {}}, version]}}) == ("spec", "size")
    assert scale_path({"spec": {"versions": [{}]}}) == ()


@pytest.mark.parametrize(
    "text",
    [
        WEB.replace("  replicas: 2", "  minReadySeconds: 2") + HPA,
        WEB + HPA.replace("name: web", "name: other"),
        WEB + HPA.replace("kind: Deployment", "kind: StatefulSet"),
        WEB + HPA.replace("apps/v1", "other.example.com/v1"),
        WEB + HPA.replace("{name: scaler}", "{name: scaler, namespace: other}"),
        WEB.replace("{name: web}", "{name: web, annotations: {ssa-operator.dev/apply: Once}}") + HPA,
        WEB + HPA.replace("scaleTargetRef", "targetRef"),
    ],
    ids=["no replicas", "another name", "another kind", "another group", "another namespace", "once", "no scaler"],
)
def test_replicas_that_no_autoscaler_changes_are_no_finding(text: str) -> None:
    assert check(text) == []


def test_a_manifest_of_any_shape_raises_no_error() -> None:
    for scaler in (
        HPA.replace("{apiVersion: apps/v1, kind: Deployment, name: web}", "[1]"),
        HPA.replace("apps/v1", "[1]").replace("name: web", "name: {a: b}"),
        HPA.partition("spec:")[0] + "spec: 1\n",
    ):
        assert check(WEB + scaler) == []
    assert check("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules: 1\n") == []

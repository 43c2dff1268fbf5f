"""Manifests against the schemas of their kinds: Kubernetes' own and those of CRDs."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.rendering.folder.object_files import load_objects, objects
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas, schemas_from_openapi
from ssa_operator.tools.findings import Edit, Finding, Severity
from ssa_operator.tools.schema_rules import bundled_schemas, check_schemas
from tests.operator.harness import ROOT

SCHEMAS = bundled_schemas(KUBERNETES_VERSION).with_crds(each.body for each in load_objects([ROOT / "crds"]))

POD = """apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  restartPolicy: Never
  containers:
    - name: web
      image: nginx:1.27
      ports:
        - containerPort: 80
"""
ECHO = "apiVersion: example.com/v1\nkind: Echo\nmetadata: {name: echo}\nspec:\n  replicas: 1\n"


def findings(text: str, schemas: KubernetesSchemas = SCHEMAS) -> list[Finding]:
    return check_schemas(objects(text, "a.yaml"), schemas)


@pytest.mark.parametrize(
    ("items", "code", "message"),
    [
        ("[a, b, a]", "duplicate-item", "spec.items[2] is the same as another item"),
        ("[a, {b: c}]", "invalid-value", "spec.items[1] is a mapping, and an apply takes none in a list of type set"),
        ("[[a]]", "invalid-value", "spec.items[0] is a list"),
        ("[a, null]", "invalid-value", "spec.items[1] is null"),
    ],
)
def test_what_no_apply_takes_in_a_list_of_type_set_is_found(items: str, code: str, message: str) -> None:
    items_schema = {"type": "array", "x-kubernetes-list-type": "set", "items": {}}
    spec = {"type": "object", "properties": {"items": items_schema}}
    crd = {
        "spec": {
            "group": "a.example.com",
            "names": {"kind": "Bag"},
            "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}}],
        }
    }
    text = f"apiVersion: a.example.com/v1\nkind: Bag\nmetadata: {{name: a}}\nspec:\n  items: {items}\n"
    (found,) = findings(text, SCHEMAS.with_crds([crd]))
    assert (found.code, found.message[: len(message)]) == (code, message)


@pytest.mark.parametrize(
    ("before", "after", "code", "line", "message", "fix"),
    [
        ("image:", "imagee:", "unknown-field", 10, "no field spec.containers[0].imagee", "image?"),
        ("restartPolicy:", "restartpolicy:", "unknown-field", 7, "no field spec.restartpolicy", "restartPolicy?"),
        ("labels:", "label:", "unknown-field", 5, "no field metadata.label", "labels?"),
        ("Port: 80", "Port: '80'", "invalid-value", 12, "must be a whole number, and this is a string", "int"),
        ("nginx:1.27", "1.27", "invalid-value", 10, "must be a string, and this is", "quotes"),
        ("Never", "never", "invalid-value", 7, "is never, and must be Always or Never or OnFailure", "Never?"),
        ("    - name: web\n      ", "    - ", "missing-field", 9, "spec.containers[0].name is missing", ""),
        ("kind: Pod", "kind: Pods", "unknown-kind", 2, "no Pods in v1", "did you mean Pod?"),
        ("apiVersion: v1", "apiVersion: apps/v1", "unknown-kind", 1, "no Pod in apps/v1", "it is in v1"),
        ("spec:\n", "spec:\n  serviceAccount: a\n", "deprecated", 7, "spec.serviceAccount is deprecated", ""),
        (
            "containerPort: 80\n",
            "containerPort: 80\n        - {containerPort: 80, protocol: TCP}\n",
            "duplicate-item",
            13,
            "spec.containers[0].ports[1] has the same containerPort and protocol",
            "",
        ),
    ],
)
def test_a_mistake_is_found_in_its_line(before: str, after: str, code: str, line: int, message: str, fix: str) -> None:
    assert before in POD
    found = [each for each in findings(POD.replace(before, after, 1)) if each.code == code]
    assert message in found[0].text
    assert found[0].location is not None
    assert found[0].location.line == line
    assert fix in found[0].fix


def test_a_valid_manifest_has_no_findings() -> None:
    assert findings(POD) == []


def test_a_name_that_differs_in_case_is_corrected_and_another_one_only_suggested() -> None:
    (found, *_) = findings(POD.replace("image:", "Image:"))
    assert found.edits == (Edit(column=None, old="Image", new="image"),)
    (found, *_) = findings(POD.replace("image:", "imge:"))
    assert found.edits == ()


@pytest.mark.parametrize(
    ("api_version", "kind", "words"),
    [
        ("policy/v1beta1", "PodDisruptionBudget", "1.25 removed it"),
        ("extensions/v1beta1", "Ingress", "1.22 removed it"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "1.26 removed it"),
        ("app/v1", "Deployment", "no Deployment in app/v1"),
        ("example.com/v9", "Echo", "no Echo in example.com/v9"),
    ],
)
def test_an_api_version_that_is_gone_is_an_error(api_version: str, kind: str, words: str) -> None:
    (found,) = findings(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    assert (found.code, found.severity) == ("unknown-kind", Severity.ERROR)
    assert words in found.message


def test_a_deprecated_kind_is_a_warning() -> None:
    (found,) = findings("apiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\n")
    assert (found.code, found.severity) == ("deprecated", Severity.WARNING)


def test_a_kind_of_another_group_is_known_only_by_its_crd() -> None:
    assert findings("apiVersion: unknown.example.org/v1\nkind: Thing\nmetadata: {name: a}\nspec: {a: 1}\n") == []
    # The required field is not missing, too: it is the one that is written wrongly.
    (unknown,) = findings(ECHO.replace("replicas", "replcas"))
    assert unknown.fix == "did you mean replicas?"
    assert findings(ECHO) == []


def test_a_cluster_s_schemas_are_all_that_there_is() -> None:
    document = {
        "paths": {"/apis/a.b/v1/things/{name}": {"patch": {"x-kubernetes-group-version-kind": gvk("Thing")}}},
        "components": {
            "schemas": {
                "b.a.v1.Thing": {
                    "type": "object",
                    "properties": {
                        "apiVersion": {},
                        "kind": {},
                        "metadata": {},
                        "size": {"type": "integer", "description": "Deprecated: none."},
                    },
                    "x-kubernetes-group-version-kind": [gvk("Thing")],
                },
                "b.a.v1.ThingReview": {
                    "properties": {"metadata": {}},
                    "x-kubernetes-group-version-kind": [gvk("ThingReview")],
                },
            }
        },
    }
    schemas = schemas_from_openapi("1.30", [document])
    thing = "apiVersion: a.b/v1\nkind: Thing\nmetadata: {name: a}\nsize: 1\n"
    assert [each.code for each in findings(thing, schemas)] == ["deprecated"]
    # A review can't be applied.
    assert [each.code for each in findings(thing.replace("Thing", "ThingReview"), schemas)] == ["unknown-kind"]
    assert "the cluster has no Pod" in findings(POD, schemas)[0].message


def gvk(kind: str) -> dict[str, Any]:
    return {"group": "a.b", "version": "v1", "kind": kind}


def test_a_null_is_no_value_and_status_is_not_looked_at() -> None:
    assert findings(POD + "  nonsense: null\nstatus: {nonsense: 1}\n") == []
    (found,) = findings(POD.replace("- name: web", "- name: null"))
    assert found.code == "missing-field"


def test_no_value_of_a_secret_is_shown() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {password: {hidden: word}}\nimmutable: hidden\n"
    found = findings(text)
    assert [each.code for each in found] == ["invalid-value"] * 2
    assert "hidden" not in " ".join(f"{each} {each.fix}" for each in found)


@pytest.mark.parametrize(
    ("api_version", "kind", "field", "expected"),
    [
        ("v1", "Pod", "spec.volumes.emptyDir.sizeLimit", True),
        ("v1", "Pod", "spec.containers.resources.limits.example-com/thing", True),
        ("v1", "Pod", "spec.containers.env.valueFrom.resourceFieldRef.divisor", True),
        ("v1", "Pod", "metadata.labels.limits", False),
        ("v1", "Pod", "spec.containers.resources.limits", False),
        ("v1", "Pod", "spec.no.such.field", False),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "spec.metrics.pods.target.averageValue", True),
        ("resource.k8s.io/v1", "ResourceSlice", "spec.devices.capacity.memory.requestPolicy.validValues", True),
        ("v1", "ConfigMap", "data.limits", False),
        ("example.com/v1", "Echo", "spec.limits.memory", False),
    ],
)
def test_a_quantity_is_known_by_the_schema(api_version: str, kind: str, field: str, expected: bool) -> None:
    assert SCHEMAS.is_quantity(api_version, kind, field.split(".")) is expected

"""Rules about CRDs, as values."""

from __future__ import annotations

import pytest
import yaml

from ssa_operator.rendering.folder.object_files import load_objects, objects
from ssa_operator.tools.checks.crd_rules import check_crds
from ssa_operator.tools.findings import Finding
from tests.packaging.checkout import ROOT

CRD = (ROOT / "crds" / "echoes.example.com.yaml").read_text(encoding="utf-8")


def check(text: str) -> list[Finding]:
    return check_crds(objects(text, "crd.yaml"))


def test_the_crds_of_the_project_have_no_finding() -> None:
    folders = [ROOT / "crds", *sorted((ROOT / "examples").glob("*/crds"))]
    assert [str(each) for each in check_crds(load_objects(folders))] == []


@pytest.mark.parametrize(
    ("before", "after", "code", "message"),
    [
        ("      subresources:\n        status: {}\n", "", "crd-without-report", "has no status subresource in v1"),
        (
            "                conditions:\n",
            "                others:\n",
            "crd-without-report",
            "declares no status.conditions",
        ),
        ("x-kubernetes-list-type: map", "x-kubernetes-list-type: atomic", "crd-without-report", "is no list map"),
        (
            "      additionalPrinterColumns:",
            "      others:",
            "crd-without-report",
            "has no additionalPrinterColumns",
        ),
    ],
)
def test_what_users_would_miss_is_found(before: str, after: str, code: str, message: str) -> None:
    assert before in CRD
    (found,) = [each for each in check(CRD.replace(before, after, 1)) if each.code == code]
    assert message in found.message
    assert found.location is not None
    assert found.location.file == "crd.yaml"


def test_a_field_without_a_type_is_found_where_it_is_declared() -> None:
    text = CRD.replace("            spec:\n              type: object\n", "            spec:\n", 1)
    assert text != CRD
    (found,) = [each for each in check(text) if each.code == "crd-refused"]
    assert "spec has no type in v1" in found.message
    assert found.location is not None
    assert text.splitlines()[found.location.line - 1].strip() == "spec:"


SCALED = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fleets.example.com}
spec:
  group: example.com
  versions:
    - name: v1
      served: true
      subresources:
        scale: {specReplicasPath: .spec.workers.count, statusReplicasPath: .status.count}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              x-kubernetes-map-type: granular  # of the spec
              properties:
                workers:
                  type: object
                  x-kubernetes-map-type: granular  # of the workers
                  properties: {count: {type: integer}}
"""


@pytest.mark.parametrize(("mapping", "line"), [("spec", 17), ("workers", 21)])
def test_a_number_of_replicas_inside_of_an_atomic_mapping_is_found(mapping: str, line: int) -> None:
    text = SCALED.replace(f"granular  # of the {mapping}", "atomic")
    (found,) = [each for each in check(text) if each.code == "crd-atomic-replicas"]
    assert found.location is not None
    assert found.location.line == line
    assert f"{mapping} is atomic in v1; no other manager can own spec.workers.count" in found.message
    assert not [each for each in check(SCALED) if each.code == "crd-atomic-replicas"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("name: echoes.example.com", "name: echo.example.com", "which is echoes.example.com"),
        ("plural: echoes", "plural: Echoes", "spec.names.plural: Invalid value"),
        ("scope: Namespaced", "scope: Namespace", 'spec.scope: Unsupported value: "Namespace"'),
        (
            "type: integer\n                  format: int32\n                  min",
            "type: int\n                  min",
            'type of spec.replicas: Unsupported value: "int"',
        ),
        ("format: int32", 'default: "1"', "default of spec.replicas: Invalid value"),
    ],
)
def test_what_the_api_server_refuses_in_a_crd_is_one_finding(before: str, after: str, message: str) -> None:
    text = CRD.replace(before, after, 1)
    assert text != CRD
    (found,) = [each for each in check(text) if each.code == "crd-refused"]
    assert message in found.message
    assert found.location is not None
    assert after.splitlines()[0].strip() in text.splitlines()[found.location.line - 1]


def test_a_required_field_that_is_not_declared_is_found_with_the_one_that_is_meant() -> None:
    text = CRD.replace("required: [replicas]", "required: [replcas]", 1)
    (found,) = [each for each in check(text) if each.code == "crd-refused"]
    assert "requires spec.replcas in v1, and doesn't declare it" in found.message
    assert found.fix == "did you mean replicas?"


def test_required_fields_of_a_list_mean_nothing() -> None:
    definition = yaml.safe_load(CRD)
    (version,) = definition["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["ports"] = {"type": "array", "items": {"type": "object"}, "required": ["port"]}
    assert "crd-refused" not in {each.code for each in check(yaml.safe_dump(definition))}

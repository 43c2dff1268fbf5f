"""Which refusals are about an immutable field.

Those of the real API server are in immutability.yaml.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.identity import GroupKind
from ssa_operator.reconcile.immutable_fields import changed_field, immutable_fields, is_about_name

STATEFUL_SET = "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden"


def immutable_field(*arguments: Any) -> str:
    """The first immutable field, '' without one."""
    return next(iter(immutable_fields(*arguments)), "")


@pytest.mark.parametrize(
    ("group", "kind", "field", "message"),
    [
        ("apps", "Deployment", "spec.selector", "Invalid value: ...: field is immutable"),
        ("apps", "StatefulSet", "spec", STATEFUL_SET),
        ("batch", "Job", "spec.template", "Invalid value: ...: field is immutable"),
        ("", "PersistentVolumeClaim", "spec", "Forbidden: spec is immutable after creation except resources.requests"),
        ("", "Service", "spec.clusterIPs[0]", 'Invalid value: ["10.0.0.9"]: may not change once set'),
        ("", "Secret", "type", "Invalid value: ...: field is immutable"),
        ("", "ConfigMap", "data", "Forbidden: field is immutable when `immutable` is set"),
        ("rbac.authorization.k8s.io", "RoleBinding", "roleRef", "Invalid value: ...: cannot change roleRef"),
        ("", "Pod", "spec", "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"),
        ("storage.k8s.io", "StorageClass", "provisioner", "Forbidden: updates to provisioner are forbidden."),
        ("a.example.com", "Thing", "spec.version", "Invalid value: version is immutable"),
        ("a.example.com", "Thing", "spec", "Invalid value: Immutable once it is set"),
    ],
)
def test_an_immutable_field_is_named(group: str, kind: str, field: str, message: str) -> None:
    assert immutable_field(GroupKind(group, kind), [FieldRefusal("", ""), FieldRefusal(field, message)]) == field


@pytest.mark.parametrize(
    ("group", "kind", "field", "message"),
    [
        ("apps", "Deployment", "spec.replicas", "Invalid value: -1: must be greater than or equal to 0"),
        ("apps", "Deployment", "metadata.uid", 'Invalid value: "x": field is immutable'),
        (
            "",
            "PersistentVolumeClaim",
            "spec.resources.requests.storage",
            "Forbidden: field can not be less than status.capacity",
        ),
        ("", "Service", "spec.ports[0].port", "Invalid value: 0: must be between 1 and 65535"),
        ("", "Secret", "data[immutable]", "Invalid value: field is immutable"),
        ("networking.k8s.io", "Ingress", "spec.rules", "Invalid value: immutable"),
        ("a.example.com", "Thing", "spec.size", "Invalid value: 3: should be less than or equal to 2"),
        ("a.example.com", "Thing", "metadata.name", "Invalid value: immutable"),
    ],
)
def test_any_other_refusal_is_not_about_an_immutable_field(group: str, kind: str, field: str, message: str) -> None:
    assert immutable_field(GroupKind(group, kind), [FieldRefusal(field, message)]) == ""


THING = GroupKind("a.example.com", "Thing")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
)


@pytest.mark.exhaustive
@given(VALUES)
def test_a_quoted_value_is_no_part_of_the_detail(value: Any) -> None:
    assert (
        FieldRefusal("spec", f"Invalid value: {json.dumps(value)}: field is immutable").detail == "field is immutable"
    )


@pytest.mark.exhaustive
@given(VALUES)
def test_a_value_never_counts_as_the_message_of_a_refusal(value: Any) -> None:
    quoted = json.dumps([value, "x: field is immutable"])
    for message in (
        f"Invalid value: {quoted}",
        f"Invalid value: {quoted}: must be shorter",
        f"Duplicate value: {quoted}",
    ):
        assert immutable_field(GroupKind("apps", "Deployment"), [FieldRefusal("spec.selector", message)]) == ""


def test_a_value_as_older_servers_quote_it_does_not_hide_the_message() -> None:
    message = 'Invalid value: v1.LabelSelector{MatchLabels:map[string]string{"a":"b"}}: field is immutable'
    assert immutable_field(GroupKind("apps", "Deployment"), [FieldRefusal("spec.selector", message)]) == "spec.selector"


@pytest.mark.parametrize(
    ("kind", "field", "message"),
    [
        (GroupKind("future.k8s.io", "New"), "spec.a", "Invalid value: 1: field is immutable"),
        (GroupKind("", "Future"), "spec.a", "Invalid value: null: field cannot be modified once set"),
        (GroupKind("apps", "Deployment"), "spec.selector", "Invalid value: field is immutable"),
    ],
)
def test_the_general_messages_of_kubernetes_count_for_every_kind(kind: GroupKind, field: str, message: str) -> None:
    assert immutable_field(kind, [FieldRefusal(field, message)]) == field


def validated(*rules: dict[str, Any]) -> dict[str, Any]:
    field = {"type": "string", "x-kubernetes-validations": list(rules)}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": field}}}}


SAME = {"rule": "self == oldSelf", "message": "stays"}
BELOW = {"rule": "self != 'oldSelf'", "message": "immutable things are named otherwise"}


@pytest.mark.parametrize(
    ("rules", "message", "field"),
    [
        ([SAME], 'Invalid value: "b": stays', "spec.a"),
        ([SAME], 'Invalid value: "object": no such key: a evaluating rule: stays', "spec.a"),
        ([SAME], 'Invalid value: "b": something else', ""),
        ([BELOW], 'Invalid value: "b": immutable things are named otherwise', ""),
        ([SAME, BELOW], 'Invalid value: "b": stays', "spec.a"),
        ([SAME, BELOW], 'Invalid value: "b": immutable things are named otherwise', ""),
        ([SAME, {**BELOW, "message": "stays"}], 'Invalid value: "b": stays', ""),
        ([{**SAME, "messageExpression": "'x'"}], 'Invalid value: "b": x', "spec.a"),
        ([{**SAME, "messageExpression": "'x'"}, BELOW], 'Invalid value: "b": x', "spec.a"),
        ([{**SAME, "messageExpression": "'x'"}, {**BELOW, "messageExpression": "'x'"}], 'Invalid value: "b": x', ""),
        ([{"rule": "self == oldSelf"}], 'Invalid value: "b": failed rule: self == oldSelf', "spec.a"),
        ([{**SAME, "reason": "FieldValueForbidden"}], "Forbidden: stays", "spec.a"),
        ([{**SAME, "reason": "FieldValueForbidden"}], 'Invalid value: "b": stays', ""),
        ([{**SAME, "reason": "FieldValueDuplicate"}], 'Duplicate value: "b"', "spec.a"),
        ([SAME], "Invalid value", ""),
        ([SAME], "Invalid value: \"b\": spec.a in body should match '^immutable$'", ""),
        ([SAME], 'Unsupported value: "b": supported values: "immutable"', ""),
        # An admission webhook with the field among its causes.
        ([SAME], "Forbidden: the a is immutable", "spec.a"),
    ],
)
def test_the_schema_of_a_crd_decides(rules: list[dict[str, Any]], message: str, field: str) -> None:
    assert immutable_field(THING, [FieldRefusal("spec.a", message)], validated(*rules)) == field


def test_a_kind_of_a_crd_in_a_group_of_kubernetes_is_judged_by_its_schema() -> None:
    kind = GroupKind("gateway.networking.k8s.io", "Gateway")
    assert immutable_field(kind, [FieldRefusal("spec.a", 'Invalid value: "b": stays')], validated(SAME)) == "spec.a"


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ("self.spec.a == oldSelf.spec.a", "spec.a"),
        ("!has(oldSelf.spec.a) || self.spec.a == oldSelf.spec.a", "spec.a"),
        ("self.spec.a.size() == oldSelf.spec.a.size()", "spec.a"),
        ("self.spec.a == oldSelf.spec.a && self.spec.b == oldSelf.spec.b", "spec"),
        ("self.spec.a__dash__b == oldSelf.spec.a__dash__b", "spec.a-b"),
        ("self.spec.__namespace__ == oldSelf.spec.__namespace__", "spec.namespace"),
        ("self == oldSelf", "spec"),
    ],
)
def test_a_rule_for_the_whole_object_names_the_field_that_it_compares(rule: str, field: str) -> None:
    schema = {"x-kubernetes-validations": [{"rule": rule, "message": "stays"}]}
    assert immutable_field(THING, [FieldRefusal("<nil>", "Invalid value: stays")], schema) == field


@pytest.mark.parametrize(
    ("wanted", "live", "field"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "spec.b"),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "spec.a.b[1]"),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1]}}, "spec.a.b"),
        ({"a": 1}, {"a": 1, "default": 2}, "spec"),
        ({"a": 1}, None, "spec"),
    ],
)
def test_the_changed_field_is_named(wanted: object, live: object, field: str) -> None:
    assert changed_field(THING, ["spec"], {"spec": wanted}, {"spec": live}) == field


def test_a_mutable_field_is_not_called_immutable() -> None:
    wanted = {"spec": {"replicas": 2, "template": {"a": "b"}, "serviceName": "b"}}
    live = {"spec": {"replicas": 1, "template": {"a": "a"}, "serviceName": "a"}}
    assert changed_field(GroupKind("apps", "StatefulSet"), ["spec"], wanted, live) == "spec.serviceName"


def test_a_field_is_named_as_manifests_write_it() -> None:
    service = GroupKind("", "Service")
    wanted = {"spec": {"clusterIP": "None"}}
    live = {"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}}
    assert changed_field(service, ["spec.clusterIPs[0]"], wanted, live) == "spec.clusterIP"
    assert changed_field(service, ["spec.ipFamilies[0]"], wanted, live) == "spec.ipFamilies[0]"


def test_a_refusal_of_the_name_is_told_apart() -> None:
    schema = {"x-kubernetes-validations": [{"rule": "self.metadata.name == 'only'", "message": "there is one"}]}
    assert is_about_name(FieldRefusal("metadata.name", 'Invalid value: "x-1": must be …'), "x-1", None)
    assert is_about_name(FieldRefusal("spec.template.labels", "Invalid value: {}: must be 'x-1'"), "x-1", None)
    assert is_about_name(FieldRefusal("<nil>", "Invalid value: there is one"), "x-1", schema)
    assert not is_about_name(FieldRefusal("<nil>", "Invalid value: there is one"), "x-1", None)
    assert not is_about_name(FieldRefusal("spec.a", "Invalid value: 1: must be 2"), "x-1", schema)

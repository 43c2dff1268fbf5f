"""How a document becomes the manifest that the operator applies, and the instructions in its annotations."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.annotations import AnnotationError, parse_annotations
from ssa_operator.objects.live_object import PARENT_UID_LABEL
from ssa_operator.objects.manifest import ManifestError, may_own
from tests.objects.example_objects import PARENT_UID, config_map, made, parent

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


def nulls_in_mappings(value: object) -> bool:
    if isinstance(value, dict):
        return any(item is None or nulls_in_mappings(item) for item in value.values())
    return isinstance(value, list) and any(nulls_in_mappings(item) for item in value)


def test_a_child_carries_the_labels_and_a_controller_reference() -> None:
    body = made(config_map()).body
    assert body["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "ssa-operator", PARENT_UID_LABEL: PARENT_UID}
    assert body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "example.com/v1",
            "kind": "Echo",
            "name": "web",
            "uid": PARENT_UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_a_namespaced_manifest_gets_its_parents_namespace() -> None:
    assert made(config_map()).body["metadata"]["namespace"] == "default"


@given(json_values)
def test_no_null_field_is_sent(value: object) -> None:
    assert not nulls_in_mappings(made(config_map(data=value, extra=None)).body)


def test_fields_that_the_api_server_owns_are_not_sent() -> None:
    noise = {"resourceVersion": "1", "managedFields": [], "creationTimestamp": "x", "uid": "y", "generation": 3}
    body = made(config_map(metadata=noise, status={"a": 1})).body
    assert "status" not in body
    assert not noise.keys() & body["metadata"].keys()


def test_the_document_is_not_changed() -> None:
    body = config_map(metadata={"annotations": {"ssa-operator.dev/wait": "false"}}, a=None)
    made(body)
    assert body == config_map(metadata={"annotations": {"ssa-operator.dev/wait": "false"}}, a=None)


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({}, ["Ingress"]),
        ({"ingress": [{}]}, ["Ingress"]),
        ({"egress": [{}]}, ["Ingress", "Egress"]),
        ({"egress": []}, ["Ingress"]),
        ({"egress": [{}], "policyTypes": ["Egress"]}, ["Egress"]),
    ],
)
def test_a_network_policy_gets_the_default_types_of_its_rules(spec: dict[str, Any], types: list[str]) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "a"},
        "spec": {"podSelector": {}, **spec},
    }
    assert made(policy).body["spec"]["policyTypes"] == types


def test_ports_get_their_default_protocol() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]},
    }
    assert [port["protocol"] for port in made(service).body["spec"]["ports"]] == ["TCP", "UDP"]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("v1 Pod", ("spec",)),
        ("apps/v1 Deployment", ("spec", "template", "spec")),
        ("batch/v1 CronJob", ("spec", "jobTemplate", "spec", "template", "spec")),
    ],
)
def test_container_ports_and_quantities_are_written_out_wherever_the_pod_is(kind: str, path: tuple[str, ...]) -> None:
    pod: dict[str, object] = {
        "containers": [{"name": "a", "ports": [{"containerPort": 1}], "resources": {"limits": {"cpu": 1}}}]
    }
    for part in reversed(path):
        pod = {part: pod}
    api_version, name = kind.split()
    found = made({"apiVersion": api_version, "kind": name, "metadata": {"name": "a"}, **pod}).body
    for part in path:
        found = found[part]
    assert found["containers"] == [
        {"name": "a", "ports": [{"containerPort": 1, "protocol": "TCP"}], "resources": {"limits": {"cpu": "1"}}}
    ]


def test_string_data_becomes_data() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a"},
        "data": {"kept": "eA=="},
        "stringData": {"password": "p€ss"},
    }
    body = made(secret).body
    assert "stringData" not in body
    assert body["data"]["kept"] == "eA=="
    assert base64.b64decode(body["data"]["password"]).decode() == "p€ss"


def test_data_of_a_secret_that_is_not_base64_is_named() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"word": "p&ss"}}
    with pytest.raises(ManifestError, match=r"data\.word that is not base64; write it with `\| b64encode`"):
        made(secret)


def test_a_value_that_json_cannot_hold_names_its_field() -> None:
    with pytest.raises(ManifestError, match=r"data\.a"):
        made(config_map(data={"a": "\ud800"}))


@pytest.mark.parametrize(
    ("parent_namespace", "child_namespace", "legal"),
    [("", "", True), ("", "a", True), ("a", "a", True), ("a", "b", False), ("a", "", False)],
)
def test_an_owner_is_in_the_same_namespace_or_cluster_scoped(
    parent_namespace: str, child_namespace: str, legal: bool
) -> None:
    assert may_own(parent_namespace, child_namespace) is legal


def test_a_child_in_another_namespace_is_refused_with_the_setting_that_allows_it() -> None:
    with pytest.raises(ManifestError, match=r"outside its parent's namespace default.*clusterScope: true"):
        made(config_map(metadata={"namespace": "other"}))


def test_a_cluster_scoped_child_of_a_namespaced_parent_is_refused() -> None:
    with pytest.raises(ManifestError, match="clusterScope: true"):
        made({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}, namespaced=False)


KEEP = {"annotations": {"ssa-operator.dev/prune": "false"}}


def test_where_no_owner_is_legal_and_the_folder_allows_it_there_is_no_owner_reference() -> None:
    found = made(config_map(metadata={"namespace": "other", **KEEP}), cluster_scope=True)
    assert not found.owned
    assert "ownerReferences" not in found.body["metadata"]


def test_a_child_that_kubernetes_does_not_collect_needs_a_record_unless_it_stays_when_its_parent_goes() -> None:
    assert made(config_map(metadata={"namespace": "other"}), cluster_scope=True).deleted_by_operator
    assert not made(config_map(metadata={"namespace": "other", **KEEP}), cluster_scope=True).deleted_by_operator
    assert not made(config_map()).deleted_by_operator


def test_a_hook_has_no_owner_while_its_parents_dependents_are_being_collected() -> None:
    hook = config_map(metadata={"annotations": {"ssa-operator.dev/on": "finalize"}})
    assert made(hook).owned
    assert not made(hook, parent(finalizers=["foregroundDeletion"])).owned


def test_a_manifest_that_stays_when_its_parent_goes_has_no_owner() -> None:
    assert "ownerReferences" not in made(config_map(metadata=KEEP)).body["metadata"]


@pytest.mark.parametrize(
    ("uids", "annotations", "refused"),
    [
        (["u-9"], {}, "is controlled by Pod p-u-9 in its template, and its parent is its controller"),
        (["u-9"], KEEP, ""),
        (["u-8", "u-9"], KEEP, "is controlled by Pod p-u-8 and Pod p-u-9 in its template, and an object has one"),
        ([], {}, ""),
    ],
    ids=["beside the parent", "without the parent", "two", "none"],
)
def test_a_manifest_with_a_second_controller_is_refused(
    uids: list[str], annotations: dict[str, Any], refused: str
) -> None:
    plain = {"apiVersion": "v1", "kind": "Pod", "name": "plain", "uid": "u-1"}
    others = [{**plain, "name": f"p-{each}", "uid": each, "controller": True} for each in uids]
    body = config_map(metadata={"ownerReferences": [plain, *others], **annotations})
    if refused:
        with pytest.raises(ManifestError, match=refused):
            made(body)
    else:
        assert made(body).body["metadata"]["ownerReferences"][: len(others) + 1] == [plain, *others]


def test_under_a_cluster_scoped_parent_a_manifest_must_say_its_namespace() -> None:
    owner = parent(namespace=None)
    with pytest.raises(ManifestError, match=r"needs metadata\.namespace"):
        made(config_map(), owner)
    assert made(config_map(metadata={"namespace": "a"}), owner).owned


def test_a_cluster_scoped_manifest_with_a_namespace_is_refused() -> None:
    with pytest.raises(ManifestError, match="is cluster-scoped; remove"):
        made({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": "b"}}, namespaced=False)


def test_instructions_are_read_and_not_sent() -> None:
    annotations = {"ssa-operator.dev/wait": "false", "ssa-operator.dev/recreate": "Never", "mine": "kept"}
    found = made(config_map(metadata={"annotations": annotations}))
    assert (found.instructions.wait, found.instructions.recreate) == (False, "Never")
    assert found.body["metadata"]["annotations"] == {"mine": "kept"}


@pytest.mark.parametrize(
    ("annotation", "value", "hint"),
    [
        ("recrate", "Orphan", "did you mean ssa-operator.dev/recreate"),
        ("recreate", "orphan", "allowed are Never, Orphan, Foreground, Background"),
        ("prune", False, 'write "false" in quotes'),
        ("after", "x", "Kind/name"),
        ("on", "delete", "allowed are finalize"),
    ],
)
def test_a_misspelt_instruction_is_an_error_that_lists_what_is_allowed(
    annotation: str, value: object, hint: str
) -> None:
    with pytest.raises(ManifestError, match=hint):
        made(config_map(metadata={"annotations": {f"ssa-operator.dev/{annotation}": value}}))


def test_the_digest_changes_with_anything_that_is_sent() -> None:
    digests = {
        made(config_map()).digest,
        made(config_map(data={"a": "c"})).digest,
        made(config_map(), parent(uid="other")).digest,
        made(config_map(metadata={"labels": {"x": "y"}})).digest,
    }
    assert len(digests) == 4
    assert made(config_map()).digest == made(config_map()).digest


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"aggregationRule": {"clusterRoleSelectors": []}, "rules": []}, False),
        ({"aggregationRule": {"clusterRoleSelectors": []}, "rules": [{"verbs": ["get"]}]}, True),
        ({"aggregationRule": None, "rules": []}, True),
        ({"rules": []}, True),
    ],
)
def test_empty_rules_are_left_to_the_controller_that_aggregates_them(fields: dict[str, Any], sent: bool) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"}, **fields}
    assert ("rules" in made(role, namespaced=False, cluster_scope=True).body) is sent


def test_all_invalid_instructions_are_named_at_once() -> None:
    annotations = {"prune": "maybe", "applly": "Once", "recreate": "Never", "after": "web"}
    with pytest.raises(AnnotationError) as raised:
        parse_annotations({f"ssa-operator.dev/{name}": value for name, value in annotations.items()})
    assert str(raised.value).split("; annotation ") == [
        "annotation ssa-operator.dev/prune is 'maybe'; allowed are true, false",
        "ssa-operator.dev/applly is not an instruction of ssa-operator; did you mean ssa-operator.dev/apply?",
        """ssa-operator.dev/after has 'web'; write "Kind/name, Kind/name\"""",
    ]

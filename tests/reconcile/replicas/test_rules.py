"""The number of replicas that a manifest leaves to others: who owns it before and after."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import HANDOVER_MANAGER, MANAGER, LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.reconcile.parent_records.rules import (
    REPLICAS_ANNOTATION,
    ParentRecords,
    read_parent_records,
    texts_of,
    unreadable_records_message,
)
from ssa_operator.reconcile.replicas.rules import (
    OthersReplicas,
    ReplicasOwner,
    find_handover,
    last_replicas,
    others_replicas,
    with_replicas,
)
from tests.objects.example_objects import PARENT_UID, config_map, made

NUMBER: FieldPath = ("spec", "replicas")
TREE: dict[str, Any] = {"f:spec": {"f:replicas": {}, "f:image": {}}}
AUTOSCALER = ReplicasOwner("autoscaler", "Update", "scale")
HANDOVER = ReplicasOwner(HANDOVER_MANAGER, "Update")


def entry(manager: str, operation: str, tree: dict[str, Any], subresource: str = "", version: str = "v1") -> Any:
    found = {"manager": manager, "operation": operation, "apiVersion": f"apps/{version}", "fieldsType": "FieldsV1"}
    return found | {"fieldsV1": tree} | ({"subresource": subresource} if subresource else {})


def web(*entries: Any, replicas: Any = 3) -> LiveObject:
    metadata = {"name": "web", "uid": "u", "resourceVersion": "7", "managedFields": [*entries]}
    spec = {"image": "a", "replicas": replicas}
    return LiveObject.of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


def wanted(**spec: Any) -> Manifest:
    return made({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})


def paths(_: str) -> FieldPath:
    return NUMBER


OWN = entry(MANAGER, "Apply", TREE)


def test_a_number_that_only_the_operator_owns_goes_to_the_handover_manager_and_nothing_else_changes() -> None:
    live = web(OWN, entry("kubelet", "Update", {"f:status": {}}, "status"))
    handover = find_handover(wanted(image="b"), live, paths)
    assert handover is not None
    body = json.loads(handover.patch(live))
    assert body.keys() == {"metadata"}
    assert body["metadata"].keys() == {"resourceVersion", "managedFields"}
    assert body["metadata"]["resourceVersion"] == "7"
    own, status, other = body["metadata"]["managedFields"]
    assert own == OWN | {"fieldsV1": {"f:spec": {"f:image": {}}}}
    assert status["manager"] == "kubelet"
    assert other == entry(HANDOVER_MANAGER, "Update", {"f:spec": {"f:replicas": {}}})
    assert find_handover(wanted(image="b"), handover.patched(live), paths) is None


@pytest.mark.parametrize(
    ("spec", "live"),
    [
        pytest.param({"replicas": 3}, web(OWN), id="the manifest writes it"),
        pytest.param({"replicas": 0}, web(OWN), id="the manifest writes 0"),
        pytest.param({}, web(OWN, entry("kubectl", "Apply", TREE)), id="another manager owns it, too"),
        pytest.param({}, web(entry(MANAGER, "Apply", {"f:spec": {"f:image": {}}})), id="the operator doesn't own it"),
        pytest.param({}, web(entry(MANAGER, "Apply", {"f:spec": {}})), id="the operator owns the mapping as a whole"),
        pytest.param({}, web(), id="no managers"),
        pytest.param({}, web(OWN, replicas="three"), id="no number"),
        pytest.param({}, web(OWN, replicas=True), id="a boolean"),
    ],
)
def test_nothing_is_handed_over(spec: dict[str, Any], live: LiveObject) -> None:
    assert find_handover(wanted(**spec), live, paths) is None


def test_a_kind_without_the_subresource_scale_has_no_number() -> None:
    assert find_handover(wanted(), web(OWN), lambda _: None) is None
    assert others_replicas(wanted(), web(OWN), lambda _: None) is None


def test_the_field_has_the_name_of_the_version_in_which_the_operator_owns_it() -> None:
    old = entry(MANAGER, "Apply", {"f:spec": {"f:size": {}}}, version="v1beta1")
    named = {"v1": NUMBER, "v1beta1": ("spec", "size")}
    handover = find_handover(wanted(), web(old), named.get)
    assert handover is not None
    own, other = json.loads(handover.patch(web(old)))["metadata"]["managedFields"]
    assert own["fieldsV1"] == {}
    assert other == entry(HANDOVER_MANAGER, "Update", {"f:spec": {"f:size": {}}}, version="v1beta1")


@pytest.mark.parametrize(
    ("entries", "owners"),
    [
        ((), ()),
        ((OWN,), (HANDOVER,)),
        ((entry("autoscaler", "Update", TREE, "scale"),), (AUTOSCALER,)),
        ((OWN, entry("autoscaler", "Update", TREE, "scale")), (AUTOSCALER,)),
        ((entry(HANDOVER_MANAGER, "Update", TREE),), (HANDOVER,)),
    ],
)
@pytest.mark.parametrize("number", [0, 6])
def test_a_recreated_object_gets_the_number_and_its_owners(
    entries: tuple[Any, ...], owners: tuple[ReplicasOwner, ...], number: int
) -> None:
    kept = others_replicas(wanted(), web(*entries, replicas=number), paths)
    assert kept == OthersReplicas(number, owners)
    complete = with_replicas(wanted(image="b"), kept, paths)
    assert json.loads(complete.encoded)["spec"] == {"image": "b", "replicas": number}
    # It was created with the number, which the operator owns therefore.
    created = web(OWN, entry("autoscaler", "Update", {"f:status": {}}, "status"), replicas=number)
    handover = find_handover(wanted(image="b"), created, paths, kept)
    assert handover is not None
    left = others_replicas(wanted(), handover.patched(created), paths)
    assert left == kept


def test_a_number_in_the_manifest_of_a_recreated_object_wins() -> None:
    assert others_replicas(wanted(replicas=0), web(OWN), paths) is None
    manifest = wanted(replicas=0)
    assert with_replicas(manifest, OthersReplicas(6), paths) is manifest


def parent(annotation: str) -> LiveObject:
    body = config_map("parent")
    metadata = {**body["metadata"], "uid": PARENT_UID, "annotations": {REPLICAS_ANNOTATION: annotation}}
    return LiveObject.of({**body, "metadata": metadata})


def test_the_record_on_the_parent_has_the_number_and_its_owners() -> None:
    identity = Identity("apps", "Deployment", "default", "web")
    records = ParentRecords(replicas={identity: OthersReplicas(0, (AUTOSCALER, HANDOVER))})
    text = texts_of(records)[REPLICAS_ANNOTATION]
    assert read_parent_records(parent(text)) == records
    assert read_parent_records(parent("")) == replace(records, replicas={})


def test_a_forged_record_makes_the_operator_no_owner() -> None:
    owners = [{"manager": MANAGER, "operation": "Apply"}, {"manager": "a", "operation": "Update"}]
    text = json.dumps([{"kind": "Box", "name": "a", "replicas": 2, "owners": owners}])
    (kept,) = read_parent_records(parent(text)).replicas.values()
    assert kept == OthersReplicas(2, (ReplicasOwner("a", "Update"),))


@pytest.mark.parametrize(
    "forged",
    [
        {"replicas": -1},
        {"replicas": 2**31},
        {"replicas": "6"},
        {"replicas": 6, "owners": [{"manager": "a", "operation": "Own"}]},
        {"replicas": 6, "owners": [{"manager": "a" * 129, "operation": "Apply"}]},
        {"replicas": 6, "more": 1},
        {},
    ],
)
def test_a_record_that_the_api_server_would_refuse_is_unreadable(forged: dict[str, Any]) -> None:
    text = json.dumps([{"kind": "Box", "name": "a", **forged}])
    assert REPLICAS_ANNOTATION in str(unreadable_records_message(parent(text)))


def test_what_others_set_in_an_object_last_counts_if_its_end_was_seen() -> None:
    recorded, manifest = OthersReplicas(3, (AUTOSCALER,)), wanted(image="b")
    body = web(entry("other", "Update", {"f:spec": {"f:replicas": {}}}, "scale"), replicas=5).body
    ended = LiveObject.of(body | {"metadata": body["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    other = OthersReplicas(5, (ReplicasOwner("other", "Update", "scale"),))
    assert last_replicas(manifest, recorded, ended, paths) == other
    assert last_replicas(manifest, recorded, None, paths) == recorded
    assert last_replicas(manifest, recorded, LiveObject.of(body), paths) == recorded
    assert last_replicas(manifest, None, ended, paths) is None

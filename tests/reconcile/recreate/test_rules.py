"""Which objects the operator may delete and recreate, and the dry run that proves the new manifest valid."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.annotations import Recreate
from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest, ManifestError
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.child_memory import Recreation
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.recreate.rules import (
    grown_templates,
    growths,
    is_refused_again,
    may_have_left_pods,
    pod_to_replace,
    pods_to_adopt,
    probe,
    propagation,
    reason_to_keep,
    refusal_is_about_trial,
    was_left_by_former_parent,
)
from tests.objects.example_objects import OTHER_UID, child, config_map, config_map_identity, made, observed, rendered


def recreated(strategy: str = "Background", **fields: Any) -> dict[str, Any]:
    return config_map(metadata={"annotations": {"ssa-operator.dev/recreate": strategy}}, **fields)


def live_as(kind: str, api_version: str = "v1", **fields: Any) -> LiveObject:
    body = child().body
    return LiveObject.of({**body, "apiVersion": api_version, "kind": kind, "data": None, **fields})


def stateful_set(storage: str = "1Gi", strategy: str = "Orphan", **spec: Any) -> dict[str, Any]:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": storage}}}}
    metadata = {"name": "settings", "annotations": {"ssa-operator.dev/recreate": strategy}}
    spec = {"volumeClaimTemplates": [claim], **spec}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def claim(name: str, storage: str = "1Gi", **metadata: Any) -> LiveObject:
    spec = {"resources": {"requests": {"storage": storage}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, **metadata}, "spec": spec}
    return LiveObject.of(body)


@pytest.mark.parametrize(
    ("live", "words"),
    [
        (child(), ""),
        (child(owner=OTHER_UID), "not created for this parent"),
        (child(labels={}), "not created for this parent"),
        (child(managedFields=[]), "did not create it"),
        (child(managedFields=[{"manager": "kubectl", "operation": "Apply", "fieldsV1": {}}]), "did not create it"),
        (
            child(ownerReferences=[{"kind": "Other", "name": "x", "uid": "o", "controller": True}]),
            "it is controlled by Other x",
        ),
        (child(ownerReferences=[]), ""),
    ],
)
def test_only_an_object_that_the_operator_created_and_controls_may_be_deleted(live: LiveObject, words: str) -> None:
    why = reason_to_keep(made(recreated()), live)
    assert words in (why or "")
    assert bool(why) == bool(words)


def test_the_advice_to_delete_a_stateful_set_keeps_its_pods_and_volumes() -> None:
    live = live_as("StatefulSet", "apps/v1", metadata={**child().body["metadata"], "labels": {}})
    advice = (
        "delete it with `kubectl delete statefulset settings --cascade=orphan`, which keeps its pods and their volumes"
    )
    assert advice in str(reason_to_keep(made(stateful_set()), live))
    live = live_as("StatefulSet", "apps/v1", metadata={**child().body["metadata"], "managedFields": []})
    assert advice in str(reason_to_keep(made(stateful_set()), live))


@pytest.mark.parametrize("strategy", ["Orphan", "Background", "Foreground"])
def test_volumes_are_never_deleted_with_their_stateful_set(strategy: str) -> None:
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    body = stateful_set(strategy=strategy)
    assert bool(reason_to_keep(made(body), live_as("StatefulSet", "apps/v1", spec=policy))) == (strategy != "Orphan")
    assert not reason_to_keep(made(body), live_as("StatefulSet", "apps/v1", spec={}))


@pytest.mark.parametrize(
    ("api_version", "kind", "namespaced"),
    [
        ("v1", "PersistentVolumeClaim", True),
        ("v1", "PersistentVolume", False),
        ("v1", "Namespace", False),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", False),
    ],
)
def test_an_object_that_holds_data_or_other_objects_is_never_recreated(
    api_version: str, kind: str, namespaced: bool
) -> None:
    body = recreated("Orphan") | {"apiVersion": api_version, "kind": kind}
    with pytest.raises(ManifestError, match=f"a {kind} is never deleted and recreated"):
        made(body, namespaced=namespaced, cluster_scope=True)
    body = recreated("Never") | {"apiVersion": api_version, "kind": kind}
    assert made(body, namespaced=namespaced, cluster_scope=True)


@given(st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True), st.uuids())
def test_a_probe_has_another_legal_name(name: str, uid: object) -> None:
    manifest = made(recreated() | {"metadata": {"name": name}})
    probed = probe(manifest, child(uid=str(uid)))
    assert probed.name != name
    assert len(probed.name) <= max(len(name), 32)
    assert probed.name[0].isalpha()
    assert probed.name[-1].isalnum()
    sent = json.loads(probed.encoded)
    assert sent == {**manifest.body, "metadata": {**manifest.body["metadata"], "name": probed.name}}


def test_a_probe_leaves_out_values_that_only_the_old_object_can_hold() -> None:
    spec = {
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "healthCheckNodePort": 31000,
        "ports": [{"port": 1, "nodePort": 30001}, {"port": 2, "nodePort": 30002}],
    }
    held = {**spec, "ports": [{"port": 1, "nodePort": 30001}]}
    service = config_map() | {"kind": "Service", "data": None, "spec": spec}
    sent = json.loads(probe(made(service), live_as("Service", spec=held)).encoded)
    # Another Service may have the second port: the API server decides.
    ports = [{"port": 1, "protocol": "TCP"}, {"port": 2, "nodePort": 30002, "protocol": "TCP"}]
    assert sent["spec"] == {"ports": ports}
    headless = {"clusterIP": "None", "clusterIPs": ["None"]}
    service["spec"] = headless
    sent = json.loads(probe(made(service), live_as("Service", spec=headless)).encoded)
    assert sent["spec"] == headless


def test_a_refusal_that_is_not_about_the_name_disproves_the_manifest() -> None:
    probed = probe(made(recreated()), child())
    name = FieldRefusal("metadata.name", "Invalid value: …")
    assert refusal_is_about_trial(probed, [name], "", None)
    assert not refusal_is_about_trial(probed, [name, FieldRefusal("spec.a", "Required value")], "", None)
    assert not refusal_is_about_trial(
        probed, [], f'admission webhook "w" denied the request: {probed.name} is no name', None
    )


@pytest.mark.parametrize(
    ("message", "fits"),
    [
        (
            "exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=1, limited: count/jobs.batch=1",
            True,
        ),
        (
            "exceeded quota: q, requested: count/pods=1,pods=1, used: count/pods=1,pods=1, limited: pods=1",
            True,
        ),
        ("exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1", False),
        (
            "exceeded quota: q, requested: pods=1,limits.cpu=1, used: pods=1,limits.cpu=1, limited: pods=1",
            False,
        ),
        ("something else", False),
    ],
)
def test_a_quota_on_the_number_of_objects_disproves_nothing_but_one_on_their_size_does(
    message: str, fits: bool
) -> None:
    assert refusal_is_about_trial(probe(made(recreated()), child()), [], message, None) == fits


def test_volumes_grow_to_the_size_in_their_template() -> None:
    live = live_as("StatefulSet", "apps/v1", spec=stateful_set("1Gi")["spec"])
    grown = grown_templates(made(stateful_set("2Gi")), live)
    assert grown == {"data": "2Gi"}
    claims = [
        claim("data-settings-0"),
        claim("data-settings-12", "1.5Gi"),
        claim("data-settings-2", "2Gi"),
        claim("data-settings-3", "3Gi"),
        claim("data-settings-4", deletionTimestamp="2026-01-01T00:00:00Z"),
        claim("data-settings-x"),
        claim("data-settings-0-1"),
        claim("more-data-settings-0"),
        claim("logs-settings-0"),
    ]
    found = growths(live, grown, claims)
    assert [each.claim.identity.name for each in found] == ["data-settings-0", "data-settings-12"]
    assert json.loads(found[0].patch())["spec"] == {"resources": {"requests": {"storage": "2Gi"}}}


@pytest.mark.parametrize("storage", ["1Gi", "1024Mi", "500Mi", "much"])
def test_volumes_do_not_grow_if_their_template_requests_no_more(storage: str) -> None:
    live = live_as("StatefulSet", "apps/v1", spec=stateful_set("1Gi")["spec"])
    assert grown_templates(made(stateful_set(storage)), live) == {}
    assert grown_templates(made(recreated()), child()) == {}


SET = live_as("StatefulSet", "apps/v1", spec=stateful_set()["spec"])


def left(ordinal: int, *, volume: bool = False, ready: bool = True, owner: str = "", **metadata: Any) -> LiveObject:
    """A pod of SET, with its volume or without."""
    name = f"settings-{ordinal}"
    claims = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}] if volume else []
    owners = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "settings", "uid": owner or SET.uid}]
    return LiveObject.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "ownerReferences": [{**each, "controller": True} for each in owners],
                **metadata,
            },
            "spec": {"volumes": claims},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
        }
    )


@pytest.mark.parametrize(
    ("pods", "spec", "replaced"),
    [
        ((left(1), left(0)), {}, "settings-0"),
        ((left(0, volume=True), left(1)), {}, "settings-1"),
        ((left(0, ready=False), left(1)), {}, "settings-0"),
        ((left(0, volume=True, ready=False), left(1)), {}, None),
        ((left(0, deletionTimestamp="2026-01-01T00:00:00Z"), left(1)), {}, None),
        ((left(1),), {}, None),
        ((left(0, owner="another"), left(1)), {}, None),
        ((left(0, volume=True), left(1, volume=True)), {}, None),
        ((left(0), left(1)), {"updateStrategy": {"rollingUpdate": {"partition": 1}}}, None),
        ((left(0), left(1)), {"updateStrategy": {"type": "OnDelete"}}, None),
        ((left(0), left(1)), {"volumeClaimTemplates": []}, None),
        ((left(3), left(2)), {"ordinals": {"start": 2}}, "settings-2"),
        ((), {}, None),
    ],
)
def test_the_pods_without_a_volume_are_replaced_one_after_another(
    pods: tuple[LiveObject, ...], spec: dict[str, Any], replaced: str | None
) -> None:
    live = live_as("StatefulSet", "apps/v1", spec={**stateful_set()["spec"], **spec})
    found = pod_to_replace(live, pods, 0.0)
    assert (found.identity.name if found is not None else None) == replaced


def test_pods_are_recovered_only_for_a_stateful_set_with_orphan() -> None:
    assert may_have_left_pods(made(stateful_set(strategy="Orphan")), SET)
    assert not may_have_left_pods(made(stateful_set(strategy="Background")), SET)
    assert not may_have_left_pods(made(recreated()), child())


PARENT = {"apiVersion": "v1", "kind": "Other", "name": "other", "uid": "other"}
POD_NAME = "statefulset.kubernetes.io/pod-name"


@pytest.mark.parametrize(
    ("changed", "adopted"),
    [
        ({}, True),
        ({"name": "other-0", "labels": {POD_NAME: "other-0", "app": "a"}}, False),
        ({"name": "settings-a-0", "labels": {POD_NAME: "settings-a-0", "app": "a"}}, False),
        ({"labels": {"app": "a"}}, False),
        ({"labels": {POD_NAME: "settings-0", "app": "b"}}, False),
        ({"labels": {POD_NAME: "settings-0", "app": "a", "old": "1"}}, False),
        ({"creationTimestamp": "2026-01-02T00:00:01Z"}, False),
        ({"ownerReferences": [{**PARENT, "controller": True}]}, False),
        ({"ownerReferences": [{**PARENT, "controller": False}]}, True),
    ],
)
def test_pods_are_adopted_only_if_a_former_stateful_set_left_them(changed: dict[str, Any], adopted: bool) -> None:
    selector = {"matchLabels": {"app": "b"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}
    template = {"metadata": {"labels": {"app": "b"}}}
    live = live_as(
        "StatefulSet",
        "apps/v1",
        metadata={**child().body["metadata"], "creationTimestamp": "2026-01-02T00:00:00Z"},
        spec=stateful_set(selector=selector, template=template)["spec"],
    )
    before = {"labels": {POD_NAME: "settings-0", "app": "a"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    pod = left(0, **{**before, "ownerReferences": [], **changed})
    assert pods_to_adopt(live, [pod]) == ([pod] if adopted else [])


def test_a_deleted_object_is_recreated_and_the_step_says_why() -> None:
    pending = {config_map_identity(): Recreation(digest=b"", created=False, why="data is immutable")}
    step = make_plan(observed(recreations=pending), rendered(recreated())).steps[0]
    assert (step.action, step.reason) == (Action.APPLY, "data is immutable")
    assert step.memory.recreation is pending[config_map_identity()]
    going = child(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a.b/c"])
    step = make_plan(observed(going, recreations=pending), rendered(recreated())).steps[0]
    assert (step.action, step.reason.endswith("kept by the finalizer a.b/c (data is immutable)")) == (Action.WAIT, True)


def test_a_manifest_is_refused_again_unless_the_deleted_object_itself_is_back() -> None:
    written = made(recreated())
    recreation = Recreation(digest=written.digest, created=True, deleted_uid=child().uid)
    assert is_refused_again(recreation, written, child(uid=OTHER_UID))
    assert is_refused_again(recreation, written, None)
    assert not is_refused_again(recreation, written, child())
    assert not is_refused_again(replace_digest(recreation), written, child(uid=OTHER_UID))
    assert not is_refused_again(None, written, child())


def replace_digest(recreation: Recreation) -> Recreation:
    return dataclasses.replace(recreation, digest=b"another")


def holder(body: dict[str, Any]) -> Manifest:
    written = made(body)
    return replace(written, document=dataclasses.replace(written.document, has_generated_values=True))


def pod(strategy: str) -> dict[str, Any]:
    return {**recreated(strategy), "kind": "Pod", "data": None}


@pytest.mark.parametrize(
    ("body", "live", "words"),
    [
        (recreated(), child(), ""),
        (recreated("Foreground"), child(), ""),
        (recreated("Orphan"), child(), "set ssa-operator.dev/recreate to Background"),
        (recreated(), child(finalizers=["a.b/c"]), "while the finalizer a.b/c kept it"),
        (recreated("Foreground"), child(finalizers=["a.b/c"]), "while the finalizer a.b/c kept it"),
        (stateful_set(), live_as("StatefulSet", "apps/v1"), "set ssa-operator.dev/recreate to Background"),
        (stateful_set("1Gi", "Foreground"), live_as("StatefulSet", "apps/v1"), "recreate to Background"),
        (stateful_set("1Gi", "Background"), live_as("StatefulSet", "apps/v1"), ""),
        (pod("Background"), live_as("Pod"), "while its containers end"),
    ],
)
def test_an_object_whose_generated_values_could_be_lost_is_kept(
    body: dict[str, Any], live: LiveObject, words: str
) -> None:
    why = reason_to_keep(holder(body), live)
    assert words in (why or "")
    assert bool(why) == bool(words)
    assert reason_to_keep(made(body), live) is None


def test_the_dependents_of_a_config_map_need_not_go_first() -> None:
    assert propagation(made(recreated("Foreground"))) is Recreate.BACKGROUND
    assert propagation(made(recreated("Orphan"))) is Recreate.ORPHAN
    assert propagation(made(stateful_set("1Gi", "Foreground"))) is Recreate.FOREGROUND


def test_the_message_about_a_deletion_names_the_finalizers_that_keep_the_object() -> None:
    going = child(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["orphan", "a.b/c"])
    plan = make_plan(observed(going, child("old")), rendered(recreated()))
    step = plan.steps[0]
    assert step.action is Action.WAIT
    assert "orphan (the garbage collector's), a.b/c" in step.reason
    # The operator prunes nothing meanwhile.
    assert all(step.action is not Action.PRUNE for step in plan.steps)


def test_only_an_object_of_a_former_parent_of_this_name_waits_for_its_garbage_collection() -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Echo", "name": "web", "uid": OTHER_UID, "controller": True}
    manifest = made(config_map("settings"))
    assert was_left_by_former_parent(manifest, child(owner=OTHER_UID))
    assert not was_left_by_former_parent(manifest, child())
    assert not was_left_by_former_parent(manifest, child(owner=OTHER_UID, ownerReferences=[]))
    another = child(owner=OTHER_UID, ownerReferences=[{**owner, "name": "other"}])
    assert not was_left_by_former_parent(manifest, another)

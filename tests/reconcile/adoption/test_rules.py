"""What the operator does with objects that others created."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.managed_fields import in_version
from ssa_operator.objects.parent_settings import AdoptPolicy
from ssa_operator.reconcile.adoption import (
    UNMANAGED,
    adopt_fields_patch,
    belongs_to_former_parent,
    former_managers,
    may_adopt,
    may_be_child,
    only_if_absent,
    other_controller,
    without_former_fields,
)
from ssa_operator.reconcile.child import Action, FailureReason
from ssa_operator.reconcile.plan import Plan, make_plan
from tests.objects.example_objects import OTHER_UID, PARENT_UID, child, config_map, made, observed, parent, rendered

IF_NOT_PRESENT = {"annotations": {"ssa-operator.dev/apply": "IfNotPresent"}}


def entry(manager: str, operation: str = "Update", **fields: Any) -> dict[str, Any]:
    base = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return base | {"fieldsV1": {"f:data": {"f:old": {}}}} | fields


def unlabelled(*entries: dict[str, Any], **metadata: Any) -> LiveObject:
    """An object without the operator's label."""
    return child(labels={}, ownerReferences=[], managedFields=list(entries), **metadata)


def after(patch: bytes | None) -> list[dict[str, Any]]:
    """The managedFields that a patch sets."""
    assert patch is not None
    metadata = json.loads(patch)["metadata"]
    assert metadata["resourceVersion"] == "7"
    return list(metadata["managedFields"])


def only(plan: Plan) -> tuple[Action, str]:
    (step,) = plan.steps
    return step.action, step.reason


def test_the_operator_creates_an_object_only_if_it_is_absent() -> None:
    manifest = made(config_map())
    body = json.loads(only_if_absent(manifest))
    assert body["metadata"].pop("resourceVersion") == "1"
    assert body == json.loads(manifest.encoded)


@pytest.mark.parametrize("manager", ["kubectl-client-side-apply", "kubectl-create", "kubectl-replace"])
def test_the_operator_adopts_the_fields_of_kubectls_whole_manifests(manager: str) -> None:
    others = entry("kube-controller-manager", fieldsV1={"f:data": {"f:theirs": {}}})
    (ours, rest) = after(adopt_fields_patch(unlabelled(others, entry(manager)), "v1"))
    assert (ours["manager"], ours["operation"]) == (MANAGER, "Apply")
    assert ours["fieldsV1"] == {"f:data": {"f:old": {}}}
    assert rest == others


@pytest.mark.parametrize(
    "left",
    [
        entry("kubectl-edit"),
        entry("kubectl-scale"),
        entry("kubectl", "Apply"),
        entry("kubectl-client-side-apply", subresource="status"),
        entry("kube-controller-manager"),
        entry(UNMANAGED),
    ],
)
def test_fields_of_other_managers_stay_theirs(left: dict[str, Any]) -> None:
    assert adopt_fields_patch(unlabelled(left), "v1") is None


@pytest.mark.parametrize("operation", ["Update", "Apply"])
def test_the_fields_of_a_former_manager_are_adopted_from_update_and_apply(operation: str) -> None:
    found = unlabelled(entry("my-old-operator", operation))
    assert adopt_fields_patch(found, "v1") is None
    (ours,) = after(adopt_fields_patch(found, "v1", frozenset({"my-old-operator"})))
    assert (ours["manager"], ours["operation"]) == (MANAGER, "Apply")


def test_several_former_managers_leave_one_entry_with_the_fields_of_all() -> None:
    one = entry("kubectl-create", fieldsV1={"f:data": {".": {}, "f:a": {}}})
    two = entry("kubectl-client-side-apply", fieldsV1={"f:data": {"f:b": {}}, "f:metadata": {"f:labels": {"f:x": {}}}})
    (ours,) = after(adopt_fields_patch(unlabelled(one, two), "v1"))
    assert ours["fieldsV1"] == {"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}


def test_of_several_versions_the_one_that_is_applied_counts() -> None:
    one = entry("kubectl-create", apiVersion="v1beta1", fieldsV1={"f:data": {"f:a": {}}})
    two = entry("kubectl-client-side-apply", fieldsV1={"f:data": {"f:b": {}}})
    (ours,) = after(adopt_fields_patch(unlabelled(one, two), "v1"))
    assert (ours["apiVersion"], ours["fieldsV1"]) == ("v1", {"f:data": {"f:b": {}}})


def test_the_own_entry_keeps_its_fields() -> None:
    mine = entry(MANAGER, "Apply", fieldsV1={"f:data": {"f:mine": {}}})
    (ours,) = after(adopt_fields_patch(unlabelled(mine, entry("kubectl-create")), "v1"))
    assert ours["fieldsV1"] == {"f:data": {"f:mine": {}, "f:old": {}}}


def test_of_an_object_without_managers_only_the_fields_that_kubectl_apply_recorded_are_adopted() -> None:
    recorded = {
        "metadata": {"name": "settings", "annotations": {"note": "x"}},
        "data": {"old": "y"},
        "ports": [{"port": 80}],
        "finalizers": ["a"],
    }
    everything = {
        "f:metadata": {"f:annotations": {".": {}, "f:note": {}, f"f:{LAST_APPLIED}": {}, "f:revision": {}}},
        "f:data": {"f:old": {}, "f:controller": {}},
        "f:ports": {
            'k:{"port":80,"protocol":"TCP"}': {"f:port": {}, "f:nodePort": {}},
            'k:{"port":81,"protocol":"TCP"}': {"f:port": {}},
        },
        "f:finalizers": {'v:"a"': {}, 'v:"b"': {}},
    }
    found = unlabelled(
        entry(UNMANAGED, fieldsV1=everything), annotations={"note": "x", LAST_APPLIED: json.dumps(recorded)}
    )
    ours, rest = after(adopt_fields_patch(found, "v1"))
    assert ours["manager"] == MANAGER
    assert ours["fieldsV1"] == {
        "f:metadata": {"f:annotations": {"f:note": {}, f"f:{LAST_APPLIED}": {}}},
        "f:data": {"f:old": {}},
        "f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:port": {}}},
        "f:finalizers": {'v:"a"': {}},
    }
    assert rest["manager"] == UNMANAGED
    assert rest["fieldsV1"] == {
        "f:metadata": {"f:annotations": {".": {}, "f:revision": {}}},
        "f:data": {"f:controller": {}},
        "f:ports": {
            'k:{"port":80,"protocol":"TCP"}': {"f:nodePort": {}},
            'k:{"port":81,"protocol":"TCP"}': {"f:port": {}},
        },
        "f:finalizers": {'v:"b"': {}},
    }


@pytest.mark.parametrize(
    "annotation",
    [
        "",
        "no JSON",
        "[]",
        "null",
        pytest.param("[" * 100_000, id="lists without end"),
        '{"metadata":[]}',
        '{"metadata":{"annotations":5}}',
    ],
)
def test_an_empty_or_malformed_record_of_kubectl_adopts_nothing(annotation: str) -> None:
    assert adopt_fields_patch(unlabelled(entry(UNMANAGED), annotations={LAST_APPLIED: annotation}), "v1") is None


def test_the_fields_of_a_removed_version_become_fields_of_another() -> None:
    gone, kept = entry("a", apiVersion="x.y/v1beta1"), entry("b", apiVersion="x.y/v1")
    found = after(in_version(unlabelled(gone, kept), "x.y/v1", instead_of="x.y/v1beta1"))
    assert found == [{**gone, "apiVersion": "x.y/v1"}, kept]


def controlled(**changes: Any) -> LiveObject:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r-1", "controller": True} | changes
    return child(labels={}, ownerReferences=[owner])


def test_an_object_of_another_controller_is_refused_with_its_name() -> None:
    plan = make_plan(observed(others=(controlled(),)), rendered(config_map()))
    assert plan.steps[0].problem is FailureReason.CONFLICT
    assert "is controlled by ReplicaSet r" in plan.steps[0].reason


def test_an_owner_that_does_not_control_is_no_conflict() -> None:
    assert other_controller(controlled(controller=False), parent()) is None


def test_an_object_of_a_former_parent_of_the_same_name_has_no_other_controller() -> None:
    former = controlled(apiVersion="example.com/v1", kind="Echo", name="web", uid="old")
    assert other_controller(former, parent()) is None
    assert other_controller(controlled(apiVersion="else.com/v1", kind="Echo", name="web", uid="old"), parent())


def test_nothing_is_adopted_until_all_parents_are_known() -> None:
    """After a restart, the watch of another folder's parents may not be synced."""
    left = child(owner="perhaps-gone", ownerReferences=[])
    assert (
        make_plan(observed(others=(left,), all_parents_known=False), rendered(config_map())).steps[0].action
        is Action.WAIT
    )
    assert make_plan(observed(others=(left,)), rendered(config_map())).steps[0].action is Action.APPLY
    assert make_plan(observed(child(), all_parents_known=False), rendered(config_map())).steps[0].action is Action.APPLY


@pytest.mark.parametrize("live", [child(), child(labels={}), controlled()])
def test_an_object_with_if_not_present_is_left_alone_no_matter_who_created_it(live: LiveObject) -> None:
    plan = make_plan(observed(live), rendered(config_map(metadata=IF_NOT_PRESENT, data={"a": "new"})))
    assert only(plan) == (Action.KEEP, "exists and is left alone")


def test_an_object_of_a_former_parent_of_the_same_name_is_recreated_before_it_is_collected() -> None:
    plan = make_plan(observed(others=(child(owner="old"),)), rendered(config_map(metadata=IF_NOT_PRESENT)))
    assert plan.steps[0].action is Action.RECREATE


def test_a_parent_of_the_same_name_in_another_namespace_is_no_former_parent() -> None:
    elsewhere = parent(namespace="elsewhere")
    assert belongs_to_former_parent(child(owner="old"), parent())
    assert not belongs_to_former_parent(child(owner="old"), elsewhere)
    assert other_controller(child(owner="old"), elsewhere)


def test_a_manifest_with_if_not_present_may_be_rendered_for_two_parents() -> None:
    claims = {Identity("", "ConfigMap", "default", "settings"): OTHER_UID}
    plan = make_plan(observed(claims=claims), rendered(config_map(metadata=IF_NOT_PRESENT)))
    assert only(plan) == (Action.APPLY, "does not exist")


def test_only_unlabelled_objects_with_if_not_present_are_requested() -> None:
    plan = make_plan(observed(), rendered(config_map(), config_map("once", metadata=IF_NOT_PRESENT)))
    assert [identity.name for identity in plan.unseen] == ["once"]
    found = child("once", labels={}, ownerReferences=[])
    again = make_plan(observed(unlabelled={found.identity: found}), plan.rendered)
    assert [step.action for step in again.steps] == [Action.APPLY, Action.KEEP]
    assert not again.unseen


def test_an_object_that_can_not_be_read_is_refused_for_now() -> None:
    identity = Identity("", "ConfigMap", "default", "settings")
    plan = make_plan(observed(unreadable={identity: "may not get configmaps"}), rendered(config_map()))
    assert (plan.steps[0].action, plan.steps[0].problem) == (Action.REFUSE, FailureReason.APPLY_FAILED)
    assert "may not get configmaps" in plan.steps[0].reason


def test_an_object_that_no_apply_created_is_not_pruned() -> None:
    theirs = child("theirs", uid="x", ownerReferences=[])
    assert make_plan(observed(theirs, parent=parent(uid=PARENT_UID)), rendered()).steps == ()


def test_a_dry_run_of_an_adoption_lacks_what_only_former_managers_wrote() -> None:
    fields: dict[str, Any] = {"f:a": {}, "f:old": {}, "f:shared": {}}
    live = unlabelled(
        entry("kubectl-client-side-apply", fieldsV1={"f:data": fields}),
        entry("other", fieldsV1={"f:data": {"f:shared": {}, "f:theirs": {}}}),
    )
    answer = child(managedFields=[])
    answer.body["data"] = {"a": "b", "old": "x", "shared": "y", "theirs": "z", "unowned": "d"}
    manifest = made(config_map())
    found = without_former_fields(live, LiveObject.of(answer.body), manifest)
    assert found.body["data"] == {"a": "b", "shared": "y", "theirs": "z", "unowned": "d"}
    assert former_managers(live) == ("kubectl-client-side-apply",)


def test_a_dry_run_of_an_adoption_lacks_items_of_list_maps_that_are_not_rendered() -> None:
    def item(name: str) -> dict[str, Any]:
        return {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}, "f:value": {}}}

    live = unlabelled(entry("kubectl-create", fieldsV1={"f:list": {**item("kept"), **item("old")}}))
    answer = child(managedFields=[])
    answer.body["list"] = [{"name": "kept", "value": "1"}, {"name": "old", "value": "1"}, {"name": "theirs"}]
    manifest = made(config_map(list=[{"name": "kept"}]))
    found = without_former_fields(live, LiveObject.of(answer.body), manifest)
    assert found.body["list"] == [{"name": "kept"}, {"name": "theirs"}]


def test_an_object_without_former_managers_is_as_the_dry_run_shows_it() -> None:
    answer = child(managedFields=[])
    assert without_former_fields(unlabelled(entry("other")), answer, made(config_map())) is answer


INSIDE, OUTSIDE = unlabelled(), unlabelled(namespace="elsewhere")
CLUSTER_SCOPED = unlabelled(namespace="")


@pytest.mark.parametrize(
    ("policy", "adopted"),
    [
        (AdoptPolicy.ALWAYS, [INSIDE, OUTSIDE, CLUSTER_SCOPED]),
        (AdoptPolicy.IN_NAMESPACE, [INSIDE]),
        (AdoptPolicy.NEVER, []),
    ],
)
def test_the_setting_adopt_decides_which_objects_a_parent_may_have(
    policy: AdoptPolicy, adopted: list[LiveObject]
) -> None:
    assert [each for each in (INSIDE, OUTSIDE, CLUSTER_SCOPED) if may_adopt(each, parent(), policy)] == adopted


def test_a_cluster_scoped_parent_adopts_nothing_by_default() -> None:
    everywhere = parent(namespace="")
    for each in (INSIDE, OUTSIDE, CLUSTER_SCOPED):
        assert not may_adopt(each, everywhere, AdoptPolicy.IN_NAMESPACE)


@pytest.mark.parametrize("policy", AdoptPolicy)
def test_an_object_that_the_operator_created_is_not_adopted_but_applied(policy: AdoptPolicy) -> None:
    assert may_adopt(child(namespace="elsewhere"), parent(), policy)


@pytest.mark.parametrize("policy", AdoptPolicy)
def test_an_object_whose_label_was_removed_stays_the_parents(policy: AdoptPolicy) -> None:
    applied = unlabelled(entry("ssa-operator", "Apply"), namespace="elsewhere")
    assert may_adopt(applied, parent(), policy)
    assert not may_adopt(unlabelled(entry("other", "Apply"), namespace="elsewhere"), parent(), AdoptPolicy.IN_NAMESPACE)


@pytest.mark.parametrize("policy", AdoptPolicy)
def test_an_object_of_the_operators_installation_is_never_adopted(policy: AdoptPolicy) -> None:
    installed = child(labels={"app.kubernetes.io/name": "ssa-operator"}, ownerReferences=[])
    assert not may_adopt(installed, parent(), policy)


def test_a_manifest_of_an_excluded_object_is_refused_with_what_to_do() -> None:
    plan = make_plan(observed(INSIDE, adopt=AdoptPolicy.NEVER), rendered(config_map()))
    (step,) = plan.steps
    assert (step.action, step.problem) == (Action.REFUSE, FailureReason.CONFLICT)
    assert f"ssa-operator.dev/parent-uid: {PARENT_UID}" in step.reason
    assert "set `adopt: InNamespace`" in step.reason


@pytest.mark.parametrize(
    ("namespace", "cluster_scope", "recorded", "is_child"),
    [
        ("default", False, False, True),
        ("elsewhere", False, False, False),
        ("elsewhere", False, True, True),
        ("elsewhere", True, False, True),
        ("", False, False, False),
    ],
)
def test_an_object_with_the_label_is_a_child_only_where_the_parent_may_have_one(
    namespace: str, cluster_scope: bool, recorded: bool, is_child: bool
) -> None:
    posing = child(namespace=namespace)
    records = {posing.identity} if recorded else set()
    assert may_be_child(posing, parent(), records, cluster_scope=cluster_scope) is is_child


def test_a_namespace_whose_parents_can_not_be_read_keeps_only_what_may_be_theirs() -> None:
    """An owner is in the namespace of the object, or in none."""
    owner = {"apiVersion": "example.com/v1", "kind": "Else", "name": "gone", "uid": "perhaps-gone"}
    owned = child(owner="perhaps-gone", ownerReferences=[owner | {"controller": True}])
    labelled = child(owner="perhaps-gone", ownerReferences=[])

    def may_exist(live: LiveObject, *unread: str) -> bool:
        return observed(others=(live,), unread_namespaces=frozenset(unread)).parents.may_exist(live)

    assert not may_exist(labelled)
    assert may_exist(labelled, "forbidden")
    assert not may_exist(owned, "forbidden")
    assert may_exist(owned, "forbidden", "default")

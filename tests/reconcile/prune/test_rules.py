"""An object that is no longer rendered is pruned only where that is safe."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState, kind_state
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import RenderProblem, Wait
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.parent_records.rules import AppliedRecord, HeldPrune, ParentRecords
from ssa_operator.reconcile.plan import make_plan
from tests.objects.example_objects import (
    CONFIG_MAP,
    PARENT_UID,
    actions,
    child,
    config_map,
    config_map_identity,
    observed,
    parent,
    rendered,
)

APPLIED = AppliedRecord(kinds=frozenset({CONFIG_MAP}))


def test_a_child_that_no_template_renders_is_pruned() -> None:
    plan = make_plan(observed(child("old"), applied_digest="t1"), rendered(config_map(), digest="t1"))
    assert actions(plan) == {"settings": Action.APPLY, "old": Action.PRUNE}


def test_an_object_that_kubernetes_copied_our_label_to_is_not_pruned() -> None:
    """As an EndpointSlice, which gets its Service's labels."""
    copied = child(
        "copied", managedFields=[{"manager": "endpointslice", "operation": "Update", "fieldsV1": {"f:a": {}}}]
    )
    assert actions(make_plan(observed(copied), rendered(config_map()))) == {"settings": Action.APPLY}


def test_a_child_that_is_being_deleted_is_reported_until_it_is_gone() -> None:
    deleting = child("old", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
    plan = make_plan(observed(deleting), rendered(config_map()))
    assert actions(plan) == {"settings": Action.APPLY, "old": Action.KEEP}


def test_an_object_that_the_parent_does_not_control_is_not_pruned() -> None:
    """Another manager may add an owner reference that controls nothing."""
    added = {"apiVersion": "example.com/v1", "kind": "Echo", "name": "web", "uid": PARENT_UID}
    for owners in ([], [added], [{**added, "controller": False}]):
        kept = child("kept", ownerReferences=owners)
        assert actions(make_plan(observed(kept), rendered(config_map()))) == {"settings": Action.APPLY}


def test_nothing_is_pruned_while_a_template_fails() -> None:
    plan = make_plan(observed(child("old")), rendered(config_map(), problems=(RenderProblem("no"),)))
    assert actions(plan) == {"settings": Action.APPLY, "old": Action.KEEP}


def lost(problem: RenderProblem | None = None, *more: Wait) -> set[str]:
    """The children that a plan could delete, of a parent that has two."""
    rest = rendered(config_map(), problems=(problem,) if problem else (), waits=more)
    return {step.identity.name for step in make_plan(observed(child("a"), child("b")), rest).unrendered}


def test_what_is_no_longer_rendered_is_lost_whatever_else_waits_or_fails() -> None:
    wait = Wait(location=SourceLocation("a.yaml.j2", 1), awaited=())
    assert lost() == lost(None, wait) == lost(RenderProblem("no")) == {"a", "b"}
    assert lost(None, dataclasses.replace(wait, identity=config_map_identity("a"))) == {"b"}
    # A file that fails may have rendered as many children as it writes documents of their kind.
    assert lost(RenderProblem("no", kinds=("ConfigMap",))) == {"a", "b"}
    assert lost(RenderProblem("no", kinds=("ConfigMap", "ConfigMap"))) == set()
    assert lost(RenderProblem("no", of=(Identity("", "ConfigMap", "", "a"),))) == {"b"}
    forbidden = KindState(namespaced=True, synced=False, problem="forbidden")
    hidden = observed(child("a"), kinds={CONFIG_MAP: forbidden}, records=ParentRecords(applied=APPLIED))
    assert len(make_plan(hidden, rendered()).unrendered) == 2


def test_nothing_is_pruned_while_a_step_is_refused_or_waits() -> None:
    for kinds in (
        {CONFIG_MAP: KindState(namespaced=True, synced=False)},
        {CONFIG_MAP: KindState(namespaced=True, synced=True, problem="no")},
    ):
        assert actions(make_plan(observed(child("old"), kinds=kinds), rendered(config_map())))["old"] is Action.KEEP


def test_nothing_is_pruned_while_any_watch_is_not_synced() -> None:
    kinds = {**observed().children.kinds, GroupKind("x", "Y"): KindState(namespaced=True, synced=False)}
    assert actions(make_plan(observed(child("old"), kinds=kinds), rendered(config_map())))["old"] is Action.KEEP


def test_a_recorded_child_in_a_namespace_that_can_not_be_watched_is_refused_and_not_forgotten() -> None:
    forbidden = KindState(namespaced=True, synced=False, problem="forbidden in far", needs_permission=True)
    near = KindState(namespaced=True, synced=True)
    kinds = {CONFIG_MAP: kind_state(True, [("default", near), ("far", forbidden)])}
    records = ParentRecords(inventory={Identity(*CONFIG_MAP, "far", "moved"): 1})
    plan = make_plan(observed(kinds=kinds, records=records), rendered(config_map()))
    assert actions(plan) == {"settings": Action.APPLY, "moved": Action.REFUSE}
    assert plan.steps[-1].reason == "is no longer rendered, and can't be deleted: forbidden in far"
    assert plan.steps[-1].needs_permission


def test_a_recorded_kind_that_can_not_be_watched_is_refused_and_not_forgotten() -> None:
    """Also where nothing else says that there are children."""
    forbidden = KindState(namespaced=True, synced=False, problem="forbidden", needs_permission=True)
    plan = make_plan(observed(kinds={CONFIG_MAP: forbidden}, records=ParentRecords(applied=APPLIED)), rendered())
    (step,) = plan.unrendered
    assert plan.steps == (step,)
    assert (step.action, step.needs_permission) == (Action.REFUSE, True)
    assert step.reason == "may have children of kind ConfigMap, which no template renders any more: forbidden"


def test_changed_templates_that_delete_everything_are_held_until_a_user_confirms() -> None:
    held = make_plan(observed(child("a"), child("b"), applied_digest="t0"), rendered())
    assert set(actions(held).values()) == {Action.KEEP}
    assert "reconcile-at" in str(held.hold_message)
    own = (child("a"), child("b"))
    still = make_plan(
        observed(*own, applied_digest="t0", records=ParentRecords(held_prune=held.held_prune)), rendered()
    )
    assert (still.hold_message, still.held_prune) == (held.hold_message, held.held_prune)
    asked = observed(*own, applied_digest="t0", records=ParentRecords(held_prune=held.held_prune), reconcile_at="now")
    confirmed = make_plan(asked, rendered())
    assert set(actions(confirmed).values()) == {Action.PRUNE}
    assert not confirmed.hold_message


def test_a_prune_that_only_time_caused_is_not_held() -> None:
    """The same templates rendered the child when the parent was created."""
    both = frozenset({config_map_identity("a"), config_map_identity("b")})
    plan = make_plan(observed(child("a"), child("b"), applied_digest="t0", rendered_before=both), rendered())
    assert set(actions(plan).values()) == {Action.PRUNE}
    rest = make_plan(observed(child("a"), child("c"), applied_digest="t0", rendered_before=both), rendered())
    assert rest.hold_message


def test_a_suspicious_prune_is_held_also_while_something_else_blocks_it() -> None:
    """Otherwise the new templates would count as confirmed when the blockage is over."""
    kinds = {**observed().children.kinds, GroupKind("x", "Y"): KindState(namespaced=True, synced=False)}
    assert make_plan(observed(child("a"), kinds=kinds, applied_digest="t0"), rendered()).hold_message


def test_new_templates_that_replace_every_child_are_held_too() -> None:
    plan = make_plan(observed(child("old"), applied_digest="t0"), rendered(config_map("new")))
    assert actions(plan) == {"new": Action.APPLY, "old": Action.KEEP}
    assert plan.hold_message


def test_new_templates_that_keep_a_child_are_trusted() -> None:
    plan = make_plan(observed(child("old"), child(), applied_digest="t0"), rendered(config_map()))
    assert actions(plan) == {"settings": Action.APPLY, "old": Action.PRUNE}


def test_of_the_children_that_are_being_deleted_only_those_that_are_rendered_count_as_remaining() -> None:
    """A child that is rendered is recreated."""
    deleting = child(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
    before = observed(child("old"), deleting, applied_digest="t0")
    assert not make_plan(before, rendered(config_map())).hold_message
    assert make_plan(before, rendered(config_map("new"))).hold_message


def test_data_that_renders_nothing_deletes_the_children() -> None:
    plan = make_plan(observed(child("a"), applied_digest="t1"), rendered())
    assert actions(plan) == {"a": Action.PRUNE}


def test_after_a_restart_an_empty_render_is_held_also_where_the_spec_changed_meanwhile() -> None:
    """A new generation is no proof, because the templates may have changed as well."""
    same = parent(status={"observedGeneration": 1})
    assert make_plan(observed(child("a"), parent=same), rendered()).hold_message
    changed = parent(generation=2, status={"observedGeneration": 1})
    assert make_plan(observed(child("a"), parent=changed), rendered()).hold_message


def test_a_child_that_the_same_templates_rendered_from_other_data_is_pruned_without_a_hold() -> None:
    """Also where these templates were never applied completely, because one of the children is refused."""
    before = frozenset({config_map_identity("a"), config_map_identity("b")})
    plan = make_plan(observed(child("a"), child("b"), rendered_before=before), rendered())
    assert set(actions(plan).values()) == {Action.PRUNE}


def test_a_held_prune_stays_held_when_other_children_have_taken_the_place() -> None:
    """The new children are no proof that the templates are right."""
    old = (child("a"), child("b"))
    hold = make_plan(observed(*old, applied_digest="t0"), rendered(config_map("new"))).held_prune
    assert hold is not None
    for converged in ("t0", None):
        later = observed(*old, child("new"), applied_digest=converged, records=ParentRecords(held_prune=hold))
        plan = make_plan(later, rendered(config_map("new")))
        assert actions(plan) == {"new": Action.APPLY, "a": Action.KEEP, "b": Action.KEEP}
        assert (plan.hold_message is not None, plan.held_prune) == (True, hold)


def test_children_that_only_the_new_templates_created_do_not_count_as_remaining() -> None:
    settled = frozenset({config_map_identity("a"), config_map_identity("b")})
    own = observed(child("a"), child("b"), child("new"), applied_digest="t0", applied_children=settled)
    assert make_plan(own, rendered(config_map("new"), config_map("waited"))).hold_message
    assert not make_plan(own, rendered(config_map("new"), config_map("a"))).hold_message


def test_a_prune_that_a_rollout_has_planned_is_not_held_for_each_parent() -> None:
    plan = make_plan(observed(child("old"), applied_digest="t0", planned=True), rendered(config_map("new")))
    assert actions(plan) == {"new": Action.APPLY, "old": Action.PRUNE}


def test_a_hold_ends_with_the_repair_of_the_templates() -> None:
    hold = HeldPrune.of("", [config_map_identity("a")])
    plan = make_plan(
        observed(child("a"), applied_digest="t0", records=ParentRecords(held_prune=hold)), rendered(config_map("a"))
    )
    assert (plan.hold_message, plan.held_prune) == (None, None)


def test_a_hold_outlasts_a_template_that_fails() -> None:
    hold = HeldPrune.of("", [config_map_identity("a")])
    failing = rendered(problems=(RenderProblem("no"),))
    plan = make_plan(observed(child("a"), applied_digest="t0", records=ParentRecords(held_prune=hold)), failing)
    assert (actions(plan), plan.hold_message, plan.held_prune) == ({"a": Action.KEEP}, None, hold)


def test_children_that_are_never_pruned_do_not_count_as_remaining() -> None:
    kept = child("kept", ownerReferences=[])
    both = observed(child("a"), child("b"), kept, applied_digest="t0")
    body = config_map("kept", metadata={"annotations": {"ssa-operator.dev/prune": "false"}})
    assert make_plan(both, rendered()).hold_message
    assert make_plan(both, rendered(body)).hold_message


def test_a_renamed_child_is_pruned_after_the_new_one() -> None:
    (new, old) = make_plan(observed(child("old"), applied_digest="t1"), rendered(config_map("new"))).steps
    assert (new.action, old.action) == (Action.APPLY, Action.PRUNE)
    assert old.successors == {new.identity}
    # In later reconciles the new one exists, and the process remembers what it replaces.
    later = observed(child("old"), child("new"), applied_digest="t1", successors={old.identity: old.successors})
    assert make_plan(later, rendered(config_map("new"))).steps[1].successors == {new.identity}
    assert make_plan(later, rendered(config_map("other"))).steps[1].successors == {config_map_identity("other")}


def test_a_new_child_with_wait_false_does_not_delay_the_prune() -> None:
    body = config_map("new", metadata={"annotations": {"ssa-operator.dev/wait": "false"}})
    assert make_plan(observed(child("old"), applied_digest="t1"), rendered(body)).steps[1].successors == frozenset()


def workload(name: str, volume: str, **more: Any) -> dict[str, Any]:
    """A Deployment whose pods mount a ConfigMap."""
    container = {"name": "main", "image": "busybox"}
    spec = {"containers": [container], "volumes": [{"name": "v", "configMap": {"name": volume}}]} | more
    template = {"metadata": {"labels": {"app": "old"}}, "spec": spec}
    fields = {"selector": {"matchLabels": {"app": "old"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": fields}


def live(body: dict[str, Any]) -> LiveObject:
    """An object as our apply left it."""
    return LiveObject.of({**body, "metadata": {**child(body["metadata"]["name"]).body["metadata"]}})


def successors(own: Sequence[LiveObject], *bodies: dict[str, Any], **changes: Any) -> set[str]:
    """The names of what must be ready before the object `old` is deleted."""
    kinds = {each.identity.group_kind: KindState(namespaced=True, synced=True) for each in own}
    seen = observed(*own, kinds={**observed().children.kinds, **kinds}, applied_digest="t1", **changes)
    steps = make_plan(seen, rendered(*bodies, digest="t1")).steps
    return {each.name for step in steps if step.identity.name == "old" for each in step.successors}


def test_what_running_pods_mount_stays_until_their_workload_has_rolled_out() -> None:
    bodies, own = (workload("web", "new"), config_map("new")), [child("old"), live(workload("web", "old"))]
    assert successors(own, *bodies, reconciled_before=True) == {"new", "web"}
    # The live workload names it no longer after the first apply, and the process remembers.
    own = [child("old"), child("new"), live(workload("web", "new"))]
    known = {child("old").identity: frozenset({live(workload("web", "")).identity})}
    assert successors(own, *bodies, reconciled_before=True, successors=known) == {"web"}
    assert successors(own, *bodies, reconciled_before=True) == set()
    # A process that has just started doesn't: it waits for every workload that is not ready.
    assert successors(own, *bodies) == {"web"}


def test_what_the_pods_of_a_renamed_workload_mount_stays_as_long_as_that() -> None:
    own = (child("old"), child("new"), live(workload("web-1", "old")))
    assert successors(own, workload("web-2", "new"), config_map("new"), reconciled_before=True) == {"web-2"}


def test_what_a_custom_object_refers_to_stays_until_that_is_ready() -> None:
    def machines(template: str) -> dict[str, Any]:
        spec = {"template": {"spec": {"infrastructureRef": {"kind": "Template", "name": template}}}}
        return {"apiVersion": "x.example.com/v1", "kind": "Machines", "metadata": {"name": "m"}, "spec": spec}

    old = live({"apiVersion": "x.example.com/v1", "kind": "Template", "metadata": {"name": "old"}})
    assert successors((old, live(machines("old"))), machines("new"), reconciled_before=True) == {"m"}
    assert successors((old, live(machines("other"))), machines("new"), reconciled_before=True) == set()


def test_an_object_that_no_pod_needs_and_that_is_called_as_a_container_goes_at_once() -> None:
    policy = live({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "old"}})
    web = workload("web", "m", containers=[{"name": "old", "image": "busybox"}])
    assert successors((policy, live(web)), web) == set()


def test_a_child_of_the_inventory_that_is_no_longer_rendered_is_pruned_without_an_owner_reference() -> None:
    orphan = child("old", ownerReferences=[])
    recorded = ParentRecords(inventory={orphan.identity: 1}, has_finalizer=True)
    assert not make_plan(observed(orphan, applied_digest="t1"), rendered()).steps
    plan = make_plan(observed(orphan, applied_digest="t1", records=recorded), rendered())
    assert [step.action for step in plan.steps] == [Action.PRUNE]

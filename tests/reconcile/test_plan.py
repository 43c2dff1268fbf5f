"""Every child of a parent has exactly one step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import PARENT_UID_LABEL
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.reconcile.child import Action, FailureReason
from ssa_operator.reconcile.plan import make_plan
from tests.objects.example_objects import CONFIG_MAP, actions, child, config_map, made, observed, parent, rendered


def test_an_identity_that_is_rendered_twice_is_refused_the_second_time_with_the_first_template_line() -> None:
    plan = make_plan(observed(), rendered(config_map(), config_map(data={"x": "y"})))
    assert [step.action for step in plan.steps] == [Action.APPLY, Action.REFUSE]
    assert "rendered twice, first at echoes.example.com/a.yaml.j2:1" in plan.steps[1].reason
    assert plan.steps[1].problem is FailureReason.INVALID_MANIFEST


names = st.sampled_from(["a", "b", "c", "d"])


@given(st.sets(names), st.sets(names), st.booleans(), st.booleans())
def test_every_child_has_exactly_one_step_and_nothing_rendered_is_ever_pruned(
    there: set[str], wanted: set[str], complete: bool, synced: bool
) -> None:
    own = tuple(child(name, uid=f"uid-{name}") for name in sorted(there))
    problems = () if complete else (RenderProblem("no"),)
    kinds = {CONFIG_MAP: KindState(namespaced=True, synced=synced)}
    plan = make_plan(
        observed(*own, kinds=kinds), rendered(*(config_map(name) for name in sorted(wanted)), problems=problems)
    )
    found = [step.identity.name for step in plan.steps]
    assert sorted(found) == sorted(there | wanted)
    pruned = {step.identity.name for step in plan.steps if step.action is Action.PRUNE}
    assert pruned <= there - wanted
    if not (complete and synced):
        assert not pruned


def test_the_label_of_a_manifest_names_its_parent() -> None:
    assert made(config_map()).body["metadata"]["labels"][PARENT_UID_LABEL] == parent().uid


def test_a_finalize_hook_is_not_part_of_a_living_parent() -> None:
    hook = config_map("hook", metadata={"annotations": {"ssa-operator.dev/on": "finalize"}})
    assert actions(make_plan(observed(), rendered(config_map(), hook))) == {"settings": Action.APPLY}

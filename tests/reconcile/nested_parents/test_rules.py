"""How many parents are above a parent, and what a parent that is nested too deep may do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import PARENT_UID_LABEL
from ssa_operator.objects.parent_settings import MAX_DEPTH
from ssa_operator.reconcile.child import Action, FailureReason
from ssa_operator.reconcile.nested_parents import Ancestors, ancestors
from ssa_operator.reconcile.plan import make_plan
from tests.objects.example_objects import actions, child, config_map, observed, parent, rendered


def named(uid: str) -> Identity:
    return Identity("example.com", "Echo", "default", f"echo-{uid}")


LINE = tuple(named(str(number)) for number in range(MAX_DEPTH))


def test_the_parents_above_a_parent_are_named_from_the_first_one() -> None:
    existing = {uid: named(uid) for uid in "abcx"}
    found = ancestors(parent(labels={PARENT_UID_LABEL: "c"}), existing, {"c": "b", "b": "a", "x": "a"})
    assert found == Ancestors(line=(named("a"), named("b"), named("c")))
    assert ancestors(parent(), existing, {}) == Ancestors()


def test_a_parent_that_is_gone_or_not_known_ends_the_line() -> None:
    found = ancestors(parent(labels={PARENT_UID_LABEL: "c"}), {"c": named("c")}, {"c": "b", "b": "a"})
    assert found == Ancestors(line=(named("c"),), missing="b")


@given(st.dictionaries(st.sampled_from("abcd"), st.sampled_from("abcd")), st.sampled_from("abcd"))
def test_a_label_that_users_wrote_in_a_circle_ends(creators: dict[str, str], first: str) -> None:
    existing = {uid: named(uid) for uid in "abcd"}
    found = ancestors(parent(uid="a", labels={PARENT_UID_LABEL: first}), existing, creators)
    assert len({*found.line}) == len(found.line) <= 3
    assert not found.missing


def test_a_parent_that_is_nested_too_deep_creates_nothing_and_applies_and_keeps_what_exists() -> None:
    seen = observed(child("kept"), child("old"), ancestors=Ancestors(line=LINE), applied_digest="t1")
    plan = make_plan(seen, rendered(config_map("kept"), config_map("new")))
    assert actions(plan) == {"kept": Action.APPLY, "new": Action.REFUSE, "old": Action.KEEP}
    refused = plan.steps[1]
    assert refused.problem is FailureReason.INVALID_MANIFEST
    assert refused.reason == (
        "is not created, because templates create parents that create parents: Echo default/echo-0 -> Echo "
        "default/echo-1 -> Echo default/echo-2 -> Echo default/echo-3 -> 4 more -> Echo default/web. 8 parents above a "
        "parent are allowed; end the recursion in the templates, or set `maxDepth: 9` or more in the folder's "
        "_settings.yaml"
    )


def test_the_setting_of_the_folder_counts() -> None:
    for depth, action in ((MAX_DEPTH, Action.REFUSE), (MAX_DEPTH + 1, Action.APPLY)):
        plan = make_plan(observed(ancestors=Ancestors(line=LINE), max_depth=depth), rendered(config_map("new")))
        assert actions(plan) == {"new": action}


def test_while_parents_are_not_known_a_parent_that_an_unknown_one_created_waits() -> None:
    for known, action in ((False, Action.WAIT), (True, Action.APPLY)):
        seen = observed(ancestors=Ancestors(missing="b"), all_parents_known=known)
        assert actions(make_plan(seen, rendered(config_map("new")))) == {"new": action}

"""Which differences between two parents count, and the rules that no change may break."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from tests.exploration.settled_parents import (
    ABSENT,
    BrokenByInvalidError,
    ChildState,
    Phase,
    SettledParent,
    UnnamedFailureError,
    check_alone,
    check_failed_change,
    child_state,
    differences,
    variation,
)


def parent(number: int) -> LiveObject:
    metadata = {"name": "web", "namespace": f"explored-{number}", "uid": f"0000000{number}-1111-2222-3333-444444444444"}
    return LiveObject.of({"apiVersion": "example.com/v1", "kind": "Echo", "metadata": metadata})


def child(number: int, owned: dict[str, Any], foreign: dict[str, Any] | None = None, **fields: Any) -> ChildState:
    """A child of the parent with a number; the operator owns the keys of `owned`, and a controller those of
    `foreign`.
    """
    of = parent(number)
    managed = [
        {
            "manager": manager,
            "operation": operation,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {f"f:{key}": {} for key in keys or ()}},
        }
        for manager, operation, keys in (
            ("ssa-operator", "Apply", owned),
            ("kube-controller-manager", "Update", foreign),
        )
    ]
    metadata = {"name": f"web-{of.uid}", "namespace": of.identity.namespace, "uid": f"child-{number}"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {**owned, **(foreign or {})}, **fields}
    live = LiveObject.of({**body, "metadata": {**metadata, "managedFields": managed}})
    return child_state(live, None, of, own_name=False)


def test_namespaces_and_uids_make_no_difference() -> None:
    one, other = (
        child(number, {"host": f"web.explored-{number}.svc", "id": parent(number).uid.replace("-", "")})
        for number in (1, 2)
    )
    assert one.name == "ConfigMap/web-<uid>"
    assert differences([one], [other]) == []


def test_fields_of_others_and_the_status_make_no_difference() -> None:
    one = child(1, {"a": "b"}, {"revision": "1"}, status={"x": 1}, immutable=False)
    other = child(2, {"a": "b"}, {"revision": "2"}, status={"x": 2})
    assert differences([one], [other]) == []


def test_a_field_and_a_child_that_one_lacks_are_named() -> None:
    one, other = child(1, {"a": "1", "b": "2"}), child(2, {"a": "3"})
    found = [(each.field, each.found, each.expected) for each in differences([one], [other])]
    assert found == [("data.a", "1", "3"), ("data.b", "2", ABSENT)]
    (missing,) = differences([], [other])
    assert (missing.child, missing.field, missing.found) == ("ConfigMap/web-<uid>", "", ABSENT)
    (more,) = differences([one], [])
    assert (more.found, more.expected) == ("there", ABSENT)


def test_what_differs_between_new_parents_makes_no_difference() -> None:
    one, other = (child(number, {"password": str(number), "a": "b"}) for number in (1, 2))
    ignored = variation([one], [other])
    assert differences([child(3, {"password": "3", "a": "b"})], [one], ignored) == []
    (found,) = differences([child(3, {"password": "3", "a": "c"})], [one], ignored)
    assert found.field == "data.a"
    # Also a child whose name varies.
    one, other = (replace(each, name=f"ConfigMap/{each.uid}") for each in (one, other))
    assert differences([], [one], variation([one], [other])) == []


def test_what_is_applied_once_is_not_compared() -> None:
    once = replace(child(1, {"a": "1"}), compared=False)
    assert differences([once], [child(2, {"a": "2"})]) == []
    assert differences([], [once]) == []


def plain(name: str, uid: str = "1", **fields: str) -> ChildState:
    return ChildState(name=name, uid=uid, fields=fields)


def state(phase: Phase, *children: ChildState, failed: str = "", not_rendered: str = "") -> SettledParent:
    """A state in which everything but `not_rendered` is rendered."""
    named = {Identity("", *each.name.partition("/")[::2], ""): each for each in children}
    return SettledParent(
        phase=phase,
        message="ApplyFailed",
        children=named,
        failed=frozenset(identity for identity, each in named.items() if each.name == failed),
        rendered=frozenset(identity for identity, each in named.items() if each.name != not_rendered),
    )


WEB = plain("Deployment/web", image="a")
MAP = plain("ConfigMap/a", size="1")
BEFORE = state(Phase.READY, WEB, MAP)


@pytest.mark.parametrize(
    "after",
    [
        # All is as it was, or what could be applied was.
        state(Phase.REFUSED, WEB, MAP),
        state(Phase.FAILED, WEB, MAP, failed="Deployment/web"),
        state(Phase.FAILED, WEB, plain("ConfigMap/a", size="2"), failed="Deployment/web"),
        # A Job that was applied and failed took the place of the last one.
        state(Phase.FAILED, WEB, plain("ConfigMap/b")),
        # What can't be compared.
        replace(state(Phase.FAILED), comparable=False),
    ],
)
def test_a_wrong_change_may_apply_what_is_right(after: SettledParent) -> None:
    check_failed_change(BEFORE, after)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (state(Phase.REFUSED, WEB, plain("ConfigMap/a", size="2")), "still changes children"),
        (state(Phase.REFUSED, WEB), "is refused, and deletes ConfigMap/a"),
        (state(Phase.FAILED, WEB), "fails, and deletes ConfigMap/a"),
        (state(Phase.FAILED, WEB, plain("ConfigMap/b"), failed="Deployment/web"), "fails, and deletes ConfigMap/a"),
        (state(Phase.FAILED, plain("Deployment/web", uid="2"), MAP, failed="Deployment/web"), "recreates Deployment"),
        (
            state(Phase.FAILED, plain("Deployment/web", image="b"), MAP, failed="Deployment/web"),
            "fails, and still changes children",
        ),
        (
            state(Phase.FAILED, WEB, plain("ConfigMap/a", size="2"), not_rendered="ConfigMap/a"),
            "fails, and still changes children",
        ),
    ],
)
def test_a_wrong_change_breaks_nothing_that_ran(after: SettledParent, words: str) -> None:
    with pytest.raises(BrokenByInvalidError, match=words):
        check_failed_change(BEFORE, after)


def test_a_failure_that_the_status_does_not_name_is_one() -> None:
    check_alone(BEFORE)
    with pytest.raises(UnnamedFailureError, match="the status doesn't name ConfigMap default/a: ApplyFailed"):
        check_alone(replace(BEFORE, unnamed=("ConfigMap default/a",)))

"""The rules that no sequence of changes may break, over states of a parent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ssa_operator.objects.identity import Identity
from tests.exploration.results import (
    ChildState,
    ExplorationRule,
    FieldState,
    Phase,
    Settled,
    broken_by_invalid,
    own_failure,
)


def child(name: str, uid: str = "1", **fields: str) -> ChildState:
    return ChildState(
        name=name, uid=uid, fields={key: FieldState(value=text, shown=text) for key, text in fields.items()}
    )


def state(phase: Phase, *children: ChildState, failed: str = "", not_rendered: str = "") -> Settled:
    """A state in which everything but `not_rendered` is rendered."""
    identities = {Identity("", *each.name.partition("/")[::2], ""): each.name for each in children}
    named = {name: identity for identity, name in identities.items()}
    return Settled(
        phase=phase,
        message="ApplyFailed",
        children=children,
        identities=identities,
        failed=frozenset({named[failed]} if failed else ()),
        rendered=frozenset(identity for name, identity in named.items() if name != not_rendered),
    )


WEB = child("Deployment/web", image="a")
MAP = child("ConfigMap/a", size="1")
BEFORE = state(Phase.READY, WEB, MAP)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        # All is as it was, or what could be applied was.
        (state(Phase.REFUSED, WEB, MAP), ""),
        (state(Phase.FAILED, WEB, MAP, failed="Deployment/web"), ""),
        (state(Phase.FAILED, WEB, child("ConfigMap/a", size="2"), failed="Deployment/web"), ""),
        # A Job that was applied and failed took the place of the last one.
        (state(Phase.FAILED, WEB, child("ConfigMap/b")), ""),
        (state(Phase.REFUSED, WEB, child("ConfigMap/a", size="2")), "still changes children"),
        (state(Phase.REFUSED, WEB), "is refused, and deletes ConfigMap/a"),
        (state(Phase.FAILED, WEB), "fails, and deletes ConfigMap/a"),
        (state(Phase.FAILED, WEB, child("ConfigMap/b"), failed="Deployment/web"), "fails, and deletes ConfigMap/a"),
        (state(Phase.FAILED, child("Deployment/web", uid="2"), MAP, failed="Deployment/web"), "recreates Deployment"),
        (
            state(Phase.FAILED, child("Deployment/web", image="b"), MAP, failed="Deployment/web"),
            "fails, and still changes children",
        ),
        (
            state(Phase.FAILED, WEB, child("ConfigMap/a", size="2"), not_rendered="ConfigMap/a"),
            "fails, and still changes children",
        ),
    ],
)
def test_a_wrong_change_breaks_nothing_that_ran(after: Settled, words: str) -> None:
    found = broken_by_invalid(BEFORE, after, 3)
    assert (found is not None) is bool(words)
    if found is not None:
        assert (found.rule, found.step) == (ExplorationRule.BROKEN, 3)
        assert words in found.message


def test_a_parent_that_can_t_be_compared_breaks_nothing() -> None:
    assert broken_by_invalid(BEFORE, replace(state(Phase.FAILED), comparable=False), 1) is None


def test_a_failure_that_the_status_does_not_name_is_one() -> None:
    found = own_failure(replace(BEFORE, unnamed=("ConfigMap default/a",)), 2)
    assert found is not None
    assert (found.rule, found.message) == (
        ExplorationRule.UNNAMED,
        "the status doesn't name ConfigMap default/a: ApplyFailed",
    )
    assert own_failure(BEFORE, 2) is None

"""Which warnings of the API server are shown."""

from __future__ import annotations

from ssa_operator.reconcile import promises
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import ChildMemories
from tests.objects.example_objects import config_map_identity


def applied(name: str, *warnings: str) -> Child:
    step = Child(action=Action.APPLY, identity=config_map_identity(name))
    return step.ended(Result.CONFIGURED, warnings=warnings)


def after(memories: ChildMemories, *outcomes: Child) -> ChildMemories:
    return promises.after(memories, outcomes, now=0.0)


def test_a_warning_of_a_child_is_new_once_and_again_after_the_child_was_gone() -> None:
    first = applied("a", "v1 Old is deprecated")
    shown = after(ChildMemories(), first)
    second = applied("a", "v1 Old is deprecated", "spec.x is deprecated")
    assert [each.warnings for each in promises.news(shown, (second,))] == [("spec.x is deprecated",)]
    other = applied("b", "v1 Old is deprecated")
    assert promises.news(shown, (other,)) == (other,)
    gone = after(shown, applied("b"))
    assert gone.at_rest
    assert promises.news(gone, (first,)) == (first,)

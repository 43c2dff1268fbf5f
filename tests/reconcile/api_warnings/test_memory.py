"""Which warnings of the API server are shown."""

from __future__ import annotations

from ssa_operator.reconcile.api_warnings.memory import ShownWarnings
from ssa_operator.reconcile.child_history import CarriedOut, ChildHistory
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.step import Action, Step
from tests.objects.example_objects import config_map_identity, rendered


def applied(name: str, *warnings: str) -> Outcome:
    step = Step(action=Action.APPLY, identity=config_map_identity(name))
    return Outcome(step=step, result=Result.CONFIGURED, warnings=warnings)


def after(memory: ShownWarnings, *outcomes: Outcome) -> ShownWarnings:
    return memory.after(CarriedOut(outcomes=outcomes, rendered=rendered(), before=ChildHistory(), now=0.0))


def test_a_warning_of_a_child_is_new_once_and_again_after_the_child_was_gone() -> None:
    first = applied("a", "v1 Old is deprecated")
    shown = after(ShownWarnings(), first)
    second = applied("a", "v1 Old is deprecated", "spec.x is deprecated")
    assert [each.warnings for each in shown.news((second,))] == [("spec.x is deprecated",)]
    assert shown.news((applied("b", "v1 Old is deprecated"),)) == (applied("b", "v1 Old is deprecated"),)
    gone = after(shown, applied("b"))
    assert gone.at_rest
    assert gone.news((first,)) == (first,)

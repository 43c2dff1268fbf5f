"""The promises about children that remember something from one reconcile until the next one, in the order in which they
learn. It is the only list of them: a new promise is a room with a `memory.py`, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssa_operator.reconcile.api_warnings.memory import ShownWarnings
from ssa_operator.reconcile.child_history import CarriedOut, ChildHistory, NoMemory, Observation, PromiseMemory
from ssa_operator.reconcile.feedback_loops.memory import FeedbackLoops
from ssa_operator.reconcile.field_conflicts.memory import Conflicts
from ssa_operator.reconcile.finalization.memory import HookFailures
from ssa_operator.reconcile.follow_ups.memory import FollowUps
from ssa_operator.reconcile.outcome import Outcome
from ssa_operator.reconcile.pod_failures.memory import PodChecks
from ssa_operator.reconcile.recreate.memory import Recreations
from ssa_operator.reconcile.refusals.memory import Refusals
from ssa_operator.reconcile.renames.memory import Renames
from ssa_operator.reconcile.resync.memory import ApplyRecords

PROMISES: tuple[type[PromiseMemory], ...] = (
    ApplyRecords,
    Refusals,
    Recreations,
    HookFailures,
    Conflicts,
    ShownWarnings,
    FeedbackLoops,
    Renames,
    FollowUps,
    PodChecks,
)


def _answering(question: Callable[..., object]) -> tuple[type[PromiseMemory], ...]:
    """The promises that have an answer of their own to a question of `PromiseMemory`. The others are never asked."""
    name = question.__name__
    return tuple(promise for promise in PROMISES if getattr(promise, name) is not getattr(NoMemory, name))


OBSERVED = _answering(PromiseMemory.observed)
AFTER_ACT = _answering(PromiseMemory.after_act)
AFTER = _answering(PromiseMemory.after)
NEWS = _answering(PromiseMemory.news)


def begin(history: ChildHistory, seen: Observation) -> ChildHistory:
    """What a reconcile begins with. Only the memories in use are asked."""
    used = [history[each].observed(seen) for each in OBSERVED if each in history.memories]
    return history.remember(*used) if used else history


def after_act(history: ChildHistory, outcomes: Sequence[Outcome]) -> ChildHistory:
    """What is remembered even if the reconcile fails later."""
    return history.remember(*(history[each].after_act(outcomes) for each in AFTER_ACT))


def after(history: ChildHistory, done: CarriedOut) -> ChildHistory:
    """What is remembered of a reconcile that came to its end."""
    return history.remember(*(history[each].after(done) for each in AFTER))


def news(history: ChildHistory, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """The outcomes without what was logged of earlier ones. Only the memories in use are asked."""
    for each in NEWS:
        if each in history.memories:
            outcomes = history.memories[each].news(outcomes)
    return outcomes

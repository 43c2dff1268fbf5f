"""Judges the objects of one reconcile by expressions: at once if that is fast, in a thread if it takes longer.

The rules of a reconcile judge objects in the middle of their work, which can't wait. So an expression that takes long
has no result there yet: the caller has a thread judge what is `missing`, and repeats the work, which is pure.

Promises:
- All expressions of a reconcile together take ALLOWANCE seconds on the event loop at most.
- If there was no time for an expression, it does not hold, and the message says so.
- An object is judged once by each expression, as long as it has the same content.
- An expression takes a second at most. After one that took the whole second, each further expression of the reconcile
  has a tenth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from ssa_operator.objects.context_values import set_within
from ssa_operator.objects.predicate import Judgement
from ssa_operator.rendering.values import limits

ALLOWANCE = 0.05
"""Seconds of processor time. A usual expression takes some microseconds."""

NOT_YET = Judgement(holds=False, cause="it takes long, and is judged next")

Evaluate = Callable[[float | None], Judgement]
"""Evaluates an expression for an object within this number of seconds, by default that of a template."""

Body = Mapping[str, Any]


class Judgements:
    """The judgements of one reconcile."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._left = ALLOWANCE
        self._known: dict[tuple[str, str], list[tuple[Body, Judgement]]] = {}
        """By expression and uid of the object, the contents that it had and the results."""
        self._missing: dict[tuple[str, str], tuple[Body, Evaluate]] = {}
        self._seconds: float | None = None

    @property
    def missing(self) -> bool:
        """Whether there was no time for an expression, so that the result of the work is not valid yet."""
        return bool(self._missing)

    def used(self) -> AbstractContextManager[None]:
        """Use this for the expressions of the block."""
        return set_within(_current, self)

    def judge(self, text: str, body: Body, evaluate: Evaluate) -> Judgement:
        """The judgement of an expression on an object, NOT_YET if there is no time to evaluate it."""
        key = (text, str((body.get("metadata") or {}).get("uid", "")))
        for content, judgement in self._known.get(key, ()):
            if content is body or content == body:
                return judgement
        started = self._clock()
        if self._left > 0:
            try:
                with limits.interruptible(limits.Interrupt(time.thread_time() + self._left)):
                    judgement = evaluate(None)
            except limits.Interrupted:
                pass
            else:
                self._known.setdefault(key, []).append((body, judgement))
                return judgement
            finally:
                self._left -= self._clock() - started
        self._missing[key] = (body, evaluate)
        return NOT_YET

    def judge_missing(self) -> None:
        """Evaluate the expressions for which there was no time; another thread may call it."""
        for key, (body, evaluate) in self._missing.items():
            started = self._clock()
            judgement = evaluate(self._seconds)
            if self._clock() - started >= limits.SECONDS_LIMIT:
                self._seconds = limits.SECONDS_AFTER_OVERRUN
            self._known.setdefault(key, []).append((body, judgement))
        self._missing = {}


_current: ContextVar[Judgements | None] = ContextVar("ssa_operator_judgements", default=None)


def current() -> Judgements | None:
    """The judgements of the reconcile in progress. None outside of a reconcile, and in a render, which has its own
    time.
    """
    return None if limits.is_interruptible() else _current.get()

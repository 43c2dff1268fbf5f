"""Expressions that judge the objects of a reconcile: at once, or later in a thread."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.objects.predicate import Judgement, Predicate
from ssa_operator.rendering.jinja import judgements, predicates
from ssa_operator.rendering.jinja.judgements import NOT_YET, Judgements
from ssa_operator.rendering.jinja.predicates import compile_predicate
from ssa_operator.rendering.values import limits

SLOW = "range(30000) | map('string') | map('length') | sum > 0"
ENDLESS = " | ".join(["range(99000)", *["map('string') | map('length')"] * 9, "sum > 0"])


@pytest.fixture(autouse=True)
def _time_on_a_busy_machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "tenth" not in request.node.name:
        monkeypatch.setattr(limits, "SECONDS_LIMIT", 60.0)


def body(uid: str = "1", **data: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "data": data}


def judged(predicate: Predicate, *bodies: dict[str, Any], by: Judgements) -> list[Judgement]:
    with by.used():
        return [predicate.judge(each) for each in bodies]


def test_a_usual_expression_is_judged_at_once() -> None:
    found = Judgements()
    assert judged(compile_predicate("data.a == 1"), body(a=1), body(a=2), by=found) == [
        Judgement(holds=True),
        Judgement(holds=False),
    ]
    assert not found.missing


def test_an_expression_that_takes_long_is_judged_later_and_counts_as_false_until_then() -> None:
    found, slow = Judgements(), compile_predicate(SLOW)
    assert judged(slow, body(), by=found) == [NOT_YET]
    assert found.missing
    found.judge_missing()
    assert judged(slow, body(), by=found) == [Judgement(holds=True)]
    assert not found.missing


def test_all_expressions_together_have_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgements, "ALLOWANCE", 10.0)
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 3.0
        return now

    found, usual = Judgements(clock), compile_predicate("data.a == 1")
    results = judged(usual, *(body(str(number), a=1) for number in range(6)), by=found)
    assert results == [Judgement(holds=True)] * 4 + [NOT_YET] * 2
    found.judge_missing()
    assert judged(usual, *(body(str(number), a=1) for number in range(6)), by=found) == [Judgement(holds=True)] * 6


def test_an_object_is_judged_once_while_its_content_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, judgement = list[object](), predicates._judgement

    def counted(expression: Any, content: Any, seconds: float | None = None) -> Judgement:
        seen.append(content["data"])
        return judgement(expression, content, seconds)

    monkeypatch.setattr(predicates, "_judgement", counted)
    judged(compile_predicate("data.a == 1"), body(a=1), body(a=2), body(a=1), body("2", a=1), by=Judgements())
    assert seen == [{"a": 1}, {"a": 2}, {"a": 1}]


def test_after_an_expression_that_took_its_whole_time_the_others_have_a_tenth() -> None:
    found, seconds = Judgements(lambda: 0.0), list[float | None]()
    endless = compile_predicate(ENDLESS)
    found._left = 0.0
    judged(endless, body("1"), body("2"), body("3"), by=found)
    times = iter([0.0, 1.0, 1.0, 1.1, 1.1, 1.2])
    found._clock = lambda: next(times)

    def evaluate(limit: float | None) -> Judgement:
        seconds.append(limit)
        return NOT_YET

    found._missing = {key: (content, evaluate) for key, (content, _) in found._missing.items()}
    found.judge_missing()
    assert seconds == [None, limits.SECONDS_AFTER_OVERRUN, limits.SECONDS_AFTER_OVERRUN]


def test_in_a_render_an_expression_uses_up_its_time() -> None:
    endless = compile_predicate(ENDLESS)
    with limits.enforced(0.01):
        assert "0.01 second" in endless.judge(body()).cause
        with pytest.raises(limits.TimeLimitError):
            limits.current().check_time()


def test_a_render_in_a_reconcile_judges_within_its_own_time() -> None:
    found = Judgements()
    with limits.interruptible(limits.Interrupt()):
        assert judged(compile_predicate(SLOW), body(), by=found) == [Judgement(holds=True)]
    assert not found.missing

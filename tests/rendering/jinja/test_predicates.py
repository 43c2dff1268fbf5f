"""Expressions that judge the objects of a reconcile: at once, or later in a thread."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.predicate import Judgement, Predicate
from ssa_operator.rendering.jinja import predicates
from ssa_operator.rendering.jinja.predicates import LENGTH_LIMIT, NOT_YET, Judgements, PredicateError, compile_predicate
from ssa_operator.rendering.values import limits
from tests.rendering.hostile_values import HOSTILE_VALUES

SLOW = "range(30000) | map('string') | map('length') | sum > 0"
ENDLESS = " | ".join(["range(99000)", *["map('string') | map('length')"] * 9, "sum > 0"])


@pytest.fixture(autouse=True)
def _time_on_a_busy_machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "tenth" not in request.node.name:
        monkeypatch.setattr(limits, "SECONDS_LIMIT", 60.0)


def body(uid: str = "1", **data: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "data": data}


def judged_by(predicate: Predicate, *bodies: dict[str, Any], by: Judgements) -> list[Judgement]:
    with by.used():
        return [predicate.judge(each) for each in bodies]


def test_a_usual_expression_is_judged_at_once() -> None:
    found = Judgements()
    assert judged_by(compile_predicate("data.a == 1"), body(a=1), body(a=2), by=found) == [
        Judgement(holds=True),
        Judgement(holds=False),
    ]
    assert not found.missing


def test_an_expression_that_takes_long_is_judged_later_and_counts_as_false_until_then() -> None:
    found, slow = Judgements(), compile_predicate(SLOW)
    assert judged_by(slow, body(), by=found) == [NOT_YET]
    assert found.missing
    found.judge_missing()
    assert judged_by(slow, body(), by=found) == [Judgement(holds=True)]
    assert not found.missing


def test_all_expressions_together_have_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicates, "ALLOWANCE", 10.0)
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 3.0
        return now

    found, usual = Judgements(clock), compile_predicate("data.a == 1")
    results = judged_by(usual, *(body(str(number), a=1) for number in range(6)), by=found)
    assert results == [Judgement(holds=True)] * 4 + [NOT_YET] * 2
    found.judge_missing()
    assert judged_by(usual, *(body(str(number), a=1) for number in range(6)), by=found) == [Judgement(holds=True)] * 6


def test_an_object_is_judged_once_while_its_content_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, judgement = list[object](), predicates._judgement

    def counted(expression: Any, content: Any, seconds: float | None = None) -> Judgement:
        seen.append(content["data"])
        return judgement(expression, content, seconds)

    monkeypatch.setattr(predicates, "_judgement", counted)
    judged_by(compile_predicate("data.a == 1"), body(a=1), body(a=2), body(a=1), body("2", a=1), by=Judgements())
    assert seen == [{"a": 1}, {"a": 2}, {"a": 1}]


def test_after_an_expression_that_took_its_whole_time_the_others_have_a_tenth() -> None:
    found, seconds = Judgements(lambda: 0.0), list[float | None]()
    endless = compile_predicate(ENDLESS)
    found._left = 0.0
    judged_by(endless, body("1"), body("2"), body("3"), by=found)
    times = iter([0.0, 1.0, 1.0, 1.1, 1.1, 1.2])
    found._clock = lambda: next(times)

    def evaluate(limit: float | None) -> Judgement:
        seconds.append(limit)
        return NOT_YET

    found.missing = {key: (content, evaluate) for key, (content, _) in found.missing.items()}
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
        assert judged_by(compile_predicate(SLOW), body(), by=found) == [Judgement(holds=True)]
    assert not found.missing


OBJECT: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Task",
    "metadata": {"name": "a", "generation": 2, "labels": {"items": "x"}},
    "spec": {"n": 3},
    "status": {
        "phase": "Running",
        "observedGeneration": 2,
        "empty": [],
        "conditions": [{"type": "Ready", "status": "True"}],
    },
    "data": {"range": "a"},
}


def judged(text: str, body: dict[str, Any] = OBJECT) -> tuple[bool, str]:
    judgement = compile_predicate(text).judge(body)
    return judgement.holds, judgement.cause


@pytest.mark.parametrize(
    "text",
    [
        "status.phase == 'Running'",
        "status.phase in ['Running', 'Succeeded']",
        "status.observedGeneration >= metadata.generation",
        "kind == 'Task' and spec.n > 2",
        "(status.conditions | selectattr('type', 'equalto', 'Ready') | first).status == 'True'",
        "status.x | default('Running') == 'Running'",
        "status.a.b.c is not defined",
        "status.x is undefined or status.x > 1",
        "spec.n == 3 or status.x",
        "metadata.labels.items == 'x'",
        "data.items() | list | length == 1",
        "data.range == 'a'",
    ],
)
def test_an_expression_that_holds(text: str) -> None:
    assert judged(text) == (True, "")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("status.phase == 'Failed'", ""),
        ("status.empty", ""),
        ("status.x != 'y'", "status.x is missing"),
        ("status.x is none", "status.x is missing"),
        ("status.x is not none", "status.x is missing"),
        ("not status.x", "status.x is missing"),
        ("status.a.b not in status.empty", "status.a.b is missing"),
        ("status.x or true", "status.x is missing"),
        ("spec[status.x] | default(true)", "status.x is missing"),
        ("[status.x]", "status.x is missing"),
        ("nothing", "nothing is missing"),
        ("status.conditions[1].status == 'True'", "status.conditions[1].status is missing"),
        ("status.empty | first is none", "No first item, sequence was empty."),
        ("spec.n > 'x'", "> can't compare a number with a string"),
        ("spec.n / 0 > 1", "division by zero"),
        ("fail('no')", "no"),
    ],
)
def test_an_expression_that_does_not_hold(text: str, cause: str) -> None:
    assert judged(text) == (False, cause)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("status.phase ==", "is no valid expression: unexpected 'end of the expression'"),
        ("status.phase = 'x'", "is no valid expression"),
        ("status }} {{ spec", "is no valid expression"),
        ("{% if x %}", "is no valid expression"),
        ("status.phase | toYaml", "No filter named 'toYaml'"),
        ("spec.n is large", "No test named 'large'"),
        ("status | random", "random gives another item each time"),
        ("lookup('v1', 'Secret', 'x').data.a == 'b'", "calls lookup, which queries the cluster"),
        ("generated() == 'a'", "calls generated"),
        ("include('x')", "calls include, which is not a function"),
        ("(" * 400 + "1" + ")" * 400, "is nested too deeply"),
        ("a" * (LENGTH_LIMIT + 1), f"is longer than {LENGTH_LIMIT} characters"),
    ],
)
def test_an_invalid_expression_is_an_error(text: str, words: str) -> None:
    with pytest.raises(PredicateError, match=r"^(is|calls)") as raised:
        compile_predicate(text)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("''.__class__.mro()", "refused for security"),
        ("range.__globals__", "refused for security"),
        ("status.__class__", "refused for security"),
        ("self.__init__.__globals__", "refused for security"),
        ("cycler.__init__.__globals__", "refused for security"),
        ("status.update({'phase': 'x'})", "changes a mapping in place"),
        ("status.empty.append(1)", "changes a list in place"),
        ("'a' * 10**9 == 'b'", "larger than"),
        ("10 ** 9999 > 1", "too large"),
        ("range(99999999) | list", "the range has more than"),
        ("range(99999) | map('string') | map('replace', '', 'x' * 99999) | list", "too"),
    ],
)
def test_the_sandbox_and_the_limits_are_those_of_templates(text: str, words: str) -> None:
    holds, cause = judged(text)
    assert not holds
    assert words in cause
    assert OBJECT["status"]["phase"] == "Running"
    assert OBJECT["status"]["empty"] == []


def test_a_hostile_value_is_data() -> None:
    for text in (*HOSTILE_VALUES.values(), "Running"):
        body = {"status": {"phase": text, "other": "Running"}}
        assert judged("status.phase == 'Running'", body) == (text == "Running", "")
        assert judged("status.phase == status.phase ~ ''", body) == (True, "")


def test_a_cause_holds_nothing_of_a_secret() -> None:
    secret = {"kind": "Secret", "data": {"token": "hunter2"}}
    for text in ("data[data.token]", "fail(data.token)", "data.token | int > 'a'"):
        assert judged(text, secret) == (False, "")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
)
def test_whatever_the_object_holds_an_expression_has_a_result(value: Any) -> None:
    for body in ({"status": value}, {"status": {"phase": value}}, {str(value): value}):
        holds, _ = judged("status.phase == 'Running'", body)
        assert holds == (isinstance(body.get("status"), dict) and body["status"].get("phase") == "Running")
        judged("status.phase | length > 1 or status.phase[0].a > status.phase.items()", body)

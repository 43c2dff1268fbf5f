"""CEL expressions have the values of the specification. `test_rule_validation_on_server.py` compares
many with the API server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.schema.cel import values
from ssa_operator.schema.cel.cel_functions import METHODS
from ssa_operator.schema.cel.evaluation import evaluate
from ssa_operator.schema.cel.syntax import CELSyntaxError, parse
from ssa_operator.schema.cel.values import CostError, EvaluationError, UncheckedError, equal, limited
from tests.instruction_counts import is_linear


def value(text: str, **variables: Any) -> Any:
    return evaluate(parse(text), variables)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", 7),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("1 < 2 && 2 < 3", True),
        ("true || 1 / 0 == 1", True),
        ("1 / 0 == 1 || true", True),
        ("false && 1 / 0 == 1", False),
        ("[0, 1].exists(x, 1 / x == 1)", True),
        ("[0, 1].all(x, 1 / x == 2)", False),
        ("true ? 1 : 1 / 0", 1),
        ("{'a': {'b': 1}}.a.b", 1),
        ("has({'a': 1}.a)", True),
        (r"r'\d' + '\x41\u00e9\101'", "\\dAéA"),
        ("'''a'b''' + \"\"\"c\"\"\"", "a'bc"),
        ("b'a\\xff'", b"a\xff"),
        ("size('é😀')", 2),
        ("[1, 2.0, 3u] == [1.0, 2, 3]", True),
        ("'a' == b'a'", False),
        ("[[1, 2], [3]].map(l, l.map(x, x * 2))", [[2, 4], [6]]),
        ("[1, 2].map(x, x > 1, x)", [2]),
        ("'a' in {'a': 1} && !('b' in {'a': 1})", True),
    ],
)
def test_an_expression_has_the_value_of_the_specification(text: str, result: Any) -> None:
    assert value(text) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("[1][1]", "index out of bounds: 1"),
        ("{'a': 1}.b", "no such key: b"),
        ("1 + 'a'", "no such overload"),
        ("'a' < 1", "no such overload"),
        ("true + 1", "no such overload"),
    ],
)
def test_an_expression_without_a_value_is_an_error(text: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=f"^{message}$"):
        value(text)


@pytest.mark.parametrize(
    "text",
    [
        "unknown(1)",
        "'a'.unknown()",
        "a.b.unknown()",
        "other",
        "google.type.Money{}",
        "isSemver('1.2.3')",
        "semver('1.2.3').isLessThan(semver('1.10.0'))",
        "sets.contains([1], [1])",
        "[1].all(i, n, i < n)",
        "[1].exists(i, n, i == n) || true",
        "[1].transformList(i, n, i + n) == [1]",
        "{'a': 1}.transformMap(k, v, v) == {'a': 1}",
    ],
)
def test_what_is_unknown_offline_has_no_value(text: str) -> None:
    with pytest.raises((UncheckedError, CELSyntaxError)):
        value(text)


@given(st.text(alphabet="abself.()[]{}?:!&|=<>+-*/%'\"\\ 01\n", max_size=30))
def test_any_text_is_an_expression_or_a_syntax_error(text: str) -> None:
    try:
        node = parse(text)
    except CELSyntaxError:
        return
    try:
        evaluate(node, {"self": {"a": [1, "b"]}})
    except (EvaluationError, UncheckedError):
        return


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(CELSyntaxError, match="nested too deeply"):
        parse("(" * 5000 + "1" + ")" * 5000)


def doubled(text: str, times: int, start: str) -> str:
    """The expression `text` of `a` applied again and again to the result before."""
    return f"optional.of({start})" + f".optMap(a, {text})" * times + ".value()"


NESTED = "lists.range(1000)" + "".join(f".all(x{n}, lists.range(1000)" for n in range(3)) + ".size() > 0" + ")" * 3


@pytest.mark.parametrize(
    "text",
    [
        NESTED,
        "lists.range(100000).map(x, lists.range(100000)).size() > 0",
        "lists.range(100000).distinct().size() > 0",
        "lists.range(10000).map(x, 'a').join('').findAll('(a*b)|a').size() > 0",
        "lists.range(100000).map(x, x in lists.range(100000)).size() > 0",
        doubled("a + a", 60, "'ab'"),
        doubled("[a, a]", 40, "[1]") + ".flatten(50).size() > 0",
        f"{doubled('[a, a]', 40, '[1]')} == {doubled('[a, a]', 40, '[1]')}",
        doubled("a.replace('a', 'aa')", 60, "'a'"),
        doubled("[a, a, a].join(a)", 40, "'a'"),
        doubled("'%s%s'.format([a, a])", 60, "'a'"),
        "'%.999999999f'.format([1.0]) == ''",
        "'%.1000000000000f'.format([1.0]) == ''",
        "'%.0001000000000f'.format([1.0]) == ''",
        "lists.range(1000000).map(x, 'a').join('a').lastIndexOf('b' + lists.range(100000).map(x, 'a').join('')) > 0",
        f"{doubled('a + a', 18, repr('a'))}.matches('(a{{0,100}}){{10}}b')",
    ],
)
def test_what_takes_too_long_is_unknown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "WORK_LIMIT", 50_000)
    with pytest.raises(CostError), limited():
        value(text)


@pytest.mark.parametrize(
    "text",
    [
        "N.distinct().size() == N.size()",
        "N.map(x, {'a': x, 'b': [x]}).distinct().size() == N.size()",
        "N.map(x, [x, x]).distinct().size() == N.size()",
        "N.indexOf(-1) == -1",
        "N.lastIndexOf(-1) == -1",
        "N.map(x, 'a').join('').indexOf('b') == -1",
        "N.map(x, 'a').join(',').split(',').size() == N.size()",
        "N.sum() >= 0 && N.max() >= 0 && N.isSorted()",
    ],
)
def test_twice_as_many_items_take_about_twice_the_work(text: str) -> None:
    def prepared(count: int) -> Callable[[], object]:
        node = parse(text.replace("N", f"lists.range({count})"))

        def work() -> None:
            with limited():
                assert evaluate(node, {}) is True

        return work

    assert is_linear(prepared)


SCALARS = st.integers(0, 2) | st.floats(0, 2) | st.sampled_from(["a", "1"]) | st.booleans() | st.none()


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)


@given(st.lists(st.recursive(SCALARS, nested, max_leaves=5), max_size=8))
def test_distinct_items_are_those_that_are_not_equal_to_one_before(items: list[Any]) -> None:
    expected: list[Any] = []
    for each in items:
        if not any(equal(each, other) for other in expected):
            expected.append(each)
    assert [id(each) for each in METHODS["distinct"](items)] == [id(each) for each in expected]

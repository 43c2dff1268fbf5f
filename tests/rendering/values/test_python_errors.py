"""The error of an expression has its template line and words that template authors know, never Python's."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.rendering.values.python_errors import translate_error
from tests.rendering.template_files import FakeClusterView, live, manifest, render_with

PYTHON = re.compile(
    r"TrackedValue|UnknownValue|Observed|Unknown|Missing|Undefined|Markup|Text\b|Json|TemplateAPI|SlotValues|Environment|ssa_operator|jinja|NoneType|__|\bdo_|"
    r"\b(?:int|str|dict|tuple|bool|float|generator)\b(?=['\" ])|Error\b|\bobject'|positional|subscriptable"
)
SECRET = "s3cret"
CLUSTER = FakeClusterView(
    children=(live("Service", "s", spec={"ports": [{"port": 80}], "n": 3, "t": SECRET}),),
    others=(live("ConfigMap", "x", data={"n": "3"}),),
)
SPEC = {"l": [1, 2], "m": {"a": 1}, "s": SECRET, "n": 3, "none": None}


def fault(expression: str) -> str:
    text = "{% macro m(x=1) %}\na: 1\n{% endmacro %}\n" + manifest("ConfigMap", "c", f"v: {{{{ {expression} }}}}\n")
    result = render_with({"a.yaml.j2": text, "s.yaml.j2": manifest("Service", "s")}, CLUSTER, SPEC)
    (problem,) = result.problems
    location, _, message = str(problem).partition(": ")
    assert location == "echoes.example.com/a.yaml.j2:8"
    assert not PYTHON.search(message), message
    assert SECRET not in message
    return message


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("m() + 1", "+ can't be used with a string and a number; ~ joins values as text"),
        ("1 + m()", "+ can't be used with a number and a string; ~ joins values as text"),
        ("m() - 1", "- can't be used with a string and a number"),
        ("spec.l + 1", "+ can't be used with a list and a number"),
        ("spec.m + spec.m", "+ can't be used with a mapping and a mapping"),
        ("spec.none + 1", "+ can't be used with null and a number"),
        ("child('Service', 's').spec.n + 'a'", "+ can't be used with a number and a string; ~ joins values as text"),
        ("namespace(a=1) + 1", "+ can't be used with a namespace and a number"),
        ("range + 1", "+ can't be used with a function and a number"),
        ("'a' * 'b'", "* can't repeat a string or a list by a string"),
        ("-spec.l", "a list is not a number"),
        ("1 < spec.s", "< can't compare a number with a string"),
        ("child('Service', 's').spec.ports > 3", "> can't compare a list with a number"),
        ("[1, spec.s] | sort", "sort: < can't compare a string with a number"),
        ("[spec.s, child('Service', 's').spec.n] | max", "max: > can't compare a number with a string"),
        ("[spec.absent | default(spec.absent2), 3] | max",
         "spec.absent2 is missing; if it may be missing, write spec.absent2 | default(...)"),
        ("[spec.absent | default(spec.absent2), child('Service', 's').spec.n] | max",
         "spec.absent2 is missing; if it may be missing, write spec.absent2 | default(...)"),
        ("spec.s | round", "round: a string can't be rounded"),
        ("3 | length", "length: a number has no length"),
        ("[1] | select | length", "length: the items are not a list yet; write | list before it"),
        ("3 | list", "list: a number has no items to iterate over"),
        ("3 in 4", "a number has no items that `in` could find"),
        ("{spec.l: 1}", "a list can't be a key or a unique item"),
        ("spec.l[spec.m]", "a mapping can't name a field or an item"),
        ("spec.m[child('Service', 's').spec.ports]", "a list can't name a field or an item"),
        ("spec.m[spec.none]", "null can't name a field or an item"),
        ("spec.l['a':]", "a position must be a whole number"),
        ("range(spec.s)", "a string is not a whole number"),
        ("dict([1])", "a mapping can be made of a mapping, or of a list of pairs"),
        ("dict(**spec.l)", "** needs a mapping, and this is a list"),
        ("dict(**child('Service', 's').spec.ports)", "** needs a mapping, and this is a list"),
        ("dict(**spec.absent)", "spec.absent is missing; if it may be missing, write spec.absent | default(...)"),
        ("range(*spec.n)", "* needs a list, and this is a number"),
        ("dict(a=1, **{'a': 2})", "the argument a is given twice"),
        ("child('Service')", "child needs more arguments: 'name'"),
        ("child('Service', 's', 't')", "child was given too many or too few arguments"),
        ("lookup('v1', kind='ConfigMap')", "lookup needs more arguments: 'name'"),
        ("lookup('v1', 'ConfigMap', 'x', ns='n')", "lookup has no argument ns"),
        ("m(1, 2)", "macro m takes not more than 1 arguments"),
        ("m(y=1)", "macro m has no argument y"),
        ("'a' | replace('a')", "replace needs more arguments: 'new'"),
        ("spec.m.get()", "get was given too many or too few arguments"),
        ("'%d' | format(spec.s)", "format: the format asks for a number with %d, and is given something else"),
        ("'{} {}'.format(1)", "the format asks for more values than it is given"),
        ("'%s %s' % 'a'", "the format asks for more values than it is given"),
        ("'{:d}'.format(spec.s)", "the format has a part that doesn't exist, or not for this kind of value"),
        ("spec.s | filesizeformat", "filesizeformat: the string is not a number"),
        ("[1].index(spec.s)", "the value is not in the list or the text"),
        ("1 % 0", "division by zero"),
        ("3()", "a number can't be called; a field beats the method of its name"),
        ("spec.n.a", "a is missing: what should hold it is a number, not a mapping"),
        ("{(1, 2): 3}", "a mapping has a list as a key; keys must be strings"),
        ("cycler(1)", "a cycler can't be put into a manifest"),
        ("[child]", "child is a function; call it with (...)"),
        ("range ~ 'x'", "range is a function; call it with (...)"),
        ("'%c' % 1114112", "a value is not of the kind, or not in the range, that this needs"),
    ],
)  # fmt: skip
def test_an_expression_that_fails_has_an_error_in_words_of_templates(expression: str, message: str) -> None:
    assert fault(expression).partition("; the value comes from ")[0] == message


@pytest.mark.parametrize(
    "text",
    [
        "{% for a, b in spec.l %}{% endfor %}",
        "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
        "{% for a in spec.n %}{% endfor %}",
        "{% if spec.l < 3 %}{% endif %}",
        "{% set a, b = spec.n %}",
        "{% include spec.n %}",
        "{% import spec.l as x %}",
        "{% set spec.x = 1 %}",
        "{% filter round %}a{% endfilter %}",
    ],
)
def test_a_tag_that_fails_has_an_error_in_words_of_templates(text: str) -> None:
    result = render_with({"a.yaml.j2": f"{text}\n{manifest('ConfigMap', 'c')}"}, CLUSTER, SPEC)
    (problem,) = result.problems
    location, _, message = str(problem).partition(": ")
    assert location == "echoes.example.com/a.yaml.j2:1"
    assert not PYTHON.search(message), message


@given(st.sampled_from([TypeError, ValueError, KeyError, AttributeError, IndexError]), st.text(max_size=8))
def test_an_unforeseen_error_shows_none_of_its_words(kind: type[Exception], text: str) -> None:
    assert translate_error(kind(f"Observed {text} is not of {text}")) == translate_error(kind("anything else"))


def test_an_error_that_quotes_a_long_value_is_translated() -> None:
    # For the whole text, the rules would take minutes.
    error = ValueError(f"could not convert string to float: {'x' * 2**22!r}")
    assert translate_error(error) == "the string is not a number"

"""Regular expressions in templates: RE2's syntax, bounded, and without a leak."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rendering.hostile_values import HOSTILE_VALUES
from tests.rendering.template_files import HEAD, FakeClusterView, fault, live, render_with, value

CONFIG = live("ConfigMap", "x", data={"url": "postgres://db:5432/app", "pattern": "[0-9]+"})
CLUSTER = FakeClusterView(others=(CONFIG,))


def test_a_search_gives_the_first_match_or_a_group_of_it() -> None:
    spec = {"t": "quay.io/app:v1.26.3"}
    assert value("spec.t | regex_search('v[0-9.]+')", spec) == "v1.26.3"
    assert value("spec.t | regex_search(':v([0-9]+)[.]([0-9]+)', 2)", spec) == "26"
    assert value("spec.t | regex_search(':v(?P<major>[0-9]+)', 'major') | int", spec) == 1
    assert value("spec.t | regex_search('^v')", spec) is None
    assert value("spec.t | regex_search('(x)?app', group=1)", spec) is None
    assert value("8080 | regex_search('^80')") == "80"


def test_a_replacement_may_have_the_groups() -> None:
    assert value("'a1 b2' | regex_replace('([a-z])([0-9])', '\\\\2\\\\1')") == "1a 2b"
    assert value("'a1 b2' | regex_replace('(?P<l>[a-z])', '<\\\\g<l>>', 1)") == "<a>1 b2"
    assert value("'a-b-c' | regex_replace('-')") == "abc"
    assert value("'a' | regex_replace('a', '\\\\\\\\n')") == "\\n"
    assert value("'abc' | regex_replace('x*', '-')") == "-a-b-c-"


def test_a_hostile_value_stays_data() -> None:
    for hostile in HOSTILE_VALUES.values():
        assert value("spec.t | regex_replace('^', '')", {"t": hostile}) == hostile
        assert value("spec.t | regex_search('(?s).*')", {"t": hostile}) == hostile
        replacement = re.sub(r"[\x01-\x08\\]", "", hostile)
        assert value("'x' | regex_replace('x', spec.t)", {"t": replacement}) == replacement


@given(st.text(max_size=30), st.sampled_from(["a|b", "[a-c]+", "x*", "(.)(.)", "^.", "\\s+", "é"]))
def test_a_replacement_is_that_of_python(text: str, pattern: str) -> None:
    ascii_space = re.compile(pattern, re.ASCII)
    text = "".join(each for each in text if each.isprintable())
    found = value("spec.t | regex_replace(spec.p, '-')", {"t": text, "p": pattern})
    assert found == ascii_space.sub("-", text) or pattern == "x*"  # Python also replaces the empty match after a match


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'hunter2' | regex_search('(h)\\\\1')", "back-references such as \\1 are not supported"),
        ("'hunter2' | regex_search('hunter(?=2)')", "it has a look-ahead, a look-behind or another operator"),
        ("'hunter2' | regex_search('(hunter')", "regex_search: the pattern is no regular expression of RE2: missing )"),
        ("'hunter2' | regex_search('h' * 1001)", "regex_search: the pattern has 1001 characters, and may have 1000"),
        ("'hunter2' | regex_search('h{1001}')", "a part may be repeated at most 1000 times"),
        ("'hunter2' | regex_search('((h{100}){100}){100}')", "a part may be repeated at most 1000 times"),
        ("'hunter2' | regex_search('(h)', 2)", "regex_search: the pattern has no such group; it has 1"),
        ("'hunter2' | regex_search('(h)', 'name')", "regex_search: the pattern has no such group; it has 1"),
        ("'hunter2' | regex_search(1)", "regex_search: pattern must be a string"),
        ("'hunter2' | regex_replace('(h)', '\\1')", "write two backslashes in a string of a template"),
        ("'hunter2' | regex_replace('(h)', '\\\\2')", "regex_replace: the pattern has no such group; it has 1"),
        ("'hunter2' | regex_replace('(h)', '\\\\q')", "regex_replace: replacement has an escape that is none"),
        ("'hunter2' | regex_replace('(h)', '', -1)", "regex_replace: count must be a number of matches, 0 for all"),
    ],
)
def test_what_can_not_be_searched_is_an_error_that_shows_no_text(expression: str, message: str) -> None:
    found = fault(expression)
    assert found.startswith("echoes.example.com/a.yaml.j2:5: ")
    assert message in found
    assert "hunter" not in found


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("spec.t | regex_search('((a?){300}(a){300})y')", "the pattern is too large for a text of 1000000 characters"),
        ("spec.t | regex_replace('a(.*b)?', 'c')", "rendering takes longer than 0.1 seconds"),
        ("spec.t | regex_replace('a{50}', 'b' * 250)", "the result of regex_replace is larger than 3 MiB"),
    ],
)
def test_no_pattern_and_no_text_exceeds_the_limits(
    expression: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "seconds" in message:
        monkeypatch.setattr("ssa_operator.rendering.values.limits.SECONDS_LIMIT", 0.1)
    assert message in fault(expression, {"t": "a" * 1_000_000})


def test_a_pattern_that_is_catastrophic_elsewhere_is_not() -> None:
    assert value("(spec.t | regex_search('(a+)+$')) is none", {"t": "a" * 100_000 + "b"}) is True


def test_values_of_the_cluster_are_waited_for() -> None:
    def rendered_field(expression: str, cluster: FakeClusterView = CLUSTER) -> Any:
        text = HEAD + f"data: {{a: '{{{{ {expression} }}}}'}}\n"
        return render_with({"a.yaml.j2": text}, cluster)

    port = "lookup('v1', 'ConfigMap', 'x').data.url | regex_search(lookup('v1', 'ConfigMap', 'x').data.pattern)"
    assert rendered_field(port).documents[0].body["data"] == {"a": "5432"}
    (wait,) = rendered_field(port, FakeClusterView()).waits
    absent = "(there is no such ConfigMap)"
    assert str(wait) == f"waiting for ConfigMap n/x .data.url {absent} and ConfigMap n/x .data.pattern {absent}"

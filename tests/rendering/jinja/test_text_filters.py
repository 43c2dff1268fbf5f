"""Filters that read data from text, and the functions that stop a render."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rendering.hostile_values import HOSTILE_VALUES
from tests.rendering.jinja.test_filters import STRUCTURES
from tests.rendering.template_files import HEAD, FakeClusterView, fault, field, live, problem, render_with, value

SECRET = live("Secret", "s", data={"v": "aHVudGVyMg=="})
CONFIG = live("ConfigMap", "x", data={"json": '{"port": 80}', "size": "1Gi", "empty": ""})
CLUSTER = FakeClusterView(others=(CONFIG, SECRET))


@given(STRUCTURES)
def test_data_reads_back_from_json_and_from_yaml(data: Any) -> None:
    assert value("spec.d | tojson | string | from_json == spec.d", {"d": data}) is True
    assert value("spec.d | to_yaml | string | from_yaml == spec.d", {"d": data}) is True


def test_text_of_json_and_yaml_is_data_with_its_types() -> None:
    assert value("(spec.t | from_json).a[1]", {"t": '{"a": ["x", 2]}'}) == 2
    assert value("(spec.t | from_yaml).a[1]", {"t": "a:\n- x\n- yes\n"}) == "yes"
    assert value("'' | from_yaml") is None


@pytest.mark.parametrize("read", ["from_yaml", "from_json"])
def test_a_key_that_a_text_of_the_template_lacks_is_a_missing_key(read: str) -> None:
    text = f'{HEAD}{{% set t %}}\n{{"a": {{{{ spec.a }}}}}}\n{{% endset %}}\n{{% set d = t | {read} %}}\n'
    assert field(text.removeprefix(HEAD) + "v: {{ [d.a, d.b | default('none'), d.b is defined] }}\n", {"a": 1}) == [
        1,
        "none",
        False,
    ]
    assert problem(text + "v: {{ d.b.c }}\n", {"a": 1}).endswith(
        "b.c is missing; if it may be missing, write b.c | default(...)"
    )


def test_a_hostile_value_stays_data() -> None:
    for hostile in HOSTILE_VALUES.values():
        assert value("(spec.t | from_json)[0]", {"t": json.dumps([hostile])}) == hostile


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'{hunter2' | from_json", "from_json: the text is not JSON"),
        ("'NaN' | from_json", "from_json: the text is not JSON"),
        ("{'a': 1} | from_json", "from_json needs a text, and this value is data already"),
        ("none | from_yaml", "from_yaml needs a text, and this value is null"),
        ("'a: 1\\n  hunter2: ]' | from_yaml", "from_yaml: the text is not YAML in its line 2"),
        ("'a: 1\\n---\\nb: 1' | from_yaml", "from_yaml: the text has 2 documents; it may have one"),
        ("'hunter2' | bytes", "bytes needs a quantity such as 500m or 1Gi"),
        ("true | millis", "millis needs a quantity such as 500m or 1Gi"),
        ("'1e999999999' | bytes", "bytes needs a quantity such as 500m or 1Gi"),
    ],
)
def test_what_is_no_data_is_an_error_that_does_not_show_it(expression: str, message: str) -> None:
    found = fault(expression)
    assert f"a.yaml.j2:5: {message}" in found
    assert "hunter2" not in found


@pytest.mark.parametrize(
    ("quantity", "whole", "thousandths"),
    [
        ("1Gi", 2**30, 2**30 * 1000),
        ("500M", 500_000_000, 500_000_000_000),
        ("250m", 1, 250),
        (1.5, 2, 1500),
        (2, 2, 2000),
        ("1e3", 1000, 1_000_000),
        ("100u", 1, 1),
        ("-1.5", -1, -1500),
    ],
)
def test_a_quantity_is_a_number(quantity: Any, whole: int, thousandths: int) -> None:
    """Rounded up, as Quantity.Value() and MilliValue() of Kubernetes do."""
    assert value("[spec.q | bytes, spec.q | millis]", {"q": quantity}) == [whole, thousandths]


@given(st.integers(0, 10**12), st.sampled_from(["", "k", "Mi", "m"]))
def test_quantities_compare_by_their_numbers(number: int, suffix: str) -> None:
    factor = {"": Decimal(1), "k": Decimal(1000), "Mi": Decimal(2**20), "m": Decimal("0.001")}[suffix]
    assert value("spec.q | bytes", {"q": f"{number}{suffix}"}) == math.ceil(number * factor)


def test_values_of_the_cluster_are_waited_for_and_read() -> None:
    text = HEAD + "data:\n  port: '{{ (lookup('v1', 'ConfigMap', 'x').data.json | from_json).port }}'\n"
    (document,) = render_with({"a.yaml.j2": text}, CLUSTER).documents
    assert document.body["data"] == {"port": "80"}
    (wait,) = render_with({"a.yaml.j2": text}, FakeClusterView()).waits
    assert str(wait) == "waiting for ConfigMap n/x .data.json (there is no such ConfigMap)"


def test_fail_stops_with_its_message() -> None:
    text = "{% if spec.n > 3 %}{{ fail('spec.n is ' ~ spec.n ~ ', and may be 3') }}{% endif %}\n" + HEAD
    assert problem(text, {"n": 4}) == "echoes.example.com/a.yaml.j2:1: spec.n is 4, and may be 3"
    assert problem(text, {"n": "4"}).startswith("echoes.example.com/a.yaml.j2:1: ")


@pytest.mark.parametrize("given_value", [{}, {"v": None}, {"v": ""}])
def test_required_fails_without_a_value(given_value: dict[str, Any]) -> None:
    found = problem(HEAD + "data: {a: '{{ required(spec.v, 'set spec.v') }}'}\n", given_value)
    assert found == "echoes.example.com/a.yaml.j2:5: set spec.v"


@pytest.mark.parametrize("given_value", [0, False, [], {}, "x"])
def test_required_gives_any_other_value_with_its_type(given_value: Any) -> None:
    assert value("required(spec.v, 'x')", {"v": given_value}) == given_value


def test_required_waits_for_a_value_of_the_cluster() -> None:
    text = HEAD + "data: {a: '{{ required(lookup('v1', 'ConfigMap', 'x').data.KEY, 'fill it') }}'}\n"
    assert render_with({"a.yaml.j2": text.replace("KEY", "size")}, CLUSTER).documents[0].body["data"] == {"a": "1Gi"}
    (wait,) = render_with({"a.yaml.j2": text.replace("KEY", "absent")}, CLUSTER).waits
    assert ".data.absent" in str(wait)
    (found,) = render_with({"a.yaml.j2": text.replace("KEY", "empty")}, CLUSTER).problems
    assert str(found).endswith("fill it")


def test_a_loop_can_be_left_and_a_round_of_it_skipped() -> None:
    loop = "{% for n in range(9) %}{% if n == 1 %}{% continue %}{% endif %}{% if n == 3 %}{% break %}{% endif %}"
    assert field(f"v: '{loop}{{{{ n }}}}{{% endfor %}}'\n") == "02"


@pytest.mark.parametrize(
    ("text", "seconds", "milliseconds"),
    [
        ("1h30m", 5400, 5_400_000), ("500ms", 1, 500), ("1.1s", 2, 1100), ("7d", 604_800, 604_800_000),
        ("0", 0, 0), ("1d12h", 129_600, 129_600_000), ("2w", 1_209_600, 1_209_600_000), ("1s500ms", 2, 1500),
    ],
)  # fmt: skip
def test_a_duration_is_a_whole_number_of_seconds_or_milliseconds(text: str, seconds: int, milliseconds: int) -> None:
    assert value("[spec.t | seconds, spec.t | milliseconds]", {"t": text}) == [seconds, milliseconds]


def test_what_is_no_duration_is_a_problem_without_the_text() -> None:
    assert problem(HEAD + "v: {{ 'hunter2' | seconds }}\n").endswith("seconds needs a duration such as 500ms or 1h30m")
    assert "hunter2" not in problem(HEAD + "v: {{ 'hunter2' | milliseconds }}\n")


@pytest.mark.parametrize(
    ("version", "least", "holds"),
    [
        ("1.36", "1.36", True), ("1.36", "1.9", True), ("v1.36.2-gke.1", "1.36.3", False), ("1.36.0", "v1.36", True),
        ("17.5-alpine", "17", True), ("2", "10", False), ("1.36", "1.36.1", False),
    ],
)  # fmt: skip
def test_versions_are_compared_number_by_number(version: str, least: str, holds: bool) -> None:
    assert value("spec.v is version_at_least(spec.least)", {"v": version, "least": least}) == holds


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_of_two_versions_one_is_at_least_the_other(one: list[int], other: list[int]) -> None:
    spec = {"a": ".".join(map(str, one)), "b": ".".join(map(str, other))}
    both = value("[spec.a is version_at_least(spec.b), spec.b is version_at_least(spec.a)]", spec)
    length = max(len(one), len(other))
    equal = one + [0] * (length - len(one)) == other + [0] * (length - len(other))
    assert any(both)
    assert all(both) == equal


def test_null_fields_can_be_left_out_however_deep() -> None:
    spec = {"v": {"a": None, "b": {"c": None, "d": 0}, "l": [None, {"e": None, "f": ""}]}}
    assert value("spec.v", spec) == spec["v"]
    assert value("spec.v | without_nulls", spec) == {"b": {"d": 0}, "l": [None, {"f": ""}]}


def test_a_mapping_without_nulls_waits_for_its_fields() -> None:
    text = HEAD + "data: {{ {'a': lookup('v1', 'ConfigMap', 'x').data.KEY, 'b': none} | without_nulls }}\n"
    assert render_with({"a.yaml.j2": text.replace("KEY", "size")}, CLUSTER).documents[0].body["data"] == {"a": "1Gi"}
    (wait,) = render_with({"a.yaml.j2": text.replace("KEY", "absent")}, CLUSTER).waits
    assert ".data.absent" in str(wait)


PATTERN_CONFIG = live("ConfigMap", "x", data={"url": "postgres://db:5432/app", "pattern": "[0-9]+"})
PATTERN_CLUSTER = FakeClusterView(others=(PATTERN_CONFIG,))


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


def test_a_hostile_value_stays_data_after_a_replacement() -> None:
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
    def rendered_field(expression: str, cluster: FakeClusterView = PATTERN_CLUSTER) -> Any:
        text = HEAD + f"data: {{a: '{{{{ {expression} }}}}'}}\n"
        return render_with({"a.yaml.j2": text}, cluster)

    port = "lookup('v1', 'ConfigMap', 'x').data.url | regex_search(lookup('v1', 'ConfigMap', 'x').data.pattern)"
    assert rendered_field(port).documents[0].body["data"] == {"a": "5432"}
    (wait,) = rendered_field(port, FakeClusterView()).waits
    absent = "(there is no such ConfigMap)"
    assert str(wait) == f"waiting for ConfigMap n/x .data.url {absent} and ConfigMap n/x .data.pattern {absent}"

"""Filters that read data from text, and the functions that stop a render."""

from __future__ import annotations

import json
import math
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

"""The author's own fields and conditions in a status, and what is dropped of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.live_object import MANAGER
from ssa_operator.objects.render_result import RenderProblem, StatusFields
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.status.author_status import (
    CONDITIONS_LIMIT,
    OPERATOR_TYPES,
    author_status,
    undeclared_fields,
)
from ssa_operator.reconcile.status.conditions import make_status
from ssa_operator.reconcile.status.verdict import Verdict
from ssa_operator.schema.crd_schema import declared
from ssa_operator.schema.operator_fields import RESERVED
from tests.objects.example_objects import parent

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z."""

VERDICT = Verdict(ready=True, reason="Ready", message="is ready")
LINE = SourceLocation("echoes.example.com/_status.yaml.j2", 3)
UP = {"type": "DatabaseUp", "status": "True", "reason": "PodsRunning", "message": "3 pods"}


def dropped(**fields: Any) -> list[str]:
    found = author_status(parent(), StatusFields(fields=fields, location_of=lambda _: LINE))
    return [str(each).removeprefix(f"{LINE}: status.") for each in found.dropped]


def conditions(*items: Any, of: Any = None, now: float = NOON) -> list[dict[str, Any]]:
    """The conditions of the author in the status."""
    own = author_status(of or parent(), StatusFields(fields={"conditions": [*items]}))
    status = make_status(of or parent(), VERDICT, (), own, now)
    return [each for each in status["conditions"] if each["type"] not in OPERATOR_TYPES]


def test_a_condition_has_the_generation_and_the_time_of_its_last_change() -> None:
    (first,) = conditions(UP)
    assert first == {**UP, "observedGeneration": 1, "lastTransitionTime": "2026-01-01T12:00:00Z"}
    live = parent(status={"conditions": [first]})
    (same,) = conditions({**UP, "message": "4 pods"}, of=live, now=NOON + 60)
    assert same == {**first, "message": "4 pods"}
    (changed,) = conditions({**UP, "status": "False"}, of=live, now=NOON + 60)
    assert changed["lastTransitionTime"] == "2026-01-01T12:01:00Z"


@pytest.mark.parametrize(
    ("item", "status", "reason", "message"),
    [
        ({"status": True}, "True", "Reported", ""),
        ({"status": False, "reason": "No"}, "False", "No", ""),
        ({}, "Unknown", "Reported", ""),
        ({"status": "Unknown", "reason": None, "message": None}, "Unknown", "Reported", ""),
        ({"status": "True", "message": "x" * 5000}, "True", "Reported", "x" * 4095 + "…"),
    ],
)
def test_what_a_condition_lacks_has_a_default(item: Any, status: str, reason: str, message: str) -> None:
    (found,) = conditions({"type": "Up", **item})
    assert (found["status"], found["reason"], found["message"]) == (status, reason, message)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (3, "conditions[0] is dropped: a condition must be a mapping"),
        ({"status": "True"}, "conditions[0] is dropped: type must be a name in CamelCase"),
        ({"type": "not ready"}, "conditions[0] is dropped: type must be"),
        ({"type": "A\n"}, "conditions[0] is dropped: type must be"),
        ({"type": "A" * 400}, "conditions[0] is dropped: type must be"),
        ({"type": "Up", "status": "yes"}, "conditions[0] is dropped: status must be True, False or Unknown"),
        ({"type": "Up", "status": 1}, "conditions[0] is dropped: status must be"),
        ({"type": "Up", "status": {}}, "conditions[0] is dropped: status must be"),
        ({"type": "Up", "reason": "it is so"}, "conditions[0] is dropped: reason must be one word"),
        ({"type": "Up", "reason": 3}, "conditions[0] is dropped: reason must be"),
        ({"type": "Up", "message": ["a"]}, "conditions[0] is dropped: message must be a text"),
        ({"type": "Up", "lastTransitionTime": "x"}, "conditions[0].lastTransitionTime is dropped: the operator sets"),
        ({"type": "Up", "severity": "x"}, "conditions[0].severity is dropped: a condition has"),
        *(({"type": kind}, f"the operator writes the condition {kind} itself") for kind in OPERATOR_TYPES),
    ],
)
def test_what_kubernetes_would_refuse_is_dropped_with_a_reason(item: Any, words: str) -> None:
    (found,) = dropped(conditions=[item])
    assert words in found


def test_a_dropped_condition_keeps_no_other_one_out() -> None:
    items = [{"type": "Ready"}, UP, {"type": "DatabaseUp"}, {"type": "b.c/Other"}]
    assert [each["type"] for each in conditions(*items)] == ["DatabaseUp", "b.c/Other"]
    assert len(dropped(conditions=items)) == 2
    many = [{"type": f"T{number}"} for number in range(CONDITIONS_LIMIT + 1)]
    assert len(conditions(*many)) == CONDITIONS_LIMIT
    assert dropped(conditions=many) == [
        f"conditions[{CONDITIONS_LIMIT}] is dropped: a status has at most 64 conditions"
    ]


def test_reserved_fields_are_dropped_and_named() -> None:
    found = author_status(parent(), StatusFields(fields={"resources": [], "observedGeneration": 9, "url": "x"}))
    assert found.fields == {"url": "x"}
    assert [each.path for each in found.dropped] == [("observedGeneration",), ("resources",)]
    assert "conditions is dropped: it must be a list" in dropped(conditions={"type": "Up"})[0]


def test_fields_that_the_crd_does_not_declare_are_named() -> None:
    schema = {
        "type": "object",
        "properties": {"url": {"type": "string"}, "a": {"type": "array", "items": {"properties": {"b": {}}}}},
    }
    rendered = StatusFields(fields={"url": 1, "n": 2, "a": [{"b": 1, "c": 2}]}, location_of=lambda _: LINE)
    own = author_status(parent(), rendered)
    found = undeclared_fields(own, rendered, schema)
    assert [each.path for each in found] == [("url",), ("n",), ("a", 0, "c")]
    assert str(found[1]).startswith(f"{LINE}: status.n is dropped: the CRD doesn't declare this field")
    assert undeclared_fields(own, rendered, None) == ()
    assert declared(own.fields, schema) == {"a": [{"b": 1}]}


@pytest.mark.parametrize("atomic", [True, False])
def test_while_the_template_fails_the_conditions_stay_as_they_were(atomic: bool) -> None:
    theirs = {"type": "Theirs", "status": "True"}
    before = {**UP, "observedGeneration": 1, "lastTransitionTime": "2025-01-01T00:00:00Z"}
    keys: dict[str, Any] = {f"k:{msgspec.json.encode({'type': kind}).decode()}": {} for kind in ("Ready", "DatabaseUp")}
    entry = {
        "manager": MANAGER,
        "operation": "Apply",
        "subresource": "status",
        "fieldsV1": {"f:status": {"f:conditions": {} if atomic else keys, "f:url": {}}},
    }
    ready = {"type": "Ready", "status": "True"}
    items = [ready, before] if atomic else [ready, theirs, before]
    live = parent(status={"conditions": items, "url": "x", "theirs": 1}, managedFields=[entry], generation=2)
    own = author_status(live, StatusFields(problems=(RenderProblem("no"),)))
    assert own.fields == {"url": "x"}
    status = make_status(live, VERDICT, (), own, NOON)
    assert status["conditions"][1:] == [before]
    assert author_status(parent(status="x"), StatusFields(problems=(RenderProblem("no"),))).conditions == ()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["Ready", "Up", "True"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "status", "reason", "message", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.exhaustive
@given(_JSON, _JSON)
def test_whatever_a_template_renders_the_status_follows_the_conventions(value: Any, other: Any) -> None:
    own = author_status(parent(), StatusFields(fields={"conditions": value, "resources": other, "x": other}))
    status = make_status(parent(), VERDICT, (), own, NOON)
    types = [each["type"] for each in status["conditions"]]
    assert len(types) == len(set(types))
    assert types[0] == "Ready"
    assert status["conditions"][0]["message"] == VERDICT.message
    for each in status["conditions"]:
        assert each["status"] in ("True", "False", "Unknown")
        assert all(isinstance(each[name], str) for name in ("type", "reason", "message", "lastTransitionTime"))
        assert each["reason"]
    assert set(own.fields).isdisjoint(RESERVED)

"""What is left of a status that does not fit into its parent."""

from __future__ import annotations

from typing import Any

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.status.conditions import fitting, truncate

NOW = 1000.0


def parent(generation: int = 1, **status: Any) -> LiveObject:
    metadata = {"namespace": "default", "name": "web", "uid": "1", "generation": generation}
    return LiveObject.of({"apiVersion": "example.com/v1", "kind": "Echo", "metadata": metadata, "status": status})


def condition(kind: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": "A", "message": "b", "lastTransitionTime": "c"}


def status(**fields: Any) -> dict[str, Any]:
    conditions = [condition("Ready"), condition("Mine")]
    return {"observedGeneration": 1, "conditions": conditions, "resources": [{"name": "a"}], **fields}


def types(found: Any) -> list[str]:
    return [each["type"] for each in found["conditions"]]


def test_resources_are_left_out_first_and_then_what_the_author_adds() -> None:
    whole = status(mine="x")
    first = truncate(whole, None, parent(), NOW)
    assert first is not None
    assert types(first[0]) == ["Ready", "Mine", "StatusTruncated"]
    assert first[0].keys() == {"observedGeneration", "conditions", "mine"}
    second = truncate(first[0], first[1], parent(), NOW)
    assert second is not None
    assert types(second[0]) == ["Ready", "StatusTruncated"]
    assert second[0].keys() == {"observedGeneration", "conditions"}
    assert second[1].left_out == 1
    assert truncate(second[0], second[1], parent(), NOW) is None


def test_a_status_without_resources_loses_what_the_author_adds() -> None:
    whole = status(mine="x")
    del whole["resources"]
    found = truncate(whole, None, parent(), NOW)
    assert found is not None
    assert found[0].keys() == {"observedGeneration", "conditions"}


def test_the_condition_has_the_fields_that_the_crd_declares() -> None:
    whole = {"conditions": [{"type": "Ready", "status": "True"}], "resources": []}
    found = truncate(whole, None, parent(), NOW)
    assert found is not None
    assert found[0]["conditions"][-1] == {"type": "StatusTruncated", "status": "True"}


def test_a_status_that_has_no_conditions_is_written_without_resources() -> None:
    found = truncate({"observedGeneration": 1, "resources": []}, None, parent(), NOW)
    assert found is not None
    assert found[0] == {"observedGeneration": 1}


def test_the_condition_keeps_its_time() -> None:
    since = {**condition("StatusTruncated"), "lastTransitionTime": "1970-01-01T00:00:01Z"}
    found = truncate(status(), None, parent(conditions=[since]), NOW)
    assert found is not None
    assert found[0]["conditions"][-1]["lastTransitionTime"] == "1970-01-01T00:00:01Z"


def test_a_status_that_fit_meanwhile_keeps_what_the_author_adds_when_it_fits_no_more() -> None:
    whole = status(mine="x")
    first = truncate(whole, None, parent(), NOW)
    assert first is not None
    assert truncate(whole, first[1], parent(), NOW) == first


def test_what_did_not_fit_is_not_tried_again_until_it_is_smaller_or_the_spec_has_changed() -> None:
    whole = status(mine="x" * 100)
    found = truncate(whole, None, parent(), NOW)
    assert found is not None
    left, known = found
    assert fitting(whole, known, parent(), NOW) == left
    assert fitting({**whole, "mine": "x" * 101}, known, parent(), NOW).keys() == left.keys()
    assert fitting({**whole, "mine": "x"}, known, parent(), NOW) == {**whole, "mine": "x"}
    assert fitting(whole, known, parent(2), NOW) == whole
    assert fitting(whole, None, parent(), NOW) == whole

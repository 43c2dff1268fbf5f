"""A golden case's objects keep their structure, and nothing of a Secret."""

from __future__ import annotations

import base64
import json
from typing import Any

from ssa_operator.core.redaction.case_mask import CaseMask
from ssa_operator.core.redaction.secret_values import Redactor, values_of


def secret(**data: str) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": encoded, "type": "Opaque"}


def masked(body: dict[str, Any], *secrets: dict[str, Any], public: str = "") -> dict[str, Any]:
    mask = CaseMask(public=public)
    mask.learn(secrets)
    values = frozenset[str]().union(*map(values_of, secrets))
    mask.masked(secrets[0])
    return mask.masked(body, Redactor(values))


def decoded(body: dict[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


def test_equal_values_have_equal_stand_ins() -> None:
    body = secret(a="swordfish-1", b="swordfish-2", c="swordfish-1")
    found = masked(body, body)
    assert decoded(found) == {"a": "masked-1", "b": "masked-2", "c": "masked-1"}
    assert (found["type"], found["metadata"]) == ("Opaque", {"name": "s"})


def test_json_keeps_its_structure_and_the_names_that_templates_mention() -> None:
    config = {"auths": {"registry.example.com": {"username": "gordon-shumway", "id": 7, "tags": ["tag-number-1"]}}}
    body = secret(config=json.dumps(config))
    assert json.loads(decoded(masked(body, body, public="{{ x.auths }} username id tags"))["config"]) == {
        "auths": {"masked-1": {"username": "masked-2", "id": "masked-3", "tags": ["masked-4"]}}
    }


def test_another_object_has_the_stand_in_where_it_contains_the_value() -> None:
    known = secret(password="correct-horse-battery-7")
    url = "https://robot:correct-horse-battery-7@host"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"url": url, "b": "other"}}
    assert masked(body, known)["data"] == {"url": "https://robot:masked-1@host", "b": "other"}

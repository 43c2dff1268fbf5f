"""A golden case's objects keep their structure, and nothing of a Secret."""

from __future__ import annotations

import base64
import json
from typing import Any

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.secrets.content_fields import NO_CONTENT, HiddenPaths, hidden_in_live
from ssa_operator.tools.plan.secret_mask import SecretMask


def secret(**data: str) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "n"},
        "data": encoded,
        "type": "Opaque",
    }


def masked(body: dict[str, Any], hidden: HiddenPaths = frozenset(), public: str = "") -> dict[str, Any]:
    live = LiveObject.of(body)
    return SecretMask(public=frozenset(public.replace(".", " ").split())).masked(
        live, hidden_in_live(live, NO_CONTENT) | hidden
    )


def decoded(body: dict[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


def test_stand_ins_do_not_tell_which_entries_are_equal() -> None:
    found = masked(secret(a="swordfish-1", b="swordfish-2", c="swordfish-1"))
    assert decoded(found) == {"a": "masked-1", "b": "masked-2", "c": "masked-3"}
    assert (found["type"], found["metadata"]) == ("Opaque", {"name": "s", "namespace": "n"})


def test_json_keeps_its_structure_and_the_names_that_templates_mention() -> None:
    config = {"auths": {"registry.example.com": {"username": "gordon-shumway", "id": 7, "tags": ["tag-number-1"]}}}
    body = secret(config=json.dumps(config))
    assert json.loads(decoded(masked(body, public="{{ x.auths }} username id tags"))["config"]) == {
        "auths": {"masked-1": {"username": "masked-2", "id": "masked-3", "tags": ["masked-4"]}}
    }


def test_a_field_of_another_object_that_holds_content_has_a_stand_in() -> None:
    url = "https://robot:correct-horse-battery-7@host"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"url": url, "b": url}}
    assert masked(body, frozenset({("data", "url")}))["data"] == {"url": "masked-1", "b": url}

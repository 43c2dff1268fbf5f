"""Where a live object holds content is known by where the render put it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.secret_fields import NO_SECRET_FIELDS, WHOLE, SecretFields
from ssa_operator.reconcile.secrets.content_fields import ContentFields, hidden_in_live, replaced
from tests.objects.example_objects import made

PW = "correct-horse-42"


def entries(tree: dict[str, Any]) -> list[dict[str, Any]]:
    """The managedFields of an object of which the operator owns these fields."""
    return [{"manager": "ssa-operator", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": tree}]


def config_map(owned: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    """A ConfigMap of which the operator owns some data."""
    managed = entries({"f:data": {f"f:{key}": {} for key in owned}}) if owned else []
    metadata = {"name": "c", "namespace": "default", "managedFields": managed}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def shown(live: dict[str, Any], rendered: dict[str, Any] | None, *paths: tuple[str | int, ...], **more: Any) -> Any:
    """The live object as it is shown, where a render put content into the fields of a manifest."""
    secret = SecretFields(paths, keys=more.pop("keys", False)) if paths else NO_SECRET_FIELDS
    fields = ContentFields(secret=secret, manifest=None if rendered is None else made(rendered), **more)
    body = replaced(live, hidden_in_live(LiveObject.of(live), fields), lambda *_: "HIDDEN")
    body["metadata"] = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return body


def test_a_guess_is_shown_and_the_content_is_not() -> None:
    body = config_map(data={"guess": PW, "pw": PW})
    assert shown(body, body, ("data", "pw"))["data"] == {"guess": PW, "pw": "HIDDEN"}


def test_an_item_of_a_list_is_found_by_its_name() -> None:
    sent = config_map(env=[{"name": "A", "value": "a"}, {"name": "PW", "value": PW}])
    live = config_map(env=[{"name": "PW", "value": PW}, {"name": "OTHER", "value": "b"}, {"name": "A", "value": "a"}])
    assert [each["value"] for each in shown(live, sent, ("env", 1, "value"))["env"]] == ["HIDDEN", "b", "a"]


def test_an_item_whose_name_is_content_is_hidden_whatever_its_live_name_is() -> None:
    """As after the Secret changed, and before the apply."""
    sent = config_map(env=[{"name": PW, "value": PW}, {"name": "A", "value": "a"}])
    live = config_map(env=[{"name": "former-42", "value": "former-42"}, {"name": "A", "value": "a"}])
    found = json.dumps(shown(live, sent, ("env", 0, "name"), ("env", 0, "value")))
    assert "former-42" not in found


def test_an_item_that_another_manager_renamed_is_found_by_the_keys_of_its_list() -> None:
    item: dict[str, Any] = {"f:port": {}, "f:name": {}, "f:value": {}}
    sent = config_map(ports=[{"port": 80, "name": "a", "value": PW}, {"port": 81, "name": "b", "value": "plain"}])
    live = config_map(ports=[{"port": 80, "name": "renamed", "value": PW}, {"port": 81, "name": "b", "value": "plain"}])
    keys = {f'k:{{"port":{port}}}': item for port in (80, 81)}
    live["metadata"]["managedFields"] = entries({"f:ports": keys})
    assert [each["value"] for each in shown(live, sent, ("ports", 0, "value"))["ports"]] == ["HIDDEN", "plain"]


@pytest.mark.parametrize("value", [["x", PW], [{"value": "x"}, {"value": PW}], {"a": PW}, PW])
def test_items_without_a_name_and_other_shapes_are_all_hidden(value: Any) -> None:
    sent = config_map(args=[{"value": PW}])
    assert PW not in json.dumps(shown(config_map(args=value), sent, ("args", 0, "value")))


def test_what_an_earlier_render_wrote_is_hidden_if_the_templates_read_secrets_of_others() -> None:
    live = config_map(owned=("old", "new"), data={"old": PW, "new": "a", "of-others": "b"})
    sent = config_map(data={"new": "a"})
    others = {"reads": True, "read_others": True}
    assert shown(live, sent)["data"] == live["data"]
    assert shown(live, sent, **others)["data"] == {"old": "HIDDEN", "new": "a", "of-others": "b"}
    assert shown(live, None, **others)["data"] == {"old": "HIDDEN", "new": "HIDDEN", "of-others": "b"}


def test_what_an_earlier_render_wrote_is_shown_if_the_templates_only_generate_values_elsewhere() -> None:
    live = config_map(owned=("old", "new"), data={"old": "1", "new": "a"})
    assert shown(live, config_map(data={"new": "a"}), reads=True)["data"] == live["data"]
    assert shown(live, None, reads=True)["data"] == live["data"]


def test_what_an_earlier_render_wrote_beside_content_is_hidden() -> None:
    live = config_map(owned=("old", "new", "pw"), data={"old": PW, "new": "a", "pw": PW})
    sent = config_map(data={"pw": PW})
    assert shown(live, sent, ("data", "pw"), reads=True)["data"] == dict.fromkeys(live["data"], "HIDDEN")


def test_what_an_earlier_render_wrote_where_an_object_of_the_kind_holds_content_is_hidden() -> None:
    live = config_map(owned=("old", "pw"), data={"old": "b", "pw": PW})
    found = shown(live, None, reads=True, of_kind=(("data", "pw"),))
    assert found["data"] == {"old": "b", "pw": "HIDDEN"}


def test_a_value_that_a_reference_replaces_is_hidden() -> None:
    tree: dict[str, Any] = {
        "f:env": {'k:{"name":"A"}': {"f:name": {}, "f:value": {}}, 'k:{"name":"PW"}': {"f:name": {}, "f:value": {}}}
    }
    live = config_map(("x",), env=[{"name": "A", "value": "a"}, {"name": "PW", "value": PW}])
    live["metadata"]["managedFields"][0]["fieldsV1"] = tree
    sent = config_map(env=[{"name": "PW", "valueFrom": {"secretKeyRef": {"name": "s", "key": "pw"}}}])
    assert [each["value"] for each in shown(live, sent, reads=True)["env"]] == ["a", "HIDDEN"]


def test_messages_of_other_controllers_are_hidden_where_an_object_holds_content() -> None:
    live = config_map(data={"pw": PW}, status={"phase": "Failed", "conditions": [{"type": "A", "message": f"{PW}?"}]})
    live["metadata"]["annotations"] = {LAST_APPLIED: PW, "other": "kept"}
    found = shown(live, config_map(data={"pw": PW}), ("data", "pw"))
    assert found["status"] == {"phase": "Failed", "conditions": [{"type": "A", "message": "HIDDEN"}]}
    assert found["metadata"]["annotations"] == {LAST_APPLIED: "HIDDEN", "other": "kept"}


def test_a_secrets_data_are_hidden_whatever_renders_them() -> None:
    body = config_map() | {"kind": "Secret", "data": {"a": "eA=="}, "type": "Opaque"}
    assert shown(body, None)["data"] == {"a": "HIDDEN"}
    assert shown(body, None)["type"] == "Opaque"


def test_an_object_of_which_all_is_content_keeps_only_its_shape() -> None:
    body = config_map(data={PW: PW})
    fields = ContentFields(secret=WHOLE)
    found = replaced(body, hidden_in_live(LiveObject.of(body), fields), lambda *_: "HIDDEN")
    assert PW not in json.dumps(found)
    assert found["metadata"]["name"] == "HIDDEN"

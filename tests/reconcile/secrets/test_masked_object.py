"""Objects without the content of Secrets, for diffs and for snapshots."""

from __future__ import annotations

import base64
import json
from typing import Any

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.reconcile.secrets.content_fields import NO_CONTENT, HiddenPaths, Mask, hidden_in_live
from ssa_operator.tools.plan.secret_mask import SecretMask, aligned

WORD = "hunter2-hunter2"
SECRET = Identity("", "Secret", "default", "s")


def secret(**data: str) -> dict[str, Any]:
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    annotations = {LAST_APPLIED: json.dumps({"data": encoded}), "other": "kept"}
    metadata = {"name": "s", "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": data}


def is_shown(word: str, body: object) -> bool:
    text = json.dumps(body)
    return word in text or base64.b64encode(word.encode()).decode() in text


def masked(body: dict[str, Any], salt: bytes = b"s", hidden: HiddenPaths = frozenset()) -> dict[str, Any]:
    """What a diff shows."""
    return Mask(salt=salt).masked(body, hidden_in_live(LiveObject.of(body), NO_CONTENT) | hidden)


def stored(body: dict[str, Any], hidden: HiddenPaths = frozenset()) -> dict[str, Any]:
    """What a snapshot has."""
    live = LiveObject.of(body)
    return SecretMask(salt=b"s").masked(live, hidden_in_live(live, NO_CONTENT) | hidden)


def test_a_hash_shows_that_a_value_changes_and_not_which_one_it_equals() -> None:
    one, other = masked(secret(a=WORD, b=WORD)), masked(secret(a=WORD, b="else"))
    assert one["data"]["a"] == other["data"]["a"]
    assert len({one["data"]["a"], one["data"]["b"], other["data"]["b"]}) == 3
    assert one["data"]["a"] != masked(secret(a=WORD), b"other")["data"]["a"]
    assert not is_shown(WORD, one)
    assert one["metadata"]["annotations"]["other"] == "kept"


def test_a_field_that_holds_content_is_hashed_and_its_change_is_seen() -> None:
    hidden = frozenset({("data", "url")})
    one, two = (masked(config_map(url=f"db://{WORD}@{host}", plain=WORD), hidden=hidden) for host in ("one", "two"))
    assert not is_shown(WORD, one["data"]["url"])
    assert one["data"]["url"] != two["data"]["url"]
    assert one["data"]["plain"] == WORD


def test_a_token_is_another_one_in_each_entry() -> None:
    data = stored(secret(a=WORD, b=WORD))["data"]
    assert len(set(data.values())) == 2
    assert data == stored(secret(a=WORD, b=WORD))["data"]
    assert not is_shown(WORD, data)
    text = stored(config_map(a=WORD, b="b"), frozenset({("data", "a")}))["data"]
    assert text["b"] == "b"
    assert not is_shown(WORD, text)


def test_what_templates_compute_of_a_secret_is_stored_as_they_compute_it_of_its_token() -> None:
    live = config_map(sum="real", word="as rendered", drifted="by others") | {
        "list": [{"name": "b", "x": "real"}, {"name": "a"}]
    }
    applied = config_map(sum="real", word="as rendered", drifted="real") | {
        "list": [{"name": "a"}, {"name": "b", "x": "real"}]
    }
    from_tokens = config_map(sum="token", word="as rendered", drifted="token") | {
        "list": [{"name": "a"}, {"name": "b", "x": "token"}]
    }
    found = aligned(live, live, applied, from_tokens)
    assert found["data"] == {"sum": "token", "word": "as rendered", "drifted": "by others"}
    assert found["list"] == [{"name": "b", "x": "token"}, {"name": "a"}]


def test_an_entry_that_templates_make_of_a_secret_stays_hidden_and_comparable() -> None:
    mask = SecretMask(salt=b"s")
    live = applied = secret(url=f"db://{WORD}@host", plain="written in the template")
    from_tokens = secret(url="db://hash-1@host", plain="written in the template")
    renders = [({SECRET: applied}, {SECRET: from_tokens})]
    found = mask.aligned({SECRET: stored(live)}, {SECRET: live}, lambda _: renders)[SECRET]
    assert found["data"] == {name: mask.data_value(SECRET, name, value) for name, value in from_tokens["data"].items()}
    for word in (WORD, "db://", "written in the template"):
        assert not is_shown(word, found)


def test_a_stored_object_keeps_its_identity_if_a_secret_contains_it() -> None:
    body = config_map(id="parent-uid-1")
    body["metadata"] |= {"uid": "parent-uid-1", "labels": {PARENT_UID_LABEL: "parent-uid-1"}}
    paths = {("data", "id"), ("metadata", "uid"), ("metadata", "labels", PARENT_UID_LABEL)}
    found = stored(body, frozenset(paths))
    assert found["metadata"] == body["metadata"]
    assert found["data"]["id"].startswith("hash-")


def test_names_below_a_hidden_field_are_hidden_in_a_snapshot() -> None:
    found = stored(config_map(**{WORD: WORD}), frozenset({("data",)}))
    assert not is_shown(WORD, found)
    assert len(found["data"]) == 1

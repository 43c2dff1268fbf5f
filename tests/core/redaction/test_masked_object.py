"""Objects without the content of Secrets, for diffs and for snapshots."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.objects.live_object import PARENT_UID_LABEL
from ssa_operator.core.policies.adoption import LAST_APPLIED
from ssa_operator.core.redaction.masked_object import Mask
from ssa_operator.core.redaction.secret_values import Redactor, values_of
from ssa_operator.core.redaction.snapshot_mask import SnapshotMask, aligned

WORD = "hunter2-hunter2"


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


def test_equal_values_of_a_secret_have_equal_hashes_in_one_run_only() -> None:
    one, other = Mask(salt=b"one"), Mask(salt=b"other")
    masked = one.masked(secret(a=WORD, b=WORD, c="else"))
    assert masked["data"]["a"] == masked["data"]["b"] != masked["data"]["c"]
    assert masked["data"]["a"] != other.masked(secret(a=WORD))["data"]["a"]
    assert not is_shown(WORD, masked)
    assert masked["metadata"]["annotations"]["other"] == "kept"


def test_a_text_with_a_secrets_value_is_hashed_and_its_change_is_seen() -> None:
    mask = Mask(salt=b"s", redactor=Redactor(values_of(secret(a=WORD))))
    one, two = (mask.masked(config_map(url=f"db://{WORD}@{host}", plain="x")) for host in ("one", "two"))
    assert not is_shown(WORD, one)
    assert one["data"]["url"] != two["data"]["url"]
    assert one["data"]["plain"] == "x"


def test_a_snapshot_renders_what_the_cluster_renders() -> None:
    mask, source, redactor = SnapshotMask(salt=b"s"), secret(a=WORD), Redactor(values_of(secret(a=WORD)))
    mask.learn([source])
    stored = mask.masked(source)
    read = base64.b64decode(stored["data"]["a"]).decode()
    # A template that joins the value into a text.
    assert mask.masked(config_map(url=f"db://{WORD}@host"), redactor)["data"]["url"] == f"db://{read}@host"
    assert not is_shown(WORD, stored)


def test_what_templates_compute_of_a_secret_is_stored_as_they_compute_it_of_its_token() -> None:
    live = config_map(sum="real", word="as rendered", drifted="by others") | {
        "list": [{"name": "b", "x": "real"}, {"name": "a"}]
    }
    applied = config_map(sum="real", word="as rendered", drifted="real") | {
        "list": [{"name": "a"}, {"name": "b", "x": "real"}]
    }
    masked = config_map(sum="token", word="as rendered", drifted="token") | {
        "list": [{"name": "a"}, {"name": "b", "x": "token"}]
    }
    stored = aligned(live, live, applied, masked)
    assert stored["data"] == {"sum": "token", "word": "as rendered", "drifted": "by others"}
    assert stored["list"] == [{"name": "b", "x": "token"}, {"name": "a"}]


def test_an_entry_that_templates_make_of_a_secret_stays_hidden_and_comparable() -> None:
    mask = SnapshotMask(salt=b"s")
    live = applied = secret(url=f"db://{WORD}@host", plain="written in the template")
    masked = secret(url="db://hash-1@host", plain="written in the template")
    stored = mask.aligned_secret(mask.masked(live), live, applied, masked)
    assert stored["data"] == {name: mask.data_value(value) for name, value in masked["data"].items()}
    for word in (WORD, "db://", "written in the template"):
        assert not is_shown(word, stored)


def test_a_stored_object_keeps_its_identity_if_a_secret_contains_it() -> None:
    mask, body = SnapshotMask(salt=b"s"), config_map(id="parent-uid-1")
    body["metadata"] |= {"uid": "parent-uid-1", "labels": {PARENT_UID_LABEL: "parent-uid-1"}}
    stored = mask.masked(body, Redactor(frozenset({"parent-uid-1"})))
    assert stored["metadata"] == body["metadata"]
    assert stored["data"]["id"] == mask.token("parent-uid-1")


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=30))
def test_no_value_of_a_secret_is_in_its_masked_forms(value: str) -> None:
    body, redactor = secret(key=value), Redactor(frozenset({value}))
    snapshot = SnapshotMask(salt=b"s")
    snapshot.learn([body])
    for masked in (Mask(salt=b"s", redactor=redactor).masked(body), snapshot.masked(body, redactor)):
        assert not is_shown(value, masked["data"])
    map_ = config_map(a=f"before {value} after")
    for masked in (Mask(salt=b"s", redactor=redactor).masked(map_), snapshot.masked(map_, redactor)):
        assert not is_shown(value, masked["data"])

"""The work on a list of a child is linear in its length, whoever wrote its items: counted in instructions."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ssa_operator.objects import field_set
from ssa_operator.objects.field_attribution import attribute
from ssa_operator.objects.field_set import changed_fields, lost_fields
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.merge_keys import MERGE_KEYS, IndexedBody, ListIndex
from ssa_operator.objects.messages import NEAR_LENGTH, near_names
from ssa_operator.objects.status_diff import differs
from ssa_operator.reconcile.adoption import adopt_fields_patch, without_former_fields
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.field_changes import field_changes, left_fields
from ssa_operator.reconcile.field_conflicts.rules import find_field_changes
from ssa_operator.reconcile.merged_outcomes import merged
from ssa_operator.reconcile.secrets.content_fields import Mask
from ssa_operator.schema.schema_validation import validate
from ssa_operator.tools.plan.changes import object_changes
from tests.instruction_counts import is_linear
from tests.objects.example_objects import made

Fields = dict[str, Any]
Work = Callable[[], object]

OTHER = "someone"


def env(count: int, value: str = "1") -> list[dict[str, str]]:
    return [{"name": f"N{number}", "value": value} for number in range(count)]


def env_fields(count: int, *names: str) -> Fields:
    item: Fields = {".": {}, **{f"f:{name}": {} for name in names}}
    return {f"k:{json.dumps({'name': f'N{number}'}, separators=(',', ':'))}": item for number in range(count)}


def ports(count: int) -> list[dict[str, Any]]:
    return [{"containerPort": 1 + number, "protocol": "TCP"} for number in range(count)]


def port_fields(count: int) -> Fields:
    keys = ({"containerPort": 1 + number, "protocol": "TCP"} for number in range(count))
    return {f"k:{json.dumps(key, separators=(',', ':'))}": {".": {}, "f:containerPort": {}} for key in keys}


def set_fields(count: int) -> Fields:
    return {f'v:"N{number}"': {} for number in range(count)}


def entry(fields: Fields, manager: str = MANAGER, operation: str = "Apply") -> Fields:
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": {"f:spec": fields}}


def live(spec: Fields, *entries: Fields, version: str = "7") -> LiveObject:
    metadata = {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": version}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    return LiveObject.of({**body, "metadata": {**metadata, "managedFields": list(entries)}})


def before(count: int) -> LiveObject:
    """A child with long lists, all of which the operator applied."""
    fields = {"f:env": env_fields(count, "name", "value"), "f:ports": port_fields(count), "f:set": set_fields(count)}
    return live({"env": env(count), "ports": ports(count), "set": [f"N{at}" for at in range(count)]}, entry(fields))


def after(count: int) -> LiveObject:
    """The same child, after somebody changed each item."""
    own = {"f:env": env_fields(count, "name"), "f:ports": port_fields(count), "f:set": {}}
    theirs = {"f:env": env_fields(count, "value"), "f:set": set_fields(count)}
    spec = {"env": env(count, "2")[::-1], "ports": ports(count)[::-1], "set": [f"N{at}" for at in range(count)]}
    return live(spec, entry(own), entry(theirs, OTHER, "Update"), version="8")


def rendered(count: int) -> Manifest:
    bare = [{"containerPort": each["containerPort"]} for each in ports(count)]  # the protocol is a default
    spec = {"env": env(count), "ports": bare, "set": [f"N{at}" for at in range(count)]}
    return made({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})


def lost(count: int) -> Work:
    one, other = before(count).owned_fields(), after(count).owned_fields()
    return partial(lost_fields, one, other)


def changed(count: int) -> Work:
    one, other = before(count), after(count)
    return partial(changed_fields, one.owned_fields(), one.body, other.body)


def conflict(count: int) -> Work:
    one, other = before(count), after(count)
    return partial(find_field_changes, one.own_entry(), one, other)


def attributed(count: int) -> Work:
    return partial(attribute, after(count), rendered(count))


def differences(count: int) -> Work:
    return partial(field_changes, after(count), before(count))


def left(count: int) -> Work:
    return partial(left_fields, before(count), after(count))


def shown(count: int) -> Work:
    step = Child(action=Action.APPLY, identity=before(1).identity, manifest=rendered(count), live=after(count))
    outcome = step.ended(Result.CONFIGURED, live=before(count))
    return partial(object_changes, [outcome], Mask(salt=b"salt"))


def offline(count: int) -> Work:
    return partial(merged, after(count), rendered(count), lambda *_: False)


def adopted(count: int) -> Work:
    fields = {"f:env": env_fields(count, "name", "value"), "f:ports": port_fields(count)}
    theirs = live({"env": env(count), "ports": ports(count)}, entry(fields, "kubectl", "Update"))
    return partial(without_former_fields, theirs, theirs, rendered(1))


def patched(count: int) -> Work:
    entries = [entry({"f:x": {}}, MANAGER), *(entry({"f:x": {}}, f"m{at}", "Update") for at in range(count))]
    recorded = entry({"f:env": env_fields(count, "name", "value")}, "before-first-apply", "Update")
    return partial(adopt_fields_patch, live({"env": env(count)}, *entries, recorded), "apps/v1", frozenset({"m1"}))


def status(count: int) -> Work:
    conditions = [{"type": f"T{at}", "status": "True"} for at in range(count)]
    keys: Fields = {f'k:{{"type":"T{at}"}}': {".": {}, "f:type": {}} for at in range(count)}
    metadata: Fields = {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7"}
    own = {"manager": MANAGER, "operation": "Apply", "subresource": "status"}
    fields = {"f:status": {"f:conditions": keys, "f:set": set_fields(count)}}
    metadata["managedFields"] = [{**own, "fieldsV1": fields}]
    wanted = {"conditions": conditions, "set": [f"N{at}" for at in range(count)]}
    parent = LiveObject.of({"apiVersion": "example.com/v1", "kind": "Any", "metadata": metadata, "status": wanted})
    return partial(differs, parent, wanted)


STEPS = [lost, changed, conflict, attributed, differences, left, shown, offline, adopted, patched, status]


@pytest.mark.more_cases
@pytest.mark.parametrize("prepare", STEPS, ids=lambda step: step.__name__)
def test_the_work_on_a_list_is_linear_in_its_length(prepare: Callable[[int], Work]) -> None:
    assert is_linear(prepare, small=30)


def managers(count: int) -> tuple[LiveObject, LiveObject]:
    """A child with as many other managers as fields of the operator's, after these managers changed a field each."""
    fields: Fields = {f"f:k{at}": {} for at in range(count)}
    others = [entry({f"f:k{at}": {}}, f"m{at}", "Apply") for at in range(count)]
    values = {f"k{at}": "1" for at in range(count)}
    before = live({"other": "1", **values}, entry({"f:other": {}, **fields}))
    changed = live({"other": "1", **dict.fromkeys(values, "2")}, entry({"f:other": {}}), *others, version="8")
    return before, changed


def conflict_with_many(count: int) -> Work:
    before, changed = managers(count)
    return partial(find_field_changes, before.own_entry(), before, changed)


def differences_of_many(count: int) -> Work:
    before, changed = managers(count)
    return partial(field_changes, changed, before)


@pytest.mark.parametrize("prepare", [conflict_with_many, differences_of_many], ids=lambda step: step.__name__)
def test_each_manager_costs_as_much_as_it_owns(prepare: Callable[[int], Work]) -> None:
    assert is_linear(prepare, small=30)


@pytest.mark.parametrize("prepare", [conflict, differences, left], ids=lambda step: step.__name__)
def test_each_tree_of_fields_is_decoded_once(prepare: Callable[[int], Work], monkeypatch: pytest.MonkeyPatch) -> None:
    work, decoded = prepare(3), list[bytes]()
    decode = field_set._decode

    def counted(encoded: bytes) -> Any:
        if encoded.startswith(b'{"f:spec"'):
            decoded.append(encoded)
        return decode(encoded)

    monkeypatch.setattr(field_set, "_decode", counted)
    work()
    assert decoded
    assert len(decoded) == len({*decoded})


def forged(count: int) -> Work:
    """A list whose managedFields name other keys for each item."""
    items = [{f"a{number}": number, "b": 1} for number in range(count)]
    steps = [f'k:{{"a{number}":{number},"b":1}}' for number in range(count)]

    def find() -> None:
        index = ListIndex(items)
        for step in steps:
            index.selected(step)

    return find


def twins(count: int) -> Work:
    """A list whose items all lack the key that tells them apart."""
    items = [{"protocol": "TCP"}] * count
    steps = [f'k:{{"containerPort":{number},"protocol":"TCP"}}' for number in range(count)]

    def find() -> None:
        index = ListIndex(items)
        for step in steps:
            index.selected(step)

    return find


@pytest.mark.parametrize("prepare", [forged, twins])
def test_forged_keys_cost_no_more(prepare: Callable[[int], Work]) -> None:
    assert is_linear(prepare, small=4 * MERGE_KEYS)


def test_an_item_is_found_by_its_keys_its_value_or_its_position() -> None:
    items: list[Any] = [{"port": 80}, {"port": 80, "protocol": "TCP"}, {"port": 81}, "a", ["b"], None]
    index = ListIndex(items)
    steps = ('k:{"port":80,"protocol":"TCP"}', 'k:{"port":81}', 'v:"a"', 'v:["b"]', "v:null", "i:1")
    assert [list(index.positions(step)) for step in steps] == [[1], [2], [3], [4], [5], [1]]
    nothing = (
        'k:{"port":82}',
        'k:{"port":{}}',
        "k:{}",
        "k:[]",
        "k:",
        "v:",
        'v:"b"',
        "i:6",
        "i:-1",
        f"i:{'9' * 5000}",
        "f:a",
    )
    assert [list(index.positions(step)) for step in nothing] == [[]] * len(nothing)
    assert IndexedBody({"ports": items}).value_at(("f:ports", 'k:{"port":81}', "f:port")) == 81


def test_an_item_that_lacks_a_key_has_its_default() -> None:
    index = ListIndex([{"port": 80}, {"protocol": "TCP"}, {"port": 81, "protocol": "UDP"}])
    assert index.positions('k:{"port":80,"protocol":"TCP"}') == ()
    assert list(index.selected('k:{"port":80,"protocol":"TCP"}')) == [0]
    assert list(index.selected('k:{"port":81,"protocol":"TCP"}')) == [1]
    assert list(index.selected('k:{"port":82,"protocol":"SCTP"}')) == []


def invalid(count: int) -> Work:
    schema = {"type": "array", "items": {"type": "integer"}}
    return partial(validate, schema, [f"N{number}" for number in range(count)], ("spec", "set"))


def misnamed(count: int) -> Work:
    return partial(near_names, "web-a", [f"web-{number}" for number in range(count)], 2)


@pytest.mark.parametrize("prepare", [invalid, misnamed])
def test_what_is_said_of_many_things_costs_as_much_as_they_are(prepare: Callable[[int], Work]) -> None:
    assert is_linear(prepare, small=100)


def test_a_name_is_like_those_that_it_is_mistyped_of() -> None:
    assert near_names("deploymnet", ["deployment", "deployments", "service"]) == ["deployment"]
    assert near_names("deploymnet", ["service", "deployments", "deployment"], 2) == ["deployment", "deployments"]
    assert near_names("web", ["db"]) == near_names("", ["a"]) == near_names("web", []) == []
    assert near_names("w" * NEAR_LENGTH, ["w" * NEAR_LENGTH]) == ["w" * NEAR_LENGTH]
    assert near_names("w" * (NEAR_LENGTH + 1), ["w" * NEAR_LENGTH]) == []

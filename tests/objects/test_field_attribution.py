"""Each field of a live object has one writer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.field_attribution import Attribution, Writer, attribute
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest, Rules, manifest
from ssa_operator.objects.render_result import Document, FieldRead, Origin, OriginKind
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, value_at
from tests.objects.example_objects import PARENT_UID, parent

FILE = "echoes.example.com/deployment.yaml.j2"

TEMPLATE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {"name": "web", "image": "a:1", "ports": [{"containerPort": 80}], "args": ["x", "y"]},
                    {"name": "log", "image": "b:1", "resources": {"limits": {"cpu": "1000m"}}},
                ]
            },
        },
    },
}

OURS = {
    "f:metadata": {
        "f:labels": {
            "f:app": {},
            "f:app.kubernetes.io/managed-by": {},
            "f:ssa-operator.dev/parent-uid": {},
            "f:old": {},
        },
        "f:ownerReferences": {f'k:{{"uid":"{PARENT_UID}"}}': {}},
    },
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:containers": {
                    'k:{"name":"web"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:args": {},
                        "f:ports": {
                            'k:{"containerPort":80,"protocol":"TCP"}': {
                                ".": {},
                                "f:containerPort": {},
                                "f:protocol": {},
                            }
                        },
                    },
                    'k:{"name":"log"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:resources": {"f:limits": {"f:cpu": {}}},
                    },
                }
            },
        },
    },
}


def entry(manager: str, fields: Mapping[str, Any], **more: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    } | more


def made(body: Mapping[str, Any]) -> Manifest:
    def location_of(path: FieldPath) -> SourceLocation:
        return SourceLocation(FILE, len(path), (SourceLocation("main", 1),) if "image" in path else ())

    def origin_of(path: FieldPath) -> Origin:
        return Origin(OriginKind.VALUE, (FieldRead(None, path),))

    document = Document(body=body, location=location_of(()), location_of=location_of, origin_of=origin_of)
    return manifest(document, parent(), Rules(namespaced=True))


def live(*entries: Mapping[str, Any], change: Mapping[str, Any] | None = None) -> LiveObject:
    """The Deployment as the API server has it: its containers are in another order, and fields have defaults."""
    body = json.loads(json.dumps(made(TEMPLATE).body)) | {"status": {"replicas": 2}}
    body["metadata"]["labels"]["old"] = "1"
    body["metadata"] |= {"uid": "u", "generation": 1, "managedFields": list(entries)}
    pod = body["spec"]["template"]["spec"]
    pod["containers"].reverse()
    pod["containers"][0]["resources"]["limits"]["cpu"] = "1"
    pod["dnsPolicy"] = "ClusterFirst"
    body["spec"] |= change or {}
    return LiveObject.of(body)


def by_path(found: tuple[Attribution, ...]) -> dict[str, Attribution]:
    return {field_text(each.path): each for each in found}


OURS_ENTRY = entry("ssa-operator", OURS, operation="Apply", time="2026-01-02T00:00:00Z")
CONTAINERS = "spec.template.spec.containers"


def test_a_field_leads_to_its_template_line_and_origin_in_whatever_order_the_list_is() -> None:
    found = by_path(attribute(live(OURS_ENTRY), made(TEMPLATE)))
    image = found[f"{CONTAINERS}[1].image"]
    assert (image.writer, image.value) == (Writer.TEMPLATE, "a:1")
    assert str(image.location) == f"{FILE}:6 (included from main:1)"
    assert str(image.origin) == f"{CONTAINERS}[0].image"
    assert str(found[f"{CONTAINERS}[1].ports[0].containerPort"].origin) == f"{CONTAINERS}[0].ports[0].containerPort"
    assert str(found[f"{CONTAINERS}[0].name"].origin) == f"{CONTAINERS}[1].name"


def test_an_item_is_found_by_its_keys_also_if_the_api_server_added_one() -> None:
    body = {"apiVersion": "example.com/v1", "kind": "X", "metadata": {"name": "x"}}
    sent = {**body, "spec": {"items": [{"a": 1, "v": "p"}, {"a": 2, "v": "q"}]}}
    stored = [{"a": 9, "b": 0, "v": "other"}, {"a": 2, "b": 0, "v": "q"}, {"a": 1, "b": 0, "v": "p"}]
    keys: dict[str, Any] = {f'k:{{"a":{at},"b":0}}': {".": {}, "f:a": {}, "f:v": {}} for at in (1, 2)}
    ours = entry("ssa-operator", {"f:spec": {"f:items": keys}}, operation="Apply")
    other = entry("other", {"f:spec": {"f:items": {'k:{"a":9,"b":0}': {".": {}, "f:v": {}}}}})
    metadata = {"name": "x", "managedFields": [ours, other]}
    found = by_path(attribute(LiveObject.of({**body, "metadata": metadata, "spec": {"items": stored}}), made(sent)))
    assert [str(found[f"spec.items[{at}].v"].origin) for at in (1, 2)] == ["spec.items[1].v", "spec.items[0].v"]
    assert (found["spec.items[0].v"].writer, found["spec.items[0].v"].location) == (Writer.MANAGER, None)


def test_an_atomic_list_belongs_to_its_owner_as_a_whole() -> None:
    found = by_path(attribute(live(OURS_ENTRY), made(TEMPLATE)))
    assert [found[f"{CONTAINERS}[1].args[{at}]"].writer for at in (0, 1)] == [Writer.TEMPLATE] * 2
    assert found["spec.selector.matchLabels.app"].writer is Writer.TEMPLATE


def test_what_the_operator_adds_has_a_reason() -> None:
    found = by_path(attribute(live(OURS_ENTRY), made(TEMPLATE)))
    assert {name: each.reason for name, each in found.items() if each.writer is Writer.OPERATOR} == {
        "metadata.namespace": "the parent's namespace",
        "metadata.labels[app.kubernetes.io/managed-by]": "label of every child",
        "metadata.labels[ssa-operator.dev/parent-uid]": "label of every child: the parent's uid",
        **{
            f"metadata.ownerReferences[0].{field}": "owner reference to the parent"
            for field in ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
        },
        f"{CONTAINERS}[1].ports[0].protocol": "written out, so that a repeated apply changes nothing",
    }


def test_a_field_without_an_owner_is_the_api_servers_only_if_it_is_its_metadata() -> None:
    found = by_path(attribute(live(OURS_ENTRY), made(TEMPLATE)))
    fields = ("spec.template.spec.dnsPolicy", "metadata.uid", "metadata.generation")
    assert [(found[name].writer, found[name].reason) for name in fields] == [
        (Writer.UNRECORDED, "no manager recorded"),
        (Writer.API_SERVER, "set by the API server"),
        (Writer.API_SERVER, "set by the API server"),
    ]


def test_a_field_that_no_template_renders_now_is_an_earlier_templates() -> None:
    found = by_path(attribute(live(OURS_ENTRY), made(TEMPLATE)))
    assert [name for name, each in found.items() if each.writer is Writer.EARLIER_TEMPLATE] == ["metadata.labels.old"]


def test_an_object_that_no_template_renders_now_is_an_earlier_templates() -> None:
    found = by_path(attribute(live(OURS_ENTRY), None))
    assert {name for name, each in found.items() if each.writer is Writer.TEMPLATE} == set()
    assert found["spec.replicas"].writer is found["kind"].writer is Writer.EARLIER_TEMPLATE
    assert found["spec.template.spec.dnsPolicy"].writer is Writer.UNRECORDED


def test_another_manager_is_named_with_its_subresource_and_time_and_with_what_the_template_renders() -> None:
    ours = json.loads(json.dumps(OURS_ENTRY))
    del ours["fieldsV1"]["f:spec"]["f:replicas"]
    scale = entry("kubectl", {"f:spec": {"f:replicas": {}}}, subresource="scale", time="2026-02-01T00:00:00Z")
    found = by_path(attribute(live(ours, scale, change={"replicas": 5}), made(TEMPLATE)))["spec.replicas"]
    (owner,) = found.owners
    assert (found.writer, owner.manager, owner.operation, owner.subresource) == (
        Writer.MANAGER,
        "kubectl",
        "Update",
        "scale",
    )
    assert owner.time == "2026-02-01T00:00:00Z"
    assert (found.differs, found.rendered, str(found.location)) == (True, 2, f"{FILE}:2")


def test_a_field_of_several_managers_names_all_of_them() -> None:
    other = entry("hpa", {"f:spec": {"f:replicas": {}}}, operation="Apply")
    found = by_path(attribute(live(OURS_ENTRY, other), made(TEMPLATE)))["spec.replicas"]
    assert found.writer is Writer.TEMPLATE
    assert [owner.manager for owner in found.owners] == ["ssa-operator", "hpa"]


def test_a_quantity_in_another_spelling_is_no_difference() -> None:
    found = by_path(attribute(live(OURS_ENTRY), made(TEMPLATE)))
    assert [name for name, each in found.items() if each.differs] == []


def test_a_status_belongs_to_the_manager_of_the_subresource() -> None:
    status = entry("kube-controller-manager", {"f:status": {"f:replicas": {}}}, subresource="status")
    found = by_path(attribute(live(OURS_ENTRY, status), made(TEMPLATE)))["status.replicas"]
    assert (found.writer, found.owners[0].subresource) == (Writer.MANAGER, "status")


def test_an_entry_of_a_secret_leads_to_string_data() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"a": "x"},
        "data": {"b": "eA=="},
    }
    body = dict(made(secret).body) | {"type": "Opaque"}
    ours = entry("ssa-operator", {"f:data": {"f:a": {}, "f:b": {}}}, operation="Apply")
    found = by_path(
        attribute(LiveObject.of({**body, "metadata": {**body["metadata"], "managedFields": [ours]}}), made(secret))
    )
    assert [str(found[f"data.{key}"].origin) for key in "ab"] == ["stringData.a", "data.b"]
    assert not found["data.a"].differs
    assert found["type"].writer is Writer.UNRECORDED


def test_managed_fields_that_own_nothing_own_nothing() -> None:
    found = attribute(live(entry("x", {})), made(TEMPLATE))
    assert not any(each.owners for each in found)


# Every field of any object has one attribution, whatever the managers own.

KEYS = st.sampled_from(["a", "b", "name", "x.y/z", "f:a", "."])
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "1"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)


@st.composite
def owned_trees(draw: st.DrawFn, value: Any) -> dict[str, Any]:
    """A fieldsV1 tree that could be one of this value."""
    if draw(st.booleans()):
        return {}
    tree: dict[str, Any] = {".": {}} if draw(st.booleans()) else {}
    if isinstance(value, dict):
        for key, item in value.items():
            if draw(st.booleans()):
                tree[f"f:{key}"] = draw(owned_trees(item))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            steps = [f"i:{at}", f"v:{json.dumps(item)}"]
            if isinstance(item, dict) and "name" in item:
                steps.append("k:" + json.dumps({"name": item["name"]}))
            if draw(st.booleans()):
                tree[draw(st.sampled_from(steps))] = draw(owned_trees(item))
    return tree


@given(st.data(), st.dictionaries(KEYS, VALUES, max_size=3), st.dictionaries(KEYS, VALUES, max_size=3))
def test_every_field_has_exactly_one_attribution(
    data: st.DataObject, spec: dict[str, Any], rendered: dict[str, Any]
) -> None:
    body: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}
    trees = [data.draw(owned_trees(body)) for _ in range(data.draw(st.integers(0, 3)))]
    managers = ["ssa-operator", "kubectl", "hpa"]
    entries = [
        entry(manager, tree, operation="Apply" if manager == "ssa-operator" else "Update")
        for manager, tree in zip(managers, trees, strict=False)
    ]
    own = made(body | {"spec": rendered}) if data.draw(st.booleans()) else None
    found = attribute(LiveObject.of({**body, "metadata": {"name": "x", "managedFields": entries}}), own)
    assert [each.path for each in found] == leaves(body, ())
    assert all(each.value == value_at(body, each.path) for each in found)
    for each in found:
        named = [owner.manager for owner in each.owners]
        if each.writer is Writer.MANAGER:
            assert named
            assert "ssa-operator" not in named
        elif each.writer in (Writer.API_SERVER, Writer.UNRECORDED):
            assert not named
        else:
            assert "ssa-operator" in named or not named
        assert (each.writer is Writer.EARLIER_TEMPLATE) <= (each.location is None)
        assert (each.writer is Writer.TEMPLATE) <= (each.location is not None)
        assert named.count("ssa-operator") <= 1


def leaves(value: Any, path: FieldPath) -> list[FieldPath]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for at, item in enumerate(value) for leaf in leaves(item, (*path, at))]
    return [path]

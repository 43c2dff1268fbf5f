"""`merge`: its algebra, the lists of Kubernetes, hostile values, and the provenance of both sides."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.render_result import OriginKind
from ssa_operator.rendering.jinja.strategic_merge import LIST_KEYS, merge
from ssa_operator.rendering.render import render_status, render_traced
from tests.rendering.hostile_values import HOSTILE_VALUES
from tests.rendering.jinja.test_filters import STRUCTURES
from tests.rendering.template_files import (
    HEAD,
    FakeClusterView,
    fault,
    live,
    parent,
    problem,
    render_with,
    rendered,
    status,
    templates,
    value,
)

MAPPINGS = st.dictionaries(st.sampled_from(["a", "b", "containers", "env"]), STRUCTURES, max_size=3)


def lists_of(items: st.SearchStrategy[dict[str, Any]], *keys: str) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=3, unique_by=lambda item: tuple(item.get(key) for key in keys))


ENV = lists_of(st.fixed_dictionaries({"name": st.sampled_from("XYZ")}, optional={"value": st.text(max_size=2)}), "name")
PORTS = lists_of(
    st.fixed_dictionaries({"containerPort": st.integers(1, 3), "protocol": st.sampled_from(["TCP", "UDP"])}),
    "containerPort",
    "protocol",
)
CONTAINERS = lists_of(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc")},
        optional={
            "env": ENV,
            "ports": PORTS,
            "args": st.lists(st.text(max_size=2), min_size=1, max_size=2),
            "resources": st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 3)),
        },
    ),
    "name",
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS,
        "labels": st.dictionaries(st.sampled_from(["l", "m"]), st.text(max_size=2)),
        "serviceAccountName": st.text(max_size=2),
    },
)
"""Values of one shape without nulls, as pod templates are."""


@given(PODS)
def test_a_merge_with_itself_or_with_nothing_changes_nothing(pod: dict[str, Any]) -> None:
    assert merge(pod, pod) == pod
    assert merge(pod, {}) == pod
    assert merge({}, pod) == pod


@pytest.mark.exhaustive
@given(PODS, PODS)
def test_a_second_merge_of_the_same_changes_nothing(pod: dict[str, Any], override: dict[str, Any]) -> None:
    once = merge(pod, override)
    assert merge(once, override) == once


@pytest.mark.exhaustive
@given(PODS, PODS, PODS)
def test_merges_of_one_shape_are_associative(one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]) -> None:
    assert merge(merge(one, two), three) == merge(one, merge(two, three))


@pytest.mark.exhaustive
@given(MAPPINGS, MAPPINGS)
def test_a_merge_changes_neither_side_and_ends_without_the_nulls_of_the_right(
    left: dict[str, Any], right: dict[str, Any]
) -> None:
    before = copy.deepcopy((left, right))
    found = merge(left, right)
    assert (left, right) == before
    for key, item in right.items():
        if item is None:
            assert key not in found
        elif not isinstance(item, (dict, list)):
            assert found[key] == item
    assert {key for key in found if key not in right} == {key for key in left if key not in right}


def test_a_hostile_value_stays_data() -> None:
    for hostile in HOSTILE_VALUES.values():
        spec = {"t": {hostile: hostile, "env": [{"name": hostile, "value": hostile}]}}
        assert value("{'env': [{'name': 'x'}]} | merge(spec.t)", spec) == {
            hostile: hostile,
            "env": [{"name": "x"}, {"name": hostile, "value": hostile}],
        }


def test_a_hostile_value_in_template_text_stays_data() -> None:
    text = (
        "{% filter from_yaml | merge(spec.o) %}\n" + HEAD + "data:\n  whole: {{ spec.t }}\n"
        '  part: "<{{ spec.t }}>"\n  {{ spec.t }}: key\n{% endfilter %}\n'
    )
    for hostile in HOSTILE_VALUES.values():
        (found,) = rendered({"a.yaml.j2": text}, {"t": hostile, "o": {"data": {"added": "x"}}}).documents
        assert found.body["data"] == {"whole": hostile, "part": f"<{hostile}>", hostile: "key", "added": "x"}


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": None, "e": {"f": None}}}, {"a": {"c": 2, "e": {}}}),
        ({"args": ["x", "y"]}, {"args": ["z"]}, {"args": ["z"]}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 2}, {"a": {"b": None}}, {"a": {}}),
        ({"env": [{"name": "X", "value": "1"}]}, {"env": []}, {"env": [{"name": "X", "value": "1"}]}),
        ({"env": [{"name": "X"}]}, {"env": None}, {}),
        (
            {"ports": [{"port": 53, "name": "dns"}, {"port": 53, "protocol": "UDP"}]},
            {"ports": [{"port": 53, "protocol": "TCP", "nodePort": 1}, {"port": 80}]},
            {
                "ports": [
                    {"port": 53, "name": "dns", "protocol": "TCP", "nodePort": 1},
                    {"port": 53, "protocol": "UDP"},
                    {"port": 80},
                ]
            },
        ),
        ({"ports": [80]}, {"ports": [81]}, {"ports": [81]}),
        (
            {"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/a"}, {"name": "a", "mountPath": "/b"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/a"}, {"name": "a", "mountPath": "/b"}]},
        ),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        (
            {"env": [{"name": "X"}]},
            {"env": [{"name": "X", "$patch": "delete"}]},
            {"env": [{"name": "X", "$patch": "delete"}]},
        ),
    ],
)
def test_the_right_side_wins_and_lists_merge_by_their_keys(
    left: dict[str, Any], right: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert value("spec.l | merge(spec.r)", {"l": left, "r": right}) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[1] | merge({})", "merge needs a mapping, and this is a list"),
        ("{} | merge(none)", "merge needs a mapping, and this is null"),
        ("{} | merge('hunter2: 1')", "merge needs a mapping, and this is a string; write text | from_yaml"),
        ("{} | merge(spec.o)", "spec.o is missing; if it may be missing, write spec.o | default(...)"),
        ("{'env': [{'name': 'hunter2'}] * 2} | merge({'env': []})", "merge: two items of env have the same name"),
        (
            "{'env': [{'name': 'x'}]} | merge({'env': [{'value': 'hunter2'}]})",
            "merge: an item of env has no name, and the items merge by it",
        ),
    ],
)
def test_what_can_not_be_merged_is_an_error_that_shows_no_value(expression: str, message: str) -> None:
    found = fault(expression)
    assert found == f"echoes.example.com/a.yaml.j2:5: {message}"


@pytest.mark.exhaustive
def test_a_deep_or_large_value_is_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"a": deep}
    assert "nested deeper than 100 levels" in fault("spec.d | merge(spec.d)", {"d": deep})
    monkeypatch.setattr("ssa_operator.rendering.values.limits.WORK_LIMIT", 2**20)
    loop = "{% for i in range(100000) %}{% set x = spec.d | merge(spec.d) %}{% endfor %}\n" + HEAD
    wide = {str(number): number for number in range(1000)}
    assert "do too much work" in problem(loop, {"d": wide})


# Template text and the cluster.

EMPTY = FakeClusterView()
OVERRIDE = live("ConfigMap", "override", data={"image": "b:2", "name": "main"})
SECRET = live("Secret", "s", data={"v": "aHVudGVyMg=="})
DEPLOYMENT = """{% filter from_yaml | merge(OVERRIDE) %}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: c
spec:
  replicas: {{ spec.replicas }}
  template:
    spec:
      containers:
        - name: main
          image: a:1
{% endfilter %}
"""


def deployment(written: str, cluster: FakeClusterView = EMPTY, **spec: Any) -> Any:
    return render_with({"a.yaml.j2": DEPLOYMENT.replace("OVERRIDE", written)}, cluster, {"replicas": 1, **spec})


def containers(body: Mapping[str, Any]) -> Any:
    return body["spec"]["template"]["spec"]["containers"]


def test_a_whole_manifest_takes_the_override_of_its_parent() -> None:
    override = {"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "main", "image": "b"}]}}}}
    (found,) = deployment("spec.override", override=override).documents
    assert (found.body["kind"], found.body["spec"]["replicas"]) == ("Deployment", 3)
    assert containers(found.body) == [{"name": "main", "image": "b"}]
    (found,) = deployment("spec.override | default({})").documents
    assert found.body["spec"]["replicas"] == 1


def test_a_broken_text_is_an_error_with_its_line() -> None:
    found = problem("{% set t %}\na: 1\nb: [\n{% endset %}\n" + HEAD + "v: {{ t | from_yaml }}\n")
    assert found.startswith("echoes.example.com/a.yaml.j2:3: ")


def test_an_override_of_the_cluster_is_waited_for_and_watched() -> None:
    lookup = "lookup('v1', 'ConfigMap', 'override')"
    containers_of = f"[{{'name': {lookup}.data.name, 'image': {lookup}.data.image}}]"
    override = f"{{'spec': {{'template': {{'spec': {{'containers': {containers_of}}}}}}}}}"
    found = deployment(override, FakeClusterView(others=(OVERRIDE,)))
    assert containers(found.documents[0].body) == [{"name": "main", "image": "b:2"}]
    assert [str(each.query) for each in found.documents[0].dependencies] == ["ConfigMap n/override"]
    (wait,) = deployment(override).waits
    assert ".data.name" in str(wait)


def test_a_removed_field_depends_on_what_removed_it() -> None:
    cluster = FakeClusterView(others=(live("ConfigMap", "x", data={"o": "null"}),))
    found = deployment("{'spec': {'replicas': lookup('v1', 'ConfigMap', 'x').data.o | from_json}}", cluster)
    assert "replicas" not in found.documents[0].body["spec"]
    assert [str(each.query) for each in found.documents[0].dependencies] == ["ConfigMap n/x"]


def test_an_unknown_field_leaves_those_beside_it_known() -> None:
    text = "merged: {{ {'a': child('Service', 'x').spec.clusterIP, 'b': 1} | merge({'c': 2}) }}\n"
    assert status(text).fields == {"merged": {"b": 1, "c": 2}}
    service = live("Service", "x", spec={"clusterIP": "1.2.3.4"})
    assert status(text, service).fields == {"merged": {"a": "1.2.3.4", "b": 1, "c": 2}}


@pytest.mark.parametrize(
    "defaults",
    [
        "{'containers': %s.list}",
        "{'containers': [%s.item]}",
        "{'containers': [{'name': 'main', 'env': %s.env}]}",
    ],
)
def test_an_unknown_list_or_item_that_would_merge_is_waited_for(defaults: str) -> None:
    known = defaults % "lookup('v1', 'ConfigMap', 'x').data"
    override = "{'containers': [{'name': 'main', 'env': [{'name': 'A'}]}]}"
    found = rendered({"a.yaml.j2": HEAD + f"data: {{{{ {known} | merge({override}) }}}}\n"})
    assert [str(wait).startswith("waiting for ConfigMap n/x .data") for wait in found.waits] == [True]


def test_an_unknown_list_that_is_replaced_is_not_waited_for() -> None:
    text = "data: {{ {'args': lookup('v1', 'ConfigMap', 'x').data.list} | merge({'args': ['b']}) }}\n"
    (document,) = rendered({"a.yaml.j2": HEAD + text}).documents
    assert document.body["data"] == {"args": ["b"]}


def test_a_secret_stays_secret() -> None:
    found = render_with(
        {"a.yaml.j2": HEAD + "data: {{ {'a': 'x'} | merge({'p': lookup('v1', 'Secret', 's').data.v}) }}\n"},
        FakeClusterView(others=(SECRET,)),
    )
    assert found.documents[0].body["data"] == {"a": "x", "p": "aHVudGVyMg=="}
    assert found.secrets == (SECRET,)
    text = "merged: {{ {'a': 'x'} | merge({'p': lookup('v1', 'Secret', 's').data.v}) }}\n"
    files = templates({"_status.yaml.j2": text, "a.yaml": HEAD})
    shown = render_status(files, parent({}), FakeClusterView(others=(SECRET,)))
    assert "aHVudGVyMg" not in str(shown.fields)


def traced_origin(files: Any, spec: dict[str, Any]) -> Any:
    (found,) = render_traced(files, parent(spec)).documents
    return found.origin_of


def test_blame_tells_the_override_from_the_template() -> None:
    override = {"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "main", "image": "b"}]}}}}
    files = templates({"a.yaml.j2": DEPLOYMENT.replace("OVERRIDE", "spec.override | default({})")})
    origin_of = traced_origin(files, {"replicas": 1, "override": override})
    container = ("spec", "template", "spec", "containers", 0)
    assert str(origin_of(("spec", "replicas"))) == "spec.override.spec.replicas"
    assert str(origin_of((*container, "image"))) == "spec.override.spec.template.spec.containers[0].image"
    assert origin_of(("kind",)).kind is OriginKind.LITERAL
    origin_of = traced_origin(files, {"replicas": 1})
    assert str(origin_of(("spec", "replicas"))) == "spec.replicas"
    assert origin_of((*container, "image")).kind is OriginKind.LITERAL


def test_the_result_is_a_mapping_like_others() -> None:
    expression = "({'a': {'k': 1}, 'l': [1]} | merge(spec.o))"
    spec = {"o": {"a": {"m": 2}}}
    assert value(f"{expression}.a.k + {expression}.a.m", spec) == 3
    assert value(f"{expression} | length", spec) == 2
    assert value(f"{expression}.a | items | list", spec) == [["k", 1], ["m", 2]]
    assert value(f"{expression}.a | to_yaml | string", spec) == "k: 1\nm: 2"
    assert value(f"{expression} | sha256 == spec.e | sha256", {**spec, "e": {"a": {"k": 1, "m": 2}, "l": [1]}}) is True
    assert value(f"{expression} | merge({{'a': none}})", spec) == {"l": [1]}


def test_every_key_is_of_a_field_of_kubernetes() -> None:
    assert all(keys and all(keys) for keys in LIST_KEYS.values())

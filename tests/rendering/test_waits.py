"""Manifests that read other objects: their values, their waits, and the documents beside them."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup, Selection
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Dependency, Rendered
from tests.rendering.template_files import FakeClusterView, live, manifest, render_with

SERVICE = live("Service", "s", spec={"clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 3000}, {"port": 81}]})
STARTING = live("Service", "s", spec={"type": "LoadBalancer", "clusterIP": "10.0.0.1"})
CONFIG = live("ConfigMap", "x", data={"url": "http://x", "n": "3"})
PODS = (
    live("Pod", "p2", metadata={"labels": {"app": "e", "zone": "b"}}, status={"podIP": "10.0.0.3"}),
    live("Pod", "p1", metadata={"labels": {"app": "e"}}, status={"podIP": "10.0.0.2"}),
    live("Pod", "p3", metadata={"labels": {"app": "other"}}, status={}),
    live("Pod", "p0", metadata={"labels": {"app": "e"}, "namespace": "far"}, status={"podIP": "10.0.0.9"}),
)
CLUSTER = FakeClusterView(children=(SERVICE,), others=(CONFIG, *PODS))
EMPTY = FakeClusterView()
UNREADY = FakeClusterView(
    children=({**SERVICE, "spec": {**SERVICE["spec"], "type": "LoadBalancer"}},), others=CLUSTER.others
)
DELETING = FakeClusterView(
    children=({**SERVICE, "metadata": {**SERVICE["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},),
    others=CLUSTER.others,
)

MAP = Lookup(api_version="v1", kind="ConfigMap", namespace="n", name="x")
CHILD = Reference("Service", "s")
SERVICE_FILE = {"service.yaml.j2": manifest("Service", "s")}


def one(expression: str, cluster: FakeClusterView, **more: Any) -> Rendered:
    """A manifest that has the expression in its line 5, beside a file with the Service."""
    text = manifest("ConfigMap", "c", f"v: {{{{ {expression} }}}}\n")
    return render_with({"a.yaml.j2": text, **SERVICE_FILE}, cluster, **more)


def names(result: Rendered) -> list[str]:
    return [document.body["metadata"]["name"] for document in result.documents]


def waits(result: Rendered) -> list[str]:
    return [f"{wait.location}: {wait}" for wait in result.waits]


def targets(result: Rendered) -> list[str]:
    """The waits without the remark that a looked-up object does not exist."""
    return [re.sub(r" \(there is no such \w+\)", "", wait) for wait in waits(result)]


def test_a_wait_says_whether_the_object_or_only_its_field_is_missing() -> None:
    absent, field = (one(f"lookup('v1', 'ConfigMap', '{name}').data.nope", CLUSTER) for name in ("nobody", "x"))
    assert waits(absent) == [
        "echoes.example.com/a.yaml.j2:5: waiting for ConfigMap n/nobody .data.nope (there is no such ConfigMap)"
    ]
    assert waits(field) == ["echoes.example.com/a.yaml.j2:5: waiting for ConfigMap n/x .data.nope"]


KNOWN: list[tuple[str, Any]] = [
    ("child('Service', 's').spec.clusterIP", "10.0.0.1"),
    ("child('Service', 's').spec.ports[0].port + 1", 81),
    ("child('Service', 's').spec.clusterIP[:4]", "10.0"),
    ("child('Service', 's').spec.ports[1:] | map(attribute='port') | list", [81]),
    ("child('Service', 's').spec.clusterIP | b64encode | b64decode", "10.0.0.1"),
    ("child('Service', 's').spec.ports | map(attribute='port') | join('-')", "80-81"),
    ("lookup('v1', 'ConfigMap', 'x').data.url", "http://x"),
    ("lookup('v1', 'ConfigMap', 'x').data.n | int + 1", 4),
    ("lookup('v1', 'ConfigMap', 'x').data", {"url": "http://x", "n": "3"}),
    ("lookup('v1', 'ConfigMap', 'x', namespace='n', optional=true).data.n", "3"),
    ("lookup(apiVersion='v1', kind='ConfigMap', name='x').data.items() | map('last') | sort | join", "3http://x"),
    ("lookup('v1', 'ConfigMap', 'nope', optional=true)", None),
    ("lookup('v1', 'ConfigMap', 'nope', optional=true) is none", True),
    ("lookup('v1', 'ConfigMap', 'nope', optional=true).data.a | default('b')", "b"),
    ("lookup('v1', 'ConfigMap', 'nope').data.a | default('b')", "b"),
    ("lookup('v1', 'ConfigMap', 'nope').data.a is defined", False),
    ("lookup_all('v1', 'Pod', {'app': 'e'}) | map(attribute='metadata.name') | list", ["p1", "p2"]),
    ("lookup_all('v1', 'Pod', labels={'app': 'e', 'zone': 'b'}) | length", 1),
    ("lookup_all('v1', 'Pod', {'app': 'none'})", []),
    ("lookup_all('v1', 'Pod', namespace='far')[0].status.podIP", "10.0.0.9"),
    ("lookup_all('v1', 'Pod', namespace='') | map(attribute='metadata.name') | join(' ')", "p0 p1 p2 p3"),
    ("(lookup_all('v1', 'Pod') | selectattr('status.podIP', 'defined') | last).status.podIP", "10.0.0.3"),
    ("ready(child('Service', 's'))", True),
    ("ready(lookup('v1', 'ConfigMap', 'x'))", True),
    ("ready(lookup('v1', 'ConfigMap', 'nope'))", False),
    ("ready(lookup('v1', 'ConfigMap', 'nope', optional=true))", False),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), KNOWN)
def test_a_field_that_the_cluster_has_is_a_value(expression: str, value: Any) -> None:
    result = one(expression, CLUSTER)
    assert (result.problems, result.waits) == ((), ())
    assert result.complete
    assert result.documents[0].body["v"] == value


@pytest.mark.parametrize(
    ("expression", "awaited"),
    [
        ("child('Service', 's')", "Service/s to be ready"),
        ("child('Service', 's').spec.clusterIP", "Service/s to be ready"),
        ("child('Service', 's').spec.ports[0].port + 1", "Service/s to be ready"),
        ("child('Service', 's').spec.clusterIP | upper | sha256", "Service/s to be ready"),
        ("lookup('v1', 'ConfigMap', 'x')", "ConfigMap n/x to exist"),
        ("lookup('v1', 'ConfigMap', 'x').data.url", "ConfigMap n/x .data.url"),
        ("lookup('v1', 'ConfigMap', 'x').data['a.b/c']", "ConfigMap n/x .data[a.b/c]"),
        ("lookup('v1', 'ConfigMap', 'x', namespace='far').data.url", "ConfigMap far/x .data.url"),
        ("lookup('apps/v1', 'Deployment', 'd').status.replicas", "Deployment n/d .status.replicas"),
        ("lookup('v1', 'Node', 'one').status.capacity.cpu", "Node one .status.capacity.cpu"),
        ("lookup('v1', 'Secret', lookup('v1', 'ConfigMap', 'x').data.name).data.p", "ConfigMap n/x .data.name"),
        ("lookup('v1', 'ConfigMap', 'x').data.a ~ lookup('v1', 'ConfigMap', 'y').data.b",
         "ConfigMap n/x .data.a and ConfigMap n/y .data.b"),
        ("'%s' | format(lookup('v1', 'ConfigMap', 'x').data.a)", "ConfigMap n/x .data.a"),
        ("[lookup('v1', 'ConfigMap', 'x').data.a, 1]", "ConfigMap n/x .data.a"),
        ("{'k': lookup('v1', 'ConfigMap', 'x').data.a} | tojson", "ConfigMap n/x .data.a"),
        ("lookup('v1', 'ConfigMap', 'x').data.a == 'b'", "ConfigMap n/x .data.a"),
        ("lookup('v1', 'ConfigMap', 'x').data.a.split(',')", "ConfigMap n/x .data.a"),
        ("lookup('v1', 'ConfigMap', 'x', optional=true).data.a", "ConfigMap n/x .data.a"),
        ("lookup_all('v1', 'Pod', {'app': lookup('v1', 'ConfigMap', 'x').data.a}) | length", "ConfigMap n/x .data.a"),
    ],
)  # fmt: skip
def test_a_wait_names_the_field_or_object_that_the_cluster_lacks(expression: str, awaited: str) -> None:
    result = one(expression, EMPTY)
    assert targets(result) == [f"echoes.example.com/a.yaml.j2:5: waiting for {awaited}"]
    assert names(result) == ["s"]
    assert result.problems == ()
    assert not result.complete
    assert result.waits[0].identity == Identity("", "ConfigMap", "n", "c")


@pytest.mark.parametrize(
    ("expression", "awaited"),
    [
        ("child('Service', 's').status.loadBalancer.ingress[0].ip", "Service/s .status.loadBalancer.ingress[0].ip"),
        ("child('Service', 's').spec.ports[7].port", "Service/s .spec.ports[7].port"),
        ("child('Service', 's').spec.ports | map(attribute='nodePort') | join", "Service/s .spec.ports[1].nodePort"),
        ("(child('Service', 's').spec.ports | last).nodePort", "Service/s .spec.ports[1].nodePort"),
        ("lookup('v1', 'ConfigMap', 'x').data.nope | b64decode", "ConfigMap n/x .data.nope"),
        ("lookup_all('v1', 'Pod')[2].status.podIP", "Pod n/p3 .status.podIP"),
        ("lookup_all('v1', 'Pod') | map(attribute='status.podIP') | list", "Pod n/p3 .status.podIP"),
    ],
)
def test_a_field_that_an_object_lacks_is_awaited_with_its_path(expression: str, awaited: str) -> None:
    assert waits(one(expression, CLUSTER)) == [f"echoes.example.com/a.yaml.j2:5: waiting for {awaited}"]


TEXTS = FakeClusterView(
    others=(
        live("ConfigMap", "x", data={"j": '{"a": {"b": 1}, "l": [1]}', "y": "a: {b: 1}"}),
        live("Secret", "s", data={"j": "eyJhIjogMX0="}),
    )
)


@pytest.mark.parametrize(
    ("expression", "awaited"),
    [
        ("(lookup('v1', 'ConfigMap', 'x').data.j | from_json).z", "ConfigMap n/x .data.j.z"),
        ("(lookup('v1', 'ConfigMap', 'x').data.j | from_json).a.z.y", "ConfigMap n/x .data.j.a.z.y"),
        ("(lookup('v1', 'ConfigMap', 'x').data.j | from_json).l[3]", "ConfigMap n/x .data.j.l[3]"),
        ("(lookup('v1', 'ConfigMap', 'x').data.y | from_yaml).a.z", "ConfigMap n/x .data.y.a.z"),
        ("(lookup_all('v1', 'ConfigMap')[0].data.j | from_json)['z']", "ConfigMap n/x .data.j.z"),
        ("(lookup('v1', 'Secret', 's').data.j | b64decode | from_json).z", "Secret n/s .data.j.z"),
    ],
)
def test_a_key_that_a_looked_up_text_lacks_is_awaited_in_the_field_of_the_text(expression: str, awaited: str) -> None:
    for written in (expression, f"'%s' | format({expression})", f"'yes' if {expression} else 'no'"):
        result = render_with({"a.yaml.j2": manifest("ConfigMap", "c", f"v: {{{{ {written} }}}}\n")}, TEXTS)
        assert ([str(wait) for wait in result.waits], result.problems) == ([f"waiting for {awaited}"], ())
    other = render_with({"a.yaml.j2": manifest("ConfigMap", "c", f"v: {{{{ {expression} | default('d') }}}}\n")}, TEXTS)
    assert [document.body["v"] for document in other.documents] == ["d"]


def test_a_format_that_asks_for_a_key_that_a_looked_up_text_lacks_is_an_error_of_words() -> None:
    use = "'%(z)s' | format(**(lookup('v1', 'ConfigMap', 'x').data.j | from_json))"
    result = render_with({"a.yaml.j2": manifest("ConfigMap", "c", f"v: {{{{ {use} }}}}\n")}, TEXTS)
    words = "format: the format asks for a value by a name that is not among those that it is given"
    assert [problem.message for problem in result.problems] == [f"{words}; the value comes from ConfigMap n/x .data.j"]


def test_a_child_that_is_not_ready_is_awaited_though_the_field_is_there() -> None:
    result = one("child('Service', 's').spec.clusterIP", FakeClusterView(children=(STARTING,)))
    assert waits(result) == ["echoes.example.com/a.yaml.j2:5: waiting for Service/s to be ready"]


def test_a_claim_is_bound_for_its_first_consumer_so_that_one_need_not_wait() -> None:
    claim = live("PersistentVolumeClaim", "s", status={"phase": "Pending"})
    files = {"claim.yaml.j2": manifest("PersistentVolumeClaim", "s")}

    def read(field: str, cluster: FakeClusterView) -> Rendered:
        text = manifest("ConfigMap", "c", f"v: {{{{ child('PersistentVolumeClaim', 's').{field} }}}}\n")
        return render_with({"a.yaml.j2": text, **files}, cluster)

    assert names(read("metadata.name", FakeClusterView(children=(claim,)))) == ["c", "s"]
    assert names(read("spec.volumeName", FakeClusterView(children=(claim,)))) == ["s"]
    lost = live("PersistentVolumeClaim", "s", status={"phase": "Lost"})
    assert names(read("metadata.name", FakeClusterView(children=(lost,)))) == ["s"]


def test_an_object_that_is_looked_up_need_not_be_ready() -> None:
    cluster = FakeClusterView(others=(STARTING,))
    assert one("lookup('v1', 'Service', 's').spec.clusterIP", cluster).documents[0].body["v"] == "10.0.0.1"


def test_a_query_alone_waits_for_nothing() -> None:
    text = "{% set s = child('Service', 's') %}{% set c = lookup('v1', 'ConfigMap', 'x') %}"
    text += manifest("ConfigMap", "c", "v: {{ ready(s) }}\nw: {{ ready(c) }}\n")
    result = render_with({"a.yaml.j2": text, **SERVICE_FILE}, EMPTY)
    assert names(result) == ["c", "s"]
    assert (result.documents[0].body["v"], result.documents[0].body["w"]) == (False, False)
    assert result.documents[0].dependencies == (Dependency(CHILD, awaited=False), Dependency(MAP, awaited=False))
    assert result.queries == (CHILD, MAP)


def test_only_the_document_that_reads_an_unknown_value_waits() -> None:
    text = "{% set ip = child('Service', 's').spec.clusterIP %}\n" + "---\n".join([
        manifest("Service", "s"),
        manifest("ConfigMap", "waits", "data:\n  ip: {{ ip }}\n"),
        manifest("ConfigMap", "waits-too", "data:\n  url: 'http://{{ ip | upper }}:80'\n"),
        manifest("ConfigMap", "{{ ip }}"),
        manifest("ConfigMap", "free"),
    ])  # fmt: skip
    result = render_with({"a.yaml.j2": text}, EMPTY)
    assert names(result) == ["s", "free"]
    assert [wait.identity and wait.identity.name for wait in result.waits] == ["waits", "waits-too", None]
    assert {use for wait in result.waits for use in wait.dependencies} == {Dependency(CHILD, awaited=True)}
    assert [document.dependencies for document in result.documents] == [(), ()]
    known = render_with({"a.yaml.j2": text}, CLUSTER)
    assert names(known) == ["s", "waits", "waits-too", "10.0.0.1", "free"]
    assert known.documents[2].body["data"] == {"url": "http://10.0.0.1:80"}
    uses = [document.dependencies for document in known.documents]
    assert uses == [
        (),
        (Dependency(CHILD, awaited=True),),
        (Dependency(CHILD, awaited=True),),
        (Dependency(CHILD, awaited=True),),
        (),
    ]


IP = "child('Service', 's').spec.clusterIP"


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        (f"[{IP}, 'x'] | join(',')", "10.0.0.1,x"),
        (f"({IP}, 'x') | join(',')", "10.0.0.1,x"),
        (f"[{IP}, 'x'] | map('upper') | join(',')", "10.0.0.1,X"),
        (f"[{{'a': {IP}}}] | join(attribute='a')", "10.0.0.1"),
        (f"['x'] | join({IP})", "x"),
        (f"{{'a': [{IP}]}} | tojson", {"a": ["10.0.0.1"]}),
        (f"{{'a': [{IP}]}} | string", '{"a":["10.0.0.1"]}'),
        (f"[{IP}] | b64encode | b64decode", '["10.0.0.1"]'),
        (f"[{IP}] | sha256 | length", 64),
        (f"[{IP}] | upper", '["10.0.0.1"]'),
        (f"{{'a': {IP}}} | urlencode", "a=10.0.0.1"),
        (f"'%s' | format([{IP}])", '["10.0.0.1"]'),
        (f"[{IP}, 'x'] | max", "x"),
        (f"[{IP}, 'x'] | first", "10.0.0.1"),
        (f"['x', {IP}] | sort | join", "10.0.0.1x"),
        (f"[{IP}, {IP}] | unique | join", "10.0.0.1"),
        (f"{{'a': {IP}}}.items() | list | tojson", [["a", "10.0.0.1"]]),
        (f"{{'a': {IP}}}.values() | join", "10.0.0.1"),
        (f"[{IP}] ~ '!'", '["10.0.0.1"]!'),
        (f"','.join([{IP}, 'x'])", "10.0.0.1,x"),
        (f"','.join([{IP}, 'x'] | map('upper'))", "10.0.0.1,X"),
        (f"{IP}.join(['a', {IP}])", "a10.0.0.110.0.0.1"),
    ],
)
def test_a_filter_of_a_list_or_a_mapping_has_the_provenance_of_the_items(expression: str, made: Any) -> None:
    """The other documents of the file don't have it: otherwise the Service that is read would wait for itself."""
    text = manifest("Service", "s") + "---\n" + manifest("ConfigMap", "c", f"v: {{{{ {expression} }}}}\n")
    known = render_with({"a.yaml.j2": text}, CLUSTER)
    assert [document.dependencies for document in known.documents] == [(), (Dependency(CHILD, awaited=True),)]
    assert known.documents[1].body["v"] == made
    unknown = render_with({"a.yaml.j2": text}, EMPTY)
    assert names(unknown) == ["s"]
    assert [wait.dependencies for wait in unknown.waits] == [(Dependency(CHILD, awaited=True),)]


def test_text_with_a_value_of_the_cluster_can_be_joined() -> None:
    text = "{% macro m(x) %}a{{ x }}{% endmacro %}" + manifest("ConfigMap", "a", "v: ")
    text += "{{ '-'.join(['1', m(child('Service', 's').spec.clusterIP)]) }}\n"
    result = render_with({"a.yaml.j2": text, **SERVICE_FILE}, CLUSTER)
    assert [str(problem) for problem in result.problems] == []
    assert result.documents[0].body["v"] == "1-a10.0.0.1"


def test_an_item_of_a_list_waits_alone() -> None:
    items = "items:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"
    items += (
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, v: {{ lookup('v1', 'ConfigMap', 'x').data.a }}}\n"
    )
    result = render_with({"a.yaml.j2": f"apiVersion: v1\nkind: List\n{items}"}, EMPTY)
    assert names(result) == ["a"]
    assert [wait.identity for wait in result.waits] == [Identity("", "ConfigMap", "n", "b")]


@pytest.mark.parametrize(
    "text",
    [
        "{% if X %}\na: 1\n{% endif %}\n",
        "{% for x in X %}\na: 1\n{% endfor %}\n",
        "a: {{ 1 if X else 2 }}\n",
        "a: {{ X and 1 }}\n",
        "a: {{ 'b' in X }}\n",
        "{% macro m(x) %}{% if x %}a: 1{% endif %}{% endmacro %}\n{{ m(X) }}\n",
        "a:\n  {{ X | to_yaml | indent(2) }}\n",
        "{% include X %}\n",
    ],
)
def test_a_file_that_branches_on_an_unknown_value_waits_as_a_whole(text: str) -> None:
    condition = text.replace("X", "lookup('v1', 'ConfigMap', 'x').data.a")
    result = render_with(
        {"a.yaml.j2": manifest("ConfigMap", "c") + "---\n" + manifest("ConfigMap", "d", condition)}, EMPTY
    )
    assert result.documents == ()
    (wait,) = result.waits
    assert str(wait) == "waiting for ConfigMap n/x .data.a (there is no such ConfigMap)"
    assert wait.identity is None
    assert wait.location.line >= 10
    assert wait.dependencies == (Dependency(MAP, awaited=True),)
    assert result.queries == (MAP,)


def test_every_document_of_a_file_depends_on_its_branches() -> None:
    text = "{% if lookup('v1', 'ConfigMap', 'x').data.n == '3' %}\n" + manifest("ConfigMap", "a") + "{% endif %}\n"
    text += "---\n" + manifest("ConfigMap", "b")
    result = render_with({"a.yaml.j2": text, "c.yaml.j2": manifest("ConfigMap", "c")}, CLUSTER)
    assert [document.dependencies for document in result.documents] == [
        (Dependency(MAP, awaited=True),),
        (Dependency(MAP, awaited=True),),
        (),
    ]


def test_loops_over_what_is_looked_up_see_each_object() -> None:
    text = (
        "v:\n{% for pod in lookup_all('v1', 'Pod', {'app': 'e'}) %}\n- {{ pod.metadata.name }}={{ pod.status.podIP }}"
    )
    text += "/{{ ready(pod) }}\n{% endfor %}\n"
    result = render_with({"a.yaml.j2": manifest("ConfigMap", "c", text)}, CLUSTER)
    assert result.documents[0].body["v"] == ["p1=10.0.0.2/false", "p2=10.0.0.3/false"]
    selection = Selection(api_version="v1", kind="Pod", namespace="n", labels=(("app", "e"),))
    assert result.documents[0].dependencies == (Dependency(selection, awaited=False),)
    assert str(selection) == "every Pod in n with app=e"


def test_a_branch_that_renders_nothing_records_its_query() -> None:
    text = "{% if lookup('v1', 'ConfigMap', 'x', optional=true) %}\n" + manifest("ConfigMap", "a") + "{% endif %}\n"
    result = render_with({"a.yaml.j2": text}, EMPTY)
    assert (result.documents, result.waits, result.problems) == ((), (), ())
    assert result.queries == (MAP,)


def test_a_file_that_fails_records_its_queries() -> None:
    text = manifest("ConfigMap", "a", "v: {{ lookup('v1', 'ConfigMap', 'x').data.url | b64decode }}\n")
    result = render_with({"a.yaml.j2": text}, CLUSTER)
    (found,) = map(str, result.problems)
    assert found.startswith("echoes.example.com/a.yaml.j2:5: b64decode: the value is not base64")
    assert found.endswith("; the value comes from ConfigMap n/x .data.url")
    assert result.queries == (MAP,)


@pytest.mark.parametrize(
    "expression",
    ["lookup('v1', 'ConfigMap', 'x').data.url", "lookup('v1', 'ConfigMap', 'x', optional=true)",
     "lookup_all('v1', 'ConfigMap') | length", "ready(lookup('v1', 'ConfigMap', 'x'))"],
)  # fmt: skip
def test_a_document_that_looks_up_a_kind_that_is_not_synced_waits(expression: str) -> None:
    result = one(expression, FakeClusterView(others=(CONFIG,), unsynced=frozenset({"ConfigMap"})))
    assert names(result) == ["s"]
    assert "to be known: the watch of ConfigMap is not synced" in str(result.waits[0])


@pytest.mark.parametrize("use", ["child('Service', 's').spec.clusterIP | default('')", "ready(child('Service', 's'))"])
def test_a_document_that_reads_a_child_of_a_kind_that_is_not_synced_waits(use: str) -> None:
    result = one(use, FakeClusterView(unsynced=frozenset({"Service"})))
    assert names(result) == ["s"]
    assert str(result.waits[0]) == "waiting for Service/s to be known: the watch of Service is not synced"
    assert result.waits[0].identity == Identity("", "ConfigMap", "n", "c")


def test_a_child_that_no_template_renders_is_a_problem_that_suggests_names() -> None:
    files = {"a.yaml.j2": manifest("ConfigMap", "c", "v: {{ child('Servce', 's').spec.x }}\n"), **SERVICE_FILE}
    result = render_with(files, CLUSTER)
    assert names(result) == ["s"]
    assert [str(problem) for problem in result.problems] == [
        "echoes.example.com/a.yaml.j2:5: no template renders Servce/s; did you mean Service/s?"
    ]
    other = one("child('Job', 'zzz').status", CLUSTER)
    assert str(other.problems[0]).endswith(":5: no template renders Job/zzz; rendered are ConfigMap/c, Service/s")


@pytest.mark.parametrize(
    ("use", "value"),
    [("child('Service', 's').metadata.name", "s"), ("ready(child('Service', 's'))", True)],
)
def test_a_child_that_was_applied_once_and_deleted_is_not_awaited(use: str, value: object) -> None:
    result = one(use, FakeClusterView(applied_once=frozenset({"s"})))
    assert [document.body["v"] for document in result.documents if "v" in document.body] == [value]


def test_a_child_that_was_applied_once_and_is_being_deleted_can_be_read() -> None:
    applied_once = dataclasses.replace(DELETING, applied_once=frozenset({"s"}))
    assert one("child('Service', 's').spec.clusterIP", applied_once).documents[0].body["v"] == "10.0.0.1"
    assert one("ready(child('Service', 's'))", applied_once).documents[0].body["v"] is True


def test_a_field_of_a_child_that_is_gone_is_awaited() -> None:
    result = one("child('Service', 's').spec.clusterIP", FakeClusterView(applied_once=frozenset({"s"})))
    assert waits(result) == ["echoes.example.com/a.yaml.j2:5: waiting for Service/s .spec.clusterIP"]


def test_a_child_that_waits_itself_is_no_missing_child() -> None:
    files = {
        "a.yaml.j2": manifest("ConfigMap", "a", "v: {{ child('ConfigMap', 'b').data.x }}\n"),
        "b.yaml.j2": manifest("ConfigMap", "b", "v: {{ lookup('v1', 'ConfigMap', 'x').data.nope }}\n"),
    }
    assert waits(render_with(files, CLUSTER)) == [
        "echoes.example.com/a.yaml.j2:5: waiting for ConfigMap/b to be ready",
        "echoes.example.com/b.yaml.j2:5: waiting for ConfigMap n/x .data.nope",
    ]


def test_no_child_is_missing_while_a_file_waits_or_fails_as_a_whole() -> None:
    asks = manifest("ConfigMap", "a", "v: {{ child('Job', 'j').status.x }}\n")
    branches = "{% if lookup('v1', 'ConfigMap', 'x').data.nope %}\n{% endif %}\n" + manifest("Job", "j")
    assert render_with({"a.yaml.j2": asks, "b.yaml.j2": branches}, CLUSTER).problems == ()
    fails = manifest("Job", "j", "v: {{ spec.nope }}\n")
    (problem,) = render_with({"a.yaml.j2": asks, "b.yaml.j2": fails}, CLUSTER).problems
    assert "spec.nope is missing" in str(problem)


def test_a_file_that_waits_for_what_only_it_can_render_is_a_problem() -> None:
    text = manifest("Job", "j") + "---\n{% if child('Job', 'j').status.succeeded %}\n"
    text += manifest("ConfigMap", "a") + "{% endif %}\n"
    result = render_with({"a.yaml.j2": text}, EMPTY)
    (problem,) = result.problems
    assert str(problem).startswith(
        "echoes.example.com/a.yaml.j2:6: no template renders Job/j but files that wait as a whole, and one of them"
    )
    assert str(problem).endswith("give it a file of its own")


def test_a_child_that_could_be_two_manifests_is_a_problem() -> None:
    files = {
        "a.yaml.j2": manifest("ConfigMap", "a", "v: {{ child('ConfigMap', 'b').data }}\n"),
        "b.yaml.j2": manifest("ConfigMap", "b") + "---\n" + manifest("ConfigMap", "b\n  namespace: far"),
    }
    (problem,) = render_with(files, CLUSTER).problems
    assert "ConfigMap/b could be ConfigMap n/b or ConfigMap far/b; use lookup with a namespace" in str(problem)


@pytest.mark.parametrize(
    ("name", "names", "remedy"),
    [
        ("b", "Service n/b of the core group or Service n/b of serving.example.com", "its apiVersion"),
        (
            "b\n  namespace: far",
            "Service n/b of the core group or Service far/b of serving.example.com",
            "its apiVersion and a namespace",
        ),
    ],
)
def test_a_child_that_could_be_of_two_groups_is_a_problem_that_names_them(name: str, names: str, remedy: str) -> None:
    files = {
        "a.yaml.j2": manifest("ConfigMap", "a", "v: {{ child('Service', 'b').spec }}\n"),
        "b.yaml.j2": manifest("Service", "b"),
        "c.yaml.j2": manifest("Service", name).replace("apiVersion: v1", "apiVersion: serving.example.com/v1"),
    }
    (problem,) = render_with(files, CLUSTER).problems
    assert str(problem).endswith(f"Service/b could be {names}; use lookup with {remedy}")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("lookup('v1', 'ConfigMap', none)", "lookup: name must be a string, and this is null"),
        ("lookup('v1', 'ConfigMap', '')", "lookup: name must be a string, and this is empty"),
        ("lookup('v1', 3, 'x')", "lookup: kind must be a string, and this is a number"),
        ("child('Job', spec.nope)", "spec.nope is missing"),
        ("lookup_all('v1', 'Pod', 'app=e')", "lookup_all: labels must be a mapping of strings"),
        ("lookup_all('v1', 'Pod', selector='app=e')", "lookup_all: the selector is no mapping with matchLabels"),
        ("lookup_all('v1', 'Pod', selector={'matchlabels': {}})", "lookup_all: the selector has the field matchlabels"),
        (
            "lookup_all('v1', 'Pod', selector={'matchExpressions': [{'key': 'a', 'operator': 'in', 'values': ['b']}]})",
            "lookup_all: the selector has matchExpressions[0] whose operator is none of In, NotIn, Exists",
        ),
        (
            "lookup_all('v1', 'Pod', namespaces='n')",
            "lookup_all: namespaces must be a list of names, a selector, or ''",
        ),
        ("lookup_all('v1', 'Pod', namespaces=['n'], namespace='n')", "lookup_all: namespace and namespaces exclude"),
        ("spec is matching({'matchlabels': {}})", "matching: the selector has the field matchlabels"),
        ("1 is matching({})", "matching: labels must be a mapping, and this is a number"),
        ("ready('Job')", "ready needs what child or lookup gave"),
        ("ready(lookup('v1', 'ConfigMap', 'x').data)", "ready needs what child or lookup gave"),
        ("ready(child('Service', 's').status)", "ready needs what child or lookup gave"),
    ],
)
def test_an_invalid_query_is_a_problem(expression: str, message: str) -> None:
    for cluster in (EMPTY, FakeClusterView(others=(CONFIG,))):
        (problem,) = one(expression, cluster).problems
        assert str(problem).startswith(f"echoes.example.com/a.yaml.j2:5: {message}")


def test_a_lookup_under_a_parent_without_a_namespace_must_name_one() -> None:
    metadata = {"name": "e", "uid": "u"}
    result = one("lookup('v1', 'ConfigMap', 'x').data", CLUSTER, metadata=metadata)
    assert "ConfigMap lives in namespaces and the parent has none; write namespace=" in str(result.problems[0])
    assert one("lookup('v1', 'ConfigMap', 'x', namespace='n').data.n", CLUSTER, metadata=metadata).problems == ()
    assert one("lookup_all('v1', 'Pod') | length", CLUSTER, metadata=metadata).documents[0].body["v"] == 4


def test_labels_may_be_what_another_lookup_gives() -> None:
    labels = "{'app': lookup('v1', 'ConfigMap', 'x').data.n | replace('3', 'e')}"
    document, _ = one(f"lookup_all('v1', 'Pod', {labels}) | length", CLUSTER).documents
    assert document.body["v"] == 2
    assert {use.query.kind for use in document.dependencies} == {"ConfigMap", "Pod"}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("lookup('v1', 'ConfigMap', 'x').data.n | replace('3', 'x')", True),
        ("lookup('v1', 'ConfigMap', 'x').data.n", False),
    ],
)
def test_ready_takes_what_is_looked_up_by_another_lookup(name: str, known: bool) -> None:
    document, _ = one(f"ready(lookup('v1', 'ConfigMap', {name}))", CLUSTER).documents
    assert document.body["v"] is known
    (wait,) = one(f"ready(lookup('v1', 'ConfigMap', {name}))", EMPTY).waits
    assert str(wait) == "waiting for ConfigMap n/x .data.n (there is no such ConfigMap)"


def test_a_field_of_what_is_looked_up_by_another_lookup_is_awaited_with_its_path() -> None:
    (wait,) = one("lookup('v1', 'Secret', lookup('v1', 'ConfigMap', 'x').data.n).data.p", CLUSTER).waits
    assert str(wait) == "waiting for Secret n/3 .data.p (there is no such Secret)"


def test_macros_of_other_files_query_the_cluster_too() -> None:
    macro = "{% macro ip() %}{{ child('Service', 's').spec.clusterIP }}{% endmacro %}"
    text = "{% import '_m.yaml.j2' as m %}\n" + manifest("ConfigMap", "c", "v: {{ m.ip() }}\n")
    files = {"a.yaml.j2": text, "_m.yaml.j2": macro, **SERVICE_FILE}
    assert render_with(files, CLUSTER).documents[0].body["v"] == "10.0.0.1"
    assert waits(render_with(files, EMPTY)) == ["echoes.example.com/a.yaml.j2:6: waiting for Service/s to be ready"]


def test_text_with_a_value_has_the_provenance_of_the_value() -> None:
    text = (
        manifest("Service", "s")
        + "---\n{% set url %}http://{{ child('Service', 's').spec.clusterIP }}:80{% endset %}\n"
    )
    text += manifest(
        "ConfigMap", "c", "v: {{ url }}\nw: {{ url | b64encode }}\nx: {{ url ~ '/' }}\ny: {{ url.split(':') }}\n"
    )
    known = render_with({"a.yaml.j2": text}, CLUSTER)
    assert [document.dependencies for document in known.documents] == [(), (Dependency(CHILD, awaited=True),)]
    assert known.documents[1].body["v"] == "http://10.0.0.1:80"
    assert known.documents[1].body["w"] == "aHR0cDovLzEwLjAuMC4xOjgw"
    assert known.documents[1].body["x"] == "http://10.0.0.1:80/"
    assert known.documents[1].body["y"] == ["http", "//10.0.0.1", "80"]
    unknown = render_with({"a.yaml.j2": text}, EMPTY)
    assert names(unknown) == ["s"]
    assert [wait.dependencies for wait in unknown.waits] == [(Dependency(CHILD, awaited=True),)]


def test_values_of_the_cluster_are_data_in_every_position() -> None:
    hostile = "a: b\n- c\n{{ x }} # d\n"
    cluster = FakeClusterView(others=(live("ConfigMap", "x", data={"t": hostile, "l": [1, {"a": hostile}]}),))
    text = "{% set d = lookup('v1', 'ConfigMap', 'x').data %}\n" + manifest("ConfigMap", "c")
    text += "plain: {{ d.t }}\nquoted: 'x{{ d.t }}'\nblock: |\n  {{ d.t }}\nindented: |\n  {{ d.t | indent(2) }}\n"
    text += "list: {{ d.l }}\njson: {{ d.l | tojson }}\ntext: 'j={{ d.l | tojson }}'\n{{ d.t }}: key\n"
    text += "yaml:\n  {{ d | to_yaml | indent(2) }}\n"
    body = render_with({"a.yaml.j2": text}, cluster).documents[0].body
    assert (body["plain"], body["quoted"], body["block"], body["indented"]) == (
        hostile,
        f"x{hostile}",
        f"{hostile}\n",
        f"{hostile}\n",
    )
    assert body["list"] == body["json"] == [1, {"a": hostile}]
    assert body["text"] == "j=" + json.dumps([1, {"a": hostile}], separators=(",", ":"))
    assert body[hostile] == "key"
    assert body["yaml"] == {"t": hostile, "l": [1, {"a": hostile}]}


SECRET_CLUSTER = FakeClusterView(
    others=(CONFIG, live("Secret", "p", data={"k": "aHVzaA=="}), live("ConfigMap", "q", data={"k": "a"}))
)


def test_a_field_that_a_secret_names_is_not_in_the_message() -> None:
    result = one("lookup('v1', 'ConfigMap', 'x').data[lookup('v1', 'Secret', 'p').data.k | b64decode]", SECRET_CLUSTER)
    assert result.waits
    assert "hush" not in str(result.waits[0])


@pytest.mark.parametrize("of", ["spec", "{'a': 1}", "spec.none", "labels", "[1]", "name"])
@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("lookup('v1', 'Secret', 'p').data.k | b64decode", "(a Secret's content)"),
        ("lookup('v1', 'ConfigMap', 'q').data.k ~ 'b'", "ab"),
    ],
)
def test_a_field_that_the_parent_lacks_is_no_reason_to_wait(of: str, key: str, named: str) -> None:
    result = one(f"{of}[{key}]", SECRET_CLUSTER)
    assert result.waits == ()
    (problem,) = result.problems
    assert "is missing" in str(problem)
    assert named in str(problem)
    assert "hush" not in str(problem)


def test_a_field_that_is_looked_up_by_name_may_be_missing() -> None:
    result = one("spec[lookup('v1', 'ConfigMap', 'q').data.k] | default('none')", SECRET_CLUSTER)
    assert result.documents[0].body["v"] == "none"
    assert [str(use.query) for use in result.documents[0].dependencies] == ["ConfigMap n/q"]


@pytest.mark.parametrize(
    "expression",
    ["child('Service', 's').__class__", "child('Service', 's')['__class__']",
     "child('Service', 's') | attr('__class__')",
     "child.__self__", "child.__func__.__globals__", "lookup.__self__.cluster", "child('Service', 's').spec.__init__",
     "child('Service', 's').nope.__class__", "child('Service', 's').spec.clusterIP.__class__",
     "'{0.__class__}'.format(child('Service', 's'))"],
)  # fmt: skip
def test_no_way_leads_out_of_the_answer_of_a_query(expression: str) -> None:
    (problem,) = one(expression, CLUSTER).problems
    assert "refused for security" in str(problem)


def test_the_filter_attr_says_what_to_write() -> None:
    (problem,) = one("child('Service', 's') | attr('spec')", CLUSTER).problems
    assert "values have fields and no Python attributes; write x.field" in str(problem)


def test_a_document_with_a_default_does_not_wait_and_has_the_dependency() -> None:
    result = one("child('Service', 's').spec.clusterIP | default('none')", EMPTY)
    assert result.documents[0].body["v"] == "none"
    assert result.documents[0].dependencies == (Dependency(CHILD, awaited=False),)
    known = one("child('Service', 's').spec.clusterIP | default('none')", CLUSTER)
    assert known.documents[0].dependencies == (Dependency(CHILD, awaited=False),)


S = "child('Service', 's')"


@pytest.mark.parametrize(
    ("expression", "value", "absent"),
    [
        (f"{S}.spec.clusterIP | default('x')", "10.0.0.1", "x"),
        (f"{S}.spec.clusterIP | d('x')", "10.0.0.1", "x"),
        (f"{S}.spec['clusterIP'] | default('x', true)", "10.0.0.1", "x"),
        (f"{S}.spec.nope | default('x')", "x", "x"),
        (f"{S}.spec.nope.nope | default('x', true)", "x", "x"),
        (f"{S}.spec.ports[1].port | default(0)", 81, 0),
        (f"{S}.spec.ports[1].nodePort | default(0)", 0, 0),
        (f"[{S}.spec.ports[0].port | default(0), 3] | max", 80, 3),
        (f"({S}.spec.ports | first).port | default(0)", 80, 0),
        (f"{S}.spec.ports | map(attribute='port') | join('-') | default('x')", "80-81", "x"),
        (f"('http://' ~ {S}.spec.clusterIP) | default('x')", "http://10.0.0.1", "x"),
        (f"({S}.spec.ports[0].port + 1) | default(0)", 81, 0),
        (f"{S}.spec.clusterIP.split('.') | default([])", ["10", "0", "0", "1"], []),
        (f"{S}.spec.items() | list | length | default(0)", None, 0),
        (f"({S} | default({{}})).spec.clusterIP | default('x')", "10.0.0.1", "x"),
        (f"[{S}.spec.clusterIP] | tojson | default('x')", ["10.0.0.1"], "x"),
        (f"dict({{'a': 1}}, **{S}.spec.ports[1]) | default({{}})", {"a": 1, "port": 81}, {}),
        (f"{S}.spec.nope | default({S}.spec.clusterIP | default('x'))", "10.0.0.1", "x"),
        (f"{S}.spec.clusterIP is defined", True, False),
        (f"{S}.spec.clusterIP is undefined", False, True),
        (f"{S}.spec.nope is defined", False, False),
        (f"{S}.spec.nope is undefined", True, True),
        (f"{S} is defined", True, False),
        (f"1 if {S}.spec.clusterIP is defined else 2", 1, 2),
        (f"1 if {S}.spec.ports[0].port | default(0) > 3 else 2", 1, 2),
        (f"{S}.spec.clusterIP | b64decode | default('x')", "x", "x"),
    ],
)  # fmt: skip
def test_a_default_takes_the_live_value_of_a_child_ready_or_not(expression: str, value: Any, absent: Any) -> None:
    for cluster, expected in ((UNREADY, value), (DELETING, value), (EMPTY, absent)):
        result = one(expression, cluster)
        assert (result.problems, result.waits) == ((), ())
        found = result.documents[0].body["v"]
        assert (found > 0) if expected is None else (found == expected)
        assert result.documents[0].dependencies == (Dependency(CHILD, awaited=False),)
        assert result.read_unready == {CHILD}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("lookup('v1', 'Service', 's').spec.clusterIP | default('x')", "10.0.0.1"),
        ("lookup('v1', 'Service', 's').spec.nope | default('x', true)", "x"),
        ("lookup('v1', 'Service', 's').spec.clusterIP | default('x', true)", "10.0.0.1"),
        ("lookup('v1', 'Service', 's').spec.clusterIP is defined", True),
        ("lookup('v1', 'Service', 's') is undefined", False),
    ],
)
def test_a_default_takes_the_live_value_of_a_lookup(expression: str, value: Any) -> None:
    for cluster in (UNREADY, DELETING):
        document, _ = one(expression, cluster).documents
        assert document.body["v"] == value
        assert [use.awaited for use in document.dependencies] == [False]


@pytest.mark.parametrize(
    "expression",
    ["S", "S.spec.clusterIP", "S.spec.nope", "S.spec.clusterIP ~ ':80'", "[S.spec.ports[0].port, 3] | max",
     "S.spec.clusterIP | b64decode", "{'a': S.spec.clusterIP}", "[S.spec.clusterIP] | tojson", "S.spec | to_yaml",
     "S.spec.clusterIP or 'x'", "S.spec.clusterIP in ['10.0.0.1']", "'x' if S.spec.clusterIP == 'y' else 'z'",
     "1 if S else 2", "spec.nope | default(S.spec.clusterIP)", "S.spec.nope | default(S.spec.clusterIP)",
     "(S.spec.clusterIP | default('x')) ~ S.spec.clusterIP", "spec[S.spec.clusterIP]", "dict({}, **S.spec)",
     "lookup('v1', 'ConfigMap', S.spec.clusterIP).data.a", "lookup('v1', 'ConfigMap', 'x').data[S.spec.clusterIP]",
     "lookup('v1', 'ConfigMap', 'x').data.n ~ S.spec.clusterIP", "S.spec.clusterIP is string"],
)  # fmt: skip
def test_plain_reading_waits_until_the_child_is_ready(expression: str) -> None:
    expression = re.sub(r"\bS\b", S, expression)
    for cluster in (UNREADY, DELETING):
        assert waits(one(expression, cluster)) == ["echoes.example.com/a.yaml.j2:5: waiting for Service/s to be ready"]


def test_a_macro_and_a_block_keep_the_live_value_of_a_child_that_is_not_ready() -> None:
    text = "{% macro ip() %}{{ child('Service', 's').spec.clusterIP }}{% endmacro %}\n"
    text += "{% set block %}{{ ip() }}:80{% endset %}\n"
    text += manifest("ConfigMap", "a", "v: {{ ip() | upper | default('x') }}\nw: {{ block | string | default('x') }}\n")
    text += "---\n" + manifest("ConfigMap", "b", "v: {{ ip() }}\n")
    result = render_with({"a.yaml.j2": text, **SERVICE_FILE}, UNREADY)
    assert (result.documents[0].body["v"], result.documents[0].body["w"]) == ("10.0.0.1", "10.0.0.1:80")
    assert names(result) == ["a", "s"]
    assert [str(wait) for wait in result.waits] == ["waiting for Service/s to be ready"]


def test_a_branch_on_a_default_sees_the_live_value() -> None:
    text = "{% for port in child('Service', 's').spec.ports | default([]) %}\n---\n"
    text += manifest("ConfigMap", "p{{ port.port }}") + "{% endfor %}\n"
    for cluster, made in ((UNREADY, ["p80", "p81", "s"]), (EMPTY, ["s"])):
        result = render_with({"a.yaml.j2": text, **SERVICE_FILE}, cluster)
        assert names(result) == made
        assert result.read_unready == {CHILD}


@pytest.mark.parametrize(
    "expression",
    ["lookup('v1', 'ConfigMap', 'x').data.n | default('none')", "lookup('v1', 'ConfigMap', 'x') is defined",
     "lookup('v1', 'ConfigMap', 'x').data.n | default('none', true)", "lookup('v1', 'ConfigMap', 'x') is undefined",
     "lookup('v1', 'ConfigMap', 'x', optional=true).data.n | default('none')",
     "lookup_all('v1', 'ConfigMap') | default([])"],
)  # fmt: skip
def test_a_default_waits_where_it_is_not_known_whether_there_is_an_object(expression: str) -> None:
    result = one(expression, FakeClusterView(others=(CONFIG,), unsynced=frozenset({"ConfigMap"})))
    assert names(result) == ["s"]
    assert "to be known: the watch of ConfigMap is not synced" in str(result.waits[0])


SPREAD = "dict({'a': 'b'}, **lookup('v1', 'ConfigMap', 'x').X)"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (SPREAD.replace("X", "data"), {"a": "b", "url": "http://x", "n": "3"}),
        (SPREAD.replace("X", "metadata.annotations"), {"a": "b", "a.b/c": "d"}),
        (SPREAD.replace("X", "metadata.labels"), {"a": "b"}),
        ("dict({}, **lookup('v1', 'ConfigMap', 'x').data).n | int + 1", 4),
        ("'{url} {n}'.format(**lookup('v1', 'ConfigMap', 'x').data)", "http://x 3"),
        ("'%(url)s' | format(**lookup('v1', 'ConfigMap', 'x').data)", "http://x"),
        ("m(**lookup('v1', 'ConfigMap', 'x').data) | string", "http://x 3"),
        ("range(*[lookup('v1', 'ConfigMap', 'x').data.n | int])", [0, 1, 2]),
        ("range(*lookup('v1', 'ConfigMap', 'x').l)", [1, 2]),
    ],
)
def test_a_call_with_a_spread_mapping_has_the_provenance_of_the_mapping(expression: str, value: Any) -> None:
    metadata = {"annotations": {"a.b/c": "d"}, "labels": {}}
    there = live("ConfigMap", "x", data={"url": "http://x", "n": "3"}, l=[1, 3], metadata=metadata)
    text = "{% macro m(url, n) %}{{ url }} {{ n }}{% endmacro %}\n"
    text += manifest("ConfigMap", "c", f"v: {{{{ {expression} }}}}\n")
    result = render_with({"a.yaml.j2": text}, FakeClusterView(others=(there,)))
    assert [str(problem) for problem in result.problems] == []
    assert result.documents[0].body["v"] == value
    assert result.documents[0].dependencies == (Dependency(MAP, awaited=True),)
    (wait,) = render_with({"a.yaml.j2": text}, EMPTY).waits
    assert str(wait).startswith("waiting for ConfigMap n/x .")
    assert wait.dependencies == (Dependency(MAP, awaited=True),)


def test_only_the_document_that_an_unknown_mapping_is_spread_into_waits() -> None:
    text = manifest("ConfigMap", "a", "v: {{ " + SPREAD.replace("X", "data") + " }}\n")
    result = render_with({"a.yaml.j2": text + "---\n" + manifest("ConfigMap", "b")}, EMPTY)
    assert names(result) == ["b"]
    assert [wait.identity and wait.identity.name for wait in result.waits] == ["a"]


@pytest.mark.parametrize(
    ("expression", "awaited"),
    [
        ("lookup('v1', 'ConfigMap', 'x').data[lookup('v1', 'ConfigMap', 'q').data.k]", "ConfigMap n/x .data.a"),
        ("lookup('v1', 'ConfigMap', 'nope').data[lookup('v1', 'ConfigMap', 'q').data.k]", "ConfigMap n/nope .data.a"),
        (
            "lookup('v1', 'ConfigMap', 'nope').data[lookup('v1', 'ConfigMap', 'q').data.k].b",
            "ConfigMap n/nope .data.a.b",
        ),
        ("lookup('v1', 'ConfigMap', 'x').data[lookup('v1', 'ConfigMap', 'q').data.k].b", "ConfigMap n/x .data.a.b"),
        (
            "lookup('v1', 'ConfigMap', 'x').data[lookup('v1', 'ConfigMap', 'q').data.k ~ '.b']",
            "ConfigMap n/x .data[a.b]",
        ),
        ("lookup('v1', 'ConfigMap', 'x').data[lookup('v1', 'ConfigMap', 'q').data.nope]", "ConfigMap n/q .data.nope"),
        ("lookup('v1', 'ConfigMap', 'x').data[lookup('v1', 'ConfigMap', 'nope').data.k]", "ConfigMap n/nope .data.k"),
        ("lookup('v1', 'ConfigMap', 'nope').data[lookup('v1', 'Secret', 'p').data.k]", "ConfigMap n/nope .data"),
    ],
)
def test_a_key_that_is_looked_up_is_named_where_it_is_known_and_else_awaited(expression: str, awaited: str) -> None:
    assert targets(one(expression, SECRET_CLUSTER)) == [f"echoes.example.com/a.yaml.j2:5: waiting for {awaited}"]


@pytest.mark.exhaustive
@given(expressions=st.lists(st.sampled_from([each for each, _ in KNOWN]), min_size=1, max_size=4))
def test_the_dependencies_of_a_document_are_the_same_for_every_state_of_the_cluster(expressions: list[str]) -> None:
    text = "---\n".join(manifest("ConfigMap", f"c{at}", f"v: {{{{ {x} }}}}\n") for at, x in enumerate(expressions))
    files = {"a.yaml.j2": text, **SERVICE_FILE}

    def uses(cluster: FakeClusterView) -> dict[str, set[Dependency]]:
        result = render_with(files, cluster)
        assert result.problems == ()
        waiting = {wait.identity.name: set(wait.dependencies) for wait in result.waits if wait.identity}
        return {
            document.body["metadata"]["name"]: set(document.dependencies) for document in result.documents
        } | waiting

    assert uses(CLUSTER) == uses(UNREADY) == uses(EMPTY)
    assert render_with(files, CLUSTER).queries == render_with(files, EMPTY).queries


def test_a_wait_has_the_known_annotations_of_its_manifest() -> None:
    value = "{{ child('Service', 's').spec.clusterIP }}"
    text = manifest("ConfigMap", "c", f"data: {{ip: '{value}'}}\n").replace(
        "name: c", f"name: c\n  annotations: {{known: 'yes', unknown: '{value}'}}"
    )
    assert render_with({"a.yaml.j2": text, **SERVICE_FILE}, EMPTY).waits[0].annotations == {"known": "yes"}

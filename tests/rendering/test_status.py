"""The parent's own status fields: unknown values and the content of Secrets are left out."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.objects.render_result import ReconcileResult
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.render import render_status
from tests.rendering.template_files import HEAD, FakeClusterView, live, parent, render_with, rendered, status, templates

SERVICE = live("Service", "s", spec={"clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 3000}, {"port": 81}]})
JOB = live("Job", "j", api_version="batch/v1", status={"conditions": [{"type": "Complete", "status": "True"}]})
ROLLING = live("Deployment", "d", api_version="apps/v1", spec={"replicas": 2}, status={"readyReplicas": 1})


def fields(text: str, *, spec: Any = None) -> Any:
    result = status(text, SERVICE, JOB, ROLLING, spec=spec)
    assert result.problems == ()
    return result.fields


def test_status_fields_are_no_manifest() -> None:
    text = "url: http://{{ name }}\nn: {{ spec.n }}\n"
    assert fields(text, spec={"n": 1}) == {"url": "http://e", "n": 1}
    result = rendered({"_status.yaml.j2": text, "a.yaml": HEAD})
    assert len(result.documents) == 1
    assert result.problems == ()


def test_no_status_template_gives_no_fields() -> None:
    assert render_status(templates({"a.yaml": HEAD}), parent(), FakeClusterView()).fields == {}
    assert (
        render_status(Folder(resource="echoes", group="example.com", files={}), parent(), FakeClusterView()).fields
        == {}
    )
    assert fields("") == {}
    assert fields("# only a comment\n") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "1: _status.yaml.j2 must give a mapping"),
        ("a: 1\n---\nb: 1\n", "3: _status.yaml.j2 must give one"),
        ("a: {{ spec.x }}\n", "1: spec.x is missing"),
        ("b: 1\na: {{ child('Service', 's').spec.clusterIP ~ spec.x }}\n", "2: spec.x is missing"),
        ("a: {{ ready(3) }}\n", "1: ready needs what child or lookup gave"),
        ("a: {{ ready(child('Job', 'j').status) }}\n", "1: ready needs what child or lookup gave"),
    ],
)
def test_a_status_that_fails_is_a_problem(text: str, message: str) -> None:
    result = status(text, SERVICE, JOB)
    assert result.fields == {}
    assert str(result.problems[0]).startswith(f"echoes.example.com/_status.yaml.j2:{message}")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("child('Service', 's').spec.clusterIP", "10.0.0.1"),
        ("child('Service', 's').spec.ports[0].port", 80),
        ("child('Service', 's').spec.ports[0]", {"port": 80, "nodePort": 3000}),
        ("child('Service', 's')['spec']['ports'] | length", 2),
        ("child('Service', 's').spec.ports | map(attribute='port') | list", [80, 81]),
        ("child('Service', 's').spec.ports | map(attribute='port') | join(',')", "80,81"),
        ("(child('Service', 's').spec.ports | first).nodePort", 3000),
        ("child('Service', 's').spec.ports[0].port + 1", 81),
        ("100 - child('Service', 's').spec.ports[0].port", 20),
        ("child('Service', 's').spec.clusterIP ~ ':80'", "10.0.0.1:80"),
        ("child('Service', 's').spec.clusterIP.split('.')", ["10", "0", "0", "1"]),
        ("'%s/24' % child('Service', 's').spec.clusterIP", "10.0.0.1/24"),
        ("'{}/24'.format(child('Service', 's').spec.clusterIP)", "10.0.0.1/24"),
        ("child('Service', 's').spec.clusterIP == '10.0.0.1'", True),
        ("child('Service', 's').spec.clusterIP.startswith('10.')", True),
        ("'10' in child('Service', 's').spec.clusterIP", True),
        ("[child('Service', 's').spec.clusterIP, 1]", ["10.0.0.1", 1]),
        ("{'ip': child('Service', 's').spec.clusterIP}", {"ip": "10.0.0.1"}),
        ("child('Service', 's').spec.clusterIP | b64encode | b64decode | upper", "10.0.0.1"),
        ("child('Service', 's').spec.ports | tojson", [{"port": 80, "nodePort": 3000}, {"port": 81}]),
        ("child('Service', 's').spec.items() | map('first') | sort", ["clusterIP", "ports"]),
        ("child('Service', 's').spec.keys() | list", ["clusterIP", "ports"]),
        ("child('Service', 's').spec.ports is sequence", True),
        ("child('Service', 's').spec.clusterIP is defined", True),
        ("child('Deployment', 'd').status.readyReplicas", 1),
        ("child('Deployment', 'd').status.readyReplicas | default(0)", 1),
        ("child('Deployment', 'no').status.readyReplicas | default(0)", 0),
        ("child('Deployment', 'd').status.availableReplicas | default(0)", 0),
        ("child('Deployment', 'd').status.availableReplicas is defined", False),
        ("child('Deployment', 'no') is undefined", True),
        ("'up' if child('Deployment', 'no').status.readyReplicas == 2 else 'down'", "down"),
        ("child('Deployment', 'd').status.nope | default(child('Service', 's').spec.clusterIP)", "10.0.0.1"),
        ("ready(child('Job', 'j'))", True),
        ("ready(child('Deployment', 'd'))", False),
        ("ready(child('Deployment', 'no'))", False),
    ],
)
def test_a_field_of_a_live_child_is_a_value(expression: str, value: Any) -> None:
    assert fields(f"v: {{{{ {expression} }}}}\n") == {"v": value}


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "expression",
    [
        "child('Service', 'no').spec.clusterIP",
        "child('Service', 'no')",
        "child('Service', 's').status.loadBalancer.ingress[0].ip",
        "child('Service', 's').spec.ports[7].port",
        "child('Service', 's').spec.ports[1].nodePort + 1",
        "1 + child('Service', 's').spec.ports[1].nodePort",
        "child('Service', 's').spec.ports | map(attribute='nodePort') | join(',')",
        "child('Service', 's').spec.ports | sum(attribute='nodePort')",
        "(child('Service', 's').spec.ports | selectattr('port', 'gt', 99) | first).port",
        "child('Service', 's').status.x ~ 'x'",
        "child('Service', 's').status.x | upper",
        "child('Service', 's').status.x | tojson",
        "child('Service', 's').status.x.split('.')",
        "child('Service', 's').status.items()",
        "child('Service', 's').status.x == 1",
        "'%s' % child('Service', 's').status.x",
        "['a', child('Service', 's').status.x] | join(',')",
        "spec[child('Service', 's').status.x]",
        "child('Service', child('Service', 's').status.x).spec",
        "-child('Service', 's').status.x",
        "[child('Service', 's').status.x]",
        "{'a': child('Service', 's').status.x}",
        "range(child('Service', 's').status.x) | list",
    ],
)
def test_an_unknown_value_is_left_out_and_its_siblings_stay(expression: str) -> None:
    value = "{{ " + expression + " }}"
    assert fields(f"a: 1\nv: {value}\nb: 2\n") == {"a": 1, "b": 2}
    assert fields(f"v: 'http://{value}'\nb: 2\n") == {"b": 2}
    assert fields(f"v: |\n  x\n  {value}\nb: 2\n") == {"b": 2}
    assert fields(f"'{value}': 1\nb: 2\n") == {"b": 2}
    assert fields(f"l:\n- {value}\n- 2\n- {{v: {value}, w: 3}}\n") == {"l": [2, {"w": 3}]}
    assert fields(f"v: {value}\n") == {}


def test_a_mapping_or_list_of_unknown_values_is_left_out() -> None:
    value = "{{ child('Service', 'no').spec.clusterIP }}"
    assert fields(f"v:\n  ip: {value}\n  more: [{value}]\nb: 2\n") == {"b": 2}
    assert fields("v: {}\nw: []\n") == {"v": {}, "w": []}


def test_an_unknown_part_of_a_literal_is_left_out() -> None:
    unknown = "child('Service', 'no').spec.clusterIP"
    assert fields(f"v: {{{{ [{unknown}, 1, {{'a': {unknown}, 'b': 2}}] }}}}\n") == {"v": [1, {"b": 2}]}
    assert fields("v: {{ child('Service', 's').spec.ports | map(attribute='nodePort') | list }}\n") == {"v": [3000]}


def test_an_unknown_value_is_empty_in_a_loop_and_false_in_a_condition() -> None:
    text = (
        "{% set ports = child('Service', 'no').spec.ports %}\n"
        "ports: [{% for p in ports %}{{ p.port }},{% endfor %}]\n"
        "{% if child('Service', 'no').spec.clusterIP %}\nip: 1\n{% else %}\nip: 0\n{% endif %}\n"
    )
    assert fields(text) == {"ports": [], "ip": 0}


def test_a_loop_over_a_live_list_sees_each_item() -> None:
    text = (
        "l:\n{% for p in child('Service', 's').spec.ports %}\n- {port: {{ p.port }}, node: {{ p.nodePort }}}\n"
        "{% endfor %}\n{% for k, v in child('Service', 's').spec.items() %}\n{{ k }}: {{ v is string }}\n{% endfor %}\n"
    )
    assert fields(text) == {"l": [{"port": 80, "node": 3000}, {"port": 81}], "clusterIP": True, "ports": False}


def test_macros_pass_what_they_are_given() -> None:
    text = "{% macro url(ip) %}http://{{ ip }}{% endmacro %}\na: {{ url(child('Service', 's').spec.clusterIP) }}\n"
    text += (
        "b: {{ url(child('Service', 's').spec.nope) }}\nc: {{ url(child('Service', 's').spec.nope) | upper }}\nd: 1\n"
    )
    assert fields(text) == {"a": "http://10.0.0.1", "d": 1}


def test_a_missing_field_of_the_parent_is_an_error_beside_an_unknown_one() -> None:
    result = status("a: {{ child('Service', 'no').x }}\nb: {{ spec.replicas }}\n")
    assert str(result.problems[0]).startswith("echoes.example.com/_status.yaml.j2:2: spec.replicas is missing")


DELETING = live("Pod", "p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, status={"podIP": "10.0.0.9"})


def after(former: Any, text: str, *children: Any) -> Any:
    """The fields of a parent that has a status already."""
    files = {"_status.yaml.j2": text, "a.yaml": HEAD}
    result = render_status(templates(files), parent(status=former), FakeClusterView(children=children))
    assert result.problems == ()
    return result.fields


def test_a_status_can_keep_its_previous_fields() -> None:
    text = "ip: {{ child('Pod', 'p').status.podIP | default(status.ip) }}\nfirst: {{ status.a.b | default(1) }}\n"
    assert after({"ip": "10.0.0.1"}, text) == {"ip": "10.0.0.1", "first": 1}
    assert after({"ip": "10.0.0.1", "a": {"b": 2}}, text, DELETING) == {"ip": "10.0.0.9", "first": 2}


def test_a_field_that_the_previous_status_lacks_is_left_out() -> None:
    text = "ip: {{ status.ip }}\n{% if status.ip == '1' %}\nx: 1\n{% endif %}\nall: {{ status }}\n"
    assert after({}, text) == {"all": {}}
    assert after(None, text) == {"all": {}}
    assert after({"ip": "1"}, text) == {"ip": "1", "x": 1, "all": {"ip": "1"}}


def test_a_status_reads_a_child_that_is_being_deleted() -> None:
    text = "gone: {{ child('Pod', 'p').metadata.deletionTimestamp }}\nready: {{ ready(child('Pod', 'p')) }}\n"
    assert after({}, text, DELETING) == {"gone": "2026-01-01T00:00:00Z", "ready": False}


def test_a_manifest_waits_for_the_child_after_the_one_that_is_being_deleted() -> None:
    unready = HEAD + "v: {{ ready(child('Pod', 'p')) }}\n"
    reading = HEAD + "v: {{ child('Pod', 'p').status.podIP }}\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: {ssa-operator.dev/wait: 'false'}\n"
    result = render_with(
        {"a.yaml.j2": unready, "b.yaml.j2": reading, "p.yaml": pod}, FakeClusterView(children=(DELETING,))
    )
    assert [document.body.get("v") for document in result.documents] == [False, None]
    assert [str(wait) for wait in result.waits] == ["waiting for Pod/p to be ready"]


LEAKY = live("Secret", "leaky", data={"pw": "TEVBS01FLWh1bnRlcjI=", "user": "am9obmRvZQ=="})


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("a: {{ s.data.pw | b64decode }}\n", ("a",)),
        ("a: {{ s.data.pw }}\n", ("a",)),
        ("a: {{ s.data.pw | b64decode | gzip | b64encode }}\n", ("a",)),
        ("a: {b: 'x-{{ s.data.pw | b64decode | upper }}'}\n", ("a.b",)),
        ("a: [1, {{ s.data.pw | b64decode }}]\n", ("a[1]",)),
        ("a: {{ s.data }}\n", ("a",)),
        ("a: |\n  x: {{ s.data.pw | b64decode }}\n", ("a",)),
        ("{% set x %}{{ s.data.pw | b64decode }}{% endset %}\na: {{ x }}\n", ("a",)),
        ("{{ s.data.pw | b64decode }}: 1\n", None),
        ("{% if s.data.pw %}\na: {{ s.data.pw | b64decode | replace('x', 'y') }}\n{% endif %}\n", ("a",)),
    ],
)
def test_a_secrets_content_is_left_out(text: str, left_out: tuple[str, ...] | None) -> None:
    found = status("{% set s = child('Secret', 'leaky') %}\nkept: 1\n" + text, LEAKY)
    assert found.problems == ()
    assert found.fields["kept"] == 1
    assert found.left_out
    assert left_out is None or found.left_out == left_out
    assert "LEAKME" not in str(found.fields).upper()
    assert "TEVBS01F" not in str(found.fields)


def test_a_field_about_a_secret_without_its_content_stays() -> None:
    text = (
        "{% set s = child('Secret', 'leaky') %}\nname: {{ s.metadata.name }}\nsum: {{ s.data.pw | sha256 }}\n"
        "there: {{ s.data.pw is defined }}\nlength: {{ s.data.pw | length }}\nuser: {{ spec.user }}\n"
    )
    found = status(text, LEAKY, spec={"user": "johndoe"})
    assert found.left_out == ()
    assert set(found.fields) == {"name", "sum", "there", "length", "user"}
    assert found.fields["user"] == "johndoe"


RESULT = "phase: {{ 'Up' if result.ready else result.reason }}\nmessage: {{ result.message }}\nn: 1\n"


def test_the_status_template_sees_what_ready_says() -> None:
    compiled = templates({"_status.yaml.j2": RESULT, "a.yaml": HEAD})
    for ready, phase in ((True, "Up"), (False, "Progressing")):
        result = ReconcileResult(ready=ready, reason="Progressing", message="Pod default/p: starts")
        found = render_status(compiled, parent(), FakeClusterView(), result=result)
        assert found.fields == {"phase": phase, "message": "Pod default/p: starts", "n": 1}
    wrong = templates({"_status.yaml.j2": "a: {{ result.raedy }}\n", "a.yaml": HEAD})
    (problem,) = render_status(wrong, parent(), FakeClusterView(), result=result).problems
    assert "raedy" in str(problem)


def test_without_a_reconcile_its_result_is_unknown() -> None:
    found = status(RESULT)
    assert found.problems == ()
    assert found.fields == {"n": 1}


def test_a_manifest_has_no_result() -> None:
    (problem,) = rendered({"a.yaml.j2": HEAD + "data: {a: '{{ result.ready }}'}\n"}).problems
    assert "result is not defined here; only _status.yaml.j2 has it" in str(problem)


def test_a_macro_file_is_imported_where_the_status_alone_asks_the_cluster() -> None:
    text = '{% import "_macros.yaml.j2" as names %}' + HEAD + "data:\n  name: {{ names.own() }}\n"
    files = {
        "a.yaml.j2": text,
        "_macros.yaml.j2": "{% macro own() %}own{% endmacro %}",
        "_status.yaml.j2": "seen: {{ child('ConfigMap', name) is defined }}",
    }
    (document,) = rendered(files).documents
    assert document.body["data"] == {"name": "own"}

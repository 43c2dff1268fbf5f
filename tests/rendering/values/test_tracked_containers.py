"""The origin of a field: the parent's field, child, lookup or text that its value comes from."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render, render_traced
from tests.rendering.template_files import FOLDER, HEAD, FakeClusterView, parent

SPEC = {
    "replicas": 3,
    "on": True,
    "text": "word",
    "labels": {"a": "1", "b c": "true"},
    "env": {"A": "1", "B": "yes"},
    "items": [{"x": 1, "tag": "p"}, {"x": 2, "tag": "q"}],
    "config": "settings",
    "empty": {},
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "e", "namespace": "n"},
    "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}, {"port": 81}]},
}
SETTINGS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "namespace": "n", "labels": {"app": "x"}},
    "data": {"url": "http://x"},
}
STATIC = "apiVersion: v1\nkind: Service\nmetadata: {name: e}\n"


def cluster() -> FakeClusterView:
    return FakeClusterView(children=(SERVICE,), others=(SETTINGS,))


def traced(text: str, **more: str) -> Document:
    """The first document of a template; it is the same as without origins."""
    text = text if text.startswith("{% from") else HEAD + text
    files = {"a.yaml.j2": text, "service.yaml": STATIC} | {name.replace("__", "."): own for name, own in more.items()}
    templates = Templates(FOLDER, {f"{FOLDER}/{name}": own for name, own in files.items()}, "d")
    found, plain = render_traced(templates, parent(SPEC), cluster()), render(templates, parent(SPEC), cluster())
    assert found.problems == () == found.waits
    assert [each.body for each in found.documents] == [each.body for each in plain.documents]
    assert [each.dependencies for each in found.documents] == [each.dependencies for each in plain.documents]
    return found.documents[0]


def origin(document: Document, *path: str | int) -> str:
    return str(document.origin(path))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("text", "literal"),
        ("{{ 5 }}", "literal"),
        ("{{ 'a' ~ 1 }}", "literal"),
        ("{{ spec.replicas }}", "spec.replicas"),
        ("{{ object.spec.replicas }}", "spec.replicas"),
        ("{{ spec['replicas'] }}", "spec.replicas"),
        ("{{ spec.get('replicas') }}", "spec.replicas"),
        ("{{ name }}", "metadata.name"),
        ("{{ metadata.uid }}", "metadata.uid"),
        ("{{ spec.on }}", "spec.on"),
        ("{{ spec.replicas + 1 }}", "computed from spec.replicas"),
        ("{{ spec.replicas ~ spec.text }}", "computed from spec.replicas, spec.text"),
        ("x-{{ spec.text }}-{{ name }}", "computed from spec.text, metadata.name"),
        ("{{ spec.text | upper }}", "computed from spec.text"),
        ("{{ spec.labels['b c'] }}", "spec.labels[b c]"),
        ("{{ spec['items'][1].x }}", "spec.items[1].x"),
        ("{{ spec['items'][-1].x }}", "spec.items[1].x"),
        ("{{ spec['items'] | map(attribute='x') | max }}", "computed from spec.items"),
        ("{{ spec.replicas | default(7) }}", "spec.replicas"),
        ("{{ spec.absent | default(7) }}", "default for spec.absent"),
        ("{{ spec.a.b.c | default(7) }}", "default for spec.a.b.c"),
        ("{{ spec.get('absent', 7) }}", "default for spec.absent"),
        ("{{ 2 if spec.on else 3 }}", "literal"),
        ("{{ child('Service', name).spec.clusterIP }}", "child(Service/e).spec.clusterIP"),
        ("{{ child('Service', 'e').spec.ports[1].port }}", "child(Service/e).spec.ports[1].port"),
        ("{{ lookup('v1', 'ConfigMap', 'settings').data.url }}", "lookup(ConfigMap n/settings).data.url"),
        ("{{ lookup('v1', 'ConfigMap', spec.config).data.url }}", "lookup(ConfigMap n/settings).data.url"),
        (
            "{{ lookup('v1', 'ConfigMap', 'none', optional=true).data.url | default('x') }}",
            "default for lookup(ConfigMap n/none).data.url",
        ),
        (
            "{{ lookup_all('v1', 'ConfigMap')[0].metadata.name }}",
            "lookup_all(every ConfigMap in n)[0].metadata.name",
        ),
        ("{{ ready(child('Service', 'e')) }}", "computed from child(Service/e)"),
        ("{{ generated(12) }}", "generated()"),
    ],
)
def test_a_value_names_the_field_that_it_comes_from(expression: str, expected: str) -> None:
    assert origin(traced(f"data:\n  v: {expression}\n"), "data", "v") == expected


@pytest.mark.parametrize("expression", ["{{ spec.labels }}", "{{ spec.labels | tojson }}"])
def test_a_field_of_a_mapping_names_its_own_field(expression: str) -> None:
    document = traced(f"data: {expression}\n")
    assert origin(document, "data", "a") == "spec.labels.a"
    assert origin(document, "data", "b c") == "spec.labels[b c]"


@pytest.mark.parametrize(
    "expression", ["spec.labels", "child('Service', 'e').spec", "lookup('v1', 'ConfigMap', 'settings')"]
)
def test_the_fields_that_to_yaml_writes_have_an_origin_each(expression: str) -> None:
    document = traced(f"data:\n  {{{{ {expression} | to_yaml | indent(2) }}}}\n")
    found = {str(document.origin(path)) for path in leaves(document.body["data"], ("data",))}
    start = {"s": "spec.labels", "c": "child(Service/e).spec", "l": "lookup(ConfigMap n/settings)"}[expression[0]]
    assert all(each.startswith(start) and each != start for each in found)
    assert len(found) == len([*leaves(document.body["data"], ())])


def test_a_loop_names_the_item() -> None:
    document = traced(
        "data:\n{% for each in spec['items'] | sort(attribute='x', reverse=true) %}\n"
        "  {{ each.tag }}: {{ each.x }}\n{% endfor %}\n"
    )
    assert origin(document, "data", "q") == "spec.items[1].x"
    assert origin(document, "data", "p") == "spec.items[0].x"


def test_a_loop_over_pairs_names_the_key() -> None:
    text = "data:\n{% for key, value in spec.env.items() %}\n  {{ key }}: {{ value }}\n{% endfor %}\n"
    for pairs in ("spec.env.items()", "spec.env | items", "spec.env | dictsort"):
        document = traced(text.replace("spec.env.items()", pairs))
        assert (origin(document, "data", "A"), origin(document, "data", "B")) == ("spec.env.A", "spec.env.B")


def test_a_macro_and_an_include_keep_origin_line_and_chain() -> None:
    document = traced(
        "{% from '_env.j2' import env %}"
        + HEAD
        + "data:\n  {{ env(spec.env) | indent(2) }}\n{% include '_more.j2' %}\n",
        _env__j2="{% macro env(items) %}{% for key, value in items.items() %}\n"
        "{{ key }}: {{ value }}\n{% endfor %}{% endmacro %}",
        _more__j2="  c: {{ spec.text }}\n",
    )
    assert origin(document, "data", "B") == "spec.env.B"
    assert str(document.location_of(("data", "B"))) == f"{FOLDER}/_env.j2:2 (included from {FOLDER}/a.yaml.j2:6)"
    assert origin(document, "data", "c") == "spec.text"
    assert str(document.location_of(("data", "c"))) == f"{FOLDER}/_more.j2:1 (included from {FOLDER}/a.yaml.j2:7)"


def test_a_dependency_names_the_fields_that_a_document_reads() -> None:
    document = traced(
        "data:\n  a: {{ child('Service', 'e').spec.clusterIP }}\n  b: {{ ready(child('Service', 'e')) }}\n"
    )
    (dependency,) = document.dependencies
    assert dependency.fields == (("spec", "clusterIP"), ())


def test_a_wait_names_the_fields_that_it_waits_for() -> None:
    files = {
        f"{FOLDER}/a.yaml.j2": HEAD + "data: {a: '{{ child('Service', 'e').spec.clusterIP }}'}\n",
        f"{FOLDER}/b.yaml": STATIC,
    }
    (wait,) = render_traced(Templates(FOLDER, files, "d"), parent(SPEC)).waits
    (dependency,) = wait.dependencies
    assert dependency.fields == (("spec", "clusterIP"),)


def test_control_flow_by_a_field_of_the_parent_is_no_dependency() -> None:
    document = traced("{% if spec.on and spec.replicas > 2 %}\ndata: {a: b}\n{% endif %}\n")
    assert document.dependencies == ()


def test_an_ordinary_render_has_no_origins() -> None:
    templates = Templates(FOLDER, {f"{FOLDER}/a.yaml.j2": HEAD + "data: {a: '{{ name }}'}\n"}, "d")
    (document,) = render(templates, parent(SPEC)).documents
    assert document.origin(("data", "a")) is None


def leaves(value: Any, path: FieldPath) -> list[FieldPath]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for at, item in enumerate(value) for leaf in leaves(item, (*path, at))]
    return [path]

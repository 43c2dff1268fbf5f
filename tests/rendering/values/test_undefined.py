"""Missing fields, and fields with the name of a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ssa_operator.rendering.jinja.templates import LoadError
from ssa_operator.rendering.render import render
from ssa_operator.rendering.values import tracked_values, undefined
from tests.rendering.template_files import (
    HEAD,
    FakeClusterView,
    document,
    fault,
    field,
    live,
    parent,
    problem,
    render_with,
    rendered,
    templates,
    value,
)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("spec.replicas", "spec.replicas is missing"),
        ("spec.a.b.c", "spec.a.b.c is missing"),
        ("spec.a['b']", "spec.a.b is missing"),
        ("spec['a b'].c", "spec[a b].c is missing"),
        ("spec.list[7]", "spec.list[7] is missing"),
        ("spec.list[0].y", "spec.list[0].y is missing"),
        ("labels.app", "metadata.labels.app is missing"),
        ("spec.items", "spec.items is missing"),
        ("spec.a ~ 'x'", "spec.a is missing"),
        ("spec.a + 1", "spec.a is missing"),
        ("1 + spec.a", "spec.a is missing"),
        ("spec.a == 1", "spec.a is missing"),
        ("spec.a | upper", "spec.a is missing"),
        ("spec.a | items", "spec.a is missing"),
        ("spec.a | to_yaml", "spec.a is missing"),
        ("spec.a | tojson", "spec.a is missing"),
        ("spec.a | string", "spec.a is missing"),
        ("spec.a | indent", "spec.a is missing"),
        ("spec.a | trim", "spec.a is missing"),
        ("spec.a | int", "spec.a is missing"),
        ("[spec.a]", "spec.a is missing"),
        ("{'k': spec.a}", "spec.a is missing"),
        ("spec.list | map(attribute='y') | list", "spec.list[0].y is missing"),
        ("'x' if spec.a", "spec.a is missing"),
        ("range(spec.a)", "spec.a is missing"),
        ("spec[spec.a]", "spec.a is missing"),
        ("spec.a()", "spec.a is missing"),
        ("'%s' % spec.a", "spec.a is missing"),
        ("'{}'.format(spec.a)", "spec.a is missing"),
    ],
)
def test_a_missing_field_is_an_error_that_names_it_from_the_object_down(expression: str, message: str) -> None:
    if expression.startswith("labels"):
        text = HEAD + f"v: {{{{ {expression} }}}}\n"
        metadata = {"name": "e", "namespace": "n", "uid": "u", "labels": {"a": "b"}}
        found = str(rendered({"a.yaml.j2": text}, metadata=metadata).problems[0])
    else:
        found = fault(expression, {"list": [{"x": 1}]})
    assert found.startswith(f"echoes.example.com/a.yaml.j2:5: {message}; if it may be missing, write ")


@pytest.mark.parametrize(
    "expression",
    ["spec.a | default(1)", "spec.a.b | default(1)", "spec.a.b.c.d | d(1)", "spec['a'][0].x | default(1)",
     "labels.x | default(1)",
     "1 if spec.a is not defined", "1 if spec.a.b is undefined", "spec.items | default(1)", "spec.x.y | default(1)",
     "none.x | default(1)"],
)  # fmt: skip
def test_a_default_works_through_missing_parents(expression: str) -> None:
    assert value(expression, {"x": None}) == 1


def test_a_loop_over_a_missing_field_is_an_error() -> None:
    text = HEAD + "v:\n{% for x in spec.list %}\n- {{ x }}\n{% endfor %}\n"
    assert problem(text).startswith("echoes.example.com/a.yaml.j2:6: spec.list is missing")


@pytest.mark.parametrize(
    "name", ["items", "keys", "values", "get", "copy", "pop", "update", "clear", "setdefault", "popitem"]
)
def test_a_field_beats_the_method_of_its_name(name: str) -> None:
    assert value(f"spec.{name}", {name: [1]}) == [1]
    assert value(f"spec.a.{name}", {"a": {name: "x"}}) == "x"
    assert value(f"spec['{name}']", {name: 1}) == 1


def test_methods_of_mappings_work_where_there_is_no_such_field() -> None:
    labels = {"l": {"a": "1", "b": "2"}}
    assert field("v:\n{% for k, x in spec.l.items() %}\n  {{ k }}: {{ x }}\n{% endfor %}\n", labels) == labels["l"]
    assert value("spec.l.keys() | list", labels) == ["a", "b"]
    assert value("spec.l.values() | list", labels) == ["1", "2"]
    assert value("spec.l.get('c', 3)", labels) == 3
    assert value("spec.l.get('a')", labels) == "1"
    assert value("{'a': 1}.items() | list") == [["a", 1]]


@pytest.mark.parametrize(("a", "kind"), [(None, "null"), ("x", "a string"), (3, "a number")])
def test_a_field_of_a_value_that_is_not_a_mapping_is_an_error_that_names_its_kind(a: object, kind: str) -> None:
    assert fault("spec.a.b", {"a": a}).endswith(f":5: b is missing: what should hold it is {kind}, not a mapping")


def test_a_macro_that_is_not_in_the_imported_file_is_an_error() -> None:
    text = "{% import '_m.yaml.j2' as m %}\n" + HEAD + "v: {{ m.nope() }}\n"
    assert problem(text, m="x").endswith(":6: nope is not defined in the imported file")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("x.items() | list", [["a", "b,c"]]),
        ("x.get('n', 1)", 1),
        ("x.a.split(',')", ["b", "c"]),
        ("x.a.replace('b', x.a)", "b,c,c"),
        ("'{}'.format(x.a)", "b,c"),
        ("child('ConfigMap', 'c').kind.split('g')", ["Confi", "Map"]),
        ("child('ConfigMap', 'c').metadata.items() | map('first') | list", ["name", "namespace"]),
    ],
)
def test_a_method_can_be_called_within_a_loop_and_within_a_block(call: str, expected: Any) -> None:
    loop = "v:\n{% for x in [{'a': 'b,c'}] %}\n- {{ " + call + " }}\n{% endfor %}\n"
    block = "{% block b scoped %}\nv:\n- {{ " + call + " }}\n{% endblock %}\n"
    for text in (HEAD + loop, "{% set x = {'a': 'b,c'} %}\n" + HEAD + block):
        (found,) = render_with({"a.yaml.j2": text}, FakeClusterView(children=(live("ConfigMap", "c"),))).documents
        assert found.body["v"] == [expected]


def test_the_error_of_a_called_field_says_that_it_beats_the_method() -> None:
    assert "a field beats the method of its name" in fault("spec.l.items()", {"l": {"items": [1]}})


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        ("append(1)", "changes a list in place, and values can't be changed in a template; write list + [item];"),
        ("extend([1])", "write list + other;"),
        ("insert(0, 1)", "write list[:1] + [item] + list[1:];"),
        ("pop()", "write list[:-1];"),
        ("remove(1)", "write list | reject('equalto', item) | list;"),
        ("discard(1)", "write list | reject('equalto', item) | list;"),
        ("sort()", "write list | sort;"),
        ("reverse()", "write list | reverse | list;"),
        ("clear()", "write [];"),
        ("add(1)", "write list + [item];"),
        ("update([1])", "write list + other;"),
    ],
)
@pytest.mark.parametrize("of", ["spec.l", "[3]", "child('ConfigMap', 'c').l", "spec['l']"])
def test_a_method_that_would_change_a_list_names_what_to_write_instead(call: str, instead: str, of: str) -> None:
    found = _fault(f"{of}.{call}", {"l": [1]})
    assert found.startswith(f"echoes.example.com/a.yaml.j2:5: {call.partition('(')[0]} changes a list in place")
    assert instead in found
    assert found.endswith("to accumulate in a loop, use namespace()")


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        ("update({'a': 1})", "changes a mapping in place, and values can't be changed in a template; "),
        ("update(a=1)", "write dict(mapping, **other);"),
        ("setdefault('a', 1)", "write dict({key: value}, **mapping);"),
        ("pop('a')", "write dict(mapping | items | rejectattr(0, 'equalto', key));"),
        ("popitem()", "write dict(mapping | items | rejectattr(0, 'equalto', key));"),
        ("clear()", "write {};"),
        ("append(1)", "write dict(mapping, **other);"),
    ],
)
@pytest.mark.parametrize("of", ["spec.m", "{'b': 1}", "child('ConfigMap', 'c').m", "labels"])
def test_a_method_that_would_change_a_mapping_names_what_to_write_instead(call: str, instead: str, of: str) -> None:
    found = _fault(f"{of}.{call}", {"m": {"a": 1}})
    assert found.startswith(f"echoes.example.com/a.yaml.j2:5: {call.partition('(')[0]} changes a mapping in place")
    assert instead in found


@pytest.mark.parametrize(
    ("instead", "expected"),
    [
        ("spec.l + [4]", [3, 1, 4]),
        ("spec.l + spec.l", [3, 1, 3, 1]),
        ("spec.l[:1] + [4] + spec.l[1:]", [3, 4, 1]),
        ("spec.l[:-1]", [3]),
        ("spec.l | reject('equalto', 3) | list", [1]),
        ("spec.l | sort", [1, 3]),
        ("spec.l | reverse | list", [1, 3]),
        ("dict(spec.m, **{'b': 2})", {"a": 1, "b": 2}),
        ("dict({'a': 3, 'b': 2}, **spec.m)", {"a": 1, "b": 2}),
        ("dict(spec.m | items | rejectattr(0, 'equalto', 'a'))", {}),
    ],
)
def test_the_expression_that_the_message_suggests_works(instead: str, expected: Any) -> None:
    assert value(instead, {"l": [3, 1], "m": {"a": 1}}) == expected


def test_a_namespace_accumulates_in_a_loop_also_what_the_cluster_has() -> None:
    text = "{% set ns = namespace(found=child('ConfigMap', 'c').l) %}\n"
    text += "{% for x in [1, 2] %}{% set ns.found = ns.found + [x] %}{% endfor %}\n" + HEAD + "v: {{ ns.found }}\n"
    (found,) = render_with({"a.yaml.j2": text}, FakeClusterView(children=(live("ConfigMap", "c", l=[0]),))).documents
    assert found.body["v"] == [0, 1, 2]


def test_the_tag_do_of_no_function_is_an_error_that_names_what_to_write_instead() -> None:
    for changed in ("spec.l.append(1)", "1", "spec.l"):
        with pytest.raises(LoadError, match=r"a.yaml.j2:1: values can't be changed in a template.*namespace\(\)"):
            templates({"a.yaml.j2": f"{{% do {changed} %}}\n{HEAD}"})


def test_a_field_that_is_set_is_refused_with_what_to_write_instead() -> None:
    found = problem("{% set spec.a = 1 %}\n" + HEAD)
    assert found.startswith("echoes.example.com/a.yaml.j2:1: {% set a.b = c %} changes a value in place")


@pytest.mark.parametrize("call", ["append(1)", "update({})", "items()", "get('a')"])
def test_a_method_of_a_missing_field_names_the_field(call: str) -> None:
    assert "a.yaml.j2:5: spec.a.b is missing; if it may be missing, write spec.a.b |" in fault(
        f"spec.a.b.{call}", {"a": {}}
    )


def test_a_misspelt_field_is_asked_for_and_not_hidden_by_a_default() -> None:
    assert fault("spec.replcas", {"replicas": 1}).endswith(
        "spec.replcas is missing; did you mean spec.replicas? If the CRD declares it, write spec.replcas | default(...)"
    )
    found = fault("spec.db.sise | int", {"db": {"size": 1}})
    assert "spec.db.sise is missing; did you mean spec.db.size?" in found
    assert fault("spec.other", {"replicas": 1}).endswith("write spec.other | default(...)")


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "db": {"type": "object", "properties": {"size": {"type": "string"}}},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
                "ports": {"type": "array", "items": {"type": "object", "properties": {"number": {"type": "integer"}}}},
            },
        },
    },
}


@pytest.mark.parametrize(
    ("expression", "spec", "message"),
    [
        ("spec.replcas", {}, ", and the CRD declares no spec.replcas; did you mean spec.replicas?"),
        ("spec.replcas", {"db": {}}, ", and the CRD declares no spec.replcas; did you mean spec.replicas?"),
        ("spec.db.sise", {"db": {}}, ", and the CRD declares no spec.db.sise; did you mean spec.db.size?"),
        ("spec.replcas.x", {}, ", and the CRD declares no spec.replcas; did you mean spec.replicas?"),
        ("spec.ports[0].numbr", {"ports": [{}]}, "; did you mean spec.ports[0].number?"),
        ("spec.other", {}, ", and the CRD declares no spec.other; declare it, or remove it"),
        ("status.other", {}, ", and the CRD declares no status; declare it, or remove it"),
        ("spec.db.size", {"db": {"sizes": 1}}, "; if it may be missing, write spec.db.size | default(...)"),
        ("spec.env.a", {"env": {}}, "; if it may be missing, write spec.env.a | default(...)"),
        ("spec.env.colour", {"env": {"color": "red"}}, "; did you mean spec.env.color? If the CRD declares it, write"),
        ("labels.ap", {}, "; if it may be missing, write labels.ap | default(...)"),
    ],
)
def test_a_misspelt_field_that_no_parent_has_is_found_by_the_schema(
    expression: str, spec: dict[str, Any], message: str
) -> None:
    files = {"a.yaml.j2": f"{HEAD}v: {{{{ {expression} }}}}\n"}
    (found,) = render_with(files, FakeClusterView(parent_schema=SCHEMA), spec).problems
    assert message in str(found)
    assert " is missing" in str(found)


def test_a_variable_that_is_a_field_of_the_spec_is_asked_for_with_it() -> None:
    (found,) = render_with(
        {"a.yaml.j2": f"{HEAD}v: {{{{ replicas }}}}\n"}, FakeClusterView(parent_schema=SCHEMA)
    ).problems
    assert str(found).endswith("replicas is not defined; did you mean spec.replicas?")
    assert fault("tag", {"tag": 1}).endswith("tag is not defined; did you mean spec.tag?")


def _fault(expression: str, spec: dict[str, Any]) -> str:
    """The only problem of a manifest that may read itself, which has a list and a mapping."""
    cluster = FakeClusterView(children=(live("ConfigMap", "c", l=[1], m={"a": 1}),))
    (found,) = render_with({"a.yaml.j2": f"{HEAD}v: {{{{ {expression} }}}}\n"}, cluster, spec).problems
    return str(found)


def test_an_unknown_name_is_an_error_with_a_hint() -> None:
    assert "sepc is not defined; did you mean spec?" in fault("sepc.replicas")
    assert "children is not defined; did you mean child?" in fault("children('Job')")
    assert "qqq is not defined; templates see annotations, api_available, child, cycler" in fault("qqq")
    assert "lipsum gives another text each time" in fault("lipsum()")


def test_a_condition_without_else_that_is_false_is_empty_text() -> None:
    assert value("'x' if false") == ""
    assert field("v: a{{ ':' ~ spec.tag if spec.tag else '' }}{{ 'x' if false }}\n", {"tag": "1"}) == "a:1"


def test_a_variable_in_a_namespace_outlives_a_loop() -> None:
    text = (
        HEAD + "{% set ns = namespace(n=0) %}{% for x in [1, 2] %}{% set ns.n = ns.n + x %}{% endfor %}\n"
        "v: [{{ ns.n }}, {{ namespace }}]\n"
    )
    assert document(text).body["v"] == [3, "n"]


def test_absent_parts_of_the_parent_are_empty_mappings() -> None:
    assert value("[status, labels, annotations]") == [{}, {}, {}]


def test_a_field_that_objects_lack_costs_no_search_through_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[Any] = []

    def searched(root: Any) -> undefined.Places:
        searches.append(root)
        return undefined.places_in(root)

    monkeypatch.setattr(tracked_values, "places_in", searched)
    items = tuple(live("ConfigMap", f"c{number:03}", data={"a": {"b": "x"}}) for number in range(200))
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
        "{% for each in lookup_all('v1', 'ConfigMap') %}\n"
        "  {{ each.metadata.name }}: {{ each.data.a.c | default('no') }}\n{% endfor %}\n"
    )
    (found,) = render(templates({"a.yaml.j2": text}), parent(), FakeClusterView(others=items)).documents
    assert set(found.body["data"].values()) == {"no"}
    assert len(searches) == 1

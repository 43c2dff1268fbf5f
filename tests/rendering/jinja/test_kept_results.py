"""What a render keeps of imported files and macros changes nothing that it gives."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ssa_operator.objects.render_result import Rendered
from ssa_operator.rendering.jinja import kept_results
from ssa_operator.rendering.jinja.kept_results import KeptResults
from ssa_operator.rendering.render import render, render_traced
from tests.rendering.template_files import FakeClusterView, live, parent, templates

CLUSTER = FakeClusterView(
    others=(
        live("ConfigMap", "x", data={"a": "1", "flag": "yes"}),
        live("ConfigMap", "y", data={"a": "2"}),
        live("Secret", "s", data={"p": "aHVudGVyMg=="}),
    ),
    children=(live("ConfigMap", "one", data={"v": "live"}),),
)

MODULE = """{% import "_deep.j2" as deep %}
{% set config = lookup("v1", "ConfigMap", "x") %}
{% set letters = ["a", "b"] | map("upper") %}
{% set counter = namespace(n=0) %}
{% if config.data.flag == "yes" %}{% set flag = "on" %}{% endif %}
{% macro plain(x) %}<{{ x }}-{{ spec.size }}>{% endmacro %}
{% macro read(key) %}{{ config.data[key] }}{% endmacro %}
{% macro branch() %}{% if lookup("v1", "ConfigMap", "y").data.a == "2" %}two{% else %}other{% endif %}{% endmacro %}
{% macro secret() %}{% if lookup("v1", "Secret", "s").data.p | b64decode == "hunter2" %}yes{% endif %}{% endmacro %}
{% macro password() %}{{ lookup("v1", "Secret", "s").data.p }}{% endmacro %}
{% macro live_child() %}{{ child("ConfigMap", "one").data.v }}{% endmacro %}
{% macro absent() %}{{ lookup("v1", "ConfigMap", "none").data.v | default("no") }}{% endmacro %}
{% macro waits() %}{{ lookup("v1", "ConfigMap", "none").data.v }}{% endmacro %}
{% macro drawn() %}{{ generated(8) }}{% endmacro %}
{% macro number() %}{% return deep.number() + 1 %}{% endmacro %}
{% macro all(items) %}{% for each in items %}{{ each }};{% endfor %}{% endmacro %}
{% macro warned() %}{% do warn(lookup("v1", "ConfigMap", "x"), "Odd", "it is") %}w{% endmacro %}
STATEFUL
"""
STATEFUL = """{% macro counted() %}{% set counter.n = counter.n + 1 %}{{ counter.n }}{% endmacro %}
{% macro letter() %}{{ letters | first }}{% endmacro %}"""
DEEP = "{% macro number() %}{% return 41 %}{% endmacro %}\n{% set own = namespace(n=0) %}\n"

CALLS = (
    'm.plain("a")', "m.plain(1)", "m.plain(true)", "m.plain(m.plain(1))", 'm.read("a")', "m.branch()", "m.secret()",
    "m.password()", "m.live_child()", "m.absent()", "m.waits()", "m.drawn()", "m.number()", "m.all(spec.items)",
    "m.all(spec['items'] | map('upper'))", "m.warned()", "m.flag", 'm.plain(lookup("v1", "ConfigMap", "y").data.a)',
    "m.plain(x=1.0)", "m.plain(x=-0.0)", "m.all([m.plain(1), 2])",
)  # fmt: skip
STATE = ("m.counted()", "m.letter()")


def cluster() -> FakeClusterView:
    return dataclasses.replace(CLUSTER, random_numbers=itertools.cycle(range(61)))


class Cold(KeptResults):
    """Keeps nothing."""

    __slots__ = ()

    def module(self, template: Any, variables: Any) -> Any:
        return template.make_module({**variables})


def shown(found: Rendered) -> dict[str, Any]:
    """All of a render that the operator reads."""
    return {
        "documents": [
            (each.body, each.location, each.dependencies, each.secret, each.generated_values)
            for each in found.documents
        ],
        "waits": [dataclasses.asdict(each) for each in found.waits],
        "secrets": {id(each) for each in found.secrets},
        **{each: getattr(found, each) for each in FIELDS},
    }


FIELDS = (
    "again_at", "apis", "generated", "generated_values", "problems", "queries", "read_unready", "secret_queries",
    "warnings",
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from(CALLS + STATE), min_size=1, max_size=4), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
)
@example([["m.branch()"], ["m.branch()"]], False, False)  # what the second file reads, too
@example([["m.counted()", "m.counted()"]], True, False)
def test_a_render_gives_what_one_that_keeps_nothing_gives(calls: list[list[str]], stateful: bool, traced: bool) -> None:
    files = {"_m.j2": MODULE, "_deep.j2": DEEP}
    if stateful:
        files["_m.j2"] = MODULE.replace("STATEFUL", STATEFUL)
    else:
        files["_m.j2"] = "\n".join(
            line for line in MODULE.split("\n") if "namespace" not in line and "map(" not in line
        )
        files["_m.j2"] = files["_m.j2"].replace("STATEFUL", "{% macro counted() %}0{% endmacro %}")
        files["_m.j2"] += "{% macro letter() %}A{% endmacro %}"
        files["_deep.j2"] = DEEP.split("\n", maxsplit=1)[0]
    for number, file in enumerate(calls):
        lines = "".join(f"  k{at}: '{{{{ {call} }}}}'\n" for at, call in enumerate(file))
        name = "one" if number == 2 else f"c{number}"
        head = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n"
        files[f"{number}.yaml.j2"] = f'{{% import "_m.j2" as m %}}\n{head}{lines}'
    draw = render_traced if traced else render
    body = parent({"size": 3, "items": ["x", "y"]})
    kept = shown(draw(templates(files), body, cluster()))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ssa_operator.rendering.jinja.template_api.KeptResults", Cold)
        cold = shown(draw(templates(files), body, cluster()))
    for each in cold:
        assert repr(kept[each]) == repr(cold[each]), each


def test_an_imported_file_is_evaluated_once_a_render_and_a_macro_once_for_its_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    class Counted(FakeClusterView):
        def answer(self, query: Any, /) -> Any:
            asked.append(query.name)
            return super().answer(query)

    module = (
        "{% set x = lookup('v1', 'ConfigMap', 'x').data.a %}\n"
        "{% macro m(name) %}{{ lookup('v1', 'ConfigMap', name).data.a }}{{ x }}{% endmacro %}\n"
    )
    text = (
        '{% import "_m.j2" as m %}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n'
        "data: {a: '{{ m.m(\"y\") }}', b: '{{ m.m(\"y\") }}'}\n"
    )
    files = {"_m.j2": module, "a.yaml.j2": text.replace("NAME", "a"), "b.yaml.j2": text.replace("NAME", "b")}
    found = render(templates(files), parent(), Counted(others=CLUSTER.others))
    assert [each.body["data"] for each in found.documents] == [{"a": "21", "b": "21"}] * 2
    assert [{str(each.query) for each in document.dependencies} for document in found.documents] == [
        {"ConfigMap n/x", "ConfigMap n/y"}
    ] * 2
    assert asked == ["x", "y"]
    monkeypatch.setattr(kept_results, "RESULTS_LIMIT", 0)
    asked.clear()
    assert shown(render(templates(files), parent(), Counted(others=CLUSTER.others))) == shown(found)
    assert asked == ["x", "y", "y", "y", "y"]


def test_a_macro_makes_each_file_depend_on_what_its_control_flow_reads() -> None:
    module = (
        "{% set config = lookup('v1', 'ConfigMap', 'x') %}\n"
        "{% macro on() %}{% if config.data.flag == 'yes' %}on{% endif %}{% endmacro %}\n"
    )
    text = (
        '{% import "_m.j2" as m %}\nBEFOREapiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n'
        "data: {a: '{{ m.on() }}'}\n"
    )
    one = text.replace("NAME", "a").replace("BEFORE", "{% if m.config.data.flag == 'yes' %}{% endif %}")
    files = {"_m.j2": module, "a.yaml.j2": one, "b.yaml.j2": text.replace("NAME", "b").replace("BEFORE", "")}
    found = render(templates(files), parent(), cluster())
    assert [[str(each.query) for each in document.dependencies] for document in found.documents] == [
        ["ConfigMap n/x"]
    ] * 2

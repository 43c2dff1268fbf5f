"""`{% do warn(object, reason, message) %}`: Events that a template emits on objects that it reads."""

from __future__ import annotations

import dataclasses

import pytest

from ssa_operator.objects.render_result import Rendered
from tests.rendering.template_files import HEAD, FakeClusterView, live, render_with, status

MAP = live("ConfigMap", "x", metadata={"uid": "7"}, data={"size": "3"})
CLUSTER = FakeClusterView(
    children=(live("Service", "s"),),
    others=(MAP, live("Secret", "y", data={"key": "czNjcjN0"}), live("Node", "node", metadata={"namespace": ""})),
)


def warned(text: str, macros: str = "") -> Rendered:
    return render_with({"a.yaml.j2": text + "\n" + HEAD, "_m.yaml.j2": macros}, CLUSTER, spec={"size": 2})


def shown(text: str, macros: str = "") -> list[str]:
    found = warned(text, macros=macros)
    assert not found.problems
    assert not found.waits
    return [str(warning) for warning in found.warnings]


def test_a_warning_names_the_object_the_reason_and_the_message() -> None:
    text = "{% do warn(lookup('v1', 'ConfigMap', 'x'), 'TooLarge', 'size is over ' ~ spec.size) %}"
    (warning,) = warned(text).warnings
    assert (warning.kind, warning.namespace, warning.name, warning.uid) == ("ConfigMap", "n", "x", "7")
    assert str(warning) == "Event on ConfigMap n/x: TooLarge: size is over 2"


@pytest.mark.parametrize(
    ("read", "named"),
    [
        ("lookup('v1', 'ConfigMap', 'x')", "ConfigMap n/x"),
        ("lookup_all('v1', 'ConfigMap') | first", "ConfigMap n/x"),
        ("lookup('v1', 'Node', 'node')", "Node node"),
        ("live('Service', 's')", "Service n/s"),
        ("object", "Echo n/e"),
    ],
)
def test_any_object_that_a_template_reads_can_be_warned_of(read: str, named: str) -> None:
    service = "\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: s\n---\n"
    assert shown(f"{{% do warn({read}, 'Odd', 'why') %}}{service}") == [f"Event on {named}: Odd: why"]


def test_a_condition_a_loop_a_macro_and_an_import_warn_each_object_once() -> None:
    macro = "{% macro check(x) %}{% do warn(x, 'Odd', 'why') if x.data.size | int > 2 %}{% endmacro %}"
    text = (
        "{% import '_m.yaml.j2' as m %}{% for x in lookup_all('v1', 'ConfigMap') %}{{ m.check(x) }}{% endfor %}\n"
        "{% do m.check(lookup('v1', 'ConfigMap', 'x')) %}"
    )
    assert shown(text, macro) == ["Event on ConfigMap n/x: Odd: why"]


@pytest.mark.parametrize(
    "call",
    [
        "warn(lookup('v1', 'ConfigMap', 'absent'), 'Odd', 'why')",
        "warn(lookup('v1', 'ConfigMap', 'absent', optional=true), 'Odd', 'why')",
        "warn(lookup('v1', 'ConfigMap', 'x'), 'Odd', lookup('v1', 'ConfigMap', 'absent').data.why)",
        "warn(live('ConfigMap', 'c'), 'Odd', 'why')",
    ],
)
def test_what_is_not_known_yet_warns_of_nothing_and_waits_for_nothing(call: str) -> None:
    found = warned(f"{{% do {call} %}}")
    assert (found.warnings, found.waits, found.problems, len(found.documents)) == ((), (), (), 1)
    assert found.queries


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("warn(lookup('v1', 'ConfigMap', 'x'), 'not a word', 'why')", "warn: the reason must be one word in CamelCase"),
        ("warn(lookup('v1', 'ConfigMap', 'x'), 'Odd', '')", "warn: message must be a string, and this is empty"),
        ("warn(lookup('v1', 'ConfigMap', 'x').data, 'Odd', 'why')", "warn needs what child or lookup gave, as in"),
        ("warn({'kind': 'Pod'}, 'Odd', 'why')", "warn needs what child or lookup gave"),
        ("warn(lookup('v1', 'ConfigMap', 'x'), 'Odd', lookup('v1', 'Secret', 'y').data.key)", "no Secret's content"),
        ("warn(lookup('v1', 'ConfigMap', 'x'), 'Odd', '' ~ lookup('v1', 'Secret', 'y').data.key)", "no Secret's"),
    ],
)
def test_a_warning_that_no_event_can_show_is_an_error_with_its_line(call: str, message: str) -> None:
    found = warned(f"\n{{% do {call} %}}")
    (problem,) = found.problems
    assert str(problem).startswith("echoes.example.com/a.yaml.j2:2: ")
    assert message in str(problem)
    assert "s3cr3t" not in str(problem)
    assert found.warnings == ()


def test_a_secrets_content_in_a_text_of_the_file_is_not_shown() -> None:
    text = (
        "{% set text %}{{ lookup('v1', 'Secret', 'y').data.key }}{% endset %}"
        "{% do warn(lookup('v1', 'ConfigMap', 'x'), 'Odd', text ~ '!') %}"
    )
    found = warned(text)
    assert found.warnings == ()
    assert found.problems


def test_no_event_shows_the_name_that_a_secrets_content_gives_an_object() -> None:
    text = "{% do warn(lookup('v1', 'ConfigMap', lookup('v1', 'Secret', 'y').data.key | b64decode), 'Odd', 'why') %}\n"
    cluster = dataclasses.replace(CLUSTER, others=(*CLUSTER.others, live("ConfigMap", "s3cr3t", metadata={"uid": "8"})))
    found = render_with({"a.yaml.j2": text + HEAD}, cluster)
    assert (found.warnings, found.problems, len(found.documents)) == ((), (), 1)


def test_a_warning_is_no_value() -> None:
    (problem,) = warned("v: {{ warn(lookup('v1', 'ConfigMap', 'x'), 'Odd', 'why') }}").problems
    assert "write {% do warn(object, reason, message) %}" in str(problem)


def test_the_templates_of_one_parent_warn_a_bounded_number_of_times() -> None:
    text = "{% for n in range(101) %}{% do warn(object, 'Odd', 'number ' ~ n) %}{% endfor %}"
    (problem,) = warned(text).problems
    assert "may warn 100 times" in str(problem)


def test_the_status_template_warns_too() -> None:
    found = status("a: 1\n{% do warn(child('Service', 's'), 'Odd', 'why') %}\n", live("Service", "s"))
    assert [str(each) for each in found.warnings] == ["Event on Service n/s: Odd: why"]

"""`lookup_all` with a LabelSelector and with selected namespaces, and the test `matching`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rendering.template_files import FakeClusterView, live, manifest, render_with, value


def pod(name: str, namespace: str = "n", **labels: str) -> dict[str, Any]:
    """A Pod with these labels."""
    return live("Pod", name, metadata={"namespace": namespace, "labels": labels}, status={"podIP": f"ip-{name}"})


def namespace(name: str, **labels: str) -> dict[str, Any]:
    """A Namespace with these labels."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


CLUSTER = FakeClusterView(
    others=(
        pod("a", app="web", tier="1"), pod("b", app="web"), pod("c", app="db"), pod("d"),
        pod("e", "far", app="web"), pod("f", "third", app="web"),
        namespace("n", team="blue"), namespace("far", team="blue"), namespace("third", team="red"),
        live("ConfigMap", "x", data={"app": "db", "team": "red"}),
    )
)  # fmt: skip


def expression(label: str, operator: str, *values: str) -> str:
    """A selector with one expression, as a template writes it."""
    return f"{{'matchExpressions': [{{'key': '{label}', 'operator': '{operator}', 'values': {[*values]}}}]}}"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("selector={}", "a b c d"),
        ("selector=none", ""),
        ("selector={'matchLabels': {'app': 'web'}}", "a b"),
        ("{'tier': '1'}, selector={'matchLabels': {'app': 'web'}}", "a"),
        ("{'app': 'db'}, selector={'matchLabels': {'app': 'web'}}", ""),
        (f"selector={expression('app', 'In', 'web', 'x')}", "a b"),
        (f"selector={expression('app', 'NotIn', 'web')}", "c d"),
        (f"selector={expression('app', 'Exists')}", "a b c"),
        (f"selector={expression('tier', 'DoesNotExist')}", "b c d"),
        ("selector={'matchLabels': {'app': lookup('v1', 'ConfigMap', 'x').data.app}}", "c"),
        ("namespaces=''", "e a b c d f"),
        ("namespaces=['n']", "a b c d"),
        ("namespaces=['third', 'far', 'third', 'none']", "e f"),
        ("namespaces=[]", ""),
        ("namespaces={}", "e a b c d f"),
        ("namespaces={'matchLabels': {'team': 'blue'}}", "e a b c d"),
        ("namespaces={'matchLabels': {'team': lookup('v1', 'ConfigMap', 'x').data.team}}", "f"),
        (f"namespaces={expression('team', 'NotIn', 'blue')}, selector={{'matchLabels': {{'app': 'web'}}}}", "f"),
    ],
)
def test_the_selectors_of_a_lookup_have_the_meaning_of_kubernetes(arguments: str, found: str) -> None:
    call = f"lookup_all('v1', 'Pod', {arguments})"
    text = f"v: '{{{{ {call} | map(attribute='metadata.name') | join(' ') }}}}'\ncount: {{{{ {call} | length }}}}\n"
    result = render_with({"a.yaml.j2": manifest("ConfigMap", "c", text)}, CLUSTER)
    assert (result.problems, result.waits) == ((), ())
    assert (result.documents[0].body["v"], result.documents[0].body["count"]) == (found, len(found.split()))


@pytest.mark.parametrize(
    ("call", "awaited"),
    [
        ("lookup_all('v1', 'Pod', selector={'matchLabels': {'a': lookup('v1', 'ConfigMap', 'x').data.none}})",
         "ConfigMap n/x .data.none"),
        ("lookup_all('v1', 'Pod', namespaces=[lookup('v1', 'ConfigMap', 'x').data.none])", "ConfigMap n/x .data.none"),
        ("lookup_all('v1', 'Pod', namespaces={'matchLabels': {'team': 'red'}})[0].status.hostIP",
         "Pod third/f .status.hostIP"),
    ],
)  # fmt: skip
def test_a_lookup_waits_for_what_its_selectors_read_and_for_fields_of_what_it_finds(call: str, awaited: str) -> None:
    result = render_with({"a.yaml.j2": manifest("ConfigMap", "c", f"v: {{{{ {call} }}}}\n")}, CLUSTER)
    assert [str(wait).removeprefix("waiting for ") for wait in result.waits] == [awaited]


LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
EXPRESSIONS: st.SearchStrategy[tuple[str, str, list[str]]] = st.one_of(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["In", "NotIn"]), st.lists(st.sampled_from("xy"), min_size=1)),
    st.tuples(st.sampled_from("ab"), st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
)


@given(labels=LABELS, wanted=LABELS, expressions=st.lists(EXPRESSIONS, max_size=3))
def test_labels_match_a_selector_if_each_part_of_it_holds(
    labels: dict[str, str], wanted: dict[str, str], expressions: list[tuple[str, str, list[str]]]
) -> None:
    selector = {
        "matchLabels": wanted,
        "matchExpressions": [{"key": key, "operator": operator, "values": some} for key, operator, some in expressions],
    }
    holds: dict[str, Callable[[str, list[str]], bool]] = {
        "In": lambda key, some: labels.get(key) in some,
        "NotIn": lambda key, some: labels.get(key) not in some,
        "Exists": lambda key, _: key in labels,
        "DoesNotExist": lambda key, _: key not in labels,
    }
    expected = wanted.items() <= labels.items() and all(holds[each](key, some) for key, each, some in expressions)
    assert value("spec.labels is matching(spec.selector)", {"labels": labels, "selector": selector}) == expected


def test_nothing_matches_no_selector_and_everything_an_empty_one() -> None:
    assert value("{} is matching({})") is True
    assert value("{'a': 'x'} is matching(none)") is False
    blue = {"items": [{"l": {"a": "x"}}, {"l": {}}], "selector": {"matchLabels": {"a": "x"}}}
    assert value("spec.items | selectattr('l', 'matching', spec.selector) | list | length", blue) == 1

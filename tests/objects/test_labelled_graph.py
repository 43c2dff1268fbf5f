"""The dependency graph as users see it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup, Selection
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.labelled_graph import LabelledGraph, labelled_graph
from ssa_operator.objects.render_result import Dependency, Document, Rendered, Wait, WaitTarget
from ssa_operator.objects.source_location import FieldPath, SourceLocation

SETTINGS = Lookup(api_version="v1", kind="ConfigMap", namespace="n", name="settings")
PODS = Selection(api_version="v1", kind="Pod", namespace="n", labels=(("app", "x"),))


def at(line: int) -> SourceLocation:
    return SourceLocation("f/a.yaml.j2", line)


def document(name: str, *dependencies: Dependency) -> Document:
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    return Document(body=body, location=at(1), location_of=lambda _: at(1), dependencies=dependencies)


def wait(name: str | None, *dependencies: Dependency) -> Wait:
    identity = None if name is None else Identity("batch", "Job", "n", name)
    awaited = tuple(WaitTarget(each.query) for each in dependencies)
    return Wait(location=at(1), awaited=awaited, identity=identity, dependencies=dependencies)


def reads(target: Any, *fields: FieldPath, awaited: bool = True, **more: Any) -> Dependency:
    query = Reference("Job", target) if isinstance(target, str) else target
    return Dependency(query, awaited, location=at(5), fields=fields, **more)


def placed(identity: Identity) -> Identity:
    return Identity(identity.group, identity.kind, "n", identity.name)


def drawn(*results: Document | Wait) -> LabelledGraph:
    documents = tuple(each for each in results if isinstance(each, Document))
    waits = tuple(each for each in results if isinstance(each, Wait))
    return labelled_graph(Rendered(documents=documents, waits=waits), placed)


def lines(graph: LabelledGraph) -> list[str]:
    labels = {node.key: node.label for node in graph.nodes}
    return [f"{labels[edge.source]} -> {labels[edge.target]}: {edge.label}" for edge in graph.edges]


def test_an_edge_has_the_fields_that_the_dependent_reads() -> None:
    graph = drawn(wait("b", reads("a", ("spec", "x"), ("status", "y"))), document("a"))
    assert lines(graph) == ["Job/b -> Job/a: .spec.x, .status.y"]
    assert (graph.edges[0].awaited, graph.edges[0].location) == (True, at(5))


def test_an_edge_names_the_function_that_reads_another_object() -> None:
    graph = drawn(
        document(
            "a",
            reads(SETTINGS, ("data", "url")),
            reads(PODS, (0, "metadata", "name"), awaited=False),
            reads("b", (), awaited=False),
        ),
        document("b", reads("c", after=True)),
        document("c"),
    )
    assert lines(graph) == [
        "Job/a -> ConfigMap n/settings: lookup .data.url",
        "Job/a -> every Pod in n with app=x: lookup_all .metadata.name",
        "Job/a -> Job/b: ready",
        "Job/b -> Job/c: after",
    ]
    assert [node.label for node in graph.nodes if not node.manifest] == [
        "ConfigMap n/settings",
        "every Pod in n with app=x",
    ]


def test_a_lookup_of_a_manifest_leads_to_the_manifest() -> None:
    job = Lookup(api_version="batch/v1", kind="Job", namespace="n", name="b")
    graph = drawn(document("a", reads(job, ("spec",))), document("b"))
    assert lines(graph) == ["Job/a -> Job/b: lookup .spec"]
    assert all(node.manifest for node in graph.nodes)


def test_nodes_are_in_the_order_of_their_applies() -> None:
    graph = drawn(
        wait("c", reads("b", ("x",))), wait("b", reads("a", ("x",))), document("a", reads("c", (), awaited=False))
    )
    assert [node.label for node in graph.nodes] == ["Job/a", "Job/b", "Job/c"]


def test_a_cycle_is_named_and_its_edges_are_marked() -> None:
    graph = drawn(wait("a", reads("b", ("x",))), wait("b", reads("a", ("x",))), wait("c", reads("a", ("x",))))
    assert graph.cycles == ("Job/a -> Job/b -> Job/a",)
    assert [edge.in_cycle for edge in graph.edges] == [True, True, False]
    assert {node.label for node in graph.nodes} == {"Job/a", "Job/b", "Job/c"}


def test_a_file_that_waits_as_a_whole_is_a_node() -> None:
    graph = drawn(wait(None, reads("a", ("x",))), document("a"))
    assert lines(graph) == ["file f/a.yaml.j2 -> Job/a: .x"]


def test_manifests_with_one_short_name_have_their_namespaces() -> None:
    one, other = document("a"), document("a")
    body = {**other.body, "apiVersion": "example.com/v1"}
    graph = drawn(one, Document(body=body, location=at(2), location_of=lambda _: at(2)))
    assert [node.label for node in graph.nodes] == ["Job n/a", "Job n/a"]


def test_a_finalize_hook_is_marked() -> None:
    hook = document("hook")
    metadata = {"name": "hook", "annotations": {"ssa-operator.dev/on": "finalize"}}
    graph = drawn(document("a"), replace(hook, body={**hook.body, "metadata": metadata}))
    assert {node.label: node.finalize_hook for node in graph.nodes} == {"Job/a": False, "Job/hook": True}


NAMES = ("a", "b", "c", "d", "e")


@given(st.fixed_dictionaries({name: st.lists(st.sampled_from([*NAMES, SETTINGS]), max_size=3) for name in NAMES}))
def test_every_read_is_an_edge_between_two_nodes(targets: dict[str, list[Any]]) -> None:
    graph = drawn(*(document(name, *(reads(target, ("x",)) for target in found)) for name, found in targets.items()))
    keys = [node.key for node in graph.nodes]
    assert len(set(keys)) == len(keys)
    assert len(graph.edges) == sum(map(len, targets.values()))
    position = {key: at for at, key in enumerate(keys)}
    circular = {edge.source for edge in graph.edges if edge.in_cycle}
    assert bool(circular) == bool(graph.cycles)
    if not circular:
        assert all(position[edge.target] < position[edge.source] for edge in graph.edges)


def test_a_read_of_each_object_of_a_lookup_all_is_one_field() -> None:
    fields: tuple[FieldPath, ...] = ((0, "metadata", "name"), (1, "metadata", "name"), (), (0, "spec", "x"))
    graph = drawn(wait("a", reads(PODS, *fields)))
    assert lines(graph) == ["Job/a -> every Pod in n with app=x: lookup_all .metadata.name, .spec.x"]

"""The graph of the dependencies of manifests: its order, its cycles, and what users see of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup, Selection
from ssa_operator.objects.dependency_graph import cycles, graph, waves
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.labelled_graph import LabelledGraph, labelled_graph
from ssa_operator.objects.render_result import Dependency, Document, Rendered, Wait, WaitTarget
from ssa_operator.objects.source_location import FieldPath, SourceLocation

NODES = range(8)
Edges = Mapping[int, frozenset[int]]

edges = st.fixed_dictionaries({node: st.frozensets(st.sampled_from(NODES)) for node in NODES})
sparse = st.fixed_dictionaries({node: st.frozensets(st.sampled_from(NODES), max_size=1) for node in NODES})


def reaches(given: Edges, start: int) -> set[int]:
    """Everything that a node depends on, directly or not."""
    found: set[int] = set()
    wave = [start]
    while wave:
        wave = [target for node in wave for target in given[node] if target not in found]
        found.update(wave)
    return found


@given(edges | sparse)
def test_every_node_that_depends_on_itself_is_in_a_reported_cycle(given: Edges) -> None:
    named = {node for path in cycles(given) for node in path}
    assert named == {node for node in NODES if node in reaches(given, node)}


@given(edges | sparse)
def test_each_reported_cycle_is_a_cycle_and_is_reported_once(given: Edges) -> None:
    found = cycles(given)
    for path in found:
        assert len(set(path)) == len(path)
        assert all(after in given[before] for before, after in itertools.pairwise((*path, path[0])))
    rotations = [min(path[at:] + path[:at] for at in range(len(path))) for path in found]
    assert len(set(rotations)) == len(rotations)


@given(edges | sparse)
def test_the_dependencies_of_a_node_are_in_earlier_waves(given: Edges) -> None:
    depth = {node: at for at, wave in enumerate(waves(given)) for node in wave}
    for node, at in depth.items():
        assert at == 1 + max((depth[target] for target in given[node]), default=-1)


@given(edges | sparse)
def test_only_nodes_in_a_cycle_or_that_depend_on_one_are_not_in_the_order(given: Edges) -> None:
    circular = {node for path in cycles(given) for node in path}
    ordered = {node for wave in waves(given) for node in wave}
    assert ordered == {node for node in NODES if not circular & {node, *reaches(given, node)}}


def test_a_long_chain_and_a_large_cycle_work() -> None:
    chain = {node: {node + 1} for node in range(20_000)} | {20_000: set()}
    assert cycles(chain) == ()
    assert waves(chain)[0] == (20_000,)
    circle = {node: {(node + 1) % 5_000} for node in range(5_000)}
    assert [len(path) for path in cycles(circle)] == [5_000]


JOB = Identity("batch", "Job", "default", "a")
MAP = Identity("", "ConfigMap", "default", "b")
FREE = Identity("", "Secret", "default", "c")


def uses(*names: str, awaited: bool = True, after: bool = False) -> tuple[Dependency, ...]:
    references = [Reference(*name.split("/")) for name in names]
    return tuple(Dependency(each, awaited, after, SourceLocation("a.yaml.j2", 7)) for each in references)


def test_a_cycle_is_shown_by_kinds_and_names() -> None:
    found = graph([(JOB, uses("ConfigMap/b")), (MAP, uses("Job/a", "Secret/c")), (FREE, ())])
    (path,) = found.cycles()
    assert found.path(path) == "Job/a -> ConfigMap/b -> Job/a"
    assert found.waves() == ((FREE,),)


def test_a_manifest_that_reads_itself_is_a_cycle_unless_it_does_not_wait_for_it() -> None:
    found = graph([(JOB, uses("Job/a"))])
    assert [found.path(path) for path in found.cycles()] == ["Job/a -> Job/a"]
    assert graph([(JOB, uses("Job/a", awaited=False))]).cycles() == ()


def test_an_edge_has_its_reason_and_its_template_line() -> None:
    found = graph([(JOB, ()), (MAP, uses("Job/a", after=True)), (FREE, uses("Job/a"))])
    (after,), (value,) = found.edges[MAP], found.edges[FREE]
    assert (after.target, after.why, str(after.location)) == (JOB, "after", "a.yaml.j2:7")
    assert (value.why, str(value)) == ("value", "Job/a to be ready")


def test_a_lookup_of_another_manifest_is_an_edge_and_any_other_is_none() -> None:
    own = Lookup(api_version="batch/v1", kind="Job", namespace="default", name="a")
    far = Lookup(api_version="batch/v1", kind="Job", namespace="far", name="a")
    found = graph([(JOB, ()), (MAP, (Dependency(own, awaited=True), Dependency(far, awaited=True)))])
    (edge,) = found.edges[MAP]
    assert (edge.target, edge.ready, str(edge)) == (JOB, False, "Job default/a to exist")


def test_two_manifests_of_one_kind_and_name_are_told_apart() -> None:
    twin = Identity("", "ConfigMap", "far", "b")
    found = graph([(MAP, ()), (twin, ()), (JOB, uses("ConfigMap/b"))])
    assert found.edges[JOB] == ()
    assert [found.label(each) for each in (MAP, twin, JOB)] == ["ConfigMap default/b", "ConfigMap far/b", "Job/a"]


def test_a_required_child_that_is_not_in_the_graph_is_listed() -> None:
    found = graph([(JOB, uses("Secret/nope", "Secret/c")), (FREE, ())])
    assert found.elsewhere == {JOB: (Reference("Secret", "nope"),)}


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

"""The order that follows from the dependencies of manifests, and the cycles in which there is none."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup
from ssa_operator.objects.dependency_graph import cycles, graph, waves
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Dependency
from ssa_operator.objects.source_location import SourceLocation

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

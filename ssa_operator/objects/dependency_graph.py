"""The dependency graph of one parent's manifests, its cycles, and the order of the manifests.

Promises:
- Users declare no order. It follows from the values that a manifest requires of another one, and from
  `ssa-operator.dev/after`.
- Every cycle is found. Each manifest in a cycle is in at least one reported path, and no path is reported twice.
- In the order, a manifest comes after its dependencies. Manifests in a cycle, or that depend on one, are not in the
  order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup, Question
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Dependency, Rendered
from ssa_operator.objects.source_location import SourceLocation

N = TypeVar("N", bound=Hashable)


class Edge(Struct, frozen=True):
    """A dependency of one manifest on another."""

    target: Identity
    """The manifest that must come first."""
    use: Dependency
    """The dependency from which the edge follows."""

    @property
    def ready(self) -> bool:
        """Whether the target must be ready; for a lookup it need only exist."""
        return isinstance(self.use.query, Reference)

    @property
    def location(self) -> SourceLocation | None:
        """The template line that makes the query."""
        return self.use.location

    @property
    def why(self) -> str:
        """`after` for an order without a value, otherwise `value`."""
        return "after" if self.use.after else "value"

    def __str__(self) -> str:
        return f"{self.use.query} to {'be ready' if self.ready else 'exist'}"


class Graph(Struct, frozen=True, kw_only=True, dict=True):
    """The manifests of one parent in the order of the templates, each with its dependencies."""

    edges: Mapping[Identity, tuple[Edge, ...]]
    elsewhere: Mapping[Identity, tuple[Reference, ...]]
    """The children that a manifest requires and that are not in the graph, because a template failed or waits as a
    whole.
    """

    @property
    def targets(self) -> Mapping[Identity, tuple[Identity, ...]]:
        return {identity: tuple(edge.target for edge in edges) for identity, edges in self.edges.items()}

    def label(self, identity: Identity) -> str:
        """The short name of a manifest: `Job/x`, with its namespace where two manifests have the same short name."""
        short = (identity.kind, identity.name)
        return f"{identity.kind}/{identity.name}" if self._short_names[short] < 2 else str(identity)

    @cached_property
    def _short_names(self) -> Counter[tuple[str, str]]:
        """How many manifests have each kind and name."""
        return Counter((identity.kind, identity.name) for identity in self.edges)

    def cycles(self) -> tuple[tuple[Identity, ...], ...]:
        """The result of `cycles` for this graph."""
        return cycles(self.targets)

    def waves(self) -> tuple[tuple[Identity, ...], ...]:
        """The result of `waves` for this graph; reversed, it is the order in which the manifests can be deleted."""
        return waves(self.targets)

    def path(self, cycle: Sequence[Identity]) -> str:
        """A cycle as messages show it: `Job/a -> ConfigMap/b -> Job/a`."""
        return " -> ".join(self.label(identity) for identity in (*cycle, cycle[0]))


def graph(manifests: Iterable[tuple[Identity, Sequence[Dependency]]]) -> Graph:
    """The graph of the manifests of one parent, each with its dependencies; of two with the same identity, the first
    counts. A reference that matches two manifests gives no edge: the plan refuses the manifest that contains it.
    """
    dependencies: dict[Identity, Sequence[Dependency]] = {}
    for identity, own in manifests:
        dependencies.setdefault(identity, own)
    if not any(dependencies.values()):
        return Graph(edges=dict.fromkeys(dependencies, ()), elsewhere={})
    targets = Targets(dependencies)
    edges: dict[Identity, tuple[Edge, ...]] = {}
    elsewhere: dict[Identity, tuple[Reference, ...]] = {}
    for identity, own in dependencies.items():
        own_edges: dict[Identity, Edge] = {}
        missing = []
        for dependency in own:
            if not dependency.awaited:
                continue
            target = targets.of(dependency.query)
            if target is not None and (target not in own_edges or not own_edges[target].ready):
                own_edges[target] = Edge(target, dependency)
            elif isinstance(dependency.query, Reference) and dependency.query not in targets.named:
                missing.append(dependency.query)
        edges[identity] = tuple(own_edges.values())
        if missing:
            elsewhere[identity] = tuple(missing)
    return Graph(edges=edges, elsewhere=elsewhere)


def graph_of(rendered: Rendered, placed: Callable[[Identity], Identity]) -> Graph:
    """The graph of all documents and waits of a render; `placed` completes an identity without a namespace."""
    manifests = [(placed(document.identity), document.dependencies) for document in rendered.documents]
    manifests += [(placed(wait.identity), wait.dependencies) for wait in rendered.waits if wait.identity is not None]
    return graph(manifests)


class Targets:
    """The manifests of these identities, as queries lead to them."""

    def __init__(self, identities: Collection[Identity]) -> None:
        self._identities = identities
        self.named: dict[Reference, list[Identity]] = {}
        """The manifests that each reference matches."""
        for identity in identities:
            self.named.setdefault(Reference(identity.kind, identity.name), []).append(identity)

    def of(self, query: Question) -> Identity | None:
        """The only manifest that a query leads to, None if there is none, or several."""
        if isinstance(query, Reference):
            matching = self.named.get(query, ())
            return matching[0] if len(matching) == 1 else None
        return query.identity if isinstance(query, Lookup) and query.identity in self._identities else None


def cycles(edges: Mapping[N, Collection[N]]) -> tuple[tuple[N, ...], ...]:
    """Paths that lead back to their first node, each once and without its end.

    Every node of a cycle is in one of them. The first path that contains a node is a shortest one through its first
    node.
    """
    remaining = _circular(edges)
    paths: list[tuple[N, ...]] = []
    covered: set[N] = set()
    for node in remaining:
        path = _shortest_cycle(node, remaining) if node not in covered else ()
        if path:
            paths.append(path)
            covered.update(path)
    return tuple(paths)


def waves(edges: Mapping[N, Collection[N]]) -> tuple[tuple[N, ...], ...]:
    """The nodes by depth: first those without dependencies, then those that depend on the first, and so on.

    Nodes that are in a cycle, or depend on one, are left out.
    """
    blockers = {node: sum(1 for target in set(targets) if target in edges) for node, targets in edges.items()}
    dependants = _reversed(edges)
    found: list[tuple[N, ...]] = []
    wave = [node for node, count in blockers.items() if not count]
    while wave:
        found.append(tuple(wave))
        unblocked: dict[N, None] = {}
        for node in wave:
            for dependant in dependants[node]:
                blockers[dependant] -= 1
                if not blockers[dependant]:
                    unblocked[dependant] = None
        wave = [*unblocked]
    return tuple(found)


def _circular(edges: Mapping[N, Collection[N]]) -> Mapping[N, Sequence[N]]:
    """The nodes that are in cycles or on a path between two cycles, each with its targets among these nodes."""
    return _without_waves(_without_waves(edges, reverse=False), reverse=True)


def _without_waves(edges: Mapping[N, Collection[N]], *, reverse: bool) -> dict[N, list[N]]:
    """The graph without the nodes from which no path leads to a cycle; with `reverse`, without those to which no path
    leads from a cycle.
    """
    done = {node for wave in waves(_reversed(edges) if reverse else edges) for node in wave}
    return {
        node: [target for target in targets if target in edges and target not in done]
        for node, targets in edges.items()
        if node not in done
    }


def _reversed(edges: Mapping[N, Collection[N]]) -> dict[N, list[N]]:
    """Each node with its dependants."""
    dependants: dict[N, list[N]] = {node: [] for node in edges}
    for node, targets in edges.items():
        for target in dict.fromkeys(targets):
            if target in dependants:
                dependants[target].append(node)
    return dependants


def _shortest_cycle(start: N, edges: Mapping[N, Sequence[N]]) -> tuple[N, ...]:
    """The nodes of a shortest path from `start` to itself, () if there is none."""
    came_from: dict[N, N] = {}
    wave = [start]
    while wave:
        next_wave = []
        for node in wave:
            for target in edges[node]:
                if target == start:
                    return _path(start, node, came_from)
                if target not in came_from:
                    came_from[target] = node
                    next_wave.append(target)
        wave = next_wave
    return ()


def _path(start: N, end: N, came_from: Mapping[N, N]) -> tuple[N, ...]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))

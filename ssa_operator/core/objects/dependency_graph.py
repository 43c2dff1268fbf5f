"""Which manifests of one parent depend on which, and the order that follows.

Promises:
- Nobody declares an order: it follows from what a manifest reads of another one and doesn't do without, and from
  `ssa-operator.dev/after`.
- Every cycle is found. Each manifest that is in one is named in at least one path, and no path is named twice.
- In the order, what a manifest depends on comes before it; what is in a cycle, or behind one, has no place in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.cluster_view import Lookup
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.render_result import Dependency, Rendered
from ssa_operator.core.objects.source_location import SourceLocation

N = TypeVar("N", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Edge:
    """What a manifest depends on, and by which use of it."""

    target: Identity
    use: Dependency

    @property
    def ready(self) -> bool:
        """Whether the target has to be ready; a lookup only asks for it to be there."""
        return isinstance(self.use.query, Reference)

    @property
    def location(self) -> SourceLocation | None:
        """The template line that asks for it."""
        return self.use.location

    @property
    def why(self) -> str:
        return "after" if self.use.after else "value"

    def __str__(self) -> str:
        return f"{self.use.query} to {'be ready' if self.ready else 'exist'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The manifests of one parent in the order of the templates, each with what it depends on.

    elsewhere: the children that a manifest awaits and that none of these is: a template failed, or waits as a whole.
    """

    edges: Mapping[Identity, tuple[Edge, ...]]
    elsewhere: Mapping[Identity, tuple[Reference, ...]]

    @property
    def targets(self) -> Mapping[Identity, tuple[Identity, ...]]:
        return {identity: tuple(edge.target for edge in edges) for identity, edges in self.edges.items()}

    def label(self, identity: Identity) -> str:
        """How a manifest is called: `Job/x`, with its namespace where another one is called so too."""
        alike = sum(1 for each in self.edges if (each.kind, each.name) == (identity.kind, identity.name))
        return f"{identity.kind}/{identity.name}" if alike < 2 else str(identity)

    def cycles(self) -> tuple[tuple[Identity, ...], ...]:
        """As `cycles` says."""
        return cycles(self.targets)

    def waves(self) -> tuple[tuple[Identity, ...], ...]:
        """As `waves` says; the other way round it is the order in which they can go."""
        return waves(self.targets)

    def path(self, cycle: Sequence[Identity]) -> str:
        """A cycle in words: `Job/a -> ConfigMap/b -> Job/a`."""
        return " -> ".join(self.label(identity) for identity in (*cycle, cycle[0]))


def graph(manifests: Iterable[tuple[Identity, Sequence[Dependency]]]) -> Graph:
    """The graph of the manifests of one parent, each with its uses; of two with one identity, the first counts.

    A child that two of them could be is none: such a manifest is refused for that.
    """
    uses: dict[Identity, Sequence[Dependency]] = {}
    for identity, own in manifests:
        uses.setdefault(identity, own)
    if not any(uses.values()):
        return Graph(edges=dict.fromkeys(uses, ()), elsewhere={})
    named: dict[Reference, list[Identity]] = {}
    for identity in uses:
        named.setdefault(Reference(identity.kind, identity.name), []).append(identity)
    edges: dict[Identity, tuple[Edge, ...]] = {}
    elsewhere: dict[Identity, tuple[Reference, ...]] = {}
    for identity, own in uses.items():
        found: dict[Identity, Edge] = {}
        lost = []
        for use in own:
            if not use.awaited:
                continue
            target = _target(use, named, uses)
            if target is not None and (target not in found or not found[target].ready):
                found[target] = Edge(target, use)
            elif isinstance(use.query, Reference) and use.query not in named:
                lost.append(use.query)
        edges[identity] = tuple(found.values())
        if lost:
            elsewhere[identity] = tuple(lost)
    return Graph(edges=edges, elsewhere=elsewhere)


def graph_of(rendered: Rendered, placed: Callable[[Identity], Identity]) -> Graph:
    """The graph of everything that a render gave; `placed` puts what names no namespace where it belongs."""
    manifests = [(placed(document.identity), document.dependencies) for document in rendered.documents]
    manifests += [(placed(wait.identity), wait.dependencies) for wait in rendered.waits if wait.identity is not None]
    return graph(manifests)


def _target(
    use: Dependency, named: Mapping[Reference, Sequence[Identity]], all_of_them: Collection[Identity]
) -> Identity | None:
    query = use.query
    if isinstance(query, Reference):
        meant = named.get(query, ())
        return meant[0] if len(meant) == 1 else None
    if isinstance(query, Lookup) and query.identity in all_of_them:
        return query.identity
    return None


def cycles(edges: Mapping[N, Collection[N]]) -> tuple[tuple[N, ...], ...]:
    """Paths that lead back to where they began, each of them once and without its end.

    Every node that is in a cycle is in one of them, and the path that is named first for it is a shortest one.
    """
    left = _without_ends(edges)
    found: list[tuple[N, ...]] = []
    covered: set[N] = set()
    for node in left:
        path = _shortest_way_back(node, left) if node not in covered else ()
        if path:
            found.append(path)
            covered.update(path)
    return tuple(found)


def waves(edges: Mapping[N, Collection[N]]) -> tuple[tuple[N, ...], ...]:
    """The nodes by depth: those that depend on nothing, those that depend on these, and so on.

    What is in a cycle or depends on one is left out.
    """
    blocked = {node: sum(1 for target in set(targets) if target in edges) for node, targets in edges.items()}
    behind = _reversed(edges)
    found: list[tuple[N, ...]] = []
    wave = [node for node, count in blocked.items() if not count]
    while wave:
        found.append(tuple(wave))
        freed: dict[N, None] = {}
        for node in wave:
            for follower in behind[node]:
                blocked[follower] -= 1
                if not blocked[follower]:
                    freed[follower] = None
        wave = [*freed]
    return tuple(found)


def circular(edges: Mapping[N, Collection[N]]) -> Mapping[N, Sequence[N]]:
    """The nodes that are in cycles or between two of them, each with those of its targets that are."""
    return _without_ends(edges)


def _without_ends(edges: Mapping[N, Collection[N]]) -> dict[N, list[N]]:
    """What is left of a graph without what leads into no cycle and what no cycle leads to."""
    left = {node: [target for target in targets if target in edges] for node, targets in edges.items()}
    for turn in (_itself, _reversed):
        done = {node for wave in waves(turn(left)) for node in wave}
        left = {
            node: [target for target in targets if target not in done]
            for node, targets in left.items()
            if node not in done
        }
    return left


def _itself(edges: Mapping[N, Collection[N]]) -> Mapping[N, Collection[N]]:
    return edges


def _reversed(edges: Mapping[N, Collection[N]]) -> dict[N, list[N]]:
    behind: dict[N, list[N]] = {node: [] for node in edges}
    for node, targets in edges.items():
        for target in dict.fromkeys(targets):
            if target in behind:
                behind[target].append(node)
    return behind


def _shortest_way_back(start: N, edges: Mapping[N, Sequence[N]]) -> tuple[N, ...]:
    """The nodes of a shortest path from `start` to itself, () where there is none."""
    came_from: dict[N, N] = {}
    wave = [start]
    while wave:
        following = []
        for node in wave:
            for target in edges[node]:
                if target == start:
                    return _path(start, node, came_from)
                if target not in came_from:
                    came_from[target] = node
                    following.append(target)
        wave = following
    return ()


def _path(start: N, end: N, came_from: Mapping[N, N]) -> tuple[N, ...]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))

"""The dependency graph of one parent as users see it: with the fields that templates read, and the objects that they
look up.

Promises:
- Every manifest, and every object that it reads, is a node, even while the manifest waits.
- An edge has the fields that the dependent reads, and the template line that reads them.
- Nodes are in the order in which the operator applies them; nodes in a cycle, or behind one, come last.
- Every edge of a cycle is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import Lookup, Question, Selection
from ssa_operator.objects.dependency_graph import Targets, graph_of, waves
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Dependency, Rendered
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text

NodeKey: TypeAlias = Identity | Question | SourceLocation
"""A manifest, an object that only a query names, or the first line of a file that waits as a whole."""


class GraphNode(Struct, frozen=True, kw_only=True):
    """A manifest, or an object that a template looks up."""

    key: NodeKey
    label: str
    """`Deployment/web`; for other objects as in messages, `ConfigMap default/settings`."""
    manifest: bool
    """Whether a template renders it."""
    location: SourceLocation | None = None
    """The template line of the manifest."""
    finalize_hook: bool = False
    """Whether the manifest is applied only when the parent is being deleted."""


class LabelledEdge(Struct, frozen=True, kw_only=True):
    """A manifest's dependency on an object that it reads or comes after."""

    source: NodeKey
    """The dependent."""
    target: NodeKey
    label: str
    """The fields, as in `.spec.clusterIP`; `lookup .data.url` for a lookup, `after` for an order without a value."""
    awaited: bool
    """Whether the dependent waits for the target."""
    location: SourceLocation | None
    """The template line that reads the target."""
    in_cycle: bool = False


class LabelledGraph(Struct, frozen=True, kw_only=True):
    """The nodes in the order of their applies, and the edges by dependent."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[LabelledEdge, ...]
    cycles: tuple[str, ...]
    """The cycles as messages show them: `Job/a -> ConfigMap/b -> Job/a`."""

    def edges_of(self, key: NodeKey) -> Iterator[LabelledEdge]:
        """The edges of one dependent."""
        return (edge for edge in self.edges if edge.source == key)


def labelled_graph(rendered: Rendered, placed: Callable[[Identity], Identity]) -> LabelledGraph:
    """The graph of a traced render; `placed` completes an identity without a namespace."""
    graph = graph_of(rendered, placed)
    dependents = _dependents(rendered, placed)
    hooks = _dependents(rendered.finalizing, placed) if rendered.has_hooks else ()
    targets = Targets(graph.edges)
    paths = graph.cycles()
    steps = {(path[at], path[(at + 1) % len(path)]) for path in paths for at in range(len(path))}
    edges = [
        LabelledEdge(
            source=source,
            target=target,
            label=edge_label(dependency),
            awaited=dependency.awaited,
            location=dependency.location,
            in_cycle=(source, target) in steps,
        )
        for source, (_, dependencies) in dependents.items()
        for dependency in dependencies
        for target in (targets.of(dependency.query) or dependency.query,)
    ]
    others = dict.fromkeys(edge.target for edge in edges if edge.target not in dependents)
    nodes = {key: GraphNode(key=key, label=str(key), manifest=False) for key in others}
    for key, (location, _) in dependents.items():
        label = graph.label(key) if isinstance(key, Identity) else f"file {location.file}"
        nodes[key] = GraphNode(key=key, label=label, manifest=True, location=location, finalize_hook=key in hooks)
    return LabelledGraph(
        nodes=tuple(nodes[key] for key in _in_order(nodes, edges)),
        edges=tuple(edges),
        cycles=tuple(graph.path(path) for path in paths),
    )


def edge_label(dependency: Dependency) -> str:
    """The fields that a dependency reads, and how."""
    if dependency.after and not dependency.fields:
        return "after"
    fields = ", ".join(filter(None, dict.fromkeys(_field_label(path, dependency) for path in dependency.fields)))
    function = _FUNCTIONS.get(type(dependency.query), "")
    label = " ".join(part for part in (function, fields) if part)
    return f"after, {label}" if dependency.after else label or "child"


_FUNCTIONS: Mapping[type, str] = {
    Lookup: "lookup",
    Selection: "lookup_all",
    ApiKind: "api_available",
}


def _field_label(path: FieldPath, dependency: Dependency) -> str:
    if not path:
        return "ready" if isinstance(dependency.query, Reference) else ""
    if isinstance(dependency.query, Selection) and isinstance(path[0], int):
        path = path[1:]  # the field of each object, not of one position
    text = field_text(path)
    return text if text.startswith("[") or not text else f".{text}"


def _dependents(
    rendered: Rendered, placed: Callable[[Identity], Identity]
) -> Mapping[NodeKey, tuple[SourceLocation, tuple[Dependency, ...]]]:
    """Every manifest and every file that waits as a whole, with its line and its dependencies. The first of two
    manifests with one identity counts.
    """
    found: dict[NodeKey, tuple[SourceLocation, tuple[Dependency, ...]]] = {}
    for document in rendered.documents:
        found.setdefault(placed(document.identity), (document.location, document.dependencies))
    for wait in rendered.waits:
        key = wait.location if wait.identity is None else placed(wait.identity)
        found.setdefault(key, (wait.location, wait.dependencies))
    return found


def _in_order(nodes: Iterable[NodeKey], edges: Iterable[LabelledEdge]) -> Iterator[NodeKey]:
    """The nodes after what they wait for."""
    awaited: dict[NodeKey, list[NodeKey]] = {key: [] for key in nodes}
    for edge in edges:
        if edge.awaited:
            awaited[edge.source].append(edge.target)
    done: dict[NodeKey, None] = {}
    for wave in waves(awaited):
        done |= dict.fromkeys(wave)
    yield from done
    yield from (key for key in awaited if key not in done)

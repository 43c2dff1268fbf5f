"""Draws the dependency graph of a live parent or of files as text, Mermaid, DOT and SVG, or prints it as data.

Promises:
- All formats show the same nodes, edges, labels and states; arrows go from a manifest to the objects that it reads.
- A dashed edge is a read that a manifest doesn't wait for; an edge of a cycle is red.
- No name can become syntax of a format.
- The templates are rendered with the cluster's answers, by the functions of the operator, and nothing is written.
- The states are those that `ssa-operator status` shows.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from rich.text import Text

from ssa_operator.objects.identity import Identity, read_identity
from ssa_operator.objects.labelled_graph import GraphNode, LabelledEdge, LabelledGraph, NodeKey, labelled_graph
from ssa_operator.objects.secret_fields import HIDDEN, ParentSecrets
from ssa_operator.objects.source_location import SourceLocation, location_data
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError, OutputFormat
from ssa_operator.reconcile.secrets.redacted_report import NOT_SHOWN
from ssa_operator.tools import printing
from ssa_operator.tools.command_target import ObjectReference
from ssa_operator.tools.plan import previews
from ssa_operator.tools.tree.listings import Lists
from ssa_operator.tools.tree.parent_entries import ListedParent, parent_entries
from ssa_operator.tools.tree.tree_view import COLOURS


class DrawnState(Struct, frozen=True):
    """A live child as `status.resources` reports it."""

    state: str
    message: str = ""


class DrawnGraph(Struct, frozen=True, kw_only=True):
    """The graph of one parent."""

    title: str
    """The parent."""
    graph: LabelledGraph
    note: str = ""
    """Where the parent comes from, '' for the user's own."""
    problems: tuple[str, ...] = ()
    """The problems of its templates, and its cycles."""
    states: Mapping[NodeKey, DrawnState] = field(default_factory=dict)
    """The states of the manifests' live objects; none offline."""

    def state(self, node: GraphNode) -> DrawnState:
        """The state of a node, '' without one."""
        return self.states.get(node.key, DrawnState(""))


_FILLS = {
    "green": "#d5f0d5",
    "yellow": "#fff3c4",
    "magenta": "#ead7f5",
    "red": "#f9d0d0",
    "": "#ffffff",
}
"""The fill of a node in diagrams, by the state's colour in the terminal."""

_LOOKUP_FILL = "#eeeeee"
_CYCLE = "#c00000"


def print_graphs(graphs: Sequence[DrawnGraph], output: str) -> None:
    """Print graphs as `text`, `json` or `yaml`, or one as `mermaid`, `dot` or `svg`. Raises CommandError for several of
    them.
    """
    if output == "text":
        _print_text(graphs)
        return
    if output in ("json", "yaml"):
        printing.data([graph_data(each) for each in graphs], OutputFormat(output))
        return
    if len(graphs) > 1:
        parents = ", ".join(each.title for each in graphs)
        raise CommandError(f"--output {output} draws one parent, and the files have {len(graphs)}: {parents}", code=2)
    streams.lines({"mermaid": mermaid, "dot": dot, "svg": svg}[output](graphs[0]))


def _print_text(graphs: Sequence[DrawnGraph]) -> None:
    """Print a list: each manifest after those that it waits for, and below it the objects that it reads."""
    console = streams.console()
    for drawn in graphs:
        if drawn is not graphs[0]:
            console.print()
        console.print(Text.assemble((drawn.title, "bold"), f"  ({drawn.note})" if drawn.note else ""), soft_wrap=True)
        labels = {node.key: node.label for node in drawn.graph.nodes}
        for node in drawn.graph.nodes:
            if not node.manifest:
                continue
            found = drawn.state(node)
            line = Text.assemble("  ", node.label)
            if found.state:
                line.append("  ").append(found.state, COLOURS.get(found.state, ""))
            line.append("  finalize hook" if node.finalize_hook else "", "dim")
            line.append(f"  {found.message}" if found.message else "", "dim")
            console.print(line, soft_wrap=True)
            for edge in drawn.graph.edges_of(node.key):
                console.print(_edge_line(edge, labels[edge.target]), soft_wrap=True)
        for path in drawn.graph.cycles:
            console.print(Text(f"  cycle: {path}", "red"), soft_wrap=True)


def _edge_line(edge: LabelledEdge, target: str) -> Text:
    line = Text(f"    {'after' if edge.label == 'after' else 'waits for' if edge.awaited else 'reads'} {target}")
    if edge.label != "after":
        line.append(f"  {edge.label}", "cyan")
    if edge.location is not None:
        line.append(f"  {edge.location.file}:{edge.location.line}", "dim")
    return line.append("  in a cycle", "red") if edge.in_cycle else line


def graph_data(drawn: DrawnGraph) -> dict[str, Any]:
    """The nodes and edges of a graph. An edge names its nodes by their ids."""
    names = _names(drawn.graph)
    nodes = []
    for node in drawn.graph.nodes:
        data = {"id": names[node.key], "label": node.label, "manifest": node.manifest} | location_data(node.location)
        state = drawn.state(node)
        found = {"finalizeHook": node.finalize_hook, "state": state.state, "message": state.message}
        nodes.append(data | {name: value for name, value in found.items() if value})
    edges = [
        {"from": names[edge.source], "to": names[edge.target], "label": edge.label, "awaited": edge.awaited}
        | ({"inCycle": True} if edge.in_cycle else {})
        | location_data(edge.location)
        for edge in drawn.graph.edges
    ]
    note = {"note": drawn.note} if drawn.note else {}
    return {"parent": drawn.title, **note, "nodes": nodes, "edges": edges, "cycles": list(drawn.graph.cycles)}


def mermaid(drawn: DrawnGraph) -> str:
    """The graph as a Mermaid flowchart."""
    names = _names(drawn.graph)
    lines = ["---", f"title: {_yaml_string(drawn.title)}", "---", "flowchart RL"]
    for node in drawn.graph.nodes:
        opening, closing = ("[", "]") if node.manifest else ("([", "])")
        text = "<br/>".join(map(_mermaid_text, _node_lines(drawn, node)))
        lines.append(f'  {names[node.key]}{opening}"{text}"{closing}')
    for edge in drawn.graph.edges:
        arrow = "-->" if edge.awaited else "-.->"
        label = "<br/>".join(map(_mermaid_text, _label_lines(edge)))
        lines.append(f'  {names[edge.source]} {arrow}|"{label}"| {names[edge.target]}')
    lines += [
        f"  style {names[node.key]} fill:{_fill(drawn, node)},stroke:#555555,color:#000000"
        for node in drawn.graph.nodes
    ]
    circular = [str(at) for at, edge in enumerate(drawn.graph.edges) if edge.in_cycle]
    if circular:
        lines.append(f"  linkStyle {','.join(circular)} stroke:{_CYCLE}")
    return "\n".join(lines) + "\n"


def dot(drawn: DrawnGraph) -> str:
    """The graph in the language of Graphviz."""
    names = _names(drawn.graph)
    title = _dot_string(drawn.title)
    lines = [
        f"digraph {title} {{",
        f'  graph [rankdir=RL, label={title}, labelloc=t, fontname="sans-serif"];',
        '  node [shape=box, style="rounded,filled", color="#555555", fontname="sans-serif"];',
        '  edge [color="#555555", fontname="sans-serif", fontsize=10];',
    ]
    for node in drawn.graph.nodes:
        shape = "" if node.manifest else ", shape=ellipse, style=filled"
        label = _dot_string("\n".join(_node_lines(drawn, node)))
        tooltip = _dot_string(drawn.state(node).message or (_line(node.location) if node.location else node.label))
        lines.append(
            f'  {names[node.key]} [label={label}, fillcolor="{_fill(drawn, node)}", tooltip={tooltip}{shape}];'
        )
    for edge in drawn.graph.edges:
        label = _dot_string("\n".join(_label_lines(edge)))
        more = "" if edge.awaited else ", style=dashed"
        more += f', color="{_CYCLE}", fontcolor="{_CYCLE}"' if edge.in_cycle else ""
        more += f", tooltip={_dot_string(_line(edge.location))}" if edge.location else ""
        lines.append(f"  {names[edge.source]} -> {names[edge.target]} [label={label}{more}];")
    return "\n".join([*lines, "}"]) + "\n"


def svg(drawn: DrawnGraph) -> str:
    """The graph as an image that Graphviz laid out. Raises CommandError if pygraphviz is not installed."""
    try:
        import pygraphviz
    except ImportError as error:
        raise CommandError(
            f"--output svg needs Graphviz ({error}); install it with: pip install 'ssa-operator[graph]'"
        ) from error
    with _without_warnings():
        image: bytes = pygraphviz.AGraph(string=dot(drawn)).draw(format="svg", prog="dot")
    return image.decode()


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence the C libraries of Graphviz: fontconfig warns of each setting of the machine that it doesn't know."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, and no path of the user
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _names(graph: LabelledGraph) -> Mapping[NodeKey, str]:
    return {node.key: f"n{at}" for at, node in enumerate(graph.nodes)}


def _node_lines(drawn: DrawnGraph, node: GraphNode) -> list[str]:
    hook = "finalize hook" if node.finalize_hook else ""
    return [line for line in (node.label, hook, drawn.state(node).state) if line]


def _label_lines(edge: LabelledEdge) -> list[str]:
    """The label with a line for each field."""
    return edge.label.replace(", ", ",\n").split("\n")


def _fill(drawn: DrawnGraph, node: GraphNode) -> str:
    if not node.manifest:
        return _LOOKUP_FILL
    return _FILLS[COLOURS.get(drawn.state(node).state, "")]


def _line(location: SourceLocation) -> str:
    return f"{location.file}:{location.line}"


def _dot_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _mermaid_text(text: str) -> str:
    """The text with Mermaid's own escapes for all but plain characters."""
    return re.sub(r"[^\w ./:,()\[\]=+-]", lambda match: f"#{ord(match[0])};", text)


def _yaml_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


async def live_graph(reference: ObjectReference, options: Options, namespace: str, target: Target) -> DrawnGraph:
    """The graph of the parent that the user named. Raises CommandError and ApiError."""
    async with previews.opened(target, options) as opened:
        (named,) = await previews.parents_of_references(opened, [reference], namespace)
        planned = await opened.preview.plan(named.parent)
        live, folder = planned.parent.live, planned.parent.folder
        graph = labelled_graph(opened.preview.render_traced(planned), opened.preview.placed(planned))
        resource = opened.preview.folder_of(live.identity.group_kind).served.resource
        parent = ListedParent(live=live, resource=resource, cluster_scope=folder.settings.cluster_scope)
        within = (live.identity.namespace,) if resource.namespaced else ()
        (entry,) = await parent_entries(Lists(opened.client), opened.mapper, [parent], time.time(), namespaces=within)
    problems = [str(problem) for problem in planned.rendered.problems]
    graph = _redacted(graph, planned.secrets)
    problems += [f"{live.identity} has a dependency cycle: {each}" for each in graph.cycles]
    states: Mapping[NodeKey, DrawnState] = {
        identity: DrawnState(str(each.get("state", "")), str(each.get("message", "")))
        for each in entry["resources"]
        if (identity := read_identity(each)) is not None
    }
    return DrawnGraph(
        title=str(live.identity),
        graph=graph,
        problems=tuple(dict.fromkeys(problems)),
        states=states,
    )


def _redacted(graph: LabelledGraph, secrets: ParentSecrets) -> LabelledGraph:
    """The graph without the names that are a Secret's content."""
    if not secrets.name_objects:
        return graph
    hidden = {node.key for node in graph.nodes if is_hidden(node.key, secrets)}
    return LabelledGraph(
        nodes=tuple(replace(node, label=HIDDEN) if node.key in hidden else node for node in graph.nodes),
        edges=graph.edges,
        cycles=tuple(NOT_SHOWN for _ in graph.cycles),
    )


def is_hidden(key: NodeKey, secrets: ParentSecrets) -> bool:
    """Whether the name of a node is a Secret's content."""
    if isinstance(key, Identity):
        return secrets.of(key).name_object
    return not isinstance(key, SourceLocation) and key in secrets.queries

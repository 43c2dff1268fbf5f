"""The dependency graph of a live parent, of parents in files or of a kind, as text, Mermaid, DOT and SVG, or as data.

Promises:
- All formats show the same nodes, edges, labels and states; arrows go from a manifest to the objects that it reads. A
  dashed edge is a read that a manifest doesn't wait for; an edge of a cycle is red.
- No name can become syntax of a format.
- The templates of a live parent are rendered with the cluster's answers, by the functions of the operator, and nothing
  is written. The states are those that `ssa-operator status` shows.
- Without a cluster, they are rendered as if no child existed, so that every document that reads one waits for it. The
  graph of a kind without an example is that of a sample with every field that the CRD declares.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from rich.text import Text

from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.cluster_view import OfflineClusterView
from ssa_operator.objects.identity import GroupKind, Identity, read_identity
from ssa_operator.objects.labelled_graph import GraphNode, LabelledEdge, LabelledGraph, NodeKey, labelled_graph
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Document, RenderProblem
from ssa_operator.objects.secret_fields import HIDDEN, ParentSecrets
from ssa_operator.objects.source_location import SourceLocation, location_data
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError, OutputFormat
from ssa_operator.reconcile.secrets.redacted_report import NOT_SHOWN
from ssa_operator.rendering.folder.contained_files import yaml_files
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources, load_all
from ssa_operator.rendering.folder.object_files import SUFFIXES
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render, render_traced
from ssa_operator.schema.crd_schema import version_priority
from ssa_operator.schema.samples import sample_object
from ssa_operator.tools import printing
from ssa_operator.tools.command_target import ObjectReference, full_names, matching_resources, nearest, only_resource
from ssa_operator.tools.offline.documents import read_objects, read_parents
from ssa_operator.tools.offline.offline_cluster import created_parent
from ssa_operator.tools.offline.project import (
    CRDKind,
    cluster_scoped,
    custom_kinds,
    find_folder,
    read_crd_kinds,
)
from ssa_operator.tools.plan import previews
from ssa_operator.tools.tree.listings import Lists
from ssa_operator.tools.tree.parent_entries import ListedParent, parent_entries
from ssa_operator.tools.tree.tree_view import COLOURS


class DrawnGraph(Struct, frozen=True, kw_only=True):
    """The graph of one parent."""

    title: str
    """The parent."""
    graph: LabelledGraph
    note: str = ""
    """Where the parent comes from, '' for the user's own."""
    problems: tuple[str, ...] = ()
    """The problems of its templates, and its cycles."""
    children: Mapping[NodeKey, Mapping[str, Any]] = field(default_factory=dict)
    """The live children as `status.resources` reports them; none offline."""

    def state(self, node: GraphNode) -> str:
        """The state of a node, '' without one."""
        return str(self.children.get(node.key, {}).get("state", ""))

    def message(self, node: GraphNode) -> str:
        """What the state is about."""
        return str(self.children.get(node.key, {}).get("message", ""))


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
            state, message = drawn.state(node), drawn.message(node)
            line = Text.assemble("  ", node.label)
            if state:
                line.append("  ").append(state, COLOURS.get(state, ""))
            line.append("  finalize hook" if node.finalize_hook else "", "dim")
            line.append(f"  {message}" if message else "", "dim")
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
        found = {"finalizeHook": node.finalize_hook, "state": drawn.state(node), "message": drawn.message(node)}
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
        tooltip = _dot_string(drawn.message(node) or (_line(node.location) if node.location else node.label))
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
    return [line for line in (node.label, hook, drawn.state(node)) if line]


def _label_lines(edge: LabelledEdge) -> list[str]:
    """The label with a line for each field."""
    return edge.label.replace(", ", ",\n").split("\n")


def _fill(drawn: DrawnGraph, node: GraphNode) -> str:
    if not node.manifest:
        return _LOOKUP_FILL
    return _FILLS[COLOURS.get(drawn.state(node), "")]


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
    shown = ((read_identity(each), each) for each in entry["resources"])
    return DrawnGraph(
        title=str(live.identity),
        graph=graph,
        problems=tuple(dict.fromkeys(problems)),
        children={identity: each for identity, each in shown if identity is not None},
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


class GraphFiles(Struct, frozen=True, kw_only=True):
    """The files of a command."""

    templates: Sequence[Path]
    installation: Installation
    crds: Sequence[Path]
    examples: Sequence[Path]


def is_file(arguments: Sequence[str]) -> bool:
    """Whether the arguments name files: they exist, or have the ending of one. The name of a folder may be a kind, too,
    unless it has a slash.
    """
    return all(
        each == "-"
        or Path(each).suffix in (*SUFFIXES, ".json")
        or Path(each).is_file()
        or ("/" in each and Path(each).is_dir())
        for each in arguments
    )


def graphs_of_files(paths: Sequence[Path], files: GraphFiles) -> list[DrawnGraph]:
    """The graph of each parent in the files. Raises CommandError."""
    parents = read_parents(paths)
    offline = _Offline.read(files)
    return [offline.graph(parent) for parent in parents]


def graph_of_kind(word: str, files: GraphFiles) -> DrawnGraph:
    """The graph of a kind's first example. Raises CommandError if no template folder is for the kind."""
    offline = _Offline.read(files)
    folder = offline.folder_named(word)
    for document in read_objects([*_example_files(files)]):
        try:
            found = find_folder(document.body, offline.sources, offline.kinds)
        except CommandError:
            continue
        if found.name == folder.name:
            return offline.graph(document, f"from {document.location.file}")
    known = next((each for each in offline.kinds.values() if each.folder == folder.name), None)
    if known is None:
        raise CommandError(
            f"there is no example of {folder.name}, and no CRD to make a sample from; name a file with a parent, or "
            "--examples"
        )
    served = [each["name"] for each in known.definition["spec"].get("versions", ()) if each.get("served")]
    version = folder.settings.version or max(served, key=version_priority, default="v1")
    location = SourceLocation(f"CRD {folder.name}", 1)
    body = sample_object(known.definition, version).body
    sample = Document(body=body, location=location, location_of=lambda _: location)
    return offline.graph(sample, "from a sample of its CRD, because there is no example")


class _Offline(Struct, frozen=True, kw_only=True):
    """The templates and CRDs of a command."""

    sources: Sources
    kinds: Mapping[GroupKind, CRDKind]

    @classmethod
    def read(cls, files: GraphFiles) -> _Offline:
        return cls(sources=load_all(files.templates, installation=files.installation), kinds=read_crd_kinds(files.crds))

    def folder_named(self, word: str) -> Folder:
        """The template folder of a kind, which the user names as for kubectl. Raises CommandError."""
        known = [self._resource(folder) for folder in self.sources.folders.values()]
        if found := matching_resources(word, known):
            return self.sources.folders[only_resource(word, found)[0].name]
        words = {name: each for each in known for name in (each.name, *full_names(each), *each.short_names)}
        near = list(dict.fromkeys(words[name].name for name in nearest(word.lower(), words)))
        names = ", ".join(self.sources.folders) or "none"
        hint = f"did you mean {' or '.join(near)}?" if near else f"the template folders are {names}"
        raise CommandError(f"there is no file {word}, and no template folder is for the kind {word}; {hint}")

    def _resource(self, folder: Folder) -> Resource:
        """A folder's resource, with the names that its CRD has."""
        crd = next((each for each in self.kinds.values() if each.folder == folder.name), None)
        names = {} if crd is None else crd.definition["spec"]["names"]
        kind = str(names.get("kind", folder.resource))
        return Resource(
            group=folder.group,
            version=folder.settings.version or "",
            kind=kind,
            plural=folder.resource,
            namespaced=crd is None or crd.namespaced,
            singular=str(names.get("singular", kind)).lower(),
            short_names=tuple(names.get("shortNames", ())),
        )

    def graph(self, parent: Document, note: str = "") -> DrawnGraph:
        """The graph of one parent. Raises CommandError if it has no template folder."""
        folder = find_folder(parent.body, self.sources, self.kinds)
        now = time.time()
        body = created_parent(parent, folder, self.kinds, now).body
        view = OfflineClusterView(
            now=now, cluster_scoped=cluster_scoped(self.kinds), custom_kinds=custom_kinds(self.kinds)
        )
        identity, plain = LiveObject.of(body).identity, render(folder, body, view)
        graph, _ = rendered_graph(folder, body, view)
        problems = [*map(str, plain.problems), *(f"{identity} has a dependency cycle: {each}" for each in graph.cycles)]
        return DrawnGraph(title=str(identity), note=note, graph=graph, problems=tuple(dict.fromkeys(problems)))


def rendered_graph(
    templates: Templates | Folder, parent: Mapping[str, Any], view: OfflineClusterView
) -> tuple[LabelledGraph, tuple[RenderProblem, ...]]:
    """The graph of a parent, and the problems of its templates."""
    rendered, namespace = render_traced(templates, parent, view), parent["metadata"].get("namespace", "")

    def placed(child: Identity) -> Identity:
        if child.group_kind in view.cluster_scoped:
            return replace(child, namespace="")
        return child if child.namespace else replace(child, namespace=namespace)

    return labelled_graph(rendered, placed), rendered.problems


def _example_files(files: GraphFiles) -> Iterator[Path]:
    """The files with examples, those directly in a folder first."""
    for root in files.examples:
        if root.is_file():
            yield root
            continue
        if not root.is_dir():
            raise CommandError(f"there is no file or folder {root}; correct --examples", code=2)
        # The user chooses where a named folder leads.
        yield from yaml_files(root.resolve() if root.is_symlink() else root, SUFFIXES, depth=2)

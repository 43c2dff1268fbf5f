"""One template folder: its files with their problems, what a change that doesn't load changed, and its graph.

Promises:
- If a folder doesn't load, the page has the files that don't, each problem at its line, and the difference to the last
  good files, which stay in use. So it has the files of `_shared` that the folder includes.
- The graph is that of a sample of the CRD, as `ssa-operator graph KIND` draws it without an example: it has the data of
  no parent. A render is bounded as every one is, and runs once for each change of the folder.
- What a file may write into a Secret is not shown: in a file that names the kind Secret, and in `_values.yaml`, every
  value is hidden, and the fields' names stay.
- A line of a file stays a line, so that the lines of problems and of `blame` are those of the file. Of files longer
  than MAX_LINES only the beginning is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from ssa_operator.objects.cluster_view import OfflineClusterView
from ssa_operator.objects.dependency_graph import waves
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.labelled_graph import LabelledGraph, NodeKey
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.objects.source_location import location_data
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.jinja.templates import VALUES
from ssa_operator.schema.samples import sample_object
from ssa_operator.tools.graph.drawn_graph import rendered_graph
from ssa_operator.tools.offline.offline_cluster import OFFLINE_UID

MAX_LINES = 2_000
MAX_LINE = 500
"""Characters."""

CONTEXT = 3
"""Lines that stay the same around a change."""

STAND_IN = "(not shown)"

_SECRET = re.compile(r"\bkind[\"']?\s{0,8}:\s{0,8}[\"']?Secret\b")
_FIELD = re.compile(r"(?P<indent>\s{0,200}(?:-\s{1,8})?)(?P<key>[A-Za-z0-9_./-]{1,200}):(?P<rest>.*)")
_STATEMENT = re.compile(r"\s{0,200}\{%[^%]*%\}\s*")
_LITERAL = re.compile(r"\"[^\"]*\"|'[^']*'|\b\d[\w.]*")
_PLAIN_FIELDS = frozenset({"apiVersion", "kind"})


class DiffLine(Struct, frozen=True):
    """A line of a difference."""

    mark: str
    """' ', '-' or '+'."""
    text: str


def shown_lines(name: str, text: str) -> list[str]:
    """The lines of a file; `name` is its path."""
    lines = [line[:MAX_LINE] for line in text.split("\n")[:MAX_LINES]]
    if lines and not lines[-1]:
        lines.pop()
    if is_hidden(name, text):
        return [_hidden(line) for line in lines]
    return lines


def is_hidden(name: str, text: str) -> bool:
    """Whether a file's values are not shown."""
    return name.rpartition("/")[2] == VALUES or _SECRET.search(text) is not None


def _hidden(line: str) -> str:
    if not line.strip():
        return line
    if _STATEMENT.fullmatch(line) and "\\" not in line:
        return _LITERAL.sub("…", line)
    if found := _FIELD.fullmatch(line):
        if not found["rest"].strip() or found["key"] in _PLAIN_FIELDS:
            return line
        return f"{found['indent']}{found['key']}: {STAND_IN}"
    if line.strip() == "---":
        return line
    return f"{line[: len(line) - len(line.lstrip())]}{STAND_IN}"


def differences(before: Sequence[str], after: Sequence[str]) -> list[DiffLine]:
    """What differs between two texts, each change with some lines around it; `@` stands for the lines between."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [line for group in matcher.get_grouped_opcodes(CONTEXT) for line in _hunk(group, before, after)]


def _hunk(
    group: Sequence[tuple[str, int, int, int, int]], before: Sequence[str], after: Sequence[str]
) -> Iterator[DiffLine]:
    yield DiffLine("@", f"line {group[0][3] + 1}")
    for tag, first, last, new_first, new_last in group:
        if tag == "equal":
            yield from (DiffLine(" ", text) for text in before[first:last])
        else:
            yield from (DiffLine("-", text) for text in before[first:last])
            yield from (DiffLine("+", text) for text in after[new_first:new_last])


SAMPLE_NAMESPACE = "default"

MAX_NODES = 300
"""Of a larger graph, no page could show anything."""


class FileProblem(Struct, frozen=True, kw_only=True):
    """What keeps a file from loading."""

    line: int
    message: str


class TemplateFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a folder. If the folder doesn't load, it is the one that doesn't."""

    lines: tuple[str, ...]
    problems: tuple[FileProblem, ...] = ()
    difference: tuple[DiffLine, ...] = ()
    """What changed since the last good load, if the folder doesn't load."""
    hidden: bool = False
    """Whether its values are not shown, because they may be those of a Secret."""
    removed: bool = False
    """Whether the last good load alone has it."""


class FolderNode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A manifest, or an object that a template looks up."""

    label: str
    layer: int
    """0 for what waits for nothing, and one more than the highest layer of what it waits for."""
    manifest: bool = False
    hook: bool = False
    """Whether it is applied only when the parent is being deleted."""
    file: str = ""
    line: int = 0


class GraphEdge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a manifest reads of another object, or that it comes after it."""

    source: int
    """The position of the dependent in `nodes`."""
    target: int
    label: str
    awaited: bool = False
    cycle: bool = False
    file: str = ""
    line: int = 0


class FolderGraph(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What waits for what."""

    nodes: tuple[FolderNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()
    problems: tuple[str, ...] = ()
    """Why a part of it is not drawn."""


class FolderPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that the page of a folder shows."""

    folder: str
    loads: bool
    """Whether its files are the ones in use."""
    kind: str = ""
    """The kind of its parents, '' while the cluster serves none."""
    parents: int = 0
    digest: str = ""
    """Identifies the templates in use, '' without any."""
    loaded: str = ""
    """When these were loaded (RFC 3339)."""
    waits: str = ""
    """Why none of its parents is reconciled."""
    problems: tuple[Mapping[str, Any], ...] = ()
    """The problems that are at no line of its files: `message`, and maybe `file` and `line`."""
    files: Mapping[str, TemplateFile] = {}
    """By their paths below the templates folder."""
    graph: FolderGraph = FolderGraph()
    rollout: bool = False
    """Whether a change reaches its parents in waves."""


def make_folder_page(
    folder: Folder, parents: Parents | None, waits: str, graph: FolderGraph, loaded: str = ""
) -> FolderPage:
    """The page of a folder as it was loaded at a time; `parents` are None while the cluster serves none."""
    files = _files(folder)
    elsewhere = [each for each in folder.problems if each.location is None or each.location.file not in files]
    return FolderPage(
        folder=folder.name,
        loads=not folder.problems,
        kind="" if parents is None else parents.served.resource.kind,
        parents=0 if parents is None else len(parents),
        digest=folder.digest[:12],
        loaded=loaded,
        waits=waits,
        problems=tuple({"message": each.message, **location_data(each.location)} for each in elsewhere),
        files=files,
        graph=graph,
        rollout=folder.settings.rollout is not None,
    )


def template_files(folder: Folder) -> tuple[dict[str, str], dict[str, str]]:
    """The text of each file of a folder as it is, and as it is in use, by its path below the templates folder. Of
    `_shared`, it has the files that the folder includes or that keep it from loading.
    """
    used = {} if folder.templates is None else folder.templates.shared_files
    good = {**{f"{folder.name}/{name}": text for name, text in folder.files.items()}, **used} if folder.digest else {}
    if not folder.problems:
        return good, good
    faulty = {each.location.file for each in folder.problems if each.location is not None}
    shared = {path: text for path, text in folder.failed_shared_files.items() if path in used or path in faulty}
    own = folder.failed_files or folder.files
    return {**{f"{folder.name}/{name}": text for name, text in own.items()}, **shared}, good


def _files(folder: Folder) -> dict[str, TemplateFile]:
    shown, good = template_files(folder)
    found = {}
    for path in sorted({*shown, *good}, key=lambda each: (not each.startswith(f"{folder.name}/"), each)):
        text, last = shown.get(path), good.get(path)
        lines = shown_lines(path, text if text is not None else last or "")
        before = shown_lines(path, last or "")
        changed = bool(folder.problems and folder.digest and text != last)
        found[path] = TemplateFile(
            lines=tuple(lines),
            problems=_problems(folder.problems, path),
            difference=tuple(differences(before, lines if text is not None else [])) if changed else (),
            hidden=is_hidden(path, text or last or ""),
            removed=text is None,
        )
    return found


def _problems(problems: tuple[RenderProblem, ...], path: str) -> tuple[FileProblem, ...]:
    return tuple(
        FileProblem(line=each.location.line, message=each.message)
        for each in problems
        if each.location is not None and each.location.file == path
    )


def sample_parent(parents: Parents) -> dict[str, Any]:
    """A parent of a folder with every field that its CRD declares."""
    served = parents.served
    resource = served.resource
    if served.crd is not None:
        body = sample_object(served.crd, resource.version).body
    else:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "sample"}, "spec": {}}
    namespace = {"namespace": SAMPLE_NAMESPACE} if resource.namespaced else {}
    return {**body, "metadata": {"name": "sample", **namespace, "uid": OFFLINE_UID, "generation": 1}}


def folder_graph(folder: Folder, parent: Mapping[str, Any], cluster_scoped: AbstractSet[GroupKind]) -> FolderGraph:
    """The graph of a folder for a sample parent; all kinds but the cluster-scoped ones are namespaced."""
    if folder.templates is None:
        return FolderGraph()
    view = OfflineClusterView(cluster_scoped=cluster_scoped, namespace=SAMPLE_NAMESPACE)
    graph, found = rendered_graph(folder.templates, parent, view)
    problems = [*map(str, found), *(f"a dependency cycle: {each}" for each in graph.cycles)]
    if len(graph.nodes) > MAX_NODES:
        return FolderGraph(problems=(f"it has {len(graph.nodes)} objects, which is more than a page can draw",))
    return _drawn(graph, tuple(dict.fromkeys(problems)))


def _drawn(graph: LabelledGraph, problems: tuple[str, ...]) -> FolderGraph:
    places = {node.key: at for at, node in enumerate(graph.nodes)}
    targets: dict[NodeKey, list[NodeKey]] = {node.key: [] for node in graph.nodes}
    for edge in graph.edges:
        targets[edge.source].append(edge.target)
    layers = {key: layer for layer, wave in enumerate(waves(targets)) for key in wave}
    last = max(layers.values(), default=-1) + 1
    return FolderGraph(
        nodes=tuple(
            FolderNode(
                label=node.label,
                layer=layers.get(node.key, last),
                manifest=node.manifest,
                hook=node.finalize_hook,
                **location_data(node.location),
            )
            for node in graph.nodes
        ),
        edges=tuple(
            GraphEdge(
                source=places[edge.source],
                target=places[edge.target],
                label=edge.label,
                awaited=edge.awaited,
                cycle=edge.in_cycle,
                **location_data(edge.location),
            )
            for edge in graph.edges
        ),
        problems=problems,
    )

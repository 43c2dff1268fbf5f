"""The graph of a live parent, with the states of its children, for `ssa-operator graph`.

Promises:
- The templates are rendered with the cluster's answers, by the functions of the operator, and nothing is written.
- The states are those that `ssa-operator status` shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ssa_operator.cli.connection import Target, connect_for_preview
from ssa_operator.cli.drawn_graph import ChildState, DrawnGraph
from ssa_operator.cli.listings import Lists
from ssa_operator.cli.object_reference import ObjectReference, find_object
from ssa_operator.cli.parents import ListedParent, parent_entries
from ssa_operator.controller.options import Options
from ssa_operator.controller.preview import Preview, PreviewError, opened
from ssa_operator.core.objects.identity import read_identity
from ssa_operator.core.objects.labelled_graph import LabelledGraph, NodeKey, labelled_graph
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.rendering.folder.sources import load_all


async def live_graph(
    reference: ObjectReference, templates: Sequence[Path], namespace: str, target: Target
) -> DrawnGraph:
    """The graph of the parent that the user named. Raises CommandError, PreviewError and ApiError."""
    folders = load_all(templates).folders
    async with connect_for_preview(target) as client:
        mapper = RESTMapper(client)
        found = await find_object(client, mapper, reference, namespace=namespace, folders=folders)
        within = (found.live.identity.namespace,) if found.resource.namespaced else ()
        options = Options(templates=tuple(templates), namespaces=within, listen=None)
        async with opened(client, mapper, options) as preview:
            drawn, cluster_scope = await _graph(preview, found.live)
        parent = ListedParent(live=found.live, resource=found.resource, cluster_scope=cluster_scope)
        (entry,) = await parent_entries(Lists(client), mapper, [parent], time.time(), namespaces=within)
    states: Mapping[NodeKey, ChildState] = {
        identity: ChildState(str(each.get("state", "")), str(each.get("message", "")))
        for each in entry["resources"]
        if (identity := read_identity(each)) is not None
    }
    return replace(drawn, states=states)


async def _graph(preview: Preview, live: LiveObject) -> tuple[DrawnGraph, bool]:
    """The graph without states, and the folder's setting `clusterScope`."""
    folder = preview.folder_of(live.identity.group_kind)
    current = folder.find(live.identity.namespace, live.identity.name)
    if current is None:
        raise PreviewError(f"{live.identity} is gone")
    planned = await preview.plan(folder.parent(current))
    redact = planned.redactor.redact
    graph = _redacted(labelled_graph(preview.render_traced(planned), preview.placed(planned)), redact)
    problems = [redact(str(problem)) for problem in planned.rendered.problems]
    problems += [f"{live.identity} has a dependency cycle: {each}" for each in graph.cycles]
    drawn = DrawnGraph(title=str(live.identity), graph=graph, problems=tuple(dict.fromkeys(problems)))
    return drawn, planned.parent.folder.settings.cluster_scope


def _redacted(graph: LabelledGraph, redact: Callable[[str], str]) -> LabelledGraph:
    """The graph without a Secret's content, which may be part of a name that a template reads."""
    return LabelledGraph(
        nodes=tuple(replace(node, label=redact(node.label)) for node in graph.nodes),
        edges=tuple(replace(edge, label=redact(edge.label)) for edge in graph.edges),
        cycles=tuple(map(redact, graph.cycles)),
    )

"""The graph of a live parent, with the states of its children, for `ssa-operator graph`.

Promises:
- The templates are rendered with the cluster's answers, by the functions of the operator, and nothing is written.
- The states are those that `ssa-operator status` shows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity, read_identity
from ssa_operator.objects.labelled_graph import LabelledGraph, NodeKey, labelled_graph
from ssa_operator.objects.secret_fields import HIDDEN, ParentSecrets
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process.connection import Target
from ssa_operator.reconcile.secrets.redacted_report import NOT_SHOWN
from ssa_operator.tools.connection.object_reference import ObjectReference
from ssa_operator.tools.graph.drawn_graph import DrawnGraph, DrawnState
from ssa_operator.tools.plan import previews
from ssa_operator.tools.tree.listings import Lists
from ssa_operator.tools.tree.parent_entries import ListedParent, parent_entries


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

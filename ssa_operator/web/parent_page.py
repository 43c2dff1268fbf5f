"""One parent: the tree below it, its conditions, what its children wait for, and the objects that its templates look
up.

Promises:
- The tree is the one of `ssa-operator tree`: states, reasons and messages are those that the operator reports. Objects
  of the same kind, state and owner stay apart here; the page folds them.
- A kind below the children is shown only to a reader who may list it, and the state of a looked-up object to one who
  may `get` it.
- A looked-up object is shown as long as a template looks it up, so that a page reads no other one. If its name is a
  Secret's content, it is not shown.
- A page gets the first nodes of a large tree at once, and the others in portions that don't hold up a browser.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec.structs import asdict

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.cluster_view import Lookup
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import Permission
from ssa_operator.objects.labelled_graph import GraphNode, NodeKey, labelled_graph
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import readiness
from ssa_operator.objects.source_location import location_data
from ssa_operator.operator.preview import Planned, Preview
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.graph.drawn_graph import is_hidden
from ssa_operator.tools.owners import first_owner, read
from ssa_operator.tools.tree.listings import Listings
from ssa_operator.tools.tree.object_tree import object_tree
from ssa_operator.tools.tree.tree_view import walk

MayGet = Callable[[Identity], Awaitable[bool]]
"""Whether the reader of a page may get an object."""

MAX_OBJECTS = 50
"""Objects of one parent whose states are read, each by a request."""


def looked_up(nodes: Iterable[GraphNode], planned: Planned) -> Iterator[Identity]:
    """The objects that the nodes of a parent's graph look up."""
    for node in nodes:
        if isinstance(node.key, Lookup) and not is_hidden(node.key, planned.secrets):
            yield node.key.identity


def is_looked_up(preview: Preview, planned: Planned, identity: Identity) -> bool:
    """Whether a template of the parent looks up an object."""
    graph = labelled_graph(preview.render_traced(planned), preview.placed(planned))
    return identity in looked_up(graph.nodes, planned)


async def states_of(
    client: Client, mapper: RESTMapper, found: Iterable[Identity], may_get: MayGet, now: float
) -> list[dict[str, Any]]:
    """What a page shows of each object: NotFound for one that is not there, no state for a reader who may not get it.
    Raises ApiError.
    """

    async def state_of(identity: Identity) -> dict[str, Any]:
        named: dict[str, Any] = asdict(identity)
        if not await may_get(identity):
            return {**named, "message": "you may not get it"}
        try:
            live = await read(client, mapper, identity)
        except ApiError as error:
            if not error.forbidden:
                raise
            return {**named, "message": "the operator may not get it"}
        if live is None:
            return {**named, "state": "NotFound"}
        created = live.metadata.creation_timestamp
        state = readiness(live.body, now).state.value
        return {**named, "uid": live.uid, "state": state} | ({"creationTimestamp": created} if created else {})

    return list(await asyncio.gather(*map(state_of, islice(found, MAX_OBJECTS))))


def owner_of(live: LiveObject) -> str:
    """The owner of an object, or the parent that it is a child of, in words; "" if it has none."""
    owner = first_owner(live)
    if owner is not None:
        return f"{owner.kind} {owner.name}"
    return "a parent of these or other templates" if live.parent_uid else ""


FIRST_NODES = 200
"""The nodes of the first portion: more than a screen shows."""

MORE_NODES = 1_000
"""The nodes of each further portion: a browser takes some 10 ms for it."""

MayList = Callable[[Permission], Awaitable[bool]]
"""Whether the reader of a page has a permission."""


async def parent_tree(
    listings: Listings,
    mapper: RESTMapper,
    parents: Parents,
    found: FoundObject,
    may: MayList,
    now: float,
) -> dict[str, Any]:
    """The parent and everything below it as a flat mapping of nodes in the order of the tree. Raises ApiError and
    CommandError.
    """
    tree = await object_tree(listings, mapper, found, parents.folder.settings, now)
    hidden = await _unlisted(mapper, tree, may)
    children = tree.pop("resources")
    notes = list(tree.pop("notes"))
    if hidden:
        kinds = ", ".join(sorted({kind.kind for kind, _ in hidden}))
        notes.append(f"objects of these kinds are not shown, because you may not list them: {kinds}")
    nodes: dict[str, Any] = {}
    order: list[str] = []
    for key, depth, node in _flat(children, 1, hidden, top=True):
        nodes[key] = {**node, "depth": depth}
        order.append(key)
    return {"parent": tree, "nodes": nodes, "order": order, "notes": notes}


def portions(tree: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The tree with its first nodes, then with more of them, and at last the whole one. `left` is the number of nodes
    that are still to come; until then `order` has the first ones alone, so that no event repeats the others.
    """
    order, nodes = tree["order"], tree["nodes"]
    for count in range(FIRST_NODES, len(order), MORE_NODES):
        shown = {key: nodes[key] for key in order[:count]}
        yield {**tree, "nodes": shown, "order": order[:FIRST_NODES], "left": len(order) - count}
    yield dict(tree)


def _flat(
    objects: list[dict[str, Any]], depth: int, hidden: frozenset[tuple[GroupKind, str]], *, top: bool
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for each in objects:
        kind = GroupKind(each.get("group", ""), each.get("kind", ""))
        if not top and (kind, each.get("namespace", "")) in hidden:
            continue
        own = {name: value for name, value in each.items() if name != "objects" and value not in ("", None)}
        yield node_key(each), depth, own
        yield from _flat(each.get("objects", []), depth + 1, hidden, top=False)


def node_key(named: Mapping[str, Any]) -> str:
    """Identifies an object within the page of a parent: `apps/Deployment/default/web`."""
    return "/".join(str(named.get(part, "")) for part in ("group", "kind", "namespace", "name"))


def key_of(identity: Identity) -> str:
    """The same of an identity."""
    return f"{identity.group}/{identity.kind}/{identity.namespace}/{identity.name}"


async def _unlisted(mapper: RESTMapper, tree: Mapping[str, Any], may: MayList) -> frozenset[tuple[GroupKind, str]]:
    """The kinds below the children, each with its namespace, that the reader may not list."""
    below = walk([each for child in tree["resources"] for each in child.get("objects", ())])
    found = {(GroupKind(each.get("group", ""), each.get("kind", "")), each.get("namespace", "")) for each in below}
    hidden = set()
    for kind, namespace in sorted(found):
        try:
            resource = await mapper.resource(kind)
        except UnknownKind:
            hidden.add((kind, namespace))
            continue
        permission = Permission(
            group=resource.group, resource=resource.plural, namespace=namespace, name="", verb="list"
        )
        if not await may(permission):
            hidden.add((kind, namespace))
    return frozenset(hidden)


async def parent_edges(
    preview: Preview,
    client: Client,
    mapper: RESTMapper,
    parents: Parents,
    found: FoundObject,
    may_get: MayGet,
    now: float,
) -> dict[str, Any]:
    """What each child of a parent reads or comes after: `edges` of `source`, `target`, `label`, `file`, `line`; and
    `objects`, what is known of those that are no children. Raises ApiError.
    """
    planned = await preview.plan(parents.parent(found.live))
    graph = labelled_graph(preview.render_traced(planned), preview.placed(planned))
    edges = [
        {"source": _end(edge.source), "target": _end(edge.target), "label": edge.label}
        | ({"cycle": True} if edge.in_cycle else {})
        | location_data(edge.location)
        for edge in graph.edges
        if not any(is_hidden(end, planned.secrets) for end in (edge.source, edge.target))
    ]
    others = await states_of(client, mapper, looked_up(graph.nodes, planned), may_get, now)
    return {
        "edges": edges,
        "objects": {node_key(each): each for each in others},
        "problems": [str(problem) for problem in planned.rendered.problems],
    }


def _end(key: NodeKey) -> str:
    """An end of an edge: the key of a node, or the words for what only a query names."""
    if isinstance(key, Lookup):
        return key_of(key.identity)
    return key_of(key) if isinstance(key, Identity) else str(key)

"""The objects that a parent's templates look up by name and that are none of its children.

Promises:
- An object is shown as long as a template looks it up, so that a page of a parent reads no other one. If its name is a
  Secret's content, it is not shown.
- A state is shown to a reader who may `get` the object.
- No Secret's content: the data of a Secret are hidden, and the lines of an object with an owner, which may be made of
  one, are not shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec.structs import asdict

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.cluster_view import Lookup
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.labelled_graph import GraphNode, labelled_graph
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import readiness
from ssa_operator.operator.preview import Planned, Preview
from ssa_operator.tools.graph.drawn_graph import is_hidden
from ssa_operator.tools.owners import first_owner, read

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

"""The file of a snapshot: its format and its content.

Promises:
- The file has the objects of a cluster as JSON, and names all queries of the templates.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ssa_operator.objects.cluster_view import Answer, Lookup, Selection

VERSION = 1
"""The version of the format of a snapshot."""


class StoredKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that the cluster serves."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    status: bool = False
    """Whether a controller writes the status of its objects."""
    replicas: list[str] = []
    """The path of the number of replicas in this version, empty if the kind can't be scaled."""


class StoredParent(msgspec.Struct, frozen=True, kw_only=True):
    """A parent, and the folder that renders it."""

    folder: str
    object: dict[str, Any]


class StoredQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The queries of templates."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    unknown: str = ""
    absent: str = ""


class StoredSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a snapshot."""

    version: int
    taken: float
    """When it was taken, in seconds since the epoch."""
    salt: str
    """The salt of the hashes that replace the content of Secrets."""
    kinds: list[StoredKind]
    parents: list[StoredParent]
    objects: list[dict[str, Any]]
    """Children, and the objects that templates looked up."""
    queries: list[StoredQuery]
    """The queries of templates."""


def stored_query(query: Lookup | Selection, answer: Answer) -> StoredQuery:
    """A query with its answer, without the objects."""
    named = (query.name, ()) if isinstance(query, Lookup) else ("", query.labels)
    return StoredQuery(
        api_version=query.api_version,
        kind=query.kind,
        namespace=query.namespace,
        name=named[0],
        labels=named[1],
        unknown=answer.unknown,
        absent=answer.absent,
    )


def query_of(stored: StoredQuery) -> Lookup | Selection:
    """The query that was stored."""
    where = {"api_version": stored.api_version, "kind": stored.kind, "namespace": stored.namespace}
    return Lookup(**where, name=stored.name) if stored.name else Selection(**where, labels=stored.labels)

"""The cluster as one parent's templates see it: what the caches hold of its children and of what they look up.

Promises:
- A render on the event loop sees the caches at one moment. A later change is for the next render.
- A kind whose informer has not synced is not taken for a kind without objects.
- If the operator impersonates an account, the view shows only what that account may read.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.lookup_index import AnswerVersion
from ssa_operator.informers.lookups import LookupInformers
from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import (
    ALLOWED,
    AccessReview,
    Answer,
    Availability,
    Body,
    Lookup,
    Query,
    Selection,
)
from ssa_operator.objects.identity import GroupKind, Identity, join_api_version
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.reconcile.apply_once import is_done
from ssa_operator.reconcile.impersonation import AccountView
from ssa_operator.schema.data import is_optional


class ParentView(Struct, frozen=True, kw_only=True, dict=True):
    """The ClusterView of one parent."""

    now: float
    """The time of the render, in seconds since the epoch."""
    parent: LiveObject
    lookups: LookupInformers
    """The informers of what the templates look up."""
    children: Sequence[LiveObject]
    """The live objects with this parent's label."""
    objects: Mapping[Identity, LiveObject]
    """Every watched object with the label of any parent."""
    informers: ChildInformers
    """The informers of children."""
    unlabelled: Mapping[Identity, LiveObject] = field(default_factory=dict)
    """Objects that exist without the operator's label and were read, and those that it deleted to recreate them."""
    kind_reports_status: Callable[[GroupKind], bool]
    """Whether a controller writes the status of a kind's objects."""
    once: Mapping[str, str] = field(default_factory=dict)
    """What the parent records as applied once."""
    account: AccountView | None = None
    """What the account that the operator impersonates may read, None for the operator itself."""
    parent_schema: Body | None = None
    """The schema of the parent's CRD, None if there is none or it can't be read."""
    schema_of: Callable[[str, str], Body | None] = lambda *_: None
    """The schema of the CRD of a kind in an apiVersion, None if there is none or it can't be read."""

    @property
    def parent_lookup(self) -> Lookup:
        """The lookup of the parent itself. Its answer is the parent that is rendered, not the cache's."""
        identity = self.parent.identity
        version = join_api_version(identity.group, self.parent.version)
        return Lookup(api_version=version, kind=identity.kind, namespace=identity.namespace, name=identity.name)

    def readable(self, queries: Iterable[Query]) -> Sequence[Query]:
        """Those of these queries whose answers the account may read. The operator watches nothing for the others."""
        if self.account is None:
            return [*queries]
        return [query for query in queries if isinstance(query, Reference) or not self._review_of(query).why_not]

    def unreadable(self, asked: Reference | Identity, /) -> AccessReview:
        if isinstance(asked, Identity):
            return self._review_of(asked)
        reviews = (self._review_of(live.identity) for live in self._named(asked.kind, asked.name))
        return next((review for review in reviews if review.why_not), ALLOWED)

    def _review_of(self, query: Lookup | Selection | Identity) -> AccessReview:
        return ALLOWED if self.account is None or query == self.parent_lookup else self.account.review_of(query)

    @cached_property
    def _children_by_name(self) -> Mapping[tuple[str, str], Sequence[LiveObject]]:
        """The children by kind and name: templates may read each of a thousand."""
        found: dict[tuple[str, str], list[LiveObject]] = {}
        for live in self.children:
            if live.partial:
                continue
            found.setdefault((live.identity.kind, live.identity.name), []).append(live)
        return found

    def _named(self, kind: str, name: str) -> Sequence[LiveObject]:
        return self._children_by_name.get((kind, name), ())

    def child(self, kind: str, name: str, /) -> Body | None:
        if self.unreadable(Reference(kind, name)).why_not:
            return None
        deleting = None
        for live in self._named(kind, name):
            if not live.deleting:
                return live.body
            deleting = live.body
        return deleting

    def done(self, kind: str, name: str, /) -> bool:
        return is_done(self.once, kind, name)

    def synced(self, identity: Identity, /) -> bool:
        return self.informers.has_synced(identity)

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        return self.informers.namespaced(kind)

    def reports_status(self, kind: GroupKind, /) -> bool:
        return self.kind_reports_status(kind)

    def lookup(self, identity: Identity, /) -> Body | None:
        if self._review_of(identity).why_not:
            return None
        live = self.objects.get(identity) or self.unlabelled.get(identity)
        return live.body if live is not None and not live.partial else None

    def answer(self, query: Lookup | Selection, /) -> Answer:
        if query == self.parent_lookup:
            return Answer(objects=(self.parent.body,))
        review = self._review_of(query)
        if review.why_not:
            return Answer(unknown=review.why_not, needs_permission=review.needs_permission)
        return self.lookups.answer(query)

    def version(self, query: Lookup | Selection, /) -> AnswerVersion:
        """The version of the answer to a query."""
        return self.lookups.version(query)

    @property
    def kubernetes_version(self) -> str:
        return self.lookups.served.kubernetes_version

    def serves(self, kind: ApiKind, /) -> Availability:
        return self.lookups.served.serves(kind)

    def may_lack(self, api_version: str, kind: str, path: FieldPath, /) -> bool:
        return is_optional(api_version, kind, path, self.schema_of(api_version, kind))

    def random(self, below: int, /) -> int:
        return secrets.randbelow(below)

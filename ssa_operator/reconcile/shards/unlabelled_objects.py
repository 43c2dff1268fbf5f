"""Reads objects that may exist without the operator's label, before a manifest of their name is applied.

Promises:
- They are read one by one, and only those that a reconcile names. An object that an informer holds is not read.
- An object that can't be read does not count as absent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct, field

from ssa_operator.kube.api.discovery import REQUEST_ERRORS
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.current_reconcile import Reconcile


class UnlabelledObjects(Struct, frozen=True):
    """The objects that exist without the operator's label."""

    objects: Mapping[Identity, LiveObject] = field(default_factory=dict)
    unreadable: Mapping[Identity, str] = field(default_factory=dict)
    """Why other objects could not be read."""
    forbidden: frozenset[Identity] = frozenset()
    """The unreadable objects that the operator may not read."""

    def __bool__(self) -> bool:
        return bool(self.objects or self.unreadable)

    def __or__(self, other: UnlabelledObjects) -> UnlabelledObjects:
        return UnlabelledObjects(
            {**self.objects, **other.objects},
            {**self.unreadable, **other.unreadable},
            self.forbidden | other.forbidden,
        )


NO_OBJECTS = UnlabelledObjects()


async def get_unlabelled(reconcile: Reconcile, versions: Mapping[Identity, str | None]) -> UnlabelledObjects:
    """The objects of these names that exist without the operator's label, so that no informer holds them. They are read
    as the parent's account, in these versions (None: the preferred one).
    """
    unwatched = [identity for identity in versions if identity not in reconcile.cluster.children] if versions else []
    if not unwatched:
        return NO_OBJECTS
    answers = await asyncio.gather(*(_get(reconcile, each, versions[each]) for each in unwatched))
    by_identity = dict(zip(unwatched, answers, strict=True))
    return UnlabelledObjects(
        {identity: answer for identity, answer in by_identity.items() if isinstance(answer, LiveObject)},
        {identity: str(answer) for identity, answer in by_identity.items() if isinstance(answer, Exception)},
        frozenset(each for each, answer in by_identity.items() if isinstance(answer, ApiError) and answer.forbidden),
    )


async def _get(reconcile: Reconcile, identity: Identity, version: str | None) -> LiveObject | Exception | None:
    """The object, None without one, or why it can't be read."""
    try:
        resource = await reconcile.cluster.children.resource(identity.group_kind, version)
        return await reconcile.client.find(resource, identity.name, identity.namespace)
    except REQUEST_ERRORS as error:
        return error

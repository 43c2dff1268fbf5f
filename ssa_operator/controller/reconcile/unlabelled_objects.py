"""Objects that exist without our label, where it has to be known before anything is made.

Promises:
- They are asked for one by one, and only those that a pass names: what the watches show is never asked for.
- What can't be read is told apart from what isn't there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ssa_operator.controller.watches.children import ChildInformers
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError


@dataclass(frozen=True, slots=True)
class UnlabelledObjects:
    """The objects that were found, and why others could not be looked at, in words."""

    found: Mapping[Identity, LiveObject] = field(default_factory=dict)
    unreadable: Mapping[Identity, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.found or self.unreadable)

    def __or__(self, other: UnlabelledObjects) -> UnlabelledObjects:
        return UnlabelledObjects({**self.found, **other.found}, {**self.unreadable, **other.unreadable})


NONE_FOUND = UnlabelledObjects()


async def get_unlabelled(identities: Iterable[Identity], client: Client, children: ChildInformers) -> UnlabelledObjects:
    """Ask for those of these objects that no watch shows."""
    unseen = [identity for identity in identities if identity not in children]
    if not unseen:
        return NONE_FOUND
    answers = await asyncio.gather(*(_look(identity, client, children) for identity in unseen))
    together = dict(zip(unseen, answers, strict=True))
    return UnlabelledObjects(
        {identity: answer for identity, answer in together.items() if isinstance(answer, LiveObject)},
        {identity: answer for identity, answer in together.items() if isinstance(answer, str)},
    )


async def _look(identity: Identity, client: Client, children: ChildInformers) -> LiveObject | str | None:
    try:
        resource = await children.resource(identity.group_kind)
        return await client.get(resource, identity.name, identity.namespace)
    except (UnknownKind, CredentialsError) as error:
        return str(error)
    except ApiError as error:
        return None if error.not_found else str(error)

"""The deletion of an object that the operator recreates, as a reconcile remembers it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ssa_operator.objects.live_object import LiveObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """The deletion of an object that the operator recreates."""

    digest: bytes
    """The digest of the manifest that needs the new object."""
    created: bool
    """Whether the new object was created."""
    deleted_uid: str = ""
    """The uid of the deleted object."""
    why: str = ""
    """The reason, for messages."""
    old: LiveObject | None = field(default=None, compare=False, repr=False)
    """The deleted object, if it held generated values: the new object gets them."""

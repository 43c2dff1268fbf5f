"""The formats of the annotations in which the operator records something on a parent: entries and their JSON.

Promises:
- An annotation that can't be read is reported, and never counts as an absent one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import DecodeError, Meta, Struct

from ssa_operator.objects.identity import GroupKind, Identity, segment_fault
from ssa_operator.objects.messages import bounded

_ERROR_LIMIT = 300
"""Characters of the reason why an annotation can't be read, which quotes a part of it."""

_Text = Annotated[str, Meta(min_length=1)]


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """A child in a record. An unknown field may say that the child has to stay, so that it is an error."""

    kind: _Text
    name: _Text
    group: str = ""
    namespace: str = ""
    wave: int = 1

    @property
    def identity(self) -> Identity:
        return Identity(self.group, self.kind, self.namespace, self.name)

    @property
    def names_object(self) -> bool:
        """Whether an object can have these names."""
        return not (segment_fault(self.name) or segment_fault(self.namespace))


class OwnerEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A field manager that owned a number of replicas."""

    manager: Annotated[str, Meta(min_length=1, max_length=128)]
    operation: Literal["Apply", "Update"]
    subresource: str = ""


class ReplicasEntry(Entry, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A child that is being recreated, with the number of replicas that others set."""

    replicas: Annotated[int, Meta(ge=0, lt=2**31)]
    owners: list[OwnerEntry] = []


class HeldEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A held prune, as its annotation writes it."""

    children: list[str]
    reconcileAt: str = ""  # noqa: N815 - the field's name in the annotation


UNKNOWN_KINDS = "*"
"""Stands for further kinds that an operator could not read."""


class AppliedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What was applied, as its annotation writes it."""

    kinds: list[_Text] = []
    templates: str = ""

    @property
    def group_kinds(self) -> frozenset[GroupKind]:
        """The kinds, whose texts are `Deployment.apps`."""
        found = (text.partition(".") for text in self.kinds if text != UNKNOWN_KINDS)
        return frozenset(GroupKind(group, kind) for kind, _, group in found)


class RecordFormat(NamedTuple):
    """The format of one annotation, and the field of ParentRecords with its value."""

    name: str
    field: str
    decode: Callable[[bytes], Any]
    """Reads the entry that the annotation has."""
    value_of: Callable[[Any], Any]
    """The value of an entry."""
    entry_of: Callable[[Any], Any]
    """The entry of a value, None if the parent needs no annotation."""

    def read(self, text: str, problems: list[str]) -> Any:
        """The value of the annotation with this text, None if it is empty or can't be read. The latter is a problem."""
        if not text:
            return None
        try:
            return self.value_of(self.decode(text.encode(errors="surrogatepass")))
        except DecodeError as error:
            problems.append(f"the annotation {self.name} can't be read: {bounded(str(error), _ERROR_LIMIT)}")
            return None

    def text(self, value: Any) -> str | None:
        """The text of the annotation, None if the parent needs none."""
        entry = self.entry_of(value)
        return None if entry is None else json.dumps(entry, separators=(",", ":"), ensure_ascii=True)


def inventory_entry(identity: Identity, wave: int) -> dict[str, Any]:
    """A child of the inventory, as `Entry` reads it."""
    return {**identity_entry(identity), "wave": wave}


def identity_entry(identity: Identity) -> dict[str, Any]:
    """A child, as `Entry` reads it."""
    entry = {
        "group": identity.group,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
    }
    return {field: value for field, value in entry.items() if value or field == "name"}

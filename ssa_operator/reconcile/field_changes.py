"""What an apply changes in an object, field by field, and whose fields these are.

Promises:
- A field is named as users write it, and items of list maps by their keys: `spec.containers[name=web].image`.
- A change by the templates, a field that the apply takes from another manager, and what the API server adds by itself
  are told apart.
- A field that the templates no longer render, and that another manager owns too, is reported as left. So is one that
  the operator hands over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from ssa_operator.objects.field_set import (
    FieldSet,
    FieldSets,
    ListTypes,
    Path,
    ReadFields,
    covers,
    field_set,
    has,
    leaves,
    path_text,
)
from ssa_operator.objects.live_object import HANDOVER_MANAGER, MANAGER, LiveObject
from ssa_operator.objects.managed_fields import (
    FieldOwner,
    FieldOwners,
    is_apply_of,
    is_in_version,
    other_entries,
    owned_by,
)
from ssa_operator.objects.merge_keys import IndexedBody

_BOOKKEEPING = frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"})
"""Fields of the metadata that the API server writes by itself."""


class ChangeCause(StrEnum):
    """Why an apply changes a field."""

    TEMPLATE = "template"
    """The templates render another value, or no value any more."""
    TAKEN = "taken"
    """Another manager wrote the value that the apply replaces."""
    ADOPTED = "adopted"
    """A former manager's field, which no template renders, is removed with the adoption of the object."""
    SERVER = "server"
    """The API server changes it: by a default, an allocation or admission."""


class FieldChange(Struct, frozen=True, kw_only=True):
    """A field that an apply changes. Where a whole mapping or list item comes or goes, it is one change."""

    path: Path
    cause: ChangeCause
    owners: tuple[FieldOwner, ...] = ()
    """The other managers of the field before the apply."""

    def __str__(self) -> str:
        return path_text(self.path)


class LeftField(Struct, frozen=True, kw_only=True):
    """A field that the operator gives up and that stays, because other managers own it too."""

    path: Path
    owners: tuple[FieldOwner, ...]
    handed_over: bool = False
    """Whether it has its owner only because the operator gives it up, so that it stays."""

    def __str__(self) -> str:
        return path_text(self.path)


def content(body: Mapping[str, Any]) -> dict[str, Any]:
    """An object without the fields that the API server writes by itself, and without its status."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in _BOOKKEEPING}
    return {**{key: value for key, value in body.items() if key != "status"}, "metadata": metadata}


def field_changes(before: LiveObject, after: LiveObject, manager: str = MANAGER) -> tuple[FieldChange, ...]:
    """The fields that differ between an object and the answer of an apply of `manager`, or of its dry run."""
    sets = FieldSets()
    ours_before, ours_after = owned_by(before, manager, sets), owned_by(after, manager, sets)
    comparable = all(is_in_version(entry, before) for entry in before.managed_fields if is_apply_of(entry, manager))
    found = [*differences(before, after, sets)]
    others = FieldOwners(other_entries(before, manager, sets), [path for path, _, _ in found])
    changes = []
    for path, old, new in found:
        owners = others.covering(path)
        changes.append(
            FieldChange(
                path=path,
                cause=_cause(path, old, new, ours_before if comparable else None, ours_after, owners),
                owners=owners,
            )
        )
    return tuple(changes)


def differences(before: LiveObject, after: LiveObject, read: ReadFields = field_set) -> Iterator[tuple[Path, Any, Any]]:
    """The outermost fields that differ between two objects, each with both values; None stands for an absent one."""
    encoded = dict.fromkeys(bytes(entry.fields_v1) for entry in (*before.managed_fields, *after.managed_fields))
    return _differences(content(before.body), content(after.body), ListTypes(map(read, encoded)), ())


def left_fields(before: LiveObject, after: LiveObject, manager: str = MANAGER) -> tuple[LeftField, ...]:
    """The fields that an apply of `manager` gives up, and that other managers keep as they are."""
    sets = FieldSets()
    others = other_entries(after, manager, sets)
    given_up, kept = owned_by(before, manager, sets), owned_by(after, manager, sets)
    body = IndexedBody(after.body)
    left = []
    for path in sorted(leaves(given_up)):
        if has(kept, path):
            continue
        owners = tuple(owner for owner, fields in others if has(fields, path))
        if owners and body.value_at(path) is not None:
            handed_over = any(owner.manager == HANDOVER_MANAGER for owner in owners)
            left.append(LeftField(path=path, owners=owners, handed_over=handed_over))
    return tuple(left)


def _cause(
    path: Path,
    old: object,
    new: object,
    ours_before: FieldSet | None,
    ours_after: FieldSet,
    owners: Sequence[FieldOwner],
) -> ChangeCause:
    """The cause of a change. `ours_before` is None where the last apply was in another version: it may have owned any
    field that no other manager owns.
    """
    was_ours = not owners if ours_before is None else covers(ours_before, path)
    if new is None:
        if was_ours:
            return ChangeCause.TEMPLATE
        return ChangeCause.ADOPTED if owners else ChangeCause.SERVER
    if not covers(ours_after, path):
        return ChangeCause.SERVER
    if old is not None and owners and not was_ours:
        return ChangeCause.TAKEN
    return ChangeCause.TEMPLATE


def _differences(old: Any, new: Any, types: ListTypes, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*old, *new)):
            yield from _differences(old.get(name), new.get(name), types.field(name), (*path, f"f:{name}"))
        return
    both = isinstance(old, list) and isinstance(new, list)
    before, after = (_by_key(items, types.keys) if both else None for items in (old, new))
    if before is not None and after is not None:
        if before.keys() == after.keys() and before == after:
            yield path, old, new  # only the order differs
            return
        for key in dict.fromkeys((*before, *after)):
            yield from _differences(before.get(key), after.get(key), types.item, (*path, f"k:{key}"))
        return
    yield path, old, new


def _by_key(items: Any, names: Sequence[str]) -> Mapping[str, Any] | None:
    """The items of a list map, None if the value is none, or if two items have the same keys."""
    if not names or not all(isinstance(item, Mapping) for item in items):
        return None
    found = {_encode({name: item.get(name) for name in names}): item for item in items}
    return found if len(found) == len(items) else None


_encode = json.JSONEncoder(separators=(",", ":")).encode

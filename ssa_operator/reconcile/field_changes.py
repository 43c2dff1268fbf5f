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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from ssa_operator.objects.live_object import HANDOVER_MANAGER, MANAGER, LiveObject, ManagedFields
from ssa_operator.objects.managed_fields import (
    FieldOwner,
    FieldOwners,
    FieldTrees,
    Path,
    Tree,
    TreeOf,
    field_tree,
    is_in_version,
    is_owned,
    leaves,
    path_text,
    union_of_fields,
)
from ssa_operator.objects.merge_keys import IndexedBody, keys_of
from ssa_operator.objects.source_location import FieldPath

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
    trees = FieldTrees()
    ours_before, ours_after = owned_by(before, manager, trees), owned_by(after, manager, trees)
    comparable = all(is_in_version(entry, before) for entry in before.managed_fields if _is_apply_of(entry, manager))
    found = [*differences(before, after, trees)]
    others = Others(other_entries(before, manager, trees), [path for path, _, _ in found])
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


def differences(before: LiveObject, after: LiveObject, tree_of: TreeOf = field_tree) -> Iterator[tuple[Path, Any, Any]]:
    """The outermost fields that differ between two objects, each with both values; None stands for an absent one."""
    keys = _list_keys((*before.managed_fields, *after.managed_fields), tree_of)
    return _differences(content(before.body), content(after.body), keys, ())


def left_fields(before: LiveObject, after: LiveObject, manager: str = MANAGER) -> tuple[LeftField, ...]:
    """The fields that an apply of `manager` gives up, and that other managers keep as they are."""
    trees = FieldTrees()
    others = other_entries(after, manager, trees)
    given_up, kept = owned_by(before, manager, trees), owned_by(after, manager, trees)
    body = IndexedBody(after.body)
    left = []
    for path in sorted(leaves(given_up)):
        if is_owned(kept, path):
            continue
        owners = tuple(owner for owner, fields in others if is_owned(fields, path))
        if owners and body.value_at(path) is not None:
            handed_over = any(owner.manager == HANDOVER_MANAGER for owner in owners)
            left.append(LeftField(path=path, owners=owners, handed_over=handed_over))
    return tuple(left)


def field_path(path: Path, body: IndexedBody) -> FieldPath:
    """A path of managedFields as names and positions in a body, up to the last part that the body has."""
    found: list[str | int] = []
    value: Any = body.body
    for step in path:
        if step.startswith("f:"):
            found.append(step[2:])
            value = value.get(step[2:]) if isinstance(value, Mapping) else None
        elif isinstance(value, list):
            # A key that is null is a default of the API server's.
            keys = {key: wanted for key, wanted in keys_of(step).items() if wanted is not None}
            positions = body.index(value).exact(keys)
            if not positions:
                break
            found.append(positions[0])
            value = value[positions[0]]
        else:
            break
    return tuple(found)


def _cause(
    path: Path,
    old: object,
    new: object,
    ours_before: Tree | None,
    ours_after: Tree,
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


def owned_by(live: LiveObject, manager: str = MANAGER, tree_of: TreeOf = field_tree) -> Tree:
    """The fields in a manager's Apply entries."""
    entries = (entry for entry in live.managed_fields if _is_apply_of(entry, manager))
    return union_of_fields([tree_of(bytes(entry.fields_v1)) for entry in entries])


def _is_apply_of(entry: ManagedFields, manager: str) -> bool:
    return (entry.manager, entry.operation, entry.subresource) == (manager, "Apply", "")


def other_entries(
    live: LiveObject, manager: str = MANAGER, tree_of: TreeOf = field_tree
) -> list[tuple[FieldOwner, Tree]]:
    """The entries of managedFields beside a manager's Apply entries, without those of the status."""
    return [
        (
            FieldOwner(entry.manager, entry.operation, entry.subresource, entry.time),
            tree_of(bytes(entry.fields_v1)),
        )
        for entry in live.managed_fields
        if entry.subresource != "status" and (entry.manager, entry.operation) != (manager, "Apply")
    ]


class Others:
    """Which of the other managers have the fields that are asked for."""

    def __init__(self, entries: Sequence[tuple[FieldOwner, Tree]], paths: Iterable[Path]) -> None:
        self._owners = [owner for owner, _ in entries]
        self._fields = FieldOwners([tree for _, tree in entries], paths)

    def covering(self, path: Path) -> tuple[FieldOwner, ...]:
        """Those with a field, something below it, or a whole value that it is in."""
        return tuple(self._owners[at] for at in self._fields.covering(path))


def covers(fields: Tree, path: Path) -> bool:
    """Whether a tree has a path, something below it, or a whole value that it is in."""
    for step in path:
        if step not in fields:
            return False
        fields = fields[step]
        if not fields:
            return True
    return True


def _differences(
    old: Any, new: Any, keys: Mapping[Path, tuple[str, ...]], path: Path
) -> Iterator[tuple[Path, Any, Any]]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*old, *new)):
            yield from _differences(old.get(name), new.get(name), keys, (*path, f"f:{name}"))
        return
    names = keys.get(_without_values(path), ()) if isinstance(old, list) and isinstance(new, list) else ()
    before, after = _by_key(old, names), _by_key(new, names)
    if before is not None and after is not None:
        if before.keys() == after.keys() and before == after:
            yield path, old, new  # only the order differs
            return
        for key in dict.fromkeys((*before, *after)):
            yield from _differences(before.get(key), after.get(key), keys, (*path, f"k:{key}"))
        return
    yield path, old, new


def _list_keys(entries: Sequence[ManagedFields], tree_of: TreeOf) -> Mapping[Path, tuple[str, ...]]:
    """The keys of each list map, by its path without the keys' values."""
    found: dict[Path, tuple[str, ...]] = {}
    for tree in {bytes(entry.fields_v1) for entry in entries}:
        _find_list_keys(tree_of(tree), (), found)
    return found


def _find_list_keys(tree: Mapping[str, Any], path: Path, found: dict[Path, tuple[str, ...]]) -> None:
    for step, below in tree.items():
        if step.startswith("k:"):
            if path not in found:
                found[path] = tuple(keys_of(step))
            _find_list_keys(below, (*path, "k:"), found)
        elif below:
            _find_list_keys(below, (*path, step), found)


def _without_values(path: Path) -> Path:
    return tuple("k:" if step.startswith("k:") else step for step in path)


def _by_key(items: Any, names: Sequence[str]) -> Mapping[str, Any] | None:
    """The items of a list map, None if the value is none, or if two items have the same keys."""
    if not names or not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return None
    found = {_encode({name: item.get(name) for name in names}): item for item in items}
    return found if len(found) == len(items) else None


_encode = json.JSONEncoder(separators=(",", ":")).encode

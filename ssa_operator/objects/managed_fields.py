"""The owners of an object's fields, read from its managedFields.

Promises:
- Everything that other clients wrote there is read without an error: invalid fieldsV1 owns nothing, and a manager owns
  a field as a whole if it is nested deeper than NESTING_LIMIT.
- Fields are named as users write them: `spec.replicas`, `spec.template.spec.containers[name=web].image`.
- Texts contain names of fields and keys of list maps, and no other values.
- A `FieldTrees` decodes each tree once, however many entries, states of the object and questions use it.

The encoding (`f:` a field, `k:` a key of a list map, `v:` a value of a set, `i:` a position, `.` the item itself) is
that of https://github.com/kubernetes-sigs/structured-merge-diff, fieldpath/serialize.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ssa_operator.objects.identity import join_api_version
from ssa_operator.objects.json_codec import decoder, is_deep, without_deep_values
from ssa_operator.objects.live_object import MANAGER, LiveObject, ManagedFields
from ssa_operator.objects.merge_keys import reader, selected
from ssa_operator.objects.shared_record import OWNERS_ANNOTATION
from ssa_operator.objects.source_location import field_text

Path: TypeAlias = tuple[str, ...]
"""A field as fieldsV1 spells it, outermost first: `("f:spec", "f:replicas")`."""

Tree: TypeAlias = "dict[str, Tree]"
"""A fieldsV1 tree: each step with what is below it. An empty tree below a step is the whole field."""

NOT_CONTENT = frozenset({"f:apiVersion", "f:kind", "f:metadata", "f:status"})
"""The outermost fields that are no content of an object."""

_decode = decoder(Any)


TreeOf: TypeAlias = "Callable[[bytes], Tree]"
"""A function that decodes fieldsV1: `field_tree`, or a `FieldTrees`."""


def field_tree(fields_v1: bytes, known: dict[str, bool] | None = None) -> Tree:
    """An encoded fieldsV1 tree, without steps that can't be read; empty if it is invalid. `known` remembers which steps
    can be read.
    """
    try:
        decoded = _decode(without_deep_values(fields_v1) if is_deep(fields_v1) else fields_v1)
    except msgspec.DecodeError:
        return {}
    return checked_tree(decoded, known)


class FieldTrees:
    """The fieldsV1 trees of one comparison, by their encoding."""

    __slots__ = ("_known", "_trees")

    def __init__(self) -> None:
        self._trees: dict[bytes, Tree] = {}
        self._known: dict[str, bool] = {}

    def __call__(self, fields_v1: bytes) -> Tree:
        """What `field_tree` gives."""
        tree = self._trees.get(fields_v1)
        if tree is None:
            tree = self._trees[fields_v1] = field_tree(fields_v1, self._known)
        return tree


def checked_tree(value: object, known: dict[str, bool] | None = None) -> Tree:
    """The fieldsV1 tree in a decoded value of NESTING_LIMIT levels at most: the value itself if it is valid."""
    if not isinstance(value, dict):
        return {}
    if known is None:
        known = {}
    replaced: dict[str, Tree | None] | None = None
    for step, below in value.items():
        if not (step == "." or step.startswith("f:")):
            readable = known.get(step)
            if readable is None:
                readable = known[step] = _is_item(step)
            if not readable:
                replaced = replaced or {}
                replaced[step] = None
                continue
        if below or not isinstance(below, dict):
            checked = checked_tree(below, known)
            if checked is not below:
                replaced = replaced or {}
                replaced[step] = checked
    if replaced is None:
        return value
    found = {step: replaced.get(step, below) for step, below in value.items()}
    return {step: below for step, below in found.items() if below is not None}


def _is_item(step: str) -> bool:
    """Whether a step selects items of a list."""
    kind, colon, name = step.partition(":")
    if colon and kind in ("k", "v"):
        try:
            value = step_value(name)
        except (msgspec.DecodeError, ValueError):
            return False
        return kind == "v" or isinstance(value, dict)
    return kind == "i" and name.isascii() and name.isdigit() and len(name) <= _POSITION_DIGITS


_POSITION_DIGITS = 9


def step_value(name: str) -> Any:
    """What a step of a checked tree writes after `k:` or `v:`: the keys of an item, or the item itself."""
    return _decode(name.encode())


def managed_entries(live: LiveObject) -> list[dict[str, Any]]:
    """The entries of managedFields in the body, each with a checked `fieldsV1`. Invalid entries are left out."""
    entries = live.body["metadata"].get("managedFields")
    known: dict[str, bool] = {}
    return [
        {**entry, "fieldsV1": checked_tree(entry.get("fieldsV1"), known)}
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and all(isinstance(entry.get(field, ""), str) for field in _TEXTS)
    ]


_TEXTS = ("manager", "operation", "subresource", "time", "apiVersion")


def owned(fields_v1: bytes) -> frozenset[Path]:
    """All fields of an encoded fieldsV1 tree; an empty one has none."""
    return frozenset(_paths(field_tree(fields_v1), ()))


def has_owned_content(live: LiveObject, body: Mapping[str, Any]) -> bool:
    """Whether a body has each field that the operator owns in the content of an object. A position in a list counts as
    a field that the body lacks.
    """
    rest: list[tuple[Tree, Any]] = []
    for entry in live.managed_fields:
        if entry.manager == MANAGER and entry.operation == "Apply" and not entry.subresource:
            tree = field_tree(bytes(entry.fields_v1))
            rest.append(({step: tree[step] for step in tree.keys() - NOT_CONTENT}, body))
    while rest:
        for step, below, items in selected(*rest.pop()):
            if step == ".":
                continue
            if not items:
                return False
            if below:
                rest.append((below, items[0]))
    return True


def names_owners(path: Path) -> bool:
    """Whether a field says which parents own a shared object."""
    return path[:2] == ("f:metadata", "f:ownerReferences") or path[1:] == ("f:annotations", f"f:{OWNERS_ANNOTATION}")


def lost_fields(before: bytes, after: bytes, tree_of: TreeOf = field_tree) -> tuple[Path, ...]:
    """The fields of the fieldsV1 tree `before` that `after` lacks: for a lost item of a list, the item alone."""
    if not before or before == after:
        return ()
    return tuple(sorted(_lost(tree_of(before), tree_of(after), ())))


def _lost(before: Mapping[str, Any], after: Mapping[str, Any], prefix: Path) -> Iterator[Path]:
    for step, below in before.items():
        if step == ".":
            continue
        left = after.get(step)
        if left == below:
            continue
        if _is_owned(below) and (left is None or not _is_owned(left)):
            yield (*prefix, step)
        else:
            yield from _lost(below, left or {}, (*prefix, step))


def is_owned(tree: Tree, path: Path) -> bool:
    """Whether a tree has a field itself, not only fields below it or the value that it is in."""
    for step in path:
        if step not in tree:
            return False
        tree = tree[step]
    return _is_owned(tree)


def _is_owned(tree: Tree) -> bool:
    return not tree or "." in tree


def changed_fields(
    fields_v1: bytes, before: Mapping[str, Any], after: Mapping[str, Any], tree_of: TreeOf = field_tree
) -> tuple[Path, ...]:
    """The outermost fields of a fieldsV1 tree whose values differ between two bodies."""
    return tuple(sorted(_changed(tree_of(fields_v1), before, after, ())))


def differ(fields_v1: bytes, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the value of a field of a fieldsV1 tree differs between two bodies."""
    return any(True for _ in _changed(field_tree(fields_v1), before, after, ()))


def _changed(tree: Tree, before: object, after: object, prefix: Path) -> Iterator[Path]:
    old_at, new_at = reader(before), reader(after)
    for step, below in tree.items():
        old, new = (old_at(step), new_at(step)) if step != "." else (None, None)
        if old != new:
            if below:
                yield from _changed(below, old, new, (*prefix, step))
            else:
                yield (*prefix, step)


def managers_of(
    live: LiveObject, paths: Sequence[Path], status: bool = False, since: str = "", tree_of: TreeOf = field_tree
) -> list[ManagedFields | None]:
    """The latest entry of a manager that owns each field, None without any.

    An entry names fields in its own version. If no entry in the version of the object has the field, it is that of the
    last other manager that has written in another version, and not before `since`.

    `status` selects the entries of the subresource `status`; otherwise all others count.
    """
    entries = [entry for entry in live.managed_fields if (entry.subresource == "status") is status]
    converted = [entry for entry in entries if not is_in_version(entry, live) and entry.time >= since]
    others = [entry for entry in converted if (entry.manager, entry.operation) != (MANAGER, "Apply")]
    latest_other = max(others, key=lambda entry: entry.time, default=None)
    latest_first = sorted(entries, key=lambda entry: entry.time, reverse=True)
    owners = FieldOwners([tree_of(bytes(entry.fields_v1)) for entry in latest_first], paths)
    found = (owners.first(path) for path in paths)
    return [latest_other if at is None else latest_first[at] for at in found]


class FieldOwner(Struct, frozen=True):
    """A manager that owns a field, by its entry of managedFields."""

    manager: str
    operation: str
    """`Apply` or `Update`."""
    subresource: str = ""
    """'' for the object itself."""
    time: str = ""
    """When the manager last changed its fields of the object."""

    @property
    def is_operator(self) -> bool:
        """Whether it is the entry of the operator's applies."""
        return self.manager == MANAGER and self.operation == "Apply" and not self.subresource

    def __str__(self) -> str:
        return f"{self.manager} ({self.subresource or self.operation})"


class FieldOwners:
    """Finds which of several fieldsV1 trees have the given fields. All trees are read once, together: a tree costs
    nothing at the fields that it lacks.
    """

    __slots__ = ("_root",)

    def __init__(self, trees: Sequence[Tree], paths: Iterable[Path]) -> None:
        """`paths` are the fields to find."""
        wanted: Tree = {}
        for path in paths:
            at = wanted
            for step in path:
                at = at.setdefault(step, {})
        self._root = _Owned([])
        self._root.read(list(enumerate(trees)), wanted)

    def first(self, path: Path) -> int | None:
        """The position of the first tree that has a field itself, or a whole value that it is in."""
        node, found = self._root, list[int]()
        for step in path:
            below = node.below.get(step)
            if below is None:
                break
            node = below
            found += node.whole[:1]
        else:
            found += node.itself[:1]
        return min(found, default=None)

    def covering(self, path: Path) -> Sequence[int]:
        """The positions of the trees that have a field, something below it, or a whole value that it is in."""
        node, found = self._root, list[int]()
        for step in path:
            below = node.below.get(step)
            if below is None:
                return sorted(found)
            node = below
            found += node.whole
        return sorted({*found, *node.trees}) if found else node.trees


class _Owned:
    """The trees that have one field, by their positions in order."""

    __slots__ = ("below", "itself", "trees", "whole")

    def __init__(self, trees: list[int]) -> None:
        self.trees = trees
        self.itself: Sequence[int] = ()
        """The trees that have the field itself, not only fields below it."""
        self.whole: Sequence[int] = ()
        """The trees that have it with everything below."""
        self.below: dict[str, _Owned] = {}

    def read(self, trees: Sequence[tuple[int, Tree]], wanted: Tree) -> None:
        """Read the parts of the trees that belong to the wanted fields below."""
        found: dict[str, list[tuple[int, Tree]]] = {}
        for at, tree in trees:
            # Iterate over the smaller one: unwanted fields aren't read, and fields that the tree lacks aren't searched
            # for.
            for step in tree if len(tree) < len(wanted) else wanted:
                if step in tree and step in wanted:
                    found.setdefault(step, []).append((at, tree[step]))
        for step, below in found.items():
            node = self.below[step] = _Owned([at for at, _ in below])
            node.whole = [at for at, tree in below if not tree]
            node.itself = [at for at, tree in below if not tree or "." in tree]
            if wanted[step]:
                node.read(below, wanted[step])


def is_in_version(entry: ManagedFields, live: LiveObject) -> bool:
    """Whether an entry names fields in the version of the object. An entry without a version does."""
    return entry.api_version in ("", join_api_version(live.identity.group, live.version))


def path_text(path: Path) -> str:
    """The field as users write it."""
    text = ""
    for step in path:
        kind, _, name = step.partition(":")
        if kind == "f":
            part = field_text((name,))
            text += f".{part}" if text and not part.startswith("[") else part
        elif kind == "k":
            text += "[" + ",".join(f"{key}={value}" for key, value in step_value(name).items()) + "]"
        else:
            text += f"[{name}]"
    return text


def _paths(tree: Mapping[str, Any], prefix: Path) -> Iterator[Path]:
    for step, below in tree.items():
        if step == ".":
            if prefix:
                yield prefix
            continue
        if not below:
            yield (*prefix, step)
        yield from _paths(below, (*prefix, step))


def leaves(tree: Tree, prefix: Path = ()) -> Iterator[Path]:
    """The fields below which a tree has no others."""
    for step, below in tree.items():
        if step != ".":
            if not below or (len(below) == 1 and "." in below):
                yield (*prefix, step)
            yield from leaves(below, (*prefix, step))


def in_version(live: LiveObject, api_version: str, *, instead_of: str) -> bytes:
    """The merge patch that replaces the version `instead_of` in an object's managedFields by `api_version`."""
    entries = managed_entries(live)
    return managed_fields_patch(
        live,
        [{**entry, "apiVersion": api_version} if entry.get("apiVersion") == instead_of else entry for entry in entries],
    )


def managed_fields_patch(live: LiveObject, entries: Sequence[Mapping[str, Any]]) -> bytes:
    """The merge patch that replaces an object's managedFields, with the resourceVersion that was read."""
    metadata = {"resourceVersion": live.resource_version, "managedFields": entries}
    return json.dumps({"metadata": metadata}, separators=(",", ":")).encode()


def union_of_fields(fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fieldsV1 tree with the fields of all these trees, whose parts it shares."""
    if len(fields) == 1:
        return {**fields[0]}
    names = dict.fromkeys(name for tree in fields for name in tree)
    return {name: union_of_fields([tree[name] for tree in fields if name in tree]) for name in names}

"""Who owns which field of an object, as its managedFields say.

Promises:
- A field is named as users write it: `spec.replicas`, `spec.template.spec.containers[name=web].image`.
- Values are compared, never shown; only names of fields and the keys of list maps are.

The encoding (`f:` a field, `k:` a key of a list map, `v:` a value of a set, `i:` a position, `.` the item itself) is
that of https://github.com/kubernetes-sigs/structured-merge-diff, fieldpath/serialize.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ssa_operator.core.objects.live_object import LiveObject, ManagedFields
from ssa_operator.core.objects.source_location import field_text

Path: TypeAlias = tuple[str, ...]
"""A field as fieldsV1 spells it, outermost first: `("f:spec", "f:replicas")`."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def owned(fields_v1: bytes) -> frozenset[Path]:
    """Every field of an encoded fieldsV1 tree; '' has none."""
    return frozenset(_paths(_decode(fields_v1), ())) if fields_v1 else frozenset()


def lost_fields(before: bytes, after: bytes) -> tuple[Path, ...]:
    """The fields of one fieldsV1 tree that another has no more: where a whole item went, the item alone."""
    gone = owned(before) - owned(after)
    outermost = (path for path in gone if not any(path[:length] in gone for length in range(1, len(path))))
    return tuple(sorted(outermost))


def changed_fields(fields_v1: bytes, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Path, ...]:
    """The outermost fields of a fieldsV1 tree whose values differ between two bodies."""
    leaves = _leaves(_decode(fields_v1), ()) if fields_v1 else ()
    return tuple(sorted(path for path in leaves if value_at(before, path) != value_at(after, path)))


def manager_of(live: LiveObject, path: Path, status: bool = False) -> ManagedFields | None:
    """The entry of the manager that owns a field and wrote last, None where nobody does.

    `status` says which half of the object is looked at: what is written at the subresource `status`, or the rest.
    """
    entries = [entry for entry in live.metadata.managed_fields if (entry.subresource == "status") is status]
    holders = [entry for entry in entries if _has(_decode(bytes(entry.fields_v1)), path)]
    return max(holders, key=lambda entry: entry.time, default=None)


def path_text(path: Path) -> str:
    """The field as users write it."""
    text = ""
    for step in path:
        kind, _, name = step.partition(":")
        if kind == "f":
            part = field_text((name,))
            text += f".{part}" if text and not part.startswith("[") else part
        elif kind == "k":
            text += "[" + ",".join(f"{key}={value}" for key, value in msgspec.json.decode(name).items()) + "]"
        else:
            text += f"[{name}]"
    return text


def value_at(body: object, path: Path) -> object:
    """The value of a field in an object's body; None where it has none."""
    for step in path:
        kind, _, name = step.partition(":")
        if kind == "f" and isinstance(body, Mapping):
            body = body.get(name)
        elif kind == "k" and isinstance(body, list):
            body = keyed(body, name)
        elif kind == "v" and isinstance(body, list):
            wanted = msgspec.json.decode(name)
            body = wanted if wanted in body else None
        elif kind == "i" and isinstance(body, list):
            body = body[int(name)] if int(name) < len(body) else None
        else:
            return None
    return body


def keyed(items: Sequence[object], name: str) -> Mapping[str, Any] | None:
    """The item of a list map with the keys that fieldsV1 spells after `k:`; None where there is none."""
    keys = msgspec.json.decode(name)
    for item in items:
        if isinstance(item, Mapping) and all(item.get(key) == value for key, value in keys.items()):
            return item
    return None


def _paths(tree: Mapping[str, Any], prefix: Path) -> Iterator[Path]:
    for step, below in tree.items():
        if step == ".":
            if prefix:
                yield prefix
            continue
        if not below:
            yield (*prefix, step)
        yield from _paths(below, (*prefix, step))


def _leaves(tree: Mapping[str, Any], prefix: Path) -> Iterator[Path]:
    for step, below in tree.items():
        if step != ".":
            if not below:
                yield (*prefix, step)
            yield from _leaves(below, (*prefix, step))


def _has(tree: Mapping[str, Any], path: Path) -> bool:
    for step in path:
        if step not in tree:
            return False
        tree = tree[step]
        if not tree:
            return True  # owned as a whole, with everything below
    return "." in tree

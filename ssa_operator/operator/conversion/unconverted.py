"""What another version of an object can't hold: which fields that are, and how they come back.

Promises:
- The fields of an object that its conversion there and back changes are kept, and put back exactly.
- A field comes back only if the conversion still gives what it gave when the field was kept. So a field that a user
  changed or removed in the other version stays as the user wrote it.
- An item of a list comes back wherever it is now: by the keys of its list, by its name, or else as a whole.
- A text that the operator did not write changes nothing, whatever it holds.
- The time is in proportion to the object and to the fields, also where each item of a long list has some.

How it works: `differences` compares an object with what its conversion there and back gives. A `KeptField` has the
object's value, and a digest of the given one. `put_back` compares the digest with what the conversion gives later.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ssa_operator.objects.json_schema import Schema, part_schema, schema_at

ItemKeys: TypeAlias = Mapping[str, Any]
"""The values of the keys by which an item of a list is found."""

Path: TypeAlias = tuple["str | dict[str, Any]", ...]

Items: TypeAlias = dict[int, tuple[list[Any], dict[tuple[str, ...], dict[bytes, Any]]]]
"""The items of lists by the values of their keys. Each list is held, so that its id is no other one's meanwhile."""

_ABSENT = object()
_NAME = ("name",)
_METADATA = ("labels", "annotations")
_DIGEST = 16
"""Characters of a digest: enough for values that differ by chance."""


class KeptField(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A field that the other version can't hold."""

    path: Path
    value: Any | UnsetType = UNSET
    """Its value, unset for a field that is missing."""
    given: str = ""
    """The digest of what the conversion there and back gives in its place, '' for nothing."""
    items: tuple[tuple[str, Any], ...] = ()
    """For a list: its items by the digests of what is given in their places."""

    missing: int = 0
    """How many of the mappings around it are missing, too."""

    @property
    def leaves(self) -> Iterator[KeptField]:
        """The same as one field for each value that is no mapping."""
        if not isinstance(self.value, Mapping) or not self.value or self.given:
            yield self
            return
        for key, value in self.value.items():
            yield from KeptField(path=(*self.path, key), value=value, missing=self.missing + 1).leaves


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; 1, 1.0 and true are not."""
    return one is other or (one == other and _encoded(one) == _encoded(other))


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _digest(value: Any) -> str:
    return "" if value is _ABSENT else hashlib.sha256(_encoded(value)).hexdigest()[:_DIGEST]


def differences(own: Any, given: Any, schema: Schema | None, path: Path = ()) -> Iterator[KeptField]:
    """The fields of `own` that `given` doesn't have as they are."""
    if isinstance(own, Mapping) and isinstance(given, Mapping):
        for key in sorted({*own, *given}):
            part = part_schema(schema, key)
            yield from differences(own.get(key, _ABSENT), given.get(key, _ABSENT), part, (*path, key))
        return
    if is_same(own, given):
        return
    if isinstance(own, list) and isinstance(given, list) and len(own) == len(given):
        part = part_schema(schema, 0)
        keys = _keys(own, given, schema)
        if keys and [_of(keys, each) for each in own] == [_of(keys, each) for each in given]:
            for mine, theirs in zip(own, given, strict=True):
                yield from differences(mine, theirs, part, (*path, _of(keys, mine)))
            return
        pairs = [(_digest(theirs), mine) for mine, theirs in zip(own, given, strict=True)]
        changed = {digest for digest, mine in pairs if digest != _digest(mine)}
        yield KeptField(path=path, items=tuple(each for each in pairs if each[0] in changed))
        return
    yield KeptField(path=path, value=UNSET if own is _ABSENT else own, given=_digest(given))


def without_field(body: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The object without a field."""
    now: Any = body
    for part in path:
        now = _part(now, part, {})
    return put_back(body, [KeptField(path=path, given=_digest(now))])


def _keys(own: Sequence[Any], given: Sequence[Any], schema: Schema | None) -> Sequence[str]:
    """The fields that tell the items of a list apart, () if there are none."""
    declared = (schema or {}).get("x-kubernetes-list-map-keys") or ()
    for keys in (tuple(declared), _NAME):
        if keys and all(_are_distinct(items, keys) for items in (own, given)):
            return keys
    return ()


def _are_distinct(items: Sequence[Any], keys: Sequence[str]) -> bool:
    if not all(isinstance(each, Mapping) and all(key in each for key in keys) for each in items):
        return False
    return len({_encoded(_of(keys, each)) for each in items}) == len(items)


def _of(keys: Sequence[str], item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item[key] for key in keys}


def put_back(body: Mapping[str, Any], fields: Sequence[KeptField]) -> dict[str, Any]:
    """The object with these fields, except those that changed meanwhile."""
    found: dict[str, Any] = copy.deepcopy({**body})
    metadata = found.setdefault("metadata", {})
    for name in _METADATA:
        metadata[name] = metadata.get(name) or {}
    items: Items = {}
    for each in fields:
        _put(found, each, items)
    for name in _METADATA:
        if not metadata[name]:
            del metadata[name]
    return found


def _put(body: dict[str, Any], kept: KeptField, items: Items) -> None:
    above: Any = body
    for at, part in enumerate(kept.path[:-1]):
        if at >= len(kept.path) - 1 - kept.missing and isinstance(part, str) and isinstance(above, dict):
            above.setdefault(part, {})
        above = _part(above, part, items)
    last = kept.path[-1] if kept.path else None
    now = _part(above, last, items) if last is not None else _ABSENT
    if kept.items:
        if isinstance(now, list):
            now[:] = _with_items(now, kept.items)
            items.pop(id(now), None)
        return
    if last is None or above is _ABSENT or _digest(now) != kept.given:
        return
    if isinstance(above, dict) and isinstance(last, str):
        if kept.value is UNSET:
            above.pop(last, None)
        else:
            above[last] = kept.value
    elif isinstance(above, list) and now is not _ABSENT and kept.value is not UNSET:
        above[next(at for at, each in enumerate(above) if each is now)] = kept.value
        items.pop(id(above), None)


def _part(above: Any, part: str | ItemKeys | None, items: Items) -> Any:
    if isinstance(part, str):
        return above.get(part, _ABSENT) if isinstance(above, dict) else _ABSENT
    if not part or not isinstance(above, list):
        return _ABSENT
    _, by_keys = items.setdefault(id(above), (above, {}))
    found = by_keys.get(keys := tuple(sorted(part)))
    if found is None:
        found = by_keys[keys] = {}
        for each in above:
            if isinstance(each, dict):
                found.setdefault(_encoded({key: each.get(key) for key in keys}), each)
    return found.get(_encoded(part), _ABSENT)


def _with_items(now: list[Any], items: Sequence[tuple[str, Any]]) -> list[Any]:
    """The list, with each kept item in the place of the first item that is as it was given."""
    kept: dict[str, list[Any]] = {}
    for digest, value in items:
        kept.setdefault(digest, []).append(value)
    return [values.pop(0) if (values := kept.get(_digest(each))) else each for each in now]


def declares(schema: Schema | None, path: Path) -> bool:
    """Whether a schema has a place for a field."""
    return schema_at(schema, path) is not None


def path_text(path: Path) -> str:
    """A path as users write it, an item of a list by its keys."""
    text = ""
    for part in path:
        if isinstance(part, str):
            text += f".{part}" if text else part
        else:
            text += f"[{','.join(f'{key}={value}' for key, value in part.items())}]"
    return text

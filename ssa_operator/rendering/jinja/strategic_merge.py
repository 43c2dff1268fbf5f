"""The filter `merge`: puts one mapping over another, as Kubernetes' strategic merge patch does.

Promises:
- Mappings merge deep, the right side wins, and null removes a field. The result holds no null of the right side.
- The lists in LIST_KEYS merge item by item, by the keys of their items. New items follow the old ones.
- Any other list is replaced.
- `$patch` and other directives of a patch have no special meaning: they are ordinary fields.
- Each field keeps its provenance. A field that is unknown leaves the fields beside it known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jinja2 import Undefined

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import DEPTH_LIMIT
from ssa_operator.rendering.values.manifest_values import UnfitValueError, key_text, kind_of
from ssa_operator.rendering.values.template_text import Text
from ssa_operator.rendering.values.tracked_values import (
    AwaitedError,
    Provenance,
    TrackedValue,
    UnknownValue,
    call_tracked,
    is_tracked,
    merge_provenance,
    untracked,
)

_NAME = (("name",),)
_PATH = (("mountPath",),)

LIST_KEYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "addresses": (("type",),),
    "conditions": (("type",),),
    "containers": _NAME,
    "env": _NAME,
    "ephemeralContainers": _NAME,
    "hostAliases": (("ip",),),
    "imagePullSecrets": _NAME,
    "initContainers": _NAME,
    "matchConditions": _NAME,
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
    "resourceClaims": _NAME,
    "schedulingGates": _NAME,
    "secrets": _NAME,
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
    "variables": _NAME,
    "volumeDevices": (("devicePath",),),
    "volumeMounts": _PATH,
    "volumes": _NAME,
    "webhooks": _NAME,
}
"""The keys of the items, by the field of the list: the patchMergeKey tags of k8s.io/api 0.36, without those of a status
that only the kubelet writes. Where a type has several listMapKey tags (ports, topologySpreadConstraints), all of these,
as server-side apply has it.
"""

_KEY_DEFAULTS: Mapping[str, str] = {"protocol": "TCP"}
"""The API server's defaults for missing keys of items."""

_SIZE = 64

_Key: TypeAlias = tuple[Any, ...]


def merge(value: Any, other: Any) -> Any:
    """The mapping `value` with the fields of the mapping `other` put over it. Raises UnfitValueError for others."""
    for each in (value, other):
        if isinstance(each, Undefined) and not isinstance(each, UnknownValue):
            str(each)  # raises MissingFieldError
        if not isinstance(each, UnknownValue) and not isinstance(untracked(each), Mapping):
            raise UnfitValueError(f"merge needs a mapping, and this is {_kind(untracked(each))}")
    if isinstance(value, UnknownValue) or isinstance(other, UnknownValue):
        return call_tracked(lambda *_: None, (value, other), {})
    merging = _Merging()
    try:
        merged = merging.both(value, other, "", 0)
    except AwaitedError as error:
        return error.unknown
    provenance = merge_provenance(*merging.provenance)
    if not provenance:
        return merged
    if provenance[0].path is not None:
        merged = _with_literals(merged)
    return TrackedValue(merged, provenance)


def merge_mappings(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """The same for plain data, in which every list is replaced. Raises UnfitValueError if it is nested too deep."""
    merged: dict[str, Any] = _Merging({}).both(left, right, "", 0)
    return merged


class _Merging:
    """One use of the filter. `provenance` is that of the mappings and lists whose fields it read."""

    def __init__(self, list_keys: Mapping[str, tuple[tuple[str, ...], ...]] = LIST_KEYS) -> None:
        self._list_keys = list_keys
        self.provenance: list[tuple[Provenance, ...]] = []

    def both(self, left: Any, right: Any, name: str, depth: int) -> Any:
        """The value of the field `name` that both sides have."""
        if depth > DEPTH_LIMIT:
            raise UnfitValueError(f"the value is nested deeper than {DEPTH_LIMIT} levels")
        below, above = untracked(left), untracked(right)
        if isinstance(above, Mapping) and isinstance(below, Mapping):
            return self._mappings(self._fields(left), self._fields(right), depth)
        merges = isinstance(above, Mapping) or (isinstance(above, (list, tuple)) and name in self._list_keys)
        if merges and isinstance(left, UnknownValue):
            return call_tracked(lambda *_: None, (left, right), {})
        if isinstance(above, (list, tuple)) and isinstance(below, (list, tuple)):
            unknown = [item for item in below if isinstance(item, UnknownValue)]
            if merges and unknown:
                return call_tracked(lambda *_: None, unknown, {})
            lists = self._items(left), self._items(right)
            keys = _keys_of(name, self._list_keys.get(name, ()), *lists)
            if keys is not None:
                return self._lists(*lists, (name, keys), depth)
        return self.alone(right, depth)

    def alone(self, right: Any, depth: int) -> Any:
        """The value of a field that only the right side has: without the nulls in its mappings."""
        if depth > DEPTH_LIMIT:
            raise UnfitValueError(f"the value is nested deeper than {DEPTH_LIMIT} levels")
        if not _has_null(untracked(right), depth):
            return right
        return self._mappings({}, self._fields(right), depth)

    def _mappings(self, left: dict[Any, Any], right: dict[Any, Any], depth: int) -> dict[Any, Any]:
        for key, value in right.items():
            if untracked(value) is None:
                left.pop(key, None)
                if isinstance(value, TrackedValue):
                    self.provenance.append(value.provenance)
            elif key in left:
                left[key] = self.both(left[key], value, key, depth + 1)
            else:
                left[key] = self.alone(value, depth + 1)
        return left

    def _lists(self, left: list[Any], right: list[Any], by: tuple[str, tuple[str, ...]], depth: int) -> list[Any]:
        items = self._by_key(left, *by)
        for key, item in self._by_key(right, *by).items():
            known = items.get(key)
            items[key] = self.alone(item, depth + 1) if known is None else self.both(known, item, "", depth + 1)
        return list(items.values())

    def _by_key(self, items: Sequence[Any], name: str, keys: tuple[str, ...]) -> dict[_Key, Any]:
        found: dict[_Key, Any] = {}
        for item in items:
            key = tuple(self._key(_field(item, each), each) for each in keys)
            if key in found:
                raise UnfitValueError(f"merge: two items of {name} have the same {' and '.join(keys)}")
            found[key] = item
        return found

    def _key(self, value: Any, key: str) -> Any:
        if isinstance(value, UnknownValue):
            raise AwaitedError(value)
        if isinstance(value, TrackedValue):
            self.provenance.append(value.provenance)
            value = value.value
        value = str(value) if isinstance(value, (str, Text)) else value
        if value is None:
            return _KEY_DEFAULTS.get(key)
        return (type(value).__name__, value) if isinstance(value, (int, float)) else value

    def _fields(self, value: Any) -> dict[Any, Any]:
        """The fields of a mapping, each with its provenance."""
        plain = untracked(value)
        limits.current().produce(limits.size_of(plain) + _SIZE)
        if isinstance(value, TrackedValue):
            self.provenance.append(value.provenance)
            return {key_text(key): value.field_value(item, key) for key, item in plain.items()}
        return {key if isinstance(key, UnknownValue) else key_text(key): item for key, item in plain.items()}

    def _items(self, value: Any) -> list[Any]:
        """The items of a list, each with its provenance."""
        plain = untracked(value)
        limits.current().produce(limits.size_of(plain) + _SIZE)
        if isinstance(value, TrackedValue):
            self.provenance.append(value.provenance)
            return [value.field_value(item, at) for at, item in enumerate(plain)]
        return list(plain)


def _keys_of(
    name: str, options: Sequence[tuple[str, ...]], left: Sequence[Any], right: Sequence[Any]
) -> tuple[str, ...] | None:
    """The keys by which two lists merge, None if the right list replaces the left one.

    Raises UnfitValueError if only an item of the right list lacks them.
    """
    for keys in options:
        if not all(_has_key(item, keys[0]) for item in left) or not (left or right):
            continue
        if all(_has_key(item, keys[0]) for item in right):
            return keys
        if left and all(isinstance(untracked(item), Mapping) for item in right):
            raise UnfitValueError(f"merge: an item of {name} has no {keys[0]}, and the items merge by it")
    return None


def _field(item: Any, key: str) -> Any:
    """The field of an item with its provenance, None if it has none."""
    plain = untracked(item)
    found = plain.get(key)
    return item.field_value(found, key) if isinstance(item, TrackedValue) and found is not None else found


def _has_key(item: Any, key: str) -> bool:
    if not isinstance(untracked(item), Mapping):
        return False
    value = untracked(_field(item, key))
    return isinstance(value, (str, int, Text, UnknownValue)) and not isinstance(value, bool)


def _has_null(value: Any, depth: int) -> bool:
    """Whether a mapping, or one below it, has null as a field."""
    if depth > DEPTH_LIMIT:
        raise UnfitValueError(f"the value is nested deeper than {DEPTH_LIMIT} levels")
    if not isinstance(value, Mapping):
        return False
    fields: Iterator[Any] = limits.counted(value.values())
    return any(untracked(item) is None or _has_null(untracked(item), depth + 1) for item in fields)


def _with_literals(value: Any) -> Any:
    """The merged value of a traced render, in which each plain scalar has no origin: the template wrote it."""
    if type(value) is dict:
        return {key: _with_literals(item) for key, item in value.items()}
    if type(value) is list:
        return [_with_literals(item) for item in value]
    return value if is_tracked([value]) or isinstance(value, Undefined) else TrackedValue(value, ())


def _kind(value: Any) -> str:
    """The words for a value of its type, and what to do about text."""
    found = kind_of(value)
    return f"{found}; write text | from_yaml" if isinstance(value, (str, Text)) else found

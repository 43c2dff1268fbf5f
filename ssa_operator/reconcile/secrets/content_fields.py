"""Which fields of an object hold a Secret's content, in a manifest and in its live object.

Promises:
- Whether a field is hidden depends on the origin of its value, never on its text: a parent's text that equals a Secret
  is shown.
- An item of a live list is the manifest's item of that name. Where items have no names, all of a list are hidden if one
  is.
- A Secret's data are hidden whatever rendered them.
- A field that an earlier render wrote and this one does not is hidden where this render puts content beside it or into
  the same field of an object of the kind, where a reference replaces it, and everywhere if the templates read Secrets
  that are no children: it may be content. All else is shown.
- If an object holds content, messages in its status and its annotation `last-applied-configuration` are hidden, because
  they may quote it.
- Hashes of two fields or two objects reveal nothing about each other, and nothing about a value without the salt.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.field_attribution import Writer, attribute
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.manifest import MANAGED_BY_LABEL, Manifest
from ssa_operator.objects.secret_fields import NO_SECRET_FIELDS, ParentSecrets, SecretFields, is_secret
from ssa_operator.objects.source_location import FieldPath, names_in, value_at
from ssa_operator.reconcile.child import Child

HiddenPaths: TypeAlias = "frozenset[FieldPath]"
"""Fields of one object, with positions in its lists; what is below them is hidden with them."""

_LAST_APPLIED = ("metadata", "annotations", LAST_APPLIED)
_OPERATORS = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "ownerReferences"),
    ("metadata", "labels", MANAGED_BY_LABEL),
    ("metadata", "labels", PARENT_UID_LABEL),
)
"""The fields that the operator itself writes into each child."""


class ContentFields(Struct, frozen=True, kw_only=True):
    """Where one child holds content, by the render of its parent."""

    secret: SecretFields = NO_SECRET_FIELDS
    manifest: Manifest | None = None
    """What the templates render for the child now."""
    reads: bool = False
    """Whether the templates read Secrets or generate values."""
    read_others: bool = False
    """Whether they read Secrets that are no children."""
    of_kind: tuple[FieldPath, ...] = ()
    """The fields with content of all children of its kind."""


NO_CONTENT = ContentFields()


def fields_of(step: Child, secrets: ParentSecrets) -> ContentFields:
    """Where the child of a step holds content."""
    return _fields(step.identity, step.manifest, secrets)


def fields_of_child(child: Identity, steps: Mapping[Identity, Child], secrets: ParentSecrets) -> ContentFields:
    """Where a child holds content, by the steps of its parent; it may have none."""
    return _fields(child, steps[child].manifest if child in steps else None, secrets)


def _fields(child: Identity, manifest: Manifest | None, secrets: ParentSecrets) -> ContentFields:
    return ContentFields(
        secret=secrets.of(child),
        manifest=manifest,
        reads=secrets.read,
        read_others=secrets.read_others,
        of_kind=secrets.of_kind(child.group_kind),
    )


def hidden_in_manifest(body: Mapping[str, Any], fields: ContentFields) -> HiddenPaths:
    """The hidden fields of a manifest, or of a state of the object that has no managedFields."""
    described = fields.manifest.body if fields.manifest is not None else body
    found = _matching(body, _patterns(fields.secret, described)) if fields.secret else ()
    return frozenset((*_data_of_secret(body), *found))


def hidden_in_live(live: LiveObject, fields: ContentFields) -> HiddenPaths:
    """The hidden fields of a live child."""
    body, secret = live.body, fields.secret
    found = set(_data_of_secret(body))
    if secret:
        found |= hidden_in_manifest(body, fields)
        found.update(_messages(body.get("status"), ("status",)))
        found.add(_LAST_APPLIED)
    if secret or fields.reads:
        paths = frozenset(secret.paths)
        for each in attribute(live, fields.manifest):
            # For fields that no manager or another manager owns, the position in a list means nothing.
            ours = each.writer is Writer.TEMPLATE and each.sent_path is not None
            left = fields.reads and each.writer is Writer.EARLIER_TEMPLATE and _may_be_content(each.path, live, fields)
            if left or (ours and prefix_of(each.sent_path or (), paths) is not None):
                found.add(each.path)
    return frozenset(found)


def _may_be_content(path: FieldPath, live: LiveObject, fields: ContentFields) -> bool:
    """Whether a field that no template renders now may hold content of an earlier render."""
    if any(path[: len(each)] == each for each in _OPERATORS):
        return False
    names = names_in(path)
    # An object of its kind may be the same one under another name.
    places = [
        *map(names_in, fields.of_kind),
        *(names_in(each)[:-1] or names_in(each) for each in fields.secret.paths),
    ]
    return fields.read_others or any(names[: len(each)] == each for each in places) or _is_replaced(path, live, fields)


def _is_replaced(path: FieldPath, live: LiveObject, fields: ContentFields) -> bool:
    """Whether a reference, such as one to a Secret's entry, is now in place of the value of an environment variable."""
    item = value_at(live.body, path[:-1])
    if path[-1:] != ("value",) or fields.manifest is None or (name := _name(item)) is None:
        return False
    found: list[Any] = [fields.manifest.body]
    while found:
        value = found.pop()
        if isinstance(value, Mapping):
            if "valueFrom" in value and _name(value) == name:
                return True
            found += value.values()
        elif isinstance(value, list):
            found += value
    return False


def prefix_of(path: FieldPath, hidden: HiddenPaths) -> FieldPath | None:
    """The hidden field that a field is, or is below; None if it is shown."""
    return next((path[:end] for end in range(1, len(path) + 1) if path[:end] in hidden), None)


def replaced(body: Mapping[str, Any], hidden: HiddenPaths, hide: Callable[[FieldPath, Any], Any]) -> dict[str, Any]:
    """A body with the result of `hide` in place of each hidden field. In its path, items of lists are named by their
    `name`, so that a field has the same path before and after a list changes.
    """
    if not hidden:
        return dict(body)
    return {key: _replaced(value, (key,), (key,), hidden, hide) for key, value in body.items()}


def _replaced(
    value: Any, path: FieldPath, named: FieldPath, hidden: HiddenPaths, hide: Callable[[FieldPath, Any], Any]
) -> Any:
    if path in hidden:
        return hide(named, value)
    if isinstance(value, Mapping):
        return {key: _replaced(item, (*path, key), (*named, key), hidden, hide) for key, item in value.items()}
    if isinstance(value, list):
        names = _names(value)
        return [
            _replaced(item, (*path, at), (*named, name), hidden, hide)
            for at, (item, name) in enumerate(zip(value, names, strict=True))
        ]
    return value


def _names(items: list[Any]) -> Iterator[str]:
    """A name for each item that no other item of the list has."""
    counts: dict[str, int] = {}
    for item in items:
        name = _name(item) or ""
        counts[name] = counts.get(name, 0) + 1
        yield f"{counts[name]} {name}"


def _name(item: Any) -> str | None:
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) else None


def _data_of_secret(body: Mapping[str, Any]) -> Iterator[FieldPath]:
    if is_secret(body):
        yield _LAST_APPLIED
        for field in ("data", "stringData"):
            entries = body.get(field)
            yield from ((field, name) for name in entries) if isinstance(entries, Mapping) else ((field,),)


def _messages(value: Any, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from ((*path, key),) if key == "message" else _messages(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _messages(item, (*path, at))


class _Pattern(Struct):
    """The hidden fields below one field, by names of fields, names of items, and `None` for any item."""

    hidden: bool = False
    below: dict[tuple[bool, str | None], _Pattern] = {}


def _patterns(secret: SecretFields, body: Any) -> _Pattern:
    """The fields of a manifest, in which the items of lists are named."""
    root, named = _Pattern(), frozenset(path for path in secret.paths if path[-1:] == ("name",))
    for path in secret.paths:
        if path in ((), ("metadata",)):
            # An object stays an object even if all of it is content.
            above = body if not path else body.get("metadata")
            for key in above if isinstance(above, Mapping) else ():
                if (*path, key) != ("metadata",):
                    _add(root, (*path, key), body, named)
            if not path:
                for key in body.get("metadata") or ():
                    _add(root, ("metadata", key), body, named)
        else:
            _add(root, path, body, named)
    return root


def _add(root: _Pattern, path: FieldPath, body: Any, named: frozenset[FieldPath]) -> None:
    pattern, value = root, body
    for at, step in enumerate(path):
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
            key: tuple[bool, str | None] = (False, step)
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
            # A name that is content itself names no live item for sure.
            key = (True, None if (*path[: at + 1], "name") in named else _name(value))
        pattern = pattern.below.setdefault(key, _Pattern())
    pattern.hidden = True


def _matching(body: Any, root: _Pattern) -> Iterator[FieldPath]:
    """The fields of a body that a pattern hides. What is no list or mapping where the manifest has one is hidden."""
    found: list[tuple[FieldPath, Any, list[_Pattern]]] = [((), body, [root])]
    while found:
        path, value, patterns = found.pop()
        patterns = [each for each in patterns if each.hidden or each.below]
        if not patterns:
            continue
        items = isinstance(value, list)
        fits = isinstance(value, Mapping) or items
        if path and (
            not fits or any(each.hidden or any(of_list is not items for of_list, _ in each.below) for each in patterns)
        ):
            yield path
        elif isinstance(value, Mapping):
            found += [
                ((*path, key), item, [each.below[False, key] for each in patterns if (False, key) in each.below])
                for key, item in value.items()
            ]
        elif isinstance(value, list):
            for at, item in enumerate(value):
                name = _name(item)
                keys = dict.fromkeys(((True, None), (True, name)))
                below = [each.below[key] for each in patterns for key in keys if key in each.below]
                if name is None:
                    below = [pattern for each in patterns for pattern in each.below.values()]
                found.append(((*path, at), item, below))


_HASH_BYTES = 4

HASH = re.compile(r"\(hash [0-9a-f]{8}\)")
"""The placeholder for a hidden value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Replaces the content of Secrets by hashes."""

    salt: bytes = field(repr=False)
    """Makes the hashes of one run differ from those of any other."""

    def masked(self, body: Mapping[str, Any], hidden: HiddenPaths) -> dict[str, Any]:
        """An object with hashes in place of its hidden fields."""
        metadata = body.get("metadata") or {}
        names = (body.get("apiVersion"), body.get("kind"), metadata.get("namespace"), metadata.get("name"))
        return replaced(body, hidden, partial(self._hashed, names))

    def _hashed(self, of: tuple[Any, ...], path: FieldPath, value: Any) -> str:
        text = json.dumps([*of, path, value], sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=_HASH_BYTES, key=self.salt)
        return f"(hash {digest.hexdigest()})"

"""The fields of a manifest that hold a Secret's content, because the render put it there.

Promises:
- Whether a field is one of them depends on the origin of its value, not on the value: a parent's text that equals a
  Secret is no content.
- A path that the API server writes matches a field regardless of positions in lists, because the server merges lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.cluster_view import Question
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.source_location import FieldPath, field_text

HIDDEN = "(a Secret's content)"
"""Stands for a Secret's content in a message."""

_IDENTITY = frozenset({("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")})
_PARTS = re.compile(r"[^.\[\]]+")


class SecretFields(Struct, frozen=True):
    """The fields of one manifest."""

    paths: tuple[FieldPath, ...] = ()
    """The outermost fields; `()` is the whole manifest."""
    keys: bool = False
    """Whether names of fields are content, too."""

    def __bool__(self) -> bool:
        return bool(self.paths)

    def __or__(self, other: SecretFields) -> SecretFields:
        if other == self:
            return self
        return SecretFields(tuple(dict.fromkeys((*self.paths, *other.paths))), self.keys or other.keys)

    @property
    def name_object(self) -> bool:
        """Whether the object's identity is content."""
        return bool(self.paths) and any(not path or path in _IDENTITY for path in self.paths)

    @property
    def names_kind(self) -> bool:
        """Whether the object's kind is content."""
        return any(path in ((), ("apiVersion",), ("kind",)) for path in self.paths)

    @property
    def names_namespace(self) -> bool:
        """Whether the object's namespace is content."""
        return any(path in ((), ("metadata",), ("metadata", "namespace")) for path in self.paths)

    @property
    def instruct(self) -> bool:
        """Whether an instruction to the operator is content."""
        annotations = ("metadata", "annotations")
        if not self.paths:
            return False
        return self.name_object or any(
            path[:2] == annotations and (path == annotations or str(path[2]).startswith(PREFIX)) for path in self.paths
        )

    def covers(self, field: str) -> bool:
        """Whether a field, as the API server spells its path, holds content, or is part of it."""
        parts = _parts(field)
        return any(_agree(parts, _parts_of(path)) for path in self.paths)

    def shown(self, field: str) -> str:
        """A field's path, without names that are content."""
        parts = _parts(field)
        for path in self.paths if self.keys else ():
            own = _parts_of(path)
            if len(own) < len(parts) and _agree(parts, own):
                return field_text(path) if path else HIDDEN
        return field


NO_SECRET_FIELDS = SecretFields()

VALUES = SecretFields(((),))
"""The fields of a manifest in which any value may be content."""

WHOLE = SecretFields(((),), keys=True)
"""The fields of a manifest in which any part may be content, including names of fields and the manifest's own name."""


class ParentSecrets(Struct, frozen=True, kw_only=True):
    """Where a render put the contents of Secrets."""

    children: Mapping[Identity, SecretFields] = NOTHING
    """The fields of each child that holds content."""
    queries: frozenset[Question] = frozenset()
    """The queries whose names are content."""
    read: bool = False
    """Whether the templates read a Secret or generated a value."""
    read_others: bool = False
    """Whether they read a Secret that is not a child, or the parent is one: where former templates put the content of
    such a Secret is unknown.
    """

    @property
    def name_objects(self) -> bool:
        """Whether a content names an object, so that messages about other objects may name it, too."""
        return bool(self.queries) or any(fields.name_object for fields in self.children.values())

    def of(self, identity: Identity) -> SecretFields:
        """The fields of a child."""
        return self.children.get(identity, NO_SECRET_FIELDS)

    def of_kind(self, kind: GroupKind) -> tuple[FieldPath, ...]:
        """The fields of all children of a kind."""
        return tuple(
            path for child, fields in self.children.items() if child.group_kind == kind for path in fields.paths
        )

    def shown(self, identity: Identity) -> Identity:
        """The identity of a child as a message may show it."""
        fields = self.of(identity)
        if not fields.name_object:
            return identity
        return Identity("", HIDDEN, "", "") if fields.names_kind else Identity(*identity.group_kind, "", HIDDEN)


NO_SECRETS = ParentSecrets()


def _parts(field: str) -> tuple[str, ...]:
    return tuple(part for part in _PARTS.findall(field) if not part.isdecimal())


def _parts_of(path: Iterable[str | int]) -> tuple[str, ...]:
    return tuple(part for step in path if isinstance(step, str) for part in _parts(step))


def _agree(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one path leads to the other."""
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


def is_secret(body: Mapping[str, Any]) -> bool:
    """Whether an object is a Secret."""
    return (body.get("apiVersion"), body.get("kind")) == ("v1", "Secret")

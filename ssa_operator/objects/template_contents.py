"""What the templates of a folder can render and look up for any parent, as far as their text shows.

Promises:
- A value that only a render can determine is None, and `unknown` names its template line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.source_location import SourceLocation

PARENT_NAMESPACE = "{namespace}"
"""The namespace of a manifest or lookup in the parent's namespace. It is not a valid name, so no namespace has it."""


class RoleReference(Struct, frozen=True):
    """The role that a binding grants."""

    kind: str
    """Role or ClusterRole."""
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleManifest:
    """A manifest that a template renders for some parents."""

    group_kind: GroupKind
    location: SourceLocation
    """The template line of its kind."""
    namespace: str | None = PARENT_NAMESPACE
    """None if only a render knows it."""
    finalize_hook: bool = False
    """Whether it may be a finalize hook."""
    recreated: bool = False
    """Whether the operator may delete and recreate its object."""
    generated_values: bool = False
    """Whether its file generates values."""
    pruned: bool = True
    """Whether the operator may prune its object."""
    role: RoleReference | None = None
    """The role that a RoleBinding or ClusterRoleBinding grants, None if only a render knows it."""
    name: str = ""
    """Its kind and the text of its name, expressions included; '' if several are possible."""
    role_name: str = ""
    """The same of the role that it grants."""
    rules: tuple[Mapping[str, Any], ...] | None = field(default=None, hash=False)
    """The rules of a Role or ClusterRole, None if only a render knows them."""


class PossibleLookup(Struct, frozen=True, kw_only=True):
    """A call of `lookup` or `lookup_all`."""

    group_kind: GroupKind
    location: SourceLocation
    """The template line of the call."""
    name: str | None = None
    """The name of the object; None for every object, or if only a render knows it."""
    namespace: str | None = PARENT_NAMESPACE
    """'' for all namespaces; None if only a render knows it."""
    selects: bool = False
    """Whether it is a call of `lookup_all`."""


class PossibleField(Struct, frozen=True, kw_only=True):
    """A field of the parent that a template reads: `spec`, then `spec.a`, then `spec.a.b`."""

    path: tuple[str, ...]
    location: SourceLocation


class UnknownPart(Struct, frozen=True):
    """A part of a template whose value only a render knows."""

    message: str
    """What is not known."""
    location: SourceLocation

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


class TemplateContents(Struct, frozen=True, kw_only=True):
    """Everything that the templates of one folder can render and look up."""

    manifests: tuple[PossibleManifest, ...] = ()
    lookups: tuple[PossibleLookup, ...] = ()
    fields: tuple[PossibleField, ...] = ()
    unknown: tuple[UnknownPart, ...] = ()
    """The parts that the text of the templates doesn't show."""
    warns: bool = False
    """Whether a template emits Events with `warn`."""

    @property
    def kinds(self) -> dict[GroupKind, SourceLocation]:
        """All kinds, each with the first template line that names it."""
        uses: list[PossibleManifest | PossibleLookup] = [*self.manifests, *self.lookups]
        return {each.group_kind: each.location for each in reversed(uses)}

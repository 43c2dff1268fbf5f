"""Compares the children of parents that have the same spec, whatever the parents' names, namespaces and uids are.

Promises:
- The parents' namespaces and uids make no difference, even if texts and the children's names contain them.
- Only what the operator applies is compared: not the status, not the API server's defaults, not fields that only other
  field managers own, and not the operator's own labels and annotations.
- Values that differ between two new parents of one spec don't count: generated values, times, addresses, checksums.
- An object that is applied only once, or only if it is absent, is not compared.
- A difference has no Secret's content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ssa_operator.objects.annotations import PREFIX, ApplyPolicy
from ssa_operator.objects.field_attribution import Writer, attribute
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, location_data
from ssa_operator.reconcile.secrets.content_fields import ContentFields, hidden_in_live, prefix_of

ABSENT = "(absent)"
"""The placeholder for a field or an object that one of the two lacks."""

_COMPARED_METADATA = frozenset({"annotations", "labels", "ownerReferences"})

_APPLIED = frozenset({Writer.TEMPLATE, Writer.OPERATOR, Writer.EARLIER_TEMPLATE})
"""The writers of the compared fields. A default stays as it was at the creation of the object, for example the
`imagePullPolicy` of a container whose image changes.
"""


class FieldState(Struct, frozen=True, kw_only=True):
    """A field of a child."""

    value: Any
    shown: str
    """The value as a message may show it."""
    location: SourceLocation | None = None
    """The template line that wrote the field, else that of the manifest."""


class ChildState(Struct, frozen=True, kw_only=True):
    """A child, comparable with that of another parent."""

    name: str
    """`Kind/name`, without the parent's namespace and uid."""
    uid: str
    fields: Mapping[str, FieldState]
    compared: bool = True
    """False for an object that is applied once, or only if it is absent."""
    location: SourceLocation | None = None


class ChildDifference(Struct, frozen=True, kw_only=True):
    """A field of a child, or a whole child, that differs."""

    child: str
    field: str
    """'' if one of the parents lacks the child."""
    found: str
    expected: str
    location: SourceLocation | None = None

    def data(self) -> dict[str, Any]:
        """The data for `--output json`."""
        data = {"child": self.child, "field": self.field, "found": self.found, "expected": self.expected}
        return data | location_data(self.location)


class Names(Struct, frozen=True):
    """What is replaced in the names and texts of a parent's children: longer texts first."""

    replaced: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, parent: LiveObject, *, own_name: bool) -> Names:
        """The namespace and the uid of a parent, and its name if the compared parents have other names."""
        identity = parent.identity
        known = [(parent.uid, "<uid>"), (parent.uid.replace("-", ""), "<uid>")]
        known += [(identity.namespace, "<namespace>")] if identity.namespace else []
        known += [(identity.name, "<name>")] if own_name else []
        return cls(tuple(known))

    def text(self, text: str) -> str:
        """A text without them."""
        for old, new in self.replaced:
            text = text.replace(old, new)
        return text

    def value(self, value: Any) -> Any:
        """A value without them."""
        return self.text(value) if isinstance(value, str) else value


def child_state(live: LiveObject, content: ContentFields, names: Names) -> ChildState:
    """The state of a live child, with what the templates render for it and where they put content."""
    manifest, hidden = content.manifest, hidden_in_live(live, content)
    start = manifest.document.location if manifest is not None else None
    fields: dict[str, FieldState] = {}
    for each in attribute(live, manifest):
        if each.writer not in _APPLIED or not _is_compared(each.path):
            continue
        value, above = names.value(each.value), prefix_of(each.path, hidden)
        if above is not None:
            # Names below a hidden field are hidden, too.
            text = names.text(field_text(above))
            value = [*(fields[text].value if text in fields else ()), each.path, value]
            fields[text] = FieldState(value=value, shown=HIDDEN, location=each.location or start)
        else:
            shown = value if isinstance(value, str) else str(value)
            fields[names.text(field_text(each.path))] = FieldState(
                value=value, shown=shown, location=each.location or start
            )
    return ChildState(
        name=names.text(f"{live.identity.kind}/{live.identity.name}"),
        uid=live.uid,
        fields=fields,
        compared=manifest is None or manifest.instructions.apply is ApplyPolicy.ALWAYS,
        location=start,
    )


def _is_compared(path: FieldPath) -> bool:
    if path[0] == "metadata":
        own = len(path) > 2 and path[1] in ("annotations", "labels") and str(path[2]).startswith(PREFIX)
        return len(path) > 1 and path[1] in _COMPARED_METADATA and not own
    return path[0] != "status"


class Variation(Struct, frozen=True):
    """What differs between two new parents of one spec."""

    children: frozenset[str] = field(default_factory=frozenset)
    fields: frozenset[tuple[str, str]] = field(default_factory=frozenset)


def variation(one: Sequence[ChildState], other: Sequence[ChildState]) -> Variation:
    """What differs between the children of two new parents."""
    found = children_differences(one, other)
    return Variation(
        children=frozenset(each.child for each in found if not each.field),
        fields=frozenset((each.child, each.field) for each in found if each.field),
    )


def children_differences(
    found: Sequence[ChildState], expected: Sequence[ChildState], ignored: Variation | None = None
) -> list[ChildDifference]:
    """How the children of a parent differ from those that are expected."""
    ignored = ignored or Variation()
    ours, theirs = ({child.name: child for child in children} for children in (found, expected))
    differences: list[ChildDifference] = []
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name), theirs.get(name)
        if name in ignored.children or any(each is not None and not each.compared for each in (one, other)):
            continue
        if one is None or other is None:
            differences.append(_missing(name, one, other))
            continue
        differences += [each for each in _fields_differ(one, other) if (name, each.field) not in ignored.fields]
    return differences


def _missing(name: str, one: ChildState | None, other: ChildState | None) -> ChildDifference:
    known = one or other
    assert known is not None
    return ChildDifference(
        child=name,
        field="",
        found=ABSENT if one is None else "exists",
        expected=ABSENT if other is None else "exists",
        location=known.location,
    )


def _fields_differ(one: ChildState, other: ChildState) -> list[ChildDifference]:
    differences = []
    for path in dict.fromkeys((*one.fields, *other.fields)):
        ours, theirs = one.fields.get(path), other.fields.get(path)
        if ours is not None and theirs is not None and ours.value == theirs.value:
            continue
        known = ours or theirs
        assert known is not None
        found = ABSENT if ours is None else ours.shown
        expected = ABSENT if theirs is None else theirs.shown
        location = known.location or one.location or other.location
        differences.append(
            ChildDifference(child=one.name, field=path, found=found, expected=expected, location=location)
        )
    return differences

"""The author's part of a status: the fields and conditions of `_status.yaml.j2`, and those of them that are dropped.

Promises:
- The author's fields never replace those of the operator, and the author's conditions never replace its conditions.
- A condition that Kubernetes would refuse is dropped alone. Each dropped field has a reason and a template line.
- While the template fails, the author's fields and conditions stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from ssa_operator.objects.field_set import field_set
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.merge_keys import ListIndex
from ssa_operator.objects.messages import MESSAGE_LIMIT, bounded
from ssa_operator.objects.render_result import REASON, StatusFields
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.schema.crd_schema import MISFIT, declared
from ssa_operator.schema.operator_fields import RESERVED


class ConditionType(StrEnum):
    """The conditions of a parent."""

    READY = "Ready"
    """Whether every child matches its manifest and is ready. It always exists."""
    RECONCILING = "Reconciling"
    """Work is in progress. It exists only while it is true."""
    STALLED = "Stalled"
    """Only a change by a user can help. It exists only while it is true."""
    SUSPENDED = "Suspended"
    """Nothing is applied or deleted, because of an annotation or a setting of the folder. It exists only while it is
    true.
    """
    STATUS_TRUNCATED = "StatusTruncated"
    """The object would be too large with its whole status. The message names what is left out. It exists only while it
    is true.
    """


OPERATOR_TYPES = tuple(each.value for each in ConditionType)
"""The types of the operator's conditions."""

CONDITIONS_LIMIT = 64
"""Conditions of the author."""

_WRITTEN = ("type", "status", "reason", "message")
_STATUSES: Mapping[object, str] = {True: "True", False: "False"}
# The patterns and lengths are those of metav1.Condition.
_TYPE = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_TYPE_LIMIT = 316
_REASON_LIMIT = 1024
_DEFAULT_REASON = "Reported"


class DroppedField(Struct, frozen=True):
    """A field of the author's that is not written."""

    path: FieldPath
    """The field below `status`."""
    reason: str
    """Why, and what to do."""
    location: SourceLocation | None = None
    """The template line."""

    @property
    def message(self) -> str:
        return f"{field_text(('status', *self.path))} is dropped: {self.reason}"

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message


class AuthorStatus(Struct, frozen=True, kw_only=True):
    """The author's part of a status."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """The fields without the reserved ones."""
    conditions: tuple[Mapping[str, Any], ...] = ()
    """The conditions with type, status, reason and message; those of an earlier render are complete."""
    dropped: tuple[DroppedField, ...] = ()
    """What is dropped, whatever the CRD declares."""


def author_status(parent: LiveObject, own: StatusFields) -> AuthorStatus:
    """The author's part of the status of a parent, from the result of the status template."""
    if own.problems:
        return last_status(parent)
    dropped = [
        DroppedField((name,), "the operator writes this field itself; give it another name", _location(own, (name,)))
        for name in RESERVED
        if name != "conditions" and name in own.fields
    ]
    conditions, faults = _conditions(own.fields.get("conditions"))
    dropped += [DroppedField(path, reason, _location(own, path)) for path, reason in faults]
    fields = {name: value for name, value in own.fields.items() if name not in RESERVED}
    return AuthorStatus(fields=fields, conditions=tuple(conditions), dropped=tuple(dropped))


def undeclared_fields(
    own: AuthorStatus, rendered: StatusFields, schema: Mapping[str, Any] | None
) -> tuple[DroppedField, ...]:
    """The author's fields that the schema of the status doesn't declare, or declares with another type."""
    if schema is None:
        return ()
    reason = "the CRD doesn't declare this field, or declares another type; declare it in the schema of status"
    lost = _lost(own.fields, declared(own.fields, schema), ())
    return tuple(DroppedField(path, reason, _location(rendered, path)) for path in lost)


def _lost(value: Any, kept: Any, path: FieldPath) -> Iterator[FieldPath]:
    """The paths that a value has and that what is kept of it lacks."""
    if kept is MISFIT:
        yield path
    elif isinstance(value, Mapping) and isinstance(kept, Mapping):
        for name, item in value.items():
            yield from _lost(item, kept.get(name, MISFIT), (*path, name))
    elif isinstance(value, (list, tuple)) and isinstance(kept, list):
        for at, (item, other) in enumerate(zip(value, kept, strict=True)):
            yield from _lost(item, other, (*path, at))


def _location(own: StatusFields, path: FieldPath) -> SourceLocation | None:
    return own.location_of(path) if own.location_of is not None else None


def _conditions(value: Any) -> tuple[list[Mapping[str, Any]], list[tuple[FieldPath, str]]]:
    """The valid conditions of a list, and the paths of what is dropped, each with the reason."""
    if value is None:
        return [], []
    if not isinstance(value, list):
        return [], [(("conditions",), "it must be a list of mappings with type, status, reason and message")]
    conditions: dict[str, Mapping[str, Any]] = {}
    faults: list[tuple[FieldPath, str]] = []
    for at, item in enumerate(value):
        fault = _fault(item, conditions)
        if fault:
            faults.append((("conditions", at), fault))
            continue
        conditions[item["type"]] = _condition(item)
        faults += [
            (("conditions", at, name), _EXTRA.get(name, "a condition has type, status, reason and message only"))
            for name in item
            if name not in _WRITTEN
        ]
    return [*conditions.values()], faults


_EXTRA: Mapping[str, str] = {
    "lastTransitionTime": "the operator sets it when the status of the condition changes",
    "observedGeneration": "the operator sets it",
}


def _fault(item: Any, before: Mapping[str, Any]) -> str | None:
    """Why a condition is dropped, None if it is valid. The text contains no value."""
    if not isinstance(item, Mapping):
        return "a condition must be a mapping with type, status, reason and message"
    kind, status, reason = item.get("type"), item.get("status"), item.get("reason")
    if not isinstance(kind, str) or len(kind) > _TYPE_LIMIT or not re.fullmatch(_TYPE, kind):
        return "type must be a name in CamelCase, such as DatabaseAvailable"
    if kind in OPERATOR_TYPES:
        return f"the operator writes the condition {kind} itself; give yours another type"
    if kind in before:
        return "another condition has the same type"
    if len(before) >= CONDITIONS_LIMIT:
        return f"a status has at most {CONDITIONS_LIMIT} conditions"
    if status is not None and not isinstance(status, bool) and status not in ("True", "False", "Unknown"):
        return "status must be True, False or Unknown"
    if reason and (not isinstance(reason, str) or len(reason) > _REASON_LIMIT or not REASON.fullmatch(reason)):
        return "reason must be one word in CamelCase, such as PodsRunning; put sentences into message"
    message = item.get("message")
    if message is not None and not isinstance(message, str):
        return "message must be a text"
    return None


def _condition(item: Mapping[str, Any]) -> dict[str, Any]:
    """A valid condition. A status that is not known is Unknown; a bool is written as Kubernetes does."""
    status = item.get("status")
    written = _STATUSES[status] if isinstance(status, bool) else status or "Unknown"
    message = bounded(item.get("message") or "", MESSAGE_LIMIT)
    return {
        "type": item["type"],
        "status": written,
        "reason": item.get("reason") or _DEFAULT_REASON,
        "message": message,
    }


def last_status(parent: LiveObject) -> AuthorStatus:
    """The author's fields and conditions in the live status: those that the operator owns and doesn't write itself."""
    status, owned = parent.body.get("status"), parent.owned_fields("status")
    if not owned or not isinstance(status, Mapping):
        return AuthorStatus()
    names = field_set(owned).get("f:status", {})
    fields = {key: value for key, value in status.items() if f"f:{key}" in names and key not in RESERVED}
    return AuthorStatus(fields=fields, conditions=tuple(_last_conditions(status.get("conditions"), names)))


def _last_conditions(conditions: Any, names: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    owned = names.get("f:conditions")
    if not isinstance(conditions, list) or owned is None:
        return
    if owned:
        index = ListIndex(conditions)
        conditions = [conditions[found[0]] for key in owned if key[:2] == "k:" and (found := index.positions(key))]
    for condition in conditions:
        if isinstance(condition, Mapping) and condition.get("type") not in OPERATOR_TYPES:
            yield condition

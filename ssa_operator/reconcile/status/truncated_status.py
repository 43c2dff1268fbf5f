"""A status that does not fit into its parent: etcd takes 1.5 MiB of an object by default, its spec included.

Promises:
- `resources` is left out first, and only then the author's fields and conditions. The operator's conditions stay.
- The condition `StatusTruncated` names what is left out, and what to do.
- The whole status is tried again when the parent's spec has changed, or when the status is smaller than the one that
  didn't fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.status.author_status import OPERATOR_TYPES, ConditionType
from ssa_operator.reconcile.status.conditions import with_transition_time
from ssa_operator.schema.operator_fields import RESERVED


class Omission(IntEnum):
    """What is left out of a status."""

    NOTHING = 0
    RESOURCES = 1
    """The field `resources`."""
    AUTHOR = 2
    """The fields and conditions of the author, too."""


class Truncation(Struct, frozen=True, kw_only=True):
    """A whole status that did not fit."""

    size: int
    """Its bytes."""
    generation: int | None
    """The parent's generation."""
    omission: Omission


def fitting(status: Mapping[str, Any], known: Truncation | None, parent: LiveObject, now: float) -> Mapping[str, Any]:
    """The status, or the rest of it if it is known not to fit; `now` is in seconds since the epoch."""
    if known is None or known.generation != parent.metadata.generation or len(encode(status)) < known.size:
        return status
    return _without(status, known.omission, parent, now)


def truncate(
    status: Mapping[str, Any], known: Truncation | None, parent: LiveObject, now: float
) -> tuple[Mapping[str, Any], Truncation] | None:
    """What is left of a status that did not fit, and what to remember of it; None if nothing more can be left out."""
    generation = parent.metadata.generation
    if known is None or ConditionType.STATUS_TRUNCATED not in _types(status) or known.generation != generation:
        known = Truncation(size=len(encode(status)), generation=generation, omission=Omission.NOTHING)
    for omission in Omission:
        if omission > known.omission:
            smaller = _without(status, omission, parent, now)
            if smaller.keys() != status.keys() or _types(smaller) < _types(status):
                return smaller, replace(known, omission=omission)
    return None


def _without(status: Mapping[str, Any], omission: Omission, parent: LiveObject, now: float) -> Mapping[str, Any]:
    left = {key: value for key, value in status.items() if key != "resources"}
    conditions = [each for each in status.get("conditions", ()) if each["type"] != ConditionType.STATUS_TRUNCATED]
    what = "resources"
    if omission is Omission.AUTHOR:
        left = {key: value for key, value in left.items() if key in RESERVED}
        conditions = [each for each in conditions if each["type"] in OPERATOR_TYPES]
        what = "resources and the fields of the status template"
    if not conditions:
        return left
    message = (
        f"{what} are left out, because the object would be too large with them; make the spec smaller or divide it"
    )
    said = {
        "type": ConditionType.STATUS_TRUNCATED.value,
        "status": "True",
        "reason": "TooLarge",
        "message": message,
        "observedGeneration": parent.metadata.generation,
    }
    said = dict(with_transition_time(parent, said, now))
    # The schema of the CRD declares the same fields of each condition.
    return {**left, "conditions": [*conditions, {key: said[key] for key in said if key in conditions[0]}]}


def _types(status: Mapping[str, Any]) -> set[str]:
    return {each["type"] for each in status.get("conditions", ())}

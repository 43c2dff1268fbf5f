"""Whether a parent's live status differs from the status that the operator wants.

Promises:
- The operator doesn't write a status that equals the live one.
- Conditions and fields of other writers are no difference.
- A field that only the operator owns, and that it no longer wants, is a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ssa_operator.objects.field_set import field_set, lacking
from ssa_operator.objects.live_object import LiveObject


def differs(live: LiveObject, desired: Mapping[str, Any]) -> bool:
    """Whether writing the desired status would change or remove a field of the live one."""
    current = live.body.get("status")
    if not isinstance(current, (dict, Mapping)):
        return bool(desired)
    others = {key: value for key, value in desired.items() if key != "conditions"}
    if not _includes(current, others) or not _includes_conditions(current, desired.get("conditions", ())):
        return True
    owned = live.owned_fields("status")
    if not owned:
        return False
    fields = field_set(owned).get("f:status", {})
    if fields.get("f:conditions") == {} and len(current.get("conditions", ())) != len(desired.get("conditions", ())):
        # The operator owns the list as a whole: an extra condition no longer holds.
        return True
    # The next write would remove any other field.
    return bool(lacking(fields, desired))


def _includes(current: Any, desired: Any) -> bool:
    """Whether the current value includes the desired one; mappings may have more fields, of other writers."""
    if isinstance(desired, dict):
        has_all = isinstance(current, (dict, Mapping)) and desired.keys() <= current.keys()
        return has_all and all(map(_includes, map(current.__getitem__, desired), desired.values()))
    if isinstance(desired, list):
        same_length = isinstance(current, list) and len(current) == len(desired)
        return same_length and all(map(_includes, current, desired))
    return bool(current == desired) and isinstance(current, bool) == isinstance(desired, bool)


def _includes_conditions(current: Mapping[str, Any], desired: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the current conditions include the desired ones, matched by type."""
    conditions = current.get("conditions", ())
    by_type = {condition.get("type"): condition for condition in conditions if isinstance(condition, (dict, Mapping))}
    return all(_includes(by_type.get(condition.get("type")), condition) for condition in desired)

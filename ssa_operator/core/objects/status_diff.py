"""Whether a live status differs from what we have to say.

Promises:
- A status that says the same is not written again.
- Only our own conditions and fields are compared: what other writers have beside them is no matter.
- A field that only we hold, and do not want any more, is a difference too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.managed_fields import keyed


def differs(live: LiveObject, desired: Mapping[str, Any]) -> bool:
    """Whether writing the desired status would change the live one: a value of it, or a field that only we still
    hold.
    """
    current = live.body.get("status")
    if not isinstance(current, Mapping):
        return bool(desired)
    others = {key: value for key, value in desired.items() if key != "conditions"}
    if not _holds(current, others) or not _holds_conditions(current, desired.get("conditions", ())):
        return True
    owned = live.owned_fields("status")
    if not owned:
        return False
    fields = msgspec.json.decode(owned).get("f:status", {})
    if fields.get("f:conditions") == {} and len(current.get("conditions", ())) != len(desired.get("conditions", ())):
        # The list is atomic and all ours: a condition too many is one that is over.
        return True
    return not _covered(fields, desired)


def _holds(current: Any, desired: Any) -> bool:
    """Whether the current value has everything that is desired; mappings may hold fields of other writers beside it."""
    if isinstance(desired, Mapping):
        return isinstance(current, Mapping) and all(
            key in current and _holds(current[key], value) for key, value in desired.items()
        )
    if isinstance(desired, list):
        same_length = isinstance(current, list) and len(current) == len(desired)
        return same_length and all(_holds(item, wanted) for item, wanted in zip(current, desired, strict=True))
    return bool(current == desired) and isinstance(current, bool) == isinstance(desired, bool)


def _holds_conditions(current: Mapping[str, Any], desired: Sequence[Mapping[str, Any]]) -> bool:
    """Conditions are told apart by type, and other writers' stand beside ours."""
    conditions = current.get("conditions", ())
    by_type = {each.get("type"): each for each in conditions if isinstance(each, Mapping)}
    return all(_holds(by_type.get(condition.get("type")), condition) for condition in desired)


def _covered(owned: Mapping[str, Any], desired: Any) -> bool:
    """Whether every field of a fieldsV1 tree is among the desired ones; what isn't would be removed by the next
    write.
    """
    for key, below in owned.items():
        kind, _, name = key.partition(":")
        if kind == "f":
            if not isinstance(desired, Mapping) or name not in desired or not _covered(below, desired[name]):
                return False
        elif kind == "k":
            item = keyed(desired, name) if isinstance(desired, list) else None
            if item is None or not _covered(below, item):
                return False
        elif kind == "v" and (not isinstance(desired, list) or msgspec.json.decode(name) not in desired):
            return False
    return True

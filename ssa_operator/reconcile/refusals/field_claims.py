"""Claims single fields of a live object in its managedFields, so that the operator's next apply removes them.

Promises:
- A claim changes no content, and is refused if the object has changed since it was read.
- Only fields that no manager owns, or whose manager gives them up, change their owner: every other manager keeps its
  fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import Struct

from ssa_operator.objects.field_set import Path, set_of, split, union
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.managed_fields import (
    FieldOwner,
    entry_owner,
    managed_entries,
    managed_fields_patch,
    with_managed_fields,
)


def gives_up(owner: FieldOwner, former: AbstractSet[str]) -> bool:
    """Whether a manager's field may be taken over: it is a former manager's, was written by a person with kubectl, or
    by admission within an apply of the operator.
    """
    if owner.subresource:
        return False
    by_hand = owner.manager in (MANAGER, "kubectl") or owner.manager.startswith("kubectl-")
    return owner.manager in former or (owner.operation == "Update" and by_hand)


class Claim(Struct, frozen=True):
    """The managedFields in which the operator owns the fields that make way, so that its next apply removes them."""

    patch: bytes
    """The merge patch. It changes nothing else of the object, and has the resourceVersion that was read."""
    live: LiveObject
    """The object as the patch leaves it."""


def claim(live: LiveObject, api_version: str, fields: Sequence[Path], former: AbstractSet[str]) -> Claim:
    """The claim of fields that no manager owns, or one that gives them up. `api_version` is that of the manifest, and
    `former` are the folder's former managers.
    """
    claimed, entries = [set_of(fields)], managed_entries(live)
    times = [entry["time"] for entry in entries if entry.get("time")]
    own: dict[str, Any] = {
        "manager": MANAGER,
        "operation": "Apply",
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": {},
        **({"time": max(times)} if times else {}),
    }
    kept: list[dict[str, Any]] = []
    for entry in entries:
        owner = entry_owner(entry)
        if owner.is_operator:
            own = entry
            continue
        left = entry["fieldsV1"]
        if gives_up(owner, former):
            for path in fields:
                left, taken = split(left, path)
                claimed += [taken] if taken else []
        kept += [{**entry, "fieldsV1": left}] if left else []
    entries = [{**own, "fieldsV1": union([own["fieldsV1"], *claimed])}, *kept]
    return Claim(patch=managed_fields_patch(live, entries), live=with_managed_fields(live, entries))

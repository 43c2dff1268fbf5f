"""The number of replicas that a manifest leaves to others, as to an autoscaler. It outlives the object that has it, and
a template that stops writing it.

An apply removes a field that the operator owned and that the manifest no longer has, and the API server sets the
default: one replica. So the number gets another owner before such an apply, as
https://kubernetes.io/docs/reference/using-api/server-side-apply/#transferring-ownership describes. A patch of
managedFields does that, because it changes the owner and neither the number nor anything else.

Promises:
- It holds for each kind with the subresource `scale`, and for the field that this subresource writes.
- A number that only the operator owns, and that the manifest lacks, goes to HANDOVER_MANAGER. That is an owner by
  Update that no client applies as: the next manager that writes the field takes it, as from any other owner.
- The object that takes the place of a deleted one has its number, and the owners that the number had there. If the
  operator was the only owner, HANDOVER_MANAGER owns it.
- What others set while the old object is being deleted counts, too, as far as a process of the operator sees its end.
- A number in the manifest wins.
- The patch has the resourceVersion that was read: a number that another manager has written meanwhile stays that
  manager's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.field_set import FieldSet, Path, has, set_of, split, union
from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import HANDOVER_MANAGER, MANAGER, LiveObject
from ssa_operator.objects.managed_fields import managed_entries, managed_fields_patch, with_managed_fields
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.source_location import FieldPath, value_at, with_value

SPEC_REPLICAS: FieldPath = ("spec", "replicas")
"""The field that the subresource `scale` of built-in kinds writes."""

OWNERS_LIMIT = 8
"""Owners of one number that are kept."""

ScalePaths: TypeAlias = Callable[[str], FieldPath | None]
"""The field that the subresource `scale` of a kind writes, by the kind's version; None without the subresource."""


class ReplicasOwner(Struct, frozen=True, order=True):
    """A field manager that owns a number."""

    manager: str
    operation: str
    """`Apply` or `Update`."""
    subresource: str = ""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> ReplicasOwner:
        """The owner of an entry of managedFields."""
        return cls(entry.get("manager", ""), entry.get("operation", ""), entry.get("subresource", ""))


_OPERATOR = ReplicasOwner(MANAGER, "Apply")
_HANDOVER = ReplicasOwner(HANDOVER_MANAGER, "Update")


class OthersReplicas(Struct, frozen=True):
    """The number of replicas that others set in an object which the operator deletes and recreates."""

    number: int
    owners: tuple[ReplicasOwner, ...] = ()
    """Its owners, empty if it had none."""


class Handover(Struct, frozen=True, kw_only=True):
    """A number that gets other owners before the operator applies a manifest without it."""

    path: FieldPath
    """The field, in the version of the manifest."""
    number: int
    owners: tuple[ReplicasOwner, ...]
    """The owners from now on."""
    own_path: FieldPath
    """The field in the version of the operator's entry of managedFields."""

    def __str__(self) -> str:
        owners = " and ".join(f"{each.manager} ({each.subresource or each.operation})" for each in self.owners)
        return f"{'.'.join(map(str, self.path))}: {self.number} stays, owned by {owners or 'no manager'}"

    def patch(self, live: LiveObject) -> bytes:
        """The merge patch of a live object that changes the owners."""
        return managed_fields_patch(live, self._entries(live))

    def patched(self, live: LiveObject) -> LiveObject:
        """A live object with the other owners."""
        return with_managed_fields(live, self._entries(live))

    def _entries(self, live: LiveObject) -> list[dict[str, Any]]:
        entries, path = managed_entries(live), _steps(self.own_path)
        own = next(entry for entry in entries if ReplicasOwner.of(entry) == _OPERATOR)
        rest = [{**each, "fieldsV1": split(each["fieldsV1"], path)[0]} if each is own else each for each in entries]
        for owner in self.owners:
            rest = _with_owner(rest, owner, own.get("apiVersion", ""), set_of([path]))
        return rest


def without_operator(replicas: OthersReplicas) -> OthersReplicas:
    """The number without the operator among its owners: users who may edit a parent may write anything into the
    record.
    """
    return replace(replicas, owners=tuple(each for each in replicas.owners[:OWNERS_LIMIT] if each != _OPERATOR))


def others_replicas(manifest: Manifest, live: LiveObject, paths: ScalePaths) -> OthersReplicas | None:
    """What the object that takes the place of a live one gets; None if the manifest has a number, or the live object
    has none.
    """
    if _left_path(manifest, paths) is None:
        return None
    path = paths(live.version)
    number = _number_at(live.body, path)
    if path is None or number is None:
        return None
    return OthersReplicas(number, _owners_after(live, paths, path))


def last_replicas(
    manifest: Manifest, recorded: OthersReplicas | None, gone: LiveObject | None, paths: ScalePaths
) -> OthersReplicas | None:
    """What the object that takes the place of a deleted one gets: what others set in that one last, if its end was
    seen. `recorded` is what they had set before the operator deleted it, None if it recorded nothing.
    """
    if recorded is None or gone is None or not gone.deleting:
        return recorded
    return others_replicas(manifest, gone, paths) or recorded


def with_replicas(manifest: Manifest, replicas: OthersReplicas | None, paths: ScalePaths) -> Manifest:
    """The manifest with the number that others set, where it leaves the field to them."""
    path = _left_path(manifest, paths) if replicas is not None else None
    if replicas is None or path is None:
        return manifest
    return _with_number(manifest, path, replicas.number)


def find_handover(
    manifest: Manifest, live: LiveObject, paths: ScalePaths, replicas: OthersReplicas | None = None
) -> Handover | None:
    """What has to get other owners before a manifest is applied to a live object. `replicas` is what its predecessor
    had, if the operator has recreated it.
    """
    path = _left_path(manifest, paths)
    if path is None:
        return None
    own_path = _path_in(live.own_api_version(), paths, path)
    if f'"f:{own_path[-1]}"'.encode() not in live.owned_fields():
        return None  # as nearly always, which is decided without decoding
    number = _number_at(live.body, paths(live.version) or path)
    if number is None or _owners_of(live, paths, path) != (_OPERATOR,):
        return None  # if others own it, too, it stays
    owners = (_HANDOVER,) if replicas is None else replicas.owners
    return Handover(path=path, number=number, owners=owners, own_path=own_path)


def with_handed_over(manifest: Manifest, handover: Handover) -> Manifest:
    """The manifest with the number that is handed over, for a dry run: no dry run has an effect on the next one."""
    return _with_number(manifest, handover.path, handover.number)


def _left_path(manifest: Manifest, paths: ScalePaths) -> FieldPath | None:
    """The field of the number if the manifest leaves it to others, None if it writes it or its kind has none."""
    path = paths(manifest.version)
    if path is None or value_at(manifest.body, path) is not None:
        return None
    for end in range(1, len(path)):
        above = value_at(manifest.body, path[:end])
        if above is not None and not isinstance(above, Mapping):
            return None  # the API server refuses the manifest
    return path


def _owners_after(live: LiveObject, paths: ScalePaths, path: FieldPath) -> tuple[ReplicasOwner, ...]:
    """The owners of the number in the object that takes the place of a live one."""
    owners = _owners_of(live, paths, path)
    others = tuple(owner for owner in owners if owner != _OPERATOR)[:OWNERS_LIMIT]
    return others or ((_HANDOVER,) if owners else ())


def _owners_of(live: LiveObject, paths: ScalePaths, path: FieldPath) -> tuple[ReplicasOwner, ...]:
    return tuple(
        dict.fromkeys(
            ReplicasOwner.of(entry)
            for entry in managed_entries(live)
            if has(entry["fieldsV1"], _steps(_path_in(entry.get("apiVersion", ""), paths, path)))
        )
    )


def _path_in(api_version: str, paths: ScalePaths, path: FieldPath) -> FieldPath:
    """The field in the version of an entry of managedFields."""
    return paths(split_api_version(api_version)[1]) or path


def _number_at(body: Mapping[str, Any], path: FieldPath | None) -> int | None:
    number = None if path is None else value_at(body, path)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _with_number(manifest: Manifest, path: FieldPath, number: int) -> Manifest:
    body = with_value(manifest.body, path, number)
    return replace(manifest, body=body, encoded=encode(body))


def _steps(path: FieldPath) -> Path:
    return tuple(f"f:{part}" for part in path)


def _with_owner(
    entries: Iterable[dict[str, Any]], owner: ReplicasOwner, api_version: str, fields: FieldSet
) -> list[dict[str, Any]]:
    found = list(entries)
    for at, entry in enumerate(found):
        if ReplicasOwner.of(entry) == owner and entry.get("apiVersion", "") == api_version:
            found[at] = {**entry, "fieldsV1": union([entry["fieldsV1"], fields])}
            return found
    new = {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return [*found, new | ({"subresource": owner.subresource} if owner.subresource else {})]

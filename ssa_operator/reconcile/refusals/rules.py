"""Interprets a refused apply by the live object and its managedFields: why it is refused, and what the operator may
try.

An apply merges a manifest into the existing object: defaults of an earlier manifest, fields of other managers, changes
by admission. The API server may then refuse the whole although the manifest is valid. The same manifest under another
name (`fresh`, a dry run) shows what the object would be without all that.

Promises:
- A manifest whose values at a refused immutable field are live already, or whose new object would be as the live one
  there, is not what changes it: admission is.
- Only a field beside or below a refused one makes way for the manifest, only if the new object would not have it, and
  only if no manager owns it, or one does that an adoption takes fields from or that is kubectl's hand.
- A value stays only if others moved it, and the API server or admission refuses the way back and not the way on.
- If admission denies a new object, or the value itself, that is not a denied way back.
- A field of any other manager stays, and the message names that manager, since when, and what ends it.
- The number of trials is bounded, and a trial takes no more than is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.field_set import FieldSets, Path, covers, field_names
from ssa_operator.objects.json_codec import encode, pointer_part
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.managed_fields import (
    FieldOwner,
    FieldOwners,
    is_content,
    is_in_version,
    other_entries,
    owned_by,
)
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.objects.scalars import amounts, is_percentage
from ssa_operator.objects.source_location import names_in, parse_field, with_value
from ssa_operator.reconcile.field_changes import differences
from ssa_operator.reconcile.immutable_fields import ROOT, immutable_fields, mutable_fields, spelled
from ssa_operator.reconcile.merged_outcomes import merged
from ssa_operator.reconcile.refusals.field_claims import gives_up
from ssa_operator.reconcile.refusals.known_refusals import LISTED, KeptValue, field_shown, without_kept

TRIALS = 8
"""Candidates at most. Each costs a dry run or two, once for each manifest that is refused."""

FIELDS = 16
"""Refused fields that are read. The API server may name one for each entry of a mapping."""

_QUANTITIES = frozenset(
    {"capacity", "default", "defaultRequest", "divisor", "hard", "limits", "max", "min", "overhead", "requests"}
    | {"sizeLimit", "storage"}
)
"""Fields of Kubernetes' kinds that are quantities, or mappings of quantities."""


class RefusedApply(Struct, frozen=True, kw_only=True):
    """A manifest that the API server refuses to apply to a live object."""

    manifest: Manifest
    live: LiveObject
    former: AbstractSet[str]
    """The folder's former managers."""
    fields: tuple[tuple[str, ...], ...] = ((),)
    """The refused fields, without positions of lists; () is the whole object."""
    immutable: tuple[str, ...] = ()
    """The refused fields that are immutable."""
    custom: bool = False
    """Whether the object is a custom resource with a known schema."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A field that may make way for the manifest (`kept` is None), or a value that may stay."""

    steps: Path
    owners: tuple[FieldOwner, ...] = ()
    kept: KeptValue | None = None
    live: Any = None
    """The live value of one that may stay."""


class Findings(Struct, frozen=True, kw_only=True):
    """What the live object has beside the manifest around the refused fields."""

    candidates: tuple[Candidate, ...]
    """The nearest first."""
    of_others: tuple[Candidate, ...]
    """The fields of managers that give up nothing, and immutable fields and items of lists of any manager."""

    @property
    def named(self) -> tuple[Candidate, ...]:
        """The fields of other managers that a message names where no candidate helps."""
        return (*self.of_others, *(each for each in self.candidates[:1] if each.owners))


def read_refusal(
    manifest: Manifest,
    live: LiveObject,
    refusals: Sequence[FieldRefusal],
    schema: Mapping[str, Any] | None,
    former: AbstractSet[str],
) -> RefusedApply | None:
    """The refused apply, None if the API server refuses the metadata alone. `schema` is that of the object's CRD."""
    fields = [each.field for each in refusals if each.field and not each.field.startswith(("metadata", "status"))]
    if not fields:
        return None
    paths = (() if field == ROOT else parse_field(spelled(field), live.body) for field in fields[:FIELDS])
    return RefusedApply(
        manifest=manifest,
        live=live,
        fields=tuple(dict.fromkeys(map(names_in, paths))),
        immutable=immutable_fields(manifest.identity.group_kind, refusals, schema),
        custom=schema is not None,
        former=former,
    )


def is_quantity(_api_version: str, _kind: str, path: Sequence[str]) -> bool:
    """Whether two spellings of one amount are the same in a field."""
    return not _QUANTITIES.isdisjoint(path)


def changes_nothing(refused: RefusedApply, fresh: LiveObject | None) -> bool:
    """Whether all that the manifest says is live already, or the new object would have it as the live one has."""
    return next(_own_changes(refused, fresh), None) is None


def changes_nothing_immutable(refused: RefusedApply, fresh: LiveObject | None) -> bool:
    """The same of all that the manifest says at the immutable fields: to recreate the object would change nothing."""
    paths = [parse_field(spelled(field), refused.live.body) for field in refused.immutable]
    kind = refused.manifest.identity.group_kind
    fields = [(names_in(path), mutable_fields(kind, path)) for path in paths]
    return not any(_is_at(names, *field) for names in _own_changes(refused, fresh) for field in fields)


def _is_at(names: tuple[str, ...], field: tuple[str, ...], mutable: AbstractSet[str]) -> bool:
    below = names[: len(field)] == field and (len(names) == len(field) or names[len(field)] not in mutable)
    return below or field[: len(names)] == names


def _own_changes(refused: RefusedApply, fresh: LiveObject | None) -> Iterator[tuple[str, ...]]:
    after = merged(refused.live, refused.manifest, is_quantity)
    new = None if fresh is None else IndexedBody(fresh.body)
    for path, live, _ in differences(refused.live, after):
        if new is None or live is None or new.value_at(path) != live:
            yield field_names(path)


def admission_changes(refused: RefusedApply, fresh: LiveObject | None) -> list[tuple[Path, Any, Any]]:
    """The fields that a new object of the manifest has otherwise than the manifest and the live object, each with the
    manifest's value and its own.
    """
    if fresh is None:
        return []
    found, body = [], IndexedBody(refused.manifest.body)
    for steps, live, made in differences(refused.live, fresh):
        if made is None or not is_content(steps) or (live is None and made == {}):
            continue
        wanted = body.value_at(steps)
        if wanted != made and (live is None or wanted is not None):
            found.append((steps, wanted, made))
    return found


def find_candidates(refused: RefusedApply, fresh: LiveObject | None) -> Findings:
    """What may be tried. `fresh` is the object that the manifest would become under another name; without it, what the
    manifest lacks counts as what the new object lacks.
    """
    live = refused.live
    sets = FieldSets()
    own, entries = owned_by(live, read=sets), other_entries(live, read=sets)
    # A field without an owner in managedFields of another version may have one.
    known = bool(live.managed_fields) and all(is_in_version(entry, live) for entry in live.managed_fields)
    made = fresh if fresh is not None else LiveObject.of({**refused.manifest.body})
    candidates: list[Candidate] = []
    of_others: list[Candidate] = []
    body = IndexedBody(refused.manifest.body)
    around = [
        (near, *difference)
        for difference in differences(live, made, sets)
        if (near := _distance(refused, difference[0])) is not None
    ]
    around.sort(key=lambda each: each[0])
    others = FieldOwners(entries, [steps for _, steps, _, _ in around])
    for _, steps, value, wanted in around:
        if not is_content(steps) or value is None:
            continue
        owners = others.covering(steps)
        found = Candidate(steps=steps, owners=owners)
        is_ours, given_up = covers(own, steps), all(gives_up(owner, refused.former) for owner in owners)
        if wanted is not None:
            if not owners or is_ours:
                continue
            if (kept := _may_stay(refused, steps, value, wanted, body)) is not None:
                candidates.append(replace(found, kept=kept, live=value))
            elif refused.immutable or not given_up:
                of_others.append(found)
        # An item of a list is no field of the refusal.
        elif given_up and steps[-1].startswith("f:") and (owners or (known and not is_ours)):
            candidates.append(found)
        elif owners:
            of_others.append(found)
    return Findings(candidates=tuple(candidates), of_others=tuple(of_others))


def _distance(refused: RefusedApply, steps: Path) -> int | None:
    """0 for a field at, above or below a refused one, 1 for one in the same mapping, None for any other."""
    names, found = field_names(steps), None
    for field in refused.fields:
        if names[: len(field)] == field or field[: len(names)] == names:
            return 0
        if names[:-1] == field[:-1]:
            found = 1
    return found


def _may_stay(refused: RefusedApply, steps: Path, live: object, wanted: object, body: IndexedBody) -> KeptValue | None:
    """The manifest's value of a field that others moved, if both are amounts. `body` is the manifest's."""
    if refused.custom and not refused.immutable:
        return None  # a rule that doesn't read the old object refuses the value itself
    names = field_names(steps)
    if not any(names[: len(field)] == field for field in refused.fields):
        return None
    found = amounts(live, wanted)
    path = body.place(steps) if found is not None and found[0] != found[1] else ()
    return KeptValue(path=path, steps=steps, wanted=wanted) if len(path) == len(steps) else None


# Trials.


def beside(candidate: Candidate, manifest: Manifest) -> tuple[bytes, bytes | None]:
    """The manifest with two values beside the live one that may stay: one that is farther from the manifest's, to tell
    a value that goes one way from an immutable one; and one a bit back, to tell it from a value that has a limit. None
    if nothing is between the live value and the manifest's.
    """
    kept = candidate.kept
    assert kept is not None
    found = amounts(candidate.live, kept.wanted)
    assert found is not None
    live, wanted = found
    one = 1 if live > wanted else -1
    back = (live + wanted) / 2 if live % 1 or wanted % 1 else live - one
    farther, nearer = (
        encode(with_value(manifest.body, kept.path, _spelled(number, candidate.live))) for number in (live + one, back)
    )
    return farther, None if back == wanted else nearer


def _spelled(number: Decimal, like: object) -> int | str:
    """A number, spelled as another value is."""
    value = int(number) if isinstance(like, int) else format(number.normalize(), "f")
    return f"{value}%" if is_percentage(like) else value


def merged_patch(claimed: LiveObject, manifest: Manifest) -> tuple[bytes, LiveObject]:
    """The JSON patch of a dry run that shows what an apply would leave of a claimed object, and that object as far as
    it is known without the API server.
    """
    after = merged(claimed, manifest, is_quantity)
    operations: list[dict[str, Any]] = []
    for pointer, before, now in (
        ("", claimed.body, after.body),
        ("/metadata", claimed.body["metadata"], after.body["metadata"]),
    ):
        for key in dict.fromkeys((*before, *now)):
            if key in _NOT_PATCHED or before.get(key) == now.get(key):
                continue
            change = {"op": "add", "value": now[key]} if key in now else {"op": "remove"}
            operations.append({**change, "path": f"{pointer}/{pointer_part(key)}"})
    return encode(operations), after


_NOT_PATCHED = frozenset({"apiVersion", "kind", "managedFields", "metadata", "status"})


# Messages.


def drop_message(dropped: Sequence[Candidate]) -> str:
    """What makes way for the manifest, for messages."""
    shown = [
        f"{field_shown(each.steps)}, which {' and '.join(map(str, each.owners))} wrote, is taken over"
        if each.owners
        else f"{field_shown(each.steps)}, which no manager owns, is dropped"
        for each in dropped[:LISTED]
    ]
    more = len(dropped) - LISTED
    return "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def others_message(of_others: Sequence[Candidate], former: AbstractSet[str]) -> str | None:
    """Which fields of other managers the API server refuses together with the manifest, and what ends that.
    None without any.
    """
    shown = []
    for each in of_others[:LISTED]:
        owner = max(each.owners, key=lambda owner: owner.time)
        since = f" at {owner.time}" if owner.time else ""
        shown.append(f"{field_shown(each.steps)} is of {owner}, written{since}")
    if not shown:
        return None
    fields = [each for each in of_others[:LISTED] if each.steps[-1].startswith("f:")]
    owners = [owner for each in fields for owner in each.owners if not gives_up(owner, former)]
    managers = ", ".join(dict.fromkeys(owner.manager for owner in owners))
    more = f" and {len(of_others) - LISTED} more" if len(of_others) > LISTED else ""
    ends = "; have that manager remove it"
    if managers:
        ends += (
            f", or name {managers} in formerManagers of the folder's _settings.yaml: then the operator takes it over"
        )
    return (
        f"the object has what another manager wrote, which doesn't go with the manifest: {'; '.join(shown)}{more}{ends}"
    )


def with_kept(manifest: Manifest, chosen: Sequence[Candidate]) -> Manifest:
    """The manifest without the chosen values that stay."""
    return without_kept(manifest, [each.kept for each in chosen if each.kept is not None])

"""The operator's records on a parent: annotations and a finalizer, which outlive the operator's process.

Promises:
- Before the operator creates a child that Kubernetes can't collect with its parent, it records the child in the
  inventory, in the same write that adds the finalizer. At whatever moment the process dies, the record leads to the
  object.
- An inventory entry is removed only when its object is known to be gone. The parent has the finalizer only while
  something needs it.
- A record or finalizer that is no longer needed is removed whichever field managers own it, and only if the parent is
  as the operator read it.
- A held prune stays held when another operator process takes over.
- Before the operator applies the first object of a kind, it records the kind. So another process finds the objects of
  kinds that no template renders any more, and knows the template set that rendered them.
- An object waits for no other object of its own or of a later wave; the waves are deleted in reverse order.
- A record in a format that this version doesn't read is reported. It never counts as an absent one.
- A parent with the finalizer names the selector of its operator, so that another one leaves its deletion alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Generic, TypeVar

from msgspec import DecodeError, Meta, Struct, field
from msgspec.structs import replace

from ssa_operator.core.objects.annotations import PREFIX
from ssa_operator.core.objects.identity import GroupKind, Identity, join_api_version, segment_fault
from ssa_operator.core.objects.json_decoding import decoder
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.manifest import Manifest
from ssa_operator.core.objects.messages import bounded

INVENTORY_ANNOTATION = f"{PREFIX}inventory"
"""The annotation with the children that have no owner reference, so that the operator can delete them."""

ONCE_ANNOTATION = f"{PREFIX}once"
"""The annotation with the manifests that were applied once, and are not applied again."""

HELD_PRUNE_ANNOTATION = f"{PREFIX}held"
"""The annotation with a held prune."""

GENERATED_VALUES_ANNOTATION = f"{PREFIX}generated-values"
"""The annotation with the children that are being recreated and whose generated values a Secret keeps meanwhile. It
names the children only.
"""

APPLIED_ANNOTATION = f"{PREFIX}applied"
"""The annotation with the kinds of the children that were applied, and a digest of the templates that rendered them."""

SELECTOR_ANNOTATION = f"{PREFIX}selector"
"""The annotation with the `--selector` of the operator that gave the parent its finalizer. That operator finalizes the
parent also if its labels no longer match.
"""

RECORD_ANNOTATIONS = frozenset(
    {
        INVENTORY_ANNOTATION,
        ONCE_ANNOTATION,
        HELD_PRUNE_ANNOTATION,
        GENERATED_VALUES_ANNOTATION,
        APPLIED_ANNOTATION,
        SELECTOR_ANNOTATION,
    }
)
"""The annotations in which the operator records something on a parent."""

FINALIZER = f"{PREFIX}cleanup"
"""The finalizer of a parent whose children Kubernetes can't delete, or that has finalize hooks."""

HOOK = "finalize/"
"""The prefix of the keys of finalize hooks among the once records."""

MANAGER = "ssa-operator-parent"
"""The field manager of the operator's own fields of a parent. It differs from that of manifests, because a parent may
itself be a child of another parent: an apply of one would remove the fields of the other.
"""

HELD_LIMIT = 100
"""Children of a held prune that are recorded. While one of them is left, all stay held."""

ANNOTATIONS_LIMIT = 200 * 1024
"""Bytes of all records together; Kubernetes allows 256 KiB for all annotations of an object
(https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/).
"""


class ParentRecordsError(ValueError):
    """Records that don't fit on the parent; the text says why and what to do."""


class HeldPrune(Struct, frozen=True):
    """A prune that a user must confirm."""

    reconcile_at: str
    """The value of the annotation `reconcile-at` when the prune was held; any other value confirms it."""
    children: frozenset[str]
    """The children whose deletion is held, as `identity_key` writes them."""

    @classmethod
    def of(cls, reconcile_at: str, children: Iterable[Identity]) -> HeldPrune:
        """The held prune to record, with at most HELD_LIMIT children."""
        return cls(reconcile_at, frozenset(sorted(map(identity_key, children))[:HELD_LIMIT]))


class AppliedRecord(Struct, frozen=True, kw_only=True):
    """What was applied for a parent; KEP-3659 records the kinds of an ApplySet likewise."""

    kinds: frozenset[GroupKind]
    """The kinds of the children with an owner reference that may exist."""
    templates: str = ""
    """The digest of the template set that was applied completely and rendered all of them, '' where that is unknown."""


class ParentRecords(Struct, frozen=True, kw_only=True):
    """What the operator records on one parent."""

    inventory: Mapping[Identity, int] = field(default_factory=dict)
    """The children that the finalizer deletes, each with the wave in which it was created first."""
    once_records: Mapping[str, str] = field(default_factory=dict)
    """What became of each manifest that is applied once, and of each finalize hook, by key."""
    held_prune: HeldPrune | None = None
    """The prune that waits for a confirmation."""
    kept_values: frozenset[Identity] = frozenset()
    """The children whose generated values a Secret keeps while they are recreated."""
    applied: AppliedRecord | None = None
    """What was applied, None where nothing was."""
    has_finalizer: bool = False
    """Whether the parent has the operator's finalizer."""
    selector: str = ""
    """The `--selector` of the operator that gave it the finalizer, '' for none; written only beside the finalizer."""

    @property
    def waves(self) -> list[list[Identity]]:
        """The inventory in the order of deletion: the children that were created last come first."""
        return [
            sorted(identity for identity, created_in in self.inventory.items() if created_in == wave)
            for wave in sorted(set(self.inventory.values()), reverse=True)
        ]

    def with_children(self, identities: Iterable[Identity]) -> ParentRecords:
        """The records with these children in the inventory; those that are new there form a new wave."""
        new = [identity for identity in identities if identity not in self.inventory]
        if not new:
            return self
        wave = max(self.inventory.values(), default=0) + 1
        return replace(self, inventory={**self.inventory, **dict.fromkeys(new, wave)})

    def without_children(self, identities: Iterable[Identity]) -> ParentRecords:
        """The records without these children in the inventory."""
        removed = set(identities)
        if not removed & self.inventory.keys():
            return self
        inventory = {identity: wave for identity, wave in self.inventory.items() if identity not in removed}
        return replace(self, inventory=inventory)


def with_manifests(records: ParentRecords, manifests: Iterable[Manifest], *, hooks: bool) -> ParentRecords:
    """The records to save before these manifests are applied; `hooks` says whether there are finalize hooks."""
    manifests = tuple(manifests)
    records = records.with_children(manifest.identity for manifest in manifests if manifest.needs_record)
    # A child that now has an owner, or that now stays when its parent goes, no longer needs the finalizer.
    records = records.without_children(manifest.identity for manifest in manifests if not manifest.needs_record)
    has_finalizer = hooks or bool(records.inventory)
    return records if records.has_finalizer is has_finalizer else replace(records, has_finalizer=has_finalizer)


def with_applied(
    records: ParentRecords, manifests: Iterable[Manifest], templates: str, *, has_children: bool
) -> ParentRecords:
    """The records to save before these manifests of the template set `templates` are applied. `has_children`: whether
    the parent has children already, of which the template set may be another one.
    """
    manifests = tuple(manifests)
    # The inventory has the others that go with the parent.
    kinds = frozenset(manifest.identity.group_kind for manifest in manifests if manifest.owned)
    before = records.applied
    if before is None and manifests:
        return replace(records, applied=AppliedRecord(kinds=kinds, templates="" if has_children else templates))
    if before is None or kinds <= before.kinds:
        return records
    return replace(records, applied=replace(before, kinds=before.kinds | kinds))


def identity_key(identity: Identity) -> str:
    """An identity as a key: `Deployment.apps/default/web`, `Namespace/team`."""
    return "/".join(filter(None, (str(identity.group_kind), identity.namespace, identity.name)))


def identity_from_key(key: str) -> Identity:
    """The inverse of `identity_key`; a malformed key gives an identity that no object has."""
    group_kind, _, location = key.partition("/")
    kind, _, group = group_kind.partition(".")
    namespace, _, name = location.rpartition("/")
    return Identity(group, kind, namespace, name)


def read_parent_records(parent: LiveObject) -> ParentRecords:
    """The records on a live parent. A record that can't be read counts as empty here; `unreadable_records_message`
    names it.
    """
    held = _HELD_PRUNE.read(parent)
    return ParentRecords(
        inventory={entry.identity: entry.wave for entry in _INVENTORY.read(parent) or () if entry.names_object},
        once_records=_ONCE.read(parent) or {},
        held_prune=HeldPrune(held.reconcileAt, frozenset(held.children)) if held is not None else None,
        kept_values=frozenset(entry.identity for entry in _GENERATED_VALUES.read(parent) or () if entry.names_object),
        applied=_APPLIED.read(parent),
        has_finalizer=FINALIZER in parent.metadata.finalizers,
        selector=parent.metadata.annotations.get(SELECTOR_ANNOTATION, ""),
    )


def is_left_by_selector(parent: LiveObject, selector: str) -> bool:
    """Whether an operator with this `--selector` has to finalize a parent whose labels it no longer selects."""
    if not parent.deleting or FINALIZER not in parent.metadata.finalizers:
        return False
    return parent.metadata.annotations.get(SELECTOR_ANNOTATION) == selector


def unreadable_records_message(parent: LiveObject) -> str:
    """Why records on a live parent can't be read, '' where all can.

    Without its records, the operator would run again what is applied once, or forget children. So it does nothing.
    """
    problems = "; ".join(filter(None, (each.problem(parent) for each in _FORMATS)))
    if not problems:
        return ""
    return (
        f"{problems}. A newer version of the operator wrote it, or another client changed it. Nothing is applied or "
        "deleted until that version runs again, or the annotation is corrected or removed"
    )


def parent_records_body(parent: LiveObject, records: ParentRecords) -> dict[str, Any]:
    """The body of the apply (as MANAGER) after which the parent has exactly these records.

    The uid prevents the apply from creating a parent, and from changing one that was recreated under the same name.
    Raises ParentRecordsError where the records don't fit on an object.
    """
    annotations = {}
    if records.inventory:
        entries = [_inventory_entry(identity, wave) for identity, wave in records.inventory.items()]
        annotations[INVENTORY_ANNOTATION] = _encoded(entries)
    if records.once_records:
        annotations[ONCE_ANNOTATION] = _encoded(dict(records.once_records))
    if records.held_prune:
        held = {"reconcileAt": records.held_prune.reconcile_at, "children": sorted(records.held_prune.children)}
        annotations[HELD_PRUNE_ANNOTATION] = _encoded(held)
    if records.kept_values:
        kept = [_identity_entry(identity) for identity in sorted(records.kept_values)]
        annotations[GENERATED_VALUES_ANNOTATION] = _encoded(kept)
    if records.applied is not None:
        applied = {"kinds": sorted(map(str, records.applied.kinds)), "templates": records.applied.templates}
        annotations[APPLIED_ANNOTATION] = _encoded({field: value for field, value in applied.items() if value})
    if records.has_finalizer and records.selector:
        annotations[SELECTOR_ANNOTATION] = records.selector
    if sum(map(len, annotations.values())) > ANNOTATIONS_LIMIT:
        raise ParentRecordsError(
            f"{len(records.inventory) + len(records.once_records)} children that are outside of the parent's namespace "
            "or applied once don't fit into its annotations; spread them over several parents"
        )
    return manager_body(parent, annotations, finalizer=records.has_finalizer)


def manager_body(parent: LiveObject, annotations: Mapping[str, str], *, finalizer: bool) -> dict[str, Any]:
    """The body of an apply as MANAGER: what the operator owns of a parent."""
    metadata: dict[str, Any] = {"name": parent.identity.name, "uid": parent.uid}
    if parent.identity.namespace:
        metadata["namespace"] = parent.identity.namespace
    if annotations:
        metadata["annotations"] = dict(annotations)
    if finalizer:
        metadata["finalizers"] = [FINALIZER]
    return {
        "apiVersion": join_api_version(parent.identity.group, parent.version),
        "kind": parent.identity.kind,
        "metadata": metadata,
    }


def is_written(parent: LiveObject, body: Mapping[str, Any]) -> bool:
    """Whether a parent has every annotation and finalizer of a body that `parent_records_body` returned."""
    annotations, finalizers = body["metadata"].get("annotations", {}), body["metadata"].get("finalizers", ())
    return annotations.items() <= parent.metadata.annotations.items() and set(finalizers) <= {
        *parent.metadata.finalizers
    }


def removal(parent: LiveObject, records: ParentRecords) -> bytes | None:
    """The JSON patch that removes from a parent what these records don't need; None where there is nothing to remove.

    An apply doesn't remove a field that another field manager owns, too, for example `kubectl` after it restored a
    backup. The patch tests that the parent is the one that was read, unchanged.
    """
    metadata = parent.metadata
    needed = {
        INVENTORY_ANNOTATION: bool(records.inventory),
        ONCE_ANNOTATION: bool(records.once_records),
        HELD_PRUNE_ANNOTATION: records.held_prune is not None,
        GENERATED_VALUES_ANNOTATION: bool(records.kept_values),
        APPLIED_ANNOTATION: records.applied is not None,
        SELECTOR_ANNOTATION: records.has_finalizer and bool(records.selector),
    }
    paths = [
        f"/metadata/annotations/{_escaped(name)}"
        for name, is_needed in needed.items()
        if not is_needed and name in metadata.annotations
    ]
    tests: dict[str, Any] = {"/metadata/uid": parent.uid, "/metadata/resourceVersion": parent.resource_version}
    if FINALIZER in metadata.finalizers and not records.has_finalizer:
        tests["/metadata/finalizers"] = metadata.finalizers
        paths.append(f"/metadata/finalizers/{metadata.finalizers.index(FINALIZER)}")
    if not paths:
        return None
    operations = [{"op": "test", "path": path, "value": value} for path, value in tests.items()]
    operations += [{"op": "remove", "path": path} for path in paths]
    return json.dumps(operations, separators=(",", ":")).encode()


def _escaped(name: str) -> str:
    """A name as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _inventory_entry(identity: Identity, wave: int) -> dict[str, Any]:
    return {**_identity_entry(identity), "wave": wave}


def _identity_entry(identity: Identity) -> dict[str, Any]:
    entry = {
        "group": identity.group,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
    }
    return {field: value for field, value in entry.items() if value or field == "name"}


def _encoded(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


_ERROR_LIMIT = 300
"""Characters of the reason why an annotation can't be read, which quotes a part of it."""

_Text = Annotated[str, Meta(min_length=1)]


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """A child in a record. An unknown field may say that the child has to stay, so that it is an error."""

    kind: _Text
    name: _Text
    group: str = ""
    namespace: str = ""
    wave: int = 1

    @property
    def identity(self) -> Identity:
        return Identity(self.group, self.kind, self.namespace, self.name)

    @property
    def names_object(self) -> bool:
        """Whether an object can have these names."""
        return not (segment_fault(self.name) or segment_fault(self.namespace))


class _HeldEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A held prune, as its annotation writes it."""

    children: list[str]
    reconcileAt: str = ""  # noqa: N815 - the field's name in the annotation


class _AppliedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What was applied, as its annotation writes it."""

    kinds: list[_Text] = []
    templates: str = ""


_decode_applied_entry = decoder(_AppliedEntry)


@lru_cache(maxsize=1000)
def _decode_applied(encoded: bytes) -> AppliedRecord:
    """The record of what was applied. The parents of a folder have the same, and each reconcile reads it several times.

    Raises msgspec.DecodeError.
    """
    entry = _decode_applied_entry(encoded)
    found = (text.partition(".") for text in entry.kinds)
    return AppliedRecord(kinds=frozenset(GroupKind(group, kind) for kind, _, group in found), templates=entry.templates)


_Value = TypeVar("_Value")


class _Format(Struct, Generic[_Value], frozen=True):
    """The format of one annotation."""

    name: str
    decode: Callable[[bytes], _Value]

    def read(self, parent: LiveObject) -> _Value | None:
        """The annotation's value, None where it is missing, empty or unreadable."""
        try:
            return self._read(parent)
        except DecodeError:
            return None

    def problem(self, parent: LiveObject) -> str:
        """Why the annotation can't be read, '' where it can or is missing."""
        try:
            self._read(parent)
        except DecodeError as error:
            return f"the annotation {self.name} can't be read: {bounded(str(error), _ERROR_LIMIT)}"
        return ""

    def _read(self, parent: LiveObject) -> _Value | None:
        text = parent.metadata.annotations.get(self.name)
        return self.decode(text.encode(errors="surrogatepass")) if text else None


_INVENTORY = _Format(INVENTORY_ANNOTATION, decoder(list[_Entry]))
_ONCE = _Format(ONCE_ANNOTATION, decoder(dict[str, str]))
_HELD_PRUNE = _Format(HELD_PRUNE_ANNOTATION, decoder(_HeldEntry))
_GENERATED_VALUES = _Format(GENERATED_VALUES_ANNOTATION, decoder(list[_Entry]))
_APPLIED = _Format(APPLIED_ANNOTATION, _decode_applied)
_FORMATS: tuple[_Format[Any], ...] = (_INVENTORY, _ONCE, _HELD_PRUNE, _GENERATED_VALUES, _APPLIED)

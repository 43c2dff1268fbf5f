"""The operator's records on a parent: annotations and a finalizer, which outlive the operator's process.

Promises:
- Before the operator creates a child that Kubernetes can't collect with its parent, it records the child in the
  inventory, in the same write that adds the finalizer. Whenever the process dies, the record leads to the object.
- An inventory entry is removed only when its object is known to be gone. The parent has the finalizer only while
  something needs it.
- A record or finalizer that is no longer needed is removed whichever field managers own it, and only if the parent is
  as the operator read it.
- A held prune stays held when another operator process takes over.
- Before the operator applies the first object of a kind, it records the kind, together with the kinds of manifests
  that still wait. So another process finds the objects of kinds that no template renders any more, and knows the
  template set that rendered them.
- An object waits for no other object of its own or of a later wave; the waves are deleted in reverse order.
- A record in a format that this version can't read is reported. It never counts as absent.
- A parent with the finalizer names the selector of its operator, so that other operators leave its deletion alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from ssa_operator.objects.annotations import FINALIZER, PREFIX
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_codec import decoder, encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.reconcile.parent_records.formats import (
    UNKNOWN_KINDS,
    AppliedEntry,
    Entry,
    HeldEntry,
    RecordFormat,
    ReplicasEntry,
    identity_entry,
    inventory_entry,
)
from ssa_operator.reconcile.replicas.rules import OthersReplicas, ReplicasOwner, without_operator
from ssa_operator.schema.operator_fields import APPLIED_FIELD

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

REPLICAS_ANNOTATION = f"{PREFIX}replicas"
"""The annotation with the children that are being recreated and whose number of replicas others have set, each with the
number and its owners.
"""

APPLIED_ANNOTATION = f"{PREFIX}applied"
"""The annotation with the kinds of the children that were applied, and a digest of the templates that rendered them."""

FOLDER_KINDS = "ssa-operator-kinds"
"""The name of the ConfigMap with the kinds that each folder has applied, in the operator's namespace."""

REVISION_ANNOTATION = f"{PREFIX}revision"
"""The annotation with the revision of the templates that the parent runs, in a folder with rollouts."""

SELECTOR_ANNOTATION = f"{PREFIX}selector"
"""The annotation with the `--selector` of the operator that gave the parent its finalizer. That operator finalizes the
parent even if its labels no longer match.
"""

HOOK = "finalize/"
"""The prefix of the keys of finalize hooks among the once records; by itself, the key of a deletion that has none."""

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
    """What was applied for a parent; KEP-3659 records the kinds of an ApplySet in the same way."""

    kinds: frozenset[GroupKind]
    """The kinds of the children with an owner reference that exist or are going to."""
    templates: str = ""
    """The digest of the template set that was applied completely and rendered all of them, '' if that is unknown."""
    shown: bool = False
    """Whether the status shows it, and not an annotation."""
    incomplete: bool = False
    """Whether a former process may have applied other kinds, because the record of the folder could not be read."""

    @property
    def text(self) -> str:
        """The record as the status shows it."""
        return " ".join((self.templates, *sorted(map(str, self.kinds))))

    @classmethod
    def from_text(cls, text: str) -> AppliedRecord | None:
        """The record that a status shows by this text, None for an empty one."""
        templates, *kinds = text.split() or ("",)
        return cls(kinds=AppliedEntry(kinds).group_kinds, templates=templates, shown=True) if templates else None


NO_REVISION = "-"
"""Stands for a template set without rollouts, which is no revision."""


class RevisionRecord(Struct, frozen=True):
    """The revision of the templates that a parent runs, in a folder with rollouts."""

    revision: str
    """NO_REVISION if the folder had no rollouts when the parent was reconciled last."""
    ready: str = ""
    """The last one before it at which the parent was Ready, '' for none. It is the revision itself if the parent was
    Ready when the revision could not be rendered any more.
    """

    @property
    def was_ready(self) -> bool:
        """Whether the parent was Ready until it got this revision, so that its state says something of the revision."""
        return self.ready not in ("", self.revision)


def with_revision(records: ParentRecords, revision: str, *, ready: bool, rendered: bool = True) -> ParentRecords:
    """The records to save before the revision is applied; '' is a folder without rollouts. `ready`: whether the parent
    is Ready now. `rendered`: whether its templates can be rendered; else nothing is applied, and its status says that.
    """
    before = records.revision
    if not rendered:
        was_ready = ready and before.revision not in ("", NO_REVISION, before.ready)
        return replace(records, revision=RevisionRecord(before.revision, before.revision)) if was_ready else records
    if revision == before.revision or not (revision or before.revision):
        return records
    if not revision:
        return replace(records, revision=RevisionRecord(NO_REVISION))
    return replace(records, revision=RevisionRecord(revision, before.revision if ready else before.ready))


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
    replicas: Mapping[Identity, OthersReplicas] = field(default_factory=dict)
    """The children that are being recreated, each with the number of replicas that others have set."""
    applied: AppliedRecord | None = None
    """What was applied, None if nothing was."""
    revision: RevisionRecord = RevisionRecord("")
    """The revision that it runs, '' if none was recorded."""
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

    @property
    def deletes_children(self) -> bool:
        """Whether the deletion of the children has begun: all hooks are done."""
        return any(key.startswith(HOOK) for key in self.once_records)

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
    # A child that now has an owner, or that now stays when its parent goes, no longer needs the finalizer.
    needed, unneeded = list[Identity](), list[Identity]()
    for manifest in manifests:
        (needed if manifest.deleted_by_operator else unneeded).append(manifest.identity)
    if needed or records.inventory:
        records = records.with_children(needed).without_children(unneeded)
    has_finalizer = hooks or bool(records.inventory)
    return records if records.has_finalizer is has_finalizer else replace(records, has_finalizer=has_finalizer)


def with_applied(
    records: ParentRecords,
    manifests: Iterable[Manifest],
    templates: str,
    *,
    waiting: AbstractSet[GroupKind] = frozenset(),
    has_children: bool,
) -> ParentRecords:
    """The records to save before these manifests of the template set `templates` are applied. `waiting` are the kinds
    of manifests that are applied later, which would cost a write each. `has_children`: whether the parent has children
    already, of which the template set may be another one.
    """
    # The inventory has the others that go with the parent.
    kinds = frozenset([manifest.identity.group_kind for manifest in manifests if manifest.owned])
    before = records.applied
    if before is None and manifests:
        templates = "" if has_children else templates
        return replace(records, applied=AppliedRecord(kinds=kinds | waiting, templates=templates))
    if before is None or kinds <= before.kinds:
        return records
    return replace(records, applied=replace(before, kinds=before.kinds | kinds | waiting, shown=False))


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
    return _decoded(parent).records


def is_left_by_selector(parent: LiveObject, selector: str) -> bool:
    """Whether an operator with this `--selector` has to finalize a parent whose labels it no longer selects."""
    if not parent.deleting or FINALIZER not in parent.metadata.finalizers:
        return False
    return parent.metadata.annotations.get(SELECTOR_ANNOTATION) == selector


def unreadable_records_message(parent: LiveObject) -> str | None:
    """Why records on a live parent can't be read, None if all can.

    Without its records, the operator would run again what is applied once, or forget children. So it does nothing.
    """
    problems = _decoded(parent).problems
    if not problems:
        return None
    return (
        f"{problems}. A newer version of the operator wrote it, or another client changed it. Nothing is applied or "
        "deleted until that version runs again, or the annotation is corrected or removed"
    )


def texts_of(records: ParentRecords) -> dict[str, str]:
    """The texts of the annotations that the parent has with exactly these records, and of the finalizer as
    `record_texts` has it. Raises ParentRecordsError if they don't fit on an object.
    """
    texts = {each.name: text for each in _FORMATS if (text := each.text(getattr(records, each.field))) is not None}
    if records.has_finalizer:
        texts |= {FINALIZER: "", SELECTOR_ANNOTATION: records.selector} if records.selector else {FINALIZER: ""}
    if sum(map(len, texts.values())) > ANNOTATIONS_LIMIT:
        raise ParentRecordsError(
            f"{len(records.inventory) + len(records.once_records)} children that are outside of the parent's namespace "
            "or applied once don't fit into its annotations; spread them over several parents"
        )
    return texts


def records_patch(parent: LiveObject, texts: Mapping[str, str]) -> bytes | None:
    """The merge patch after which a parent has the records with these texts and no others, whichever field managers own
    them; None if it has. It changes the parent only as it was read, and creates none: a parent that was recreated under
    the same name has another resourceVersion.
    """
    metadata, changed = parent.metadata, dict[str, Any]()
    annotations = {
        name: texts.get(name)
        for name in sorted(RECORD_ANNOTATIONS)
        if texts.get(name) != metadata.annotations.get(name)
    }
    if annotations:
        changed["annotations"] = annotations
    if (FINALIZER in texts) is not (FINALIZER in metadata.finalizers):
        others = [each for each in metadata.finalizers if each != FINALIZER]
        changed["finalizers"] = [*others, FINALIZER] if FINALIZER in texts else others
    if not changed:
        return None
    return encode({"metadata": {"uid": parent.uid, "resourceVersion": parent.resource_version, **changed}})


def _replicas_entry(identity: Identity, replicas: OthersReplicas) -> dict[str, Any]:
    owners = [_given(asdict(each)) for each in replicas.owners]
    entry = {**identity_entry(identity), "replicas": replicas.number}
    return entry | ({"owners": owners} if owners else {})


def _others_replicas(entry: ReplicasEntry) -> OthersReplicas:
    owners = (ReplicasOwner(each.manager, each.operation, each.subresource) for each in entry.owners)
    return without_operator(OthersReplicas(entry.replicas, tuple(owners)))


def _inventory(entries: list[Entry]) -> dict[Identity, int]:
    return {entry.identity: entry.wave for entry in entries if entry.names_object}


def _held_prune(held: HeldPrune | None) -> dict[str, Any] | None:
    return None if held is None else {"reconcileAt": held.reconcile_at, "children": sorted(held.children)}


def _applied(applied: AppliedRecord | None) -> dict[str, Any] | None:
    """What an annotation has of it: nothing if the status shows it."""
    if applied is None or applied.shown:
        return None
    kinds = {*map(str, applied.kinds), *([UNKNOWN_KINDS] if applied.incomplete else ())}
    return _given({"kinds": sorted(kinds), "templates": applied.templates})


def _applied_record(entry: AppliedEntry) -> AppliedRecord:
    incomplete = UNKNOWN_KINDS in entry.kinds
    return AppliedRecord(kinds=entry.group_kinds, templates=entry.templates, incomplete=incomplete)


def _given(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value}


_FORMATS: tuple[RecordFormat, ...] = (
    RecordFormat(
        INVENTORY_ANNOTATION,
        "inventory",
        decoder(list[Entry]),
        _inventory,
        lambda waves: [inventory_entry(identity, wave) for identity, wave in waves.items()] or None,
    ),
    RecordFormat(ONCE_ANNOTATION, "once_records", decoder(dict[str, str]), dict, lambda once: dict(once) or None),
    RecordFormat(
        HELD_PRUNE_ANNOTATION,
        "held_prune",
        decoder(HeldEntry),
        lambda held: HeldPrune(held.reconcileAt, frozenset(held.children)),
        _held_prune,
    ),
    RecordFormat(
        GENERATED_VALUES_ANNOTATION,
        "kept_values",
        decoder(list[Entry]),
        lambda entries: frozenset(_inventory(entries)),
        lambda kept: [identity_entry(identity) for identity in sorted(kept)] or None,
    ),
    RecordFormat(
        REPLICAS_ANNOTATION,
        "replicas",
        decoder(list[ReplicasEntry]),
        lambda entries: {entry.identity: _others_replicas(entry) for entry in entries if entry.names_object},
        lambda replicas: [_replicas_entry(identity, replicas[identity]) for identity in sorted(replicas)] or None,
    ),
    RecordFormat(
        APPLIED_ANNOTATION,
        "applied",
        decoder(AppliedEntry),
        _applied_record,
        _applied,
    ),
    RecordFormat(
        REVISION_ANNOTATION,
        "revision",
        decoder(RevisionRecord),
        lambda revision: revision,
        lambda revision: _given(asdict(revision)) if revision.revision else None,
    ),
)
"""The annotations with JSON, each with the field of ParentRecords."""

_NAMES = (*(each.name for each in _FORMATS), SELECTOR_ANNOTATION)

_NO_TEXTS, _APPLIED_AT = ("",) * len(_NAMES), _NAMES.index(APPLIED_ANNOTATION)

RECORD_ANNOTATIONS = frozenset(_NAMES)
"""The annotations in which the operator records something on a parent."""

SHARED_LENGTH = 1000
"""Characters of the records that are decoded and kept once for all parents that have the same."""


class _Decoded(Struct, frozen=True):
    """The records on a parent, and why some of them can't be read."""

    records: ParentRecords
    problems: str


def _decoded(parent: LiveObject) -> _Decoded:
    metadata = parent.metadata
    # As one tuple by C code, because each reconcile comes here some twenty times.
    texts = tuple(map(metadata.annotations.get, _NAMES, _NO_TEXTS))
    shown = "" if texts[_APPLIED_AT] else shown_text(parent)
    decode = _decode if sum(map(len, (*texts, shown))) <= SHARED_LENGTH else _decode.__wrapped__
    return decode(texts, FINALIZER in metadata.finalizers, shown)


def shown_text(parent: LiveObject) -> str:
    """What the status shows of what was applied. As a hint that any client may have written, it causes no error."""
    status = parent.body.get("status")
    text = status.get(APPLIED_FIELD) if isinstance(status, Mapping) else None
    return text if isinstance(text, str) else ""


@lru_cache(maxsize=1000)
def _decode(texts: tuple[str, ...], has_finalizer: bool, shown: str) -> _Decoded:
    """The records of the annotations with these texts. Most parents of a folder have the same ones, and each reconcile
    reads them several times.
    """
    problems: list[str] = []
    found: dict[str, Any] = {"applied": AppliedRecord.from_text(shown)}
    for each, text in zip(_FORMATS, texts, strict=False):
        if (value := each.read(text, problems)) is not None:
            found[each.field] = value
    return _Decoded(ParentRecords(**found, has_finalizer=has_finalizer, selector=texts[-1]), "; ".join(problems))

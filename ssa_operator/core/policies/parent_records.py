"""What the operator keeps on a parent itself, because it has to outlive the operator.

Promises:
- A child that Kubernetes can't collect with its parent is recorded in the inventory before it is created, in the same
  write that puts the finalizer: whatever moment a process dies at, the record leads to the object.
- An entry goes only when its object is known to be gone. The finalizer is there only while something needs it.
- A record or a finalizer that nothing needs any more is removed whichever field managers own it, and only from the
  parent as it was read.
- A deletion that is held stays held for the operator that comes next.
- Objects of one wave wait for none of the same or of a later wave; they go in the reverse order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ssa_operator.core.objects.annotations import PREFIX
from ssa_operator.core.objects.identity import Identity, join_api_version, read_identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.manifest import Manifest

INVENTORY = f"{PREFIX}inventory"
ONCE = f"{PREFIX}once"
HELD = f"{PREFIX}held"
FINALIZER = f"{PREFIX}cleanup"

HOOK = "finalize/"
"""What the words for finalize hooks begin with, among those for manifests that are made once."""

MANAGER = "ssa-operator-parent"
"""The field manager of the operator's own fields of a parent. It is not that of manifests: a parent may itself be
somebody's child, and an apply of one would take the fields of the other away.
"""

HELD_LIMIT = 100
"""So many children of a held deletion are named on record; as long as one of them is left, all are held."""

ANNOTATIONS_LIMIT = 200 * 1024
"""Bytes of all records together; Kubernetes allows 256 KiB for all annotations of an object
(https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/).
"""


class ParentRecordsError(ValueError):
    """Records that can't be kept; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class HeldPrune:
    """A deletion that somebody has to confirm. asked: what the annotation `reconcile-at` was when it was held; another
    value confirms it. children: whose deletion is held, as `key` says them.
    """

    asked: str
    children: frozenset[str]

    @classmethod
    def of(cls, asked: str, children: Iterable[Identity]) -> HeldPrune:
        """The hold that goes on record."""
        return cls(asked, frozenset(sorted(map(identity_key, children))[:HELD_LIMIT]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentRecords:
    """What is kept on one parent.

    inventory: the children that the finalizer deletes, with the wave that each was first made in. once: for manifests
    that are applied once, what was made of them, as a word for each. held: the deletion that waits to be
    confirmed. finalizer: whether the parent may go by itself (false) or waits for us (true).
    """

    inventory: Mapping[Identity, int] = field(default_factory=dict)
    once: Mapping[str, str] = field(default_factory=dict)
    held: HeldPrune | None = None
    finalizer: bool = False

    @property
    def waves(self) -> list[list[Identity]]:
        """The inventory in the order in which it has to go: what was made last goes first."""
        return [
            sorted(identity for identity, made_in in self.inventory.items() if made_in == wave)
            for wave in sorted(set(self.inventory.values()), reverse=True)
        ]

    def with_children(self, identities: Iterable[Identity]) -> ParentRecords:
        """With more children, all of one new wave."""
        new = [identity for identity in identities if identity not in self.inventory]
        if not new:
            return self
        wave = max(self.inventory.values(), default=0) + 1
        return replace(self, inventory={**self.inventory, **dict.fromkeys(new, wave)})

    def without_children(self, identities: Iterable[Identity]) -> ParentRecords:
        """Without these children."""
        gone = set(identities)
        if not gone & self.inventory.keys():
            return self
        left = {identity: wave for identity, wave in self.inventory.items() if identity not in gone}
        return replace(self, inventory=left)


def with_manifests(records: ParentRecords, manifests: Iterable[Manifest], *, hooks: bool) -> ParentRecords:
    """The records that have to be kept before these manifests are applied; `hooks`: whether there are any."""
    manifests = tuple(manifests)
    records = records.with_children(made.identity for made in manifests if made.needs_record)
    # What has an owner now, or is to stay, is not for the finalizer any more.
    records = records.without_children(made.identity for made in manifests if not made.needs_record)
    finalizer = hooks or bool(records.inventory)
    return records if records.finalizer is finalizer else replace(records, finalizer=finalizer)


def identity_key(identity: Identity) -> str:
    """An identity as one word: `Deployment.apps/default/web`, `Namespace/team`."""
    return "/".join(filter(None, (str(identity.group_kind), identity.namespace, identity.name)))


def identity_from_key(word: str) -> Identity:
    """The inverse of `key`; a word that somebody made illegible names nothing that there is."""
    group_kind, _, location = word.partition("/")
    kind, _, group = group_kind.partition(".")
    namespace, _, name = location.rpartition("/")
    return Identity(group, kind, namespace, name)


def read_parent_records(parent: LiveObject) -> ParentRecords:
    """What is kept on a live parent. A record that somebody made illegible is taken for empty."""
    annotations = parent.metadata.annotations
    inventory = {}
    for entry in _json(annotations.get(INVENTORY), list):
        identity = read_identity(entry)
        if identity is not None:
            wave = entry.get("wave")
            inventory[identity] = wave if isinstance(wave, int) else 1
    once = {
        identity_key: word for identity_key, word in _json(annotations.get(ONCE), dict).items() if isinstance(word, str)
    }
    held = _hold(_json(annotations.get(HELD), dict))
    return ParentRecords(inventory=inventory, once=once, held=held, finalizer=FINALIZER in parent.metadata.finalizers)


def parent_records_body(parent: LiveObject, records: ParentRecords) -> dict[str, Any]:
    """The body of the apply (as MANAGER) that makes a parent keep exactly these records.

    The uid keeps it from a parent that was made again under the same name, and from making one. Raises RecordsError
    where there is more than an object can hold.
    """
    annotations = {}
    if records.inventory:
        annotations[INVENTORY] = _text([_entry(identity, wave) for identity, wave in records.inventory.items()])
    if records.once:
        annotations[ONCE] = _text(dict(records.once))
    if records.held:
        annotations[HELD] = _text({"reconcileAt": records.held.asked, "children": sorted(records.held.children)})
    if sum(map(len, annotations.values())) > ANNOTATIONS_LIMIT:
        raise ParentRecordsError(
            f"{len(records.inventory) + len(records.once)} children outside of the parent's namespace or applied once "
            "are more than its annotations can hold; spread them over several parents"
        )
    metadata: dict[str, Any] = {"name": parent.identity.name, "uid": parent.uid}
    if parent.identity.namespace:
        metadata["namespace"] = parent.identity.namespace
    if annotations:
        metadata["annotations"] = annotations
    if records.finalizer:
        metadata["finalizers"] = [FINALIZER]
    return {
        "apiVersion": join_api_version(parent.identity.group, parent.version),
        "kind": parent.identity.kind,
        "metadata": metadata,
    }


def is_written(parent: LiveObject, body: Mapping[str, Any]) -> bool:
    """Whether a parent has every annotation and finalizer of a body that `written` gave."""
    annotations, finalizers = body["metadata"].get("annotations", {}), body["metadata"].get("finalizers", ())
    return annotations.items() <= parent.metadata.annotations.items() and set(finalizers) <= {
        *parent.metadata.finalizers
    }


def removal(parent: LiveObject, records: ParentRecords) -> bytes | None:
    """The JSON patch that removes from a parent what these records don't need; None where it has no such thing.

    An apply doesn't remove what another field manager owns, too: `kubectl` that restored a backup, for instance. The
    tests keep the patch from a parent that changed since it was read, or that has only its name.
    """
    metadata = parent.metadata
    needed = {INVENTORY: bool(records.inventory), ONCE: bool(records.once), HELD: records.held is not None}
    paths = [
        f"/metadata/annotations/{_escaped(name)}"
        for name, needs in needed.items()
        if not needs and name in metadata.annotations
    ]
    tests: dict[str, Any] = {"/metadata/uid": parent.uid, "/metadata/resourceVersion": parent.resource_version}
    if FINALIZER in metadata.finalizers and not records.finalizer:
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


def _entry(identity: Identity, wave: int) -> dict[str, Any]:
    entry = {
        "group": identity.group,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "wave": wave,
    }
    return {identity_key: value for identity_key, value in entry.items() if value or identity_key == "name"}


def _hold(entry: Mapping[str, Any]) -> HeldPrune | None:
    asked, children = entry.get("reconcileAt", ""), entry.get("children")
    if not isinstance(asked, str) or not isinstance(children, list):
        return None
    return HeldPrune(asked, frozenset(child for child in children if isinstance(child, str)))


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def _json(text: str | None, kind: type) -> Any:
    if not text:
        return kind()
    try:
        found = json.loads(text)
    except ValueError:
        return kind()
    return found if isinstance(found, kind) else kind()

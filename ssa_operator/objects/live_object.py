"""An object as the API server returned it: with its metadata decoded, and its body decoded on demand.

Promises:
- A watch event decodes only `metadata`, without owner references and managedFields; the first access to `body` decodes
  the rest.
- A live object is a value: nothing changes it after it is read.
- Of the objects that share a `DecodedBodies`, only the most recently accessed ones stay decoded: a decoded body takes
  about six times the memory of an encoded one, and decoding takes microseconds.
- Objects that have not been read recently are compressed against a similar object of the same kind.
- Every thread may read a live object at any time.
- An invalid entry of owner references or managedFields is left out, and the others count.
- A partial object takes a bounded amount of memory, whatever the size of the object is.
- What a body nests deeper than NESTING_LIMIT is null: code that walks bodies can't exceed Python's stack.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from sys import intern
from typing import Any, TypeVar

import msgspec

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.compression import Examples, compress, decompress
from ssa_operator.objects.identity import Identity, join_api_version, split_api_version
from ssa_operator.objects.json_codec import decoder, is_deep, without_deep_values
from ssa_operator.objects.shared_record import OWNERS_ANNOTATION, SHARED_LABEL_VALUE, SharedRecord, read_record

DECODED_LIMIT = 256
"""Bodies of one client that stay decoded: more than the running reconciles read."""

MANAGER = "ssa-operator"
"""The field manager of every apply; fixed, so that every version of the operator owns the same fields."""

HANDOVER_MANAGER = "handover-from-ssa-operator"
"""The field manager of a number of replicas that a template no longer writes, until another manager writes it."""

PARENT_UID_LABEL = "ssa-operator.dev/parent-uid"
"""The label of a child that holds its parent's uid, or `shared` if several parents own it."""

BUCKET_LABEL = f"{PREFIX}bucket"
"""The label of a child that holds its parent's bucket, in two hexadecimal digits."""

ORPHAN_FINALIZER = "orphan"
"""The finalizer by which the API server asks the garbage collector to orphan an object's dependents."""

_OWN_LABELS = frozenset({PARENT_UID_LABEL, BUCKET_LABEL})

_NO_CONTENT = frozenset({"apiVersion", "kind", "metadata", "status"})

_PARTIAL_OWNERS = 2
"""Owner references of a partial object: at most one of an object is a controller."""

_PARTIAL_FINALIZERS = 4

_PARTIAL_SHARED_OWNERS = 16
"""Owners of a shared object that a partial object keeps."""

_OWNER_LENGTH = 1000
"""Characters of a parent's owner reference at most: group and version, kind, name and uid."""


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFields(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `metadata.managedFields`, with `fieldsV1` still encoded."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str = ""
    api_version: str = ""
    """The version of the object in which `fieldsV1` names the fields."""
    fields_v1: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="fieldsV1")


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The part of `metadata` that the operator reads of every object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class _Owners(msgspec.Struct, frozen=True, rename="camel"):
    """The part of `metadata` that the operator reads of some objects."""

    owner_references: tuple[OwnerReference, ...] = ()
    managed_fields: tuple[ManagedFields, ...] = ()


class _OwnersHead(msgspec.Struct):
    metadata: _Owners


class _EncodedOwners(msgspec.Struct, rename="camel"):
    """The same, still encoded."""

    owner_references: msgspec.Raw = msgspec.Raw(b"[]")
    managed_fields: msgspec.Raw = msgspec.Raw(b"[]")


class _EncodedOwnersHead(msgspec.Struct):
    metadata: _EncodedOwners


class _Head(msgspec.Struct, rename="camel"):
    metadata: Metadata
    api_version: str = ""
    kind: str = ""


class _ObservedStatus(msgspec.Struct, rename="camel"):
    """The part of `status` by which the operator recognizes parents that changed while it was down."""

    observed_generation: Any = None


class _StatusHead(msgspec.Struct):
    status: _ObservedStatus | None = None


_decode_head = decoder(_Head)
_decode_status = decoder(_StatusHead)
_decode_owners = decoder(_OwnersHead)
_decode_encoded_owners = decoder(_EncodedOwnersHead)
_decode_items = decoder(tuple[msgspec.Raw, ...])
_decode_reference = decoder(OwnerReference)
_decode_managed = decoder(ManagedFields)
_decode_body = decoder(dict[str, Any])
_decode_fields = decoder(dict[str, msgspec.Raw])
_encode_body = msgspec.json.Encoder().encode


Entry = TypeVar("Entry")


class DecodedBodies:
    """The objects of one client that are decoded, in the order of decoding."""

    __slots__ = ("_examples", "_objects")

    def __init__(self) -> None:
        self._objects: deque[weakref.ref[LiveObject]] = deque()
        self._examples: Examples = {}

    def add(self, live: LiveObject) -> None:
        """Keep an object decoded; if there are too many, drop the oldest one."""
        if len(self._objects) >= DECODED_LIMIT:
            oldest = self._objects.popleft()()
            if oldest is not None:
                oldest.compress(self._examples)
        self._objects.append(weakref.ref(live))


class LiveObject:
    """A live object: `metadata` decoded, `body` on demand, `raw` as it came over the wire."""

    __slots__ = (
        "__weakref__",
        "_body",
        "_decoded_bodies",
        "_owners",
        "_shared",
        "_stored",
        "deleting",
        "identity",
        "metadata",
        "parent_uid",
        "partial",
        "resource_version",
        "uid",
        "version",
    )

    def __init__(
        self,
        raw: bytes | msgspec.Raw,
        api_version: str = "",
        kind: str = "",
        decoded_bodies: DecodedBodies | None = None,
    ) -> None:
        """Decode the metadata of one encoded object.

        `api_version` and `kind` are for items of a list, which have none of their own. Without `decoded_bodies` a body
        stays decoded once it was read.

        Raises msgspec.DecodeError if `raw` is not a Kubernetes object.
        """
        # A copy of `raw`, which may be a part of a whole list or of a line of a watch.
        encoded = bytes(raw)
        self._stored: bytes | tuple[bytes, bytes] = encoded
        """Encoded, or compressed with its example: one value, because threads read it."""
        head = _decode_head(encoded)
        self.metadata = head.metadata
        self.uid = head.metadata.uid
        self.resource_version = head.metadata.resource_version
        self.deleting = head.metadata.deletion_timestamp is not None
        self.parent_uid = head.metadata.labels.get(PARENT_UID_LABEL, "")
        """The uid in the parent label, '' without the label."""
        group, version = split_api_version(head.api_version or api_version)
        # Many objects have the same of these.
        self.version = intern(version)
        namespace = intern(head.metadata.namespace)
        self.identity = Identity(intern(group), intern(head.kind or kind), namespace, head.metadata.name)
        self._body: dict[str, Any] | None = None
        self._owners: _Owners | None = None
        self._shared: SharedRecord | None = None
        self._decoded_bodies = decoded_bodies
        self.partial = False
        """Whether the body is left out: it holds only what `as_partial` keeps."""

    @classmethod
    def of(cls, body: dict[str, Any]) -> LiveObject:
        """The live object with this body."""
        return cls(_encode_body(body))

    def as_partial(self) -> LiveObject:
        """The object reduced to what identifies its owner: names, versions and times, the operator's labels, the owner
        references that can be a parent's, and whether the operator owns fields of it, and since when.
        """
        metadata = self.metadata
        uids, limit, annotations = {self.parent_uid}, _PARTIAL_OWNERS, {}
        if (shared := self.shared) is not None:
            uids, limit = {*islice(shared.owners, _PARTIAL_SHARED_OWNERS)}, _PARTIAL_SHARED_OWNERS
            uids = {uid for uid in uids if len(uid) <= _OWNER_LENGTH}
            annotations = {OWNERS_ANNOTATION: str(shared.limited_to(uids))}
        owners = [each for each in self.owner_references if each.controller or each.uid in uids]
        # The API server bounds no field of an owner reference, and no reference to a parent is longer.
        owners = [each for each in owners if len(each.api_version + each.kind + each.name + each.uid) <= _OWNER_LENGTH]
        owners.sort(key=lambda each: not each.controller)
        time = split_entry(self.own_entry())[0].decode()
        own = {"manager": MANAGER, "operation": "Apply", "time": time, "fieldsV1": {"f:metadata": {}}}
        kept = {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "generation": metadata.generation,
            "creationTimestamp": metadata.creation_timestamp,
            "deletionTimestamp": metadata.deletion_timestamp,
            "labels": {name: text for name, text in metadata.labels.items() if name in _OWN_LABELS},
            "finalizers": metadata.finalizers[:_PARTIAL_FINALIZERS],
            "annotations": annotations,
            "ownerReferences": owners[:limit],
            "managedFields": [own] if self.owned_fields() else [],
        }
        api_version = join_api_version(self.identity.group, self.version)
        encoded = _encode_body({"apiVersion": api_version, "kind": self.identity.kind, "metadata": kept})
        partial = LiveObject(encoded, decoded_bodies=self._decoded_bodies)
        partial.partial = True
        return partial

    @property
    def raw(self) -> bytes:
        """The object as it came over the wire."""
        stored = self._stored
        return stored if isinstance(stored, bytes) else decompress(*stored)

    @property
    def body(self) -> dict[str, Any]:
        """The whole object. Callers must not change it, because it stays decoded for a while."""
        body = self._body
        if body is None:
            raw = self.raw
            body = _decode_body(without_deep_values(raw) if is_deep(raw) else raw)
            if "kind" not in body or "apiVersion" not in body:
                body = {
                    "apiVersion": join_api_version(self.identity.group, self.version),
                    "kind": self.identity.kind,
                } | body
            self._decoded()
            self._body = body
        return body

    @property
    def owner_references(self) -> tuple[OwnerReference, ...]:
        """`metadata.ownerReferences`."""
        return self._decoded_owners().owner_references

    @property
    def managed_fields(self) -> tuple[ManagedFields, ...]:
        """`metadata.managedFields`."""
        return self._decoded_owners().managed_fields

    def _decoded_owners(self) -> _Owners:
        owners = self._owners
        if owners is None:
            owners = _read_owners(self.raw)
            self._decoded()
            self._owners = owners
        return owners

    def compress_later(self) -> None:
        """Compress the object after many others are read, even if this one never is."""
        self._decoded()

    def _decoded(self) -> None:
        """Record that a part is going to be decoded, if none is."""
        if self._decoded_bodies is not None and self._body is None and self._owners is None:
            self._decoded_bodies.add(self)

    def compress(self, examples: Examples) -> None:
        """Forget the decoded parts, which the next access decodes again, and compress the object."""
        self._body = self._owners = self._shared = None
        stored = self._stored
        if isinstance(stored, bytes):
            compressed, example = compress(stored, self.identity.group_kind, examples)
            if example is not None:
                self._stored = compressed, example

    @property
    def observed_generation(self) -> Any:
        """`status.observedGeneration`, None if it is missing. The body stays encoded."""
        try:
            status = _decode_status(self.raw).status
        except msgspec.ValidationError:
            return None  # the CRD allows a status that is no mapping
        return None if status is None else status.observed_generation

    @property
    def shared(self) -> SharedRecord | None:
        """The owners of an object that several parents share, None for any other object. An owner that has lost its
        owner reference is none any more: the garbage collector removes the reference of a parent that is gone. Only
        an object without such references has owners by the record alone. If another client removes the label, the
        owners stay.
        """
        text, label = self.metadata.annotations.get(OWNERS_ANNOTATION), self.parent_uid
        if label != SHARED_LABEL_VALUE and (text is None or label):
            return None
        shared = self._shared
        if shared is None:
            record = read_record(text)
            referenced = {each.uid for each in self.owner_references if each.uid in record.owners}
            shared = self._shared = record.limited_to(referenced) if referenced else record
        return shared

    @property
    def parent_uids(self) -> tuple[str, ...]:
        """The uids of all parents that own the object."""
        shared = self.shared
        if shared is not None:
            return tuple(shared.owners)
        uid = self.parent_uid
        return (uid,) if uid else ()

    @property
    def creator_uid(self) -> str:
        """The uid of the parent, for a shared object that of its first owner; '' without one."""
        return next(iter(self.parent_uids), "")

    def belongs_to(self, uid: str) -> bool:
        """Whether the object is a child of the parent with that uid."""
        shared = self.shared
        return uid in shared.owners if shared is not None else bool(uid) and uid == self.parent_uid

    def own_entry(self, subresource: str = "") -> bytes:
        """The operator's Apply entry of managedFields: its time and fieldsV1, encoded; empty without an entry.

        The time distinguishes another operator with the same field manager from this one.
        """
        entry = self._own(subresource)
        return b"" if entry is None else entry.time.encode() + bytes(entry.fields_v1)

    def owned_fields(self, subresource: str = "") -> bytes:
        """The encoded fieldsV1 of the operator's Apply entry; empty if the operator owns no field."""
        entry = self._own(subresource)
        return b"" if entry is None else bytes(entry.fields_v1)

    def own_api_version(self) -> str:
        """The apiVersion of the operator's Apply entry: that of the manifest. '' if the operator owns no field."""
        entry = self._own()
        return "" if entry is None else entry.api_version

    def _own(self, subresource: str = "") -> ManagedFields | None:
        for entry in (self._owners or self._decoded_owners()).managed_fields:
            if entry.manager == MANAGER and entry.operation == "Apply" and entry.subresource == subresource:
                return entry
        return None

    def has_same_content(self, other: LiveObject) -> bool:
        """Whether the objects are the same but for metadata and status."""
        # Most are encoded in the same way, and then neither body has to be decoded.
        return _encoded_content(self.raw) == _encoded_content(other.raw) or _content(self.body) == _content(other.body)

    def __repr__(self) -> str:
        return f"LiveObject({self.identity}, {self.resource_version})"


def _encoded_content(raw: bytes) -> dict[str, bytes]:
    return {name: bytes(encoded) for name, encoded in _decode_fields(raw).items() if name not in _NO_CONTENT}


def _content(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _NO_CONTENT}


def _read_owners(raw: bytes) -> _Owners:
    try:
        return _decode_owners(raw).metadata
    except msgspec.DecodeError:
        encoded = _decode_encoded_owners(raw).metadata
        return _Owners(
            owner_references=tuple(_read_items(encoded.owner_references, _decode_reference)),
            managed_fields=tuple(_read_items(encoded.managed_fields, _decode_managed)),
        )


def _read_items(encoded: msgspec.Raw, decode: Callable[[msgspec.Raw], Entry]) -> Iterator[Entry]:
    """The items of an encoded list that can be decoded."""
    try:
        items = _decode_items(encoded)
    except msgspec.DecodeError:
        return
    for item in items:
        with contextlib.suppress(msgspec.DecodeError):
            yield decode(item)


def split_entry(entry: bytes) -> tuple[bytes, bytes]:
    """The time and the encoded fieldsV1 of a result of `LiveObject.own_entry`; both empty for an empty one."""
    time, brace, rest = entry.partition(b"{")
    return time, brace + rest


def orphans_children(parent: LiveObject) -> bool:
    """Whether a parent is being deleted without its children."""
    return parent.deleting and ORPHAN_FINALIZER in parent.metadata.finalizers

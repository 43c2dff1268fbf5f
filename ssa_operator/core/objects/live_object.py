"""An object as the API server returned it, decoded no further than was asked for.

Promises:
- Of a watch event only `metadata` is decoded; the whole body is decoded when somebody reads it.
- A live object is a value: nothing changes it after it was read.
- Of all live objects only the last KEPT whose body was read keep it decoded: a body takes some six times the memory of
  its encoding, and is decoded in microseconds.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from ssa_operator.core.objects.identity import Identity, join_api_version, split_api_version

KEPT = 256
"""Decoded bodies: more than the passes under way read."""

MANAGER = "ssa-operator"
"""The field manager of every apply; fixed, so that every version of the operator owns the same fields."""

PARENT_UID_LABEL = "ssa-operator.dev/parent-uid"
"""The label that leads from a child to its parent's uid."""


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFields(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `metadata.managedFields`; `fields_v1` stays encoded."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str = ""
    fields_v1: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="fieldsV1")


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The part of `metadata` that the operator decides by."""

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
    owner_references: tuple[OwnerReference, ...] = ()
    managed_fields: tuple[ManagedFields, ...] = ()


class _Head(msgspec.Struct, rename="camel"):
    metadata: Metadata
    api_version: str = ""
    kind: str = ""


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_body = msgspec.json.Decoder(dict[str, Any]).decode
_encode_body = msgspec.json.Encoder().encode


class LiveObject:
    """A live object: `metadata` decoded, `body` on demand, `raw` as it came over the wire."""

    __slots__ = ("_body", "identity", "metadata", "raw", "version")

    def __init__(self, raw: bytes | msgspec.Raw, api_version: str = "", kind: str = "") -> None:
        """Decode the metadata of one encoded object.

        Items of a list carry no `apiVersion` and `kind` of their own; the list's are given then.

        Raises msgspec.DecodeError where `raw` is not a Kubernetes object.
        """
        # What stays encoded in the metadata refers to what it was decoded from: decoded from `raw`, it would keep all
        # that `raw` is a part of, the whole line of a watch.
        self.raw = bytes(raw)
        head = _decode_head(self.raw)
        self.metadata = head.metadata
        group, self.version = split_api_version(head.api_version or api_version)
        self.identity = Identity(group, head.kind or kind, head.metadata.namespace, head.metadata.name)
        self._body: dict[str, Any] | None = None

    @classmethod
    def of(cls, body: dict[str, Any]) -> LiveObject:
        """The live object that encodes to `body`."""
        return cls(_encode_body(body))

    @property
    def body(self) -> dict[str, Any]:
        """The whole object. Callers must not change it; it is kept for a while once it was decoded."""
        if self._body is None:
            body = _decode_body(self.raw)
            body.setdefault("apiVersion", join_api_version(self.identity.group, self.version))
            body.setdefault("kind", self.identity.kind)
            if len(_decoded) == KEPT:
                _decoded.popleft()._body = None  # noqa: SLF001 - one of us
            _decoded.append(self)
            self._body = body
        return self._body

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def parent_uid(self) -> str:
        """The uid in the parent label, '' where there is none."""
        return self.metadata.labels.get(PARENT_UID_LABEL, "")

    def own_entry(self, subresource: str = "") -> bytes:
        """Our own Apply entry, encoded: its time too, which tells another writer of our name from ourselves."""
        for entry in self.metadata.managed_fields:
            if entry.manager == MANAGER and entry.operation == "Apply" and entry.subresource == subresource:
                return entry.time.encode() + bytes(entry.fields_v1)
        return b""

    def owned_fields(self, subresource: str = "") -> bytes:
        """The encoded fieldsV1 of our own Apply entry, empty where we own nothing."""
        for entry in self.metadata.managed_fields:
            if entry.manager == MANAGER and entry.operation == "Apply" and entry.subresource == subresource:
                return bytes(entry.fields_v1)
        return b""

    def __repr__(self) -> str:
        return f"Live({self.identity}, {self.resource_version})"


_decoded: deque[LiveObject] = deque()
"""Those that have their body decoded, in the order in which that was done."""


def split_entry(entry: bytes) -> tuple[bytes, bytes]:
    """Time and fieldsV1 of what `own_entry` gave, empty where it was empty."""
    time, brace, rest = entry.partition(b"{")
    return time, brace + rest

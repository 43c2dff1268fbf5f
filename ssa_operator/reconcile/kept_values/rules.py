"""Keeps the generated values of an object on record while the operator recreates it: in a Secret of their own.

Only the object holds its generated values. A process that dies after it deleted the object would lose them. So the
operator copies the object into a Secret before it deletes the object, and names the object in an annotation of the
parent, by which the next process finds the Secret.

Promises:
- The values are in a Secret and nowhere else: not in an annotation, a status or a ConfigMap.
- The annotation is written before the Secret is created, and removed after the Secret is deleted: no Secret is left
  behind, whenever the process dies.
- The garbage collector deletes the Secret with the parent.
- A Secret is read only if it is the parent's own record of this very object.
- The record stays until the API server has accepted an apply of the object, or the object is no longer rendered and is
  gone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Container, Iterable
from typing import Any

import msgspec

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import MANAGER, PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.manifest import MANAGED_BY_LABEL, owner_reference
from ssa_operator.reconcile.parent_records.rules import identity_key
from ssa_operator.reconcile.recreate.recreation import Recreation

TYPE = "ssa-operator.dev/generated-values"
"""The type of the Secret."""

_KEY = "object"
_WHY = "why"


def secret_identity(parent: LiveObject, identity: Identity) -> Identity | None:
    """The Secret that keeps the values of an object of this parent; None if no namespace can hold one, because
    neither the parent nor the object is in a namespace.
    """
    namespace = parent.identity.namespace or identity.namespace
    if not namespace:
        return None
    digest = hashlib.sha256(f"{parent.uid}/{identity_key(identity)}".encode()).hexdigest()[:20]
    return Identity("", "Secret", namespace, f"ssa-operator-kept-{digest}")


def secret_body(parent: LiveObject, secret: Identity, live: LiveObject, why: str) -> dict[str, Any]:
    """The body of the apply that records the values of a live object."""
    metadata = {key: value for key, value in live.body["metadata"].items() if key != "managedFields"}
    kept = {key: value for key, value in live.body.items() if key != "status"} | {"metadata": metadata}
    data = {_KEY: encode(kept), _WHY: why.encode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret.name,
            "namespace": secret.namespace,
            "labels": {MANAGED_BY_LABEL: MANAGER, PARENT_UID_LABEL: parent.uid},
            "ownerReferences": [owner_reference(parent)],
        },
        "type": TYPE,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def read_secret(parent: LiveObject, identity: Identity, secret: LiveObject) -> Recreation | None:
    """The recreation of an object that a former process began, with the object as it was; None if the Secret is no
    such record.
    """
    data = secret.body.get("data")
    if secret.parent_uid != parent.uid or secret.body.get("type") != TYPE or not isinstance(data, dict):
        return None
    try:
        old = LiveObject(base64.b64decode(data.get(_KEY, ""), validate=True))
        why = base64.b64decode(data.get(_WHY, ""), validate=True).decode()
    except (TypeError, ValueError, binascii.Error, msgspec.DecodeError):
        return None
    # It is unknown whether the object was deleted. Without a digest, a refused apply doesn't count as a repeated one.
    return Recreation(digest=b"", created=False, why=why, old=old) if old.identity == identity else None


def obsolete_values(
    kept: Iterable[Identity],
    *,
    applied: Container[Identity],
    rendered: Container[Identity] | None,
    existing: Container[Identity],
) -> frozenset[Identity]:
    """The objects whose values need no record any more. `applied` are those that this reconcile applied, `rendered`
    those that the templates render (None if that is not known completely), `existing` those that exist.
    """
    return frozenset(
        identity
        for identity in kept
        if identity in applied or (rendered is not None and identity not in rendered and identity not in existing)
    )

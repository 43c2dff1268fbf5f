"""Masks objects for files: without the content of Secrets, but so that templates render the same from them.

Promises:
- A stand-in replaces each value of a Secret, whose entries keep their names, and whose data stay valid base64. A field
  of another object that holds content is replaced as a whole.
- Only equal values of the same entry or field have equal stand-ins: those of two entries reveal nothing about each
  other. A number reveals nothing about its value. A hash is slow, because the salt is in the file: a weak password can
  be guessed, but not at once.
- `aligned` makes of stored fields what templates make of the stand-ins, so that a template that joins a value into a
  text, or has its checksum, renders the stored field.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.cluster_view import Body
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import decode_text
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.secret_fields import is_secret
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.reconcile.secrets.content_fields import HiddenPaths, replaced

ITERATIONS = 10_000
"""Rounds of the hash."""

_IDENTITY = frozenset({"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "ownerReferences"})
"""Fields of the metadata that are stored unmasked."""

_PARENT_UID = ("metadata", "labels", PARENT_UID_LABEL)
_LAST_APPLIED = ("metadata", "annotations", LAST_APPLIED)


ROUNDS = 10
"""The longest chain of objects that are derived from each other's content and from a Secret."""

Manifests: TypeAlias = Mapping[Identity, Body]


@dataclass(slots=True, kw_only=True)
class SecretMask:
    """Replaces the content of Secrets by stand-ins."""

    salt: bytes | None = None
    """The salt of the hashes that a plan compares. Without one, stand-ins are numbers, and JSON keeps its structure."""
    public: frozenset[str] = frozenset()
    """Names of fields in JSON that are not secret."""
    _tokens: dict[tuple[Identity, FieldPath, str], str] = field(default_factory=dict, repr=False)

    def token(self, of: Identity, path: FieldPath, value: str) -> str:
        """The stand-in of a value of one field."""
        key = of, path, value
        if key not in self._tokens:
            self._tokens[key] = f"masked-{len(self._tokens) + 1}" if self.salt is None else _hashed(key, self.salt)
        return self._tokens[key]

    def data_value(self, of: Identity, name: str, value: str) -> str:
        """The stand-in of one entry of a Secret's data, in base64."""
        text, path = _decoded(value), ("data", name)
        found = None
        if self.salt is None:
            with contextlib.suppress(ValueError):
                found = decode_text(text)
        is_json = isinstance(found, (dict, list))
        masked = json.dumps(self._masked(of, path, found, self.public)) if is_json else self.token(of, path, text)
        return base64.b64encode(masked.encode()).decode()

    def masked(self, live: LiveObject, hidden: HiddenPaths) -> dict[str, Any]:
        """An object with tokens in place of its hidden fields."""
        body, of = live.body, live.identity
        if is_secret(body):
            body = dict(body)
            body.pop("stringData", None)
            if isinstance(body.get("data"), Mapping):
                body["data"] = {name: self.data_value(of, name, str(value)) for name, value in body["data"].items()}
            hidden = frozenset(path for path in hidden if path[0] not in ("data", "stringData"))
        metadata = body["metadata"]
        if _LAST_APPLIED in hidden and LAST_APPLIED in (metadata.get("annotations") or {}):
            annotations = {key: value for key, value in metadata["annotations"].items() if key != LAST_APPLIED}
            body = {**body, "metadata": {**metadata, "annotations": annotations}}
        # A template may put the parent's uid into a Secret. Identities stay unmasked, or no child would find its
        # parent.
        hidden = frozenset(path for path in hidden if path != _PARENT_UID and not _is_identity(path))
        return replaced(body, hidden, partial(self._masked, of))

    def aligned(
        self,
        stored: Mapping[Identity, dict[str, Any]],
        live: Manifests,
        renders: Callable[[Mapping[Identity, dict[str, Any]]], Iterable[tuple[Manifests, Manifests]]],
    ) -> dict[Identity, dict[str, Any]]:
        """The stored objects, in which what templates make of a Secret's content is what they make of its stand-ins.

        `live` has the objects of the cluster, and `renders` returns for each parent the manifests that its templates
        render from the cluster, and those that they render from these objects. What one object is made of another one
        is aligned in the next round.
        """
        objects = dict(stored)
        for _ in range(ROUNDS):
            found = dict(stored)
            for applied, masked in renders(objects):
                for identity in applied.keys() & masked.keys() & found.keys():
                    bodies = found[identity], live[identity], applied[identity], masked[identity]
                    found[identity] = self._aligned(identity, *bodies)
            if found == objects:
                break
            objects = found
        return objects

    def _aligned(self, of: Identity, stored: Body, live: Body, applied: Body, masked: Body) -> dict[str, Any]:
        if not is_secret(stored):
            return {**aligned(stored, live, applied, masked)}
        own, real, again = (each.get("data") or {} for each in (live, applied, masked))
        data = {
            name: self.data_value(of, name, str(again[name]))
            if name in again and again[name] != value and name in real and own.get(name) == real[name]
            else value
            for name, value in (stored.get("data") or {}).items()
        }
        others = aligned(_without_data(stored), _without_data(live), _without_data(applied), _without_data(masked))
        return {**others, "data": data}

    def _masked(self, of: Identity, path: FieldPath, value: Any, public: Collection[str] = ()) -> Any:
        """A hidden value: the names of its fields are hidden, too, except `public` ones."""
        if isinstance(value, Mapping):
            return {
                key if key in public else self.token(of, (*path, "(name)"), key): self._masked(
                    of, (*path, key), item, public
                )
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._masked(of, (*path, at), item, public) for at, item in enumerate(value)]
        return self.token(of, path, value if isinstance(value, str) else json.dumps(value))


def _hashed(key: tuple[Identity, FieldPath, str], salt: bytes) -> str:
    of, path, value = key
    text = json.dumps([of.group, of.kind, of.namespace, of.name, path, value])
    digest = hashlib.pbkdf2_hmac("sha256", text.encode(errors="replace"), salt, ITERATIONS, dklen=10)
    return f"hash-{digest.hex()}"


def _is_identity(path: FieldPath) -> bool:
    """Whether a field says which object it is of."""
    return path in (("apiVersion",), ("kind",)) or (len(path) > 1 and path[0] == "metadata" and path[1] in _IDENTITY)


def aligned(stored: Any, live: Any, applied: Any, masked: Any) -> Any:
    """A part of a stored object in which what templates make of a Secret's content is what they make of its tokens.

    `live` is that part of the live object, `applied` of the manifest that the templates render from the cluster, and
    `masked` of the manifest that they render from the snapshot. Where the live object is as it was rendered, the stored
    one becomes so: a checksum of a password, for instance. The manifest from the snapshot holds no Secret's content.
    """
    if isinstance(stored, Mapping) and all(isinstance(each, Mapping) for each in (live, applied, masked)):
        shared = live.keys() & applied.keys() & masked.keys()
        return {
            key: aligned(value, live[key], applied[key], masked[key]) if key in shared else value
            for key, value in stored.items()
        }
    if isinstance(stored, list) and all(isinstance(each, list) for each in (live, applied, masked)):
        places = {_name(item, at): at for at, item in enumerate(applied)}
        result: list[Any] = []
        for item, own in zip(stored, live, strict=True):
            at = places.get(_name(own, len(result)))
            fits = at is not None and at < len(masked)
            result.append(aligned(item, own, applied[at], masked[at]) if at is not None and fits else item)
        return result
    return masked if live == applied else stored


def _without_data(body: Body) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in ("data", "stringData")}


def _name(item: Any, at: int) -> Any:
    """The identity of an item of a list: its name, or its position."""
    return item.get("name", at) if isinstance(item, Mapping) else at


def _decoded(value: str) -> str:
    """A value of a Secret's data as decoded text; unchanged if it can't be decoded."""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return value

"""Objects as a snapshot stores them: without the content of Secrets, and so that templates render the same from them.

Promises:
- Each value of a Secret is replaced by a token that is made of its salted hash. A Secret's data stay valid base64.
- A text of another object that contains a Secret's value has the token in the value's place: a template that joins the
  value into a text renders what the object has.
- The hash is slow, because the salt is in the snapshot: a weak password can be guessed, but not at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.core.objects.cluster_view import Body
from ssa_operator.core.objects.live_object import PARENT_UID_LABEL
from ssa_operator.core.policies.adoption import LAST_APPLIED
from ssa_operator.core.redaction.secret_values import MIN_LENGTH, NO_SECRETS, Redactor

ITERATIONS = 10_000
"""Rounds of the hash."""

_IDENTITY = frozenset({"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "ownerReferences"})
"""Fields of the metadata that are stored as they are."""


@dataclass(slots=True, kw_only=True)
class SnapshotMask:
    """Replaces the content of Secrets by tokens. Equal values have equal tokens."""

    salt: bytes
    _tokens: dict[str, str] = field(default_factory=dict, repr=False)
    _values: list[str] = field(default_factory=list, repr=False)

    def learn(self, secrets: Iterable[Mapping[str, Any]]) -> None:
        """Learn the values of some Secrets, so that they are replaced in other objects, too."""
        known = {
            decoded(value)
            for secret in secrets
            for value in (secret.get("data") or {}).values()
            if isinstance(value, str)
        }
        values = {each for each in (*self._values, *known) if len(each) >= MIN_LENGTH}
        self._values = sorted(values, key=lambda value: (-len(value), value))

    def token(self, value: str) -> str:
        """The token of a value."""
        if value not in self._tokens:
            digest = hashlib.pbkdf2_hmac("sha256", value.encode(errors="replace"), self.salt, ITERATIONS, dklen=10)
            self._tokens[value] = f"hash-{digest.hex()}"
        return self._tokens[value]

    def data_value(self, value: str) -> str:
        """The token of one entry of a Secret's data, in base64."""
        return base64.b64encode(self.token(decoded(value)).encode()).decode()

    def masked(self, body: Mapping[str, Any], redactor: Redactor = NO_SECRETS) -> dict[str, Any]:
        """An object with tokens in place of a Secret's content; `redactor` knows what is a Secret's content."""
        if is_secret(body):
            body = dict(body)
            body.pop("stringData", None)
            if isinstance(body.get("data"), Mapping):
                body["data"] = {name: self.data_value(str(value)) for name, value in body["data"].items()}
            metadata = body["metadata"]
            annotations = dict(metadata.get("annotations") or {})
            annotations.pop(LAST_APPLIED, None)
            body["metadata"] = {**metadata, "annotations": annotations} if "annotations" in metadata else metadata
        if not redactor:
            return dict(body)
        found = self._masked(body, redactor)
        # A template may put the parent's uid into a Secret. Identities are what they are, or no child has its parent.
        metadata = {key: value for key, value in body["metadata"].items() if key in _IDENTITY}
        masked = {**found, "metadata": {**found["metadata"], **metadata}}
        uid = (body["metadata"].get("labels") or {}).get(PARENT_UID_LABEL)
        if uid is not None:
            masked["metadata"]["labels"] = {**masked["metadata"]["labels"], PARENT_UID_LABEL: uid}
        return masked

    def aligned_secret(self, stored: Body, live: Body, applied: Body, masked: Body) -> dict[str, Any]:
        """`aligned` of a Secret: an entry is replaced by the token of what the templates render from the snapshot."""
        own, real, again = (each.get("data") or {} for each in (live, applied, masked))
        data = {
            name: self.data_value(str(again[name]))
            if name in again and again[name] != value and name in real and own.get(name) == real[name]
            else value
            for name, value in (stored.get("data") or {}).items()
        }
        others = aligned(_without_data(stored), _without_data(live), _without_data(applied), _without_data(masked))
        return {**others, "data": data}

    def _masked(self, value: Any, redactor: Redactor) -> Any:
        if isinstance(value, Mapping):
            return {self._text(key, redactor): self._masked(item, redactor) for key, item in value.items()}
        if isinstance(value, list):
            return [self._masked(item, redactor) for item in value]
        return self._text(value, redactor) if isinstance(value, str) else value

    def _text(self, text: str, redactor: Redactor) -> str:
        if not redactor.contains_secret(text):
            return text
        for value in self._values:
            if value in text:
                text = text.replace(value, self.token(value))
        return self.token(text) if redactor.contains_secret(text) else text


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
    """What identifies an item of a list: its name, or its place."""
    return item.get("name", at) if isinstance(item, Mapping) else at


def is_secret(body: Mapping[str, Any]) -> bool:
    """Whether an object is a Secret."""
    return (body.get("apiVersion"), body.get("kind")) == ("v1", "Secret")


def decoded(value: str) -> str:
    """A value of a Secret's data as text; as it is written where it is no text."""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return value

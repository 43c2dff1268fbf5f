"""An object as a diff may show it: without the content of Secrets, and so that a change of it is still seen.

Promises:
- Each value of a Secret, and each text that contains a known value of one, is replaced by a short hash.
- Within one mask, equal values have equal hashes. Without the mask's salt, a hash says nothing about its value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.core.policies.adoption import LAST_APPLIED
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor

_HASH_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Replaces the content of Secrets by hashes."""

    salt: bytes = field(repr=False)
    """Makes the hashes of one run differ from those of any other."""
    redactor: Redactor = NO_SECRETS
    """Knows the values of the Secrets that templates read."""

    def hashed(self, value: object) -> str:
        """The hash that stands for a value."""
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=_HASH_BYTES, key=self.salt)
        return f"(hash {digest.hexdigest()})"

    def masked(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """An object with hashes in place of a Secret's content."""
        if (body.get("apiVersion"), body.get("kind")) == ("v1", "Secret"):
            body = {**body, **{key: self._entries(body[key]) for key in ("data", "stringData") if body.get(key)}}
            metadata = body.get("metadata") or {}
            annotations = metadata.get("annotations") or {}
            if LAST_APPLIED in annotations:
                annotations = {**annotations, LAST_APPLIED: self.hashed(annotations[LAST_APPLIED])}
                body = {**body, "metadata": {**metadata, "annotations": annotations}}
        found = self._masked(body) if self.redactor else body
        assert isinstance(found, Mapping)
        return dict(found)

    def text(self, text: str) -> str:
        """A text of a message."""
        return self.redactor.redact(text)

    def _entries(self, entries: object) -> object:
        if isinstance(entries, Mapping):
            return {name: self.hashed(value) for name, value in entries.items()}
        return self.hashed(entries)

    def _masked(self, value: object) -> object:
        if isinstance(value, Mapping):
            return {self.redactor.redact(key): self._masked(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._masked(item) for item in value]
        if isinstance(value, str):
            return self.hashed(value) if self.redactor.contains_secret(value) else value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.hashed(value) if self.redactor.contains_secret(str(value)) else value
        return value

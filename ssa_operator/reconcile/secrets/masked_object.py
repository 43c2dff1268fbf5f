"""An object that a diff may show: without the content of Secrets, but so that a change of it is still visible.

Promises:
- Each value of a Secret, and each field that holds content, is replaced by a short hash.
- Only equal values of the same field have equal hashes: hashes of two fields or two objects reveal nothing about each
  other. Without the mask's salt, a hash says nothing about its value.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.reconcile.secrets.content_fields import HiddenPaths, replaced

_HASH_BYTES = 4

HASH = re.compile(r"\(hash [0-9a-f]{8}\)")
"""The placeholder for a hidden value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Replaces the content of Secrets by hashes."""

    salt: bytes = field(repr=False)
    """Makes the hashes of one run differ from those of any other."""

    def masked(self, body: Mapping[str, Any], hidden: HiddenPaths) -> dict[str, Any]:
        """An object with hashes in place of its hidden fields."""
        metadata = body.get("metadata") or {}
        names = (body.get("apiVersion"), body.get("kind"), metadata.get("namespace"), metadata.get("name"))
        return replaced(body, hidden, partial(self._hashed, names))

    def _hashed(self, of: tuple[Any, ...], path: FieldPath, value: Any) -> str:
        text = json.dumps([*of, path, value], sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=_HASH_BYTES, key=self.salt)
        return f"(hash {digest.hexdigest()})"

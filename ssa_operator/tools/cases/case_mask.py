"""Masks objects for a golden case: without the content of Secrets, but with their structure.

Promises:
- A stand-in is a number that reveals nothing about the value that it replaces. Only equal values of the same entry have
  equal stand-ins.
- The entries of a Secret keep their names. An entry that holds JSON keeps its structure, and the names of those fields
  that the templates mention.
- A field of another object that holds content is replaced as a whole.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_decoding import decode_text
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.tools.plan.snapshot_mask import SnapshotMask, decoded

_WORDS = re.compile(r"[\w-]+")


@dataclass(slots=True, kw_only=True)
class CaseMask(SnapshotMask):
    """Replaces the content of Secrets by numbered stand-ins."""

    public: str = ""
    """The text of the templates: names of fields that they mention are not secret."""
    _words: frozenset[str] | None = None

    def new_token(self, _: tuple[Identity, FieldPath, str]) -> str:
        """The stand-in of a value that has none yet."""
        return f"masked-{len(self._tokens) + 1}"

    def data_value(self, of: Identity, name: str, value: str) -> str:
        """The stand-in of one entry of a Secret's data, in base64."""
        text, path = decoded(value), ("data", name)
        try:
            found = decode_text(text)
        except ValueError:
            found = None
        is_json = isinstance(found, (dict, list))
        masked = json.dumps(self._leaves(of, path, found)) if is_json else self.token(of, path, text)
        return base64.b64encode(masked.encode()).decode()

    def _leaves(self, of: Identity, path: FieldPath, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._name(of, path, key): self._leaves(of, (*path, key), item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._leaves(of, (*path, at), item) for at, item in enumerate(value)]
        return self.token(of, path, value if isinstance(value, str) else json.dumps(value))

    def _name(self, of: Identity, path: FieldPath, name: str) -> str:
        return name if name in self._public_words else self.token(of, (*path, "(name)"), name)

    @property
    def _public_words(self) -> frozenset[str]:
        if self._words is None:
            self._words = frozenset(_WORDS.findall(self.public))
        return self._words

"""Objects as a golden case stores them: without the content of Secrets, and with their structure.

Promises:
- A stand-in says nothing about the value that it replaces: it is a number. Equal values have equal stand-ins.
- The entries of a Secret keep their names. An entry that holds JSON keeps its structure, and the names of those fields
  that the templates mention.
- A text of another object that contains a Secret's value has the stand-in in the value's place.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssa_operator.core.objects.json_decoding import decode_text
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.core.redaction.snapshot_mask import SnapshotMask, decoded, is_secret

_WORDS = re.compile(r"[\w-]+")


@dataclass(slots=True, kw_only=True)
class CaseMask(SnapshotMask):
    """Replaces the content of Secrets by numbered stand-ins."""

    salt: bytes = b""
    public: str = ""
    """The text of the templates: names of fields that they mention are not secret."""

    def masked(self, body: Mapping[str, Any], redactor: Redactor = NO_SECRETS) -> dict[str, Any]:
        """An object with stand-ins in place of a Secret's content; `redactor` knows what is a Secret's content."""
        data = body.get("data")
        if not is_secret(body) or not isinstance(data, Mapping):
            return SnapshotMask.masked(self, body, redactor)
        # The names of fields in JSON may be texts that the redactor knows.
        rest = SnapshotMask.masked(self, {key: value for key, value in body.items() if key != "data"}, redactor)
        entries = {name: self.data_value(str(value)) for name, value in data.items()}
        return {key: rest[key] if key != "data" else entries for key in body if key in rest or key == "data"}

    def token(self, value: str) -> str:
        """The stand-in of a value."""
        return self._tokens.setdefault(value, f"masked-{len(self._tokens) + 1}")

    def data_value(self, value: str) -> str:
        """The stand-in of one entry of a Secret's data, in base64."""
        text = decoded(value)
        try:
            found = decode_text(text)
        except ValueError:
            found = None
        masked = json.dumps(self._leaves(found)) if isinstance(found, (dict, list)) else self.token(text)
        return base64.b64encode(masked.encode()).decode()

    def _leaves(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._name(key): self._leaves(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._leaves(item) for item in value]
        return self.token(value if isinstance(value, str) else json.dumps(value))

    def _name(self, name: str) -> str:
        return name if name in _WORDS.findall(self.public) else self.token(name)

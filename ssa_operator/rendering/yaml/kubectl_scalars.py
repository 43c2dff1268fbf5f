"""What kubectl reads in a plain scalar that YAML 1.2's core schema reads otherwise.

Promises:
- `yes`, `on`, `y` and their opposites are booleans; `0644` is octal, `0b101` binary, `1_000` a number.
- An integer beyond 64 bits is a float, as in the API server.
- Dates and `1:30` are texts, as in YAML 1.2.

kubectl, Helm and the API server read YAML by `sigs.k8s.io/yaml`; the rules are in its `goyaml.v2/resolve.go`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ssa_operator.rendering.values.manifest_values import INTEGERS

SAME: Final = object()
"""Stands for a scalar that YAML 1.2 reads as kubectl does."""

_WORDS = {
    **{form: True for word in ("y", "yes", "on") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("n", "no", "off") for form in (word, word.capitalize(), word.upper())},
}
_CANDIDATE = re.compile(r"[-+]?(?:0[0-9bBoOxX_].*|[0-9]+_.*|[0-9]{19,})", re.ASCII)
_INT = re.compile(r"([-+]?)(0[xX]|0[oO]|0[bB]|0(?=[0-7])|)([0-9a-fA-F]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_BASES = {"0x": 16, "0o": 8, "0b": 2, "0": 8, "": 10}
_SIGNED_END, _UNSIGNED_END = 2**63, 2**64


def kubectl_scalar(text: str) -> Any:
    """The value of a plain scalar, SAME if YAML 1.2's core schema gives it, too."""
    if text in _WORDS:
        return _WORDS[text]
    if not _CANDIDATE.fullmatch(text):
        return SAME
    plain = text.replace("_", "")
    found = _INT.fullmatch(plain)
    if found is not None:
        try:
            number = int(found[1] + found[3], _BASES[found[2].lower()])
        except ValueError:
            pass
        else:
            if number in INTEGERS:
                return number
            if not found[1] and number < _UNSIGNED_END:
                return float(number)
    if not _FLOAT.fullmatch(plain):
        return SAME
    value = float(plain)
    if value in (float("inf"), float("-inf")):
        return SAME
    return int(value) if value.is_integer() and abs(value) < _SIGNED_END else value

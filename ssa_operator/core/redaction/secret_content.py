"""The values of Secrets, as they are found in texts.

Promises:
- The forms of the values are made once, when the first text is searched. Of many values only hashes stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ssa_operator.core.redaction.secret_forms import (
    LongForms,
    ShortForms,
    beginnings,
    cuts_of,
    long_positions,
    lower,
)

_SHORT = 4096
"""Characters of all values up to which the forms are kept as they are."""


class SecretContent:
    """The values of a Secret, or generated values."""

    def __init__(self, values: frozenset[str]) -> None:
        self._values = values

    def __bool__(self) -> bool:
        return bool(self._values)

    @cached_property
    def forms(self) -> ShortForms | LongForms:
        """What the values are found with in a text."""
        long = sum(map(len, self._values)) > _SHORT
        return LongForms(self._values) if long else ShortForms(self._values)


def find_forms(contents: Iterable[SecretContent], text: str) -> dict[int, int]:
    """The end of the longest form of any of these contents at each position of a text where one begins."""
    lowered, positions = lower(text), None
    starts, cuts = beginnings(lowered), cuts_of(lowered)
    ends: dict[int, int] = {}
    for forms in (content.forms for content in contents):
        if isinstance(forms, ShortForms):
            found = forms.find(lowered, starts, cuts)
        else:
            positions = long_positions(lowered) if positions is None else positions
            found = forms.find(lowered, starts, cuts, positions)
        for at, end in found.items():
            ends[at] = max(end, ends.get(at, at))
    return ends

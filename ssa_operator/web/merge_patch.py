"""The difference of two JSON values as a JSON Merge Patch (RFC 7386).

Promises:
- Applied to the first value, the patch gives the second one, if no mapping of these has a null.
- Equal values have an empty patch.
"""

from __future__ import annotations

from typing import Any


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The patch from one mapping to another. A list is one value."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if old is value and key in before:
            continue
        if isinstance(old, dict) and isinstance(value, dict):
            if below := merge_patch(old, value):
                patch[key] = below
        elif key not in before or old != value or type(old) is not type(value):
            patch[key] = value
    return patch

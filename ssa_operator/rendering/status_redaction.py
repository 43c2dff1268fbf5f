"""Removes the content of Secrets from the parent's own status fields.

Promises:
- A status field that is derived from a Secret's content is left out, whatever its value is.
- The name of a Secret, whether a field exists, and a hash of a value may be in the status.
- A value that does not come from a Secret stays, even if it equals one: the author of the parent knows it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import FieldPath, field_text
from ssa_operator.rendering.values.tracked_containers import content_paths
from ssa_operator.rendering.values.tracked_values import TrackedValue


def redact_status(status: Any, *, whole: bool) -> tuple[Any, tuple[str, ...]]:
    """Status fields with provenance, without those that are made of a Secret's content, and the paths of the latter.
    With `whole`, any field may be.
    """
    if whole:
        return {}, ("*",)
    found = dict(content_paths(status))
    if not found:
        return status, ()
    if () in found:
        return {}, ("*",)
    shown = ((*path[:-1], HIDDEN) if key else path for path, key in found.items())
    return _without(status, found.keys(), ()), tuple(map(field_text, dict.fromkeys(shown)))


def _without(value: Any, left_out: Collection[FieldPath], path: FieldPath) -> Any:
    if type(value) is TrackedValue:
        return value.derive(_without(value.value, left_out, path))
    if type(value) is dict:
        kept = {key: item for key, item in value.items() if (*path, key) not in left_out}
        return {key: _without(item, left_out, (*path, key)) for key, item in kept.items()}
    if type(value) is list:
        return [_without(item, left_out, (*path, at)) for at, item in enumerate(value) if (*path, at) not in left_out]
    return value

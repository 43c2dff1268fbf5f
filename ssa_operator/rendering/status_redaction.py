"""Removes the content of Secrets from the parent's own status fields.

Promises:
- A status field that is made of a Secret's content is left out, whatever its value is.
- The name of a Secret, whether a field exists, and a hash of a value may be in the status.
- A value that does not come from a Secret stays, even if it equals one: whoever wrote it into the parent knows it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from ssa_operator.core.objects.cluster_view import Body
from ssa_operator.core.objects.render_result import Rendered
from ssa_operator.core.objects.secret_fields import HIDDEN
from ssa_operator.core.objects.source_location import FieldPath, field_text
from ssa_operator.core.redaction.secret_content import SecretContent
from ssa_operator.core.redaction.secret_values import Redactor, content_of, secret_parts
from ssa_operator.core.redaction.snapshot_mask import is_secret
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.values.tracked_containers import content_paths
from ssa_operator.rendering.values.tracked_values import TrackedValue


def public_text(templates: Templates | None, parent: Mapping[str, Any]) -> str:
    """The text of the templates and of a parent, whose words are public even if a Secret contains them, too."""
    metadata = parent.get("metadata") or {}
    own = (*(metadata.get(key, "") for key in ("name", "namespace", "uid")), parent.get("kind", ""))
    text = "\n".join((*own, json.dumps(parent.get("spec"), ensure_ascii=False)))
    return text if templates is None else f"{text}\n{templates.text}"


def redactor_of(secrets: Iterable[Body], templates: Templates, parent: Mapping[str, Any]) -> Redactor:
    """Recognizes the content of these Secrets."""
    return Redactor(public=partial(public_text, templates, parent), contents=tuple(map(content_of, secrets)))


def redactor_of_render(rendered: Rendered, templates: Templates | None, parent: Mapping[str, Any]) -> Redactor:
    """Recognizes the contents of the Secrets that a render read, and the values that it generated."""
    generated = SecretContent(frozenset(part for value in rendered.generated_values for part in secret_parts(value)))
    own = (parent,) if is_secret(parent) else ()
    contents = (*map(content_of, (*rendered.secrets, *own)), generated)
    return Redactor(
        public=partial(public_text, templates, parent), contents=tuple(content for content in contents if content)
    )


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

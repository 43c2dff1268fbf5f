"""Removes the content of Secrets from the parent's own status fields.

Promises:
- A status field that comes from a Secret and contains its content is left out.
- The name of a Secret, whether a field exists, and a hash of a value may be in the status.
- A value that does not come from a Secret stays, even if it equals a part of one, such as a host name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ssa_operator.core.objects.cluster_view import Body
from ssa_operator.core.objects.source_location import FieldPath, field_text
from ssa_operator.core.redaction.secret_values import Redactor, content_of, texts
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.values.tracked_containers import strip_provenance
from ssa_operator.rendering.values.tracked_values import Provenance, TrackedValue


def public_text(templates: Templates | None, parent: Mapping[str, Any]) -> str:
    """The text of the templates and of a parent, whose words are public even if a Secret contains them, too."""
    metadata = parent.get("metadata") or {}
    own = (*(metadata.get(key, "") for key in ("name", "namespace", "uid")), parent.get("kind", ""))
    text = "\n".join((*own, json.dumps(parent.get("spec"), ensure_ascii=False)))
    return text if templates is None else f"{text}\n{templates.text}"


def redactor_of(secrets: Iterable[Body], templates: Templates, parent: Mapping[str, Any]) -> Redactor:
    """Recognizes the content of these Secrets."""
    return Redactor(public=partial(public_text, templates, parent), contents=tuple(map(content_of, secrets)))


def redact_status(
    status: Any, redactor: Redactor, file_provenance: Iterable[Provenance]
) -> tuple[Any, tuple[str, ...]]:
    """Status fields with provenance, without those that contain a Secret's content, and the paths of the latter.

    `file_provenance` is the provenance of all fields.
    """
    secret_fields = dict.fromkeys(_secret_fields(status, redactor, _comes_from_secret(file_provenance), ()))
    return _without(status, secret_fields, ()), tuple(map(field_text, secret_fields))


def _comes_from_secret(provenance: Iterable[Provenance]) -> bool:
    return any(source.query.kind == "Secret" for source in provenance)


def _secret_fields(value: Any, redactor: Redactor, everything: bool, path: FieldPath) -> Iterator[FieldPath]:
    """The paths that contain a Secret's content; with `everything`, also in values without provenance."""
    if type(value) is dict:
        for key, item in value.items():
            if redactor.contains_secret(str(key)):
                yield (*path, key)
            else:
                yield from _secret_fields(item, redactor, everything, (*path, key))
    elif type(value) is list:
        for at, item in enumerate(value):
            yield from _secret_fields(item, redactor, everything, (*path, at))
    elif everything or (isinstance(value, TrackedValue) and _comes_from_secret(value.provenance)):
        data = strip_provenance(value, [])
        if any(redactor.contains_secret(text) for text in texts(data)):
            yield path


def _without(value: Any, left_out: Collection[FieldPath], path: FieldPath) -> Any:
    if type(value) is dict:
        kept = {key: item for key, item in value.items() if (*path, key) not in left_out}
        return {key: _without(item, left_out, (*path, key)) for key, item in kept.items()}
    if type(value) is list:
        return [_without(item, left_out, (*path, at)) for at, item in enumerate(value) if (*path, at) not in left_out]
    return value

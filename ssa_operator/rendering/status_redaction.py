"""Status fields without the content of Secrets.

Promises:
- A field that was made of a Secret is left out where it holds what the Secret holds; its name, that it is there, or a
  hash of it may be told.
- Where something else is the same by chance, as the host in a connection string, it stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ssa_operator.core.objects.cluster_view import Body
from ssa_operator.core.objects.source_location import FieldPath, field_text
from ssa_operator.core.redaction.secret_values import Redactor, texts, union, values_of
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.values.tracked_containers import settled
from ssa_operator.rendering.values.tracked_values import Provenance, TrackedValue


def spelled(templates: Templates | None, parent: Mapping[str, Any]) -> str:
    """What the templates and a parent say in so many words."""
    metadata = parent.get("metadata") or {}
    own = (metadata.get("name", ""), metadata.get("namespace", ""), parent.get("kind", ""))
    said = "\n".join((*own, json.dumps(parent.get("spec"), ensure_ascii=False)))
    return said if templates is None else f"{said}\n{templates.text}"


def secrecy_of(secrets: Iterable[Body], templates: Templates, parent: Mapping[str, Any]) -> Redactor:
    """What is known of some Secrets."""
    return Redactor(union(map(values_of, secrets)), partial(spelled, templates, parent))


def discreet(status: Any, redactor: Redactor, branches: Iterable[Provenance]) -> tuple[Any, tuple[str, ...]]:
    """Status fields that are not settled yet without those that hold a Secret's content, and what these are called.
    `branches` is what all of them depend on.
    """
    left_out = dict(_confided(status, redactor, _is_made_of_secret(branches), ()))
    return _without(status, left_out.keys(), ()), tuple(map(field_text, left_out))


def _is_made_of_secret(sources: Iterable[Provenance]) -> bool:
    return any(source.query.kind == "Secret" for source in sources)


def _confided(value: Any, redactor: Redactor, everything: bool, path: FieldPath) -> Iterator[tuple[FieldPath, None]]:
    if type(value) is dict:
        for key, item in value.items():
            if redactor.contains_secret(str(key)):
                yield (*path, key), None
            else:
                yield from _confided(item, redactor, everything, (*path, key))
    elif type(value) is list:
        for at, item in enumerate(value):
            yield from _confided(item, redactor, everything, (*path, at))
    elif everything or (isinstance(value, TrackedValue) and _is_made_of_secret(value.sources)):
        found = settled(value, [])
        if any(redactor.contains_secret(text) for text in texts(found)):
            yield path, None


def _without(value: Any, left_out: Any, path: FieldPath) -> Any:
    if type(value) is dict:
        kept = {key: item for key, item in value.items() if (*path, key) not in left_out}
        return {key: _without(item, left_out, (*path, key)) for key, item in kept.items()}
    if type(value) is list:
        return [_without(item, left_out, (*path, at)) for at, item in enumerate(value) if (*path, at) not in left_out]
    return value

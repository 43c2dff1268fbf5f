"""Compiles the annotation `ready-when` of each manifest.

Promises:
- A manifest with an invalid expression is a problem at the line of its annotation, and no other manifest is affected.
- The readiness of a child follows from its own annotation everywhere: in `child`, in `ready`, in the order of the
  applies, and in the status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ssa_operator.core.objects.annotations import PREFIX, Reference
from ssa_operator.core.objects.predicate import Predicate
from ssa_operator.core.objects.render_result import Document, RenderProblem, Wait
from ssa_operator.rendering.jinja.predicates import PredicateError, compile_predicate
from ssa_operator.rendering.references import Result

READY_WHEN = f"{PREFIX}ready-when"


def with_ready_when(result: Result) -> Result:
    """A document with its compiled expression, or the problem of the expression."""
    if not isinstance(result, Document):
        return result
    text = _annotation(result.body["metadata"].get("annotations"))
    if text is None:
        return result
    try:
        return replace(result, ready_when=compile_predicate(text))
    except PredicateError as error:
        location = result.location_of(("metadata", "annotations", READY_WHEN))
        return RenderProblem(f"annotation {READY_WHEN} {error}", location, (result.identity,))


def ready_when_of(results: Sequence[Result]) -> dict[Reference, Predicate]:
    """The expressions of the children, also of those whose document waits."""
    found = {}
    for result in results:
        if isinstance(result, Document) and result.ready_when is not None:
            found[Reference(result.body["kind"], result.body["metadata"]["name"])] = result.ready_when
        elif isinstance(result, Wait) and result.identity is not None:
            predicate = _of_wait(result)
            if predicate is not None:
                found[Reference(result.identity.kind, result.identity.name)] = predicate
    return found


def _of_wait(wait: Wait) -> Predicate | None:
    """The expression of a document that waits. An invalid one is a problem once the document no longer waits."""
    text = _annotation(wait.annotations)
    try:
        return None if text is None else compile_predicate(text)
    except PredicateError:
        return None


def _annotation(annotations: Mapping[str, object] | None) -> str | None:
    text = annotations.get(READY_WHEN) if annotations else None
    return text if isinstance(text, str) else None

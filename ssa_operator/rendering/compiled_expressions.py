"""Compiles the annotation `ready-when` of each manifest. objects.readiness judges by it.

Promises:
- A manifest with an invalid expression is a problem at the line of its annotation, and no other manifest is affected.
- The readiness of a child follows from its own annotation everywhere: in `child`, in `ready`, in the order of the
  applies, and in the status.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.render_result import RenderProblem, Wait
from ssa_operator.rendering.jinja.predicates import PredicateError, compile_predicate
from ssa_operator.rendering.references import Result

READY_WHEN = f"{PREFIX}ready-when"


def with_ready_when(result: Result) -> Result:
    """A document or a wait with its compiled expression, or the problem of the document's expression."""
    if isinstance(result, RenderProblem):
        return result
    annotations = result.annotations if isinstance(result, Wait) else result.body["metadata"].get("annotations")
    text = annotations.get(READY_WHEN) if annotations else None
    if not isinstance(text, str):
        return result
    try:
        return replace(result, ready_when=compile_predicate(text))
    except PredicateError as error:
        if isinstance(result, Wait):
            # It is a problem once the document no longer waits.
            return result
        location = result.location_of(("metadata", "annotations", READY_WHEN))
        return RenderProblem(f"annotation {READY_WHEN} {error}", location, (result.identity,))

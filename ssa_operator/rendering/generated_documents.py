"""What becomes of the generated values of one file.

Promises:
- A value that the cluster has is kept; all places of the file that it is written to have the same one.
- Where it isn't known what the cluster has, the documents wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeAlias

from jinja2 import TemplateRuntimeError

from ssa_operator.core.objects.cluster_view import Lookup
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.render_result import Document, RenderProblem, Wait, WaitTarget
from ssa_operator.core.objects.source_location import field_text
from ssa_operator.rendering.difference import difference
from ssa_operator.rendering.jinja.generated_values import ValueLocation, changed, locations
from ssa_operator.rendering.jinja.template_api import TemplateAPI
from ssa_operator.rendering.references import annotated, identity

Result: TypeAlias = "Document | RenderProblem | Wait"
Once: TypeAlias = Callable[[Sequence[str]], "list[Result]"]


_ALONE = (
    "to be found again it must stand alone in a field too, as it is or as b64encode gives it: "
    "{% set value = generated() %}, and a key for it"
)


def kept(results: list[Result], values: Sequence[str], once: Once, inquiry: TemplateAPI) -> list[Result]:
    """The results of a file with the generated values that the cluster has, and those of `values` that it has not.

    `results` were rendered with `values`; `once` renders the file with others.

    A document with a value that could not be found again is a problem. Raises DocumentError where a value is part of an
    identity or the live one is no text, TemplateRuntimeError where a branch depends on one.
    """
    documents = [result for result in results if isinstance(result, Document)]
    found = locations(values, documents)
    holders = set[Identity]()
    for candidates in found:
        for location in candidates:
            named = identity(location.document, inquiry)
            if not inquiry.world.synced(named.group_kind):
                return [_until_synced(result, inquiry) for result in results]
            holders.add(named)
            inquiry.holders[named] = None
    given = [_live_value(candidates, inquiry) or value for candidates, value in zip(found, values, strict=True)]
    made = results if given == [*values] else once(given)
    if all(found):
        return [_drawn(result, given, holders, inquiry) for result in made]
    # What stands alone nowhere must make no difference.
    others = [value if candidates else changed(value) for candidates, value in zip(found, given, strict=True)]
    again = once(others)
    if len(made) != len(again):
        raise TemplateRuntimeError(f"a branch depends on a generated value; {_ALONE}")
    waits = [result for result in made if isinstance(result, Wait)]
    judged = [_judged(one, other, waits, inquiry) for one, other in zip(made, again, strict=True)]
    return [_drawn(result, given, holders, inquiry) for result in judged]


def _drawn(result: Result, values: Sequence[str], holders: AbstractSet[Identity], inquiry: TemplateAPI) -> Result:
    if not isinstance(result, Document):
        return result
    return replace(result, generated_values=tuple(values), holder=identity(result, inquiry) in holders)


def _live_value(candidates: Sequence[ValueLocation], inquiry: TemplateAPI) -> str | None:
    """The first of the values that the cluster has where a generated one stands."""
    for location in candidates:
        value = location.live_value(inquiry.world.lookup(identity(location.document, inquiry)))
        if value is not None:
            return value
    return None


def _judged(one: Result, other: Result, waits: Sequence[Wait], inquiry: TemplateAPI) -> Result:
    """A result, unless a value that could not be found again is in it."""
    if not isinstance(one, Document) or not isinstance(other, Document):
        return one
    field = difference(one.body, other.body)
    if field is None:
        return one
    if waits:
        # It may stand alone in what waits.
        return _wait(one, waits[0].awaited, inquiry)
    return RenderProblem(f"{field_text(field)} is made of a generated value; {_ALONE}", one.location_of(field))


def _until_synced(result: Result, inquiry: TemplateAPI) -> Result:
    if not isinstance(result, Document):
        return result
    named = identity(result, inquiry)
    version = result.body["apiVersion"]
    query = Lookup(api_version=version, kind=named.kind, namespace=named.namespace, name=named.name)
    awaited = WaitTarget(query, state=f"be known: the watch of {named.group_kind} is not synced")
    return _wait(result, (awaited,), inquiry)


def _wait(document: Document, awaited: tuple[WaitTarget, ...], inquiry: TemplateAPI) -> Wait:
    return Wait(
        location=document.location,
        awaited=awaited,
        identity=identity(document, inquiry),
        dependencies=document.dependencies,
        annotations=annotated(document),
    )

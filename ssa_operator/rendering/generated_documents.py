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
from ssa_operator.core.objects.render_result import Awaited, Document, RenderProblem, Wait
from ssa_operator.core.objects.source_location import field_text
from ssa_operator.rendering.difference import difference
from ssa_operator.rendering.jinja.generated_values import ValueLocation, different_value, value_locations
from ssa_operator.rendering.jinja.template_api import TemplateAPI
from ssa_operator.rendering.references import annotations_of, identity_of

Result: TypeAlias = "Document | RenderProblem | Wait"
Once: TypeAlias = Callable[[Sequence[str]], "list[Result]"]


_ALONE = (
    "to be found again it must stand alone in a field too, as it is or as b64encode gives it: "
    "{% set value = generated() %}, and a key for it"
)


def kept(results: list[Result], values: Sequence[str], once: Once, api: TemplateAPI) -> list[Result]:
    """The results of a file with the generated values that the cluster has, and those of `values` that it has not.

    `results` were rendered with `values`; `once` renders the file with others.

    A document with a value that could not be found again is a problem. Raises DocumentError where a value is part of an
    identity or the live one is no text, TemplateRuntimeError where a branch depends on one.
    """
    documents = [result for result in results if isinstance(result, Document)]
    found = value_locations(values, documents)
    holders = set[Identity]()
    for candidates in found:
        for location in candidates:
            named = identity_of(location.document, api)
            if not api.cluster.synced(named.group_kind):
                return [_until_synced(result, api) for result in results]
            holders.add(named)
            api.objects_with_generated_values[named] = None
    given = [_live_value(candidates, api) or value for candidates, value in zip(found, values, strict=True)]
    made = results if given == [*values] else once(given)
    if all(found):
        return [_drawn(result, given, holders, api) for result in made]
    # What stands alone nowhere must make no difference.
    others = [value if candidates else different_value(value) for candidates, value in zip(found, given, strict=True)]
    again = once(others)
    if len(made) != len(again):
        raise TemplateRuntimeError(f"a branch depends on a generated value; {_ALONE}")
    waits = [result for result in made if isinstance(result, Wait)]
    judged = [_judged(one, other, waits, api) for one, other in zip(made, again, strict=True)]
    return [_drawn(result, given, holders, api) for result in judged]


def _drawn(result: Result, values: Sequence[str], holders: AbstractSet[Identity], api: TemplateAPI) -> Result:
    if not isinstance(result, Document):
        return result
    return replace(result, generated_values=tuple(values), holder=identity_of(result, api) in holders)


def _live_value(candidates: Sequence[ValueLocation], api: TemplateAPI) -> str | None:
    """The first of the values that the cluster has where a generated one stands."""
    for location in candidates:
        value = location.live_value(api.cluster.lookup(identity_of(location.document, api)))
        if value is not None:
            return value
    return None


def _judged(one: Result, other: Result, waits: Sequence[Wait], api: TemplateAPI) -> Result:
    """A result, unless a value that could not be found again is in it."""
    if not isinstance(one, Document) or not isinstance(other, Document):
        return one
    field = difference(one.body, other.body)
    if field is None:
        return one
    if waits:
        # It may stand alone in what waits.
        return _wait(one, waits[0].awaited, api)
    return RenderProblem(f"{field_text(field)} is made of a generated value; {_ALONE}", one.location_of(field))


def _until_synced(result: Result, api: TemplateAPI) -> Result:
    if not isinstance(result, Document):
        return result
    named = identity_of(result, api)
    version = result.body["apiVersion"]
    query = Lookup(api_version=version, kind=named.kind, namespace=named.namespace, name=named.name)
    awaited = Awaited(query, state=f"be known: the watch of {named.group_kind} is not synced")
    return _wait(result, (awaited,), api)


def _wait(document: Document, awaited: tuple[Awaited, ...], api: TemplateAPI) -> Wait:
    return Wait(
        location=document.location,
        awaited=awaited,
        identity=identity_of(document, api),
        dependencies=document.dependencies,
        annotations=annotations_of(document),
    )

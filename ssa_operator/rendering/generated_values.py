"""When a generated value is drawn, and when it is read back from the live object.

Promises:
- A generated value that a live object has never changes. All fields of the file with that value get the same one.
- A value is drawn again only if no live object has it: if the object is gone, or lacks the field. While the operator
  recreates an object, its record (reconcile.kept_values) counts as the live object.
- A document waits while the objects of its kind are not known, because one of them may have the value.
- A document with a generated value that no live object could return is a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeAlias

from jinja2 import TemplateRuntimeError

from ssa_operator.objects.cluster_view import AccessReview, Lookup
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Document, RenderProblem, Wait, WaitTarget
from ssa_operator.objects.source_location import FieldPath, field_text
from ssa_operator.rendering.jinja.template_api import TemplateAPI
from ssa_operator.rendering.jinja.value_generator import ValueLocation, different_value, value_locations
from ssa_operator.rendering.references import Result, identity_of, wait_instead


def difference(one: Any, other: Any, path: FieldPath = ()) -> FieldPath | None:
    """The path of the first field in which two values differ, None if they are equal."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if [*one] != [*other]:
            return path
        found = (difference(one[key], other[key], (*path, key)) for key in one)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = (difference(left, right, (*path, at)) for at, (left, right) in enumerate(zip(one, other, strict=True)))
    else:
        return None if type(one) is type(other) and one == other else path
    return next((field for field in found if field is not None), None)


RenderFile: TypeAlias = Callable[[Sequence[str]], "list[Result]"]
"""Renders the file with these generated values."""

_REMEDY = (
    "the operator finds it again only in a field that contains it alone, plain or with b64encode: write "
    "{% set value = generated() %}, and a key for it"
)


def use_live_values(
    results: list[Result], values: Sequence[str], render_file: RenderFile, api: TemplateAPI
) -> list[Result]:
    """The results of a file with the generated values of the cluster, and with those of `values` that the cluster
    lacks.

    `results` were rendered with `values`; `render_file` renders the file with other ones.

    A document with a value that no live object could return is a problem. Raises DocumentError if a value is part of an
    identity or the live value is not text, and TemplateRuntimeError if a branch depends on a generated value.
    """
    locations = value_locations(values, [result for result in results if isinstance(result, Document)])
    documents = [location.document for candidates in locations for location in candidates]
    holders = dict.fromkeys(identity_of(document, api) for document in documents)
    for identity in holders:
        if not api.cluster.synced(identity):
            unsynced = AccessReview(f"the watch of {identity.group_kind} is not synced")
            return [_wait_until_known(result, api, unsynced) for result in results]
        if (review := api.cluster.unreadable(identity)).why_not:
            return [_wait_until_known(result, api, review) for result in results]
        api.objects_with_generated_values[identity] = None
    live_values = [_live_value(candidates, api) or value for candidates, value in zip(locations, values, strict=True)]
    rendered = results if live_values == [*values] else render_file(live_values)
    if not all(locations):
        rendered = _refuse_unreadable_values(rendered, live_values, locations, render_file, api)
    return [_with_generated_values(result, live_values, holders.keys(), api) for result in rendered]


def _refuse_unreadable_values(
    results: list[Result],
    values: Sequence[str],
    locations: Sequence[Sequence[ValueLocation]],
    render_file: RenderFile,
    api: TemplateAPI,
) -> list[Result]:
    """The results, with a problem for each document that contains a value which stands alone in no field.

    Finds such documents with a second render, in which these values are different.
    """
    others = [value if found else different_value(value) for found, value in zip(locations, values, strict=True)]
    compared = render_file(others)
    if len(results) != len(compared):
        raise TemplateRuntimeError(f"a branch depends on a generated value; {_REMEDY}")
    waits = [result for result in results if isinstance(result, Wait)]
    return [_refuse_difference(one, other, waits, api) for one, other in zip(results, compared, strict=True)]


def _refuse_difference(one: Result, other: Result, waits: Sequence[Wait], api: TemplateAPI) -> Result:
    """The result, or a problem if it differs from the other one; a wait if a waiting document may contain the value."""
    if not isinstance(one, Document) or not isinstance(other, Document):
        return one
    field = difference(one.body, other.body)
    if field is None:
        return one
    if waits:
        return wait_instead(one, waits[0].awaited, api)
    return RenderProblem(f"{field_text(field)} is made of a generated value; {_REMEDY}", one.location_of(field))


def _with_generated_values(
    result: Result, values: Sequence[str], holders: AbstractSet[Identity], api: TemplateAPI
) -> Result:
    if not isinstance(result, Document):
        return result
    return replace(result, generated_values=tuple(values), has_generated_values=identity_of(result, api) in holders)


def _live_value(candidates: Sequence[ValueLocation], api: TemplateAPI) -> str | None:
    """The first value that a live object has at one of the locations of a generated value."""
    for location in candidates:
        value = location.live_value(api.cluster.lookup(identity_of(location.document, api)))
        if value is not None:
            return value
    return None


def _wait_until_known(result: Result, api: TemplateAPI, review: AccessReview) -> Result:
    if not isinstance(result, Document):
        return result
    identity = identity_of(result, api)
    version = result.body["apiVersion"]
    query = Lookup(api_version=version, kind=identity.kind, namespace=identity.namespace, name=identity.name)
    awaited = WaitTarget(query, state=f"be known: {review.why_not}", needs_permission=review.needs_permission)
    return wait_instead(result, (awaited,), api)

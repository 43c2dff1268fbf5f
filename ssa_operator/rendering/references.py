"""Resolves `child`, `live` and the annotation `after` to manifests of the same render and to live children.

Promises:
- A reference to a child that no template renders is a problem that suggests the nearest names.
- A reference that matches two manifests is a problem that names both, with their groups if these differ.
- A document that reads a child waits while the children of that kind are not known.
- A document that waits for a finalize hook is a problem, because the hook is applied only during deletion.
- `live` never waits. A missing field of a live child is a problem at its line, like a missing field of the parent.
- While the watch of its kind is not synced, a rendered child does not count as absent: the documents that read it wait
  until the operator knows. For other children, `live` gives what the cache has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeAlias

from msgspec import Struct

from ssa_operator.objects.annotations import PREFIX, Reference
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.render_result import Document, RenderProblem, Wait, WaitTarget, is_hook
from ssa_operator.objects.source_location import SourceLocation, field_text
from ssa_operator.rendering.jinja.template_api import TemplateAPI

WAIT = f"{PREFIX}wait"
"""The annotation whose value "false" means: nothing waits until the object is ready."""

_NAMES_LIMIT = 8

_HINTS_LIMIT = 8
"""References without a manifest whose messages suggest another name: it is compared with all names."""

Result: TypeAlias = Document | RenderProblem | Wait
"""The result of one manifest of a render."""


def identity_of(document: Document, api: TemplateAPI) -> Identity:
    """The identity that a document's object has in the cluster."""
    return api.resolve_namespace(document.identity)


def annotations_of(document: Document) -> Mapping[str, Any]:
    """The annotations of a document, {} if it has none."""
    found: Mapping[str, Any] = document.body["metadata"].get("annotations") or {}
    return found


def resolve_wait_namespace(result: Result, api: TemplateAPI) -> Result:
    """The result; a wait has the identity that its object has in the cluster."""
    if isinstance(result, Wait) and result.identity is not None:
        return replace(result, identity=api.resolve_namespace(result.identity))
    return result


def resolve_references(results: Sequence[Result], api: TemplateAPI) -> list[Result]:
    """The results of all files, with a problem for each invalid reference in place of the documents that use it, and a
    wait in place of each document that reads children of a kind that is not synced.
    """
    references = _references(results, api)
    if not references:
        return list(results)
    resolution = _resolve(references, results, api)
    resolved = [_resolve_result(result, resolution, api) for result in results]
    kept = [result for result in resolved if result is not None]
    return [*kept, *_reference_problems(results, resolution, api)]


class _Resolution(Struct, frozen=True, kw_only=True):
    """The references of a render and the manifests that they match."""

    locations: Mapping[Reference, SourceLocation | None]
    """Every reference, and the first template line with it."""
    invalid: Mapping[Reference, str]
    """The references to no manifest or to several, with the message."""
    unsynced: Mapping[Reference, GroupKind]
    """The references to children of a kind whose watch is not synced."""
    hooks: AbstractSet[Reference]
    """The finalize hooks of the render."""


def _resolve(
    references: Mapping[Reference, SourceLocation | None], results: Sequence[Result], api: TemplateAPI
) -> _Resolution:
    by_name: dict[Reference, list[Identity]] = {}
    for identity in dict.fromkeys(_identities(results, api)):
        by_name.setdefault(Reference(identity.kind, identity.name), []).append(identity)
    matches = {reference: by_name.get(reference, []) for reference in references}
    invalid = dict(_invalid_references(matches, results, api))
    unsynced = {
        reference: found[0].group_kind
        for reference, found in matches.items()
        if reference not in invalid and found and not api.cluster.synced(found[0])
    }
    hooks = _identities(
        [result for result in results if not isinstance(result, RenderProblem) and is_hook(result)], api
    )
    return _Resolution(
        locations=references,
        invalid=invalid,
        unsynced=unsynced,
        hooks={Reference(each.kind, each.name) for each in hooks},
    )


def _resolve_result(result: Result, resolution: _Resolution, api: TemplateAPI) -> Result | None:
    """The result, or the problem or wait in its place; None if one of its references is invalid."""
    if isinstance(result, RenderProblem):
        return result
    if _first_invalid(result, resolution) is not None:
        return None
    if not is_hook(result):
        for dependency in result.dependencies:
            query = dependency.query
            if dependency.awaited and query in resolution.hooks:
                message = f"{query} is applied only when the parent is being deleted; nothing else can wait for it"
                return RenderProblem(message, dependency.location, tuple(_identities([result], api)))
    return _wait_for_sync(result, resolution, api) if isinstance(result, Document) else result


def _first_invalid(result: Document | Wait, resolution: _Resolution) -> Reference | None:
    """The first invalid reference of a result."""
    queries = (dependency.query for dependency in result.dependencies)
    return next((query for query in queries if isinstance(query, Reference) and query in resolution.invalid), None)


def _wait_for_sync(document: Document, resolution: _Resolution, api: TemplateAPI) -> Document | Wait:
    """The document, or a wait if it reads children of a kind that is not synced."""
    awaited = unsynced_targets(document, resolution.unsynced)
    return wait_instead(document, awaited, api) if awaited else document


def unsynced_targets(result: Document | Wait, unsynced: Mapping[Reference, GroupKind]) -> tuple[WaitTarget, ...]:
    """What a result waits for, because it reads children of kinds whose watch is not synced."""
    queries = dict.fromkeys(dependency.query for dependency in result.dependencies) if unsynced else ()
    return tuple(
        WaitTarget(query, state=f"be known: the watch of {unsynced[query]} is not synced")
        for query in queries
        if isinstance(query, Reference) and query in unsynced
    )


def wait_instead(document: Document, awaited: tuple[WaitTarget, ...], api: TemplateAPI) -> Wait:
    """A wait in place of a document."""
    return Wait(
        location=document.location,
        awaited=awaited,
        identity=identity_of(document, api),
        version=split_api_version(document.body["apiVersion"])[1],
        dependencies=document.dependencies,
        annotations=annotations_of(document),
        secret=document.secret,
        ready_when=document.ready_when,
    )


def _reference_problems(
    results: Sequence[Result], resolution: _Resolution, api: TemplateAPI
) -> Iterator[RenderProblem]:
    """A problem for each invalid reference, with the documents that use it."""
    users: dict[Reference, list[Identity]] = {reference: [] for reference in resolution.invalid}
    for result in results:
        if not isinstance(result, RenderProblem):
            reference = _first_invalid(result, resolution)
            if reference is not None:
                users[reference] += _identities([result], api)
    for reference, message in resolution.invalid.items():
        yield RenderProblem(message, resolution.locations[reference], tuple(users[reference]))


def no_wait_children(results: Sequence[Result]) -> set[Reference]:
    """The children with the annotation `wait: "false"`."""
    found = set()
    for result in results:
        if isinstance(result, Document):
            metadata = result.body["metadata"]
            if _has_no_wait(metadata.get("annotations")):
                found.add(Reference(result.body["kind"], metadata["name"]))
        elif isinstance(result, Wait) and result.identity is not None and _has_no_wait(result.annotations):
            found.add(Reference(result.identity.kind, result.identity.name))
    return found


def _has_no_wait(annotations: Mapping[str, Any] | None) -> bool:
    return annotations is not None and annotations.get(WAIT) == "false"


def _references(results: Sequence[Result], api: TemplateAPI) -> dict[Reference, SourceLocation | None]:
    """Every child that a template reads or that `after` names, and the first template line that does."""
    references = {query: location for query, location in api.asked.items() if isinstance(query, Reference)}
    for result in results:
        for dependency in () if isinstance(result, RenderProblem) else result.dependencies:
            if dependency.after and isinstance(dependency.query, Reference):
                references.setdefault(dependency.query, dependency.location)
    return references


def _identities(results: Iterable[Result], api: TemplateAPI) -> Iterator[Identity]:
    for result in results:
        if isinstance(result, Document):
            yield identity_of(result, api)
        elif isinstance(result, Wait) and result.identity is not None:
            yield result.identity


def _invalid_references(
    matches: Mapping[Reference, Sequence[Identity]], results: Sequence[Result], api: TemplateAPI
) -> Iterator[tuple[Reference, str]]:
    """The references to several manifests or to none, with the message."""
    failed = any(isinstance(result, RenderProblem) for result in results)
    waiting_files = [result for result in results if isinstance(result, Wait) and result.identity is None]
    waits = {result.identity: result for result in results if isinstance(result, Wait) and result.identity}
    deadlocked = bool(waiting_files) and all(_is_deadlocked(wait, matches, waits, api) for wait in waiting_files)
    shown = [result for result in results if isinstance(result, RenderProblem) or not result.secret.name_object]
    names = [f"{identity.kind}/{identity.name}" for identity in dict.fromkeys(_identities(shown, api))]
    hints = 0
    for reference, found in matches.items():
        if reference in api.secret_queries:
            if len(found) != 1 and (found or deadlocked or not (failed or waiting_files)):
                yield reference, "a Secret's content names this child; no template renders it, or several do"
        elif len(found) > 1:
            yield reference, _ambiguous(reference, found, read=reference in api.asked)
        elif not found and not failed and not waiting_files:
            hints += 1
            hint = f"; {_hint(reference, names)}" if hints <= _HINTS_LIMIT else ""
            yield reference, f"no template renders {reference}{hint}"
        elif not found and not failed and deadlocked:
            files = "files that wait as a whole, and one of them waits for it"
            yield reference, f"no template renders {reference} but {files}; give it a file of its own"


def _ambiguous(reference: Reference, found: Sequence[Identity], *, read: bool) -> str:
    """The message for a reference to several manifests. A template reads it, or an annotation names it."""
    groups, namespaces = ({getattr(each, part) for each in found} for part in ("group", "namespace"))
    names = [f"{each} of {each.group or 'the core group'}" if len(groups) > 1 else str(each) for each in found]
    told = [what for what, values in (("its apiVersion", groups), ("a namespace", namespaces)) if len(values) > 1]
    remedy = f"use lookup with {' and '.join(told)}" if read else "give one of them another name"
    return f"{reference} could be {' or '.join(names)}; {remedy}"


def _is_deadlocked(
    wait: Wait,
    matches: Mapping[Reference, Sequence[Identity]],
    waits: Mapping[Identity, Wait],
    api: TemplateAPI,
    seen: frozenset[Identity] = frozenset(),
) -> bool:
    """Whether a wait leads, directly or through other waits, to a child that does not exist and that only a file which
    waits as a whole can render.
    """
    for awaited in wait.awaited:
        reference = awaited.query
        if not isinstance(reference, Reference) or api.cluster.child(reference.kind, reference.name) is not None:
            continue
        if not matches[reference]:
            return True
        unseen = [identity for identity in matches[reference] if identity in waits and identity not in seen]
        if any(_is_deadlocked(waits[identity], matches, waits, api, seen | {identity}) for identity in unseen):
            return True
    return False


def _hint(reference: Reference, names: Sequence[str]) -> str:
    near = near_names(str(reference), names, 2)
    if near:
        return f"did you mean {' or '.join(near)}?"
    shown = ", ".join(names[:_NAMES_LIMIT]) + (", ..." if len(names) > _NAMES_LIMIT else "")
    return f"rendered are {shown}" if names else "nothing else is rendered"


def resolve_live_reads(results: Sequence[Result], api: TemplateAPI, *, incomplete: bool = False) -> list[Result]:
    """The results, with a problem for each document that needs a field which its live child lacks, and a wait for each
    one that reads a child which is not known yet. With `incomplete`, a template that is left out may render a child
    that doesn't exist.
    """
    unsynced = _unsynced(results, api)
    return [_resolve_live(result, unsynced, api, incomplete=incomplete) for result in results]


def _unsynced(results: Sequence[Result], api: TemplateAPI) -> Mapping[Reference, GroupKind]:
    """The children of this render that templates read, of kinds whose watch is not synced."""
    identities = (_identity(result, api) for result in results)
    return {
        Reference(identity.kind, identity.name): identity.group_kind
        for identity in identities
        if identity is not None
        and Reference(identity.kind, identity.name) in api.live_reads
        and not api.cluster.synced(identity)
    }


def _identity(result: Result, api: TemplateAPI) -> Identity | None:
    if isinstance(result, Document):
        return identity_of(result, api)
    return result.identity if isinstance(result, Wait) else None


def _resolve_live(
    result: Result, unsynced: Mapping[Reference, GroupKind], api: TemplateAPI, *, incomplete: bool
) -> Result:
    if isinstance(result, RenderProblem):
        return result
    unknown = unsynced_targets(result, unsynced)
    if isinstance(result, Document):
        return wait_instead(result, unknown, api) if unknown else result
    missing = [awaited for awaited in result.awaited if awaited.live]
    if unknown:
        others = [awaited for awaited in result.awaited if not awaited.live]
        return replace(result, awaited=(*others, *unknown))
    if not missing or (incomplete and not _exists(missing[0], api)):
        return result
    of = () if result.identity is None else (result.identity,)
    return RenderProblem(_message(missing[0], api), result.location, of)


def _message(missing: WaitTarget, api: TemplateAPI) -> str:
    query = missing.query
    if missing.hidden:
        return "a Secret's content names this live child, which lacks the field; live never waits"
    field = field_text(missing.field)
    why = f"{query} has no {field}" if _exists(missing, api) else f"there is no live {query}, so it has no {field}"
    return f"{why}; live never waits: if it may be missing, write {field} | default(...)"


def _exists(missing: WaitTarget, api: TemplateAPI) -> bool:
    query = missing.query
    return isinstance(query, Reference) and api.cluster.child(query.kind, query.name) is not None

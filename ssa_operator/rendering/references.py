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

from ssa_operator.objects.annotations import PREFIX, Reference
from ssa_operator.objects.cluster_view import Question
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


def _identity(result: Result, api: TemplateAPI) -> Identity | None:
    if isinstance(result, Document):
        return identity_of(result, api)
    return result.identity if isinstance(result, Wait) else None


def _identities(results: Iterable[Result], api: TemplateAPI) -> dict[Identity, None]:
    return {identity: None for result in results if (identity := _identity(result, api)) is not None}


def _annotations(result: Document | Wait) -> Mapping[str, Any]:
    if isinstance(result, Wait):
        return result.annotations
    found: Mapping[str, Any] = result.body["metadata"].get("annotations") or {}
    return found


def no_wait_children(results: Sequence[Result]) -> set[Reference]:
    """The children with the annotation `wait: "false"`."""
    return {
        Reference(identity.kind, identity.name)
        for result in results
        if not isinstance(result, RenderProblem) and _annotations(result).get(WAIT) == "false"
        if (identity := result.identity) is not None
    }


def resolve_references(results: Sequence[Result], api: TemplateAPI) -> list[Result]:
    """The results of all files, with a problem for each invalid reference in place of the documents that use it, and a
    wait in place of each document that reads children of a kind that is not synced.
    """
    references = _references(results, api)
    if not references:
        return list(results)
    by_name: dict[Reference, list[Identity]] = {}
    for identity in _identities(results, api):
        by_name.setdefault(Reference(identity.kind, identity.name), []).append(identity)
    matches = {reference: by_name.get(reference, []) for reference in references}
    invalid = dict(_invalid_references(matches, results, api))
    valid = ((reference, found[0]) for reference, found in matches.items() if found and reference not in invalid)
    unsynced = {reference: found.group_kind for reference, found in valid if not api.cluster.synced(found)}
    rendered_hooks = [result for result in results if not isinstance(result, RenderProblem) and is_hook(result)]
    hooks = {Reference(each.kind, each.name) for each in _identities(rendered_hooks, api)}
    users: dict[Question, list[Identity]] = {reference: [] for reference in invalid}
    resolved: list[Result] = []
    for result in results:
        if isinstance(result, RenderProblem):
            resolved.append(result)
        elif (wrong := next((each.query for each in result.dependencies if each.query in users), None)) is not None:
            users[wrong] += _identities([result], api)
        elif (problem := _hook_problem(result, hooks, api)) is not None:
            resolved.append(problem)
        else:
            awaited = _unsynced_targets(result, unsynced) if isinstance(result, Document) else ()
            resolved.append(wait_instead(result, awaited, api) if awaited else result)  # type: ignore[arg-type]
    problems = (
        RenderProblem(message, references[reference], tuple(users[reference])) for reference, message in invalid.items()
    )
    return [*resolved, *problems]


def _references(results: Sequence[Result], api: TemplateAPI) -> dict[Reference, SourceLocation | None]:
    """Every child that a template reads or that `after` names, and the first template line that does."""
    references = {query: location for query, location in api.asked.items() if isinstance(query, Reference)}
    for result in results:
        for dependency in () if isinstance(result, RenderProblem) else result.dependencies:
            if dependency.after and isinstance(dependency.query, Reference):
                references.setdefault(dependency.query, dependency.location)
    return references


def _hook_problem(result: Document | Wait, hooks: AbstractSet[Question], api: TemplateAPI) -> RenderProblem | None:
    """The problem of a result that waits for a finalize hook and is none itself."""
    awaited = (each for each in result.dependencies if each.awaited and each.query in hooks)
    if is_hook(result) or (dependency := next(awaited, None)) is None:
        return None
    message = f"{dependency.query} is applied only when the parent is being deleted; nothing else can wait for it"
    return RenderProblem(message, dependency.location, tuple(_identities([result], api)))


def _unsynced_targets(result: Document | Wait, unsynced: Mapping[Reference, GroupKind]) -> tuple[WaitTarget, ...]:
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
        annotations=_annotations(document),
        secret=document.secret,
        ready_when=document.ready_when,
    )


def _invalid_references(
    matches: Mapping[Reference, Sequence[Identity]], results: Sequence[Result], api: TemplateAPI
) -> Iterator[tuple[Reference, str]]:
    """The references to several manifests or to none, with the message."""
    failed = any(isinstance(result, RenderProblem) for result in results)
    waiting_files = [result for result in results if isinstance(result, Wait) and result.identity is None]
    waits = {result.identity: result for result in results if isinstance(result, Wait) and result.identity}
    deadlocked = bool(waiting_files) and all(_is_deadlocked(wait, matches, waits, api) for wait in waiting_files)
    shown = [result for result in results if isinstance(result, RenderProblem) or not result.secret.name_object]
    names = [f"{identity.kind}/{identity.name}" for identity in _identities(shown, api)]
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
    children = ((Reference(each.kind, each.name), each) for each in _identities(results, api))
    read = ((child, identity) for child, identity in children if child in api.live_reads)
    unsynced = {child: identity.group_kind for child, identity in read if not api.cluster.synced(identity)}
    return [_resolve_live(result, unsynced, api, incomplete=incomplete) for result in results]


def _resolve_live(
    result: Result, unsynced: Mapping[Reference, GroupKind], api: TemplateAPI, *, incomplete: bool
) -> Result:
    if isinstance(result, RenderProblem):
        return result
    unknown = _unsynced_targets(result, unsynced)
    if isinstance(result, Document):
        return wait_instead(result, unknown, api) if unknown else result
    if unknown:
        return replace(result, awaited=(*(each for each in result.awaited if not each.live), *unknown))
    missing = next((each for each in result.awaited if each.live), None)
    if missing is None:
        return result
    query, field = missing.query, field_text(missing.field)
    exists = isinstance(query, Reference) and api.cluster.child(query.kind, query.name) is not None
    if incomplete and not exists:
        return result
    if missing.hidden:
        message = "a Secret's content names this live child, which lacks the field; live never waits"
    else:
        why = f"{query} has no {field}" if exists else f"there is no live {query}, so it has no {field}"
        message = f"{why}; live never waits: if it may be missing, write {field} | default(...)"
    return RenderProblem(message, result.location, tuple(_identities([result], api)))

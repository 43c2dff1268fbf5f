"""What `child` and `after` mean: a manifest of the same render.

Promises:
- A child that no template renders is a problem that suggests the nearest names; so is one that could be two manifests.
- Nothing is made of a child while it isn't known which children there are.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssa_operator.core.objects.annotations import PREFIX, Reference, is_finalize_hook
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.render_result import Document, RenderProblem, Wait, WaitTarget
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.rendering.jinja.template_api import TemplateAPI

WAIT = f"{PREFIX}wait"
"""The annotation of a manifest whose readiness counts for nobody, with the value "false"."""

_NAMES_LIMIT = 8


def identity(document: Document, inquiry: TemplateAPI) -> Identity:
    """What a document is called."""
    return inquiry.placed(document.identity)


def annotated(document: Document) -> Mapping[str, Any]:
    """The annotations of a document; it may have none."""
    found: Mapping[str, Any] = document.body["metadata"].get("annotations") or {}
    return found


def resolved(
    results: Sequence[Document | RenderProblem | Wait], inquiry: TemplateAPI
) -> list[Document | RenderProblem | Wait]:
    """The results of all files once it is known which children there are: without those that are made of a child that
    no template renders, and a wait in place of those that are made of a child that can't be judged yet.
    """
    asked = _references(results, inquiry)
    if not asked:
        return list(results)
    identities = dict.fromkeys(_identities(results, inquiry))
    meant = {
        query: [each for each in identities if (each.kind, each.name) == (query.kind, query.name)] for query in asked
    }
    faults = dict(_faults(meant, results, inquiry, identities))
    unsynced = {
        query: matches[0].group_kind
        for query, matches in meant.items()
        if query not in faults and matches and not inquiry.world.synced(matches[0].group_kind)
    }
    hooks = {
        Reference(each.kind, each.name)
        for result in results
        if _is_hook(result)
        for each in _identities([result], inquiry)
    }
    settled: list[Document | RenderProblem | Wait] = []
    lost: dict[Reference, list[Identity]] = {query: [] for query in faults}
    for result in results:
        if isinstance(result, RenderProblem):
            settled.append(result)
            continue
        queries = [use.query for use in result.dependencies]
        if wrong := [query for query in queries if isinstance(query, Reference) and query in faults]:
            lost[wrong[0]] += _identities([result], inquiry)
            continue
        if never := [use for use in result.dependencies if use.awaited and use.query in hooks and not _is_hook(result)]:
            message = f"{never[0].query} is applied only when the parent is being deleted; nothing else can wait for it"
            settled.append(RenderProblem(message, never[0].location, tuple(_identities([result], inquiry))))
            continue
        unknown = [query for query in queries if query in unsynced]
        if unknown and isinstance(result, Document):
            awaited = tuple(
                WaitTarget(query, state=f"be known: the watch of {kind} is not synced")
                for query, kind in unsynced.items()
                if query in unknown
            )
            settled.append(
                Wait(
                    location=result.location,
                    awaited=awaited,
                    identity=identity(result, inquiry),
                    dependencies=result.dependencies,
                    annotations=annotated(result),
                )
            )
        else:
            settled.append(result)
    return [
        *settled,
        *(RenderProblem(message, asked[query], tuple(lost[query])) for query, message in faults.items()),
    ]


def uncounted(results: Sequence[Document | RenderProblem | Wait]) -> set[Reference]:
    """The children whose readiness counts for nobody, as their manifests say."""
    found = set()
    for result in results:
        if isinstance(result, Document):
            metadata = result.body["metadata"]
            if _says_no_wait(metadata.get("annotations")):
                found.add(Reference(result.body["kind"], metadata["name"]))
        elif isinstance(result, Wait) and result.identity is not None and _says_no_wait(result.annotations):
            found.add(Reference(result.identity.kind, result.identity.name))
    return found


def _is_hook(result: Document | RenderProblem | Wait) -> bool:
    if isinstance(result, RenderProblem):
        return False
    return is_finalize_hook(
        result.body["metadata"].get("annotations") if isinstance(result, Document) else result.annotations
    )


def _says_no_wait(annotations: Mapping[str, Any] | None) -> bool:
    return annotations is not None and annotations.get(WAIT) == "false"


def _references(
    results: Sequence[Document | RenderProblem | Wait], inquiry: TemplateAPI
) -> dict[Reference, SourceLocation | None]:
    """Every child that is asked for, also by `after` alone, and the first line that does."""
    asked = {query: location for query, location in inquiry.asked.items() if isinstance(query, Reference)}
    for result in results:
        for use in () if isinstance(result, RenderProblem) else result.dependencies:
            if use.after and isinstance(use.query, Reference):
                asked.setdefault(use.query, use.location)
    return asked


def _identities(results: Sequence[Document | RenderProblem | Wait], inquiry: TemplateAPI) -> Iterator[Identity]:
    for result in results:
        if isinstance(result, Document):
            yield identity(result, inquiry)
        elif isinstance(result, Wait) and result.identity is not None:
            yield result.identity


def _faults(
    meant: dict[Reference, list[Identity]],
    results: Sequence[Document | RenderProblem | Wait],
    inquiry: TemplateAPI,
    identities: Collection[Identity],
) -> Iterator[tuple[Reference, str]]:
    """The questions that can't be answered, and why."""
    failed = any(isinstance(result, RenderProblem) for result in results)
    open_waits = [result for result in results if isinstance(result, Wait) and result.identity is None]
    waiting = {result.identity: result for result in results if isinstance(result, Wait) and result.identity}
    stuck = bool(open_waits) and all(_is_stuck(wait, meant, waiting, inquiry) for wait in open_waits)
    for query, matches in meant.items():
        if len(matches) > 1:
            names = " or ".join(map(str, matches))
            apart = "use lookup with a namespace" if query in inquiry.asked else "give one of them another name"
            yield query, f"{query} could be {names}; {apart}"
        elif not matches and not failed and not open_waits:
            yield query, f"no template renders {query}; {_hint(query, identities)}"
        elif not matches and not failed and stuck:
            who = "those that wait as a whole, and one of them for it"
            yield query, f"no template renders {query} but {who}; give it a file of its own"


def _is_stuck(
    wait: Wait,
    meant: Mapping[Reference, Sequence[Identity]],
    waiting: Mapping[Identity, Wait],
    inquiry: TemplateAPI,
    seen: frozenset[Identity] = frozenset(),
) -> bool:
    """Whether something waits, itself or by way of others, for a child that is not there and that only a file which
    waits as a whole can render.
    """
    for awaited in wait.awaited:
        query = awaited.query
        if not isinstance(query, Reference) or inquiry.world.child(query.kind, query.name) is not None:
            continue
        if not meant[query]:
            return True
        for identity in meant[query]:
            if identity in waiting and identity not in seen:
                behind = seen | {identity}
                if _is_stuck(waiting[identity], meant, waiting, inquiry, behind):
                    return True
    return False


def _hint(query: Reference, identities: Collection[Identity]) -> str:
    names = [f"{identity.kind}/{identity.name}" for identity in identities]
    near = difflib.get_close_matches(str(query), names, n=2)
    if near:
        return f"did you mean {' or '.join(near)}?"
    shown = ", ".join(names[:_NAMES_LIMIT]) + (", ..." if len(names) > _NAMES_LIMIT else "")
    return f"rendered are {shown}" if names else "nothing else is rendered"


def placed(result: Document | RenderProblem | Wait, inquiry: TemplateAPI) -> Document | RenderProblem | Wait:
    """A result whose identity, if it waits, is the one that it will have."""
    if isinstance(result, Wait) and result.identity is not None:
        return replace(result, identity=inquiry.placed(result.identity))
    return result

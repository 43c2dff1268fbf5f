"""Resolves `live`: reads of the parent's own children in their current state.

Promises:
- `live` never waits. A missing field of a live child is a problem at its line, like a missing field of the parent.
- While the watch of its kind is not synced, a rendered child does not count as absent: the documents that read it wait
  until the operator knows. For other children, `live` gives what the cache has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.render_result import Document, RenderProblem, Wait, WaitTarget
from ssa_operator.objects.source_location import field_text
from ssa_operator.rendering.jinja.template_api import TemplateAPI
from ssa_operator.rendering.references import Result, identity_of, unsynced_targets, wait_instead


def resolve_live_reads(results: Sequence[Result], api: TemplateAPI, *, incomplete: bool = False) -> list[Result]:
    """The results, with a problem for each document that needs a field which its live child lacks, and a wait for each
    one that reads a child which is not known yet. With `incomplete`, a template that is left out may render a child
    that doesn't exist.
    """
    if not api.live_reads:
        return list(results)
    unsynced = _unsynced(results, api)
    return [_resolve(result, unsynced, api, incomplete=incomplete) for result in results]


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


def _resolve(result: Result, unsynced: Mapping[Reference, GroupKind], api: TemplateAPI, *, incomplete: bool) -> Result:
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

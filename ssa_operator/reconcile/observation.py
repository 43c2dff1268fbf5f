"""Makes what a reconcile knows when it plans, of what the caches of an operator, a snapshot, or files show.

Promises:
- An operator and each command that plans without one make it here, and nowhere else.
- A process that knows nothing of a parent goes by what an earlier process recorded and reported.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ssa_operator.informers.parents import Parent
from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.causes import APPLY_ALL, Cause
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.observed import Observed, ObservedChildren, ObservedParents
from ssa_operator.reconcile.parent_records.lost_records import were_lost
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.settings import ApplyMode, ReconcileSettings
from ssa_operator.reconcile.status.previous_status import reported_children, reported_successors
from ssa_operator.rendering.folder.loaded_folders import Folder

RECONCILE_AT = f"{PREFIX}reconcile-at"
"""The annotation whose new value, whatever it is, has everything applied now. It confirms a held prune."""

_NO_OTHERS, _NO_RECORDS = ObservedParents(), ParentRecords()
_NO_STATE, _NO_SETTINGS = ParentState(), ReconcileSettings()


def make_observed(
    parent: LiveObject,
    folder: Folder,
    rendered: Rendered,
    children: ObservedChildren,
    parents: ObservedParents = _NO_OTHERS,
    records: ParentRecords = _NO_RECORDS,
    *,
    now: float = 0.0,
    confidential: bool = False,
    state: ParentState = _NO_STATE,
    causes: Cause = Cause.PARENT,
    settings: ReconcileSettings = _NO_SETTINGS,
    monotonic: float = 0.0,
) -> Observed:
    """What a reconcile of the parent knows, after `folder` was rendered for it.

    `children`, `parents`, `records` and `now` are what a cluster, a snapshot of one, or files have around the parent.
    `confidential` is `is_confidential`, where others than the author see the messages. The rest is what the process
    knows; the defaults are those of a command that has just begun.
    """
    own, records_lost = children.own, False
    renders, applied = state.renders, records.applied
    if not state.reconciled_before:
        renders = replace(renders, successors=reported_successors(parent, own))
        if applied is not None and applied.templates:
            renders = replace(renders, applied_digest=applied.templates)
        records_lost = were_lost(parent, has_children=_has_children(parent, own))
    renewed = is_renewed(parent, state)
    causes = Cause.CHILD if parent.deleting else causes
    always = settings.apply is ApplyMode.ALWAYS and causes & (APPLY_ALL | Cause.RESYNC)
    if not parents.crds:
        parents = replace(parents, crds={parent.identity.group_kind: folder.name})
    return Observed(
        parent=parent,
        children=children,
        parents=parents,
        records=records,
        memory=state.children,
        renders=renders,
        rendered_before=renders.rendered if renders.digest == rendered.digest else frozenset(),
        reconciled_before=state.reconciled_before,
        records_lost=records_lost,
        applies_all=renewed or bool(always),
        renewed=renewed,
        settings=folder.settings,
        planned=folder.planned,
        sharded=settings.sharded,
        confidential=confidential,
        reconcile_at=_reconcile_at(parent),
        now=now,
        monotonic=monotonic,
    )


def is_renewed(parent: LiveObject, state: ParentState) -> bool:
    """Whether the parent's `reconcile-at` has a new value."""
    return _reconcile_at(parent) != state.reconcile_at


def _reconcile_at(parent: LiveObject) -> str:
    return parent.metadata.annotations.get(RECONCILE_AT, "")


def _has_children(parent: LiveObject, own: Iterable[LiveObject]) -> bool:
    """Whether the operator has applied a child of the parent that exists, or that the status names with its uid."""
    reported = reported_children(parent) or ()
    return any(live.owned_fields() for live in own) or any(entry.get("uid") for entry in reported)


def is_confidential(parent: Parent, rendered: Rendered) -> bool:
    """Whether what was rendered may hold a Secret's content, in whatever kind of object."""
    asked = any(query.kind == "Secret" for query in rendered.queries)
    return asked or parent.resource.confidential or bool(rendered.generated_values)

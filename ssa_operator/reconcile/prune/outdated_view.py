"""Decides whether the operator's view of a parent is current, before the operator deletes anything based on it.

A watch may be behind: one of several API servers may serve it from a lagging cache, or events may be delayed. The next
reconcile corrects an apply that is based on an old parent, but no deletion.

Promises:
- A change of the parent that templates or the operator could act on makes the view outdated. A change of its status
  does not, because every reconcile writes it, except for what was applied.
- The comparison uses the state of the parent that the templates rendered, even if the operator has written records on
  it since and so received a newer state.
"""

from __future__ import annotations

from typing import Any

from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.parent_records.rules import RECORD_ANNOTATIONS, shown_text

_WRITTEN_BY_STATUS_UPDATES = ("resourceVersion", "managedFields")


def is_outdated(known: LiveObject, current: LiveObject) -> bool:
    """Whether the known parent is not the current object of its name, or is an older state of it."""
    return known.uid != current.uid or _acted_on(known) != _acted_on(current)


def is_outdated_but_for_records(rendered: LiveObject, recorded: LiveObject) -> bool:
    """As `is_outdated`, where the operator has written its own annotations and finalizer in between."""
    return rendered.uid != recorded.uid or _without_records(rendered) != _without_records(recorded)


def _without_records(parent: LiveObject) -> dict[str, Any]:
    body = _acted_on(parent)
    metadata = dict(body["metadata"])
    annotations, finalizers = parent.metadata.annotations, parent.metadata.finalizers
    metadata["annotations"] = {name: annotations[name] for name in annotations.keys() - RECORD_ANNOTATIONS}
    metadata["finalizers"] = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
    return {**body, "metadata": metadata, "status": None}


def _acted_on(parent: LiveObject) -> dict[str, Any]:
    """The parts that templates and the operator act on."""
    body = {**parent.body, "status": shown_text(parent)}
    metadata = body.get("metadata", {})
    body["metadata"] = {field: value for field, value in metadata.items() if field not in _WRITTEN_BY_STATUS_UPDATES}
    return body

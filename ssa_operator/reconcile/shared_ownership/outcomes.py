"""What becomes of an object that a parent gives up while other parents own it.

Promises:
- It counts as changed and not as pruned, in Events, in `plan` and in `diff`.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.shared_ownership.rules import release_patch
from ssa_operator.reconcile.step import Step


def released_outcome(step: Step, live: LiveObject | None, uid: str) -> Outcome | None:
    """The outcome of a prune by which a parent gives up an object, None if no other parent owns it."""
    patch = None if live is None or live.shared is None else release_patch(live, uid)
    if live is None or patch is None:
        return None
    metadata, changed = live.body["metadata"], json.loads(patch)["metadata"]
    annotations = {**metadata.get("annotations", {}), **changed["annotations"]}
    metadata = {**metadata, **changed, "annotations": annotations}
    after = LiveObject.of({**live.body, "metadata": metadata})
    kept = replace(step, reason=f"{step.reason}; its other owners keep it")
    return Outcome(step=kept, result=Result.CONFIGURED, live=after)

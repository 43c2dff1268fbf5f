"""Which parents an operator reconciles: those of its shard, and those that `--selector` selects.

Promises:
- A parent of another shard is not reconciled, whether the API server filters by shard or not.
- A parent that is being deleted, and that has the finalizer of an operator with this very `--selector`, is reconciled
  to its end, even if its labels no longer match.
"""

from __future__ import annotations

from collections.abc import Callable

from ssa_operator.objects.label_selectors import label_selector, selects
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.shards import Shard
from ssa_operator.reconcile.parent_records.rules import is_left_by_selector


def kept_parents(shard: Shard | None, selector: str) -> Callable[[LiveObject], bool] | None:
    """Whether a parent is one of a shard (None: of all), and selected by labels; None if all are."""
    if not selector:
        # Even if the API server filters them, because another server of the same cluster may not.
        return None if shard is None else lambda live: shard.owns(live.uid)
    wanted = label_selector(selector)

    def is_kept(live: LiveObject) -> bool:
        if shard is not None and not shard.owns(live.uid):
            return False
        return selects(wanted, live.metadata.labels) or is_left_by_selector(live, selector)

    return is_kept

"""What an apply would change now: of one child, and of a whole parent.

Promises:
- The changes are those of `ssa-operator diff`: the same functions plan them, and each write is a dry run.
- No content of a Secret is part of an answer: a short hash stands for it.
- An object that the reader may not get is not part of an answer.

https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

from __future__ import annotations

import secrets
from typing import Any

from msgspec.structs import replace

from ssa_operator.operator.preview import Planned, Preview
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.plan.changes import changes_data, parent_changes
from ssa_operator.tools.plan.previews import NamedParent
from ssa_operator.web.looked_up import MayGet
from ssa_operator.web.parent_page import key_of, node_key


async def changes_now(
    preview: Preview, parents: Parents, found: FoundObject, child: str, may_get: MayGet
) -> dict[str, Any]:
    """What an apply of the parent would change now, or of one child (`node_key`). Raises ApiError."""
    parent = parents.parent(found.live)
    planned = await preview.plan(parent)
    if child:
        planned = _only(planned, child)
    outcomes = await preview.dry_run(planned, as_resumed=True)
    changes = parent_changes(NamedParent(parent=parent), planned, outcomes, secrets.token_bytes(16))
    hidden = {each.identity for each in changes.objects if not await may_get(preview.placed(planned)(each.identity))}
    shown = tuple(each for each in changes.objects if each.identity not in hidden)
    data = changes_data(replace(changes, objects=shown))
    if hidden:
        kinds = ", ".join(sorted({each.kind for each in hidden}))
        data["notes"].append(f"objects of these kinds are not shown, because you may not get them: {kinds}")
    if child:
        data["objects"] = [each for each in data["objects"] if node_key(each) == child]
    return data


def _only(planned: Planned, child: str) -> Planned:
    """The plan of one child. Whether an object is pruned depends on all others."""
    steps = tuple(step for step in planned.plan.steps if key_of(step.identity) == child)
    if not steps or any(step.action in (Action.PRUNE, Action.KEEP) for step in steps):
        return planned
    return replace(planned, plan=replace(planned.plan, steps=steps))

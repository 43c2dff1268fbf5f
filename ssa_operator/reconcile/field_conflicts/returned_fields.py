"""Fields that a template stops writing, and that come back because the API server has them by another name.

The API server writes `serviceAccountName` of a pod as `serviceAccount` too, and reads either. The template's manager
owns the field that it wrote, and no manager owns the other one: if the first is removed, the API server restores it
from the second (kubernetes/kubernetes#108208).

Promises:
- A field came back only if an apply would leave it with its old value, no manager would own it, and a new object of the
  manifest would not have it. A default is not such a field.
- To remove it, only fields of the same mapping may make way, and only if no manager owns them or their manager gives
  them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ssa_operator.objects.field_set import Path, covers, lacking, leaves
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.managed_fields import other_entries, owned_by, owned_content
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.reconcile.refusals.rules import RefusedApply


def dropped_fields(live: LiveObject, manifest: Manifest) -> tuple[Path, ...]:
    """The outermost fields that the operator alone owns in an object, and that the manifest does not have."""
    dropped = lacking(owned_content(live), manifest.body)
    if not dropped:
        return ()
    others = [tree for _, tree in other_entries(live)]
    return tuple(path for path in leaves(dropped) if not any(covers(tree, path) for tree in others))


def returned_fields(
    dropped: Sequence[Path], live: LiveObject, applied: LiveObject, fresh: LiveObject
) -> tuple[Path, ...]:
    """The dropped fields that came back. `applied` is the object as an apply would leave it, and `fresh` the one that
    the manifest would become under another name.
    """
    before, after, new = IndexedBody(live.body), IndexedBody(applied.body), IndexedBody(fresh.body)
    owned = [owned_by(applied), *(tree for _, tree in other_entries(applied))]
    return tuple(
        path
        for path in dropped
        if (value := after.value_at(path)) is not None
        and value == before.value_at(path)
        and new.value_at(path) is None
        and not any(covers(tree, path) for tree in owned)
    )


def as_refused(
    manifest: Manifest, live: LiveObject, returned: Sequence[Path], former: AbstractSet[str]
) -> RefusedApply:
    """An apply after which these fields would be back, in the form of a refused apply."""
    names = (tuple(step[2:] for step in path if step.startswith("f:")) for path in returned)
    return RefusedApply(
        manifest=manifest,
        live=live,
        fields=tuple(dict.fromkeys(names)),
        immutable=(),
        custom=False,
        former=former,
    )


def is_gone(returned: Sequence[Path], found: LiveObject) -> bool:
    """Whether an object has none of these fields."""
    body = IndexedBody(found.body)
    return all(body.value_at(path) is None for path in returned)

"""The outcomes of a plan without an API server: each manifest is merged into its live object.

Promises:
- The merge follows the live object's managedFields: items of list maps are merged by their keys, and a field that the
  operator alone owns and no longer renders is removed.
- A number of replicas that the manifest leaves to others stays, as in an apply.
- Two spellings of one amount are no change where the schema of the kind has a quantity, and neither is an empty mapping
  or list that the API server drops.
- What an item of a list without keys has beside the manifest's fields counts as the API server's defaults.
- What only the API server knows is not guessed: new defaults, validation, admission, and whether a field is immutable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from ssa_operator.objects.field_set import ListTypes, lacking, union, without_fields
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.managed_fields import entry_owner, managed_entries, with_managed_fields
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.merge_keys import ListIndex
from ssa_operator.objects.scalars import is_same_amount
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.prune.deletions import with_deletions
from ssa_operator.reconcile.replicas.rules import ScalePaths, find_handover, with_handed_over
from ssa_operator.reconcile.resync.unchanged import is_same_content
from ssa_operator.reconcile.shared_ownership import released_outcome, with_owners

Path: TypeAlias = tuple[str, ...]
"""The names of fields and keys that lead to a value, without positions in lists."""

ScalePathsOf: TypeAlias = Callable[[GroupKind], ScalePaths]
"""The field of the number of replicas of a kind, by version."""

IsQuantity: TypeAlias = Callable[[str, str, Path], bool]
"""Whether the field of an apiVersion and kind is a quantity by its schema."""


def merged_outcomes(plan: Plan, is_quantity: IsQuantity, paths_of: ScalePathsOf) -> tuple[Child, ...]:
    """The outcome of each step, in the order of the plan's steps."""
    outcomes = [_outcome(step, plan.observed.parent.uid, is_quantity, paths_of) for step in plan.steps]
    failed = any(outcome.result is Result.FAILED for outcome in outcomes)
    kept = (_kept(each) if failed and each.action is Action.PRUNE else each for each in outcomes)
    return with_deletions(plan, kept)


def _kept(outcome: Child) -> Child:
    message = "is no longer rendered; kept because an apply failed"
    return outcome.ended(Result.WAITING, live=outcome.before, message=message)


def _outcome(step: Child, uid: str, is_quantity: IsQuantity, paths_of: ScalePathsOf) -> Child:
    match step.action:
        case Action.APPLY if step.manifest is not None:
            manifest = with_owners(step.manifest, step.live)
            return _applied(step, manifest, is_quantity, paths_of(step.identity.group_kind))
        case Action.APPLY | Action.UNCHANGED | Action.KEEP:
            return step.ended(Result.UNCHANGED, live=step.live)
        case Action.PRUNE:
            return released_outcome(step, step.live, uid) or step.ended(Result.PRUNED)
        case Action.RECREATE:
            return step.ended(Result.RECREATED, message=step.reason)
        case Action.WAIT:
            return step.ended(Result.WAITING, live=step.live, message=step.reason)
        case Action.REFUSE:
            return step.ended(
                Result.FAILED,
                live=step.live,
                message=f"{step.identity} {step.reason}",
                problem=step.problem or FailureReason.INVALID_MANIFEST,
            )


def _applied(step: Child, manifest: Manifest, is_quantity: IsQuantity, paths: ScalePaths) -> Child:
    live = step.live
    if live is None:
        return step.ended(Result.CREATED, live=LiveObject.of(dict(manifest.body)))
    handover = find_handover(manifest, live, paths, step.replicas)
    if handover is None:
        after = merged(live, manifest, is_quantity)
    else:
        after = handover.patched(merged(live, with_handed_over(manifest, handover), is_quantity))
    same = is_same_content(live, after)
    return step.ended(Result.UNCHANGED if same else Result.CONFIGURED, live=after)


def merged(live: LiveObject, manifest: Manifest, is_quantity: IsQuantity) -> LiveObject:
    """A live object as an apply of a manifest would leave it."""
    is_amount = partial(is_quantity, manifest.api_version, manifest.identity.kind)
    entries = managed_entries(live)
    others = [entry for entry in entries if not entry_owner(entry).is_operator]
    types = ListTypes(entry["fieldsV1"] for entry in entries)
    body = _merged(live.body, manifest.body, types, (), is_amount)
    owned_before = union([entry["fieldsV1"] for entry in entries if entry_owner(entry).is_operator])
    owned_by_others = union([entry["fieldsV1"] for entry in others])
    body = without_fields(body, lacking(owned_before, manifest.body, owned_by_others))
    # The operator's entry tells which fields it would own.
    fields = {key: value for key, value in _fields(manifest.body, types).items() if key not in _IDENTITY}
    entry = {"manager": MANAGER, "operation": "Apply", "apiVersion": manifest.api_version, "fieldsV1": fields}
    return with_managed_fields(LiveObject.of(body), [entry, *others])


_IDENTITY = frozenset({"f:apiVersion", "f:kind"})


def _merged(live: Any, wanted: Any, types: ListTypes, path: Path, is_amount: Callable[[Path], bool]) -> Any:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        result = dict(live)
        for key, value in wanted.items():
            if key not in live and value in ({}, []):
                continue
            below = types.field(key)
            result[key] = _merged(live[key], value, below, (*path, key), is_amount) if key in live else value
        return result
    if isinstance(live, list) and isinstance(wanted, list):
        return _merged_list(live, wanted, types, path, is_amount)
    if live != wanted and is_same_amount(live, wanted) and is_amount(path):
        return live
    return wanted


def _merged_list(
    live: Sequence[Any], wanted: Sequence[Any], types: ListTypes, path: Path, is_amount: Callable[[Path], bool]
) -> list[Any]:
    """Two lists, merged by keys if any manager owns the items of the list one by one; else the wanted one."""
    if types.keys:
        result, index = list(live), ListIndex(live)
        for item in wanted:
            found = index.selected(_key(item, types.keys)) if isinstance(item, Mapping) else ()
            if found:
                result[found[0]] = _merged(live[found[0]], item, types.item, path, is_amount)
            else:
                result.append(item)
        return result
    if types.is_set:
        index = ListIndex(live)
        return [*live, *(item for item in wanted if not index.equal(item))]
    if len(live) == len(wanted):
        # What an item has besides are the API server's defaults, as in the volumeClaimTemplates of a StatefulSet.
        return [_merged(before, item, ListTypes(), path, is_amount) for before, item in zip(live, wanted, strict=True)]
    return list(wanted)


def _key(item: Mapping[str, Any], names: Sequence[str]) -> str:
    return "k:" + json.dumps({name: item[name] for name in names if name in item}, separators=(",", ":"))


def _fields(wanted: Any, types: ListTypes) -> dict[str, Any]:
    """The field set of what a manifest writes."""
    if isinstance(wanted, Mapping):
        return {f"f:{key}": _fields(value, types.field(key)) for key, value in wanted.items()}
    if isinstance(wanted, list):
        return dict(_item_fields(wanted, types))
    return {}


def _item_fields(wanted: Sequence[Any], types: ListTypes) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in wanted:
        if types.keys and isinstance(item, Mapping):
            yield _key(item, types.keys), {".": {}, **_fields(item, types.item)}
        elif types.is_set:
            yield f"v:{json.dumps(item)}", {}

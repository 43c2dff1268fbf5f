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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.managed_fields import managed_entries, step_value, union_of_fields
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.merge_keys import ListIndex, keys_of
from ssa_operator.objects.scalars import amount
from ssa_operator.reconcile.adoption.rules import unkept_fields, without_fields
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.prune.deletions import with_deletions
from ssa_operator.reconcile.replicas.rules import ScalePaths, find_handover, with_handed_over
from ssa_operator.reconcile.resync.unchanged import is_same_content
from ssa_operator.reconcile.shared_ownership.rules import released_outcome, with_owners
from ssa_operator.reconcile.step import Action, FailureReason, Step

Fields = Mapping[str, Any]
"""A tree of fieldsV1."""

Path: TypeAlias = tuple[str, ...]
"""The names of fields and keys that lead to a value, without positions in lists."""

ScalePathsOf: TypeAlias = Callable[[GroupKind], ScalePaths]
"""The field of the number of replicas of a kind, by version."""

IsQuantity: TypeAlias = Callable[[str, str, Path], bool]
"""Whether the field of an apiVersion and kind is a quantity by its schema."""


def merged_outcomes(plan: Plan, is_quantity: IsQuantity, paths_of: ScalePathsOf) -> tuple[Outcome, ...]:
    """The outcome of each step, in the order of the plan's steps."""
    outcomes = [_outcome(step, plan.observed.parent.uid, is_quantity, paths_of) for step in plan.steps]
    failed = any(outcome.result is Result.FAILED for outcome in outcomes)
    kept = (_kept(each) if failed and each.step.action is Action.PRUNE else each for each in outcomes)
    return with_deletions(plan, kept)


def _kept(outcome: Outcome) -> Outcome:
    message = "is no longer rendered; kept because an apply failed"
    return Outcome(step=outcome.step, result=Result.WAITING, live=outcome.step.live, message=message)


def _outcome(step: Step, uid: str, is_quantity: IsQuantity, paths_of: ScalePathsOf) -> Outcome:
    match step.action:
        case Action.APPLY if step.manifest is not None:
            manifest = with_owners(step.manifest, step.live)
            return _applied(step, manifest, is_quantity, paths_of(step.identity.group_kind))
        case Action.APPLY | Action.UNCHANGED | Action.KEEP:
            return Outcome(step=step, result=Result.UNCHANGED, live=step.live)
        case Action.PRUNE:
            return released_outcome(step, step.live, uid) or Outcome(step=step, result=Result.PRUNED)
        case Action.RECREATE:
            return Outcome(step=step, result=Result.RECREATED, message=step.reason)
        case Action.WAIT:
            return Outcome(step=step, result=Result.WAITING, live=step.live, message=step.reason)
        case Action.REFUSE:
            return Outcome(
                step=step,
                result=Result.FAILED,
                live=step.live,
                message=f"{step.identity} {step.reason}",
                problem=step.problem or FailureReason.INVALID_MANIFEST,
            )


def _applied(step: Step, manifest: Manifest, is_quantity: IsQuantity, paths: ScalePaths) -> Outcome:
    live = step.live
    if live is None:
        return Outcome(step=step, result=Result.CREATED, live=LiveObject.of(dict(manifest.body)))
    handover = find_handover(manifest, live, paths, step.replicas)
    if handover is None:
        after = merged(live, manifest, is_quantity)
    else:
        after = handover.patched(merged(live, with_handed_over(manifest, handover), is_quantity))
    same = is_same_content(live, after)
    return Outcome(step=step, result=Result.UNCHANGED if same else Result.CONFIGURED, live=after)


def merged(live: LiveObject, manifest: Manifest, is_quantity: IsQuantity) -> LiveObject:
    """A live object as an apply of a manifest would leave it."""
    is_amount = partial(is_quantity, manifest.api_version, manifest.identity.kind)
    entries = managed_entries(live)
    own = [entry for entry in entries if _is_own(entry)]
    others = [entry for entry in entries if not _is_own(entry)]
    tree = union_of_fields([entry["fieldsV1"] for entry in entries])
    body = _merged(live.body, manifest.body, tree, (), is_amount)
    owned_before = union_of_fields([entry["fieldsV1"] for entry in own])
    owned_by_others = union_of_fields([entry["fieldsV1"] for entry in others])
    body = without_fields(body, unkept_fields(owned_before, manifest.body, owned_by_others))
    # The operator's entry tells which fields it would own.
    fields = {key: value for key, value in _fields(manifest.body, tree).items() if key not in _IDENTITY}
    entry = {"manager": MANAGER, "operation": "Apply", "apiVersion": manifest.api_version, "fieldsV1": fields}
    return LiveObject.of({**body, "metadata": {**body["metadata"], "managedFields": [entry, *others]}})


_IDENTITY = frozenset({"f:apiVersion", "f:kind"})


def _is_own(entry: Mapping[str, Any]) -> bool:
    return (entry.get("manager"), entry.get("operation")) == (MANAGER, "Apply") and not entry.get("subresource")


def _merged(live: Any, wanted: Any, tree: Fields, path: Path, is_amount: Callable[[Path], bool]) -> Any:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        result = dict(live)
        for key, value in wanted.items():
            if key not in live and value in ({}, []):
                continue
            below = tree.get(f"f:{key}") or {}
            result[key] = _merged(live[key], value, below, (*path, key), is_amount) if key in live else value
        return result
    if isinstance(live, list) and isinstance(wanted, list):
        return _merged_list(live, wanted, tree, path, is_amount)
    if live != wanted and _same_amount(live, wanted) and is_amount(path):
        return live
    return wanted


def _merged_list(
    live: Sequence[Any], wanted: Sequence[Any], tree: Fields, path: Path, is_amount: Callable[[Path], bool]
) -> list[Any]:
    """Two lists, merged by keys if any manager owns the items of the list one by one; else the wanted one."""
    names = _key_names(tree)
    if names:
        result, index, steps = list(live), ListIndex(live), _Steps(tree)
        for item in wanted:
            found = index.selected(_key(item, names)) if isinstance(item, Mapping) else ()
            if found:
                result[found[0]] = _merged(live[found[0]], item, steps.below(item), path, is_amount)
            else:
                result.append(item)
        return result
    if any(step.startswith("v:") for step in tree):
        index = ListIndex(live)
        return [*live, *(item for item in wanted if not index.equal(item))]
    if len(live) == len(wanted):
        # What an item has besides are the API server's defaults, as in the volumeClaimTemplates of a StatefulSet.
        return [_merged(before, item, {}, path, is_amount) for before, item in zip(live, wanted, strict=True)]
    return list(wanted)


class _Steps:
    """The steps of a fieldsV1 tree that are keys of a list map."""

    def __init__(self, tree: Fields) -> None:
        self._names = _key_names(tree)
        self._trees = [below for step, below in tree.items() if step.startswith("k:")]
        self._index = ListIndex([keys_of(step) for step in tree if step.startswith("k:")])

    def below(self, item: Mapping[str, Any]) -> Fields:
        """The tree below the step of an item, which may lack a key that has a default, as a protocol."""
        found = self._index.exact({name: item[name] for name in self._names if name in item})
        below = self._trees[found[0]] if found else {}
        return below if isinstance(below, Mapping) else {}


def _key_names(tree: Fields) -> tuple[str, ...]:
    for step in tree:
        if step.startswith("k:"):
            return tuple(step_value(step[2:]))
    return ()


def _key(item: Any, names: Iterable[str]) -> str:
    keys = {name: item[name] for name in names if name in item} if isinstance(item, Mapping) else {}
    return "k:" + json.dumps(keys, separators=(",", ":"))


def _fields(wanted: Any, tree: Fields) -> dict[str, Any]:
    """The fieldsV1 tree of what a manifest writes; `tree` tells which lists are merged."""
    if isinstance(wanted, Mapping):
        return {f"f:{key}": _fields(value, tree.get(f"f:{key}") or {}) for key, value in wanted.items()}
    if isinstance(wanted, list):
        return dict(_item_fields(wanted, tree))
    return {}


def _item_fields(wanted: Sequence[Any], tree: Fields) -> Iterator[tuple[str, dict[str, Any]]]:
    names, steps, is_set = _key_names(tree), _Steps(tree), any(step.startswith("v:") for step in tree)
    for item in wanted:
        if names and isinstance(item, Mapping):
            yield _key(item, names), {".": {}, **_fields(item, steps.below(item))}
        elif is_set:
            yield f"v:{json.dumps(item)}", {}


def _same_amount(one: Any, other: Any) -> bool:
    found = amount(one)
    return found is not None and found == amount(other)

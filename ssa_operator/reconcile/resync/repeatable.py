"""Which applies a resync may repeat without a render: those of a reconcile that changed nothing and waits for nothing.

Promises:
- Every manifest that such a reconcile applied is applied again. Only the render, the plan and the report are saved.
- A reconcile that created, changed, refused or pruned an object, or that waits for one, is not repeated. One that left
  an object alone that is made when absent, or once, is: a watch shows each change of the object.
- If a parent's manifests are very large in total, none are kept.
- A reconcile that took a decision by what the process remembers (a conflict, a feedback loop, a refusal, a recreation,
  new names, a warning of the API server) is not repeated.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from sys import intern

from ssa_operator.objects.compression import Examples, compress, decompress
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.reconcile.adoption import only_to_known
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.shared_ownership import with_owners

SIZE_LIMIT = 4 * 1024 * 1024
"""Bytes of a parent's manifests, which are compressed, at most. Caches hold the objects in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatableApply:
    """An apply that changed nothing."""

    identity: Identity
    version: str
    """The version in which the object is applied, without the group."""
    compressed: bytes = field(repr=False)
    """The request's body, compressed by the example."""
    example: bytes | None = field(repr=False)

    @property
    def encoded(self) -> bytes:
        """The request's body."""
        return decompress(self.compressed, self.example)


def repeatable_applies(
    plan: Plan, outcomes: Sequence[Child], memories: ChildMemories
) -> Sequence[tuple[Manifest, LiveObject]] | None:
    """The manifests that a reconcile applied, with their objects; None if it is not repeated. `memories` are those
    after the reconcile.
    """
    observed = plan.observed
    if (
        not observed.applies_all
        or not plan.rendered.complete
        or plan.hold_message
        or plan.blocked
        or observed.children.unlabelled
        or observed.children.unreadable
        or observed.records.kept_values
        or observed.records.replicas
        or observed.records.held_prune
        or not memories.at_rest
    ):
        return None
    unseen = plan.unseen
    if not all(_changes_nothing(outcome, observed.parent.uid, unseen) for outcome in outcomes):
        return None
    return [
        (outcome.manifest, outcome.live)
        for outcome in outcomes
        if outcome.action is Action.APPLY and outcome.manifest is not None and outcome.live is not None
    ]


def repeatable_apply(made: Manifest, live: LiveObject, examples: Examples) -> RepeatableApply:
    """The apply of a manifest, compressed by `examples`, which learn from it."""
    compressed, example = compress(only_to_known(with_owners(made, live), live), made.identity.group_kind, examples)
    return RepeatableApply(identity=made.identity, version=intern(made.version), compressed=compressed, example=example)


def _changes_nothing(outcome: Child, parent_uid: str, unseen: Container[Identity]) -> bool:
    live = outcome.live
    if outcome.action is Action.KEEP and outcome.manifest is not None:
        return outcome.identity not in unseen and (live is None or live.belongs_to(parent_uid))
    if outcome.action is Action.UNCHANGED and outcome.unchanged:
        return True  # not even a resync applies it while the object stays as it is
    return (
        outcome.action is Action.APPLY
        and outcome.result is Result.UNCHANGED
        and outcome.unchanged
        and outcome.before is not None
        and live is not None
        and live.resource_version == outcome.before.resource_version
        and live.belongs_to(parent_uid)
    )

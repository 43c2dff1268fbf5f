"""Which parent each rendered object belongs to, so that two parents don't apply one object.

Promises:
- An object belongs to the parent that rendered it first, for as long as that parent renders it and exists. An object
  that several parents share (`apply: Shared`) belongs to no single one.
- A parent that was refused an object is reconciled again when the other parent releases it, and when the object is
  deleted or gets another owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ssa_operator.objects.annotations import ApplyPolicy
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.nested_parents import NO_ANCESTORS, Ancestors, OtherParent, ancestors
from ssa_operator.reconcile.plan import Plan

_NONE: frozenset[Identity] = frozenset()

NO_CREATORS: Mapping[str, str] = {}
"""No parent was created by another one."""

NO_CRDS: Mapping[GroupKind, str] = {}
"""No kind of parents is known."""

NO_OTHERS: Mapping[str, OtherParent] = {}
"""No parent of another shard is known."""


class ObjectClaims(Mapping[Identity, str]):
    """The uid of the parent that each object belongs to.

    `parents` are all parents that exist, by uid, and `creators` has the uid of the parent that created each of them.
    `all_parents_known` returns whether the informers of all of them have synced, `unread_namespaces` where the operator
    may not read them. `requeue` is called with the uid of a
    parent that has to be reconciled again. `crds` has the name of the CRD of each kind of parents.
    """

    def __init__(
        self,
        parents: Mapping[str, Identity],
        all_parents_known: Callable[[], bool],
        requeue: Callable[[str], None],
        creators: Mapping[str, str] = NO_CREATORS,
        unread_namespaces: Callable[[], frozenset[str]] = frozenset,
        crds: Mapping[GroupKind, str] = NO_CRDS,
    ) -> None:
        self.parents = parents
        self.crds = crds
        self._creators = creators
        self.all_parents_known = all_parents_known
        self.unread_namespaces = unread_namespaces
        self._requeue = requeue
        self.planned_shares: dict[str, Mapping[Identity, str]] | None = None
        """What each parent renders of shared objects, in a plan of all parents; None in an operator."""
        self._owners: dict[Identity, str] = {}
        self._claimed: dict[str, frozenset[Identity]] = {}
        self._refused: dict[str, frozenset[Identity]] = {}
        self._refused_parents: dict[Identity, set[str]] = {}

    def __getitem__(self, identity: Identity) -> str:
        return self._owners[identity]

    def __iter__(self) -> Iterator[Identity]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)

    def ancestors(self, parent: LiveObject, elsewhere: Mapping[str, OtherParent] = NO_OTHERS) -> Ancestors:
        """The parents above a parent; `elsewhere` has those of other shards, by uid."""
        if not parent.creator_uid:
            return NO_ANCESTORS
        if not elsewhere:
            return ancestors(parent, self.parents, self._creators)
        existing = {uid: each.identity for uid, each in elsewhere.items()} | {**self.parents}
        creators = {uid: each.creator for uid, each in elsewhere.items()} | {**self._creators}
        return ancestors(parent, existing, creators)

    def claim(self, uid: str, plan: Plan) -> None:
        """Claim what is rendered for a parent, and record what belongs to other parents.

        A parent that was deleted while it was reconciled claims nothing: no event would release its claims.
        """
        if uid not in self.parents:
            return
        # A manifest that is applied only if its object is absent claims nothing from another parent.
        own, shared = objects_applied(plan.steps, ApplyPolicy.ALWAYS), objects_applied(plan.steps, ApplyPolicy.SHARED)
        claimed = own | shared
        if self.planned_shares is not None:
            self.planned_shares[uid] = _shares(plan.steps)
        refused = frozenset(step.identity for step in plan.steps if step.claimed_by_other)
        if refused or uid in self._refused:
            self._set_refused(uid, refused)
        before = self._claimed.get(uid, _NONE)
        self._owners.update(dict.fromkeys(own, uid))
        self._claimed[uid] = claimed
        if released := before - claimed:
            self._release(uid, released)
        for identity in shared:
            # An object that the parent shares from now on is free for others that share it.
            if self._owners.get(identity) == uid:
                del self._owners[identity]
                self.free(identity)

    def forget(self, uid: str) -> None:
        """Release what a deleted parent claimed."""
        self._set_refused(uid, _NONE)
        self._release(uid, self._claimed.pop(uid, _NONE))

    def is_rendered(self, identity: Identity, uid: str) -> bool:
        """Whether an object is rendered for a parent, for it alone or as one of several owners."""
        return identity in self._claimed.get(uid, _NONE)

    def free(self, identity: Identity) -> None:
        """Requeue the parents that were refused an object that was deleted or has other owners now."""
        for uid in tuple(self._refused_parents.get(identity, ())):
            self._requeue(uid)

    def _release(self, uid: str, identities: Iterable[Identity]) -> None:
        for identity in identities:
            if self._owners.get(identity) == uid:
                del self._owners[identity]
            self.free(identity)

    def _set_refused(self, uid: str, refused: frozenset[Identity]) -> None:
        before = self._refused.pop(uid, _NONE)
        if refused:
            self._refused[uid] = refused
        for identity in refused - before:
            self._refused_parents.setdefault(identity, set()).add(uid)
        for identity in before - refused:
            uids = self._refused_parents[identity]
            uids.discard(uid)
            if not uids:
                del self._refused_parents[identity]


def objects_applied(steps: Iterable[Child], policy: ApplyPolicy) -> frozenset[Identity]:
    """The objects that a parent's manifests with this policy are about."""
    return frozenset(
        step.identity for step in steps if step.manifest is not None and step.manifest.instructions.apply is policy
    )


def _shares(steps: Iterable[Child]) -> Mapping[Identity, str]:
    """The digests of what a parent renders of shared objects."""
    applied = {
        step.identity: step.manifest.shared.digest
        for step in steps
        if step.manifest is not None and step.manifest.shared
    }
    return applied | {step.identity: step.vote for step in steps if step.vote}

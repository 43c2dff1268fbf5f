"""What the deletions of namespaces, CRDs and parents wait for because of the operator's own parents.

Promises:
- Only a parent with the operator's finalizer makes its namespace and its CRD wait, and only for what the finalizer
  deletes.
- An answer reads each parent in the namespaces and of the CRDs on the path, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import FOREGROUND
from ssa_operator.reconcile.finalization.deletion_cycles import CRD, NAMESPACE, cycles, why_kept
from ssa_operator.reconcile.parent_records.rules import read_parent_records


class DeletionWaits:
    """The parents that exist, by what they live in. `find` returns a parent by its uid, `children_of` its children."""

    def __init__(
        self,
        find: Callable[[str], LiveObject | None] = lambda _: None,
        children_of: Callable[[str], Iterable[LiveObject]] = lambda _: (),
    ) -> None:
        self.crds: dict[GroupKind, str] = {}
        """The name of the CRD of each kind of parents."""
        self._find = find
        self._children_of = children_of
        self._uids: dict[Identity, str] = {}
        self._within: dict[Identity, set[str]] = {}
        """The uids of the parents in each namespace and of each CRD."""

    def add(self, live: LiveObject, folder: str) -> None:
        """Record a parent of a template folder, whose name is that of the CRD."""
        identity = live.identity
        self.crds[identity.group_kind] = folder
        self._uids[identity] = live.uid
        for place in self._places(identity):
            self._within.setdefault(place, set()).add(live.uid)

    def remove(self, identity: Identity, uid: str) -> None:
        """Record that a parent is gone."""
        if self._uids.get(identity) == uid:
            del self._uids[identity]
        for place in self._places(identity):
            uids = self._within.get(place, set())
            uids.discard(uid)
            if not uids:
                self._within.pop(place, None)

    def find(self, identity: Identity) -> LiveObject | None:
        """A parent of this process, None if there is none with this uid."""
        uid = self._uids.get(identity, "")
        return self._find(uid) if uid else None

    def cycles(self, parent: LiveObject, children: Iterable[Identity]) -> Mapping[Identity, str]:
        """Those of these children whose end waits for the end of the parent because of the parents of this process,
        each with the path as a text.
        """
        starts = (each for each in children if each in self._within or each in self._uids)
        return cycles(starts, parent.identity, self.awaited_by)

    def _places(self, identity: Identity) -> Iterator[Identity]:
        """The objects that a parent lives in."""
        if identity.namespace:
            yield Identity(*NAMESPACE, "", identity.namespace)
        yield Identity(*CRD, "", self.crds[identity.group_kind])

    def awaited_by(self, identity: Identity) -> Iterator[Identity]:
        """What the end of an object waits for, because of the parents of this process."""
        for uid in self._within.get(identity, ()):
            if (live := self._find(uid)) is not None and FINALIZER in live.metadata.finalizers:
                yield live.identity
        if (live := self.find(identity)) is not None:
            yield from (each for each in self._deleted_first(live) if not why_kept(each, (live.identity,), self.crds))

    def _deleted_first(self, parent: LiveObject) -> Iterator[Identity]:
        """The children that a parent's finalizers wait for."""
        finalizers = parent.metadata.finalizers
        if FINALIZER in finalizers:
            yield from read_parent_records(parent).inventory
        if FINALIZER in finalizers or FOREGROUND in finalizers:
            yield from (live.identity for live in self._children_of(parent.uid) if live.identity in self._uids)

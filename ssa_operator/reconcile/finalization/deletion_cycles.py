"""Decides which objects a parent never deletes because it lives in them, and which deletions wait for the parent's own
deletion.

Promises:
- The namespace that a parent lives in, the CRD of its kind, and the parent itself are never deleted by it: neither with
  it, nor by a prune or a recreation, nor by the garbage collector. The same holds for those of the parents above it.
- No deletion waits for an object whose end waits for the parent, over however many namespaces, CRDs and parents, and
  whichever operator processes these parents belong to.

A namespace ends when the last object in it is gone, a CRD when the last object of its kind is, and a parent with the
operator's finalizer when its children are
(https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/,
https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.scalars import seconds_of

NAMESPACE = GroupKind("", "Namespace")
CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


def why_kept(identity: Identity, parents: Iterable[Identity], crds: Mapping[GroupKind, str]) -> str | None:
    """Why an object is never deleted by a parent, None if it may be; the text is a sentence about "it".

    `parents` are the parent and those above it, `crds` has the name of the CRD of each of their kinds.
    """
    return KeptObjects(parents, crds).why_kept(identity)


class KeptObjects:
    """The objects that some parents live in."""

    def __init__(self, parents: Iterable[Identity], crds: Mapping[GroupKind, str]) -> None:
        self._why: dict[Identity, tuple[str, Identity]] = {}
        for parent in parents:
            self._why.setdefault(parent, ("it is {} itself", parent))
            if parent.namespace:
                self._why.setdefault(Identity(*NAMESPACE, "", parent.namespace), ("{} lives in it", parent))
            if crd := crds.get(parent.group_kind):
                self._why.setdefault(Identity(*CRD, "", crd), ("it defines the kind of {}", parent))

    def why_kept(self, identity: Identity) -> str | None:
        """Why an object is one of them, None if it is not; the text is a sentence about "it"."""
        if identity.namespace and identity.group_kind in (NAMESPACE, CRD):
            identity = Identity(*identity.group_kind, "", identity.name)  # a record that a user wrote may have one
        found = self._why.get(identity)
        return None if found is None else found[0].format(found[1])


FIRST_PAUSE, LAST_PAUSE = 2.0, 30.0
"""Seconds between two checks of what an object in deletion waits for."""


def may_wait_for_parents(live: LiveObject) -> bool:
    """Whether the end of an object may wait for the ends of parents."""
    return live.identity.group_kind in (NAMESPACE, CRD) or FINALIZER in live.metadata.finalizers


def pause_before_next_look(ends: Iterable[LiveObject], now: float) -> float:
    """Seconds until what these objects in deletion wait for is read again: half of the time that the newest deletion
    has taken, because a parent on the way may begin to wait for this one and no event shows it. `now` is in seconds
    since the epoch.
    """
    began = [seconds_of(each.metadata.deletion_timestamp) for each in ends]
    taken = min((now - each for each in began if each is not None), default=0.0)
    return min(max(taken / 2, FIRST_PAUSE), LAST_PAUSE)


class Remaining(Struct, frozen=True, kw_only=True):
    """What a namespace in deletion reports on the objects with the operator's finalizer that are left in it."""

    resources: tuple[str, ...]
    """The resources of which objects are left, with the finalizer or without: `links.example.com`."""
    count: int
    """How many of these objects have the finalizer."""


_REMAINING = re.compile(r"([a-z0-9-]{1,253})\.([a-z0-9.-]{0,253}) has \d{1,9} resource instances", re.ASCII)
_WITH_FINALIZER = re.compile(rf"{re.escape(FINALIZER)} in (\d{{1,9}}) resource instances", re.ASCII)


def remaining(namespace: LiveObject) -> Remaining | None:
    """What a namespace reports, None if it reports no object with the finalizer. Kubernetes' namespace controller
    writes these messages
    (https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/namespace/deletion/namespaced_resources_deleter.go).
    """
    messages = deletion_messages(namespace)
    found = _WITH_FINALIZER.search(messages.get("NamespaceFinalizersRemaining", ""))
    if found is None:
        return None
    names = _REMAINING.findall(messages.get("NamespaceContentRemaining", ""))
    resources = tuple(f"{plural}.{group}" if group else plural for plural, group in names)
    return Remaining(resources=resources, count=int(found[1]))


def deletion_messages(namespace: LiveObject) -> dict[str, str]:
    """The messages of the conditions of a namespace in deletion that are True, by type."""
    status = namespace.body.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return {
        each["type"]: str(each.get("message", "")).rstrip(".")
        for each in (conditions if isinstance(conditions, list) else ())
        if isinstance(each, dict) and each.get("status") == "True" and isinstance(each.get("type"), str)
    }


def waiting_path(
    start: Identity, parent: Identity, awaited_by: Callable[[Identity], Iterable[Identity]]
) -> tuple[Identity, ...]:
    """The objects over which the end of `start` waits for the end of the parent, both included; () if it doesn't.
    `awaited_by` returns what the end of an object waits for.
    """
    before: dict[Identity, Identity | None] = {start: None}
    queue = [start]
    for identity in queue:  # grows while it is read: the shortest path comes first
        if identity == parent:
            path = [identity]
            while (earlier := before[path[-1]]) is not None:
                path.append(earlier)
            return tuple(reversed(path))
        for each in awaited_by(identity):
            if each not in before:
                before[each] = identity
                queue.append(each)
    return ()


def cycles(
    starts: Iterable[Identity], parent: Identity, awaited_by: Callable[[Identity], Iterable[Identity]]
) -> dict[Identity, str]:
    """The objects whose end waits for the end of the parent, each with the path as a text."""
    paths = {start: waiting_path(start, parent, awaited_by) for start in starts}
    return {start: " -> ".join(map(str, path)) for start, path in paths.items() if path}

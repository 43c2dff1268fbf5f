"""Decides what a parent never deletes because it lives in it, and which objects' ends wait for the parent's own end.

Promises:
- The namespace that a parent lives in, the CRD of its kind, and the parent itself are never deleted by it: neither with
  it, nor by a prune or a recreation, nor by the garbage collector. The same holds for those of the parents above it.
- No deletion waits for an object whose end waits for the parent, over however many namespaces, CRDs and parents.

A namespace ends when the last object in it is gone, a CRD when the last object of its kind is, and a parent with the
operator's finalizer when its children are
(https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/,
https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ssa_operator.core.objects.identity import GroupKind, Identity

NAMESPACE = GroupKind("", "Namespace")
CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


def why_kept(identity: Identity, parents: Iterable[Identity], crds: Mapping[GroupKind, str]) -> str:
    """Why an object is never deleted by a parent, '' where it may be; the text is a sentence about "it".

    `parents` are the parent and those above it, `crds` has the name of the CRD of each of their kinds.
    """
    kind = identity.group_kind
    for parent in parents:
        if identity == parent:
            return f"it is {parent} itself"
        if kind == NAMESPACE and parent.namespace == identity.name:
            return f"{parent} lives in it"
        if kind == CRD and crds.get(parent.group_kind) == identity.name:
            return f"it defines the kind of {parent}"
    return ""


def waiting_path(
    start: Identity, parent: Identity, awaited_by: Callable[[Identity], Iterable[Identity]]
) -> tuple[Identity, ...]:
    """The objects over which the end of `start` waits for the end of the parent, both included; () where it doesn't.
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

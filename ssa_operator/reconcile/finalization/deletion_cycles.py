"""Decides which objects a parent never deletes because it lives in them, and whose end the deletion of a parent doesn't
wait for.

Promises:
- The namespace that a parent lives in, the CRD of its kind, and the parent itself are never deleted by it: neither with
  it, nor by a prune or a recreation, nor by the garbage collector. The same holds for those of the parents above it
  that this process knows.
- If this process does not know all parents above a parent, the parent deletes no namespace and no CRD that is older
  than itself.
- While what a parent lives in is being deleted, its deletion waits for no CRD, and for no namespace that reports an
  object with the operator's finalizer. So deletions never wait for each other, over however many namespaces, CRDs and
  operator processes.
- In a namespace that is gone, or that was created again after the parent's deletion began, nothing of the parent is
  left.
- What can't be read or deleted in a namespace that is being deleted goes with the namespace: nothing waits for it. No
  finalize hook runs there (reconcile.finalization.hooks).

How it works:
A namespace ends when the last object in it is gone, a CRD when the last object of its kind is, and a parent with the
operator's finalizer when its children are
(https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/,
https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/).
If deletions wait in a circle, each parent in it waits for a namespace or a CRD of the next one, and the parent before
it waits for one that it lives in itself, or that a parent above it lives in. The parent that waits for the one whose
deletion began last sees both: its own is being deleted already, and an event shows that of the other one.

An account whose permissions are a RoleBinding in a namespace loses them when the namespace is deleted, often before
its objects are (kubernetes/kubernetes#115070).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import conditions_of
from ssa_operator.objects.scalars import seconds_of

NAMESPACE = GroupKind("", "Namespace")
CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


def kept_objects(parents: Iterable[Identity], crds: Mapping[GroupKind, str]) -> Mapping[Identity, str]:
    """The objects that some parents live in, each with the reason: a sentence about "it". `crds` has the name of the
    CRD of each of their kinds.
    """
    found: dict[Identity, str] = {}
    for parent in parents:
        found.setdefault(parent, f"it is {parent} itself")
        if parent.namespace:
            found.setdefault(Identity(*NAMESPACE, "", parent.namespace), f"{parent} lives in it")
        if crd := crds.get(parent.group_kind):
            found.setdefault(Identity(*CRD, "", crd), f"it defines the kind of {parent}")
    return found


def why_kept_unless_known(live: LiveObject | None, parent: LiveObject) -> str | None:
    """Why a namespace or a CRD is not deleted by a parent while not all parents above that are known, None if it may
    be: what they live in existed before they created the parent.
    """
    if live is None or live.shared is not None:
        return None
    if (live.metadata.creation_timestamp or "") >= (parent.metadata.creation_timestamp or ""):
        return None
    name = parent.identity
    return f"it is older than {name}, and a parent above {name} that the operator does not know may live in it"


def may_wait_for_parents(live: LiveObject) -> bool:
    """Whether an object is in deletion until parents are gone, as far as it shows that itself."""
    if not live.deleting:
        return False
    kind = live.identity.group_kind
    return kind == CRD or (
        kind == NAMESPACE
        and (live.partial or FINALIZER in deletion_messages(live).get("NamespaceFinalizersRemaining", ""))
    )


def deletion_messages(namespace: LiveObject) -> dict[str, str]:
    """The messages of the conditions of a namespace in deletion that are True, by type. Kubernetes' namespace
    controller writes them
    (https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/namespace/deletion/namespaced_resources_deleter.go).
    """
    return {
        each["type"]: str(each.get("message", "")).rstrip(".")
        for each in conditions_of(namespace.body)
        if each.get("status") == "True" and isinstance(each.get("type"), str)
    }


class EndingNamespace(Struct, frozen=True, kw_only=True):
    """A namespace that ends, or has ended."""

    reason: str
    """A text that follows "which": `is being deleted`."""
    is_gone: bool = False
    """Whether all of its former objects are gone."""
    takes_parent: bool = False
    """Whether its deletion began before that of the parent. Kubernetes deletes no object of a namespace without its
    children.
    """
    accepts_objects: bool = False
    """Whether new objects can be created in the namespace that has its name now."""


def namespace_end(found: LiveObject | None, parent: LiveObject) -> EndingNamespace | None:
    """How a namespace of a parent's children ends, None if it doesn't. `found` is the namespace, None if there is
    none.
    """
    if found is None:
        return EndingNamespace(reason="is gone", is_gone=True)
    began, ends = seconds_of(parent.metadata.deletion_timestamp), seconds_of(found.metadata.deletion_timestamp)
    if ends is not None:
        return EndingNamespace(reason="is being deleted", takes_parent=began is not None and ends <= began)
    created = seconds_of(found.metadata.creation_timestamp)
    if began is not None and created is not None and began < created:
        return EndingNamespace(reason="was created again after that", is_gone=True, accepts_objects=True)
    return None

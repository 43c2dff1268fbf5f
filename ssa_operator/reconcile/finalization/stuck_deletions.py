"""Reports what keeps an object in deletion, and how a person ends a deletion that no event may end.

Promises:
- The message about an object in deletion names its finalizers, and what a namespace still has to delete.
- A command does exactly what the message says: it takes off one finalizer and no other one.
"""

from __future__ import annotations

import json

from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import bounded
from ssa_operator.reconcile.finalization.deletion_cycles import CRD, NAMESPACE, deletion_messages

_REMAINING_LIMIT = 400
"""Characters of what a namespace reports on its end."""

_KUBERNETES_FINALIZERS = frozenset(
    {
        "foregroundDeletion",
        "orphan",
        "customresourcecleanup.apiextensions.k8s.io",
        "kubernetes.io/pv-protection",
        "kubernetes.io/pvc-protection",
        "batch.kubernetes.io/job-tracking",
        "service.kubernetes.io/load-balancer-cleanup",
    }
)
"""The finalizers that Kubernetes' own controllers take off."""

_NAMESPACE_CONDITIONS = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
)
"""The conditions in which a namespace reports what keeps it, the most telling first
(https://kubernetes.io/docs/tasks/administer-cluster/namespaces/).
"""


def deletion_text(live: LiveObject) -> str:
    """What keeps an object in deletion; the text follows its name."""
    text = "is being deleted"
    kind, finalizers = live.identity.group_kind, live.metadata.finalizers
    if finalizers and kind != CRD:
        text += f"; kept by the finalizer{'s' if len(finalizers) > 1 else ''} {', '.join(finalizers)}"
    foreign = [name for name in finalizers if name not in _KUBERNETES_FINALIZERS]
    if foreign:
        which = "it" if len(foreign) == 1 else "them"
        text += f" (if no controller takes {which} off any more: `{remove_finalizer(live, foreign[0])}`)"
    if kind == NAMESPACE and (remaining := _remaining(live)):
        text += f": {bounded(remaining, _REMAINING_LIMIT)}"
    if kind == CRD:
        text += "; kept until the last object of its kind is gone"
    return text


def removal_advice(parent: LiveObject) -> str | None:
    """How a person ends the deletion of a parent with the operator's finalizer, None for any other."""
    if not parent.deleting or FINALIZER not in parent.metadata.finalizers:
        return None
    return (
        "if that can't be repaired, take the finalizer off, and the children that the operator has not deleted stay: "
        f"`{remove_finalizer(parent, FINALIZER)}`"
    )


def remove_finalizer(live: LiveObject, finalizer: str) -> str:
    """The command that takes one finalizer off an object, as long as it is where it is now."""
    path = f"/metadata/finalizers/{live.metadata.finalizers.index(finalizer)}"
    patch = [{"op": "test", "path": path, "value": finalizer}, {"op": "remove", "path": path}]
    text = json.dumps(patch, separators=(",", ":"))
    return f"kubectl patch {kubectl_name(live.identity)} --type=json --patch='{text}'"


def kubectl_name(identity: Identity) -> str:
    """The arguments by which kubectl takes an object."""
    where = f" --namespace={identity.namespace}" if identity.namespace else ""
    return f"{identity.group_kind} {identity.name}{where}"


def _remaining(live: LiveObject) -> str:
    """What a namespace reports on what keeps it, '' if it reports nothing yet."""
    messages = deletion_messages(live)
    return "; ".join(messages[name] for name in _NAMESPACE_CONDITIONS if messages.get(name))

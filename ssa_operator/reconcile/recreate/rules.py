"""Deletes and recreates an object whose immutable field changed: which objects the operator may delete, and when.

Promises:
- The operator deletes an object only if its own applies created it for this parent, and no other controller controls
  it.
- The operator deletes no data: it recreates no PersistentVolumeClaim and no other kind that holds data or other objects
  (NEVER_RECREATED), and deletes no volume of a StatefulSet.
- The annotation's value is the propagation policy of the deletion, as of `kubectl delete --cascade`: with `Orphan` the
  dependents of the old object, such as the Pods of a StatefulSet, stay. A Secret or a ConfigMap goes at once instead of
  in the foreground.
- Pods that a StatefulSet left and that the new one can't adopt get its labels, once it exists. Those that it adopts and
  can't update are replaced one after another, the lowest ordinal first.
- The operator proves the new manifest valid by a dry run under another name, without the values that only the old
  object can hold (addresses, ports).
- The operator keeps an object whose generated values could be lost: it deletes such an object only if it disappears at
  once.
- The operator doesn't loop: if the API server refuses the manifest of a recreated object again, the object stays. If
  the very object is back that the operator deleted, etcd was restored, and the operator recreates it again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.annotations import PREFIX, Recreate
from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.json_codec import encode, mapping
from ssa_operator.objects.label_selectors import selects
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.manifest import NEVER_RECREATED, Manifest
from ssa_operator.objects.readiness import ReadinessState, readiness
from ssa_operator.objects.scalars import amount
from ssa_operator.reconcile.adoption import was_left_by_former
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.child_memory import ChildMemories, Recreation
from ssa_operator.reconcile.immutable_fields import is_about_name
from ssa_operator.reconcile.observed import Observed

ANNOTATION = f"{PREFIX}recreate"
CLAIM = GroupKind("", "PersistentVolumeClaim")
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
"""The label that the controller of StatefulSets gives to their pods, with their names."""
_WITHOUT_DEPENDENTS = frozenset({GroupKind("", "ConfigMap"), GroupKind("", "Secret")})
_POD = GroupKind("", "Pod")
_STATEFUL_SET = GroupKind("apps", "StatefulSet")
_WORKLOADS = frozenset(
    {_STATEFUL_SET, *(GroupKind("apps", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet"))}
    | {GroupKind("batch", "Job"), GroupKind("batch", "CronJob")}
)
_SERVICE = GroupKind("", "Service")
_PRIORITY_CLASS = GroupKind("scheduling.k8s.io", "PriorityClass")


def is_refused_again(recreation: Recreation | None, manifest: Manifest, live: LiveObject | None) -> bool:
    """Whether the operator has recreated the object for this manifest already. `live` is the object, if it is known."""
    if recreation is None or recreation.digest != manifest.digest:
        return False
    return live is None or live.uid != recreation.deleted_uid


def deleted_with_values(memories: ChildMemories) -> dict[Identity, LiveObject]:
    """The objects that were deleted to be recreated and whose generated values the new ones keep."""
    return {
        identity: found.old
        for identity, row in memories.by_child.items()
        if (found := row.recreation) is not None and found.old is not None and not found.created
    }


def deletion_message(live: LiveObject, recreation: Recreation | None = None) -> str:
    """The message about an object that is being deleted and will be recreated: with the finalizers that keep it, and
    with the reason where the operator deleted it.
    """
    text = "is being deleted; it is recreated when it is gone"
    if live.metadata.finalizers:
        text = f"{text}; kept by {_finalizers_text(live)}"
    return f"{text} ({recreation.why})" if recreation is not None and recreation.why else text


def _finalizers_text(live: LiveObject) -> str:
    finalizers = [
        f"{name} (the garbage collector's)" if name in _GARBAGE_COLLECTION_FINALIZERS else name
        for name in live.metadata.finalizers
    ]
    return f"the finalizer{'s' if len(finalizers) > 1 else ''} {', '.join(finalizers)}"


_GARBAGE_COLLECTION_FINALIZERS = frozenset({"foregroundDeletion", "orphan"})
"""kube-controller-manager removes them; without it such an object is never gone."""


def immutable_advice(manifest: Manifest, field: str) -> str:
    """The message about a changed immutable field where the manifest doesn't allow to recreate the object."""
    identity = manifest.identity
    if manifest.shared is not None:
        return (
            f"{identity}: {field} is immutable; restore its value, or give the object another name: {ANNOTATION} is "
            "not allowed for an object that several parents share"
        )
    if identity.group_kind in NEVER_RECREATED:
        return (
            f"{identity}: {field} is immutable; restore its value, or delete the object yourself: {ANNOTATION} is not "
            f"allowed for a {identity.kind}, because its content would be deleted with it"
        )
    return (
        f"{identity}: {field} is immutable; restore its value, or set the annotation {ANNOTATION} of the manifest to "
        f"Background, Foreground or Orphan: the operator then deletes and recreates the object"
    )


def repeated_refusal(identity: Identity, field: str) -> str:
    """The message about a recreated object whose manifest the API server refuses again."""
    return (
        f"{identity}: {field} is immutable and refused again, although the operator recreated the object for this "
        f"manifest already ({ANNOTATION}); it is not deleted a second time. Another writer sets the field, or the API "
        "server refuses every change of it: correct the manifest"
    )


def was_left_by_former_parent(manifest: Manifest, live: LiveObject) -> bool:
    """Whether an object was created for a former parent of the same name, so that the garbage collector deletes it."""
    metadata = manifest.body["metadata"]
    uid = metadata["labels"][PARENT_UID_LABEL]
    parents = (owner for owner in metadata.get("ownerReferences", ()) if owner["uid"] == uid)
    return any(was_left_by_former(live, _identity_of(owner), uid) for owner in parents)


def _identity_of(owner: Mapping[str, Any]) -> Identity:
    """The object of an owner reference, which names no namespace."""
    return Identity(split_api_version(owner["apiVersion"])[0], owner["kind"], "", owner["name"])


def reason_to_keep(manifest: Manifest, live: LiveObject) -> str | None:
    """Why the operator may not delete and recreate an object, None if it may."""
    parent_uid = manifest.body["metadata"]["labels"][PARENT_UID_LABEL]
    if live.parent_uid != parent_uid:
        return f"it was not created for this parent; {_deletion_advice(live.identity)}, or choose another name"
    if not live.owned_fields():
        return f"ssa-operator did not create it; {_deletion_advice(live.identity)}, or choose another name"
    for owner in live.owner_references:
        if owner.controller and owner.uid != parent_uid:
            return f"it is controlled by {owner.kind} {owner.name}"
    if live.identity.group_kind == _STATEFUL_SET and manifest.instructions.recreate is not Recreate.ORPHAN:
        policy = mapping(_spec(live.body).get("persistentVolumeClaimRetentionPolicy"))
        if policy.get("whenDeleted") == "Delete":
            return (
                "its volumes would be deleted with it (persistentVolumeClaimRetentionPolicy.whenDeleted is Delete); "
                f"set {ANNOTATION} to Orphan, or whenDeleted to Retain"
            )
    return _generated_values_at_risk(manifest, live) if manifest.document.has_generated_values else None


def _deletion_advice(identity: Identity) -> str:
    """How users delete an object without stopping its pods or losing their volumes."""
    if identity.group_kind not in _WORKLOADS:
        return "delete it yourself"
    volumes = " and their volumes" if identity.group_kind == _STATEFUL_SET else ""
    command = f"kubectl delete {identity.kind.lower()} {identity.name} --cascade=orphan"
    return f"delete it with `{command}`, which keeps its pods{volumes}"


def propagation(manifest: Manifest) -> Recreate:
    """The propagation policy of the deletion. A Secret or a ConfigMap is deleted at once, because its dependents need
    not be deleted first.
    """
    asked = manifest.instructions.recreate
    needless = manifest.identity.group_kind in _WITHOUT_DEPENDENTS and asked is Recreate.FOREGROUND
    return Recreate.BACKGROUND if needless else asked


def _generated_values_at_risk(manifest: Manifest, live: LiveObject) -> str | None:
    """Why the generated values of an object could be lost if it was deleted, None if the new object surely gets them.

    During a slow deletion others may still write the object, while its record (generated_values) has the earlier
    values.
    """
    if propagation(manifest) is not Recreate.BACKGROUND:
        return f"its generated values could be lost while it is being deleted; set {ANNOTATION} to Background"
    if live.metadata.finalizers:
        return (
            f"its generated values could be lost while {_finalizers_text(live)} kept it; remove that, restore the "
            "field, or delete the object yourself: then new values are generated"
        )
    if live.identity.group_kind == _POD:
        return (
            "its generated values could be lost while its containers end; restore the field, keep them in a Secret, or "
            "delete the object yourself: then new values are generated"
        )
    return None


# The dry run of the new manifest.


class TrialManifest(Struct, frozen=True):
    """The manifest under a name that no object has."""

    name: str
    encoded: bytes


def probe(manifest: Manifest, live: LiveObject) -> TrialManifest:
    """The dry run that proves the manifest valid."""
    name = _unused_name(manifest.identity.name, f"{live.uid}{manifest.digest.hex()}")
    body = {**manifest.body, "metadata": {**manifest.body["metadata"], "name": name}}
    if live.identity.group_kind == _SERVICE:
        body["spec"] = _without_allocated(body.get("spec"), _spec(live.body))
    if live.identity.group_kind == _PRIORITY_CLASS and live.body.get("globalDefault"):
        body.pop("globalDefault", None)  # the cluster can have only one
    return TrialManifest(name, encode(body))


def refusal_is_about_trial(
    probed: TrialManifest, refusals: Sequence[FieldRefusal], message: str, schema: Mapping[str, Any] | None
) -> bool:
    """Whether the dry run failed for reasons unrelated to the manifest: it is about the probe's name, or about the
    number of objects.
    """
    if refusals:
        return all(is_about_name(refusal, probed.name, schema) for refusal in refusals)
    _, found, rest = message.partition("exceeded quota: ")
    requested, used, _ = rest.partition(", requested: ")[2].rpartition(", used: ")
    return bool(found and used) and all(re.fullmatch(_COUNTED, item.strip()) for item in requested.split(","))


_COUNTED = r"(?:count/\S+|configmaps|pods|replicationcontrollers|resourcequotas|secrets|services)=1"


def _unused_name(name: str, salt: str) -> str:
    """An unused name with the same prefix. Long names are truncated, not extended."""
    suffix = hashlib.blake2b(salt.encode(), digest_size=4).hexdigest()
    return f"{name[: -len(suffix)]}{suffix}" if len(name) >= 24 else f"{name}-{suffix}"


def _without_allocated(wanted: Any, live: Mapping[str, Any]) -> Any:
    """A Service's spec without the addresses and ports that are allocated to its live object."""
    if not isinstance(wanted, Mapping):
        return wanted
    spec = dict(wanted)
    allocated = {address for address in live.get("clusterIPs") or [live.get("clusterIP")] if address != "None"}
    if spec.get("clusterIP") in allocated:
        del spec["clusterIP"]
    if allocated & set(spec.get("clusterIPs") or ()):
        del spec["clusterIPs"]
    if spec.get("healthCheckNodePort") == live.get("healthCheckNodePort"):
        spec.pop("healthCheckNodePort", None)
    node_ports = {port.get("nodePort") for port in live.get("ports") or ()}
    if isinstance(spec.get("ports"), list):
        spec["ports"] = [_without_node_port(port, node_ports) for port in spec["ports"]]
    return spec


def _without_node_port(port: Any, allocated: set[Any]) -> Any:
    if isinstance(port, Mapping) and port.get("nodePort") in allocated:
        return {key: value for key, value in port.items() if key != "nodePort"}
    return port


# Volumes of a StatefulSet.


class Growth(Struct, frozen=True):
    """A PersistentVolumeClaim that a StatefulSet's new template makes larger."""

    claim: LiveObject
    storage: str
    """The new size."""

    @property
    def bound(self) -> bool:
        return mapping(self.claim.body.get("status")).get("phase") == "Bound"

    @property
    def present(self) -> str:
        return str(_requested(_spec(self.claim.body)))

    def patch(self) -> bytes:
        """The merge patch; its uid prevents it from changing a claim that was recreated under the same name."""
        requests = {"requests": {"storage": self.storage}}
        return encode({"metadata": {"uid": self.claim.uid}, "spec": {"resources": requests}})


def grown_templates(manifest: Manifest, live: LiveObject) -> dict[str, str]:
    """The storage that the volume claim templates of a StatefulSet request, by name: those that request more than
    before.
    """
    if live.identity.group_kind != _STATEFUL_SET:
        return {}
    before = _storage(_spec(live.body))
    after = _storage(_spec(manifest.body))
    return {name: storage for name, storage in after.items() if name in before and _exceeds(storage, before[name])}


def growths(live: LiveObject, grown: Mapping[str, str], claims: Iterable[LiveObject]) -> tuple[Growth, ...]:
    """The claims of a namespace that belong to these templates, by their names `<template>-<StatefulSet>-<ordinal>`,
    and are too small.
    """
    too_small = []
    for claim in claims:
        for template, storage in grown.items():
            named = re.fullmatch(rf"{re.escape(f'{template}-{live.identity.name}')}-\d+", claim.identity.name)
            if named and not claim.deleting and _exceeds(storage, _requested(_spec(claim.body))):
                too_small.append(Growth(claim, storage))
    return tuple(too_small)


def _storage(spec: Mapping[str, Any]) -> dict[str, str]:
    templates = spec.get("volumeClaimTemplates")
    storage = {}
    for template in templates if isinstance(templates, list) else ():
        name = mapping(mapping(template).get("metadata")).get("name")
        requested = _requested(_spec(mapping(template)))
        if isinstance(name, str) and requested is not None:
            storage[name] = str(requested)
    return storage


def _requested(spec: Mapping[str, Any]) -> object:
    return mapping(mapping(spec.get("resources")).get("requests")).get("storage")


def _exceeds(one: object, other: object) -> bool:
    left, right = amount(one), amount(other)
    return left is not None and right is not None and left > right


def _spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(body.get("spec"))


# Pods that `Orphan` leaves.


def may_have_left_pods(manifest: Manifest, live: LiveObject) -> bool:
    """Whether an object is a StatefulSet whose predecessor may have left pods."""
    return live.identity.group_kind == _STATEFUL_SET and manifest.instructions.recreate is Recreate.ORPHAN


def template_labels(live: LiveObject) -> Mapping[str, Any]:
    """The labels of a workload's new pods."""
    return mapping(mapping(mapping(_spec(live.body).get("template")).get("metadata")).get("labels"))


def pods_to_adopt(live: LiveObject, pods: Iterable[LiveObject]) -> list[LiveObject]:
    """The pods that a former StatefulSet of the same name left, and that this one adopts only with the labels of its
    template. While they have their names, it can create no others.
    """
    selector, labels = mapping(_spec(live.body).get("selector")), template_labels(live)
    return [
        pod
        for pod in pods
        if re.fullmatch(rf"{re.escape(live.identity.name)}-\d+", pod.identity.name)
        and pod.metadata.labels.get(POD_NAME_LABEL) == pod.identity.name
        and (pod.metadata.creation_timestamp or "") <= (live.metadata.creation_timestamp or "")
        and not any(owner.controller for owner in pod.owner_references)
        and not selects(selector, pod.metadata.labels)
        and selects(selector, {**pod.metadata.labels, **labels})
    ]


def pod_to_replace(live: LiveObject, pods: Iterable[LiveObject], now: float) -> LiveObject | None:
    """The first pod of a StatefulSet that lacks one of its volumes: its controller can't update the pod, and goes no
    further. None while a pod before that one is not ready, or if users delete its pods. `now` is in seconds since the
    epoch.
    """
    spec, name = _spec(live.body), live.identity.name
    if mapping(spec.get("updateStrategy")).get("type") == "OnDelete":
        return None
    partition = mapping(mapping(spec.get("updateStrategy")).get("rollingUpdate")).get("partition") or 0
    own = {pod.identity.name: pod for pod in pods if is_controlled_by(pod, live)}
    first = mapping(spec.get("ordinals")).get("start") or 0
    for ordinal in range(first, first + len(own)):
        pod = own.get(f"{name}-{ordinal}")
        if pod is None or pod.deleting:
            return None
        volumes = _spec(pod.body).get("volumes") or ()
        claims = {each["name"]: mapping(each.get("persistentVolumeClaim")).get("claimName") for each in volumes}
        if any(claims.get(each) != f"{each}-{pod.identity.name}" for each in _storage(spec)):
            return pod if ordinal >= partition else None
        if readiness(pod.body, now).state is not ReadinessState.CURRENT:
            return None
    return None


def is_controlled_by(pod: LiveObject, owner: LiveObject) -> bool:
    """Whether an object controls a pod."""
    return any(each.controller and each.uid == owner.uid for each in pod.owner_references)


# Rows of the tables in reconcile.decide.


def is_recreated(_: Observed, step: Child) -> Child | None:
    """A child that the operator deleted to recreate it is created."""
    recreation = step.memory.recreation
    if recreation is None or recreation.created:
        return None
    return step.applied(recreation.why or "was deleted to be recreated")


def is_being_deleted(_: Observed, step: Child) -> Child | None:
    """A child that is being deleted is created again when it is gone."""
    return step.waiting(deletion_message(step.present, step.memory.recreation)) if step.present.deleting else None

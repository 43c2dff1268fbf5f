"""Making an object anew because a field of it can't change: what may be deleted, and what has to hold before.

Promises:
- Only what is ours is deleted: made for this parent, by our own applies, and controlled by nobody else.
- Nothing that holds data goes by the way: not a kind that holds it, and no volume of a StatefulSet.
- The new manifest is tried under another name, without what only the old object can hold (addresses, ports).
- An object whose generated values could be lost on the way stays: it is deleted only where it goes at once.
- An object that was made anew for a manifest and is refused again is left alone: there is no loop.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.core.objects.annotations import PREFIX, Recreate
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.core.objects.manifest import NEVER_RECREATED, Manifest
from ssa_operator.core.objects.quantity import amount
from ssa_operator.core.policies.immutable_fields import FieldRefusal, is_about_name

ANNOTATION = f"{PREFIX}recreate"
CLAIM = GroupKind("", "PersistentVolumeClaim")
_OWNERLESS = frozenset({GroupKind("", "ConfigMap"), GroupKind("", "Secret")})
_POD = GroupKind("", "Pod")
_STATEFUL_SET = GroupKind("apps", "StatefulSet")
_WORKLOADS = frozenset(
    {_STATEFUL_SET, *(GroupKind("apps", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet"))}
    | {GroupKind("batch", "Job"), GroupKind("batch", "CronJob")}
)
_SERVICE = GroupKind("", "Service")
_PRIORITY_CLASS = GroupKind("scheduling.k8s.io", "PriorityClass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """That an object was deleted to be made anew: for which manifest (its digest), and whether it was `made` since.

    why: the reason, in words. old: the object as it was, where it held generated values; the new one gets them.
    """

    digest: bytes
    made: bool
    why: str = ""
    old: LiveObject | None = field(default=None, compare=False, repr=False)


def deletion_message(live: LiveObject, recreation: Recreation | None = None) -> str:
    """What users read of an object that is on its way out and will be made again: also what keeps it, and why it goes
    where it was we who deleted it.
    """
    text = "is being deleted; it is made again when it is gone"
    if live.metadata.finalizers:
        text = f"{text}; kept by {_keepers(live)}"
    return f"{text} ({recreation.why})" if recreation is not None and recreation.why else text


def _keepers(live: LiveObject) -> str:
    finalizers = live.metadata.finalizers
    keepers = [f"{each} (the garbage collector's)" if each in _COLLECTOR else each for each in finalizers]
    return f"the finalizer{'s' if len(keepers) > 1 else ''} {', '.join(keepers)}"


_COLLECTOR = frozenset({"foregroundDeletion", "orphan"})
"""Removed by kube-controller-manager; without it such an object stays for ever."""


def immutable_advice(identity: Identity, field: str) -> str:
    """What users read where a manifest doesn't ask for it: what is the matter, and what they can do."""
    if identity.group_kind in NEVER_RECREATED:
        what = f"{ANNOTATION} is not for a {identity.kind}, whose content would go with it"
        return f"{identity}: {field} is immutable; restore its value, or delete the object yourself: {what}"
    return (
        f"{identity}: {field} is immutable; restore its value, or set the annotation {ANNOTATION} of the manifest to "
        f"Background, Foreground or Orphan: the object is then deleted and made anew"
    )


def repeated_refusal(identity: Identity, field: str) -> str:
    """What users read where making it anew didn't help."""
    return (
        f"{identity}: {field} is immutable and refused again, although the object was made anew for this manifest "
        f"already ({ANNOTATION}); it is not deleted a second time. Something else sets the field, or every change is "
        "refused: correct the manifest"
    )


def reason_to_keep(manifest: Manifest, live: LiveObject) -> str:
    """Why an object may not be deleted to be made anew, '' where it may."""
    parent_uid = manifest.body["metadata"]["labels"][PARENT_UID_LABEL]
    if live.parent_uid != parent_uid:
        return f"it was not made for this parent; {_by_hand(live.identity)}, or choose another name"
    if not live.owned_fields():
        return f"ssa-operator did not make it; {_by_hand(live.identity)}, or choose another name"
    for owner in live.metadata.owner_references:
        if owner.controller and owner.uid != parent_uid:
            return f"{owner.kind} {owner.name} controls it"
    if live.identity.group_kind == _STATEFUL_SET and manifest.instructions.recreate is not Recreate.ORPHAN:
        policy = _mapping(_spec(live.body).get("persistentVolumeClaimRetentionPolicy"))
        if policy.get("whenDeleted") == "Delete":
            return (
                "its volumes would be deleted with it (persistentVolumeClaimRetentionPolicy.whenDeleted is Delete); "
                f"set {ANNOTATION} to Orphan, or whenDeleted to Retain"
            )
    return _forgetful(manifest, live) if manifest.document.holder else ""


def _by_hand(identity: Identity) -> str:
    """How a user deletes an object, keeping what runs in its pods and what their volumes hold."""
    if identity.group_kind not in _WORKLOADS:
        return "delete it yourself"
    volumes = " and their volumes" if identity.group_kind == _STATEFUL_SET else ""
    command = f"kubectl delete {identity.kind.lower()} {identity.name} --cascade=orphan"
    return f"delete it with `{command}`, which keeps its pods{volumes}"


def propagation(manifest: Manifest) -> Recreate:
    """How the object is deleted. What a Secret or a ConfigMap owns, if anything, need not go before it: so it goes at
    once.
    """
    asked = manifest.instructions.recreate
    ordinary = manifest.identity.group_kind in _OWNERLESS and asked is Recreate.FOREGROUND
    return Recreate.BACKGROUND if ordinary else asked


def _forgetful(manifest: Manifest, live: LiveObject) -> str:
    """Why the generated values of an object could be lost if it was deleted, '' where the new one gets them for sure.

    They are nowhere but in the object: whoever goes on after a crash finds it gone while its deletion took its time.
    """
    if propagation(manifest) is not Recreate.BACKGROUND:
        return f"its generated values could be lost while it is being deleted; set {ANNOTATION} to Background"
    if live.metadata.finalizers:
        return (
            f"its generated values could be lost while {_keepers(live)} kept it; remove that, restore the field, or "
            "delete the object yourself: then they are drawn anew"
        )
    if live.identity.group_kind == _POD:
        return (
            "its generated values could be lost while its containers end; restore the field, keep them in a Secret, or "
            "delete it yourself: then they are drawn anew"
        )
    return ""


# Trying the new manifest.


@dataclass(frozen=True, slots=True)
class Probe:
    """The manifest under a name that nothing has."""

    name: str
    encoded: bytes


def probe(manifest: Manifest, live: LiveObject) -> Probe:
    """What is sent as a dry run to prove that the manifest is valid."""
    name = _other_name(manifest.identity.name, f"{live.uid}{manifest.digest.hex()}")
    body = {**manifest.body, "metadata": {**manifest.body["metadata"], "name": name}}
    if live.identity.group_kind == _SERVICE:
        body["spec"] = _without_held(body.get("spec"), _spec(live.body))
    if live.identity.group_kind == _PRIORITY_CLASS and live.body.get("globalDefault"):
        body.pop("globalDefault", None)  # there can be one only
    return Probe(name, encode(body))


def proves_nothing(
    probed: Probe, refusals: Sequence[FieldRefusal], message: str, schema: Mapping[str, Any] | None
) -> bool:
    """Whether a refusal of the probe says nothing of the manifest under its own name: it is about the name, or about
    there being one object more.
    """
    if refusals:
        return all(is_about_name(refusal, probed.name, schema) for refusal in refusals)
    found = _QUOTA.search(message)
    return found is not None and all(_COUNTED.fullmatch(item.strip()) for item in found[1].split(","))


_QUOTA = re.compile(r"exceeded quota: [^,]+, requested: (.+), used: ")
_COUNTED = re.compile(r"(?:count/\S+|configmaps|pods|replicationcontrollers|resourcequotas|secrets|services)=1")


def _other_name(name: str, salt: str) -> str:
    """As long as the name where that is long, so that no limit is passed; it begins as the name does."""
    suffix = hashlib.blake2b(salt.encode(), digest_size=4).hexdigest()
    return f"{name[: -len(suffix)]}{suffix}" if len(name) >= 24 else f"{name}-{suffix}"


def _without_held(wanted: Any, live: Mapping[str, Any]) -> Any:
    """A Service's spec without the addresses and ports that its present object has allocated."""
    if not isinstance(wanted, Mapping):
        return wanted
    spec = dict(wanted)
    held = {address for address in live.get("clusterIPs") or [live.get("clusterIP")] if address != "None"}
    if spec.get("clusterIP") in held:
        del spec["clusterIP"]
    if held & set(spec.get("clusterIPs") or ()):
        del spec["clusterIPs"]
    if spec.get("healthCheckNodePort") == live.get("healthCheckNodePort"):
        spec.pop("healthCheckNodePort", None)
    taken = {port.get("nodePort") for port in live.get("ports") or ()}
    if isinstance(spec.get("ports"), list):
        spec["ports"] = [_without_node_port(port, taken) for port in spec["ports"]]
    return spec


def _without_node_port(port: Any, taken: set[Any]) -> Any:
    if isinstance(port, Mapping) and port.get("nodePort") in taken:
        return {key: value for key, value in port.items() if key != "nodePort"}
    return port


# Volumes of a StatefulSet.


@dataclass(frozen=True, slots=True)
class Growth:
    """A PersistentVolumeClaim that a StatefulSet's new template wants larger, and how large."""

    claim: LiveObject
    storage: str

    @property
    def bound(self) -> bool:
        return _mapping(self.claim.body.get("status")).get("phase") == "Bound"

    @property
    def present(self) -> str:
        return str(_requested(_spec(self.claim.body)))

    def patch(self) -> bytes:
        """The merge patch; its uid keeps it from a claim that was made again under the same name."""
        requests = {"requests": {"storage": self.storage}}
        return encode({"metadata": {"uid": self.claim.uid}, "spec": {"resources": requests}})


def grown_templates(manifest: Manifest, live: LiveObject) -> dict[str, str]:
    """The volume claim templates of a StatefulSet that want more storage than before, by name, and how much."""
    if live.identity.group_kind != _STATEFUL_SET:
        return {}
    before = _storage(_spec(live.body))
    after = _storage(_spec(manifest.body))
    return {name: storage for name, storage in after.items() if name in before and _exceeds(storage, before[name])}


def growths(live: LiveObject, grown: Mapping[str, str], claims: Iterable[LiveObject]) -> tuple[Growth, ...]:
    """Which claims of a namespace belong to these templates, named `<template>-<StatefulSet>-<ordinal>`, and are too
    small.
    """
    found = []
    for claim in claims:
        for template, storage in grown.items():
            named = re.fullmatch(rf"{re.escape(f'{template}-{live.identity.name}')}-\d+", claim.identity.name)
            if named and not claim.deleting and _exceeds(storage, _requested(_spec(claim.body))):
                found.append(Growth(claim, storage))
    return tuple(found)


def _storage(spec: Mapping[str, Any]) -> dict[str, str]:
    templates = spec.get("volumeClaimTemplates")
    found = {}
    for template in templates if isinstance(templates, list) else ():
        name = _mapping(_mapping(template).get("metadata")).get("name")
        requested = _requested(_spec(_mapping(template)))
        if isinstance(name, str) and requested is not None:
            found[name] = str(requested)
    return found


def _requested(spec: Mapping[str, Any]) -> object:
    return _mapping(_mapping(spec.get("resources")).get("requests")).get("storage")


def _exceeds(one: object, other: object) -> bool:
    left, right = amount(one), amount(other)
    return left is not None and right is not None and left > right


def _spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(body.get("spec"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

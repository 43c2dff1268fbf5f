"""Turns a rendered document into the manifest that the operator applies.

Promises:
- The operator sends the author's manifest, normalised so that a repeated apply changes nothing: no nulls, no fields
  that the API server owns, `protocol` on every port (a key of the ports' list map), Secrets without `stringData`,
  quantities as strings, no empty `rules` beside `aggregationRule`.
- Every manifest has the operator's labels and, if Kubernetes allows it, an owner reference to its parent: the
  controller's, or one of several where parents share the object.
- A manifest that breaks a rule is an error that names the field and what to do. The operator never repairs a manifest
  by guessing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import (
    DEFAULT,
    PREFIX,
    AnnotationError,
    ApplyPolicy,
    Instructions,
    Recreate,
    parse_annotations,
)
from ssa_operator.objects.identity import GroupKind, Identity, join_api_version, split_api_version
from ssa_operator.objects.json_codec import EncodingError, encode
from ssa_operator.objects.live_object import BUCKET_LABEL, MANAGER, PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.shards import bucket_name, bucket_of
from ssa_operator.objects.shared_record import SHARED_LABEL_VALUE

FOREGROUND = "foregroundDeletion"
"""The finalizer of a parent whose dependents the garbage collector deletes first, new ones included: a finalize hook
must have no owner then (https://kubernetes.io/docs/concepts/architecture/garbage-collection/#foreground-deletion).
"""

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
"""The label of a child whose value is `ssa-operator`."""

SERVER_OWNED = (
    "creationTimestamp",
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "selfLink",
    "deletionTimestamp",
)
"""The fields of `metadata` that only the API server writes. They are dropped from a manifest."""

POD_SPECS: Mapping[GroupKind, tuple[str, ...]] = {
    GroupKind("", "Pod"): ("spec",),
    GroupKind("", "ReplicationController"): ("spec", "template", "spec"),
    GroupKind("apps", "Deployment"): ("spec", "template", "spec"),
    GroupKind("apps", "ReplicaSet"): ("spec", "template", "spec"),
    GroupKind("apps", "StatefulSet"): ("spec", "template", "spec"),
    GroupKind("apps", "DaemonSet"): ("spec", "template", "spec"),
    GroupKind("batch", "Job"): ("spec", "template", "spec"),
    GroupKind("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
}
"""The path of the pod spec in each built-in kind that has one."""


NEVER_RECREATED = frozenset(
    {
        GroupKind("", "Namespace"),
        GroupKind("", "PersistentVolume"),
        GroupKind("", "PersistentVolumeClaim"),
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)
"""Kinds whose objects hold data or other objects that would be deleted with them: the operator never recreates them."""


class ManifestError(ValueError):
    """A manifest that breaks a rule. The text follows the manifest's name, and says what to do ("is …", "has …")."""


class Rules(Struct, frozen=True, kw_only=True):
    """What the cluster and the folder's settings require of one manifest."""

    namespaced: bool
    """Whether its kind is namespaced."""
    cluster_scope: bool = False
    """Whether the folder's settings allow children outside of the parent's namespace."""
    bucket_label: bool = False
    """Whether the manifest gets the label with its parent's bucket."""
    why_kept: str | None = None
    """Why its object is never deleted with its parent, None if it may be deleted."""


class SharedRender(Struct, frozen=True, kw_only=True):
    """What one of several parents renders of an object that they share."""

    uid: str
    """The parent's uid."""
    digest: str
    """The digest of the manifest without its parent, by which the owners know that they render it alike."""


class Manifest(Struct, frozen=True, kw_only=True):
    """One object as the operator applies it."""

    identity: Identity
    version: str
    """The version in which it is applied, without the group."""
    body: Mapping[str, Any]
    encoded: bytes
    """The request's body."""
    digest: bytes
    """The digest of `encoded`, by which the operator recognizes an unchanged manifest."""
    instructions: Instructions
    owned: bool
    """Whether it has an owner reference, so that Kubernetes collects the object with its parent."""
    why_kept: str | None = None
    """Why its object is kept as with `prune: "false"` although the manifest doesn't say so; None for all other
    objects.
    """
    document: Document
    """The rendered document that it was made from."""
    shared: SharedRender | None = None
    """What the parent has in common with other owners; None for an object of this parent alone."""

    @property
    def api_version(self) -> str:
        return join_api_version(self.identity.group, self.version)

    @property
    def once(self) -> bool:
        """Whether it is applied once in the parent's life. A finalize hook is applied until it is done."""
        return self.instructions.apply is ApplyPolicy.ONCE and not self.instructions.finalize

    @property
    def deleted_by_operator(self) -> bool:
        """Whether the operator must delete its object with the parent, because Kubernetes doesn't collect it."""
        return self.instructions.prune and not self.owned


def group_kind(document: Document) -> GroupKind:
    """The kind of a document."""
    return GroupKind.of(document.body["apiVersion"], document.body["kind"])


def manifest(document: Document, parent: LiveObject, rules: Rules) -> Manifest:
    """The manifest for a document of `parent`. Raises ManifestError if the document breaks a rule."""
    body = without_nulls(document.body)
    body.pop("status", None)
    metadata = body["metadata"]
    for field in SERVER_OWNED:
        metadata.pop(field, None)
    kind = group_kind(document)
    identity = Identity(kind.group, kind.kind, _namespace(metadata, parent, rules), metadata["name"])
    if identity.namespace:
        metadata["namespace"] = identity.namespace
    instructions = _remove_instructions(metadata) if "annotations" in metadata else DEFAULT
    if not (rules.cluster_scope or may_own(parent.identity.namespace, identity.namespace)):
        raise _out_of_scope(identity, parent)
    if instructions.recreate is not Recreate.NEVER and kind in NEVER_RECREATED:
        raise _never_recreated(instructions, kind)
    kept = rules.why_kept if instructions.prune else None
    if rules.why_kept:
        instructions = _kept(instructions, metadata, parent, rules.why_kept)
    owned = _may_be_owned(identity, instructions, parent)
    is_shared, shared = instructions.apply is ApplyPolicy.SHARED, None
    if is_shared:
        _check_shared(instructions, rules.why_kept)
    _add_labels(metadata, SHARED_LABEL_VALUE if is_shared else parent.uid)
    if rules.bucket_label and not is_shared:
        metadata["labels"][BUCKET_LABEL] = bucket_name(bucket_of(parent.uid))
    _normalise(kind, body)
    try:
        if is_shared:
            shared = SharedRender(uid=parent.uid, digest=_digest(encode(body)))
        _add_owner(metadata, parent, owned=owned, controller=not is_shared)
        encoded = encode(body)
    except EncodingError as error:
        raise ManifestError(f"can't be sent: {error}") from error
    return Manifest(
        identity=identity,
        version=split_api_version(body["apiVersion"])[1],
        body=body,
        encoded=encoded,
        digest=hashlib.blake2b(encoded, digest_size=16).digest(),
        instructions=instructions,
        owned=owned,
        why_kept=kept,
        document=document,
        shared=shared,
    )


def may_own(parent_namespace: str, child_namespace: str) -> bool:
    """Whether Kubernetes allows the parent as owner: in the same namespace, or cluster-scoped ('').

    The API server accepts an illegal reference, and the garbage collector then deletes the child
    (https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents).
    """
    return parent_namespace in ("", child_namespace)


def owner_reference(parent: LiveObject, *, controller: bool = True) -> dict[str, Any]:
    """The owner reference to a live parent, with its live uid: the garbage collector would delete a child with a stale
    uid.
    """
    reference: dict[str, Any] = {
        "apiVersion": join_api_version(parent.identity.group, parent.version),
        "kind": parent.identity.kind,
        "name": parent.identity.name,
        "uid": parent.uid,
    }
    if controller:
        reference["controller"] = True
    reference["blockOwnerDeletion"] = True
    return reference


def _namespace(metadata: dict[str, Any], parent: LiveObject, rules: Rules) -> str:
    given: str = metadata.get("namespace") or ""
    if not rules.namespaced:
        if given:
            raise ManifestError("is cluster-scoped; remove metadata.namespace")
        return ""
    if given or parent.identity.namespace:
        return given or parent.identity.namespace
    raise ManifestError(f"needs metadata.namespace: its parent {parent.identity} is cluster-scoped")


def _remove_instructions(metadata: dict[str, Any]) -> Instructions:
    """Remove the operator's annotations from the metadata; returns the instructions in them."""
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return DEFAULT
    try:
        instructions = parse_annotations(annotations)
    except AnnotationError as error:
        raise ManifestError(f"is invalid: {error}") from error
    for key in [key for key in annotations if key.startswith(PREFIX)]:
        del annotations[key]
    if not annotations:
        del metadata["annotations"]
    return instructions


def _out_of_scope(identity: Identity, parent: LiveObject) -> ManifestError:
    where = f"outside its parent's namespace {parent.identity.namespace}" if identity.namespace else "cluster-scoped"
    return ManifestError(f"is {where}; set `clusterScope: true` in the folder's _settings.yaml to allow it")


def _never_recreated(instructions: Instructions, kind: GroupKind) -> ManifestError:
    return ManifestError(
        f"has the annotation {PREFIX}recreate: {instructions.recreate}, but a {kind.kind} is never deleted and "
        "recreated, because its content would be deleted with it; remove the annotation, and delete the object "
        "yourself if it must change"
    )


def _kept(instructions: Instructions, metadata: Mapping[str, Any], parent: LiveObject, why: str) -> Instructions:
    """The instructions of an object that is never deleted with its parent."""
    if instructions.recreate is not Recreate.NEVER:
        raise ManifestError(
            f"has the annotation {PREFIX}recreate: {instructions.recreate}, but it is never deleted by its parent, "
            f"because {why}; remove the annotation"
        )
    references = metadata.get("ownerReferences")
    for each in references if isinstance(references, list) else ():
        if isinstance(each, Mapping) and each.get("uid") == parent.uid:
            raise ManifestError(
                f"has an owner reference to its parent, but it is never deleted with its parent, because {why}; remove "
                "the owner reference"
            )
    return replace(instructions, prune=False)


def _may_be_owned(identity: Identity, instructions: Instructions, parent: LiveObject) -> bool:
    """Whether the manifest gets an owner reference."""
    if instructions.finalize and FOREGROUND in parent.metadata.finalizers:
        return False
    return instructions.prune and may_own(parent.identity.namespace, identity.namespace)


def _check_shared(instructions: Instructions, why_kept: str | None) -> None:
    """An object that several parents share is never recreated for one of them, and goes with the last one."""
    if why_kept:
        raise ManifestError(
            f"has the annotation {PREFIX}apply: Shared, but it is never deleted by its parent, because {why_kept}; "
            "remove the annotation"
        )
    for name, given in (
        ("recreate", str(instructions.recreate) if instructions.recreate is not Recreate.NEVER else ""),
        ("prune", "" if instructions.prune else '"false"'),
        ("on", "finalize" if instructions.finalize else ""),
    ):
        if given:
            raise ManifestError(
                f"has the annotations {PREFIX}apply: Shared and {PREFIX}{name}: {given}, which exclude each other: no "
                "single parent decides when a shared object is created or deleted; remove one of them"
            )


def _digest(encoded: bytes) -> str:
    """The digest of a manifest, whatever the order of its keys."""
    ordered = json.dumps(json.loads(encoded), sort_keys=True)
    return hashlib.blake2b(ordered.encode(), digest_size=8).hexdigest()


def _add_labels(metadata: dict[str, Any], parent_label: str) -> None:
    labels = metadata.setdefault("labels", {})
    if not isinstance(labels, dict):
        raise ManifestError("has metadata.labels that are no mapping")
    labels[MANAGED_BY_LABEL] = MANAGER
    labels[PARENT_UID_LABEL] = parent_label
    # A template may copy the labels of a parent that is itself a child, with the bucket of another parent.
    labels.pop(BUCKET_LABEL, None)


def _add_owner(metadata: dict[str, Any], parent: LiveObject, *, owned: bool, controller: bool) -> None:
    references = metadata.get("ownerReferences", [])
    if not isinstance(references, list):
        raise ManifestError("has metadata.ownerReferences that are no list")
    if references:
        _check_controllers(references, parent, owned and controller)
    if owned:
        metadata["ownerReferences"] = [*references, owner_reference(parent, controller=controller)]


def _check_controllers(references: Sequence[Any], parent: LiveObject, owned: bool) -> None:
    """An object has at most one controller; the API server refuses a second one."""
    others = [
        each
        for each in references
        if isinstance(each, Mapping) and each.get("controller") is True and each.get("uid") != parent.uid
    ]
    if len(others) + owned > 1:
        who = " and ".join(f"{each.get('kind')} {each.get('name')}" for each in others)
        why = "its parent is its controller" if owned else "an object has one controller"
        raise ManifestError(f"is controlled by {who} in its template, and {why}; remove controller: true there")


def without_nulls(value: Any) -> Any:
    """A copy without null fields: the API server stores an applied null in some maps, and each apply then changes the
    resourceVersion.
    """
    if type(value) is not dict and isinstance(value, (list, tuple)):
        return [item if type(item) in _SCALARS else without_nulls(item) for item in value]
    if isinstance(value, (dict, Mapping)):
        return {
            key: item if type(item) in _SCALARS else without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    return value


_SCALARS = frozenset({str, int, float, bool})


def _normalise(kind: GroupKind, body: dict[str, Any]) -> None:
    if kind == GroupKind("", "Secret"):
        fold_string_data(body)
    if kind == GroupKind("", "Service"):
        _default_protocols(_at(body, "spec", "ports"))
    if kind == GroupKind("", "PersistentVolumeClaim"):
        _write_quantities_as_strings(_at(body, "spec", "resources"), "requests", "limits")
    if kind == GroupKind("", "ResourceQuota"):
        _write_quantities_as_strings(body.get("spec"), "hard")
    if kind == GroupKind("apps", "StatefulSet"):
        for claim in _mappings(_at(body, "spec", "volumeClaimTemplates")):
            _write_quantities_as_strings(_at(claim, "spec", "resources"), "requests", "limits")
    if kind == GroupKind("networking.k8s.io", "NetworkPolicy"):
        _default_policy_types(body.get("spec"))
    is_cluster_role = kind == GroupKind("rbac.authorization.k8s.io", "ClusterRole")
    if is_cluster_role and "aggregationRule" in body and body.get("rules") == []:
        del body["rules"]  # a controller fills them from the roles that aggregationRule selects
    if kind in POD_SPECS:
        _normalise_pod(_at(body, *POD_SPECS[kind]))


def _normalise_pod(spec: Any) -> None:
    if not isinstance(spec, dict):
        return
    for containers in ("containers", "initContainers", "ephemeralContainers"):
        for container in _mappings(spec.get(containers)):
            _default_protocols(container.get("ports"))
            _write_quantities_as_strings(container.get("resources"), "requests", "limits")


def _default_protocols(ports: Any) -> None:
    """Set the default protocol: it is part of the list map's key (kubernetes-sigs/structured-merge-diff#130)."""
    for port in _mappings(ports):
        port.setdefault("protocol", "TCP")


def _default_policy_types(spec: Any) -> None:
    """Set the default, which follows from the rules: the API server sets it once, and rules of another type that a
    manifest gets later would have no effect (hashicorp/vault-helm#662).
    """
    if isinstance(spec, dict) and not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _write_quantities_as_strings(holder: Any, *fields: str) -> None:
    for field in fields:
        amounts = holder.get(field) if isinstance(holder, dict) else None
        if isinstance(amounts, dict):
            for name, amount in amounts.items():
                if isinstance(amount, (int, float)) and not isinstance(amount, bool):
                    amounts[name] = str(amount)


def fold_string_data(body: dict[str, Any]) -> None:
    """Turn `stringData` into `data`: the API server keeps a key that is removed from an applied stringData
    (kubernetes/kubernetes#108008).
    """
    _check_base64(body.get("data"))
    plain = body.pop("stringData", None)
    if plain is None:
        return
    if not isinstance(plain, dict):
        raise ManifestError("has stringData that does not map names to strings")
    for name, text in plain.items():
        if not isinstance(text, str):
            raise ManifestError(f"has stringData.{name} that is no string; write it in quotes")
    data = body.setdefault("data", {})
    if not isinstance(data, dict):
        raise ManifestError("has data that is no mapping")
    for name, text in plain.items():
        data[name] = base64.b64encode(text.encode()).decode()


def _check_base64(data: Any) -> None:
    """Raise an error that names the key of data that is not base64. The API server's error (500) names only a byte."""
    for name, text in data.items() if isinstance(data, dict) else ():
        try:
            # Line breaks are allowed, because Go's decoder ignores them.
            base64.b64decode("".join(text.split()), validate=True)
        except (AttributeError, ValueError) as error:
            raise ManifestError(
                f"has data.{name} that is not base64; write it with `| b64encode`, or put it into stringData"
            ) from error


def _at(body: Any, *path: str) -> Any:
    for part in path:
        if not isinstance(body, dict):
            return None
        body = body.get(part)
    return body


def _mappings(items: Any) -> Iterator[dict[str, Any]]:
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield item

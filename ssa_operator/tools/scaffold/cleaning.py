"""Removes the fields from manifests that the cluster or Helm added.

Promises:
- All fields that the API server sets are removed: status, identity, history, and addresses that it chose.
- Objects that controllers create are left out, because their owners recreate them.
- A Secret's content is never kept. Its values are drawn for each parent, or the Secret is left out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.manifest import without_nulls

_METADATA = frozenset({
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation",
    "managedFields", "namespace", "ownerReferences", "resourceVersion", "selfLink", "uid",
})  # fmt: skip
_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "autoscaling.alpha.kubernetes.io/",
    "pv.kubernetes.io/",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/",
    "meta.helm.sh/",
    "helm.sh/",
    "control-plane.alpha.kubernetes.io/",
)
"""Annotations of others, or how their names begin."""

_LABELS = frozenset({
    "app.kubernetes.io/managed-by", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "chart",
    "controller-uid", "helm.sh/chart", "heritage", "job-name", "pod-template-hash", "controller-revision-hash",
})  # fmt: skip
"""Labels of controllers, and of Helm's charts."""

_DERIVED_KINDS = frozenset({"ControllerRevision", "EndpointSlice", "Endpoints", "Event", "Lease", "Node", "PodMetrics"})
_DERIVED_OBJECTS = frozenset(
    {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"), ("Service", "kubernetes")}
)
_SECRET_TYPES = ("kubernetes.io/service-account-token", "helm.sh/")

_SERVICE_FIELDS = frozenset({"clusterIPs", "healthCheckNodePort", "ipFamilies", "ipFamilyPolicy"})
_CLUSTER_DEFAULTS: Mapping[str, Any] = {
    "dnsPolicy": "ClusterFirst",
    "internalTrafficPolicy": "Cluster",
    "progressDeadlineSeconds": 600,
    "restartPolicy": "Always",
    "revisionHistoryLimit": 10,
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "sessionAffinity": "None",
    "terminationGracePeriodSeconds": 30,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "podManagementPolicy": "OrderedReady",
}
"""Fields of built-in workloads and Services that the API server sets to these values if they are missing."""

_DEFAULTED_GROUPS = frozenset({"", "apps", "batch"})

_SECRET_LENGTH_LIMIT = 128


class Cleaned(Struct, frozen=True, kw_only=True):
    """Manifests without the additions of the cluster and Helm."""

    bodies: Sequence[dict[str, Any]]
    notes: Sequence[str]
    """What was left out or replaced, as sentences."""


def clean(bodies: Iterable[Mapping[str, Any]], namespace: str = "") -> Cleaned:
    """The manifests to make templates of. `namespace` is that of most of them."""
    kept: list[dict[str, Any]] = []
    notes: list[str] = []
    for body in bodies:
        title = f"{body['kind']} {body['metadata']['name']}"
        reason = _left_out(body)
        if reason:
            notes.append(f"{title} is left out: {reason}")
            continue
        result = _cleaned(body)
        if body["metadata"].get("namespace", namespace) != namespace:
            notes.append(
                f"{title} was in the namespace {body['metadata']['namespace']}, and goes into that of the object"
            )
        if body["kind"] == "Secret" and (body.get("data") or body.get("stringData")):
            notes.append(f"{title}: its values are drawn for each object by generated()")
        if any(key.startswith("helm.sh/hook") for key in body["metadata"].get("annotations") or {}):
            notes.append(f"{title} was a Helm hook, and is applied as any other manifest now")
        kept.append(result)
    return Cleaned(bodies=kept, notes=notes)


def _left_out(body: Mapping[str, Any]) -> str | None:
    """Why a manifest is left out; None if it isn't."""
    kind, metadata = body["kind"], body["metadata"]
    annotations = metadata.get("annotations") or {}
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return "its controller makes it"
    if kind in _DERIVED_KINDS or (kind, metadata["name"]) in _DERIVED_OBJECTS:
        return "Kubernetes makes it"
    if kind == "CustomResourceDefinition":
        return "install it with the operator, from the folder of CRDs"
    if kind == "Namespace":
        return "the manifests go into the namespace of the object"
    if str(annotations.get("helm.sh/hook", "")).startswith("test"):
        return "it is a test of Helm"
    if kind == "Secret":
        return _unfit_secret(body)
    return None


def _unfit_secret(secret: Mapping[str, Any]) -> str | None:
    kind = str(secret.get("type") or "Opaque")
    if kind.startswith(_SECRET_TYPES):
        return "Kubernetes or Helm makes it"
    if kind != "Opaque":
        return f"the values of a Secret of type {kind} can't be drawn; create it, and name it in the templates"
    values = [str(value) for value in (secret.get("stringData") or {}).values()]
    for value in (secret.get("data") or {}).values():
        try:
            values.append(base64.b64decode(str(value)).decode())
        except (binascii.Error, UnicodeDecodeError):
            return "it has binary values; create it, and name it in the templates"
    if any("\n" in value.strip() or len(value) > _SECRET_LENGTH_LIMIT for value in values):
        return "it has values of several lines; create it, and name it in the templates"
    return None


def _cleaned(body: Mapping[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in body.items() if key != "status"}
    if split_api_version(body["apiVersion"])[0] in _DEFAULTED_GROUPS:
        result = {key: _without_defaults(value) if key == "spec" else value for key, value in result.items()}
    result = dict(without_nulls(_with_clean_metadata(result)))
    kind = body["kind"]
    spec = result.get("spec")
    if kind == "Service" and isinstance(spec, dict):
        result["spec"] = _service(spec)
    elif kind == "PersistentVolumeClaim" and isinstance(spec, dict):
        spec.pop("volumeName", None)
        if spec.get("volumeMode") == "Filesystem":
            spec.pop("volumeMode")
    elif kind == "Job" and isinstance(spec, dict) and not spec.get("manualSelector"):
        spec.pop("selector", None)
        spec.pop("manualSelector", None)
    elif kind == "ServiceAccount":
        result.pop("secrets", None)
    elif kind == "Secret":
        keys = [*(result.pop("data", None) or {}), *(result.pop("stringData", None) or {})]
        if keys:
            result["stringData"] = {key: key for key in keys}
    return result


def _service(spec: Mapping[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in spec.items() if key not in _SERVICE_FIELDS}
    if result.get("clusterIP") != "None":
        result.pop("clusterIP", None)
    if result.get("type") == "ClusterIP":
        result.pop("type")
    result["ports"] = [
        {key: value for key, value in port.items() if key != "nodePort"} for port in result.get("ports", ())
    ]
    return result if result["ports"] else {key: value for key, value in result.items() if key != "ports"}


def _with_clean_metadata(value: Any) -> Any:
    """The value with the metadata of the object and of all templates in it as an author would write them."""
    if isinstance(value, list):
        return [_with_clean_metadata(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    result = {}
    for key, item in value.items():
        if key == "metadata" and isinstance(item, Mapping):
            result[key] = _metadata(item)
        elif key in ("matchLabels", "selector") and isinstance(item, Mapping):
            # A selector must go on selecting the labels that are left.
            inner = {name: _with_clean_metadata(each) for name, each in item.items()}
            result[key] = {name: each for name, each in inner.items() if name not in _LABELS}
        else:
            result[key] = _with_clean_metadata(item)
    return result


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in metadata.items() if key not in _METADATA}
    for field, unwanted in (("labels", tuple(_LABELS)), ("annotations", _ANNOTATIONS)):
        values = result.pop(field, None) or {}
        exact = field == "labels"
        left = {
            key: value for key, value in values.items() if not (key in unwanted if exact else key.startswith(unwanted))
        }
        if left:
            result[field] = left
    return result


def _without_defaults(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_defaults(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: _without_defaults(item)
        for key, item in value.items()
        if not (
            key in _CLUSTER_DEFAULTS and item == _CLUSTER_DEFAULTS[key] and type(item) is type(_CLUSTER_DEFAULTS[key])
        )
    }

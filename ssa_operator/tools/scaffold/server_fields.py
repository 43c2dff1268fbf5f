"""What the API server and its controllers write into an object, for objects that `kubectl get` prints.

Promises:
- A default is removed at its own path only, and only if it has the API server's value.
- What an author can have chosen stays: a field goes only if the API server, or a controller, writes it by itself.

The defaults are those of `SetDefaults_` and `SetObjectDefaults_` in `pkg/apis/*/v1/defaults.go` of Kubernetes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import POD_SPECS, SERVER_OWNED
from ssa_operator.objects.source_location import value_at

Defaults: TypeAlias = Mapping[str, Any]
"""Values by the path of their field. `*` is every item of a list or field of a mapping."""

_ANNOTATIONS = (
    LAST_APPLIED,
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "autoscaling.alpha.kubernetes.io/",
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    "batch.kubernetes.io/job-tracking",
    "pv.kubernetes.io/",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/",
    "control-plane.alpha.kubernetes.io/",
)
"""Annotations of kubectl and of controllers, or how their names begin."""

_METADATA = (*SERVER_OWNED, "deletionGracePeriodSeconds", "generateName", "ownerReferences")
_FINALIZERS = frozenset({
    "foregroundDeletion", "kubernetes", "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection", "orphan",
    "service.kubernetes.io/load-balancer-cleanup",
})  # fmt: skip
"""Finalizers of Kubernetes' own controllers."""

_CONTAINER: Defaults = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
    "ports.*.protocol": "TCP",
    "env.*.valueFrom.fieldRef.apiVersion": "v1",
    "env.*.valueFrom.resourceFieldRef.divisor": "0",
    **{
        f"{probe}.{field}": value
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for field, value in {
            "failureThreshold": 3,
            "periodSeconds": 10,
            "successThreshold": 1,
            "timeoutSeconds": 1,
            "httpGet.path": "/",
            "httpGet.scheme": "HTTP",
            "grpc.service": "",
        }.items()
    },
    "lifecycle.*.httpGet.path": "/",
    "lifecycle.*.httpGet.scheme": "HTTP",
}
_POD: Defaults = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
    "volumes.*.configMap.defaultMode": 0o644,
    "volumes.*.downwardAPI.defaultMode": 0o644,
    "volumes.*.downwardAPI.items.*.fieldRef.apiVersion": "v1",
    "volumes.*.projected.defaultMode": 0o644,
    "volumes.*.projected.sources.*.downwardAPI.items.*.fieldRef.apiVersion": "v1",
    "volumes.*.projected.sources.*.serviceAccountToken.expirationSeconds": 3600,
    "volumes.*.secret.defaultMode": 0o644,
    "volumes.*.hostPath.type": "",
    "volumes.*.ephemeral.volumeClaimTemplate.metadata": {},
    "volumes.*.ephemeral.volumeClaimTemplate.spec.volumeMode": "Filesystem",
    **{
        f"{containers}.*.{path}": value
        for containers in ("containers", "initContainers")
        for path, value in _CONTAINER.items()
    },
}
_JOB: Defaults = {
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "completions": 1,
    "parallelism": 1,
    "podReplacementPolicy": "TerminatingOrFailed",
    "suspend": False,
}
_WEBHOOK: Defaults = {
    "clientConfig.service.port": 443,
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "reinvocationPolicy": "Never",
    "rules.*.scope": "*",
    "timeoutSeconds": 10,
}
_WEBHOOKS: Defaults = {f"webhooks.*.{path}": value for path, value in _WEBHOOK.items()}
_SPECS: Mapping[GroupKind, Defaults] = {
    GroupKind("apps", "Deployment"): {
        "progressDeadlineSeconds": 600,
        "revisionHistoryLimit": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    },
    GroupKind("apps", "StatefulSet"): {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "volumeClaimTemplates.*.apiVersion": "v1",
        "volumeClaimTemplates.*.kind": "PersistentVolumeClaim",
        "volumeClaimTemplates.*.status": {"phase": "Pending"},
        "volumeClaimTemplates.*.spec.volumeMode": "Filesystem",
    },
    GroupKind("apps", "DaemonSet"): {
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    },
    GroupKind("batch", "Job"): _JOB,
    GroupKind("batch", "CronJob"): {
        "concurrencyPolicy": "Allow",
        "failedJobsHistoryLimit": 1,
        "successfulJobsHistoryLimit": 3,
        "suspend": False,
        "jobTemplate.metadata": {},
        **{f"jobTemplate.spec.{path}": value for path, value in _JOB.items() if path != "suspend"},
    },
    GroupKind("", "Service"): {
        "allocateLoadBalancerNodePorts": True,
        "externalTrafficPolicy": "Cluster",
        "internalTrafficPolicy": "Cluster",
        "ipFamilyPolicy": "SingleStack",
        "ports.*.protocol": "TCP",
        "sessionAffinity": "None",
        "type": "ClusterIP",
    },
    GroupKind("", "PersistentVolumeClaim"): {"volumeMode": "Filesystem"},
    GroupKind("", "PersistentVolume"): {"volumeMode": "Filesystem"},
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): {"minReplicas": 1},
    GroupKind("networking.k8s.io", "NetworkPolicy"): {
        "ingress.*.ports.*.protocol": "TCP",
        "egress.*.ports.*.protocol": "TCP",
    },
}
"""The defaults below `spec`, without those of a pod."""

_ROOTS: Mapping[GroupKind, Defaults] = {
    GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {
        path: value for path, value in _WEBHOOKS.items() if "reinvocation" not in path
    },
    GroupKind("storage.k8s.io", "StorageClass"): {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    GroupKind("scheduling.k8s.io", "PriorityClass"): {"preemptionPolicy": "PreemptLowerPriority"},
}
_OF_JOBS = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")
_OF_PODS: Defaults = {"enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority", "priority": 0}
"""Defaults of pods that a pod template does not get."""

_ADDED_VOLUME = "kube-api-access-"
"""How the name of the volume that the API server adds to pods begins."""


def shows_cluster(body: Mapping[str, Any]) -> bool:
    """Whether an object comes from a cluster: only the API server writes these fields."""
    metadata = body["metadata"]
    return bool(
        any(metadata.get(field) for field in ("managedFields", "resourceVersion", "uid"))
        or body.get("status")
        or LAST_APPLIED in (metadata.get("annotations") or {})
    )


def without_server_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """An object of a cluster as its author may have written it."""
    result = copy.deepcopy({key: item for key, item in body.items() if key != "status"})
    kind = GroupKind.of(body["apiVersion"], body["kind"])
    spec = result.get("spec")
    if isinstance(spec, dict):
        _clean_spec(kind, spec, body)
    pod = value_at(result, POD_SPECS.get(kind, ("",)))
    if isinstance(pod, dict):
        _clean_pod(kind, pod)
    for path, value in {**_ROOTS.get(kind, {}), **_under(("spec",), _SPECS.get(kind, {}))}.items():
        _remove(result, path, value)
    if isinstance(pod, dict):
        _remove_from_template(kind, result)
    if kind == GroupKind("", "ServiceAccount"):
        _remove_tokens(result)
    _clean_metadata(result["metadata"])
    return result


def _under(path: tuple[str, ...], defaults: Defaults) -> Defaults:
    return {".".join((*path, inner)): value for inner, value in defaults.items()}


def _clean_spec(kind: GroupKind, spec: dict[str, Any], body: Mapping[str, Any]) -> None:
    """Remove what controllers, or the API server by other fields, write into a spec."""
    annotations = body["metadata"].get("annotations") or {}
    if kind == GroupKind("", "Service"):
        if spec.get("clusterIP") != "None":
            spec.pop("clusterIP", None)
        for field in ("clusterIPs", "healthCheckNodePort", "ipFamilies"):
            spec.pop(field, None)
        for port in _mappings(spec.get("ports")):
            port.pop("nodePort", None)
            if port.get("targetPort") == port.get("port"):
                port.pop("targetPort", None)
    elif kind == GroupKind("", "PersistentVolumeClaim") and "pv.kubernetes.io/bound-by-controller" in annotations:
        spec.pop("volumeName", None)
    elif kind == GroupKind("batch", "Job") and not spec.pop("manualSelector", None):
        spec.pop("selector", None)
    elif kind == GroupKind("", "Namespace"):
        spec.pop("finalizers", None)


def _clean_pod(kind: GroupKind, pod: dict[str, Any]) -> None:
    if pod.get("serviceAccount") == pod.get("serviceAccountName"):
        pod.pop("serviceAccount", None)
    for containers in ("containers", "initContainers"):
        for container in _mappings(pod.get(containers)):
            if container.get("imagePullPolicy") == _pull_policy(str(container.get("image", ""))):
                del container["imagePullPolicy"]
    defaults = _POD if kind.kind != "Pod" else {**_POD, **_OF_PODS}
    for path, value in defaults.items():
        _remove(pod, path, value)
    if kind.kind == "Pod":
        _clean_scheduled_pod(pod)


def _clean_scheduled_pod(pod: dict[str, Any]) -> None:
    """Remove what admission and the scheduler write into a pod."""
    pod.pop("nodeName", None)
    if pod.get("serviceAccountName") == "default":
        del pod["serviceAccountName"]
    pod["tolerations"] = [
        each
        for each in _mappings(pod.get("tolerations"))
        if not (str(each.get("key", "")).startswith("node.kubernetes.io/") and each.get("tolerationSeconds") == 300)
    ]
    pod["volumes"] = [
        each for each in _mappings(pod.get("volumes")) if not str(each.get("name")).startswith(_ADDED_VOLUME)
    ]
    for containers in ("containers", "initContainers"):
        for container in _mappings(pod.get(containers)):
            container["volumeMounts"] = [
                each
                for each in _mappings(container.get("volumeMounts"))
                if not str(each.get("name")).startswith(_ADDED_VOLUME)
            ]
            _drop_empty(container, "volumeMounts")
    _drop_empty(pod, "tolerations", "volumes")


def _drop_empty(holder: dict[str, Any], *fields: str) -> None:
    for field in fields:
        if not holder[field]:
            del holder[field]


def _remove_from_template(kind: GroupKind, body: dict[str, Any]) -> None:
    """Remove what kubectl and the Job controller write into the metadata of a pod template."""
    template = value_at(body, POD_SPECS[kind][:-1])
    metadata = template.get("metadata")
    if not isinstance(metadata, dict) or kind.kind == "Pod":
        return
    metadata.pop("creationTimestamp", None)
    (metadata.get("annotations") or {}).pop("kubectl.kubernetes.io/restartedAt", None)
    if kind == GroupKind("batch", "Job") and "selector" not in body["spec"]:
        for label in _OF_JOBS:
            (metadata.get("labels") or {}).pop(label, None)
            (body["metadata"].get("labels") or {}).pop(label, None)
    for holder in (metadata, body["metadata"]):
        for field in ("annotations", "labels"):
            if holder.get(field) == {}:
                del holder[field]
    if not metadata:
        del template["metadata"]


def _remove_tokens(account: dict[str, Any]) -> None:
    """Remove the Secrets that the token controller of older clusters made for a service account."""
    begin = (f"{account['metadata']['name']}-token-", f"{account['metadata']['name']}-dockercfg-")
    left = [each for each in _mappings(account.get("secrets")) if not str(each.get("name")).startswith(begin)]
    account["secrets"] = left
    _drop_empty(account, "secrets")


def _clean_metadata(metadata: dict[str, Any]) -> None:
    for field in _METADATA:
        metadata.pop(field, None)
    own = [each for each in metadata.get("finalizers") or () if each not in _FINALIZERS]
    annotations = metadata.get("annotations") or {}
    metadata["finalizers"] = own
    metadata["annotations"] = {key: item for key, item in annotations.items() if not key.startswith(_ANNOTATIONS)}
    _drop_empty(metadata, "annotations", "finalizers")


def _pull_policy(image: str) -> str:
    """The policy that the API server sets for an image without one."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if not digest and tag in ("", "latest") else "IfNotPresent"


def _remove(value: Any, path: str, default: Any) -> None:
    """Remove a default at a path, wherever it has the API server's value."""
    *parts, last = path.split(".")
    for holder in _holders(value, parts):
        if last in holder and holder[last] == default and type(holder[last]) is type(default):
            del holder[last]


def _holders(value: Any, parts: list[str]) -> Iterator[dict[str, Any]]:
    if not parts:
        if isinstance(value, dict):
            yield value
        return
    first, *rest = parts
    if first == "*":
        inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    else:
        inner = [value[first]] if isinstance(value, dict) and first in value else []
    for each in inner:
        yield from _holders(each, rest)


def _mappings(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []

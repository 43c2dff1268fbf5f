"""The frequent mistakes in fields of built-in kinds that no schema shows: a table by the types of Kubernetes' OpenAPI.

Promises:
- What a rule refuses, the API server refuses, too. The API server refuses more: `check --api-server` asks it.
- A value of a wrong type is no error here: the schema says so. An empty text is a missing one, except behind `+`.

A row has the fields of a type, each with its rules: `name:label!` is a DNS label that must be there, `a..b` a whole
number, `A|B` one of some texts; `*` is each item of a list, `keys` are those of a map. `one(a,b)` wants exactly one of
some fields, `most(a,b)` at most one.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from ssa_operator.objects.scalars import amount
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.field_errors import ErrorType, FieldError, as_json, error_at
from ssa_operator.schema.metadata_validation import (
    dns1035_faults,
    key_faults,
    label_faults,
    label_value_faults,
    segment_faults,
    subdomain_faults,
)
from ssa_operator.schema.string_formats import is_ip

Rule: TypeAlias = Callable[[Any, FieldPath], Iterator[FieldError]]
"""Takes a value and its path, and gives its errors."""
MAX_INT32 = 2**31 - 1

_VOLUMES = (
    "configMap,csi,downwardAPI,emptyDir,ephemeral,hostPath,image,iscsi,nfs,persistentVolumeClaim,projected,secret"
)
TABLE: Mapping[str, str] = {
    # pods
    "Container": "name:label image:trimmed! ports:unique(name) resizePolicy:unique(resourceName) "
    "volumeMounts:unique(mountPath) volumeDevices:unique(devicePath) volumeDevices:unique(name) "
    "restartPolicy:+Always|Never|OnFailure",
    "ContainerPort": "name:portName containerPort:1..65535 hostPort:0..65535",
    "EnvVar": "name:variable most(value,valueFrom)",
    "EnvVarSource": "one(fieldRef,resourceFieldRef,configMapKeyRef,secretKeyRef,fileKeyRef)",
    "EnvFromSource": "prefix:variable one(configMapRef,secretRef)",
    "ConfigMapKeySelector": "name:subdomain! key:configKey",
    "SecretKeySelector": "name:subdomain! key:configKey",
    "ConfigMapEnvSource": "name:subdomain!",
    "SecretEnvSource": "name:subdomain!",
    "ObjectFieldSelector": "apiVersion:v1 fieldPath:podField",
    "Probe": "initialDelaySeconds:0.. timeoutSeconds:0.. periodSeconds:0.. failureThreshold:0.. successThreshold:0.. "
    "terminationGracePeriodSeconds:1.. one(exec,httpGet,tcpSocket,grpc)",
    "LifecycleHandler": "one(exec,httpGet,tcpSocket,sleep)",
    "ExecAction": "command:!",
    "HTTPGetAction": "port:port!",
    "HTTPHeader": "name:header",
    "TCPSocketAction": "port:port!",
    "VolumeMount": "subPath:localPath subPathExpr:localPath most(subPath,subPathExpr) "
    "mountPropagation:+Bidirectional|HostToContainer|None recursiveReadOnly:+Disabled|Enabled|IfPossible",
    "VolumeDevice": "devicePath:steps",
    "ResourceRequirements": "requests:amounts limits:amounts",
    "SecurityContext": f"runAsUser:0..{MAX_INT32} runAsGroup:0..{MAX_INT32} procMount:+Default|Unmasked",
    "PodSecurityContext": f"runAsUser:0..{MAX_INT32} runAsGroup:0..{MAX_INT32} fsGroup:0..{MAX_INT32} "
    f"supplementalGroups:*0..{MAX_INT32} fsGroupChangePolicy:+Always|OnRootMismatch sysctls:unique(name) "
    "supplementalGroupsPolicy:+Merge|Strict seLinuxChangePolicy:MountOption|Recursive",
    "Volume": f"name:label most({_VOLUMES})",
    "KeyToPath": "path:itemPath mode:0..511",
    "ConfigMapVolumeSource": "name:! defaultMode:0..511",
    "SecretVolumeSource": "secretName:! defaultMode:0..511",
    "ConfigMapProjection": "name:!",
    "SecretProjection": "name:!",
    "DownwardAPIVolumeFile": "path:itemPath mode:0..511 one(fieldRef,resourceFieldRef)",
    "EmptyDirVolumeSource": "sizeLimit:quantity",
    "HostPathVolumeSource": "path:steps",
    "NFSVolumeSource": "path:absolute",
    "PodSpec": f"containers:! volumes:unique(name) activeDeadlineSeconds:1..{MAX_INT32} "
    "terminationGracePeriodSeconds:0.. serviceAccountName:subdomain serviceAccount:subdomain nodeName:subdomain "
    "nodeSelector:labels priorityClassName:subdomain runtimeClassName:subdomain hostname:label subdomain:label "
    "schedulingGates:unique(name) imagePullSecrets:unique(name) overhead:amounts "
    "topologySpreadConstraints:unique(topologyKey+whenUnsatisfiable)",
    "PodTemplateSpec": "spec:!",
    "PodDNSConfig": "nameservers:*ip",
    "Toleration": "key:key",
    "TopologySpreadConstraint": "maxSkew:1.. minDomains:1.. matchLabelKeys:*key",
    "NodeSelectorRequirement": "key:key",
    "PreferredSchedulingTerm": "weight:1..100",
    "PodAffinityTerm": "topologyKey:key namespaces:*label matchLabelKeys:*key mismatchLabelKeys:*key",
    "LabelSelector": "matchLabels:labels",
    "LabelSelectorRequirement": "key:key operator:In|NotIn|Exists|DoesNotExist values:*labelValue",
    # workloads
    "DeploymentSpec": "replicas:0.. minReadySeconds:0.. revisionHistoryLimit:0.. progressDeadlineSeconds:0..",
    "RollingUpdateDeployment": "maxUnavailable:part maxSurge:share",
    "DaemonSetSpec": "minReadySeconds:0.. revisionHistoryLimit:0..",
    "RollingUpdateDaemonSet": "maxUnavailable:part maxSurge:part",
    "ReplicaSetSpec": "replicas:0.. minReadySeconds:0..",
    "StatefulSetSpec": "replicas:0.. minReadySeconds:0.. serviceName:label",
    "RollingUpdateStatefulSetStrategy": "partition:0.. maxUnavailable:part",
    "JobSpec": "parallelism:0.. completions:0.. backoffLimit:0.. ttlSecondsAfterFinished:0.. backoffLimitPerIndex:0.. "
    "maxFailedIndexes:0.. activeDeadlineSeconds:0.. podReplacementPolicy:+Failed|TerminatingOrFailed",
    "CronJobSpec": "startingDeadlineSeconds:0.. successfulJobsHistoryLimit:0.. failedJobsHistoryLimit:0..",
    # networks
    "ServiceSpec": "ports:unique(name) selector:labels externalIPs:*ip "
    "loadBalancerClass:+key internalTrafficPolicy:+Cluster|Local "
    "ipFamilyPolicy:+PreferDualStack|RequireDualStack|SingleStack ipFamilies:*IPv4|IPv6 "
    "trafficDistribution:+PreferClose|PreferSameNode|PreferSameZone",
    "ServicePort": "name:label port:1..65535 targetPort:targetPort appProtocol:+key",
    "IngressSpec": "ingressClassName:+subdomain",
    "IngressTLS": "secretName:subdomain hosts:*host",
    "IngressRule": "host:host",
    "HTTPIngressRuleValue": "paths:!",
    "HTTPIngressPath": "pathType:Exact|Prefix|ImplementationSpecific backend:!",
    "IngressBackend": "one(service,resource)",
    "IngressServiceBackend": "name:dns1035 port:!",
    "ServiceBackendPort": "name:portName number:1..65535 one(name,number)",
    "TypedLocalObjectReference": "apiGroup:+subdomain kind:segment name:segment",
    "NetworkPolicyPort": "protocol:+SCTP|TCP|UDP port:port endPort:1..65535",
    # scale, storage, permissions, data
    "v2.HorizontalPodAutoscalerSpec": "minReplicas:1.. maxReplicas:1..",
    "v2.CrossVersionObjectReference": "kind:segment name:segment",
    "MetricSpec": "type:ContainerResource|External|Object|Pods|Resource",
    "MetricTarget": "type:Utilization|Value|AverageValue averageUtilization:1.. averageValue:positive value:positive",
    "MetricIdentifier": "name:segment",
    "HPAScalingRules": "selectPolicy:+Max|Min|Disabled stabilizationWindowSeconds:0..3600 tolerance:quantity",
    "HPAScalingPolicy": "type:Percent|Pods value:1.. periodSeconds:1..1800",
    "PodDisruptionBudgetSpec": "minAvailable:part maxUnavailable:part most(minAvailable,maxUnavailable) "
    "unhealthyPodEvictionPolicy:+AlwaysAllow|IfHealthyBudget",
    "PersistentVolumeClaimSpec": "accessModes:! accessModes:*ReadWriteOnce|ReadOnlyMany|ReadWriteMany|ReadWriteOncePod "
    "storageClassName:subdomain volumeAttributesClassName:subdomain volumeMode:+Block|Filesystem",
    "PolicyRule": "verbs:!",
    "rbac.v1.Subject": "kind:ServiceAccount|User|Group",
    "RoleRef": "name:segment kind:Role|ClusterRole!",
    "ConfigMap": "data:keys binaryData:keys binaryData:base64",
    "Secret": "data:keys stringData:keys data:base64",
}

_PATTERNS: Mapping[str, tuple[str, str]] = {
    "portName": (
        r"(?=.{1,15}$)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
        "must be no more than 15 characters, a-z, 0-9 and hyphens (-), and at least one letter (a-z)",
    ),
    "configKey": (
        r"(?!\.\.|\.$)[-._a-zA-Z0-9]{1,253}",
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.', and must not start with '..'",
    ),
    "variable": (
        r"[ -<>-~]+",
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    ),
    "header": (r"[-A-Za-z0-9]+", "a valid HTTP header must consist of alphanumeric characters or '-'"),
    "trimmed": (r"\S(.*\S)?", "must not have leading or trailing whitespace"),
    "localPath": (r"(?!/)(?!(.*/)?\.\.(/|$)).*", "must be a relative path, and must not contain '..'"),
    "itemPath": (r"(?!/)(?!\.\.)(?!.*/\.\.(/|$)).*", "must be a relative path, and must not contain '..'"),
    "steps": (r"(?!(.*/)?\.\.(/|$)).*", "must not contain '..'"),
    "absolute": (r"/.*", "must be an absolute path"),
    "podField": (
        r"metadata\.(name|namespace|uid|(labels|annotations)(\['.+'\])?)|spec\.(nodeName|serviceAccountName)|status\..*",
        "error converting fieldPath: field label not supported",
    ),
}


def _pattern(name: str) -> Callable[[str], list[str]]:
    pattern, words = _PATTERNS[name]
    return lambda text: [] if re.fullmatch(pattern, text, re.ASCII | re.DOTALL) else [words]


def _ip(text: str) -> list[str]:
    known = is_ip(text, leading_zeros=False)
    return [] if known else ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]


def _host(host: str) -> list[str]:
    if is_ip(host, leading_zeros=False):
        return ["must be a DNS name, not an IP address"]
    if "*" in host and not host.startswith("*."):
        return ["a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain"]
    return subdomain_faults(host.removeprefix("*."))


_TEXTS: Mapping[str, Callable[[str], list[str]]] = {
    **{name: _pattern(name) for name in _PATTERNS},
    "label": label_faults,
    "subdomain": subdomain_faults,
    "dns1035": dns1035_faults,
    "segment": segment_faults,
    "key": key_faults,
    "labelValue": label_value_faults,
    "host": _host,
    "ip": lambda text: (
        [] if is_ip(text, leading_zeros=False) else ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    ),
}


def is_missing(value: Any) -> bool:
    """Whether Kubernetes takes a value as none."""
    return value is None or value == "" or value == []


def _text(faults: Callable[[str], list[str]], value: Any, path: FieldPath) -> Iterator[FieldError]:
    yield from (error_at(path, value, words) for words in faults(value)) if isinstance(value, str) else ()


def _number(low: int, high: int | None, value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, int) and not isinstance(value, bool) and (value < low or (high is not None and value > high)):
        words = f"greater than or equal to {low}" if high is None else f"between {low} and {high}, inclusive"
        yield error_at(path, value, f"must be {words}")


def _one_of(allowed: Sequence[str], value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, str) and value not in allowed:
        words = "supported values: " + ", ".join(f'"{each}"' for each in sorted(allowed))
        yield error_at(path, value, words, ErrorType.NOT_SUPPORTED)


def _port(value: Any, path: FieldPath) -> Iterator[FieldError]:
    yield from _text(_TEXTS["portName"], value, path) if isinstance(value, str) else _number(1, 65535, value, path)


def _share(most: int, value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, str):
        yield from _number(0, None, value, path)
    elif not re.fullmatch(r"[0-9]{1,9}%", value):
        words = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%')"
        yield error_at(path, value, words)
    elif int(value[:-1]) > most:
        yield error_at(path, value, f"must not be greater than {most}%")


def quantity_amount(value: Any) -> Decimal | None:
    """The amount of a quantity, None for another value."""
    found = amount(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
    return None if found is None else Decimal(str(found))


def _quantity(low: int, value: Any, path: FieldPath) -> Iterator[FieldError]:
    found = quantity_amount(value)
    if found is not None and (found < 0 or (low and found <= 0)):
        yield error_at(path, value, "must be greater than 0" if low else "must be greater than or equal to 0")


def _amounts(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """The resources of a container."""
    for name, each in value.items() if isinstance(value, Mapping) else ():
        faults = key_faults(name)
        if not faults and "/" not in name and not re.fullmatch("cpu|memory|ephemeral-storage|hugepages-.*", name):
            faults = ["must be a standard resource type or fully qualified"]
        yield from (error_at((*path, name), name, words) for words in faults)
        yield from _quantity(0, each, (*path, name))


def _labels(value: Any, path: FieldPath) -> Iterator[FieldError]:
    for key, each in value.items() if isinstance(value, Mapping) else ():
        for words in (*key_faults(key), *label_value_faults(each or "")):
            yield error_at((*path, key), each, words, shown=path)


def _keys(value: Any, path: FieldPath) -> Iterator[FieldError]:
    for key in value if isinstance(value, Mapping) else ():
        yield from (error_at((*path, key), key, words) for words in _TEXTS["configKey"](key))


def _base64(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """Texts in base64, in which Go skips line ends. No error shows them."""
    for key, each in value.items() if isinstance(value, Mapping) else ():
        try:
            base64.b64decode(str(each or "").replace("\r", "").replace("\n", ""), validate=True)
        except (binascii.Error, ValueError):
            yield error_at((*path, key), "", "must be base64: write it with the filter b64encode")


_NAMED: Mapping[str, Rule] = {
    "port": _port,
    "targetPort": lambda value, path: _port(value, path) if value not in (0, "") else iter(()),
    "share": lambda value, path: _share(MAX_INT32, value, path),
    "part": lambda value, path: _share(100, value, path),
    "quantity": lambda value, path: _quantity(0, value, path),
    "positive": lambda value, path: _quantity(1, value, path),
    "amounts": _amounts,
    "labels": _labels,
    "keys": _keys,
    "base64": _base64,
}


def _unique(names: Sequence[str], value: Any, path: FieldPath) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, item in enumerate(value if isinstance(value, list) else ()):
        own = [item.get(name) for name in names] if isinstance(item, Mapping) else []
        if all(map(is_missing, own)):
            continue
        if (key := as_json(own)) in seen:
            yield error_at((*path, position, names[0]), own[0], kind=ErrorType.DUPLICATE)
        seen.add(key)


def _each(rule: Rule, value: Any, path: FieldPath) -> Iterator[FieldError]:
    for position, item in enumerate(value if isinstance(value, list) else ()):
        yield from rule("" if item is None else item, (*path, position))


def _of_some(names: Sequence[str], value: Any, path: FieldPath, *, needed: bool) -> Iterator[FieldError]:
    found = [name for name in names if not is_missing(value.get(name))]
    if needed and not found:
        yield error_at(path, detail=f"must specify one of {', '.join(names)}", kind=ErrorType.REQUIRED)
    for name in found[1:]:
        words = f"may not be specified when `{found[0]}` is not empty"
        yield error_at((*path, name), detail=words, kind=ErrorType.FORBIDDEN)


def _rule_of(text: str) -> Rule:
    """The rule that a row says of a field."""
    if text.startswith("*"):
        item = _rule_of(text[1:])
        return lambda value, path: _each(item, value, path)
    if found := re.fullmatch(r"unique\((.+)\)", text):
        names = found[1].split("+")
        return lambda value, path: _unique(names, value, path)
    if found := re.fullmatch(r"(\d+)\.\.(\d*)", text):
        low, high = int(found[1]), int(found[2]) if found[2] else None
        return lambda value, path: _number(low, high, value, path)
    if text in _NAMED:
        return _NAMED[text]
    if faults := _TEXTS.get(text):
        return lambda value, path: _text(faults, value, path)
    allowed = text.split("|")
    return lambda value, path: _one_of(allowed, value, path)


def rule_of_type(row: str) -> Rule:
    """The rule of a row, for a value of the type."""
    wholes: list[tuple[Sequence[str], bool]] = []
    fields: list[tuple[str, Rule, bool]] = []
    required: list[str] = []
    for word in row.split():
        if found := re.fullmatch(r"(one|most)\((.+)\)", word):
            wholes.append((found[2].split(","), found[1] == "one"))
            continue
        name, _, text = word.partition(":")
        if text.endswith("!"):
            required.append(name)
        if rule := text.removesuffix("!").removeprefix("+"):
            fields.append((name, _rule_of(rule), text.startswith(("+", "*"))))

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for name in required:
            if is_missing(value.get(name)) or value[name] == {}:
                yield error_at((*path, name), kind=ErrorType.REQUIRED)
        for name, rule, empty_counts in fields:
            found = value.get(name)
            if found is not None and (empty_counts or not is_missing(found)):
                yield from rule(found, (*path, name))
        for names, needed in wholes:
            yield from _of_some(names, value, path, needed=needed)

    return check

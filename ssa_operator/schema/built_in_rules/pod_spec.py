"""What the API server requires of pods and of the templates of pods.

The rules are those of k8s.io/kubernetes (pkg/apis/core/validation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.built_in_rules.constraints import (
    MAX_INT32,
    NON_NEGATIVE,
    Constraint,
    above_zero,
    at_least,
    at_most,
    between,
    choice,
    equals,
    every,
    exactly_one,
    fields,
    forbidden,
    is_integer,
    is_missing,
    item_texts,
    items,
    required,
    set_choice,
    text,
    unique,
    when,
)
from ssa_operator.schema.built_in_rules.node_rules import AFFINITY, SPREAD, TOLERATIONS
from ssa_operator.schema.built_in_rules.resources import RESOURCES, amounts, container_resource_faults
from ssa_operator.schema.built_in_rules.text_rules import (
    CONFIG_KEY,
    ENVIRONMENT_NAME,
    KEY,
    LABEL,
    PORT_NAME,
    SUBDOMAIN,
    address_faults,
    header_faults,
    labels,
    local_path_faults,
    no_backsteps,
    port_or_name,
)
from ssa_operator.schema.built_in_rules.volumes import ENVIRONMENT_FIELD, VOLUMES, resource_reference
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at
from ssa_operator.schema.metadata_validation import subdomain_faults, validate_metadata_values

_KEY_REFERENCE = fields({"name": SUBDOMAIN, "key": CONFIG_KEY}, required("name", "key"))
_NAME_REFERENCE = fields({"name": SUBDOMAIN}, required("name"))

_SOURCES: Mapping[str, Constraint] = {
    "fieldRef": ENVIRONMENT_FIELD,
    "resourceFieldRef": resource_reference,
    "configMapKeyRef": _KEY_REFERENCE,
    "secretKeyRef": _KEY_REFERENCE,
    "fileKeyRef": fields({}, required("volumeName", "path", "key")),
}


def _value_beside_source(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and value.get("value") not in (None, "") and value.get("valueFrom") is not None:
        yield error_at((*path, "valueFrom"), "", "may not be specified when `value` is not empty")


_ENVIRONMENT = items(
    fields(
        {"name": ENVIRONMENT_NAME, "valueFrom": fields(_SOURCES, exactly_one(*_SOURCES, what="source"))},
        required("name"),
        _value_beside_source,
    )
)
_ENVIRONMENT_FROM = items(
    fields(
        {"prefix": ENVIRONMENT_NAME, "configMapRef": _NAME_REFERENCE, "secretRef": _NAME_REFERENCE},
        exactly_one("configMapRef", "secretRef", what="source"),
    )
)

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORTS = every(
    items(
        fields(
            {
                "name": PORT_NAME,
                "containerPort": between(1, 65535),
                "hostPort": between(0, 65535),
                "protocol": choice(*_PROTOCOLS),
            },
        )
    ),
    unique("name"),
)

_EXEC = fields({}, required("command"))
_HTTP = fields(
    {
        "port": port_or_name,
        "scheme": choice("HTTP", "HTTPS"),
        "httpHeaders": items(fields({"name": text(header_faults)}, required("name"))),
    },
    required("port"),
)
_TCP = fields({"port": port_or_name}, required("port"))
_ACTIONS: Mapping[str, Constraint] = {"exec": _EXEC, "httpGet": _HTTP, "tcpSocket": _TCP}
_PROBE_HANDLERS = (*_ACTIONS, "grpc")
_HOOK_HANDLERS = (*_ACTIONS, "sleep")


def _probe(*more: Constraint, successes: Constraint = NON_NEGATIVE) -> Constraint:
    numbers = dict.fromkeys(
        ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold"), NON_NEGATIVE
    )
    return fields(
        {
            **_ACTIONS,
            **numbers,
            "grpc": fields({"port": between(1, 65535)}),
            "successThreshold": successes,
            "terminationGracePeriodSeconds": above_zero,
        },
        exactly_one(*_PROBE_HANDLERS, what="handler"),
        *more,
    )


_ONE_SUCCESS = equals(1)
_NO_GRACE = forbidden("terminationGracePeriodSeconds", detail="must not be set for readinessProbes")
_PROBES: Mapping[str, Constraint] = {
    "livenessProbe": _probe(successes=_ONE_SUCCESS),
    "readinessProbe": _probe(_NO_GRACE),
    "startupProbe": _probe(successes=_ONE_SUCCESS),
}
_HOOK = fields({**_ACTIONS, "sleep": fields({"seconds": at_least(0)})}, exactly_one(*_HOOK_HANDLERS, what="handler"))
_LIFECYCLE = fields({"postStart": _HOOK, "preStop": _HOOK})


def _mount(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    if not is_missing(value.get("subPath")) and not is_missing(value.get("subPathExpr")):
        words = "subPathExpr and subPath are mutually exclusive"
        yield error_at((*path, "subPathExpr"), value["subPathExpr"], words)
    recursive = value.get("recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible"):
        if not value.get("readOnly"):
            words = "may only be specified when readOnly is true"
            yield error_at((*path, "recursiveReadOnly"), detail=words, kind=ErrorType.FORBIDDEN)
        if value.get("mountPropagation") not in (None, "None"):
            words = "may only be specified when mountPropagation is None or not specified"
            yield error_at((*path, "recursiveReadOnly"), detail=words, kind=ErrorType.FORBIDDEN)


_MOUNTS = every(
    items(
        fields(
            {
                "subPath": text(local_path_faults),
                "subPathExpr": text(local_path_faults),
                "mountPropagation": set_choice("Bidirectional", "HostToContainer", "None"),
                "recursiveReadOnly": set_choice("Disabled", "Enabled", "IfPossible"),
            },
            required("name", "mountPath"),
            _mount,
        )
    ),
    unique("mountPath"),
)
_DEVICES = every(
    items(fields({"devicePath": text(no_backsteps)}, required("name", "devicePath"))),
    unique("devicePath"),
    unique("name"),
)  # fmt: skip

_USER = between(0, MAX_INT32)
_SECCOMP_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")


def _local_profile(*, relative: bool) -> Constraint:
    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if not isinstance(value, Mapping):
            return
        profile, local = value.get("localhostProfile"), value.get("type") == "Localhost"
        at = (*path, "localhostProfile")
        if local and profile is None:
            yield error_at(at, detail="must be set when seccomp type is Localhost", kind=ErrorType.REQUIRED)
        elif not local and profile is not None and value.get("type"):
            yield error_at(at, profile, "can only be set when seccomp type is Localhost")
        elif local and relative and isinstance(profile, str):
            yield from (error_at(at, profile, words) for words in local_path_faults(profile))

    return check


_SECCOMP = fields({"type": choice(*_SECCOMP_TYPES)}, required("type"), _local_profile(relative=True))
_APP_ARMOR = fields({"type": choice(*_SECCOMP_TYPES)}, required("type"), _local_profile(relative=False))


def _privileges(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping) or value.get("allowPrivilegeEscalation") is not False:
        return
    at = (*path, "allowPrivilegeEscalation")
    if value.get("privileged") is True:
        yield error_at(at, False, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
    added = value_at(value, ("capabilities", "add"))
    if isinstance(added, list) and "CAP_SYS_ADMIN" in added:
        words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        yield error_at(at, False, words)


_SECURITY = fields(
    {
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "procMount": set_choice("Default", "Unmasked"),
        "seccompProfile": _SECCOMP,
        "appArmorProfile": _APP_ARMOR,
    },
    _privileges,
)
_SYSCTL_PART = re.compile(r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?", re.ASCII)


def _sysctl_faults(name: str) -> list[str]:
    """What is wrong with the name of a sysctl."""
    parts = name.replace("/", ".").split(".")
    if len(name) <= 253 and all(map(_SYSCTL_PART.fullmatch, parts)):
        return []
    return ["must have at most 253 characters, and parts of lower case letters, digits, - and _ between dots"]


_POD_SECURITY = fields(
    {
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        "supplementalGroups": items(_USER),
        "fsGroupChangePolicy": set_choice("Always", "OnRootMismatch"),
        "supplementalGroupsPolicy": set_choice("Merge", "Strict"),
        "seLinuxChangePolicy": choice("MountOption", "Recursive"),
        "seccompProfile": _SECCOMP,
        "appArmorProfile": _APP_ARMOR,
        "sysctls": every(items(fields({"name": text(_sysctl_faults)}, required("name"))), unique("name")),
    }
)  # fmt: skip


def _resize(value: Any, path: FieldPath) -> Iterator[FieldError]:
    yield from unique("resourceName")(value, path)


def _image(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    image = value.get("image")
    if is_missing(image):
        yield error_at((*path, "image"), kind=ErrorType.REQUIRED)
    elif isinstance(image, str) and image != image.strip():
        yield error_at((*path, "image"), image, "must not have leading or trailing whitespace")


_CONTAINER_FIELDS: Mapping[str, Constraint] = {
    "name": LABEL,
    "ports": _PORTS,
    "env": _ENVIRONMENT,
    "envFrom": _ENVIRONMENT_FROM,
    "resources": RESOURCES,
    "resizePolicy": every(
        items(
            fields(
                {"resourceName": choice("cpu", "memory"), "restartPolicy": choice("NotRequired", "RestartContainer")},
                required("resourceName", "restartPolicy"),
            )
        ),
        _resize,
    ),
    "volumeMounts": _MOUNTS,
    "volumeDevices": _DEVICES,
    **_PROBES,
    "lifecycle": _LIFECYCLE,
    "restartPolicy": set_choice("Always", "Never", "OnFailure"),
    "terminationMessagePolicy": choice("FallbackToLogsOnError", "File"),
    "imagePullPolicy": choice("Always", "IfNotPresent", "Never"),
    "securityContext": _SECURITY,
}
_CONTAINER = fields(_CONTAINER_FIELDS, required("name"), _image)
_INIT_CONTAINER = fields(
    _CONTAINER_FIELDS,
    required("name"),
    _image,
    when(
        lambda value: value.get("restartPolicy") != "Always",
        forbidden("lifecycle", *_PROBES, detail="may not be set for init containers without restartPolicy=Always"),
    ),
)


def _container_names(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """The names of all containers of a pod are different."""
    seen: set[str] = set()
    for field in ("containers", "initContainers") if isinstance(value, Mapping) else ():
        found = value.get(field)
        for position, container in enumerate(found if isinstance(found, list) else ()):
            name = container.get("name") if isinstance(container, Mapping) else None
            if isinstance(name, str) and name:
                if name in seen:
                    yield error_at((*path, field, position, "name"), name, kind=ErrorType.DUPLICATE)
                seen.add(name)


def _containers(value: Any) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    for field in ("initContainers", "containers") if isinstance(value, Mapping) else ():
        found = value.get(field)
        for position, container in enumerate(found if isinstance(found, list) else ()):
            if isinstance(container, Mapping):
                yield (field, position), container


def _items_of(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for position, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, Mapping):
            yield position, item


def _host_ports(value: Any, path: FieldPath) -> Iterator[FieldError]:
    seen: set[tuple[Any, ...]] = set()
    network = isinstance(value, Mapping) and value.get("hostNetwork") is True
    for at, container in _containers(value):
        for position, port in _items_of(container.get("ports")):
            host, inner = port.get("hostPort"), port.get("containerPort")
            where = (*path, *at, "ports", position)
            if network and is_integer(host) and host not in (0, inner):
                words = "must match `hostPort` when `hostNetwork` is true"
                yield error_at((*where, "containerPort"), inner, words)
            if at[0] == "containers" and is_integer(host) and host:
                key = (str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ""), host)
                if key in seen:
                    yield error_at((*where, "hostPort"), host, kind=ErrorType.DUPLICATE)
                seen.add(key)


def _used_devices(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """A volume is mounted, or used as a device."""
    for at, container in _containers(value):
        mounts = {str(each.get("name")) for _, each in _items_of(container.get("volumeMounts"))}
        for position, device in _items_of(container.get("volumeDevices")):
            name = device.get("name")
            if isinstance(name, str) and name in mounts:
                words = "must not already exist in volumeMounts"
                yield error_at((*path, *at, "volumeDevices", position, "name"), name, words)


def _bidirectional(value: Any, path: FieldPath) -> Iterator[FieldError]:
    for at, container in _containers(value):
        privileged = value_at(container, ("securityContext", "privileged")) is True
        for position, mount in _items_of(container.get("volumeMounts")):
            if mount.get("mountPropagation") == "Bidirectional" and not privileged:
                words = "Bidirectional mount propagation is available only to privileged containers"
                yield error_at(
                    (*path, *at, "volumeMounts", position, "mountPropagation"), detail=words, kind=ErrorType.FORBIDDEN
                )


def _grace(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """A hook sleeps no longer than the pod has to end."""
    seconds = value.get("terminationGracePeriodSeconds") if isinstance(value, Mapping) else None
    most = seconds if is_integer(seconds) else 30
    for at, container in _containers(value):
        for hook in ("postStart", "preStop"):
            where = ("lifecycle", hook, "sleep", "seconds")
            found = value_at(container, where)
            if is_integer(found) and found > most:
                words = f"must be non-negative and less than terminationGracePeriodSeconds ({most})"
                yield error_at((*path, *at, *where), found, words)


def _dns(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and value.get("dnsPolicy") == "None":
        at = (*path, "dnsConfig")
        config = value.get("dnsConfig")
        if not isinstance(config, Mapping):
            yield error_at(at, detail="must provide `dnsConfig` when `dnsPolicy` is None", kind=ErrorType.REQUIRED)
        elif not config.get("nameservers"):
            words = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield error_at((*at, "nameservers"), detail=words, kind=ErrorType.REQUIRED)


def _search_faults(domain: str) -> list[str]:
    """What is wrong with a domain of a resolver, in which underscores are allowed."""
    return [] if domain == "." else subdomain_faults(domain.removesuffix(".").replace("_", "-"))


_DNS = fields(
    {
        "nameservers": every(item_texts(address_faults), at_most(3)),
        "searches": every(item_texts(_search_faults), at_most(32)),
        "options": items(fields({}, required("name"))),
    }
)  # fmt: skip


def _processes(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    if value.get("shareProcessNamespace") is True and value.get("hostPID") is True:
        words = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield error_at((*path, "shareProcessNamespace"), True, words)
    sysctls = value_at(value, ("securityContext", "sysctls"))
    for position, sysctl in _items_of(sysctls):
        name = str(sysctl.get("name")).replace("/", ".")
        for field, prefix in (
            ("hostNetwork", "net."),
            ("hostIPC", "kernel.shm"),
            ("hostIPC", "kernel.msg"),
            ("hostIPC", "kernel.sem"),
            ("hostIPC", "fs.mqueue."),
        ):
            if value.get(field) is True and name.startswith(prefix):
                words = f"may not be specified when '{field}' is true"
                yield error_at((*path, "securityContext", "sysctls", position, "name"), name, words)
    for at, container in _containers(value):
        mount = ("securityContext", "procMount")
        if value_at(container, mount) == "Unmasked" and value.get("hostUsers") is not False:
            yield error_at((*path, *at, *mount), "Unmasked", "`hostUsers` must be false to use `Unmasked`")
    if value.get("hostUsers") is False:
        for name in ("hostNetwork", "hostPID", "hostIPC"):
            if value.get(name) is True:
                words = "when `hostUsers` is false, must not be set to true"
                yield error_at((*path, name), detail=words, kind=ErrorType.FORBIDDEN)


_OF_WINDOWS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
_OF_LINUX = (
    "seLinuxOptions", "seccompProfile", "appArmorProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser",
    "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "capabilities", "readOnlyRootFilesystem",
    "privileged", "allowPrivilegeEscalation", "procMount",
)  # fmt: skip


def _system(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """Fields of another operating system than the pod's."""
    system = value_at(value, ("os", "name"))
    if system not in ("linux", "windows"):
        return
    names = ("windowsOptions",) if system == "linux" else _OF_LINUX
    contexts: list[tuple[FieldPath, Any]] = [(("securityContext",), value.get("securityContext"))]
    contexts += [((*at, "securityContext"), each.get("securityContext")) for at, each in _containers(value)]
    for at, context in contexts:
        for name in names if isinstance(context, Mapping) else ():
            if context.get(name) is not None:
                words = f"cannot be set for a {system} pod"
                yield error_at((*path, *at, name), detail=words, kind=ErrorType.FORBIDDEN)
    for name in _OF_WINDOWS if system == "windows" else ():
        if value.get(name):
            yield error_at((*path, name), detail="cannot be set for a windows pod", kind=ErrorType.FORBIDDEN)


POD_SPEC = fields(
    {
        "containers": items(_CONTAINER),
        "initContainers": items(_INIT_CONTAINER),
        "volumes": VOLUMES,
        "restartPolicy": choice("Always", "Never", "OnFailure"),
        "dnsPolicy": choice("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        "dnsConfig": _DNS,
        "activeDeadlineSeconds": between(1, MAX_INT32),
        "terminationGracePeriodSeconds": NON_NEGATIVE,
        "serviceAccountName": SUBDOMAIN,
        "serviceAccount": SUBDOMAIN,
        "nodeName": SUBDOMAIN,
        "nodeSelector": labels,
        "priorityClassName": SUBDOMAIN,
        "runtimeClassName": SUBDOMAIN,
        "hostname": LABEL,
        "subdomain": LABEL,
        "preemptionPolicy": choice("Never", "PreemptLowerPriority"),
        "hostAliases": items(
            fields({"ip": text(address_faults), "hostnames": item_texts(subdomain_faults)}, required("ip"))
        ),
        "tolerations": TOLERATIONS,
        "topologySpreadConstraints": SPREAD,
        "affinity": AFFINITY,
        "securityContext": _POD_SECURITY,
        "readinessGates": items(fields({"conditionType": KEY}, required("conditionType"))),
        "schedulingGates": every(items(fields({"name": KEY}, required("name"))), unique("name")),
        "os": fields({"name": choice("linux", "windows")}, required("name")),
        "overhead": amounts(container_resource_faults),
        "resourceClaims": every(
            items(
                fields(
                    {"name": LABEL},
                    required("name"),
                    exactly_one("resourceClaimName", "resourceClaimTemplateName", what="source"),
                )
            ),
            unique("name"),
        ),
        "imagePullSecrets": unique("name"),
    },
    required("containers"),
    _container_names,
    _host_ports,
    _used_devices,
    _bidirectional,
    _grace,
    _dns,
    _processes,
    _system,
)  # fmt: skip


def _metadata(value: Any, path: FieldPath) -> Iterator[FieldError]:
    yield from validate_metadata_values(value, path)


TEMPLATE = fields({"metadata": _metadata, "spec": POD_SPEC}, structs=("spec",))
"""A template of pods."""

POD = fields({"spec": POD_SPEC}, structs=("spec",))


ALWAYS_RESTARTED = fields(
    {
        "spec": fields(
            {"restartPolicy": choice("Always")},
            forbidden("activeDeadlineSeconds", detail="activeDeadlineSeconds is not supported in this template"),
        )
    }
)
"""A template of pods that a controller restarts without an end."""

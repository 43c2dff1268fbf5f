"""What the API server requires of the volumes of pods, of claims and of PersistentVolumes.

The rules are those of k8s.io/kubernetes (pkg/apis/core/validation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.built_in_rules.constraints import (
    Constraint,
    at_most_one,
    between,
    choice,
    every,
    exactly_one,
    fields,
    is_missing,
    item_choices,
    items,
    keys,
    longest,
    matches,
    quantity,
    required,
    required_entries,
    set_choice,
    text,
    unique,
    when,
)
from ssa_operator.schema.built_in_rules.node_rules import NODE_SELECTOR
from ssa_operator.schema.built_in_rules.text_rules import (
    KEY,
    LABEL,
    SELECTOR,
    SUBDOMAIN,
    item_path_faults,
    local_path_faults,
    no_backsteps,
)
from ssa_operator.schema.field_errors import ErrorType, FieldError, as_json, error_at
from ssa_operator.schema.metadata_validation import (
    key_faults,
    subdomain_faults,
    validate_metadata_values,
)

MODE = between(0, 0o777)
_HOST_PATH_TYPES = (
    "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice",
)  # fmt: skip

_ITEMS = items(fields({"path": text(item_path_faults), "mode": MODE}, required("key", "path")))
_KEYS = fields({"items": _ITEMS})

_POD_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_ENVIRONMENT_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_DIVISORS = frozenset({"1", *(f"1{unit}" for unit in "kMGTPE"), *(f"1{unit}i" for unit in "KMGTPE")})


def field_reference(allowed: tuple[str, ...]) -> Constraint:
    """A reference to a field of the pod."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        found = value.get("fieldPath") if isinstance(value, Mapping) else None
        if not isinstance(found, str) or not found:
            return
        name, bracket, key = found.partition("['")
        if bracket and key.endswith("']"):
            faults = key_faults(key[:-2].lower() if name == "metadata.annotations" else key[:-2])
            if name not in ("metadata.annotations", "metadata.labels"):
                faults = ["does not support subscript"]
            yield from (error_at((*path, "fieldPath"), found, words) for words in faults)
        elif found not in allowed:
            words = f"error converting fieldPath: field label not supported; known are {', '.join(allowed)}"
            yield error_at((*path, "fieldPath"), found, words)

    version = matches(lambda value: value == "v1", "must be v1")
    return every(fields({"apiVersion": version}, required("fieldPath")), check)


def resource_reference(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """A reference to a resource of a container."""
    if not isinstance(value, Mapping):
        return
    name, divisor = value.get("resource"), value.get("divisor")
    if is_missing(name):
        yield error_at((*path, "resource"), kind=ErrorType.REQUIRED)
    elif isinstance(name, str) and name not in _RESOURCES and ".hugepages-" not in name:
        words = "supported values: " + ", ".join(f'"{each}"' for each in sorted(_RESOURCES))
        yield error_at((*path, "resource"), name, words, ErrorType.NOT_SUPPORTED)
    elif isinstance(name, str) and divisor is not None and str(divisor) not in ("0", ""):
        allowed = {"1m", "1"} if name.endswith(".cpu") else _DIVISORS
        if isinstance(divisor, (str, int)) and str(divisor) not in allowed:
            words = f"only divisor's values {', '.join(sorted(allowed))} are supported with this resource"
            yield error_at((*path, "divisor"), divisor, words)


ENVIRONMENT_FIELD = field_reference(_ENVIRONMENT_FIELDS)

_FILES = items(
    fields(
        {
            "path": text(item_path_faults),
            "mode": MODE,
            "fieldRef": field_reference(_POD_FIELDS),
            "resourceFieldRef": every(resource_reference, required("containerName")),
        },
        required("path"),
        exactly_one("fieldRef", "resourceFieldRef", what="source"),
    )
)

_TOKEN = fields({"expirationSeconds": between(600, 2**32), "path": text(local_path_faults)}, required("path"))

_PROJECTED = fields(
    {
        "defaultMode": MODE,
        "sources": items(
            fields(
                {
                    "secret": every(_KEYS, required("name")),
                    "configMap": every(_KEYS, required("name")),
                    "downwardAPI": fields({"items": _FILES}),
                    "serviceAccountToken": _TOKEN,
                },
            ),
        ),
    }
)


_PROJECTABLE = ("secret", "configMap", "downwardAPI", "serviceAccountToken")
"""The sources of a projected volume that no feature gate drops."""


def _projected_paths(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """No two sources of a projected volume write one file."""
    sources = value.get("sources") if isinstance(value, Mapping) else None
    seen: set[str] = set()
    for position, source in enumerate(sources if isinstance(sources, list) else ()):
        for name in ("secret", "configMap", "downwardAPI"):
            found = value_at(source, (name, "items"))
            for inner, item in enumerate(found if isinstance(found, list) else ()):
                file = item.get("path") if isinstance(item, Mapping) else None
                if isinstance(file, str) and file:
                    if file in seen:
                        at = (*path, "sources", position, name, "items", inner, "path")
                        yield error_at(at, file, "conflicting duplicate paths")
                    seen.add(file)


def _one_source(value: Any, path: FieldPath) -> Iterator[FieldError]:
    sources = value.get("sources") if isinstance(value, Mapping) else None
    for position, source in enumerate(sources if isinstance(sources, list) else ()):
        found = [name for name in _PROJECTABLE if source.get(name) is not None] if isinstance(source, Mapping) else []
        if len(found) > 1:
            words = "may not specify more than 1 volume type per source"
            yield error_at((*path, "sources", position), detail=words, kind=ErrorType.FORBIDDEN)


_CAPACITY = ("storage",)


def _storage(name: str, *, only: bool) -> Constraint:
    """A map of resources with storage."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        found = value.get(name) if isinstance(value, Mapping) else None
        if not isinstance(found, Mapping) or is_missing(found.get("storage")):
            yield error_at((*path, name, "storage"), kind=ErrorType.REQUIRED)
        for key in found if only and isinstance(found, Mapping) else ():
            if key not in _CAPACITY:
                words = 'supported values: "storage"'
                yield error_at((*path, name, key), key, words, ErrorType.NOT_SUPPORTED)

    return check


_POSITIVE = quantity(exclusive=True)
_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


def _only_mode(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, list) and "ReadWriteOncePod" in value and any(each != "ReadWriteOncePod" for each in value):
        yield error_at(path, detail="may not use ReadWriteOncePod with other access modes", kind=ErrorType.FORBIDDEN)


ACCESS_MODES = every(item_choices(*_MODES), _only_mode)
_BLOCK = ("Block", "Filesystem")


def _data_source(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and is_missing(value.get("apiGroup")) and value.get("kind"):
        if value["kind"] != "PersistentVolumeClaim":
            yield error_at(path, value["kind"], "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    elif isinstance(value, Mapping) and isinstance(value.get("apiGroup"), str):
        yield from SUBDOMAIN(value["apiGroup"], (*path, "apiGroup"))


def _data_sources(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    source, reference = value.get("dataSource"), value.get("dataSourceRef")
    if isinstance(source, Mapping) and isinstance(reference, Mapping):
        ours = [source.get(name) or "" for name in ("apiGroup", "kind", "name")]
        theirs = [reference.get(name) or "" for name in ("apiGroup", "kind", "name")]
        if ours != theirs:
            yield error_at((*path, "dataSource"), source, "must match dataSourceRef")


_REFERENCE = every(when(lambda value: value, required("kind", "name")), _data_source)

CLAIM = fields(
    {
        "accessModes": ACCESS_MODES,
        "selector": SELECTOR,
        "resources": fields(
            {
                "requests": fields({"storage": _POSITIVE}),
            }
        ),
        "storageClassName": SUBDOMAIN,
        "volumeAttributesClassName": SUBDOMAIN,
        "volumeMode": set_choice(*_BLOCK),
        "dataSource": _REFERENCE,
        "dataSourceRef": _REFERENCE,
    },
    required("accessModes", detail="at least 1 access mode is required"),
    _data_sources,
)
"""The spec of a claim."""


def _claim_requests(value: Any, path: FieldPath) -> Iterator[FieldError]:
    resources = value.get("resources") if isinstance(value, Mapping) else None
    yield from _storage("requests", only=False)(resources or {}, (*path, "resources"))


CLAIM_SPEC = every(CLAIM, _claim_requests)


def _template_metadata(value: Any, path: FieldPath) -> Iterator[FieldError]:
    yield from validate_metadata_values(value, path)


_CLAIM_TEMPLATE = fields({"spec": CLAIM_SPEC, "metadata": _template_metadata}, required_entries("spec"))

_CSI_DRIVER = every(text(lambda value: subdomain_faults(value.lower())), longest(63))

_SECRET = fields({"name": SUBDOMAIN}, required("name"))
_ABSOLUTE = matches(lambda value: value.startswith("/"), "must be an absolute path")

SOURCES: Mapping[str, Constraint] = {
    "awsElasticBlockStore": fields({"partition": between(0, 255)}, required("volumeID")),
    "azureDisk": fields({}, required("diskName", "diskURI")),
    "azureFile": fields({}, required("secretName", "shareName")),
    "cephfs": fields({}, required("monitors")),
    "cinder": fields({}, required("volumeID")),
    "configMap": fields({"items": _ITEMS, "defaultMode": MODE}, required("name")),
    "csi": fields({"driver": _CSI_DRIVER, "nodePublishSecretRef": _SECRET}, required("driver")),
    "downwardAPI": fields({"items": _FILES, "defaultMode": MODE}),
    "emptyDir": fields({"sizeLimit": quantity()}),
    "ephemeral": fields({"volumeClaimTemplate": _CLAIM_TEMPLATE}, required("volumeClaimTemplate")),
    "fc": fields({}),
    "flexVolume": fields({}, required("driver")),
    "flocker": fields({}),
    "gcePersistentDisk": fields({"partition": between(0, 255)}, required("pdName")),
    "gitRepo": fields({"directory": text(local_path_faults)}, required("repository")),
    "glusterfs": fields({}, required("endpoints", "path")),
    "hostPath": fields({"path": text(no_backsteps), "type": choice(*_HOST_PATH_TYPES)}, required("path")),
    "image": fields({"pullPolicy": choice("Always", "IfNotPresent", "Never")}),
    "iscsi": fields({"lun": between(0, 255)}, required("targetPortal", "iqn")),
    "nfs": fields({"path": _ABSOLUTE}, required("server", "path")),
    "persistentVolumeClaim": fields({}, required("claimName")),
    "photonPersistentDisk": fields({}, required("pdID")),
    "portworxVolume": fields({}, required("volumeID")),
    "projected": every(_PROJECTED, _one_source, _projected_paths),
    "quobyte": fields({}, required("registry", "volume")),
    "rbd": fields({}, required("monitors", "image")),
    "scaleIO": fields({}, required("gateway", "system", "volumeName")),
    "secret": fields({"items": _ITEMS, "defaultMode": MODE}, required("secretName")),
    "storageos": fields({}),
    "vsphereVolume": fields({}, required("volumePath")),
}  # fmt: skip
"""The sources of a pod's volume."""

VOLUMES = every(
    items(fields({"name": LABEL, **SOURCES}, required("name"), at_most_one(*SOURCES, what="volume type"))),
    unique("name"),
)

_PV_SOURCES: Mapping[str, Constraint] = {
    **{name: SOURCES[name] for name in ("awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "fc", "flocker",
                                        "gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "nfs",
                                        "photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO",
                                        "storageos", "vsphereVolume")},
    "azureFile": fields({}, required("secretName", "shareName")),
    "csi": fields({"driver": _CSI_DRIVER}, required("driver", "volumeHandle")),
    "flexVolume": fields({}, required("driver")),
    "local": fields({"path": text(no_backsteps)}, required("path")),
}  # fmt: skip


def _local(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and value.get("local") is not None and value.get("nodeAffinity") is None:
        yield error_at((*path, "nodeAffinity"), detail="Local volume requires node affinity", kind=ErrorType.REQUIRED)
    host = value.get("hostPath") if isinstance(value, Mapping) else None
    if (
        isinstance(host, Mapping)
        and host.get("path") == "/"
        and value.get("persistentVolumeReclaimPolicy") == "Recycle"
    ):
        words = "may not be 'recycle' for a hostPath mount of '/'"
        yield error_at((*path, "persistentVolumeReclaimPolicy"), detail=words, kind=ErrorType.FORBIDDEN)


PERSISTENT_VOLUME = fields(
    {
        "spec": fields(
            {
                **_PV_SOURCES,
                "accessModes": ACCESS_MODES,
                "capacity": fields({"storage": _POSITIVE}),
                "persistentVolumeReclaimPolicy": choice("Delete", "Recycle", "Retain"),
                "storageClassName": SUBDOMAIN,
                "volumeAttributesClassName": SUBDOMAIN,
                "volumeMode": set_choice(*_BLOCK),
                "nodeAffinity": fields(
                    {"required": NODE_SELECTOR}, required("required", detail="must specify required node constraints")
                ),
            },
            required("accessModes"),
            _storage("capacity", only=True),
            exactly_one(*_PV_SOURCES, what="volume type"),
            _local,
        )
    },
    structs=("spec",),
)

PERSISTENT_VOLUME_CLAIM = fields({"spec": CLAIM_SPEC}, structs=("spec",))

_TOPOLOGIES = items(
    fields(
        {
            "matchLabelExpressions": items(
                fields({"key": KEY, "values": unique()}, required("key", "values")),
            )
        }
    )
)


def _topologies(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """No two terms are alike, and none is empty beside another one."""
    seen: set[str] = set()
    for position, term in enumerate(value if isinstance(value, list) else ()):
        found = term.get("matchLabelExpressions") if isinstance(term, Mapping) else None
        expressions = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
        keys_of = [each.get("key") for each in expressions]
        at = (*path, position, "matchLabelExpressions")
        shown = as_json(expressions)
        if not expressions or shown in seen:
            yield error_at(at, "", kind=ErrorType.DUPLICATE)
        seen.add(shown)
        for inner, key in enumerate(keys_of):
            if key in keys_of[:inner]:
                yield error_at((*at, inner, "key"), key, kind=ErrorType.DUPLICATE)


_PROVISIONER = text(lambda value: key_faults(value.lower()))

STORAGE_CLASS = fields(
    {
        "provisioner": _PROVISIONER,
        "reclaimPolicy": choice("Delete", "Retain"),
        "volumeBindingMode": set_choice("Immediate", "WaitForFirstConsumer"),
        "allowedTopologies": every(_TOPOLOGIES, _topologies),
        "parameters": keys(lambda key: [] if key else ["field can not be empty."]),
    },
    required("provisioner"),
)

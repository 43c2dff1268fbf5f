"""What the API server requires of ConfigMaps, Secrets, Leases, PriorityClasses, RuntimeClasses and Namespaces.

The rules are those of k8s.io/kubernetes (pkg/apis/core, coordination, scheduling and node).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.built_in_rules.constraints import (
    above_zero,
    at_least,
    entries,
    every,
    fields,
    is_integer,
    item_texts,
    keys,
    required,
    set_choice,
    unique,
)
from ssa_operator.schema.built_in_rules.node_rules import TOLERATIONS
from ssa_operator.schema.built_in_rules.resources import amounts, container_resource_faults
from ssa_operator.schema.built_in_rules.text_rules import KEY, LABEL, base64_text, config_key_faults, decoded, labels
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at
from ssa_operator.schema.metadata_validation import key_faults

_SIZE = 1024 * 1024


_binary = entries(base64_text)


def _bytes(value: Any, *, plain: bool) -> dict[str, int]:
    """The bytes of each text of a mapping, or of what it says in base64."""
    texts = {key: each for key, each in value.items() if isinstance(each, str)} if isinstance(value, Mapping) else {}
    return {
        key: len(each.encode("utf-8", "surrogatepass") if plain else decoded(each) or b"")
        for key, each in texts.items()
    }


def _config_map(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    data, binary = value.get("data"), value.get("binaryData")
    if isinstance(data, Mapping) and isinstance(binary, Mapping):
        for key in binary.keys() & data.keys():
            yield error_at((*path, "data", key), key, "duplicate of key present in binaryData")
    if sum((_bytes(data, plain=True) | _bytes(binary, plain=False)).values()) > _SIZE:
        yield error_at((*path, "data"), detail=f"may not be more than {_SIZE} bytes", kind=ErrorType.TOO_LONG)


CONFIG_MAP = fields(
    {"data": keys(config_key_faults), "binaryData": every(keys(config_key_faults), _binary)}, _config_map
)

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON = (".dockercfg", ".dockerconfigjson")


def _secret(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    data, texts, kind = value.get("data"), value.get("stringData"), value.get("type")
    found: dict[str, Any] = {
        **(data if isinstance(data, Mapping) else {}),
        **(texts if isinstance(texts, Mapping) else {}),
    }
    for key in _NEEDED.get(kind, ()) if isinstance(kind, str) else ():
        if key not in found:
            yield error_at((*path, "data", key), kind=ErrorType.REQUIRED)
        elif key in _JSON and not _is_json(found[key], plain=isinstance(texts, Mapping) and key in texts):
            yield error_at((*path, "data", key), "<secret contents redacted>", "must be JSON")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & found.keys():
        yield error_at((*path, "data", "username"), kind=ErrorType.REQUIRED)
        yield error_at((*path, "data", "password"), kind=ErrorType.REQUIRED)
    if kind == "kubernetes.io/service-account-token":
        annotation = ("metadata", "annotations", "kubernetes.io/service-account.name")
        if not value_at(value, annotation):
            yield error_at((*path, *annotation), kind=ErrorType.REQUIRED)
    if sum((_bytes(data, plain=False) | _bytes(texts, plain=True)).values()) > _SIZE:
        yield error_at((*path, "data"), detail=f"may not be more than {_SIZE} bytes", kind=ErrorType.TOO_LONG)


def _is_json(value: Any, *, plain: bool) -> bool:
    """Whether a value is JSON; one of another type has an error of its own."""
    if not isinstance(value, str):
        return True
    found = value.encode("utf-8", "surrogatepass") if plain else decoded(value)
    try:
        json.loads(found if found is not None else b"{}")
    except (ValueError, RecursionError):
        return False
    return True


SECRET = fields({"data": every(keys(config_key_faults), _binary), "stringData": keys(config_key_faults)}, _secret)

_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:\d{2})", re.ASCII)


def _moment(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, str) and not _MOMENT.fullmatch(value):
        yield error_at(path, value, "must be a time with microseconds: 2026-01-02T03:04:05.000000Z")


LEASE = fields(
    {
        "spec": fields(
            {
                "leaseDurationSeconds": above_zero,
                "leaseTransitions": at_least(0),
                "strategy": KEY,
                "acquireTime": _moment,
                "renewTime": _moment,
            }
        )
    }
)

_HIGHEST = 1_000_000_000


def _priority(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    name, number = value_at(value, ("metadata", "name")), value.get("value")
    if isinstance(name, str) and name.startswith("system-"):
        if name not in ("system-cluster-critical", "system-node-critical"):
            words = "priority class names with 'system-' prefix are reserved for system use only"
            yield error_at((*path, "metadata", "name"), detail=words, kind=ErrorType.FORBIDDEN)
    elif is_integer(number) and number > _HIGHEST:
        words = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        yield error_at((*path, "value"), detail=words, kind=ErrorType.FORBIDDEN)


PRIORITY_CLASS = fields({"preemptionPolicy": set_choice("Never", "PreemptLowerPriority")}, _priority)

RUNTIME_CLASS = fields(
    {
        "handler": LABEL,
        "overhead": fields({"podFixed": amounts(container_resource_faults)}),
        "scheduling": fields(
            {"nodeSelector": labels, "tolerations": every(TOLERATIONS, unique("key", "operator", "value", "effect"))}
        ),
    },
    required("handler"),
)


def finalizer_faults(name: str) -> list[str]:
    """What is wrong with a finalizer of an object of Kubernetes' own."""
    faults = key_faults(name)
    words = "name is neither a standard finalizer name nor is it fully qualified"
    return faults or ([words] if "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion") else [])


NAMESPACE = fields({"spec": fields({"finalizers": item_texts(finalizer_faults)})})

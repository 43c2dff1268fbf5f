"""What the API server requires of amounts of resources: of containers, limit ranges and quotas.

The rules are those of k8s.io/kubernetes (pkg/apis/core/validation, pkg/apis/core/helper).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.built_in_rules.constraints import (
    Constraint,
    every,
    fields,
    is_missing,
    items,
    quantity_amount,
    required,
    unique,
)
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at
from ssa_operator.schema.metadata_validation import key_faults

_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset(
    {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims",
     "services.nodeports", "services.loadbalancers"}
)  # fmt: skip
_QUOTA = (
    _CONTAINER
    | _COUNTED
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER}
    | {"requests.storage"}
)
_STANDARD = _QUOTA | {"storage"}
_HUGE = "hugepages-"


def _name_faults(name: str, allowed: frozenset[str], words: str) -> list[str]:
    faults = key_faults(name)
    if faults or "/" in name:
        return faults
    is_huge = name.startswith((_HUGE, f"requests.{_HUGE}", f"limits.{_HUGE}"))
    return [] if name in allowed or is_huge else [words]


def container_resource_faults(name: str) -> list[str]:
    """What is wrong with the name of a container's resource."""
    if "/" in name and not key_faults(name):
        domain = name.partition("/")[0]
        native = "kubernetes.io" in domain
        return (
            ["doesn't follow extended resource name standard"] if domain.startswith("requests.") and not native else []
        )
    if name.startswith((f"requests.{_HUGE}", f"limits.{_HUGE}")):
        return ["must be a standard resource for containers"]
    return _name_faults(name, _CONTAINER, "must be a standard resource type or fully qualified")


def quota_resource_faults(name: str) -> list[str]:
    """What is wrong with the name of a quota's resource."""
    return _name_faults(name, frozenset(_QUOTA), "must be a standard resource for quota")


def standard_resource_faults(name: str) -> list[str]:
    """What is wrong with the name of a limit range's resource."""
    return _name_faults(name, frozenset(_STANDARD), "must be a standard resource type or fully qualified")


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    return bool(slash) and "kubernetes.io" not in domain


def amounts(faults: Callable[[str], list[str]]) -> Constraint:
    """A map of quantities by the names of resources."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for name, amount in value.items() if isinstance(value, Mapping) else ():
            if not isinstance(name, str):
                continue
            yield from (error_at((*path, name), name, words) for words in faults(name))
            found = quantity_amount(amount)
            if found is None:
                continue
            whole = name in _COUNTED or name.startswith("count/") or _is_extended(name)
            if found < 0:
                yield error_at((*path, name), amount, "must be greater than or equal to 0")
            elif whole and found % 1:
                yield error_at((*path, name), amount, "must be an integer")

    return check


def _map(value: Any, name: str) -> Mapping[Any, Any]:
    """A field that is a map, an empty one otherwise."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _requests(value: Any, path: FieldPath) -> Iterator[FieldError]:
    asked, most = _map(value, "requests"), _map(value, "limits")
    for name, amount in asked.items():
        found, limit = quantity_amount(amount), quantity_amount(most.get(name))
        exact = isinstance(name, str) and (_is_extended(name) or name.startswith(_HUGE))
        at = (*path, "requests", name)
        if limit is None and exact and found is not None:
            words = "Limit must be set for non overcommitable resources"
            yield error_at((*path, "limits"), detail=words, kind=ErrorType.REQUIRED)
        elif found is not None and limit is not None and exact and found != limit:
            yield error_at(at, amount, f"must be equal to {name} limit of {most[name]}")
        elif found is not None and limit is not None and found > limit:
            yield error_at(at, amount, f"must be less than or equal to {name} limit of {most[name]}")
    names = {*asked, *most}
    if any(isinstance(name, str) and name.startswith(_HUGE) for name in names) and not names & {"cpu", "memory"}:
        yield error_at(path, detail="HugePages require cpu or memory", kind=ErrorType.FORBIDDEN)


_AMOUNTS = amounts(container_resource_faults)
RESOURCES = fields(
    {"requests": _AMOUNTS, "limits": _AMOUNTS, "claims": every(items(fields({}, required("name"))), unique("name"))},
    _requests,
)

# ---- limit ranges

_RANGES = ("min", "max", "default", "defaultRequest")
_ORDER = (
    ("min", "max", "min", "min value {0} is greater than max value {1}"),
    ("min", "defaultRequest", "defaultRequest", "min value {0} is greater than default request value {1}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {0} is greater than max value {1}"),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {0} is greater than default limit value {1}",
    ),
    ("min", "default", "default", "min value {0} is greater than default value {1}"),
    ("default", "max", "default", "default value {0} is greater than max value {1}"),
)


def _limit_order(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    for smaller, larger, field, words in _ORDER:
        low, high = _map(value, smaller), _map(value, larger)
        for name in low:
            less, more = quantity_amount(low[name]), quantity_amount(high.get(name))
            if less is not None and more is not None and less > more:
                yield error_at((*path, field, name), value[field][name], words.format(low[name], high[name]))
    ratios = value.get("maxLimitRequestRatio")
    for name, amount in ratios.items() if isinstance(ratios, Mapping) else ():
        found = quantity_amount(amount)
        if found is not None and found < 1:
            yield error_at((*path, "maxLimitRequestRatio", name), amount, f"ratio {amount} is less than 1")
        bounds = [
            quantity_amount(value[each].get(name)) for each in ("min", "max") if isinstance(value.get(each), Mapping)
        ]
        low_high = [each for each in bounds if each is not None]
        if found is not None and len(low_high) == 2 and low_high[0] and found > low_high[1] / low_high[0]:
            words = f"ratio {amount} is greater than max/min"
            yield error_at((*path, "maxLimitRequestRatio", name), amount, words)


def _limit_of_type(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    if value.get("type") == "Pod":
        for name in ("default", "defaultRequest"):
            if value.get(name):
                words = "may not be specified when `type` is 'Pod'"
                yield error_at((*path, name), detail=words, kind=ErrorType.FORBIDDEN)
    if value.get("type") == "PersistentVolumeClaim":
        found = [value.get(name) for name in ("min", "max")]
        if not any(isinstance(each, Mapping) and not is_missing(each.get("storage")) for each in found):
            words = "either minimum or maximum storage value is required, but neither was provided"
            yield error_at((*path, "limits"), detail=words, kind=ErrorType.REQUIRED)


def _limit_type_faults(value: str) -> list[str]:
    if faults := key_faults(value):
        return faults
    words = "must be a standard limit type or fully qualified"
    return [] if "/" in value or value in ("Pod", "Container", "PersistentVolumeClaim") else [words]


def _limit_type(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and isinstance(value.get("type") or "", str):
        found = value.get("type") or ""
        yield from (error_at((*path, "type"), found, words) for words in _limit_type_faults(found))


def _limit_names(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    rule = container_resource_faults if value.get("type") in ("Pod", "Container") else standard_resource_faults
    for field in (*_RANGES, "maxLimitRequestRatio"):
        for name in value[field] if isinstance(value.get(field), Mapping) else ():
            if isinstance(name, str):
                yield from (error_at((*path, field, name), name, words) for words in rule(name))


LIMIT_RANGE = fields(
    {
        "spec": fields(
            {
                "limits": every(
                    items(fields({}, _limit_type, _limit_names, _limit_of_type, _limit_order)),
                    unique("type"),
                )
            },
        )
    }
)

# ---- quotas

_SCOPES = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)  # fmt: skip
_POD_RESOURCES = {"pods"} | {name for name in _QUOTA if name.rpartition(".")[2] in _CONTAINER}
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


def _fits(scope: str, resource: str) -> bool:
    """Whether a scope applies to a resource that the API server knows."""
    if resource not in _QUOTA:
        return True
    if scope == "BestEffort":
        return resource == "pods"
    if scope == "VolumeAttributesClass":
        return resource in ("persistentvolumeclaims", "requests.storage")
    return resource in _POD_RESOURCES


def _scopes(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    hard = (
        [name for name in value.get("hard") or () if isinstance(name, str)]
        if isinstance(value.get("hard"), Mapping)
        else []
    )
    listed = value.get("scopes") if isinstance(value.get("scopes"), list) else []
    selector = value.get("scopeSelector")
    expressions = selector.get("matchExpressions") if isinstance(selector, Mapping) else None
    selected = (
        [each.get("scopeName") for each in expressions or () if isinstance(each, Mapping)]
        if isinstance(expressions, list)
        else []
    )
    for names, at in ((listed, (*path, "scopes")), (selected, (*path, "scopeSelector", "matchExpressions"))):
        texts = [each for each in names or () if isinstance(each, str)]
        for scope in texts:
            if scope not in _SCOPES:
                yield error_at(at, scope, "unsupported scope")
            elif not all(_fits(scope, name) for name in hard):
                yield error_at(at, scope, "unsupported scope applied to resource")
        if any(pair <= set(texts) for pair in _CONFLICTS):
            yield error_at(at, texts, "conflicting scopes")


def _scope_expression(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    operator, found = value.get("operator"), value.get("values")
    size = len(found) if isinstance(found, list) else 0
    scope = value.get("scopeName")
    if scope in _SCOPES and scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
        yield error_at((*path, "operator"), operator, "must be 'Exists' for this scope")
    if operator in ("In", "NotIn") and not size:
        words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        yield error_at((*path, "values"), detail=words, kind=ErrorType.REQUIRED)
    elif operator in ("Exists", "DoesNotExist") and size:
        words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        yield error_at((*path, "values"), found, words)
    elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        yield error_at((*path, "operator"), operator or "", "not a valid selector operator")


QUOTA = fields(
    {
        "spec": fields(
            {
                "hard": amounts(quota_resource_faults),
                "scopeSelector": fields({"matchExpressions": items(_scope_expression)}),
            },
            _scopes,
        )
    }
)

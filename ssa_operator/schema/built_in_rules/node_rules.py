"""What the API server requires of the constraints by which pods choose nodes: selectors, affinity, tolerations, spread.

The rules are those of k8s.io/kubernetes (pkg/apis/core/validation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.built_in_rules.constraints import (
    above_zero,
    between,
    choice,
    every,
    fields,
    is_integer,
    is_missing,
    item_texts,
    items,
    required,
    set_choice,
    unique,
)
from ssa_operator.schema.built_in_rules.text_rules import KEY, SELECTOR, required_key
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at
from ssa_operator.schema.metadata_validation import key_faults, label_faults, label_value_faults, subdomain_faults

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_NUMBER = re.compile(r"[-+]?[0-9]+", re.ASCII)


def _node_values(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    operator, values = value.get("operator"), value.get("values")
    found = values if isinstance(values, list) else []
    at = (*path, "values")
    if operator in ("In", "NotIn") and not found:
        yield error_at(at, detail="must be specified when `operator` is 'In' or 'NotIn'", kind=ErrorType.REQUIRED)
    elif operator in ("Exists", "DoesNotExist") and found:
        words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield error_at(at, detail=words, kind=ErrorType.FORBIDDEN)
    elif operator in ("Gt", "Lt") and len(found) != 1:
        words = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        yield error_at(at, detail=words, kind=ErrorType.REQUIRED)


def _field_values(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    values = value.get("values")
    if value.get("operator") not in ("In", "NotIn"):
        yield error_at((*path, "operator"), value.get("operator"), "not a valid selector operator")
    elif not isinstance(values, list) or len(values) != 1:
        words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield error_at((*path, "values"), detail=words, kind=ErrorType.REQUIRED)
    elif isinstance(values[0], str):
        yield from (error_at((*path, "values", 0), values[0], words) for words in subdomain_faults(values[0]))
    if value.get("key") != "metadata.name":
        yield error_at((*path, "key"), value.get("key"), "not a valid field selector key")


_TERM = fields(
    {
        "matchExpressions": items(
            fields(
                {"key": KEY, "operator": choice(*_OPERATORS), "values": item_texts(label_value_faults)},
                required_key,
                required("operator"),
                _node_values,
            )
        ),
        "matchFields": items(_field_values),
    }
)

NODE_SELECTOR = fields(
    {"nodeSelectorTerms": items(_TERM)},
    required("nodeSelectorTerms", detail="must have at least one node selector term"),
)

_WEIGHT = between(1, 100)

_POD_TERM = fields(
    {
        "labelSelector": SELECTOR,
        "namespaceSelector": SELECTOR,
        "namespaces": item_texts(label_faults),
        "topologyKey": KEY,
        "matchLabelKeys": item_texts(key_faults),
        "mismatchLabelKeys": item_texts(key_faults),
    },
    required("topologyKey", detail="can not be empty"),
)


def _keys_without_selector(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and value.get("labelSelector") is None:
        for name in ("matchLabelKeys", "mismatchLabelKeys"):
            if value.get(name):
                words = "must not be specified when labelSelector is not set"
                yield error_at((*path, name), detail=words, kind=ErrorType.FORBIDDEN)


POD_TERM = every(_POD_TERM, _keys_without_selector)
_POD_AFFINITY = fields(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": items(POD_TERM),
        "preferredDuringSchedulingIgnoredDuringExecution": items(
            fields({"weight": _WEIGHT, "podAffinityTerm": POD_TERM}),
        ),
    }
)

AFFINITY = fields(
    {
        "nodeAffinity": fields(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": NODE_SELECTOR,
                "preferredDuringSchedulingIgnoredDuringExecution": items(
                    fields({"weight": _WEIGHT, "preference": _TERM}),
                ),
            }
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)


def _toleration(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    operator, seconds = value.get("operator"), value.get("tolerationSeconds")
    if is_missing(value.get("key")) and operator != "Exists":
        yield error_at((*path, "operator"), operator or "", "operator must be Exists when `key` is empty")
    if operator == "Exists" and not is_missing(value.get("value")):
        yield error_at((*path, "operator"), value["value"], "value must be empty when `operator` is 'Exists'")
    elif isinstance(value.get("value"), str):
        faults = label_value_faults(value["value"])
        yield from (error_at((*path, "operator"), value["value"], words) for words in faults)
    if seconds is not None and value.get("effect") != "NoExecute":
        words = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield error_at((*path, "effect"), value.get("effect") or "", words)


TOLERATIONS = items(
    fields(
        {
            "key": KEY,
            "operator": choice("Equal", "Exists"),
            "effect": choice("NoExecute", "NoSchedule", "PreferNoSchedule"),
        },
        _toleration,
    )
)


def _spread(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    fewest = value.get("minDomains")
    if is_integer(fewest) and fewest > 0 and value.get("whenUnsatisfiable") not in (None, "DoNotSchedule"):
        words = "can only use minDomains if whenUnsatisfiable=DoNotSchedule"
        yield error_at((*path, "minDomains"), fewest, words)


SPREAD = every(
    items(
        fields(
            {
                "maxSkew": above_zero,
                "minDomains": above_zero,
                "whenUnsatisfiable": choice("DoNotSchedule", "ScheduleAnyway"),
                "nodeAffinityPolicy": set_choice("Honor", "Ignore"),
                "nodeTaintsPolicy": set_choice("Honor", "Ignore"),
                "labelSelector": SELECTOR,
                "matchLabelKeys": item_texts(key_faults),
            },
            required("topologyKey", detail="can not be empty"),
            required("whenUnsatisfiable"),
            _spread,
            _keys_without_selector,
        )
    ),
    unique("topologyKey", "whenUnsatisfiable"),
)

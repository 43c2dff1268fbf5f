"""Label selectors: as text, as the API's LabelSelector, and what they select.

Promises:
- A selector selects what the API server's label selector selects.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TERM = re.compile(
    r"""
    (?<![^,])\s*(?:(?P<absent>!)\s*)?(?P<key>[^\s!=,()]+)\s*
    (?:(?:(?P<equality>==|=|!=)\s*(?P<value>[^\s,()]*)|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))\s*)?
    (?:,|$)
    """,
    re.VERBOSE,
)


def label_selector(text: str) -> dict[str, Any]:
    """The LabelSelector of a selector as kubectl writes it: `app=web, tier!=test, env in (a, b), !old`."""
    return {"matchExpressions": [_expression(term) for term in _TERM.finditer(text)]}


def _expression(term: re.Match[str]) -> dict[str, Any]:
    key = term["key"]
    if term["set"]:
        values = [value.strip() for value in term["values"].split(",")]
        return {"key": key, "operator": "In" if term["set"] == "in" else "NotIn", "values": values}
    if term["equality"]:
        return {"key": key, "operator": "NotIn" if term["equality"] == "!=" else "In", "values": [term["value"]]}
    return {"key": key, "operator": "DoesNotExist" if term["absent"] else "Exists"}


def selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether a LabelSelector selects these labels. An operator that doesn't exist selects nothing."""
    wanted = selector.get("matchLabels")
    if isinstance(wanted, Mapping) and not wanted.items() <= labels.items():
        return False
    expressions = selector.get("matchExpressions")
    return all(_fulfils(each, labels) for each in (expressions if isinstance(expressions, list) else ()))


def _fulfils(expression: Any, labels: Mapping[str, Any]) -> bool:
    if not isinstance(expression, Mapping):
        return False
    key, values = str(expression.get("key")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False

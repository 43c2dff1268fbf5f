"""Label selectors: as text, as the API's LabelSelector, and what they select.

Promises:
- A selector selects what the API server's label selector selects: an empty one everything, null nothing.
- A selector that the API server refuses is a fault with its field, because one with a misspelt field selects too much.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_TERM = re.compile(
    r"""
    (?<![^,])\s*(?:(?P<absent>!)\s*)?(?P<key>[^\s!=,()]+)\s*
    (?:(?:(?P<equality>==|=|!=)\s*(?P<value>[^\s,()]*)|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))\s*)?
    (?:,|$)
    """,
    re.VERBOSE,
)

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class Requirement(NamedTuple):
    """One of the matchExpressions of a LabelSelector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def fulfilled_by(self, labels: Mapping[str, Any]) -> bool:
        """Whether labels fulfil it. An operator that doesn't exist is never fulfilled."""
        match self.operator:
            case "In":
                return self.key in labels and labels[self.key] in self.values
            case "NotIn":
                return self.key not in labels or labels[self.key] not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels
        return False

    def __str__(self) -> str:
        if self.values:
            return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"
        return self.key if self.operator == "Exists" else f"!{self.key}"


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


def selector_fault(selector: Any) -> str | None:
    """What is wrong with a LabelSelector, with the field, in words that follow "the selector"."""
    if selector is None:
        return None
    if not isinstance(selector, Mapping):
        return "is no mapping with matchLabels or matchExpressions"
    if unknown := [str(key) for key in selector if key not in ("matchLabels", "matchExpressions")]:
        return f"has the field {unknown[0]}; it may have matchLabels and matchExpressions"
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not all(isinstance(each, str) for pair in labels.items() for each in pair):
        return "has matchLabels that are no mapping of strings, as in {app: web}"
    if not isinstance(expressions, list):
        return "has matchExpressions that are no list"
    faults = (_expression_fault(each) for each in expressions)
    return next((f"has matchExpressions[{at}] {fault}" for at, fault in enumerate(faults) if fault), None)


def _expression_fault(expression: Any) -> str | None:
    if not isinstance(expression, Mapping) or not isinstance(expression.get("key"), str):
        return "without a key"
    values, operator = expression.get("values") or [], expression.get("operator")
    if operator not in _OPERATORS:
        return f"whose operator is none of {', '.join(_OPERATORS)}"
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        return "whose values are no list of strings"
    if bool(values) != (operator in ("In", "NotIn")):
        return f"whose operator {operator} has {'' if values else 'no '}values"
    return None


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, Any]) -> bool:
    """Whether a LabelSelector selects these labels. An operator that doesn't exist selects nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels")
    if isinstance(wanted, Mapping) and not wanted.items() <= labels.items():
        return False
    return all(each.fulfilled_by(labels) for each in requirements(selector))


def requirements(selector: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """The matchExpressions of a LabelSelector."""
    expressions = selector.get("matchExpressions")
    return tuple([_requirement(each) for each in (expressions if isinstance(expressions, list) else ())])


def _requirement(expression: Any) -> Requirement:
    if not isinstance(expression, Mapping):
        return Requirement("", "")
    key, operator = str(expression.get("key")), str(expression.get("operator"))
    return Requirement(key, operator, tuple(expression.get("values") or ()))

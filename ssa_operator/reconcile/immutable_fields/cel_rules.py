"""The validation rules (CEL) of a CRD's schema, and which of them are transition rules.

Promises:
- A failed rule is found by the field that the API server names, whether the rule is at that field, or above it with a
  `fieldPath`.
- A rule is a transition rule only if its expression reads `oldSelf`; the word inside a string does not count.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.source_location import FieldPath, parse_field
from ssa_operator.schema.cel.field_names import unescaped
from ssa_operator.schema.field_errors import REASONS, ErrorType

_STRING = r"""[rR]?("(?:[^"\\]++|\\.)*+"?|'(?:[^'\\]++|\\.)*+'?)"""
_OLD = r"\boldSelf\b"
_OLD_FIELD = r"(?<![\w.])oldSelf((?:\.[A-Za-z_]\w*\b(?!\())+)"
_NAME = r"\bmetadata\.(?:name|generateName)\b"


class CELRule(Struct, frozen=True, kw_only=True):
    """One entry of `x-kubernetes-validations`."""

    at: FieldPath
    """The schema node that holds the rule."""
    expression: str
    """The CEL expression without its strings."""
    label: str
    """How messages about its failure begin: `Invalid value`, `Forbidden`, ..."""
    message: str
    """The rest of such messages."""
    has_message_expression: bool
    """Whether a `messageExpression` may replace the message."""

    @property
    def is_transition_rule(self) -> bool:
        """Whether it compares with the old object: it can fail for an update only, never for a new object."""
        return re.search(_OLD, self.expression) is not None

    @property
    def mentions_name(self) -> bool:
        return re.search(_NAME, self.expression) is not None

    @property
    def old_field(self) -> FieldPath:
        """The only field of the old object that it reads; () if it reads none, or several."""
        fields = set(re.findall(_OLD_FIELD, self.expression))
        return (*self.at, *_field_names(fields.pop())) if len(fields) == 1 else ()

    def matches(self, label: str, message: str) -> bool:
        """Whether a refusal with this label and message comes from this rule, even if the rule failed because it
        reads a field that is missing.
        """
        if self.label == "Duplicate value" == label:
            return True  # such a refusal has no message
        if message == self.message:
            return label == self.label
        return label == "Invalid value" and message.endswith(
            f" evaluating rule: {self.message.removeprefix(_FAILED_RULE)}"
        )


_FAILED_RULE = "failed rule: "


def _field_names(text: str) -> FieldPath:
    """The unescaped field names of `.a.b__dash__c`."""
    return tuple(unescaped(part) for part in text.split(".") if part)


def rules_at(schema: Mapping[str, Any], field: FieldPath) -> tuple[CELRule, ...]:
    """The rules of an openAPIV3Schema whose failure names this field; () is the whole object."""
    return tuple(rule for depth in range(len(field) + 1) for rule in _rules(schema, field, depth))


def _rules(schema: Mapping[str, Any], field: FieldPath, depth: int) -> Iterator[CELRule]:
    node = _schema_node(schema, field[:depth])
    for entry in node.get("x-kubernetes-validations") or () if node is not None else ():
        field_path = parse_field(str(entry.get("fieldPath") or "").removeprefix("."))
        if (*field[:depth], *field_path) == field:
            message = str(entry.get("message") or "").strip() or f"{_FAILED_RULE}{str(entry.get('rule')).strip()}"
            yield CELRule(
                at=field[:depth],
                expression=re.sub(_STRING, "''", str(entry.get("rule"))),
                label=str(REASONS.get(str(entry.get("reason")), ErrorType.INVALID)),
                message=message,
                has_message_expression=bool(entry.get("messageExpression")),
            )


def _schema_node(schema: Mapping[str, Any], path: FieldPath) -> Mapping[str, Any] | None:
    node: Any = schema
    for part in path:
        if not isinstance(node, Mapping):
            return None
        if isinstance(part, int):
            node = node.get("items")
        else:
            fields = node.get("properties") or {}
            node = fields[part] if part in fields else node.get("additionalProperties")
    return node if isinstance(node, Mapping) else None

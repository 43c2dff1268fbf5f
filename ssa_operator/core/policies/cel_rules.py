"""The validation rules of a CRD's schema, and which of them compare an object with what it was.

Promises:
- A rule is found by the field that the API server names when it fails, wherever in the schema it stands: at the field,
  or above it with a `fieldPath`.
- Only a rule that reads `oldSelf` compares; the word in a string does not count.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ssa_operator.core.objects.source_location import FieldPath, parse_field

_LABELS = {
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}
_STRING = re.compile(r"""[rR]?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_OLD = re.compile(r"\boldSelf\b")
_OLD_FIELD = re.compile(r"\boldSelf((?:\.[A-Za-z_]\w*\b(?!\())+)")
_NAME = re.compile(r"\bmetadata\.(?:name|generateName)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class CELRule:
    """One entry of `x-kubernetes-validations`.

    at: the schema node that it stands at. text: the CEL expression without its strings. label: how its refusals begin.
    words: what they say then. composes: whether a `messageExpression` may say something else.
    """

    at: FieldPath
    text: str
    label: str
    words: str
    composes: bool

    @property
    def compares(self) -> bool:
        """Whether it is a transition rule: it can only fail for a change, never for a new object."""
        return _OLD.search(self.text) is not None

    @property
    def mentions_name(self) -> bool:
        return _NAME.search(self.text) is not None

    @property
    def compared(self) -> FieldPath:
        """The one field of the old object that it reads, () where there is none or there are several."""
        fields = set(_OLD_FIELD.findall(self.text))
        return (*self.at, *_names(fields.pop())) if len(fields) == 1 else ()

    def fits(self, label: str, words: str) -> bool:
        """Whether a refusal with these words is this rule's; also one that failed on a field that isn't there."""
        if self.label == "Duplicate value" == label:
            return True  # such a refusal has no words
        if words == self.words:
            return label == self.label
        return label == "Invalid value" and words.endswith(f" evaluating rule: {self.words.removeprefix(_FAILED)}")


_FAILED = "failed rule: "

# Of what CEL can't have in a name; a word that it reserves stands as it is between the underscores.
_ESCAPED = re.compile(r"__(\w+?)__")
_ESCAPES = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


def _names(text: str) -> FieldPath:
    """`.a.b__dash__c` as the fields are called."""
    return tuple(_ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), part) for part in text.split(".") if part)


def rules_at(schema: Mapping[str, Any], field: FieldPath) -> tuple[CELRule, ...]:
    """The rules of an openAPIV3Schema whose failure is told of a field; () is the whole object."""
    return tuple(rule for depth in range(len(field) + 1) for rule in _rules(schema, field, depth))


def _rules(schema: Mapping[str, Any], field: FieldPath, depth: int) -> Iterator[CELRule]:
    node = _below(schema, field[:depth])
    for entry in node.get("x-kubernetes-validations") or () if node is not None else ():
        told = parse_field(str(entry.get("fieldPath") or "").removeprefix("."))
        if (*field[:depth], *told) == field:
            words = str(entry.get("message") or "").strip() or f"{_FAILED}{str(entry.get('rule')).strip()}"
            yield CELRule(
                at=field[:depth],
                text=_STRING.sub("''", str(entry.get("rule"))),
                label=_LABELS.get(str(entry.get("reason")), "Invalid value"),
                words=words,
                composes=bool(entry.get("messageExpression")),
            )


def _below(schema: Mapping[str, Any], path: FieldPath) -> Mapping[str, Any] | None:
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

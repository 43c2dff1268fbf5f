"""Whether the API server refused a change because a field is immutable.

Promises:
- A refusal counts only if its kind, field and message match a known one, or a transition rule of the CRD's schema.
  Tools that take every Invalid answer for an immutable field have cost their users data (fluxcd/flux2#3627).
- A refusal of a `metadata` field never counts: a uid that doesn't match is a failed precondition, and no reason to
  recreate an object.
- A value that contains the message of a refusal doesn't count as one.
- A failed rule is found by the field that the API server names, whether the rule is at that field, or above it with a
  `fieldPath`.
- A rule is a transition rule only if its expression reads `oldSelf`; the word inside a string does not count.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_schema import RULES, schema_at
from ssa_operator.objects.source_location import FieldPath, field_text, first_difference, parse_field, value_at
from ssa_operator.schema.cel.field_names import unescaped
from ssa_operator.schema.field_errors import REASONS, ErrorType

ROOT = "<nil>"
"""The field of a refusal of the whole object, as the API server spells it."""


_GENERAL = (
    "field is immutable",
    # Declarative validation (KEP-5073): k8s.io/apimachinery/pkg/api/validate/update.go.
    "field cannot be set once created",
    "field cannot be cleared once set",
    "field cannot be modified once set",
)
"""Kubernetes' messages about immutable fields of any of its own kinds (apimachinery/pkg/api/validation)."""

_IMMUTABLE_DATA = (
    ("data", "field is immutable when `immutable` is set"),
    ("binaryData", "field is immutable when `immutable` is set"),
    ("immutable", "field is immutable when `immutable` is set"),
)
_ROLE = (("roleRef", "cannot change roleRef"),)

# Field and message of kinds with messages of their own, from the validation of Kubernetes 1.36 (pkg/apis/*/validation)
# or of an earlier version.
_MESSAGES: Mapping[GroupKind, Sequence[tuple[str, str]]] = {
    GroupKind("", "ConfigMap"): _IMMUTABLE_DATA,
    GroupKind("", "PersistentVolume"): (("spec.persistentvolumesource", "spec.persistentvolumesource is immutable"),),
    GroupKind("", "PersistentVolumeClaim"): (("spec", "spec is immutable after creation"),),
    GroupKind("", "Pod"): (
        ("spec", "pod updates may not change fields other than"),
        ("spec.containers", "pod updates may not add or remove containers"),
        ("spec.initContainers", "pod updates may not add or remove containers"),
        ("spec.tolerations", "existing toleration can not be modified"),
    ),
    GroupKind("", "Secret"): (("type", "field is immutable"), *_IMMUTABLE_DATA),
    GroupKind("", "Service"): (
        ("spec.clusterIPs", "may not change once set"),
        ("spec.ipFamilies", "may not change once set"),
        ("spec.loadBalancerClass", "may not change once set"),
    ),
    GroupKind("apps", "StatefulSet"): (("spec", "updates to statefulset spec for fields other than"),),
    # It can change together with spec.parallelism only.
    GroupKind("batch", "Job"): (("spec.completions", "can only be modified in tandem with spec.parallelism"),),
    GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"): _ROLE,
    GroupKind("rbac.authorization.k8s.io", "RoleBinding"): _ROLE,
    GroupKind("scheduling.k8s.io", "PriorityClass"): (("value", "may not be changed in an update"),),
    GroupKind("storage.k8s.io", "StorageClass"): (
        ("provisioner", "updates to provisioner are forbidden"),
        ("parameters", "updates to parameters are forbidden"),
        ("reclaimPolicy", "updates to reclaimPolicy are forbidden"),
    ),
    GroupKind("storage.k8s.io", "VolumeAttributesClass"): (
        ("driverName", "updates to driverName are forbidden"),
        ("parameters", "updates to parameters are forbidden"),
    ),
}

# Kinds to which _GENERAL doesn't apply, because the names of their fields are users' data.
_ONLY_OWN_MESSAGES = frozenset({GroupKind("", "ConfigMap"), GroupKind("", "Secret")})

# Fields of a refused `spec` that may change: the refusal is not about them.
_MUTABLE: Mapping[GroupKind, frozenset[str]] = {
    GroupKind("", "PersistentVolumeClaim"): frozenset({"resources", "volumeAttributesClassName"}),
    GroupKind("apps", "StatefulSet"): frozenset(
        {
            "minReadySeconds",
            "ordinals",
            "persistentVolumeClaimRetentionPolicy",
            "replicas",
            "revisionHistoryLimit",
            "template",
            "updateStrategy",
        }
    ),
}


def immutable_fields(
    kind: GroupKind, refusals: Sequence[FieldRefusal], schema: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """The immutable fields among the refusals, () if the API server refused for other reasons.

    `refusals` are the causes of an Invalid (422) answer. `schema` is the openAPIV3Schema of a custom resource: there a
    field is immutable if a transition rule failed
    (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#transition-rules).
    Without a schema, or if none of its rules matches (an admission webhook refused), the message must contain
    "immutable".
    """
    found = []
    for refusal in refusals:
        if not refusal.field or refusal.field.startswith(("metadata", "status")):
            continue
        if schema is not None:
            field = _immutable_by_rule(refusal, schema)
        elif _is_custom(kind):
            field = refusal.field if _mentions_immutable(refusal) else None
        else:
            field = refusal.field if _immutable_by_kubernetes(kind, refusal) else None
        if field:
            found.append(field)
    return tuple(dict.fromkeys(found))


def changed_field(kind: GroupKind, fields: Sequence[str], wanted: Mapping[str, Any], live: Mapping[str, Any]) -> str:
    """The first field at or below refused ones in which the manifest differs from the live object.

    If there is no difference, for example because the manifest no longer has the field, the first refused field itself.
    """
    for field in fields:
        path = parse_field(spelled(field), wanted)
        mutable = mutable_fields(kind, path)
        if changed := first_difference(value_at(wanted, path), value_at(live, path), path, mutable):
            return field_text(changed)
    path = parse_field(spelled(fields[0]), wanted)
    return field_text(path) if value_at(wanted, path) is not None else fields[0]


def mutable_fields(kind: GroupKind, path: FieldPath) -> frozenset[str]:
    """The fields of a mapping that may change although the API server refuses a change of the mapping."""
    return _MUTABLE.get(kind, frozenset()) if path == ("spec",) else frozenset()


def spelled(field: str) -> str:
    """A field of the API server's message as manifests write it."""
    return _SPELLINGS.get(field, field)


# Fields that the API server spells differently from manifests.
_SPELLINGS = {
    "spec.attachedRequired": "spec.attachRequired",
    "spec.clusterIPs[0]": "spec.clusterIP",
    "spec.persistentvolumesource": "spec",
    "volumeMode": "spec.volumeMode",
}


def is_about_name(refusal: FieldRefusal, name: str, schema: Mapping[str, Any] | None) -> bool:
    """Whether the API server refused an object for its name alone."""
    if refusal.field == "metadata.name" or name in refusal.message:
        return True
    failed = _failed_rules(refusal, schema) if schema is not None else ()
    return bool(failed) and all(rule.mentions_name for rule in failed)


def _immutable_by_kubernetes(kind: GroupKind, refusal: FieldRefusal) -> bool:
    for field, message in _MESSAGES.get(kind, ()):
        if _is_within(refusal.field, field) and refusal.has_detail(message):
            return True
    if kind in _ONLY_OWN_MESSAGES or refusal.field == ROOT:
        return False
    return any(refusal.has_detail(message) for message in _GENERAL)


def _immutable_by_rule(refusal: FieldRefusal, schema: Mapping[str, Any]) -> str | None:
    rules = _failed_rules(refusal, schema)
    if not rules:
        return refusal.field if _mentions_immutable(refusal) else None
    if not all(rule.is_transition_rule for rule in rules):
        return None
    paths = {rule.old_field for rule in rules}
    if len(paths) == 1 and (path := paths.pop()):
        return field_text(path)
    return "spec" if refusal.field == ROOT else refusal.field


def _failed_rules(refusal: FieldRefusal, schema: Mapping[str, Any]) -> Sequence[CELRule]:
    """The rules that may have failed: those with this message, otherwise those with a `messageExpression`."""
    _, _, rest = refusal.message.partition(": ")
    if refusal.label == "Unsupported value" or " in body " in rest or not rest:
        return ()
    rules = rules_at(schema, () if refusal.field == ROOT else parse_field(refusal.field))
    messages = {rest, refusal.detail}
    exact = [rule for rule in rules if any(rule.matches(refusal.label, message) for message in messages)]
    return exact or [rule for rule in rules if rule.has_message_expression and rule.label == refusal.label]


def _mentions_immutable(refusal: FieldRefusal) -> bool:
    if refusal.field == ROOT or refusal.label not in ("Invalid value", "Forbidden") or " in body " in refusal.message:
        return False
    return re.search(r"\bimmutable\b", refusal.detail, re.IGNORECASE) is not None


def _is_within(field: str, outer: str) -> bool:
    return field == outer or field.startswith((f"{outer}.", f"{outer}["))


def _is_custom(kind: GroupKind) -> bool:
    """Whether a kind without a known CRD is not built in: built-in groups have no dot, or end in k8s.io."""
    return "." in kind.group and not kind.group.endswith(".k8s.io")


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
    node = schema_at(schema, field[:depth])
    for entry in node.get(RULES) or () if node is not None else ():
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

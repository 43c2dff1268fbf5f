"""Whether the API server refused a change because a field can't change.

Promises:
- The classifier is narrow: a kind, a field and the API server's words have to fit, or a rule of the CRD's schema that
  compares with the old object. Calling every invalid change an immutable one has cost users of other tools their data
  (fluxcd/flux2#3627).
- `metadata` never counts: a uid that doesn't fit is a precondition that failed, not a reason to make anything anew.
- A value that contains the words of a refusal is not taken for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.source_location import FieldPath, field_text, parse_field
from ssa_operator.core.policies.cel_rules import CELRule, rules_at

ROOT = "<nil>"
"""The field of a refusal that speaks of the whole object, as the API server spells it."""


@dataclass(frozen=True, slots=True)
class FieldRefusal:
    """One cause of an Invalid answer: the field as the API server spells it, and its words."""

    field: str
    message: str

    @property
    def label(self) -> str:
        """`Invalid value`, `Forbidden`, …"""
        return self.message.partition(": ")[0]

    @property
    def detail(self) -> str:
        """The words without the label and the quoted value (k8s.io/apimachinery/pkg/util/validation/field)."""
        _, _, rest = self.message.partition(": ")
        if self.label not in _QUOTING:
            return rest
        end = _value_end(rest)
        return rest[end + 2 :] if rest.startswith(": ", end) else rest

    def says(self, words: str) -> bool:
        """Whether the detail is these words; those of a Forbidden may go on, as with the difference that was found.

        Older servers quote a value in Go's syntax, which is not understood: then the detail has to end in the words.
        """
        detail = self.detail
        if self.label == "Forbidden":
            return detail.startswith(words)
        return detail == words or detail.endswith(f": {words}")


_QUOTING = frozenset({"Invalid value", "Unsupported value", "Duplicate value", "Not found", "Too many"})
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\w.+-]*|true|false|null')


def _value_end(text: str) -> int:
    if text[:1] in ("{", "["):
        try:
            return json.JSONDecoder().raw_decode(text)[1]
        except ValueError:
            return 0
    found = _SCALAR.match(text)
    return found.end() if found else 0


_GENERAL = (
    "field is immutable",
    # Declarative validation (KEP-5073): k8s.io/apimachinery/pkg/api/validate/update.go.
    "field cannot be set once created",
    "field cannot be cleared once set",
    "field cannot be modified once set",
)
"""What Kubernetes says of its own kinds' immutable fields (apimachinery/pkg/api/validation), whatever the kind."""

_FROZEN_DATA = (
    ("data", "field is immutable when `immutable` is set"),
    ("binaryData", "field is immutable when `immutable` is set"),
    ("immutable", "field is immutable when `immutable` is set"),
)
_ROLE = (("roleRef", "cannot change roleRef"),)

# Field and words of the kinds that say it in their own way, as the validation of Kubernetes 1.36 has them
# (pkg/apis/*/validation), or that of an earlier version.
_RULES: Mapping[GroupKind, Sequence[tuple[str, str]]] = {
    GroupKind("", "ConfigMap"): _FROZEN_DATA,
    GroupKind("", "PersistentVolume"): (("spec.persistentvolumesource", "spec.persistentvolumesource is immutable"),),
    GroupKind("", "PersistentVolumeClaim"): (("spec", "spec is immutable after creation"),),
    GroupKind("", "Pod"): (
        ("spec", "pod updates may not change fields other than"),
        ("spec.containers", "pod updates may not add or remove containers"),
        ("spec.initContainers", "pod updates may not add or remove containers"),
        ("spec.tolerations", "existing toleration can not be modified"),
    ),
    GroupKind("", "Secret"): (("type", "field is immutable"), *_FROZEN_DATA),
    GroupKind("", "Service"): (
        ("spec.clusterIPs", "may not change once set"),
        ("spec.ipFamilies", "may not change once set"),
        ("spec.loadBalancerClass", "may not change once set"),
    ),
    GroupKind("apps", "StatefulSet"): (("spec", "updates to statefulset spec for fields other than"),),
    # With a parallelism of the same number it could change.
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

# The names of their fields are users' data.
_ONLY_THEIR_RULES = frozenset({GroupKind("", "ConfigMap"), GroupKind("", "Secret")})

# What of a refused `spec` may change all the same: not the field that the refusal is about.
_CHANGEABLE: Mapping[GroupKind, frozenset[str]] = {
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


def immutable_field(kind: GroupKind, refusals: Sequence[FieldRefusal], schema: Mapping[str, Any] | None = None) -> str:
    """The first field that can't change, '' where the refusal has another reason.

    `refusals` are the causes of an Invalid (422) answer. `schema` is the openAPIV3Schema of a custom resource: there a
    field can't change where a rule that mentions `oldSelf` failed
    (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#transition-rules).
    Where no rule of the schema fits, as with an admission webhook, or the schema is not known, the words must say
    "immutable".
    """
    for refusal in refusals:
        if not refusal.field or refusal.field.startswith(("metadata", "status")):
            continue
        if schema is not None:
            field = _frozen_by_rule(refusal, schema)
        elif _is_custom(kind):
            field = refusal.field if _says_immutable(refusal) else ""
        else:
            field = refusal.field if _frozen_by_kubernetes(kind, refusal) else ""
        if field:
            return field
    return ""


def changed_field(kind: GroupKind, field: str, wanted: Mapping[str, Any], live: Mapping[str, Any]) -> str:
    """The first field at or below a refused one in which the manifest differs from the live object.

    The refused field itself where they can't be told apart, as when the manifest left something out.
    """
    path = parse_field(_written_as(field), wanted)
    apart = _CHANGEABLE.get(kind, frozenset()) if path == ("spec",) else frozenset()
    found = _difference(_at(wanted, path), _at(live, path), path, apart)
    if found:
        return field_text(found)
    return field_text(path) if _at(wanted, path) is not None else field


# Fields that the API server names otherwise than they are written.
_SPELLINGS = {
    "spec.attachedRequired": "spec.attachRequired",
    "spec.clusterIPs[0]": "spec.clusterIP",
    "spec.persistentvolumesource": "spec",
    "volumeMode": "spec.volumeMode",
}


def _written_as(field: str) -> str:
    return _SPELLINGS.get(field, field)


def is_about_name(refusal: FieldRefusal, name: str, schema: Mapping[str, Any] | None) -> bool:
    """Whether an object was refused for its name: nothing else about it is said to be wrong."""
    if refusal.field == "metadata.name" or name in refusal.message:
        return True
    failed = _failed_rules(refusal, schema) if schema is not None else ()
    return bool(failed) and all(rule.mentions_name for rule in failed)


def _frozen_by_kubernetes(kind: GroupKind, refusal: FieldRefusal) -> bool:
    for location, words in _RULES.get(kind, ()):
        if _within(refusal.field, location) and refusal.says(words):
            return True
    if kind in _ONLY_THEIR_RULES or refusal.field == ROOT:
        return False
    return any(refusal.says(words) for words in _GENERAL)


def _frozen_by_rule(refusal: FieldRefusal, schema: Mapping[str, Any]) -> str:
    rules = _failed_rules(refusal, schema)
    if not rules:
        return refusal.field if _says_immutable(refusal) else ""
    if not all(rule.compares for rule in rules):
        return ""
    paths = {rule.compared for rule in rules}
    if len(paths) == 1 and (path := paths.pop()):
        return field_text(path)
    return "spec" if refusal.field == ROOT else refusal.field


def _failed_rules(refusal: FieldRefusal, schema: Mapping[str, Any]) -> Sequence[CELRule]:
    """The rules that may have said this: those with these very words, else those that compose their words."""
    _, _, rest = refusal.message.partition(": ")
    if refusal.label == "Unsupported value" or " in body " in rest or not rest:
        return ()
    rules = rules_at(schema, () if refusal.field == ROOT else parse_field(refusal.field))
    said = {rest, refusal.detail}
    exact = [rule for rule in rules if any(rule.fits(refusal.label, words) for words in said)]
    return exact or [rule for rule in rules if rule.composes and rule.label == refusal.label]


def _says_immutable(refusal: FieldRefusal) -> bool:
    if refusal.field == ROOT or refusal.label not in ("Invalid value", "Forbidden") or " in body " in refusal.message:
        return False
    return re.search(r"\bimmutable\b", refusal.detail, re.IGNORECASE) is not None


def _within(field: str, location: str) -> bool:
    return field == location or field.startswith((f"{location}.", f"{location}["))


def _is_custom(kind: GroupKind) -> bool:
    """Whether a kind without a known CRD is none of Kubernetes' own: its groups have no dot or end in k8s.io."""
    return "." in kind.group and not kind.group.endswith(".k8s.io")


def _at(value: Any, path: FieldPath) -> Any:
    for part in path:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _difference(wanted: Any, live: Any, path: FieldPath, apart: frozenset[str]) -> FieldPath | None:
    if wanted is None:
        return None
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        found = (
            _difference(value, live.get(key), (*path, key), frozenset())
            for key, value in wanted.items()
            if key not in apart
        )
    elif isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        pairs = enumerate(zip(wanted, live, strict=True))
        found = (_difference(left, right, (*path, at), frozenset()) for at, (left, right) in pairs)
    else:
        return None if wanted == live else path
    return next((field for field in found if field is not None), None)

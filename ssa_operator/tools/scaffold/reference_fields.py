"""Which fields of manifests name other objects.

Promises:
- In a built-in kind the types of Kubernetes' schema say which object a field names, and which fields are free text.
- In a custom kind the name of a field says the kind of object; all other texts are free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.json_schema import Schema
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.schema_rules import bundled_schemas

_SECRET, _CONFIG_MAP, _SERVICE, _CLAIM = "Secret", "ConfigMap", "Service", "PersistentVolumeClaim"
_BY_KIND = ""
"""Stands for the kind that the field `kind` beside the name has."""

_OF_TYPES: Mapping[str, Mapping[str, str]] = {
    "AzureFilePersistentVolumeSource": {"secretName": _SECRET},
    "AzureFileVolumeSource": {"secretName": _SECRET},
    "ConfigMapEnvSource": {"name": _CONFIG_MAP},
    "ConfigMapKeySelector": {"name": _CONFIG_MAP},
    "ConfigMapProjection": {"name": _CONFIG_MAP},
    "ConfigMapVolumeSource": {"name": _CONFIG_MAP},
    "IngressServiceBackend": {"name": _SERVICE},
    "IngressSpec": {"ingressClassName": "IngressClass"},
    "IngressTLS": {"secretName": _SECRET},
    "LocalObjectReference": {"name": _SECRET},
    "MutatingAdmissionPolicyBindingSpec": {"policyName": "MutatingAdmissionPolicy"},
    "ObjectReference": {"name": _BY_KIND},
    "PersistentVolumeClaimSpec": {
        "storageClassName": "StorageClass",
        "volumeAttributesClassName": "VolumeAttributesClass",
        "volumeName": "PersistentVolume",
    },
    "PersistentVolumeClaimVolumeSource": {"claimName": _CLAIM},
    "PersistentVolumeSpec": {
        "storageClassName": "StorageClass",
        "volumeAttributesClassName": "VolumeAttributesClass",
    },
    "PodResourceClaim": {"resourceClaimName": "ResourceClaim", "resourceClaimTemplateName": "ResourceClaimTemplate"},
    "PodSpec": {
        "priorityClassName": "PriorityClass",
        "runtimeClassName": "RuntimeClass",
        "serviceAccount": "ServiceAccount",
        "serviceAccountName": "ServiceAccount",
        "subdomain": _SERVICE,
    },
    "RoleRef": {"name": _BY_KIND},
    "SecretEnvSource": {"name": _SECRET},
    "SecretKeySelector": {"name": _SECRET},
    "SecretProjection": {"name": _SECRET},
    "SecretReference": {"name": _SECRET},
    "SecretVolumeSource": {"secretName": _SECRET},
    "ServiceAccountSubject": {"name": "ServiceAccount"},
    "StatefulSetSpec": {"serviceName": _SERVICE},
    "TypedLocalObjectReference": {"name": _BY_KIND},
    "TypedObjectReference": {"name": _BY_KIND},
    "IngressClassParametersReference": {"name": _BY_KIND},
    "ValidatingAdmissionPolicyBindingSpec": {"policyName": "ValidatingAdmissionPolicy"},
    "admissionregistration.v1.ServiceReference": {"name": _SERVICE},
    "apiextensions.v1.ServiceReference": {"name": _SERVICE},
    "apiregistration.v1.ServiceReference": {"name": _SERVICE},
    "rbac.v1.Subject": {"name": _BY_KIND},
    "v1.CrossVersionObjectReference": {"name": _BY_KIND},
    "v2.CrossVersionObjectReference": {"name": _BY_KIND},
}
_FREE: Mapping[str, tuple[str, ...]] = {
    "Container": ("args", "command"),
    "EnvVar": ("value",),
    "ExecAction": ("command",),
    "HTTPGetAction": ("host",),
    "HTTPHeader": ("value",),
    "HostPathVolumeSource": ("path",),
    "ObjectMeta": ("annotations",),
    "PodSpec": ("hostname", "schedulerName"),
    "rbac.v1.Subject": ("name",),
    "ServiceSpec": ("externalName",),
    "WebhookClientConfig": ("url",),
    "admissionregistration.v1.WebhookClientConfig": ("url",),
}
"""Fields of types whose texts may have any names in them."""

_FREE_ROOTS = ("data", "parameters")
"""Fields of objects whose texts may have any names in them: of ConfigMaps and storage classes."""

_OF_FIELDS: Mapping[str, str] = {
    "claimName": _CLAIM,
    "configMap": _CONFIG_MAP,
    "configMapKeyRef": _CONFIG_MAP,
    "configMapName": _CONFIG_MAP,
    "configMapRef": _CONFIG_MAP,
    "imagePullSecrets": _SECRET,
    "ingressClassName": "IngressClass",
    "priorityClassName": "PriorityClass",
    "secret": _SECRET,
    "secretKeyRef": _SECRET,
    "secretName": _SECRET,
    "secretRef": _SECRET,
    "service": _SERVICE,
    "serviceAccount": "ServiceAccount",
    "serviceAccountName": "ServiceAccount",
    "serviceName": _SERVICE,
    "storageClassName": "StorageClass",
}
"""The kind that a field of a custom kind names, by itself or by the `name` in it."""

_NEVER_FREE = frozenset({"apiVersion", "image", "kind"})


class FieldPlace(Struct, frozen=True):
    """Where a value is: its type in a built-in kind, or the fields that lead to it in a custom kind."""

    schema: Schema | None
    """None in a custom kind, and in free text."""
    custom: bool = False
    free: bool = False
    """Whether any text may have any names in it."""
    field: str = ""
    """The field that holds the value, or the list with it."""

    def below(self, key: str) -> FieldPlace:
        """The place of a field."""
        if self.custom:
            return FieldPlace(None, custom=True, free=key not in _NEVER_FREE, field=key)
        if self.schema is None:
            return FieldPlace(None, free=self.free, field=key)
        below = _schemas().part_schema(self.schema, key)
        free = self.free or key in _FREE.get(_type(self.schema), ()) or (self.field == "" and key in _FREE_ROOTS)
        return FieldPlace(below, free=free, field=key)

    def item(self) -> FieldPlace:
        """The place of an item of a list."""
        if self.custom or self.schema is None:
            return self
        return FieldPlace(_schemas().part_schema(self.schema, 0), free=self.free, field=self.field)

    def kind_named_by(self, key: str, holder: Mapping[str, Any]) -> str | None:
        """The kind of object that a field names, None if it names none; `holder` is the mapping with the field."""
        if self.custom:
            kind = holder.get("kind") if key == "name" else None
            named = _OF_FIELDS.get(self.field) if key == "name" else _OF_FIELDS.get(key)
            return kind if isinstance(kind, str) else named
        kind = _OF_TYPES.get(_type(self.schema or {}), {}).get(key)
        if kind != _BY_KIND:
            return kind
        beside = holder.get("kind")
        return beside if isinstance(beside, str) else _SECRET if self.field == "secrets" else None


def place_of(body: Mapping[str, Any]) -> FieldPlace:
    """The place of a whole manifest."""
    schema = _schemas().schema(body["apiVersion"], body["kind"])
    return FieldPlace(schema, custom=schema is None)


def metadata_place() -> FieldPlace:
    """The place of the metadata of any manifest."""
    return FieldPlace({"$ref": "ObjectMeta"}, field="metadata")


def _schemas() -> KubernetesSchemas:
    return bundled_schemas(KUBERNETES_VERSION)


def _type(schema: Schema) -> str:
    return str(schema.get("$ref", ""))

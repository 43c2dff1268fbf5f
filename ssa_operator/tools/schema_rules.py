"""Rules about manifests by the schemas of their kinds, and these schemas for a version of Kubernetes.

Promises:
- An unknown field, a wrong type, a text that is no quantity, a value that isn't allowed, a missing field, and what no
  apply takes in a list of type map or set are found, each with the template line of the field.
- A required field that is written wrongly is one finding: the name that it should have is not missing, too.
- A kind without a schema is no finding, unless its API group is known completely.
- A null field is no value, because the operator removes it before an apply. A null item of a list map is found.
- `status` is not checked.
- No finding shows a value of a Secret, or of a manifest that reads one.
- A version needs no cluster. A version that the package doesn't include is an error that names the included ones.
- A field of an object that holds a value of a wrong type is an error with file and line.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.identity import is_built_in, split_api_version
from ssa_operator.objects.json_schema import PRESERVED, Schema, fields
from ssa_operator.objects.messages import did_you_mean, near_names
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.scalars import amount
from ssa_operator.objects.source_location import FieldPath, field_text
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.values.manifest_values import kind_of
from ssa_operator.schema.kubernetes_schemas import QUANTITY, KubernetesSchemas, has_type, schemas_from_openapi
from ssa_operator.tools.findings import Code, Edit, Finding, shows_values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ssa_operator.objects.render_result import Document
    from ssa_operator.operator.process.connection import Target

CLUSTER = "cluster"
"""Stands for the current cluster in place of a version."""

DATA = "ssa_operator.schema.data"


def target_schemas(version: str, *, kubeconfig: str | None, context: str | None) -> KubernetesSchemas:
    """The schemas of a version, or of the current cluster. Raises CommandError."""
    if version == CLUSTER:
        from ssa_operator.operator.process import connection
        from ssa_operator.tools.command_target import cluster_target

        return connection.run(read_cluster_schemas(cluster_target(kubeconfig, context)))
    return bundled_schemas(version.removeprefix("v"))


@cache
def bundled_schemas(version: str) -> KubernetesSchemas:
    """The schemas of a version that come with the package. Raises CommandError."""
    files = {found[1]: each for each in resources.files(DATA).iterdir() if (found := _FILE.fullmatch(each.name))}
    if version not in files:
        known = ", ".join(sorted(files))
        message = f"--kubernetes is {version}; the schemas of {known} come with ssa-operator"
        raise CommandError(f"{message}, and {CLUSTER} reads those of the current cluster", code=2)
    return msgspec.json.decode(gzip.decompress(files[version].read_bytes()), type=KubernetesSchemas)


def refuse_invalid_values(documents: Iterable[Document]) -> None:
    """Raises CommandError with every field of objects whose value no Kubernetes allows, for example a text in place of
    a mapping. Kinds without a schema pass.
    """
    findings = check_schemas(documents, bundled_schemas(KUBERNETES_VERSION))
    wrong = [f"{finding.location}: {finding.text}" for finding in findings if finding.code == INVALID_VALUE]
    if wrong:
        raise CommandError("\n".join(dict.fromkeys(wrong)))


_FILE = re.compile(r"kubernetes-(\d+\.\d+)\.json\.gz")


def encoded(schemas: KubernetesSchemas) -> bytes:
    """The content of a file for `bundled_schemas`; equal schemas give equal content."""
    return gzip.compress(msgspec.json.encode(schemas), 9, mtime=0)


async def read_cluster_schemas(target: Target) -> KubernetesSchemas:
    """The schemas of a cluster, custom resources included. Raises CommandError and ApiError."""
    from ssa_operator.kube.api.openapi import read_openapi
    from ssa_operator.operator.process import connection

    async with connection.connect(target) as client:
        version, documents = await read_openapi(client)
    return schemas_from_openapi(version, documents)


_UNITS = re.compile(r"(?P<number>[\d.]+)\s*(?P<prefix>[KMGTP])i?b?", re.ASCII | re.IGNORECASE)
"""A number with a unit that other programs take: 16MB, 16 Mi, 2gb."""

_PREFIXES = {"K": "k"}
"""The decimal prefix of a quantity where it is another one than that of the binary one."""

_ZERO_ALLOWED = frozenset(
    {
        ("CustomResourceDefinitionVersion", "served"),
        ("ForZone", "name"),
        ("HTTPHeader", "value"),
        ("LimitRangeSpec", "limits"),
        ("PodFailurePolicy", "rules"),
        ("PreferredSchedulingTerm", "preference"),
        ("ScaleIOVolumeSource", "secretRef"),
        ("SleepAction", "seconds"),
        ("Sysctl", "value"),
        ("TypedLocalObjectReference", "kind"),
        ("TypedLocalObjectReference", "name"),
    }
)
"""Required fields that the API server takes as empty if they are missing."""

_REMOVED: Mapping[tuple[str, str], tuple[str, str]] = {
    (api_version, kind): (version, instead)
    for api_version, version, instead, kinds in (
        ("admissionregistration.k8s.io/v1beta1", "1.22", "admissionregistration.k8s.io/v1",
         "MutatingWebhookConfiguration ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io/v1beta1", "1.22", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("apiregistration.k8s.io/v1beta1", "1.22", "apiregistration.k8s.io/v1", "APIService"),
        ("apps/v1beta1", "1.16", "apps/v1", "Deployment StatefulSet"),
        ("apps/v1beta2", "1.16", "apps/v1", "DaemonSet Deployment ReplicaSet StatefulSet"),
        ("autoscaling/v2beta1", "1.25", "autoscaling/v2", "HorizontalPodAutoscaler"),
        ("autoscaling/v2beta2", "1.26", "autoscaling/v2", "HorizontalPodAutoscaler"),
        ("batch/v1beta1", "1.25", "batch/v1", "CronJob"),
        ("batch/v2alpha1", "1.21", "batch/v1", "CronJob"),
        ("certificates.k8s.io/v1beta1", "1.22", "certificates.k8s.io/v1", "CertificateSigningRequest"),
        ("coordination.k8s.io/v1beta1", "1.22", "coordination.k8s.io/v1", "Lease"),
        ("discovery.k8s.io/v1beta1", "1.25", "discovery.k8s.io/v1", "EndpointSlice"),
        ("events.k8s.io/v1beta1", "1.25", "events.k8s.io/v1", "Event"),
        ("extensions/v1beta1", "1.16", "apps/v1", "DaemonSet Deployment ReplicaSet"),
        ("extensions/v1beta1", "1.16", "networking.k8s.io/v1", "NetworkPolicy"),
        ("extensions/v1beta1", "1.22", "networking.k8s.io/v1", "Ingress"),
        ("flowcontrol.apiserver.k8s.io/v1beta1", "1.26", "flowcontrol.apiserver.k8s.io/v1",
         "FlowSchema PriorityLevelConfiguration"),
        ("flowcontrol.apiserver.k8s.io/v1beta2", "1.29", "flowcontrol.apiserver.k8s.io/v1",
         "FlowSchema PriorityLevelConfiguration"),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "1.32", "flowcontrol.apiserver.k8s.io/v1",
         "FlowSchema PriorityLevelConfiguration"),
        ("networking.k8s.io/v1beta1", "1.22", "networking.k8s.io/v1", "Ingress IngressClass"),
        ("node.k8s.io/v1beta1", "1.25", "node.k8s.io/v1", "RuntimeClass"),
        ("policy/v1beta1", "1.25", "policy/v1", "PodDisruptionBudget"),
        ("policy/v1beta1", "1.25", "", "PodSecurityPolicy"),
        ("rbac.authorization.k8s.io/v1beta1", "1.22", "rbac.authorization.k8s.io/v1",
         "ClusterRole ClusterRoleBinding Role RoleBinding"),
        ("scheduling.k8s.io/v1beta1", "1.22", "scheduling.k8s.io/v1", "PriorityClass"),
        ("storage.k8s.io/v1beta1", "1.22", "storage.k8s.io/v1", "CSIDriver CSINode StorageClass VolumeAttachment"),
        ("storage.k8s.io/v1beta1", "1.27", "storage.k8s.io/v1", "CSIStorageCapacity"),
    )
    for kind in kinds.split()
}  # fmt: skip
"""The apiVersions of kinds that Kubernetes removed, each with the release and the apiVersion that replaces it.

https://kubernetes.io/docs/reference/using-api/deprecation-guide/
"""


_OR_OTHERS = ("JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool")


def _of_schema(schema: Schema, value: Any) -> Schema:
    """The schema of a mapping that `items` and the like of a CRD's schema have: it is a schema itself."""
    name = schema.get("$ref", "")
    return {"$ref": name.rpartition("Or")[0]} if isinstance(value, Mapping) and name.endswith(_OR_OTHERS) else schema


_FOREIGN_SPACE = re.compile("[\u00a0\u2000-\u200f\u202f\u2060\u3000\ufeff]")
_WITH_UNIT = re.compile(r"[0-9]+(?:ms|s|m|h|d)")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


UNKNOWN_KIND = Code.error(
    "unknown-kind",
    "a kind that neither Kubernetes nor a CRD has",
    "The targeted version of Kubernetes serves no such kind, or removed this apiVersion of it. The operator "
    "reports it in the status of the parent, and applies the other manifests. Kinds of other groups are known "
    "by their CRDs in crds/. With --kubernetes cluster the kinds are those of the cluster. A template folder "
    "is called <plural>.<group>, as its CRD is. The operator waits for a CRD of the folder's name, and never "
    "renders a folder without one.",
    replaces="unknown-resource",
)

UNKNOWN_FIELD = Code.error(
    "unknown-field",
    "a field that the kind doesn't have",
    "The operator applies with strict validation, and the API server refuses the whole manifest. Correct the "
    "name or the indentation. check --fix corrects a name that differs in upper and lower case only.",
)

INVALID_VALUE = Code.error(
    "invalid-value",
    "a value of a wrong type, or one that isn't allowed",
    "The schema of the kind wants another type, or lists the values of the field, and the API server refuses "
    "the manifest. A value in quotes is a string: write `key: {{ value }}` to keep its type.",
)

INVALID_QUANTITY = Code.error(
    "invalid-quantity",
    "a quantity that the API server refuses",
    "A quantity is a number with k, M, G for thousands, or Ki, Mi, Gi for 1024s, and m for thousandths: 500m, "
    "2, 16Mi. The API server refuses 16MB and 16 Mi.",
)

MISSING_FIELD = Code.error(
    "missing-field",
    "a required field that is missing",
    "The kind requires the field, and the API server refuses the manifest without it.",
)

DUPLICATE_ITEM = Code.error(
    "duplicate-item",
    "two items of a list with the same key",
    "The list is a map by a key such as the name of a container. The API server refuses a server-side apply "
    "with two items of one key.",
)

DEPRECATED = Code.warning(
    "deprecated",
    "a deprecated kind or field",
    "The API description of Kubernetes, or the CRD, calls the kind or field deprecated. It works, and a later "
    "version may remove it.",
)


def check_schemas(documents: Iterable[Document], schemas: KubernetesSchemas) -> list[Finding]:
    """The findings in manifests by the schemas of their kinds."""
    return [finding for document in documents for finding in _check(document, schemas)]


def _check(document: Document, schemas: KubernetesSchemas) -> Iterator[Finding]:
    walk = _SchemaWalk(document, schemas)
    schema = schemas.schema(document.body["apiVersion"], document.body["kind"])
    if schema is None:
        yield from walk.unknown_kind()
        return
    if schema.get("deprecated"):
        which = f"{document.body['apiVersion']} {document.body['kind']} is deprecated"
        yield walk.finding(DEPRECATED, ("kind",), which)
    yield from walk.value(document.body, schema, ())


class _SchemaWalk:
    """The walk through one manifest."""

    def __init__(self, document: Document, schemas: KubernetesSchemas) -> None:
        self._document = document
        self._schemas = schemas
        self._built_in = is_built_in(split_api_version(document.body["apiVersion"])[0])
        self._shows_values = shows_values(document)

    def finding(
        self, code: Code, path: FieldPath, message: str, fix: str = "", edits: tuple[Edit, ...] = ()
    ) -> Finding:
        body = self._document.body
        return Finding(
            code=code,
            message=message,
            location=self._document.location_of(path),
            fix=fix,
            edits=edits,
            subject=f"{body['kind']} {body['metadata']['name']}",
            path=path,
        )

    def unknown_kind(self) -> Iterator[Finding]:
        api_version, kind = self._document.body["apiVersion"], self._document.body["kind"]
        where = "the cluster" if self._schemas.complete else f"Kubernetes {self._schemas.version}"
        message = f"{where} has no {kind} in {api_version} that can be applied"
        removed = _REMOVED.get((api_version, kind))
        if removed is not None:
            message += f"; Kubernetes {removed[0]} removed it"
            yield self.finding(UNKNOWN_KIND, ("apiVersion",), message, f"write {removed[1]}" if removed[1] else "")
            return
        group = split_api_version(api_version)[0]
        if not (self._schemas.complete or group in self._schemas.groups or "." not in group):
            return
        others = self._schemas.api_versions(kind, group) or self._schemas.api_versions(kind)
        if others:
            yield self.finding(UNKNOWN_KIND, ("apiVersion",), message, f"it is in {' and '.join(others)}")
            return
        hint = did_you_mean(kind, self._schemas.kinds.get(api_version, ()))
        yield self.finding(UNKNOWN_KIND, ("kind",), message, hint)

    def value(self, value: Any, schema: Schema, path: FieldPath) -> Iterator[Finding]:
        type_name, schema = schema.get("$ref", ""), self._schemas.resolved(_of_schema(schema, value))
        wanted = str(schema.get("type"))
        if value is None:
            return
        if schema.get("x-kubernetes-int-or-string") or wanted == QUANTITY:
            if isinstance(value, (bool, Mapping, list)):
                yield self._wrong_type(value, "a number or a string", path)
            elif wanted == QUANTITY and value != "" and amount(value) is None:
                yield self._no_quantity(str(value), path)
            return
        if wanted in _TYPES and not has_type(value, wanted):
            yield self._wrong_type(value, _TYPES[wanted], path)
            return
        # Kubernetes' own kinds take an empty string as no value.
        if schema.get("enum") and value not in schema["enum"] and not (value == "" and self._built_in):
            yield self._not_allowed(value, schema["enum"], path)
        if isinstance(value, Mapping):
            unknown = list(self._fields(value, schema, path))
            yield from unknown
            own = {_no_field((*path, name)) for name in value}
            meant = {each.fix for each in unknown if each.message in own}
            for name in self._missing(value, schema, path, type_name):
                if f"did you mean {name}?" not in meant:
                    yield self.finding(MISSING_FIELD, path, f"{field_text((*path, name))} is missing")
        elif isinstance(value, list):
            for position, item in enumerate(value):
                yield from self.value(item, schema.get("items", {}), (*path, position))
            yield from self._repeated(value, schema, path)
            yield from self._of_set(value, path) if schema.get("x-kubernetes-list-type") == "set" else ()

    def _fields(self, value: Mapping[str, Any], schema: Schema, path: FieldPath) -> Iterator[Finding]:
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            at = (*path, name)
            if item is None:
                continue
            if name in properties:
                if properties[name].get("deprecated"):
                    yield self.finding(DEPRECATED, at, f"{field_text(at)} is deprecated")
                yield from self.value(item, properties[name], at)
            elif isinstance(additional, Mapping):
                yield from self.value(item, additional, at)
            elif schema.get("x-kubernetes-embedded-resource") and name in ("apiVersion", "kind", "metadata"):
                continue
            elif properties and not additional and not schema.get(PRESERVED):
                yield self._unknown_field(at, properties)

    def _missing(self, value: Mapping[str, Any], schema: Schema, path: FieldPath, type_name: str) -> Iterator[str]:
        for name in schema.get("required", ()):
            if value.get(name) is None and (type_name, name) not in _ZERO_ALLOWED and (path or name != "status"):
                yield name

    def _unknown_field(self, path: FieldPath, properties: Mapping[str, Any]) -> Finding:
        name = str(path[-1])
        same = next((each for each in properties if each.lower() == name.lower()), "")
        edits = (Edit(column=None, old=name, new=same),) if same else ()
        foreign = _FOREIGN_SPACE.search(name)
        # A field of that very name elsewhere is more likely than another name here.
        fix = did_you_mean(same, properties) if same else self._other_level(path, properties)
        fix = fix or did_you_mean(name, properties)
        fix = f"remove the character U+{ord(foreign[0]):04X} from it" if foreign else fix
        return self.finding(UNKNOWN_FIELD, path, _no_field(path), fix, edits)

    def _other_level(self, path: FieldPath, properties: Mapping[str, Any]) -> str:
        """Where the field is, if it is written one level too far out or too deep; '' where it is not."""
        name = str(path[-1])
        inner = [
            (*path[:-1], each)
            for each, schema in properties.items()
            if each != "metadata" and name in fields(self._schemas.resolved(schema))
        ]
        if path[-2:-1] == ("selector",) and "matchLabels" in properties:
            return f"it belongs into {field_text((*path[:-1], 'matchLabels'))}"
        if len(inner) == 1:
            return f"it belongs into {field_text(inner[0])}"
        in_items = [
            each
            for each, schema in properties.items()
            if name in fields(self._schemas.resolved(schema.get("items", {})))
        ]
        if in_items == ["containers"] or {*in_items} > {"containers", "initContainers"}:
            return f"it belongs into an item of {field_text((*path[:-1], 'containers'))}"
        schema = self._schemas.schema(self._document.body["apiVersion"], self._document.body["kind"]) or {}
        outer = [path[:0]] if name in (schema.get("properties") or {}) else []
        for length, part in enumerate(path[:-2], 1):
            schema = self._schemas.part_schema(schema, part) or {}
            if name in fields(self._schemas.resolved(schema)):
                outer.append(path[:length])
        if not outer:
            return ""
        return f"it belongs beside {field_text((*outer[-1], path[len(outer[-1])]))}, not into it"

    def _wrong_type(self, value: Any, wanted: str, path: FieldPath) -> Finding:
        fix = ""
        if wanted == _TYPES["string"] and isinstance(value, (bool, int, float)):
            fix = "write it in quotes, or with the filter string"
        elif isinstance(value, str) and wanted in (_TYPES["integer"], _TYPES["number"], _TYPES["boolean"]):
            if wanted == _TYPES["boolean"]:
                fix = "remove the quotes" if value in ("true", "false") else "write true or false"
            else:
                fix = "write it without quotes, or with the filter int" if _is_number(value) else "write a number"
                fix = "write the number alone, without a unit" if _WITH_UNIT.fullmatch(value) else fix
        elif isinstance(value, str) and wanted == _TYPES["array"]:
            fix = "write a list: in brackets, or each item behind a dash"
        elif isinstance(value, str) and wanted == _TYPES["object"]:
            # `key:value` is a text.
            fix = "write a blank behind the colon" if ":" in value and " " not in value else ""
            fix = "write name: and value:" if path[-2:-1] == ("env",) else fix
        elif isinstance(value, Mapping) and len(value) == 1 and [*value.values()] == [None]:
            fix = f"write {{{{ {next(iter(value))} }}}}"  # { name }
        message = f"{field_text(path)} must be {wanted}, and this is {kind_of(value)}"
        return self.finding(INVALID_VALUE, path, message, fix)

    def _no_quantity(self, value: str, path: FieldPath) -> Finding:
        shown = f"is {value}, which" if self._shows_values else "has a value that"
        message = f"{field_text(path)} {shown} is no quantity"
        found = _UNITS.fullmatch(value)
        units = (
            [_PREFIXES.get(found["prefix"].upper(), found["prefix"].upper()), f"{found['prefix'].upper()}i"]
            if found
            else []
        )
        fix = " or ".join(f"{found['number']}{unit}" for unit in units if found) if self._shows_values else ""
        return self.finding(INVALID_QUANTITY, path, message, f"write {fix}" if fix else "write it as 500m, 2 or 16Mi")

    def _not_allowed(self, value: Any, allowed: Sequence[Any], path: FieldPath) -> Finding:
        names = [str(each) for each in allowed]
        near = near_names(str(value), names) or [each for each in names if each.lower() == str(value).lower()]
        fix = f"did you mean {near[0]}?" if near and self._shows_values else ""
        shown = f"is {value}, and " if self._shows_values else ""
        return self.finding(INVALID_VALUE, path, f"{field_text(path)} {shown}must be {' or '.join(names)}", fix)

    def _repeated(self, items: list[Any], schema: Schema, path: FieldPath) -> Iterator[Finding]:
        names = schema.get("x-kubernetes-list-map-keys")
        if not names:
            return
        inner = self._schemas.resolved(schema.get("items", {}))
        fields, required = inner.get("properties", {}), set(names) & set(inner.get("required", ()))
        # The default of its name is ''.
        required |= {"name"} if schema.get("items", {}).get("$ref") == "LocalObjectReference" else set()
        seen: set[tuple[Any, ...]] = set()
        for position, item in enumerate(items):
            if item is None:
                at = (*path, position)
                yield self._wrong_type(item, _TYPES["object"], at)
            if not isinstance(item, Mapping):
                continue
            if not any(name in item or fields.get(name, {}).get("default") for name in names) and not required:
                message = f"{field_text((*path, position, names[0]))} is missing"
                yield self.finding(MISSING_FIELD, (*path, position), message)
            key = tuple(str(item.get(name, fields.get(name, {}).get("default"))) for name in names)
            if key in seen:
                which = " and ".join(names)
                message = f"{field_text((*path, position))} has the same {which} as another item"
                yield self.finding(DUPLICATE_ITEM, (*path, position), message, f"each {which} may be there once")
            seen.add(key)

    def _of_set(self, items: list[Any], path: FieldPath) -> Iterator[Finding]:
        """The items that no apply takes in a list of type set."""
        seen = set()
        for position, item in enumerate(items):
            at, key = (*path, position), repr(item)
            if item is None or isinstance(item, (Mapping, list)):
                message = f"{field_text(at)} is {kind_of(item)}, and an apply takes none in a list of type set"
                yield self.finding(INVALID_VALUE, at, message, "declare another list type in the CRD")
            elif key in seen:
                message = f"{field_text(at)} is the same as another item"
                yield self.finding(DUPLICATE_ITEM, at, message, "each item may be there once")
            seen.add(key)


NO_FIELD = "there is no field "
"""How the message about an unknown field begins, which goes on with the field."""


def _no_field(path: FieldPath) -> str:
    return f"{NO_FIELD}{field_text(path)}"


_TYPES: Mapping[str, str] = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}

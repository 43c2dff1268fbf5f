"""Rules about fields: those of the parent that templates read, and those of manifests that the API server or a
controller writes.

Promises:
- An undeclared field of the parent is found even in branches that no example takes, in macros and in includes.
  `default` and `is defined` make no difference. A file in `_shared/` may read a field that only some folders have.
- Only a list, or a mapping with free keys, of the kinds in COUNTED is dropped when it is empty.
- A field that a controller fills is a finding, because both revert each other: WRITTEN, an injected CA bundle, `rules`
  beside `aggregationRule`
  (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles), and the replicas of an object
  that another manifest's `spec.scaleTargetRef` names. A VerticalPodAutoscaler makes none: it changes pods only.
- What the parent or the installation chooses, what the template reads from its own object or its autoscaler, and a
  manifest that is applied only once are no findings.
- `status` and the server's fields of `metadata` are findings if they have content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ssa_operator.objects.annotations import PREFIX, ApplyPolicy, Reference
from ssa_operator.objects.declared_fields import DECLARE, declared_siblings, first_undeclared
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.json_schema import Schema, fields, part_schema
from ssa_operator.objects.live_object import MANAGER
from ssa_operator.objects.manifest import MANAGED_BY_LABEL, SERVER_OWNED
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, leaves, misspelt_field, value_at
from ssa_operator.objects.template_contents import PossibleField
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.findings import Code, Finding, field_finding

SHARED = "_shared/"


class FolderFields(Struct, frozen=True, kw_only=True):
    """The fields that the templates of one folder read, and what its CRD declares."""

    folder: str
    schema: Mapping[str, Any]
    """The structural schema of the version that the operator reads."""
    fields: Sequence[PossibleField]


class _Undeclared(Struct, frozen=True):
    """A field that a schema doesn't declare."""

    path: FieldPath
    location: SourceLocation


UNDECLARED_FIELD = Code.error(
    "undeclared-field",
    "a field of the parent that its CRD doesn't declare",
    "The API server prunes fields that the CRD doesn't declare, so no parent ever has this one, and a "
    "template that reads it fails or takes its default. Correct the name, or declare the field in the CRD.",
)


def check_fields(folders: Sequence[FolderFields]) -> list[Finding]:
    """The findings about the fields that the templates of some folders read."""
    declared_somewhere: set[tuple[SourceLocation, FieldPath]] = set()
    undeclared: dict[_Undeclared, list[FolderFields]] = {}
    for folder in folders:
        for field in folder.fields:
            missing = first_undeclared(field.path, folder.schema)
            if missing is None:
                declared_somewhere.add((field.location, field.path))
            else:
                undeclared.setdefault(_Undeclared(missing, field.location), []).append(folder)
    return [
        _finding(each, readers[0])
        for each, readers in undeclared.items()
        if not (each.location.file.startswith(SHARED) and (each.location, each.path) in declared_somewhere)
    ]


def _finding(undeclared: _Undeclared, folder: FolderFields) -> Finding:
    text = field_text(undeclared.path)
    fix = misspelt_field(undeclared.path, declared_siblings(undeclared.path, folder.schema)) or DECLARE
    message = f"the CRD {folder.folder} declares no {text}"
    return Finding(code=UNDECLARED_FIELD, message=message, location=undeclared.location, fix=fix, about=text)


COUNTED: Mapping[GroupKind, tuple[str, ...]] = {
    GroupKind("networking.k8s.io", "NetworkPolicy"): ("spec",),
    GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): ("webhooks",),
    GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): ("webhooks",),
}
"""The kinds of which the API server counts an empty value as another one than a missing one, with the fields that it
compares: it raises `metadata.generation` with each apply (seen on 1.36.3; pkg/registry compares them with
reflect.DeepEqual, and those of other kinds with apiequality.Semantic).
"""


REPEATED_CHANGE = Code.warning(
    "repeated-change",
    "an empty list or mapping because of which each apply is a change",
    "The API server drops the empty value, and compares the object that it stored with the manifest: each "
    "apply raises metadata.generation, and every watcher of the kind gets an event. The operator notices "
    "that and doesn't repeat the apply while the object stays as it is. Leave the field out: that means the "
    "same, and costs no write after a restart of the operator.",
)


def check_empty_values(documents: Iterable[Document], schemas: KubernetesSchemas) -> list[Finding]:
    """The findings in manifests by the schemas of their kinds."""
    return [finding for document in documents for finding in _check(document, schemas)]


def _check(document: Document, schemas: KubernetesSchemas) -> Iterator[Finding]:
    body = document.body
    fields = COUNTED.get(document.identity.group_kind, ())
    schema = schemas.schema(body["apiVersion"], body["kind"]) if fields else None
    properties = (schema or {}).get("properties", {})
    for field in fields:
        for path in dropped_values(body.get(field), properties.get(field, {}), schemas, (field,)):
            message = "is empty; the API server drops it, and counts each apply as a change"
            yield field_finding(document, REPEATED_CHANGE, path, message, "leave it out, which means the same")


def dropped_values(value: Any, schema: Schema, schemas: KubernetesSchemas, path: FieldPath) -> Iterator[FieldPath]:
    """The fields below a value that an API server of Kubernetes drops, because they are empty."""
    resolved = schemas.resolved(schema)
    if value == [] or (value == {} and part_schema(resolved, "") is not None and not fields(resolved)):
        yield path
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for part, item in entries:
        yield from dropped_values(item, part_schema(resolved, part) or {}, schemas, (*path, part))


SERVER_FIELD = Code.warning(
    "server-field",
    "a field that the API server or a controller writes",
    "The manifest has a field that Kubernetes fills in each object, as what kubectl get prints. The operator "
    "drops status and the server's fields of metadata, and writes its own value of the label "
    "app.kubernetes.io/managed-by. Any other one is of one object only, or a controller writes it again, and "
    "the operator reverts that with each resync, with a Conflict in the status: a CA bundle that an annotation "
    "has cert-manager or OpenShift write; the rules of a ClusterRole with aggregationRule, which belong into "
    "another ClusterRole with a label that it selects (an empty list of rules is left out); or the replicas of "
    "an object that an autoscaler of the same folder scales by spec.scaleTargetRef (HorizontalPodAutoscaler, "
    "ScaledObject). Remove the field; that of replicas when the autoscaler is rendered, or keep the number "
    'that is there: replicas: {{ live("Deployment", name).spec.replicas | default(2) }}',
    replaces="injected-ca-bundle aggregated-rules autoscaled-replicas",
)


_REPLICAS: FieldPath = ("spec", "replicas")
_CLUSTER_ROLE = GroupKind("rbac.authorization.k8s.io", "ClusterRole")
_APPLIED_ONCE = (ApplyPolicy.ONCE.value, ApplyPolicy.IF_NOT_PRESENT.value)


def check_control_plane_fields(
    documents: Sequence[Document], namespace: str, scale_paths: Mapping[GroupKind, FieldPath]
) -> list[Finding]:
    """The findings in the manifests of one parent. `namespace` is the parent's. `scale_paths` has the field with the
    number of replicas of each custom kind that is known, () if it can't be scaled.
    """
    applied = [document for document in documents if not is_applied_once(document)]
    return [*_aggregated_rules(applied), *_autoscaled_replicas(applied, documents, namespace, scale_paths)]


def scale_path(definition: Mapping[str, Any]) -> FieldPath:
    """The field with the number of replicas by a CRD's scale subresource, () if it has none."""
    for version in definition.get("spec", {}).get("versions", ()):
        scale = (version.get("subresources") or {}).get("scale") or {}
        if path := scale.get("specReplicasPath"):
            return tuple(path.strip(".").split("."))
    return ()


def _aggregated_rules(documents: Iterable[Document]) -> Iterator[Finding]:
    for document in documents:
        is_aggregated = document.identity.group_kind == _CLUSTER_ROLE and document.body.get("aggregationRule")
        if is_aggregated and document.body.get("rules"):
            message = "is beside aggregationRule, and the control plane fills it from the roles that this selects"
            fix = "remove it, and write the rules into a ClusterRole with a label that aggregationRule selects"
            yield field_finding(document, SERVER_FIELD, ("rules",), message, fix)


def _autoscaled_replicas(
    documents: Iterable[Document],
    all_documents: Sequence[Document],
    namespace: str,
    scale_paths: Mapping[GroupKind, FieldPath],
) -> Iterator[Finding]:
    autoscalers = [each for each in all_documents if isinstance(_target(each), Mapping)]
    for document in documents if autoscalers else ():
        path = scale_paths.get(document.identity.group_kind, _REPLICAS)
        if not path or value_at(document.body, path) is None:
            continue
        for autoscaler in autoscalers:
            if _scales(autoscaler, document, namespace) and not _reads(document, autoscaler):
                who = f"{autoscaler.identity.kind} {autoscaler.identity.name}"
                message = f"is set, and {who} ({autoscaler.location_of(('spec', 'scaleTargetRef'))}) scales the object"
                fix = "leave it out when the autoscaler is rendered"
                yield field_finding(document, SERVER_FIELD, path, message, fix)
                break


def _scales(autoscaler: Document, document: Document, namespace: str) -> bool:
    """Whether an autoscaler targets an object. KEDA's default kind is Deployment."""
    target, found = _target(autoscaler), document.identity
    group = split_api_version(str(target["apiVersion"]))[0] if target.get("apiVersion") else found.group
    wanted = (group, target.get("kind") or "Deployment", target.get("name"))
    return wanted == (found.group, found.kind, found.name) and _within(autoscaler.identity, namespace) == _within(
        found, namespace
    )


def _target(document: Document) -> Any:
    return value_at(document.body, ("spec", "scaleTargetRef"))


def _within(identity: Identity, namespace: str) -> str:
    return identity.namespace or namespace


def _reads(document: Document, autoscaler: Document) -> bool:
    """Whether values of a document follow from its own object or from the autoscaler's."""
    scaler = Reference(autoscaler.identity.kind, autoscaler.identity.name)
    return document.reads_itself or any(each.query == scaler and not each.after for each in document.dependencies)


def is_applied_once(document: Document) -> bool:
    """Whether a manifest is applied only once, or only if its object is absent."""
    annotations = document.body["metadata"].get("annotations")
    return isinstance(annotations, Mapping) and annotations.get(f"{PREFIX}apply") in _APPLIED_ONCE


_SECRET = GroupKind("", "Secret")
_SERVICE = GroupKind("", "Service")
_POD = GroupKind("", "Pod")
_CLAIM = GroupKind("", "PersistentVolumeClaim")
_DEPLOYMENT = GroupKind("apps", "Deployment")
_JOB = GroupKind("batch", "Job")
_SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a type of Secrets


class Written(NamedTuple):
    """A field that a controller fills."""

    kind: GroupKind
    path: FieldPath
    who: str
    """The field's content, and its writer."""
    chosen: bool = False
    """Whether a parent or the installation may choose the value."""


def _annotations(kind: GroupKind, who: str, *names: str) -> Iterator[Written]:
    return (Written(kind, ("metadata", "annotations", name), who) for name in names)


_ADDRESS = "is the address of one Service, which the API server allocates"
_UID = "is the uid of one Job, which the API server writes"
_TOKEN = "is written by the controller of service account tokens"  # noqa: S105 - no password

WRITTEN: tuple[Written, ...] = (
    Written(_SERVICE, ("spec", "clusterIP"), _ADDRESS, chosen=True),
    Written(_SERVICE, ("spec", "clusterIPs", 0), _ADDRESS, chosen=True),
    Written(_POD, ("spec", "nodeName"), "is where the scheduler has put one Pod", chosen=True),
    Written(_JOB, ("spec", "selector", "matchLabels", "controller-uid"), _UID),
    Written(_JOB, ("spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"), _UID),
    *(Written(_SECRET, ("data", key), _TOKEN) for key in ("token", "ca.crt", "namespace")),
    *_annotations(_DEPLOYMENT, "is counted up by the Deployment controller", "deployment.kubernetes.io/revision"),
    *_annotations(
        _CLAIM,
        "is written by the controller that binds the claim",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-provisioner",
    ),
)

_ADMISSION = "admissionregistration.k8s.io"
CA_BUNDLES: Mapping[GroupKind, tuple[FieldPath, FieldPath]] = {
    GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"): (("webhooks",), ("clientConfig", "caBundle")),
    GroupKind(_ADMISSION, "MutatingWebhookConfiguration"): (("webhooks",), ("clientConfig", "caBundle")),
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): (
        (),
        ("spec", "conversion", "webhook", "clientConfig", "caBundle"),
    ),
    GroupKind("apiregistration.k8s.io", "APIService"): ((), ("spec", "caBundle")),
}
"""Where each kind has CA bundles: the path of a list, () without one, and the path below it."""

INJECTORS = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
)
"""The annotations by which a controller writes CA bundles (https://cert-manager.io/docs/concepts/ca-injector/)."""


def check_server_fields(documents: Iterable[Document], *given: Mapping[str, Any]) -> list[Finding]:
    """The findings in the manifests of a parent. `given` are the parent and the settings of the installation."""
    chosen = frozenset(text for each in given for _, text in leaves(each) if isinstance(text, str))
    return [finding for document in documents for finding in _check_field(document, chosen)]


def _check_field(document: Document, chosen: frozenset[str]) -> Iterator[Finding]:
    body = document.body
    metadata = body["metadata"]
    dropped: list[FieldPath] = [("metadata", field) for field in SERVER_OWNED if _has_content(metadata.get(field))]
    for path in ([("status",)] if _has_content(body.get("status")) else []) + dropped:
        message = "is written by the control plane, and the operator drops it"
        yield field_finding(document, SERVER_FIELD, path, message, "remove it")
    label: FieldPath = ("metadata", "labels", MANAGED_BY_LABEL)
    if value_at(body, label) not in (None, MANAGER):
        message = f"is the operator's label: each child has {MANAGED_BY_LABEL}: {MANAGER}, whatever its template says"
        yield field_finding(document, SERVER_FIELD, label, message, "remove it")
    if document.reads_itself or is_applied_once(document):
        return
    for row in WRITTEN:
        if row.kind == document.identity.group_kind and _is_written(body, row, chosen):
            yield field_finding(document, SERVER_FIELD, row.path, row.who, "remove it")
    for path in _injected(document):
        message = "is set, and an annotation has it injected"
        yield field_finding(document, SERVER_FIELD, path, message, "remove it, or the annotation")


def _is_written(body: Mapping[str, Any], row: Written, chosen: frozenset[str]) -> bool:
    value = value_at(body, row.path)
    if row.kind == _SECRET and body.get("type") != _SERVICE_ACCOUNT_TOKEN:
        return False
    return isinstance(value, str) and value not in ("", "None") and not (row.chosen and value in chosen)


def _injected(document: Document) -> Iterator[FieldPath]:
    annotations = document.body["metadata"].get("annotations")
    if not isinstance(annotations, Mapping) or not any(annotations.get(each) for each in INJECTORS):
        return
    above, below = CA_BUNDLES.get(document.identity.group_kind, ((), ()))
    items = value_at(document.body, above) if above else None
    paths = [(*above, position, *below) for position in range(len(items))] if isinstance(items, list) else [below]
    for path in paths:
        if path and value_at(document.body, path):
            yield path


def _has_content(value: Any) -> bool:
    """Whether a value is neither empty nor made of empty values."""
    return any(leaf not in (None, "") for _, leaf in leaves(value))

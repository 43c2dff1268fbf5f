"""Rules about fields that the control plane writes: if a manifest writes them, too, each reverts the other for ever.

Promises:
- `rules` beside `aggregationRule` in a ClusterRole is a finding: a controller fills `rules` from the selected roles
  (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles).
- The replicas of an object are a finding if another manifest of the same parent is its autoscaler: an object whose
  `spec.scaleTargetRef` names it, as that of a HorizontalPodAutoscaler and of KEDA's ScaledObject.
- Replicas that the template reads from the object or from its autoscaler are no finding, nor is a manifest that is
  applied only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ssa_operator.objects.annotations import PREFIX, ApplyPolicy, Reference
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.tools.findings.field_findings import field_finding
from ssa_operator.tools.findings.findings import Finding

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
            yield field_finding(document, "aggregated-rules", ("rules",), message, fix)


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
                yield field_finding(document, "autoscaled-replicas", path, message, fix)
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

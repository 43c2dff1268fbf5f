"""Which template folder an object belongs to, told from files alone.

Promises:
- A CRD in the CRD folder decides; for built-in kinds the folder is found by the plural that Kubernetes would use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssa_operator.cli.failure import CommandError
from ssa_operator.controller import crds as definitions
from ssa_operator.core.identity import GroupKind, split_api_version
from ssa_operator.rendering.sources import Folder, Sources

# Built-in kinds that live in no namespace; https://kubernetes.io/docs/concepts/overview/working-with-
# objects/namespaces/
_CLUSTER_SCOPED = frozenset(
    {
        GroupKind("", "Namespace"),
        GroupKind("", "Node"),
        GroupKind("", "PersistentVolume"),
        GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
        GroupKind("apiregistration.k8s.io", "APIService"),
        GroupKind("certificates.k8s.io", "CertificateSigningRequest"),
        GroupKind("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        GroupKind("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        GroupKind("networking.k8s.io", "IngressClass"),
        GroupKind("node.k8s.io", "RuntimeClass"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRole"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        GroupKind("scheduling.k8s.io", "PriorityClass"),
        GroupKind("storage.k8s.io", "CSIDriver"),
        GroupKind("storage.k8s.io", "CSINode"),
        GroupKind("storage.k8s.io", "StorageClass"),
        GroupKind("storage.k8s.io", "VolumeAttachment"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a CRD file says of its kind."""

    folder: str
    namespaced: bool


def kinds_of(crds: Iterable[Path]) -> Mapping[GroupKind, Known]:
    """The kinds of the folders' CRDs; none where there is no such folder. Raises CommandError."""
    try:
        documents = definitions.load(*(folder for folder in crds if folder.exists()))
    except definitions.DefinitionError as error:
        raise CommandError(str(error)) from error
    return {
        GroupKind(spec["group"], spec["names"]["kind"]): Known(
            folder=f"{spec['names']['plural']}.{spec['group']}", namespaced=spec.get("scope") == "Namespaced"
        )
        for spec in (document.body["spec"] for document in documents)
    }


def namespaced(kind: GroupKind, kinds: Mapping[GroupKind, Known]) -> bool:
    """Whether a kind lives in namespaces, as far as files tell: unknown kinds are taken to."""
    return kinds[kind].namespaced if kind in kinds else kind not in _CLUSTER_SCOPED


def folder_of(parent: Mapping[str, Any], sources: Sources, kinds: Mapping[GroupKind, Known]) -> Folder:
    """The folder that renders a parent. Raises CommandError, naming what was looked for."""
    kind = GroupKind(split_api_version(parent["apiVersion"])[0], parent["kind"])
    suffix = f".{kind.group}" if kind.group else ""
    names = [kinds[kind].folder] if kind in kinds else [f"{plural}{suffix}" for plural in plurals(kind.kind)]
    for name in names:
        if name in sources.folders:
            return sources.folders[name]
    raise CommandError(f"no templates for {kind} {parent['metadata']['name']}: there is no folder {' or '.join(names)}")


def plurals(kind: str) -> list[str]:
    """What Kubernetes may call the resource of a kind: `Ingress` -> `ingresses`."""
    name = kind.lower()
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return [f"{name}es", name]
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return [f"{name[:-1]}ies"]
    return [f"{name}s", f"{name}es"]

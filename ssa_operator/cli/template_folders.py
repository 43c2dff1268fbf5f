"""Which template folder an object belongs to, and what its kind is like, told from files alone.

Promises:
- A CRD in the CRD folder decides; for built-in kinds the folder is found by the plural that Kubernetes would use.
- A CRD that can't be used is named with its file and line; one that isn't there is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ssa_operator.cli.command_error import CommandError
from ssa_operator.controller import crd_installation as crds
from ssa_operator.controller.watches import crds as definitions
from ssa_operator.core.objects.crd_defaults import defaulted
from ssa_operator.core.objects.crd_schema import object_schema
from ssa_operator.core.objects.identity import GroupKind, join_api_version, split_api_version
from ssa_operator.core.objects.render_result import Document
from ssa_operator.rendering.folder.sources import Folder, Sources

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
    definition: Mapping[str, Any] = field(repr=False, compare=False)


def kinds_of(folders: Iterable[Path]) -> Mapping[GroupKind, Known]:
    """The kinds of the folders' CRDs; none where there is no such folder. Raises CommandError."""
    try:
        documents = crds.load(*(folder for folder in folders if folder.exists()))
    except crds.DefinitionError as error:
        raise CommandError(str(error)) from error
    return dict(map(_kind_of, documents))


def _kind_of(definition: Document) -> tuple[GroupKind, Known]:
    try:
        spec = definition.body["spec"]
        group, names = spec["group"], spec["names"]
        known = Known(
            folder=f"{names['plural']}.{group}",
            namespaced=spec.get("scope") == "Namespaced",
            definition=definition.body,
        )
        return GroupKind(group, names["kind"]), known
    except (KeyError, TypeError) as error:
        raise CommandError(
            f"{definition.location}: a CRD needs spec.group, spec.names.kind and spec.names.plural"
        ) from error


def cluster_scoped(kinds: Mapping[GroupKind, Known]) -> frozenset[GroupKind]:
    """The kinds that live in no namespace, as far as files tell: unknown kinds are taken to live in one."""
    return _CLUSTER_SCOPED - kinds.keys() | {kind for kind, known in kinds.items() if not known.namespaced}


def returned(parent: Mapping[str, Any], folder: Folder, kinds: Mapping[GroupKind, Known]) -> dict[str, Any]:
    """A parent as the API server returns it to the operator: with the defaults of its CRD, in the version that the
    operator reads. Without a CRD, as for built-in kinds, it stays as it is.

    Raises CommandError where the CRD doesn't serve a version.
    """
    group, version = split_api_version(parent["apiVersion"])
    known = kinds.get(GroupKind(group, parent["kind"]))
    if known is None:
        return dict(parent)
    versions = known.definition["spec"].get("versions", ())
    served = [each["name"] for each in versions if each.get("served")]
    for wanted in (version, folder.settings.version or version):
        if wanted not in served:
            which, names = f"its CRD {known.folder} doesn't serve version {wanted}", ", ".join(served) or "none"
            raise CommandError(f"{parent['kind']} {parent['metadata']['name']}: {which}; served are {names}")
    # A request has the defaults of its own version, and what is stored those of the version that it is stored in.
    body = defaulted(parent, object_schema(known.definition, version))
    if known.definition["spec"].get("conversion", {}).get("strategy", "None") != "None":
        return body  # only its webhook can convert it
    stored = next((each["name"] for each in versions if each.get("storage")), version)
    read = folder.settings.version or max(served, key=definitions.version_priority)
    return defaulted(body, object_schema(known.definition, stored)) | {"apiVersion": join_api_version(group, read)}


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

"""Findings of `check`, and the table of their codes.

Promises:
- Every finding has a code of CODES, a message, and the file and line that cause it.
- A code, once published, keeps its meaning. `check --explain CODE` prints what the table says of it.
- A warning is about what works and may surprise. An error is about what a cluster refuses, or what can't be meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ssa_operator.core.objects.source_location import SourceLocation


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A kind of finding."""

    severity: Severity
    title: str
    """What is wrong, as a noun phrase."""
    explanation: str
    """Why it matters, and what to do."""


CODES: Mapping[str, Code] = {
    "template-error": Code(
        severity=Severity.ERROR,
        title="a template that can't be loaded",
        explanation=(
            "Jinja can't compile the file, or a file that it imports is missing. The operator keeps the last good"
            " templates of the folder, and reports the error in the status of every parent. Correct the line that"
            " the message names."
        ),
    ),
    "render-error": Code(
        severity=Severity.ERROR,
        title="an example that can't be rendered",
        explanation=(
            "For this example, the template fails, or two renders of the same object differ. The operator reports"
            " the same error as RenderFailed in the status of such a parent, and applies the other documents."
        ),
    ),
    "invalid-manifest": Code(
        severity=Severity.ERROR,
        title="a manifest that the operator refuses",
        explanation=(
            "The manifest breaks a rule of the operator: an object is rendered twice, or lies outside of the "
            "namespace of its parent without clusterScope, or has an owner that Kubernetes doesn't allow. The "
            "status of such a parent reports InvalidManifest."
        ),
    ),
    "undeclared-field": Code(
        severity=Severity.ERROR,
        title="a field of the parent that its CRD doesn't declare",
        explanation=(
            "The API server prunes fields that the CRD doesn't declare, so no parent ever has this one, and a "
            "template that reads it fails or takes its default. Correct the name, or declare the field in the CRD."
        ),
    ),
    "dropped-status-field": Code(
        severity=Severity.WARNING,
        title="a field of _status.yaml.j2 that is not written",
        explanation=(
            "The operator drops the field or condition, and logs it: its name is the operator's own, a condition "
            "breaks a rule of Kubernetes, or the schema of the CRD doesn't declare the field, so that the API server "
            "would refuse the whole status."
        ),
    ),
    "dependency-cycle": Code(
        severity=Severity.ERROR,
        title="manifests that wait for each other",
        explanation=(
            "Each manifest of the cycle reads a field of the next one, or names it in ssa-operator.dev/after, so none "
            "of them is ever applied. Read a field with default, or take the value from spec."
        ),
    ),
    "folder-without-example": Code(
        severity=Severity.WARNING,
        title="a template folder without an example",
        explanation=(
            "Only the syntax of the folder is checked, because there is no object to render it for. Add one to "
            "examples/, or name its file: check --examples FILE."
        ),
    ),
    "latest-image": Code(
        severity=Severity.WARNING,
        title="an image without a fixed version",
        explanation=(
            "The image has the tag latest, or no tag. With imagePullPolicy IfNotPresent different nodes run "
            "different builds, and with Always a restarted pod may run another one than its neighbours. Name a "
            "version, or a digest."
        ),
    ),
    "selector-mismatch": Code(
        severity=Severity.ERROR,
        title="a selector that doesn't match the labels of its pod template",
        explanation=(
            "The API server refuses a Deployment, StatefulSet, DaemonSet or ReplicaSet whose selector doesn't "
            "match the labels in spec.template.metadata.labels."
        ),
    ),
    "unknown-port": Code(
        severity=Severity.ERROR,
        title="a port name that no container has",
        explanation=(
            "A probe, a lifecycle hook or the targetPort of a Service names a port, and no container of the pod "
            "declares a port of that name. The API server accepts it; the probe fails, or the Service has no "
            "endpoint for the port."
        ),
    ),
    "unknown-volume": Code(
        severity=Severity.ERROR,
        title="a volume mount without a volume",
        explanation=(
            "A container mounts a volume that is neither in the volumes of its pod nor a volumeClaimTemplate. The"
            " API server refuses the pod template."
        ),
    ),
    "crd-not-structural": Code(
        severity=Severity.ERROR,
        title="a CRD without a structural schema",
        explanation=(
            "A served version has no schema, or a field in its schema has no type. apiextensions.k8s.io/v1 "
            "refuses such a CRD. Declare the type of every field, or set x-kubernetes-preserve-unknown-fields: "
            "true."
        ),
    ),
    "crd-without-report": Code(
        severity=Severity.WARNING,
        title="a CRD whose objects can't show the operator's report",
        explanation=(
            "The CRD has no status subresource, or doesn't declare status.conditions or status.resources. The "
            "operator works, but a user sees errors only as Events. Declare them as ssa-operator new does."
        ),
    ),
    "crd-condition-list-type": Code(
        severity=Severity.WARNING,
        title="conditions that are no list map",
        explanation=(
            "status.conditions has no x-kubernetes-list-type: map with the key type. Then the writers of two "
            "conditions replace each other's whole list."
        ),
    ),
    "crd-without-printer-columns": Code(
        severity=Severity.WARNING,
        title="a CRD without printer columns",
        explanation=(
            "kubectl get shows only name and age. Add additionalPrinterColumns, at least for the status of the "
            'condition Ready: .status.conditions[?(@.type=="Ready")].status'
        ),
    ),
}
"""Every code of a finding, in the order in which `check --explain` lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that `check` found."""

    code: str
    """A key of CODES."""
    message: str
    location: SourceLocation | None = None
    """The line that causes it; None where no file has it, as for a missing example."""
    fix: str = ""
    """What to write instead, in words; '' where there is no one answer."""
    subject: str = field(default="", compare=False)
    """The manifest that shows it. Several manifests of one line show it only once."""

    @property
    def severity(self) -> Severity:
        return CODES[self.code].severity

    @property
    def text(self) -> str:
        """The message with its subject."""
        return f"{self.subject}: {self.message}" if self.subject else self.message

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        return f"{where}{self.severity} {self.code}: {self.text}" + (f"; {self.fix}" if self.fix else "")

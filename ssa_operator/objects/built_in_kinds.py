"""The kinds that a Kubernetes API server serves without any CRD, for renders without a cluster.

Promises:
- The table has the kinds, with their scope, in every version that Kubernetes KUBERNETES_VERSION serves by default. A
  test compares it with the discovery of the API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

KUBERNETES_VERSION = "1.36"
"""The version of Kubernetes that a render without a cluster assumes."""


class ApiKind(NamedTuple):
    """A kind in one version of its API group, as a manifest names it."""

    api_version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.api_version}"


_TABLE = """
v1 Binding ComponentStatus* ConfigMap Endpoints Event LimitRange Namespace* Node* PersistentVolume*
  PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
admissionregistration.k8s.io/v1 MutatingAdmissionPolicy* MutatingAdmissionPolicyBinding*
  MutatingWebhookConfiguration* ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding*
  ValidatingWebhookConfiguration*
apiextensions.k8s.io/v1 CustomResourceDefinition*
apiregistration.k8s.io/v1 APIService*
apps/v1 ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet
authentication.k8s.io/v1 SelfSubjectReview* TokenReview*
authorization.k8s.io/v1 LocalSubjectAccessReview SelfSubjectAccessReview* SelfSubjectRulesReview*
  SubjectAccessReview*
autoscaling/v1 HorizontalPodAutoscaler
autoscaling/v2 HorizontalPodAutoscaler
batch/v1 CronJob Job
certificates.k8s.io/v1 CertificateSigningRequest*
coordination.k8s.io/v1 Lease
discovery.k8s.io/v1 EndpointSlice
events.k8s.io/v1 Event
flowcontrol.apiserver.k8s.io/v1 FlowSchema* PriorityLevelConfiguration*
networking.k8s.io/v1 IPAddress* Ingress IngressClass* NetworkPolicy ServiceCIDR*
node.k8s.io/v1 RuntimeClass*
policy/v1 PodDisruptionBudget
rbac.authorization.k8s.io/v1 ClusterRole* ClusterRoleBinding* Role RoleBinding
resource.k8s.io/v1 DeviceClass* ResourceClaim ResourceClaimTemplate ResourceSlice*
scheduling.k8s.io/v1 PriorityClass*
storage.k8s.io/v1 CSIDriver* CSINode* CSIStorageCapacity StorageClass* VolumeAttachment* VolumeAttributesClass*
"""


def _read(table: str) -> Iterator[tuple[ApiKind, bool]]:
    """The kinds, and whether each is cluster-scoped (`*`)."""
    api_version = ""
    for line in table.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            api_version, *words = words
        yield from ((ApiKind(api_version, word.removesuffix("*")), word.endswith("*")) for word in words)


_SCOPES = dict(_read(_TABLE))

BUILT_IN_KINDS = frozenset(_SCOPES)
"""The built-in kinds."""

CLUSTER_SCOPED = frozenset(kind for kind, cluster_scoped in _SCOPES.items() if cluster_scoped)
"""Those that have no namespace."""

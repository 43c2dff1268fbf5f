"""Rules about fields that the API server or a controller writes, as values."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.tools.checks.codes import CODES
from ssa_operator.tools.checks.field_rules import check_server_fields
from ssa_operator.tools.findings import Finding

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  clusterIP: 10.0.0.7\n  ports: [{port: 80}]\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  nodeName: node-1\n  containers: []\n"
TOKEN = """apiVersion: v1
kind: Secret
metadata: {name: t}
type: kubernetes.io/service-account-token
data:
  token: YQ==
"""
DEPLOYMENT = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  annotations:\n"
    '    deployment.kubernetes.io/revision: "3"\nspec: {}\n'
)
STATUS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\nstatus:\n  phase: Active\n"
UID = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  uid: abc\n"
AUTOSCALED = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
"""
HOOK = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: web
  annotations: {cert-manager.io/inject-ca-from: default/web}
webhooks:
- name: a.example.com
  clientConfig:
    service: {name: web, namespace: default}
- name: b.example.com
  clientConfig:
    caBundle: Cg==
"""
CRD = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: webs.example.com
  annotations: {cert-manager.io/inject-ca-from-secret: default/web}
spec:
  conversion:
    webhook:
      clientConfig:
        caBundle: Cg==
"""


def check(text: str, parent: dict[str, Any] | None = None) -> list[Finding]:
    return check_server_fields(objects(text, "all.yaml"), parent or {}, {"values": {}})


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (SERVICE, "server-field", 5),
        (SERVICE.replace("clusterIP: 10.0.0.7", "clusterIPs: [10.0.0.7]"), "server-field", 5),
        (POD, "server-field", 5),
        (TOKEN, "server-field", 6),
        (DEPLOYMENT, "server-field", 6),
        (STATUS, "server-field", 4),
        (UID, "server-field", 5),
        (UID.replace("uid: abc", "labels: {app.kubernetes.io/managed-by: Helm}"), "server-field", 5),
        (HOOK, "server-field", 12),
        (HOOK.replace("Validating", "Mutating"), "server-field", 12),
        (CRD, "server-field", 10),
    ],
)
def test_what_the_control_plane_writes_is_found_at_its_line(text: str, code: str, line: int) -> None:
    [found] = check(text)
    assert found.location is not None
    assert (found.code, found.location.line) == (code, line)
    assert found.code in CODES


@pytest.mark.parametrize(
    ("text", "parent"),
    [
        (SERVICE.replace("10.0.0.7", "None"), {}),
        (SERVICE.replace("10.0.0.7", '""'), {}),
        (SERVICE, {"spec": {"network": {"ips": ["10.0.0.7"]}}}),
        (SERVICE.replace("v1", "serving.knative.dev/v1"), {}),
        (SERVICE.replace("{name: web}", "{name: web, annotations: {ssa-operator.dev/apply: Once}}"), {}),
        (POD, {"spec": {"node": "node-1"}}),
        (POD.replace("nodeName: node-1", "nodeSelector: {a: b}"), {}),
        (TOKEN.replace("kubernetes.io/service-account-token", "Opaque"), {}),
        (TOKEN.replace("data:\n  token: YQ==", "immutable: false"), {}),
        (DEPLOYMENT.replace("deployment.kubernetes.io/revision", "example.com/revision"), {}),
        (STATUS.replace("phase: Active", "{conditions: [], acceptedNames: {kind: '', plural: ''}}"), {}),
        (UID.replace("uid: abc", "creationTimestamp: null"), {}),
        (UID.replace("uid: abc", "labels: {app.kubernetes.io/managed-by: ssa-operator}"), {}),
        (HOOK.replace("cert-manager.io/inject-ca-from", "example.com/other"), {}),
        (HOOK.replace("caBundle: Cg==", "url: https://example.com"), {}),
        (CRD.replace("caBundle: Cg==", "service: {name: web}"), {}),
    ],
)
def test_what_a_manifest_may_set_is_no_finding(text: str, parent: dict[str, Any]) -> None:
    assert check(text, parent) == []


def test_a_vertical_autoscaler_changes_pods_and_not_the_resources_of_a_template() -> None:
    assert check(AUTOSCALED) == []


def test_a_manifest_of_any_shape_raises_no_error() -> None:
    for text in (
        HOOK.partition("webhooks:")[0] + "webhooks: 1\n",
        HOOK.partition("webhooks:")[0] + "webhooks: [1, {clientConfig: [1]}]\n",
        SERVICE.partition("spec:")[0] + "spec: [1]\n",
    ):
        assert check(text) == []

"""The ValidatingWebhookConfiguration, by which the API server asks operators before it stores their parents.

Promises:
- An operator that is down or slow blocks no request: the API server waits TIMEOUT seconds at most, and then allows the
  object.
- The API server asks only about parents that the operator reconciles.
- Operators in several namespaces share the configuration. Each has one webhook in it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.label_selectors import label_selector
from ssa_operator.operator.permissions.rules import CONFIGURATION

TIMEOUT = 3
"""Seconds."""


class JudgedResource(Struct, frozen=True, order=True):
    """The resource of a template folder."""

    group: str
    version: str
    plural: str
    namespaced: bool


class WebhookAddress(Struct, frozen=True, kw_only=True):
    """Where the API server finds the webhook: a Service, or else a URL."""

    path: str
    namespace: str = ""
    service: str = ""
    """The Service in `namespace`, '' for none."""
    port: int = 443
    """The port of the Service."""
    url: str = ""
    """The URL without its path."""

    def client_config(self, authorities: bytes) -> dict[str, Any]:
        """The clientConfig of the webhook."""
        found: dict[str, Any] = {"caBundle": base64.b64encode(authorities).decode()}
        if self.service:
            service = {"namespace": self.namespace, "name": self.service, "port": self.port, "path": self.path}
            return {**found, "service": service}
        return {**found, "url": f"{self.url}{self.path}"}


def webhook_name(namespace: str) -> str:
    """The name of the webhook of the operator in a namespace. The API server wants a domain name."""
    return f"{namespace}.ssa-operator.dev"


def field_manager(namespace: str) -> str:
    """The field manager of the operator in a namespace. A shared manager would remove the webhooks of the others."""
    return f"ssa-operator-admission-{namespace}"


def configuration(webhooks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The configuration with these webhooks."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION, "labels": {"app.kubernetes.io/name": "ssa-operator"}},
        "webhooks": [*webhooks],
    }


def webhook(
    name: str,
    client_config: dict[str, Any],
    resources: Iterable[JudgedResource],
    namespaces: Sequence[str],
    selector: str,
) -> dict[str, Any]:
    """The webhook of an operator with these parents. `namespaces` and `selector` are its options of these names."""
    found: dict[str, Any] = {
        "name": name,
        "clientConfig": client_config,
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
            for resource in sorted(resources)
        ],
        "failurePolicy": "Ignore",
        "timeoutSeconds": TIMEOUT,
        "sideEffects": "None",
        "matchPolicy": "Equivalent",
        "admissionReviewVersions": ["v1"],
    }
    if namespaces:
        named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [*namespaces]}
        found["namespaceSelector"] = {"matchExpressions": [named]}
    if selector:
        found["objectSelector"] = label_selector(selector)
    return found

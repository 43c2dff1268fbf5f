"""Where the API server finds a webhook of the operator."""

from __future__ import annotations

import base64
from typing import Any

from msgspec import Struct


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

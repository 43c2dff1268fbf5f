"""Renews the tokens of a kubeconfig's `auth-provider` entries (oidc, gcp) with the official Kubernetes client.

As a program, this module reads an entry from standard input. It prints the token, its expiry and the renewed entry.

Promises:
- The official client runs in a process of its own, because its import would double the start time of the operator,
  and its requests block without a deadline.
- The client verifies the identity provider's certificate, even if the kubeconfig names no certificate authority.
- The process gets the entry neither as an argument nor in its environment, and no error shows a token.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ssa_operator.kube.auth import child_process as program
from ssa_operator.kube.auth.child_process import Program, ProgramError
from ssa_operator.kube.auth.credential_types import CredentialsError, FetchedCredential

DEADLINE = 60.0
"""Seconds for the identity provider to answer."""

_EXPIRED = "e30.eyJleHAiOjB9.x"
"""A token that expired in 1970. The official client renews a token, but does not fetch the first one."""


@dataclass(slots=True, kw_only=True)
class AuthProvider:
    """The `auth-provider` entry of a kubeconfig user."""

    settings: Mapping[str, Any] = field(repr=False)
    """The entry after the last renewal: an identity provider may accept each refresh token only once."""

    folder: Path
    """A relative path in the entry is relative to it."""

    origin: str
    """The kubeconfig and the user, for errors."""

    async def fetch(self) -> FetchedCredential:
        """A token that has not expired. Raises CredentialsError."""
        name = f"{self.origin}: auth-provider {self.settings.get('name')}"
        renewal = Program(
            argv=(sys.executable, "-P", "-m", __name__),
            environment=os.environ,
            stdin=json.dumps({"settings": self.settings, "folder": str(self.folder)}, default=str).encode(),
        )
        try:
            completed = await program.run(renewal, deadline=DEADLINE)
        except (OSError, ProgramError) as error:
            raise CredentialsError(f"{name} {error}") from error
        if completed.failure:
            raise CredentialsError(f"{name} {completed.failure}")
        answer = json.loads(completed.output)
        self.settings = answer["settings"]
        return FetchedCredential(headers={"Authorization": answer["authorization"]}, expires=answer["expires"])


def main() -> None:
    """Answer one request."""
    # Imported here, because the operator's own process doesn't need them. certifi comes with the official client.
    import certifi  # noqa: PLC0415
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import ConfigException, load_kube_config_from_dict  # noqa: PLC0415

    request = json.load(sys.stdin)
    settings = _with_defaults(
        request["settings"], Path(request["folder"]), ssl.get_default_verify_paths().cafile or certifi.where()
    )
    kubeconfig = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
        "clusters": [{"name": "here", "cluster": {}}],
        "users": [{"name": "here", "user": {"auth-provider": settings}}],
    }
    configuration = Configuration()
    try:
        load_kube_config_from_dict(kubeconfig, client_configuration=configuration, persist_config=False)
    except ConfigException as error:
        sys.exit(str(error))
    except Exception as error:  # noqa: BLE001 - the client also raises errors of requests, oauthlib and urllib3
        sys.exit(f"{type(error).__name__}: {error}")
    authorization = configuration.api_key.get("BearerToken")
    if not authorization or authorization == f"Bearer {_EXPIRED}":
        sys.exit("is not supported or gave no token")
    expires = _expiry(settings)
    if expires is not None and expires <= datetime.now(UTC).timestamp():
        sys.exit("gave no new token, and the old one has expired")
    json.dump({"authorization": authorization, "expires": expires, "settings": settings}, sys.stdout, default=str)


def _with_defaults(settings: dict[str, Any], folder: Path, authorities: str) -> dict[str, Any]:
    """The entry with the fields that the official client requires."""
    if settings.get("name") != "oidc":
        return settings
    config = {"id-token": _EXPIRED, **(settings.get("config") or {})}
    authority = config.get("idp-certificate-authority")
    config["idp-certificate-authority"] = str(folder / authority) if authority else authorities
    return {**settings, "config": config}


def _expiry(settings: Mapping[str, Any]) -> float | None:
    """Seconds since 1970, None if the entry has no expiry."""
    config = settings.get("config") or {}
    try:
        if settings.get("name") == "oidc":
            claims = config["id-token"].split(".")[1]
            return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
        return datetime.fromisoformat(str(config["expiry"])).timestamp()
    except (KeyError, IndexError, ValueError, TypeError, binascii.Error):
        return None


if __name__ == "__main__":
    main()

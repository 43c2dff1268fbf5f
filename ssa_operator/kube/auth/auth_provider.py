"""The `auth-provider` entries of a kubeconfig (oidc, gcp): the official Kubernetes client renews their tokens.

Run as a program, this module reads an entry from standard input, and prints the token, when it expires, and the entry
as it was renewed.

Promises:
- The official client runs in a process of its own: its import would double the start time of the operator, its
  requests block and have no deadline, and a process can be ended.
- The identity provider's certificate is verified, also where the kubeconfig names no certificate authority.
- The entry is not in the arguments or the environment of the process, and a token is in no error.
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
from ssa_operator.kube.auth.credential_types import Credential, CredentialsError

DEADLINE = 60.0
"""Seconds for the identity provider to answer."""

_EXPIRED = "e30.eyJleHAiOjB9.x"
"""A token that expired in 1970: the official client renews only a token that it is given."""


@dataclass(slots=True, kw_only=True)
class AuthProvider:
    """A user's `auth-provider` entry."""

    settings: Mapping[str, Any] = field(repr=False)
    """As it was renewed last: an identity provider may accept each refresh token only once."""

    folder: Path
    origin: str

    async def grant(self) -> Credential:
        """A token that has not expired. Raises CredentialsError."""
        name = f"{self.origin}: auth-provider {self.settings.get('name')}"
        renewal = Program(
            argv=(sys.executable, "-P", "-m", __name__),
            environment=os.environ,
            given=json.dumps({"settings": self.settings, "folder": str(self.folder)}, default=str).encode(),
        )
        try:
            ended = await program.run(renewal, deadline=DEADLINE)
        except (OSError, ProgramError) as error:
            raise CredentialsError(f"{name} {error}") from error
        if ended.failure:
            raise CredentialsError(f"{name} {ended.failure}")
        answer = json.loads(ended.output)
        self.settings = answer["settings"]
        return Credential(headers={"Authorization": answer["authorization"]}, expires=answer["expires"])


def main() -> None:
    """Answer one request."""
    # Here, because the operator's own process needs none of them. certifi comes with the official client.
    import certifi  # noqa: PLC0415
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import ConfigException, load_kube_config_from_dict  # noqa: PLC0415

    request = json.load(sys.stdin)
    settings = _complete(
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
    except Exception as error:  # noqa: BLE001 - of requests, oauthlib, urllib3, ...: whatever the client lets through
        sys.exit(f"{type(error).__name__}: {error}")
    authorization = configuration.api_key.get("BearerToken")
    if not authorization or authorization == f"Bearer {_EXPIRED}":
        sys.exit("is not supported or gave no token")
    expires = _expiry(settings)
    if expires is not None and expires <= datetime.now(UTC).timestamp():
        sys.exit("gave no new token, and the old one has expired")
    json.dump({"authorization": authorization, "expires": expires, "settings": settings}, sys.stdout, default=str)


def _complete(settings: dict[str, Any], folder: Path, authorities: str) -> dict[str, Any]:
    """The entry with what the official client takes for granted."""
    if settings.get("name") != "oidc":
        return settings
    config = {"id-token": _EXPIRED, **(settings.get("config") or {})}
    named = config.get("idp-certificate-authority")
    config["idp-certificate-authority"] = str(folder / named) if named else authorities
    return {**settings, "config": config}


def _expiry(settings: Mapping[str, Any]) -> float | None:
    """Seconds since 1970, None where the entry doesn't say it."""
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

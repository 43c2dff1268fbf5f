"""The programs that give credentials: the exec plugins of a kubeconfig, and the official client for its `auth-provider`
entries.

As a program, this module reads an entry from standard input. It prints the token, its expiry and the renewed entry.

Promises:
- The operator runs plugins of v1 and v1beta1 as client-go does: `KUBERNETES_EXEC_INFO`, `interactiveMode`,
  `provideClusterInfo`, tokens, client certificates and their expiry.
- The operator ends a plugin that does not answer in time, with every process that the plugin started.
- An error names the plugin and ends with the plugin's standard error.
- The official client runs in a process of its own, because its import would double the start time of the operator,
  and its requests block without a deadline.
- The client verifies the identity provider's certificate, even if the kubeconfig names no certificate authority.
- The process gets the entry neither as an argument nor in its environment, and no error shows a token.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
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
from ssa_operator.kube.auth.server_config import Certificate, CredentialsError, FetchedCredential, header_value
from ssa_operator.objects.json_codec import decode_text

DEADLINE = 120.0
"""Seconds for a plugin to answer; it may ask the user to log in."""

_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """The `exec` entry of a kubeconfig user."""

    settings: Mapping[str, Any] = field(repr=False)

    folder: Path
    """A relative `command` is relative to it."""

    cluster: Mapping[str, Any] = field(repr=False)
    """The cluster that the plugin gets with `provideClusterInfo`."""

    origin: str
    """The kubeconfig and the user, for errors."""

    @property
    def _command(self) -> str:
        return str(self.settings.get("command") or "")

    @property
    def _name(self) -> str:
        return f"{self.origin}: exec plugin {self._command}"

    async def fetch(self) -> FetchedCredential:
        """Run the plugin and return the token or certificate that it prints. Raises CredentialsError."""
        plugin = self._program(terminal=sys.stdin is not None and sys.stdin.isatty())
        try:
            output = await program.run(plugin, deadline=DEADLINE)
        except FileNotFoundError as error:
            hint = f"; {self.settings['installHint']}" if self.settings.get("installHint") else ""
            raise CredentialsError(f"{self._name} is not installed{hint}") from error
        except ProgramError as error:
            raise CredentialsError(f"{self._name} {error}") from error
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            raise CredentialsError(f"{self._name} can't be run: {error}") from error
        return self._read(output)

    def _program(self, *, terminal: bool) -> Program:
        version = self.settings.get("apiVersion")
        if version not in _API_VERSIONS:
            raise CredentialsError(f"{self._name}: apiVersion {version!r} is not supported; use one of {_API_VERSIONS}")
        if not self._command:
            raise CredentialsError(f"{self.origin}: exec has no command")
        interactive = self._is_interactive(terminal=terminal)
        spec: dict[str, Any] = {"interactive": interactive}
        if self.settings.get("provideClusterInfo"):
            spec["cluster"] = dict(self.cluster)
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
        try:
            variables = {str(each["name"]): str(each["value"]) for each in self.settings.get("env") or ()}
            arguments = [str(each) for each in self.settings.get("args") or ()]
        except (TypeError, KeyError) as error:
            raise CredentialsError(f"{self._name}: args must be a list, and env a list of name and value") from error
        command = str(self.folder / self._command) if os.sep in self._command else self._command
        return Program(
            argv=(command, *arguments),
            environment={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            interactive=interactive,
        )

    def _is_interactive(self, *, terminal: bool) -> bool:
        mode = self.settings.get("interactiveMode") or "IfAvailable"
        if mode not in ("Never", "IfAvailable", "Always"):
            raise CredentialsError(f"{self._name}: interactiveMode {mode!r} must be Never, IfAvailable or Always")
        if mode == "Always" and not terminal:
            raise CredentialsError(f"{self._name} needs a terminal (interactiveMode: Always), and there is none")
        return terminal and mode != "Never"

    def _read(self, output: bytes) -> FetchedCredential:
        try:
            answer = decode_text(output.decode())
        except ValueError:
            raise CredentialsError(f"{self._name} printed no JSON to standard output") from None
        status = answer.get("status") if isinstance(answer, dict) else None
        if not isinstance(status, dict) or answer.get("kind") != "ExecCredential":
            raise CredentialsError(f"{self._name} printed no ExecCredential with a status")
        if answer.get("apiVersion") != self.settings["apiVersion"]:
            raise CredentialsError(
                f"{self._name} answered in {answer.get('apiVersion')!r}; expected {self.settings['apiVersion']}"
            )
        token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        if bool(certificate) != bool(key) or not (token or certificate):
            raise CredentialsError(f"{self._name} gave neither a token nor a client certificate with its key")
        return FetchedCredential(
            headers={"Authorization": header_value(f"Bearer {str(token).strip()}", f"{self._name}: the token")}
            if token
            else {},
            certificate=Certificate(certificate=str(certificate).encode(), key=str(key).encode())
            if certificate
            else None,
            expires=self._expiry(status.get("expirationTimestamp")),
        )

    def _expiry(self, text: object) -> float | None:
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(str(text))
        except ValueError:
            raise CredentialsError(f"{self._name}: expirationTimestamp {text!r} is not a time") from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


PROVIDER_DEADLINE = 60.0
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
            answer = json.loads(await program.run(renewal, deadline=PROVIDER_DEADLINE))
        except (OSError, ProgramError) as error:
            raise CredentialsError(f"{name} {error}") from error
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

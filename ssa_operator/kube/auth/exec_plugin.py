"""Runs the exec plugins of a kubeconfig: programs that print credentials, by the API client.authentication.k8s.io.

Promises:
- The operator runs plugins of v1 and v1beta1 as client-go does: `KUBERNETES_EXEC_INFO`, `interactiveMode`,
  `provideClusterInfo`, tokens, client certificates and their expiry.
- The operator ends a plugin that does not answer in time, with every process that the plugin started.
- An error names the plugin and ends with the plugin's standard error.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ssa_operator.kube.auth import child_process as program
from ssa_operator.kube.auth.child_process import Program, ProgramError
from ssa_operator.kube.auth.credential_types import Certificate, CredentialsError, FetchedCredential, header_value
from ssa_operator.objects.json_decoding import decode_text

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
            completed = await program.run(plugin, deadline=DEADLINE)
        except FileNotFoundError as error:
            hint = f"; {self.settings['installHint']}" if self.settings.get("installHint") else ""
            raise CredentialsError(f"{self._name} is not installed{hint}") from error
        except ProgramError as error:
            raise CredentialsError(f"{self._name} {error}") from error
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            raise CredentialsError(f"{self._name} can't be run: {error}") from error
        if completed.failure:
            raise CredentialsError(f"{self._name} {completed.failure}")
        return self._read(completed.output)

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

"""Kubeconfig files as kubectl reads them.

Promises:
- Of several files, the first to set a value wins, `current-context` included; a relative path is relative to its file.
- Token and certificate files are read again each time; exec plugins and the providers oidc and gcp are run again.
- What is missing or wrong is told with the file and the field; contents of credentials are not.

Left out: `provideClusterInfo` of exec plugins, and proxies other than http and https.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import yaml

from ssa_operator.kube.grant import Certificate, CredentialsError, Endpoint, Grant, Source, Trust
from ssa_operator.kube.official import config
from ssa_operator.kube.proxy import proxy_for
from ssa_operator.kube.trust import Authority

PLUGIN_DEADLINE = 120.0
"""Seconds for an exec plugin, which may ask somebody to log in."""


def exists(paths: str) -> bool:
    """Whether any of the files is there; `paths` is separated as in KUBECONFIG."""
    return any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path)


def read(paths: str, context: str | None) -> tuple[Endpoint, Source, Trust]:
    """The server, user and trust of a context, None for the current one. Raises CredentialsError."""
    modules = config()
    try:
        merger = modules.kube_config.KubeConfigMerger(paths)
    except OSError as error:
        raise CredentialsError(f"the kubeconfig can't be read: {error}") from error
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, TypeError, KeyError) as error:
        raise CredentialsError(f"{paths} is no kubeconfig: {_without_content(error)}") from None
    if merger.config is None:
        raise CredentialsError(
            f"there is no kubeconfig at {paths} and this is no pod with a service account; "
            "name one with --kubeconfig or KUBECONFIG, or start a local cluster with `ssa-operator cluster start`"
        )
    name = context or _current_context(merger.config_files)
    if not name:
        raise CredentialsError(f"{paths} has no current-context; choose one with --context")
    try:
        return _entry(merger.config, name, paths)
    except modules.config_exception.ConfigException as error:
        raise CredentialsError(f"{paths}: {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise CredentialsError(f"{paths}: context {name}: {_without_content(error)}") from None


def _without_content(error: Exception) -> str:
    """The words of a YAML error without its excerpt of the file, which may hold a token."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem} in line {error.problem_mark.line + 1}"
    return type(error).__name__ if isinstance(error, KeyError | UnicodeDecodeError) else str(error)


def _current_context(files: Mapping[str, Mapping[str, Any]]) -> str:
    return next((str(each["current-context"]) for each in files.values() if each.get("current-context")), "")


def _entry(merged: Any, name: str, paths: str) -> tuple[Endpoint, User, Trust]:
    chosen = merged["contexts"].get_with_name(name)["context"]
    cluster_node = merged["clusters"].get_with_name(chosen["cluster"])
    cluster = cluster_node["cluster"].value
    origin = f"{cluster_node.path}: cluster {chosen['cluster']}"
    server = str(cluster.get("server") or "").rstrip("/")
    if urlsplit(server).scheme not in ("http", "https"):
        raise CredentialsError(f"{origin}: server {server!r} is no http or https URL")
    proxy = cluster.get("proxy-url") or proxy_for(server, os.environ)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise CredentialsError(f"{origin}: proxy {proxy!r} is not supported; only http and https proxies are")
    endpoint = Endpoint(
        server=server,
        namespace=chosen.safe_get("namespace") or "default",
        context=name,
        proxy=proxy,
        tls_server_name=cluster.get("tls-server-name"),
    )
    user = _user(merged, name, chosen.safe_get("user"), paths)
    return endpoint, user, _trust(cluster, Path(cluster_node.path).parent, origin)


def _user(merged: Any, context: str, name: str | None, paths: str) -> User:
    node = merged["users"].get_with_name(name) if name else None
    if node is None:
        return User(settings={}, folder=Path(), origin=f"{paths}: no user", merged=merged, context=context)
    return User(
        settings=node.value.get("user") or {},
        folder=Path(node.path).absolute().parent,
        origin=f"{node.path}: user {name}",
        merged=merged,
        context=context,
    )


def _trust(cluster: Mapping[str, Any], folder: Path, origin: str) -> Trust:
    if not str(cluster["server"]).startswith("https"):
        return lambda certificate: None  # noqa: ARG005 - plain http shows no certificate
    pem = _content(cluster, "certificate-authority", folder, origin) or b""
    return Authority(origin, pem.decode("ascii", "ignore"), verify=not cluster.get("insecure-skip-tls-verify", False))


def _content(settings: Mapping[str, Any], name: str, folder: Path, origin: str) -> bytes | None:
    """What `<name>-data` holds, else what the file `<name>` holds."""
    if settings.get(f"{name}-data"):
        try:
            return base64.b64decode(settings[f"{name}-data"], validate=False)
        except (ValueError, TypeError):
            raise CredentialsError(f"{origin}: {name}-data is not base64") from None
    if not settings.get(name):
        return None
    path = folder / settings[name]
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CredentialsError(f"{origin}: {name}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One `users` entry of a kubeconfig. `folder` is what its relative paths are relative to."""

    settings: Mapping[str, Any] = field(repr=False)
    folder: Path
    origin: str
    merged: Any = field(repr=False)
    context: str

    @property
    def renewable(self) -> bool:
        return any(key in self.settings for key in ("exec", "tokenFile", "auth-provider", "client-certificate"))

    async def grant(self) -> Grant:
        """Headers and client certificate as they are now. Raises CredentialsError."""
        if "exec" in self.settings:
            grant = await self._run_plugin()
        elif "auth-provider" in self.settings:
            grant = Grant(headers=await self._ask_provider())
        else:
            grant = Grant(headers=self._static())
        return Grant(
            headers={**grant.headers, **self._impersonation()},
            certificate=grant.certificate or self._certificate(),
            expires=grant.expires,
        )

    def _static(self) -> dict[str, str]:
        # client-go: where both are given, the file wins over the value.
        if path := self.settings.get("tokenFile"):
            try:
                token = (self.folder / path).read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise CredentialsError(f"{self.origin}: tokenFile: {error}") from error
            if not token:
                raise CredentialsError(f"{self.origin}: tokenFile {self.folder / path} is empty")
            return {"Authorization": f"Bearer {token}"}
        if token := str(self.settings.get("token") or "").strip():
            return {"Authorization": f"Bearer {token}"}
        if "username" in self.settings and "password" in self.settings:
            pair = f"{self.settings['username']}:{self.settings['password']}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return {}

    def _certificate(self) -> Certificate | None:
        certificate = _content(self.settings, "client-certificate", self.folder, self.origin)
        key = _content(self.settings, "client-key", self.folder, self.origin)
        if certificate is None and key is None:
            return None
        if certificate is None or key is None:
            raise CredentialsError(f"{self.origin}: client-certificate and client-key need each other")
        return Certificate(certificate=certificate, key=key)

    def _impersonation(self) -> dict[str, str]:
        names = {"as": "Impersonate-User", "as-uid": "Impersonate-Uid"}
        if self.settings.get("as-groups") or self.settings.get("as-user-extra"):
            raise CredentialsError(f"{self.origin}: as-groups and as-user-extra are not supported; use as alone")
        return {header: str(self.settings[key]) for key, header in names.items() if self.settings.get(key)}

    async def _run_plugin(self) -> Grant:
        modules = config()
        settings = dict(self.settings["exec"])
        command = str(settings.get("command", ""))
        if os.sep in command:
            settings["command"] = str(self.folder / command)
        try:
            provider = modules.exec_provider.ExecProvider(modules.kube_config.ConfigNode("exec", settings))
            async with asyncio.timeout(PLUGIN_DEADLINE):
                status = await provider.run()
        except TimeoutError:
            raise CredentialsError(
                f"{self.origin}: exec plugin {command} gave no answer in {PLUGIN_DEADLINE:g} s"
            ) from None
        except FileNotFoundError as error:
            hint = f"; {settings['installHint']}" if settings.get("installHint") else ""
            raise CredentialsError(f"{self.origin}: exec plugin {command} is not installed{hint}") from error
        except (OSError, modules.config_exception.ConfigException) as error:
            raise CredentialsError(f"{self.origin}: exec plugin {command}: {error}") from error
        return self._plugin_grant(command, status)

    def _plugin_grant(self, command: str, status: Mapping[str, Any]) -> Grant:
        token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        if not token and not (certificate and key):
            raise CredentialsError(
                f"{self.origin}: exec plugin {command} gave neither a token nor a client certificate with its key"
            )
        return Grant(
            headers={"Authorization": f"Bearer {str(token).strip()}"} if token else {},
            certificate=Certificate(certificate=certificate.encode(), key=key.encode())
            if certificate and key
            else None,
            expires=self._expiry(command, status.get("expirationTimestamp")),
        )

    def _expiry(self, command: str, text: str | None) -> float | None:
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise CredentialsError(
                f"{self.origin}: exec plugin {command}: expirationTimestamp {text!r} is no time"
            ) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    async def _ask_provider(self) -> dict[str, str]:
        modules = config()
        loader = modules.kube_config.KubeConfigLoader(self.merged, active_context=self.context, config_base_path=None)
        settings = SimpleNamespace(api_key={})
        try:
            await loader.load_and_set(settings)
        except (modules.config_exception.ConfigException, OSError, ValueError, KeyError) as error:
            raise CredentialsError(f"{self.origin}: auth-provider {loader.provider}: {error}") from error
        token = settings.api_key.get("BearerToken")
        if not token:
            raise CredentialsError(f"{self.origin}: auth-provider {loader.provider} is not supported or gave no token")
        return {"Authorization": token}

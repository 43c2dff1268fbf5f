"""Reads kubeconfig files as kubectl does.

Promises:
- The first file that sets a value wins, `current-context` included. A relative path is relative to its file.
- Every fetch reads token and certificate files again, and runs exec plugins and the providers oidc and gcp again.
- An error names the file and the field, and never shows a credential.
- Any file is a kubeconfig or an error: neither deep nesting nor aliases that multiply exceed a limit of memory.
- The server's certificate is verified unless `insecure-skip-tls-verify` is true; no other value than true and false is
  accepted.

Not supported: proxies other than http and https.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from ssa_operator.kube.auth.credential_plugins import AuthProvider, ExecPlugin
from ssa_operator.kube.auth.server_config import (
    Certificate,
    CredentialProvider,
    CredentialsError,
    FetchedCredential,
    ServerConfig,
    TLSConfig,
    TLSContextFactory,
    header_value,
    proxy_for,
)

_CLUSTER_EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a `clusters` entry whose value exec plugins get."""

_DEPTH_LIMIT = 100

_VALUES_LIMIT = 1_000_000
"""Keys and values: those of 30 000 contexts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One item of `contexts`, `clusters` or `users`, and the file that it is from."""

    file: Path
    values: Mapping[str, Any] = field(repr=False)

    @property
    def folder(self) -> Path:
        return self.file.absolute().parent


@dataclass(slots=True)
class _Merged:
    """The merged kubeconfigs."""

    current_context: str = ""

    entries: dict[tuple[str, str], _Entry] = field(default_factory=dict, repr=False)
    """By list (`users`) and name."""

    def entry(self, kind: str, name: object, paths: str) -> _Entry:
        found = self.entries.get((kind, str(name)))
        if found is None:
            names = ", ".join(each for listed, each in self.entries if listed == kind)
            raise CredentialsError(f"{paths} has no {kind} entry {name}; it has {names or 'none'}")
        return found


def exists(paths: str) -> bool:
    """Whether any of the files exists. `paths` is separated as in KUBECONFIG."""
    return bool(_files(paths))


def contexts(paths: str) -> list[str]:
    """The names of all contexts of some files. Raises CredentialsError."""
    merged = _Merged()
    for file in _files(paths):
        _merge(file, merged)
    return [name for kind, name in merged.entries if kind == "contexts"]


def read(paths: str, context: str | None) -> tuple[ServerConfig, CredentialProvider, TLSContextFactory]:
    """The server, credentials and TLS settings of a context, None for the current one. Raises CredentialsError."""
    files = _files(paths)
    if not files:
        raise CredentialsError(
            f"there is no kubeconfig at {paths}, and this is not a pod with a service account; "
            "name a kubeconfig with --kubeconfig or KUBECONFIG, or start a local cluster with "
            "`ssa-operator cluster start`, which prints the KUBECONFIG to export"
        )
    merged = _Merged()
    if not [file for file in files if _merge(file, merged)]:
        raise CredentialsError(f"{paths} is not a kubeconfig: it is empty")
    name = context or merged.current_context
    if not name:
        raise CredentialsError(f"{paths} has no current-context; choose one with --context")
    try:
        return _context(merged, name, paths)
    except (AttributeError, TypeError, ValueError) as error:
        raise CredentialsError(f"{paths}: context {name}: {error}") from None


def _files(paths: str) -> list[Path]:
    named = (Path(path).expanduser() for path in paths.split(os.pathsep) if path)
    return [path for path in named if path.exists()]


def _merge(file: Path, merged: _Merged) -> bool:
    """Add the values that no earlier file has set. Returns whether the file has any content."""
    try:
        body = _parsed(file.read_bytes())
        if body is None:
            return False
        if not isinstance(body, dict):
            raise TypeError("it is not a mapping")
        merged.current_context = merged.current_context or str(body.get("current-context") or "")
        for kind, value in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            for item in body.get(kind) or ():
                entry = _Entry(file=file, values=item.get(value) or {})
                merged.entries.setdefault((kind, str(item["name"])), entry)
    except OSError as error:
        raise CredentialsError(f"the kubeconfig can't be read: {error}") from error
    except KeyError as error:
        raise CredentialsError(f"{file} is not a kubeconfig: an entry of {kind} has no {error}") from None
    except (yaml.YAMLError, AttributeError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise CredentialsError(f"{file} is not a kubeconfig: {_without_content(error)}") from None
    return True


class _SizeError(ValueError):
    """A file is too large or too deep."""


def _parsed(data: bytes) -> Any:
    """The content of a file. Raises _SizeError and the errors of the YAML parser, which has no limits of its own."""
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    count = 0
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.AliasEvent):
            count += sizes.get(event.anchor or "", 0)
        elif isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append((event.anchor, count))
            count += 1
        if len(opened) > _DEPTH_LIMIT:
            raise _SizeError(f"it is nested deeper than {_DEPTH_LIMIT} levels")
        if count > _VALUES_LIMIT:
            raise _SizeError(f"it has more than {_VALUES_LIMIT} values with its aliases expanded")
    return yaml.load(data, Loader=yaml.CSafeLoader)  # libyaml's safe loader


def _without_content(error: Exception) -> str:
    """The text of a YAML error without its excerpt of the file, which may have a token."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem} in line {error.problem_mark.line + 1}"
    if isinstance(error, _SizeError | AttributeError | TypeError):
        return str(error)
    return "it has a character or a value that a kubeconfig can't have"


def _context(merged: _Merged, name: str, paths: str) -> tuple[ServerConfig, KubeconfigUser, TLSContextFactory]:
    chosen = merged.entry("contexts", name, paths).values
    entry = merged.entry("clusters", chosen.get("cluster"), paths)
    cluster, origin = entry.values, f"{entry.file}: cluster {chosen['cluster']}"
    server = str(cluster.get("server") or "").rstrip("/")
    if urlsplit(server).scheme not in ("http", "https"):
        raise CredentialsError(f"{origin}: server {server!r} is not an http or https URL")
    proxy = cluster.get("proxy-url") or proxy_for(server, os.environ)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise CredentialsError(f"{origin}: proxy {proxy!r} is not supported; only http and https proxies are")
    config = ServerConfig(
        server=server,
        namespace=chosen.get("namespace") or "default",
        context=name,
        proxy=proxy,
        tls_server_name=cluster.get("tls-server-name"),
    )
    authority = _content(cluster, "certificate-authority", entry.folder, origin) or b""
    user = _user(merged, chosen.get("user"), paths, _cluster_info(cluster, server, authority))
    return config, user, _tls_config(entry, server, authority, origin)


def _user(merged: _Merged, name: str | None, paths: str, cluster: Mapping[str, Any]) -> KubeconfigUser:
    if not name:
        return KubeconfigUser(settings={}, folder=Path(), origin=f"{paths}: no user")
    entry = merged.entry("users", name, paths)
    settings, folder, origin = entry.values, entry.folder, f"{entry.file}: user {name}"
    if "exec" in settings:
        plugin = ExecPlugin(settings=settings["exec"] or {}, folder=folder, cluster=cluster, origin=origin)
        return KubeconfigUser(settings=settings, folder=folder, origin=origin, provider=plugin)
    if "auth-provider" in settings:
        auth_provider = AuthProvider(settings=settings["auth-provider"] or {}, folder=folder, origin=origin)
        return KubeconfigUser(settings=settings, folder=folder, origin=origin, provider=auth_provider)
    return KubeconfigUser(settings=settings, folder=folder, origin=origin)


def _cluster_info(cluster: Mapping[str, Any], server: str, authority: bytes) -> Mapping[str, Any]:
    """`spec.cluster` of the ExecCredential that an exec plugin gets."""
    extensions = cluster.get("extensions") or ()
    info = {
        "server": server,
        "tls-server-name": cluster.get("tls-server-name"),
        "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": cluster.get("proxy-url"),
        "disable-compression": cluster.get("disable-compression"),
        "config": next((each.get("extension") for each in extensions if each.get("name") == _CLUSTER_EXTENSION), None),
    }
    return {key: value for key, value in info.items() if value}


def _tls_config(entry: _Entry, server: str, authority: bytes, origin: str) -> TLSContextFactory:
    if not server.startswith("https"):
        return lambda certificate: None  # noqa: ARG005 - plain http has no certificate
    cluster = entry.values
    skip = cluster.get("insecure-skip-tls-verify") or False
    if not isinstance(skip, bool):
        raise CredentialsError(f"{origin}: insecure-skip-tls-verify must be true or false, without quotes")
    named = "" if cluster.get("certificate-authority-data") else cluster.get("certificate-authority")
    file = entry.folder / named if named else None
    return TLSConfig(origin, authority.decode("ascii", "ignore"), file=file, verify=not skip)


def _content(settings: Mapping[str, Any], name: str, folder: Path, origin: str) -> bytes | None:
    """The bytes of `<name>-data`, else of the file `<name>`, else None."""
    if settings.get(f"{name}-data"):
        try:
            found = base64.b64decode("".join(settings[f"{name}-data"].split()), validate=True)
        except (AttributeError, ValueError, TypeError):
            found = b""
        if not found:
            # Without authorities of its own, the TLS context would trust those of the system.
            raise CredentialsError(f"{origin}: {name}-data is not base64")
        return found
    if not settings.get(name):
        return None
    try:
        return Path(folder, settings[name]).read_bytes()
    except (OSError, TypeError, ValueError) as error:  # the last two for a path that is a number, or has a NUL
        raise CredentialsError(f"{origin}: {name}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigUser:
    """One `users` entry of a kubeconfig."""

    settings: Mapping[str, Any] = field(repr=False)

    folder: Path
    """A relative path in the entry is relative to it."""

    origin: str
    """The kubeconfig and the user, for errors."""

    provider: ExecPlugin | AuthProvider | None = None
    """The program that provides the credential, None if it is in the kubeconfig or in files."""

    @property
    def renewable(self) -> bool:
        return self.provider is not None or any(key in self.settings for key in ("tokenFile", "client-certificate"))

    async def fetch(self) -> FetchedCredential:
        """The present headers and client certificate. Raises CredentialsError."""
        fetched = await self.provider.fetch() if self.provider else FetchedCredential(headers=self._static_headers())
        headers = {**fetched.headers, **self._impersonation_headers()}
        for name, value in headers.items():
            header_value(value, f"{self.origin}: the value of {name}")
        return FetchedCredential(
            headers=headers,
            certificate=fetched.certificate or self._certificate(),
            expires=fetched.expires,
        )

    def _static_headers(self) -> dict[str, str]:
        # As in client-go, the file wins over the value.
        if path := self.settings.get("tokenFile"):
            try:
                token = (self.folder / path).read_text().strip()
            except (OSError, TypeError, ValueError) as error:  # as in _content
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

    def _impersonation_headers(self) -> dict[str, str]:
        names = {"as": "Impersonate-User", "as-uid": "Impersonate-Uid"}
        if self.settings.get("as-groups") or self.settings.get("as-user-extra"):
            raise CredentialsError(f"{self.origin}: as-groups and as-user-extra are not supported; use as alone")
        return {header: str(self.settings[key]) for key, header in names.items() if self.settings.get(key)}

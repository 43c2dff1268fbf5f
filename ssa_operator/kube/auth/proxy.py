"""Chooses the proxy for an API server by the environment variables, as kubectl does.

Promises:
- HTTPS_PROXY applies to https, HTTP_PROXY to http, and NO_PROXY names hosts, domains, addresses and CIDRs
  (golang.org/x/net/http/httpproxy).
- The environment's proxy never applies to `localhost` and loopback addresses; a kubeconfig's `proxy-url` does.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(server: str, environment: Mapping[str, str]) -> str | None:
    """The URL of the proxy for an API server's URL, None for a direct connection."""
    url = urlsplit(server)
    host = (url.hostname or "").rstrip(".")
    port = url.port or (443 if url.scheme == "https" else 80)
    proxy = _variable(environment, f"{url.scheme}_proxy")
    if not proxy or _is_loopback(host) or _is_excluded(host, port, _variable(environment, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_excluded(host: str, port: int, no_proxy: str) -> bool:
    return any(_excludes(entry.strip().lower(), host.lower(), port) for entry in no_proxy.split(","))


def _excludes(entry: str, host: str, port: int) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            network = ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
        return address is not None and address in network
    name, colon, wanted = entry.rpartition(":")
    if colon and wanted.isdigit() and (":" not in name or name.startswith("[")):
        if int(wanted) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    if address is not None:
        return _address(entry) == address
    if entry.startswith("*."):
        entry = entry[1:]
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")

"""What the API server requires of Ingresses, IngressClasses and NetworkPolicies.

The rules are those of k8s.io/kubernetes (pkg/apis/networking/validation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.built_in_rules.constraints import (
    PORT,
    at_most,
    choice,
    every,
    exactly_one,
    fields,
    is_integer,
    is_missing,
    item_choices,
    item_texts,
    items,
    longest,
    required,
    set_choice,
    set_text,
    text,
)
from ssa_operator.schema.built_in_rules.text_rules import (
    PORT_NAME,
    SEGMENT,
    SELECTOR,
    SERVICE_NAME,
    SUBDOMAIN,
    domain_path_faults,
    is_address,
    network_faults,
    network_of,
    port_or_name,
)
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at
from ssa_operator.schema.metadata_validation import label_faults, subdomain_faults

_BACKEND = fields(
    {
        "service": fields(
            {
                "name": SERVICE_NAME,
                "port": fields({"name": PORT_NAME, "number": PORT}),
            },
            required("name"),
        ),
        "resource": fields(
            {"apiGroup": set_text(subdomain_faults), "kind": SEGMENT, "name": SEGMENT}, required("kind", "name")
        ),
    },
    exactly_one("service", "resource", what="backend"),
)


def _backend_port(value: Any, path: FieldPath) -> Iterator[FieldError]:
    service = value.get("service") if isinstance(value, Mapping) else None
    if not isinstance(service, Mapping):
        return
    port = service.get("port")
    found = [name for name in ("name", "number") if isinstance(port, Mapping) and port.get(name) not in (None, "", 0)]
    at = (*path, "service", "port")
    if not found and (port is None or isinstance(port, Mapping)):
        yield error_at(at, detail="port name or number is required", kind=ErrorType.REQUIRED)
    elif len(found) > 1:
        yield error_at(at, port, "cannot set both port name & port number")


BACKEND = every(_BACKEND, _backend_port)
_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_ENDS = ("/..", "/.")


def _http_path(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    kind, found = value.get("pathType"), value.get("path")
    at = (*path, "path")
    given = found or ""
    if kind in ("Exact", "Prefix") and isinstance(given, str):
        if not given.startswith("/"):
            yield error_at(at, given, "must be an absolute path")
        for part in (each for each in _PARTS if each in given):
            yield error_at(at, given, f"must not contain '{part}'")
        for end in (each for each in _ENDS if given.endswith(each)):
            yield error_at(at, given, f"cannot end with '{end}'")
    elif kind == "ImplementationSpecific" and isinstance(given, str) and given and not given.startswith("/"):
        yield error_at(at, given, "must be an absolute path")


def _host_faults(host: str) -> list[str]:
    if is_address(host):
        return ["must be a DNS name, not an IP address"]
    if "*" in host:
        inner = host.removeprefix("*.")
        words = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain"
        return [] if host.startswith("*.") and not subdomain_faults(inner) else [words]
    return subdomain_faults(host)


def _rules(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and not value.get("rules") and value.get("defaultBackend") is None:
        yield error_at(path, value, "either `defaultBackend` or `rules` must be specified")


INGRESS = fields(
    {
        "spec": fields(
            {
                "ingressClassName": set_text(subdomain_faults),
                "defaultBackend": BACKEND,
                "tls": items(fields({"secretName": SUBDOMAIN, "hosts": item_texts(_host_faults)})),
                "rules": items(
                    fields(
                        {
                            "host": text(_host_faults),
                            "http": fields(
                                {
                                    "paths": items(
                                        fields(
                                            {
                                                "pathType": choice("Exact", "ImplementationSpecific", "Prefix"),
                                                "backend": BACKEND,
                                            },
                                            required("pathType", detail="pathType must be specified"),
                                            required("backend"),
                                            _http_path,
                                        )
                                    )
                                },
                                required("paths"),
                            ),
                        }
                    )
                ),
            },
            _rules,
        )
    },
    structs=("spec",),
)


def _parameters(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    scope = value.get("scope") or "Cluster"
    if scope == "Namespace" and is_missing(value.get("namespace")):
        words = "`parameters.scope` is set to 'Namespace'"
        yield error_at((*path, "namespace"), detail=words, kind=ErrorType.REQUIRED)
    elif scope == "Cluster" and value.get("namespace") is not None:
        words = "`parameters.scope` is set to 'Cluster'"
        yield error_at((*path, "namespace"), detail=words, kind=ErrorType.FORBIDDEN)


INGRESS_CLASS = fields(
    {
        "spec": fields(
            {
                "controller": every(text(domain_path_faults), longest(250)),
                "parameters": fields(
                    {
                        "scope": choice("Cluster", "Namespace"),
                        "apiGroup": set_text(subdomain_faults),
                        "namespace": text(label_faults),
                        "kind": SEGMENT,
                        "name": SEGMENT,
                    },
                    required("kind", "name"),
                    _parameters,
                ),
            },
            required("controller"),
        )
    },
    structs=("spec",),
)

# ---- network policies


def _except(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    cidr, excluded = value.get("cidr"), value.get("except")
    outer = network_of(cidr) if isinstance(cidr, str) else None
    for position, each in enumerate(excluded if isinstance(excluded, list) else ()):
        if not isinstance(each, str):
            continue
        at, inner = (*path, "except", position), network_of(each)
        if inner is None:
            yield from (error_at(at, each, words) for words in network_faults(each))
        elif outer is not None:
            smaller = inner.prefixlen > outer.prefixlen and inner.version == outer.version
            if not smaller or inner.network_address not in outer:
                yield error_at(at, each, "must be a strict subset of `cidr`")


def _peer(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    selectors = [name for name in ("podSelector", "namespaceSelector") if value.get(name) is not None]
    if value.get("ipBlock") is not None and selectors:
        words = "may not specify both ipBlock and another peer"
        yield error_at(path, detail=words, kind=ErrorType.FORBIDDEN)
    elif value.get("ipBlock") is None and not selectors:
        words = "must specify a peer: podSelector, namespaceSelector or ipBlock"
        yield error_at(path, detail=words, kind=ErrorType.REQUIRED)


_PEERS = items(
    fields(
        {
            "podSelector": SELECTOR,
            "namespaceSelector": SELECTOR,
            "ipBlock": fields({"cidr": text(network_faults)}, required("cidr"), _except),
        },
        _peer,
    )
)


def _end_port(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping) or value.get("endPort") is None:
        return
    port, end = value.get("port"), value["endPort"]
    at = (*path, "endPort")
    if port is None:
        yield error_at(at, detail="may not be specified when `port` is not specified", kind=ErrorType.INVALID)
    elif isinstance(port, str):
        yield error_at(at, end, "may not be specified when `port` is non-numeric")
    elif is_integer(port) and is_integer(end) and end < port:
        yield error_at(at, end, "must be greater than or equal to `port`")


_POLICY_PORTS = items(
    fields(
        {"protocol": set_choice("SCTP", "TCP", "UDP"), "port": port_or_name, "endPort": PORT},
        _end_port,
    )
)


def _policy_types(value: Any, path: FieldPath) -> Iterator[FieldError]:
    yield from every(item_choices("Egress", "Ingress"), at_most(2))(value, path)


NETWORK_POLICY = fields(
    {
        "spec": fields(
            {
                "podSelector": SELECTOR,
                "policyTypes": _policy_types,
                "ingress": items(fields({"from": _PEERS, "ports": _POLICY_PORTS})),
                "egress": items(fields({"to": _PEERS, "ports": _POLICY_PORTS})),
            }
        )
    }
)

"""What the API server requires of Services and EndpointSlices.

The rules are those of k8s.io/kubernetes (pkg/apis/core/validation, pkg/apis/discovery/validation).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.built_in_rules.constraints import (
    PORT,
    at_most,
    between,
    choice,
    every,
    fields,
    forbidden,
    is_integer,
    is_missing,
    item_choices,
    item_texts,
    items,
    required,
    set_choice,
    set_text,
    text,
    unique,
)
from ssa_operator.schema.built_in_rules.text_rules import (
    LABEL,
    address_faults,
    is_address,
    labels,
    network_faults,
    port_or_name,
)
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at
from ssa_operator.schema.metadata_validation import key_faults, label_faults, label_value_faults, subdomain_faults

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_SET_KEY = set_text(key_faults)


def _target_port(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """The port of a container, by number or name; 0 and '' are that of the Service."""
    if value not in (0, ""):
        yield from port_or_name(value, path)


def special_address_faults(value: str) -> list[str]:
    """What is wrong with the address of an endpoint."""
    if faults := address_faults(value):
        return faults
    found = ipaddress.ip_address(value)
    if found.is_unspecified:
        return [f"may not be unspecified ({value})"]
    if found.is_loopback:
        return ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]
    if found.is_link_local:
        return ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]
    link_local = found.is_multicast and (value.startswith("224.0.0.") or value.lower().startswith("ff02:"))
    return ["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"] if link_local else []


def _port_list(value: Any) -> list[Mapping[str, Any]]:
    ports = value.get("ports") if isinstance(value, Mapping) else None
    return [each for each in ports if isinstance(each, Mapping)] if isinstance(ports, list) else []


def _ports(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    ports, kind = _port_list(value), value.get("type") or "ClusterIP"
    headless = value.get("clusterIP") == "None"
    if not value.get("ports") and not headless and kind != "ExternalName":
        yield error_at((*path, "ports"), kind=ErrorType.REQUIRED)
    seen: set[tuple[Any, ...]] = set()
    node_ports: set[tuple[Any, ...]] = set()
    for position, port in enumerate(ports):
        at = (*path, "ports", position)
        protocol = str(port.get("protocol") or "TCP")
        key = (protocol, port.get("port") if is_integer(port.get("port")) else None)
        if len(ports) > 1 and not port.get("name"):
            yield error_at((*at, "name"), kind=ErrorType.REQUIRED)
        if key in seen and key[1] is not None:
            yield error_at(at, {"port": key[1], "protocol": protocol}, kind=ErrorType.DUPLICATE)
        seen.add(key)
        node = port.get("nodePort")
        if is_integer(node) and node:
            if kind == "ClusterIP":
                words = "may not be used when `type` is 'ClusterIP'"
                yield error_at((*at, "nodePort"), detail=words, kind=ErrorType.FORBIDDEN)
            if (protocol, node) in node_ports:
                yield error_at((*at, "nodePort"), node, kind=ErrorType.DUPLICATE)
            node_ports.add((protocol, node))


def _cluster_addresses(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    first, listed, kind = value.get("clusterIP"), value.get("clusterIPs"), value.get("type") or "ClusterIP"
    every_one = listed if isinstance(listed, list) else []
    if every_one and is_missing(first):
        yield error_at((*path, "clusterIP"), "", "must be the first of clusterIPs", ErrorType.REQUIRED)
    elif every_one and first != every_one[0]:
        yield error_at((*path, "clusterIPs"), listed, "first value must match `clusterIP`")
    found = every_one or ([first] if isinstance(first, str) and first else [])
    for position, address in enumerate(found):
        at = (*path, "clusterIPs", position) if every_one else (*path, "clusterIP")
        if not isinstance(address, str):
            continue
        if address == "None":
            if position or len(found) > 1:
                yield error_at(at, address, "must be empty, 'None', or a valid IP address")
            if kind in ("LoadBalancer", "NodePort"):
                yield error_at(at, address, f"may not be set to 'None' for {kind} services")
        elif not is_address(address):
            yield error_at(at, address, "must be empty, 'None', or a valid IP address")
    if kind == "ExternalName" and (found and found[0]):
        yield error_at(
            (*path, "clusterIPs"), detail="may not be set for ExternalName services", kind=ErrorType.FORBIDDEN
        )
    families = value.get("ipFamilies")
    if value.get("ipFamilyPolicy") == "SingleStack" and isinstance(families, list) and len(families) > 1:
        words = "may only hold up to 1 values when ipFamilyPolicy is SingleStack"
        yield error_at((*path, "ipFamilies"), families, words)


_EXTERNALS = ("NodePort", "LoadBalancer")


def _of_type(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        return
    kind = value.get("type") or "ClusterIP"
    if kind == "ExternalName":
        name = value.get("externalName")
        if is_missing(name):
            yield error_at((*path, "externalName"), kind=ErrorType.REQUIRED)
        elif isinstance(name, str):
            faults = subdomain_faults(name.removesuffix("."))
            yield from (error_at((*path, "externalName"), name, words) for words in faults)
        words = "may not be set for ExternalName services"
        yield from forbidden("ipFamilies", "ipFamilyPolicy", detail=words)(value, path)
    if kind != "LoadBalancer":
        words = "may only be used when `type` is 'LoadBalancer'"
        only = ("loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass")
        yield from forbidden(*only, detail=words)(value, path)
    policy = value.get("externalTrafficPolicy")
    if policy and kind not in _EXTERNALS and not value.get("externalIPs"):
        words = "may only be set for externally-accessible services"
        yield error_at((*path, "externalTrafficPolicy"), policy, words)
    port = value.get("healthCheckNodePort")
    if is_integer(port) and port and not (kind == "LoadBalancer" and policy == "Local"):
        words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield error_at((*path, "healthCheckNodePort"), port, words)


SERVICE = fields(
    {
        "spec": fields(
            {
                "type": choice("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
                "ports": every(
                    items(
                        fields(
                            {
                                "name": LABEL,
                                "port": PORT,
                                "protocol": choice(*_PROTOCOLS),
                                "targetPort": _target_port,
                                "appProtocol": _SET_KEY,
                            }
                        )
                    ),
                    unique("name"),
                ),
                "selector": labels,
                "sessionAffinity": choice("ClientIP", "None"),
                "sessionAffinityConfig": fields({"clientIP": fields({"timeoutSeconds": between(1, 86400)})}),
                "externalIPs": item_texts(special_address_faults),
                "loadBalancerSourceRanges": item_texts(lambda value: network_faults(value.strip())),
                "loadBalancerClass": _SET_KEY,
                "externalTrafficPolicy": choice("Cluster", "Local"),
                "internalTrafficPolicy": set_choice("Cluster", "Local"),
                "ipFamilyPolicy": set_choice("PreferDualStack", "RequireDualStack", "SingleStack"),
                "ipFamilies": every(item_choices("IPv4", "IPv6"), unique(), at_most(2)),
                "trafficDistribution": set_choice("PreferClose", "PreferSameNode", "PreferSameZone"),
            },
            _ports,
            _cluster_addresses,
            _of_type,
        )
    },
    structs=("spec",),
)


def _addresses(value: Any, path: FieldPath) -> Iterator[FieldError]:
    family, endpoints = value_at(value, ("addressType",)), value_at(value, ("endpoints",))
    for position, endpoint in enumerate(endpoints if isinstance(endpoints, list) else ()):
        addresses = endpoint.get("addresses") if isinstance(endpoint, Mapping) else None
        for inner, address in enumerate(addresses if isinstance(addresses, list) else ()):
            if not isinstance(address, str):
                continue
            at = (*path, "endpoints", position, "addresses", inner)
            if family == "FQDN":
                yield from (error_at(at, address, words) for words in subdomain_faults(address))
            elif family in ("IPv4", "IPv6"):
                other = is_address(address) and (":" in address) != (family == "IPv6")
                faults = [f"must be an {family} address"] if other else special_address_faults(address)
                yield from (error_at(at, address, words) for words in faults)


_ZONES = every(items(fields({"name": text(label_value_faults)})), unique("name"), at_most(8))


def _unnamed_ports(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """Only one port may have no name."""
    unnamed = [position for position, port in enumerate(_port_list(value)) if is_missing(port.get("name"))]
    for position in unnamed[1:]:
        yield error_at((*path, "ports", position, "name"), "", kind=ErrorType.DUPLICATE)


ENDPOINT_SLICE = fields(
    {
        "addressType": choice("FQDN", "IPv4", "IPv6"),
        "endpoints": every(
            items(
                fields(
                    {
                        "addresses": every(at_most(100), unique()),
                        "nodeName": set_text(subdomain_faults),
                        "hostname": set_text(label_faults),
                        "hints": fields({"forZones": _ZONES}),
                    },
                    required("addresses", detail="must contain at least 1 address"),
                )
            ),
            at_most(1000),
        ),
        "ports": every(
            items(fields({"name": LABEL, "protocol": set_choice(*_PROTOCOLS), "appProtocol": _SET_KEY})),
            unique("name"),
            at_most(20_000),
        ),
    },
    required("addressType"),
    _addresses,
    _unnamed_ports,
)

"""Kubernetes' own libraries of CEL: regular expressions, URLs, quantities, IP addresses, formats.

Promises:
- A text that is not a quantity, URL or address is an error of the rule, as in the API server.

https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-cel-libraries, k8s.io/apiserver (pkg/cel/library)
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from msgspec import Struct

from ssa_operator.objects.scalars import amount
from ssa_operator.schema.cel.values import (
    CHARACTERS,
    NONE,
    EvaluationError,
    NoSuchOverloadError,
    Optional,
    UncheckedError,
    spend,
    typed,
)
from ssa_operator.schema.field_errors import quoted
from ssa_operator.schema.metadata_validation import (
    dns1035_faults,
    key_faults,
    label_faults,
    label_value_faults,
    subdomain_faults,
)
from ssa_operator.schema.string_formats import go_pattern, is_format, is_request_uri

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


class Quantity(Struct, frozen=True):
    """A Kubernetes quantity."""

    amount: Decimal


class Format(Struct, frozen=True):
    """A format of strings."""

    name: str
    faults: Callable[[str], list[str]]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NoSuchOverloadError
    return value


# ---- regular expressions


_INSTRUCTIONS = 64
"""The instructions of a pattern that read a text in the time of one step each."""


def pattern_of(text: Any) -> Any:
    """A compiled pattern. Raises UncheckedError."""
    compiled = go_pattern(_text(text))
    if compiled is None:
        raise UncheckedError(f"the pattern {text}")
    return compiled


def spend_search(pattern: Any, length: int) -> None:
    """Count one search in this number of characters."""
    spend(length * pattern.programsize // (_INSTRUCTIONS * CHARACTERS))


def _find(text: Any, pattern: Any) -> str:
    compiled = pattern_of(pattern)
    spend_search(compiled, len(_text(text)))
    found = compiled.search(text)
    return found[0] if found else ""


def _find_all(text: Any, pattern: Any, count: int = -1) -> list[str]:
    compiled = pattern_of(pattern)
    spend_search(compiled, len(_text(text)))
    found: list[str] = []
    for each in compiled.finditer(text):
        if len(found) == count:
            break
        found.append(each[0])
        # The next search may read all that is left.
        spend()
        spend_search(compiled, len(text) - each.end())
    return found


# ---- URLs


def _url(text: Any) -> SplitResult:
    if not is_request_uri(_text(text)):
        fault = "invalid URI for request" if text else "empty url"
        raise EvaluationError(f"URL parse error during conversion from string: parse {quoted(text)}: {fault}")
    try:
        found: SplitResult = urlsplit(text)
        _ = found.port
    except ValueError as error:
        raise UncheckedError(f"the URL {text}") from error
    return found


_of_url = typed(SplitResult)


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def _hostname(url: SplitResult) -> str:
    host = _host(url)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(url: SplitResult) -> str:
    found = re.search(r":(\d*)$", _host(url))
    return found[1] if found else ""


def _query(url: SplitResult) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in parse_qsl(url.query, keep_blank_values=True):
        found.setdefault(key, []).append(value)
    return found


# ---- quantities


def _quantity(value: Any) -> Quantity:
    found = amount(_text(value))
    if found is None:
        raise EvaluationError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    return Quantity(found)


def _amount(value: Any) -> Decimal:
    if not isinstance(value, Quantity):
        raise NoSuchOverloadError
    return value.amount


def _whole(value: Any) -> int:
    found = _amount(value)
    if not _is_whole(value):
        raise EvaluationError("cannot convert value to integer")
    return int(found)


def _is_whole(value: Any) -> bool:
    found = _amount(value)
    return found == found.to_integral_value() and abs(found) < 2**63


def _added(sign: int) -> Callable[[Any, Any], Quantity]:
    def apply(value: Any, other: Any) -> Quantity:
        if isinstance(other, int) and not isinstance(other, bool):
            other = Quantity(Decimal(other))
        return Quantity(_amount(value) + sign * _amount(other))

    return apply


# ---- IP addresses


def _ip(value: Any) -> Address:
    if isinstance(value, Network):
        return value.ip
    try:
        found = ipaddress.ip_address(_text(value))
    except ValueError as error:
        raise EvaluationError(f'IP Address "{value}" parse error during conversion from string') from error
    if "%" in value:
        raise EvaluationError(f'IP address "{value}" with zone value is not allowed')
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{value}" is not allowed')
    return found


def _cidr(value: Any) -> Network:
    address, slash, length = _text(value).partition("/")
    words = "network address parse error during conversion from string"
    if not slash:
        raise EvaluationError(f"{words}: {words}: netip.ParsePrefix({quoted(value)}): no '/'")
    found = _ip(address)
    if not re.fullmatch(r"0|[1-9]\d{0,2}", length, re.ASCII) or int(length) > found.max_prefixlen:
        raise EvaluationError(f"{words}: {words}: netip.ParsePrefix({quoted(value)})")
    return ipaddress.ip_interface(f"{found}/{length}")


def _is(parse: Callable[[Any], Any]) -> Callable[..., bool]:
    """Whether a text can be parsed."""

    def apply(*arguments: Any) -> bool:
        _text(arguments[0])
        try:
            parse(*arguments)
        except NoSuchOverloadError:
            raise
        except EvaluationError:
            return False
        return True

    return apply


_of_ip = typed(Address)


def _is_global_unicast(value: Address) -> bool:
    if isinstance(value, ipaddress.IPv4Address) and int(value) == 2**32 - 1:
        return False
    return not (value.is_unspecified or value.is_loopback or value.is_multicast or value.is_link_local)


def _is_link_local_multicast(value: Address) -> bool:
    link = ipaddress.ip_network("224.0.0.0/24" if value.version == 4 else "ff02::/16")
    return value in link or (value.version == 6 and value.packed[0] == 0xFF and value.packed[1] & 0xF == 2)


@typed(Network, object)
def _contains_ip(network: Network, other: Any) -> bool:
    found = other if isinstance(other, Address) else _ip(other)
    return found.version == network.version and found in network.network


@typed(Network, object)
def _contains_cidr(network: Network, other: Any) -> bool:
    found = other if isinstance(other, Network) else _cidr(other)
    if found.version != network.version:
        return False
    wider = network.network.prefixlen <= found.network.prefixlen
    return wider and found.ip in network.network


@typed(Network)
def _masked(value: Network) -> Network:
    network = value.network
    return ipaddress.ip_interface(f"{network.network_address}/{network.prefixlen}")


# ---- formats


def _unless(name: str, words: str) -> Callable[[str], list[str]]:
    return lambda text: [] if is_format(name, text) else [words]


def _prefix(faults: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: faults(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


_FORMATS: Mapping[str, Format] = {
    name: Format(name, faults)
    for name, faults in {
        "dns1123Label": label_faults,
        "dns1123Subdomain": subdomain_faults,
        "dns1035Label": dns1035_faults,
        "qualifiedName": key_faults,
        "dns1123LabelPrefix": _prefix(label_faults),
        "dns1123SubdomainPrefix": _prefix(subdomain_faults),
        "dns1035LabelPrefix": _prefix(dns1035_faults),
        "labelValue": label_value_faults,
        "uri": _unless("uri", "invalid URI for request"),
        "uuid": _unless("uuid", "does not match the UUID format"),
        "byte": _unless("byte", "invalid base64"),
        "date": _unless("date", "invalid date"),
        "datetime": _unless("datetime", "invalid datetime"),
    }.items()
}


def _named_format(name: Any) -> Optional:
    return Optional(_FORMATS[name], True) if _text(name) in _FORMATS else NONE


@typed(Format, str)
def _format_faults(value: Format, text: str) -> Optional:
    found = value.faults(text)
    return Optional(found, True) if found else NONE


def _constant(value: Format) -> Callable[[], Format]:
    return lambda: value


def _order(value: Any, other: Any) -> int:
    """-1, 0 or 1 for two quantities."""
    left, right = _amount(value), _amount(other)
    return int(left > right) - int(left < right)


LIBRARY_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "cidr": _cidr,
    "ip": _ip,
    "isCIDR": _is(_cidr),
    "isIP": _is(_ip),
    "isQuantity": _is(_quantity),
    "isURL": lambda text: is_request_uri(_text(text)),
    "quantity": _quantity,
    "sign": lambda value: int(_amount(value) > 0) - int(_amount(value) < 0),
    "url": _url,
}

LIBRARY_NAMESPACES: Mapping[str, Callable[..., Any]] = {
    "format.named": _named_format,
    "ip.isCanonical": lambda text: str(_ip(text)) == text,
    **{f"format.{name}": _constant(value) for name, value in _FORMATS.items()},
}

LIBRARY_METHODS: Mapping[str, Callable[..., Any]] = {
    "add": _added(1),
    "asApproximateFloat": lambda value: float(_amount(value)),
    "asInteger": _whole,
    "compareTo": _order,
    "containsCIDR": _contains_cidr,
    "containsIP": _contains_ip,
    "family": _of_ip(lambda value: value.version),
    "find": _find,
    "findAll": _find_all,
    "getEscapedPath": _of_url(lambda url: quote(url.path, safe="/%:@!$&'()*+,;=~")),
    "getHost": _of_url(_host),
    "getHostname": _of_url(_hostname),
    "getPort": _of_url(_port),
    "getQuery": _of_url(_query),
    "getScheme": _of_url(lambda url: url.scheme),
    "ip": typed(Network)(lambda value: value.ip),
    "isGlobalUnicast": _of_ip(_is_global_unicast),
    "isGreaterThan": lambda value, other: _order(value, other) > 0,
    "isInteger": _is_whole,
    "isLessThan": lambda value, other: _order(value, other) < 0,
    "isLinkLocalMulticast": _of_ip(_is_link_local_multicast),
    "isLinkLocalUnicast": _of_ip(lambda value: value.is_link_local),
    "isLoopback": _of_ip(lambda value: value.is_loopback),
    "isUnspecified": _of_ip(lambda value: value.is_unspecified),
    "masked": _masked,
    "prefixLength": typed(Network)(lambda value: value.network.prefixlen),
    "string": _of_ip(format),
    "sub": _added(-1),
    "validate": _format_faults,
}

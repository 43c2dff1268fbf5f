"""The rules of texts that many fields share: names, keys, paths, hosts, addresses, selectors of labels; and schedules.

Promises:
- Each gives the faults of a text in the API server's words; none for a valid one.
- A schedule has five fields, or is a word such as @daily. What is refused here, the API server refuses, too.

The rules are those of k8s.io/apimachinery (pkg/util/validation) and k8s.io/kubernetes (pkg/apis/core/validation), for
schedules those of github.com/robfig/cron/v3 (parser.go).
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.built_in_rules.constraints import (
    Constraint,
    choice,
    every,
    fields,
    is_integer,
    items,
    required,
    text,
)
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at, error_field
from ssa_operator.schema.metadata_validation import (
    dns1035_faults,
    key_faults,
    label_faults,
    label_value_faults,
    segment_faults,
    subdomain_faults,
)

LABEL = text(label_faults)
"""A name of at most 63 lower case letters, digits and dashes."""
SUBDOMAIN = text(subdomain_faults)
KEY = text(key_faults)
"""The key of a label, with a prefix or without."""
SEGMENT = text(segment_faults)
SERVICE_NAME = text(dns1035_faults)

_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", re.ASCII)


def port_name_faults(name: str) -> list[str]:
    """What is wrong with the name of a container's port."""
    faults = ["must be no more than 15 characters"] if len(name) > 15 else []
    if _PORT_NAME.fullmatch(name):
        return faults
    words = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), and at least one letter (a-z)"
    return [*faults, words]


PORT_NAME = text(port_name_faults)


def port_or_name(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """A number of a port, or the name of one."""
    if is_integer(value) and not 1 <= value <= 65535:
        yield error_at(path, value, "must be between 1 and 65535, inclusive")
    elif value == "":
        yield error_at(path, value, "must contain at least one letter (a-z)")
    else:
        yield from PORT_NAME(value, path)


def config_key_faults(key: str) -> list[str]:
    """What is wrong with a key of a ConfigMap or a Secret."""
    if key in (".", ".."):
        return [f"must not be '{key}'"]
    if key.startswith(".."):
        return ["must not start with '..'"]
    faults = ["must be no more than 253 bytes"] if len(key.encode()) > 253 else []
    words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    return faults if _CONFIG_KEY.fullmatch(key) else [*faults, words]


CONFIG_KEY = text(config_key_faults)


def environment_name_faults(name: str) -> list[str]:
    """What is wrong with the name of an environment variable."""
    if all(" " <= character <= "~" and character != "=" for character in name):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


ENVIRONMENT_NAME = text(environment_name_faults)


def header_faults(name: str) -> list[str]:
    """What is wrong with the name of an HTTP header."""
    words = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [] if _HEADER.fullmatch(name) else [words]


def local_path_faults(path: str) -> list[str]:
    """What is wrong with a path inside of a volume."""
    faults = ["must be a relative path"] if path.startswith("/") else []
    return [*faults, *no_backsteps(path)]


def no_backsteps(path: str) -> list[str]:
    """What is wrong with a path that must not lead outside."""
    return ["must not contain '..'"] if ".." in path.split("/") else []


def item_path_faults(path: str) -> list[str]:
    """What is wrong with the path of a file that a volume writes."""
    faults = local_path_faults(path)
    return [*faults, "must not start with '..'"] if path.startswith("..") and not faults else faults


def is_address(value: str) -> bool:
    """Whether a text is an IPv4 or IPv6 address. Addresses with leading zeros are none."""
    try:
        return "%" not in value and bool(ipaddress.ip_address(value))
    except ValueError:
        return False


def address_faults(value: str) -> list[str]:
    """What is wrong with an address."""
    return [] if is_address(value) else ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]


def network_faults(value: str) -> list[str]:
    """What is wrong with a block of addresses."""
    words = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    return [] if network_of(value) is not None else [words]


def network_of(value: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The block of addresses; bits after the prefix are ignored, as Kubernetes does."""
    address, slash, length = value.partition("/")
    if not (slash and length.isascii() and length.isdigit() and len(length) <= 3 and is_address(address)):
        return None
    try:
        return ipaddress.ip_network(f"{address}/{int(length)}", strict=False)
    except ValueError:
        return None


def domain_path_faults(value: str) -> list[str]:
    """What is wrong with a domain and a path: example.com/controller."""
    domain, slash, path = value.partition("/")
    if not slash or not path:
        return ['must be a domain-prefixed path (such as "acme.io/foo")']
    faults = subdomain_faults(domain)
    return faults if _PATH.fullmatch(path) else [*faults, "Invalid path"]


def _expressions(path_of_values: str = "values") -> Constraint:
    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if not isinstance(value, Mapping):
            return
        operator, values = value.get("operator"), value.get("values")
        size = len(values) if isinstance(values, list) else 0
        at = (*path, path_of_values)
        if operator in ("In", "NotIn") and not size:
            yield error_at(at, detail="must be specified when `operator` is 'In' or 'NotIn'", kind=ErrorType.REQUIRED)
        elif operator in ("Exists", "DoesNotExist") and size:
            words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield error_at(at, detail=words, kind=ErrorType.FORBIDDEN)

    return check


def _label_values(value: Any, path: FieldPath) -> Iterator[FieldError]:
    for position, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, str):
            yield from (error_at((*path, position), item, words) for words in label_value_faults(item))


def labels(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """A map of labels."""
    for key, item in value.items() if isinstance(value, Mapping) else ():
        if isinstance(key, str) and isinstance(item, str):
            faults = [*key_faults(key), *label_value_faults(item)]
            errors = (error_at((*path, key), item, words) for words in faults)
            yield from (replace(each, field=error_field(path)) for each in errors)


def required_key(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """A mapping whose `key` is that of a label."""
    if isinstance(value, Mapping):
        key = value.get("key")
        if key is None or key == "":
            yield error_at((*path, "key"), "", "name part must be non-empty")


OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")

SELECTOR = fields(
    {
        "matchLabels": labels,
        "matchExpressions": items(
            fields(
                {"key": KEY, "values": _label_values, "operator": choice(*OPERATORS)},
                required_key,
                required("operator"),
                _expressions(),
            )
        ),
    }
)
"""A LabelSelector."""


def non_empty_selector(what: str) -> Constraint:
    """A LabelSelector that selects not everything."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if isinstance(value, Mapping) and not value.get("matchLabels") and not value.get("matchExpressions"):
            yield error_at(path, value, f"empty selector is invalid for {what}")

    return every(SELECTOR, check)


def decoded(value: str) -> bytes | None:
    """The bytes of a text in base64, None if it is none. Go skips line ends."""
    try:
        return base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return None


def base64_text(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """A text in base64. The error doesn't show it."""
    if isinstance(value, str) and decoded(value) is None:
        yield error_at(path, "", "must be base64: write it with the filter b64encode")


_WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS))
_EVERY = re.compile(r"@every [0-9a-zµ.]+", re.ASCII)
_DIGITS = 9


def schedule_faults(schedule: str) -> list[str]:
    """What is wrong with a schedule."""
    if "TZ" in schedule:
        return ["cannot use TZ or CRON_TZ in schedule, use timeZone field instead"]
    if schedule.startswith("@"):
        return [] if schedule in _WORDS or _EVERY.fullmatch(schedule) else [f"unrecognized descriptor: {schedule}"]
    fields = schedule.split()
    if len(fields) != len(_BOUNDS):
        return [f"expected exactly 5 fields, found {len(fields)}: {fields}"]
    for field, (low, high, names) in zip(fields, _BOUNDS, strict=True):
        for part in field.split(","):
            if fault := _fault(part, low, high, names):
                return [fault]
    return []


def _fault(part: str, low: int, high: int, names: tuple[str, ...]) -> str:
    interval, slash, step = part.partition("/")
    begin, dash, end = interval.partition("-")
    if slash and (not _is_number(step) or int(step) == 0):
        return f"step of range should be a positive number: {part}"
    if begin in ("*", "?"):
        return f"failed to parse int from {end}" if dash else ""
    first = _number(begin, low, names)
    last = _number(end, low, names) if dash else first
    if first is None or last is None:
        return f"failed to parse int from {part}"
    if first < low:
        return f"beginning of range ({first}) below minimum ({low}): {part}"
    if last > high:
        return f"end of range ({last}) above maximum ({high}): {part}"
    return f"beginning of range ({first}) beyond end of range ({last}): {part}" if first > last else ""


def _number(value: str, low: int, names: tuple[str, ...]) -> int | None:
    if value.lower() in names:
        return names.index(value.lower()) + low
    return int(value) if _is_number(value) else None


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= _DIGITS

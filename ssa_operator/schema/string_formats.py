r"""The formats of strings in CRD schemas, as the API server checks them.

Promises:
- A format that the API server ignores, or that isn't checked offline, accepts every string.
- A pattern matches what Go matches: classes like `\d` are ASCII, and `$` is the very end.
- A pattern that RE2 refuses is unknown, and no answer is given for it.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation, and
k8s.io/kube-openapi (pkg/validation/strfmt).
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import re2


def is_format(name: str, text: str) -> bool:
    """Whether a string has the format with this name (dashes don't count), as far as it is checked."""
    check = _FORMATS.get(name.replace("-", ""))
    return check is None or check(text)


def known_format(name: str) -> bool:
    """Whether the API server knows this format of strings."""
    return name.replace("-", "") in _FORMATS


def _of_pattern(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _any(_text: str) -> bool:
    return True


def is_date(text: str) -> bool:
    """Whether the text is a date: 2006-01-02."""
    try:
        return re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is not None and bool(
            dt.date.fromisoformat(text.replace("0000-", "2000-", 1))
        )
    except ValueError:
        return False


_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(.\d+)?(z|([+-]\d{2}:\d{2}))", re.ASCII)


def _is_date_time(text: str) -> bool:
    day, *times = text.lower().split("t")
    found = _TIME.fullmatch(times[0]) if times else None
    return is_date(day) and found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


_GO_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_GO_PART = re.compile(r"(?<!\d)(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(r"(?<!\d)(\d+)\s*([A-Za-zµ]+)", re.ASCII)
# No duration of more digits fits into the nanoseconds of Go's int64.
_DIGITS = 19
_DURATION_LIMIT = 1000
_UNITS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "nano": (1, ("ns",)),
    "micro": (10**3, ("us", "µs")),
    "milli": (10**6, ("ms",)),
    "sec": (10**9, ("s",)),
    "min": (60 * 10**9, ("m",)),
    "hour": (3600 * 10**9, ("h", "hr")),
    "day": (86400 * 10**9, ("d",)),
    "week": (7 * 86400 * 10**9, ("w", "wk")),
}


def duration_nanoseconds(text: str) -> int | None:
    """A duration as Go or Scala write it (`1h30m`, `5 minutes`), in nanoseconds; None if it is none."""
    if len(text) > _DURATION_LIMIT:
        return None
    if (found := go_duration(text)) is not None:
        return found
    total, known = 0, False
    for number, unit in _DURATION.findall(text):
        for prefix, (factor, names) in _UNITS.items():
            if unit.lower() in names or unit.lower().startswith(prefix):
                if len(number.lstrip("0")) > _DIGITS:
                    return None
                total, known = total + int(number) * factor, True
    return total if known else None


def go_duration(text: str) -> int | None:
    """A duration as Go writes it (`1h30m`), in nanoseconds; None if it is none."""
    if len(text) > _DURATION_LIMIT or not _GO_DURATION.fullmatch(text):
        return None
    total = 0
    factors = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
    for number, decimals, unit in _GO_PART.findall(text):
        factor = factors.get(unit, 3600 * 10**9)
        whole, fraction = number.lstrip("0"), decimals[:_DIGITS]
        if len(whole) > _DIGITS:
            return None
        total += int(whole or 0) * factor + (int(fraction) * factor // 10 ** len(fraction) if fraction else 0)
    total = -total if text.startswith("-") else total
    return total if -(2**63) <= total < 2**63 else None


def _without_leading_zeros(text: str) -> str:
    """An IPv4 address may have leading zeros."""
    return re.sub(r"(?<![^.])0+(?=\d)", "", text) if "." in text else text


# An IPv6 address has 45 characters at most; leading zeros may make an IPv4 address longer.
_ADDRESS_LIMIT = 256


def is_ip(text: str, *, leading_zeros: bool = True) -> bool:
    """Whether the text is an IPv4 or IPv6 address without a zone."""
    if len(text) > _ADDRESS_LIMIT:
        return False
    try:
        ipaddress.ip_address(_without_leading_zeros(text) if leading_zeros else text)
    except ValueError:
        return False
    return "%" not in text


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not is_ip(address) or not re.fullmatch(r"\d{1,3}", length, re.ASCII):
        return False
    return int(length) <= (128 if ":" in address else 32)


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return sum((position + 1) * (10 if digit == "X" else int(digit)) for position, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (3 if position % 2 else 1) for position, digit in enumerate(digits)) % 10 == 0


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def is_request_uri(text: str) -> bool:
    """Whether the text is an absolute URI or a rooted path, as Go's ParseRequestURI reads it."""
    if not text or any(ord(character) < 0x20 or character == "\x7f" for character in text):
        return False
    if re.search(r"%(?![0-9A-Fa-f]{2})", text.partition("?")[0]):
        return False
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    if not rest.startswith("/"):
        return scheme is not None  # an opaque URI, as in mailto:a
    if not rest.startswith("//"):
        return True
    host = re.split(r"[/?]", rest[2:], maxsplit=1)[0].rpartition("@")[2]
    port = re.search(r":([^:\]]*)$", host)
    return not re.search(r'[ "<>\\^`{|}]', host) and (port is None or port[1] == "" or port[1].isdigit())


_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_UUID = r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?%s-?%s-?[0-9a-fA-F]{12}"
_HEX4 = "[0-9a-fA-F]{4}"
_VARIANT = "[89abAB][0-9a-fA-F]{3}"
_OF_256 = r"(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"

_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _of_pattern(r"[0-9a-fA-F]{24}"),
    "byte": _of_pattern(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _is_cidr,
    "creditcard": _any,
    "date": is_date,
    "datetime": _is_date_time,
    "duration": lambda text: duration_nanoseconds(text) is not None,
    "email": lambda text: "@" in text.strip("@"),
    "hexcolor": _of_pattern(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": lambda text: 0 < len(text) <= 255 and not re.search(r"[\s/_@:]", text),
    "ipv4": lambda text: is_ip(text) and "." in text,
    "ipv6": lambda text: is_ip(text) and ":" in text,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": lambda text: len(text) <= 253 and re.fullmatch(rf"{_LABEL}(?:\.{_LABEL})*", text) is not None,
    "k8sshortname": lambda text: len(text) <= 63 and re.fullmatch(_LABEL, text) is not None,
    "mac": _of_pattern(
        r"[0-9a-fA-F]{2}(?:([:-])[0-9a-fA-F]{2})(?:\1[0-9a-fA-F]{2}){4}(?:(?:\1[0-9a-fA-F]{2}){2}|(?:\1[0-9a-fA-F]{2}){14})?"
        r"|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}(?:(?:\.[0-9a-fA-F]{4})|(?:\.[0-9a-fA-F]{4}){7})?"
    ),
    "password": _any,
    "rgbcolor": _of_pattern(rf"rgb\(\s*{_OF_256}\s*,\s*{_OF_256}\s*,\s*{_OF_256}\s*\)"),
    "ssn": _of_pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": is_request_uri,
    "uuid": _of_pattern(_UUID % (_HEX4, _HEX4)),
    "uuid3": _of_pattern(_UUID % ("3[0-9a-fA-F]{3}", _HEX4)),
    "uuid4": _of_pattern(_UUID % ("4[0-9a-fA-F]{3}", _VARIANT)),
    "uuid5": _of_pattern(_UUID % ("5[0-9a-fA-F]{3}", _VARIANT)),
}


@lru_cache(maxsize=4096)
def go_pattern(pattern: str) -> Any:
    """The compiled pattern, with the methods of `re.Pattern`; None if RE2 refuses it."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None

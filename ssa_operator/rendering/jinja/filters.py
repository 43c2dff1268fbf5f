"""The filters and tests of a template: Jinja's own within the limits, and those that manifests need.

Promises:
- A filter gets plain values: template text becomes a string, except for filters that only change its layout.
- Only the results of `to_yaml` and `tojson` can become YAML syntax.
- A filter gives the same result for the same input, and no result exceeds the limits.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache, partial
from itertools import chain
from types import GeneratorType
from typing import Any

from jinja2 import Environment, TemplateRuntimeError, Undefined, pass_environment
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.filters import do_default, make_attrgetter, make_multi_attrgetter
from jinja2.tests import TESTS as JINJA_TESTS

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.label_selectors import selector_fault, selects
from ssa_operator.objects.manifest import without_nulls as without_null_fields
from ssa_operator.objects.scalars import moment_of, parse_duration
from ssa_operator.rendering.jinja.functions import REMOVED, fail
from ssa_operator.rendering.jinja.method_calls import call_string_method, check_path, joined, percent_format
from ssa_operator.rendering.jinja.strategic_merge import merge
from ssa_operator.rendering.jinja.text_filters import (
    bytes_of,
    from_json,
    from_yaml,
    millis_of,
    milliseconds_in,
    regex_replace,
    regex_search,
    seconds_in,
    template_data,
    version_at_least,
)
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.line_marks import CLOSE, EMPTY, RESERVED
from ssa_operator.rendering.values.manifest_values import (
    Octets,
    Stringlike,
    UnfitValueError,
    compressed,
    is_utf8,
    json_data,
    key_text,
    kind_of,
    text_of,
    text_or_octets,
)
from ssa_operator.rendering.values.python_errors import ERRORS, translate_error
from ssa_operator.rendering.values.secrecy import Secrecy
from ssa_operator.rendering.values.template_text import (
    OPEN,
    PLACEHOLDER,
    Json,
    Text,
    TrackedPiece,
    ValuePiece,
    YamlText,
    indent,
    placed,
    tracked_string,
    trim,
)
from ssa_operator.rendering.values.tracked_containers import track_container
from ssa_operator.rendering.values.tracked_values import (
    AwaitedError,
    TrackedValue,
    UnknownValue,
    call_tracked,
    is_tracked,
    mark_read_unready,
    merge_provenance,
    untracked,
    with_secrecy,
)
from ssa_operator.rendering.values.value_size import check_order, compared, size_of
from ssa_operator.rendering.yaml.to_yaml import scalar_text, yaml_text


def matching(labels: Any, selector: Any) -> bool:
    """Whether a LabelSelector selects these labels: `matchLabels` and `matchExpressions` mean what they mean in
    Kubernetes. An empty selector selects everything, none nothing.
    """
    if not isinstance(labels, Mapping):
        raise TemplateRuntimeError(f"matching: labels must be a mapping, and this is {kind_of(labels)}")
    if fault := selector_fault(selector):
        raise TemplateRuntimeError(f"matching: the selector {fault}")
    return selects(selector, labels)


OWN_TESTS: Mapping[str, Callable[..., Any]] = {
    "matching": matching,
    "utf8": is_utf8,
    "version_at_least": version_at_least,
}
_TEST_FUNCTIONS: Mapping[str, Callable[..., Any]] = {**JINJA_TESTS, **OWN_TESTS}  # type: ignore[dict-item]

NAME_LIMIT = 63
"""Characters of a DNS label (RFC 1123), the strictest of Kubernetes' names."""

_HASH_LENGTH = 8
_SPACES_LIMIT = 1024
_RESERVED = re.compile(f"({RESERVED.pattern})")
_KEPT_AS_VALUE = re.compile(f"({RESERVED.pattern}|{re.escape(PREFIX)})")
"""Parts of a value that stay values among the text of `to_yaml`: template text can't contain the reserved characters of
marks, and the prefix of the operator's annotations instructs the operator in template text only.
"""
_TEXTUAL = frozenset({
    "capitalize", "center", "e", "escape", "forceescape", "lower", "replace", "striptags", "title", "truncate", "upper",
    "urlize", "wordcount", "wordwrap",
})  # fmt: skip
"""Filters of text: a value that isn't a string reaches them as text in a manifest, not as Python's str()."""
_WRITES_REPR = frozenset({"pprint", "replace", "urlencode", "urlize", "xmlattr"})
"""Filters that write values with Python's repr(): only plain data reaches them, because the repr of other values
contains addresses.
"""
_READS_ITEMS = _TEXTUAL | _WRITES_REPR | {
    "b64encode", "format", "gzip", "join", "max", "md5", "min", "sha256", "sort", "string", "tojson", "unique",
    "without_nulls",
}  # fmt: skip
"""Filters that read the items of a list or a mapping; other filters return the items unchanged."""


def to_yaml(value: Any) -> Text:
    """The value as block-style YAML text, to be put among other lines: `{{ x | to_yaml | indent(4) }}`."""
    data = json_data(value)
    text = yaml_text(data)
    if text in EMPTY:
        return Text((EMPTY[text],))
    limits.current().produce(len(text))
    kept = _RESERVED if _is_manifest(data) else _KEPT_AS_VALUE
    return Text(tuple(ValuePiece(part) if at % 2 else YamlText(part) for at, part in enumerate(kept.split(text))))


def _is_manifest(data: Any) -> bool:
    """Whether a value is a whole manifest, which may instruct the operator like one that a template writes."""
    return isinstance(data, dict) and "apiVersion" in data and "kind" in data


def traced_yaml(value: TrackedValue) -> Text:
    """The same text as `to_yaml` in a traced render, and of a Secret's content: each scalar is a value with its own
    provenance.
    """
    if _KEPT_AS_VALUE.search("".join(map(str, _keys(value.read_untracked(by_control=True))))):
        # A key could be mistaken for a placeholder, or for an instruction.
        return to_yaml(value.read_untracked())
    leaves: list[TrackedPiece] = []

    def outline(part: TrackedValue) -> Any:
        if isinstance(part.value, Mapping) and part.value:
            return {key_text(key): outline(part.field_value(item, key)) for key, item in part.value.items()}
        if isinstance(part.value, (list, tuple)) and part.value:
            return [outline(part.field_value(item, at)) for at, item in enumerate(part.value)]
        data = json_data(untracked(part.value))
        # Within other text it is the same text as `to_yaml` gives.
        leaves.append(TrackedPiece(part.derive(Json(data, text=scalar_text(data)))))
        return leaves[-1]

    outlined = outline(value)
    if outlined is leaves[0] and isinstance(leaves[0].data.value.data, (dict, list)):
        return Text((EMPTY[yaml_text(leaves[0].data.value.data)],))
    numbers = {id(leaf): at for at, leaf in enumerate(leaves)}
    parts = PLACEHOLDER.split(yaml_text(outlined, lambda leaf: f"{OPEN}{numbers[id(leaf)]}{CLOSE}"))
    return Text(tuple(leaves[int(part)] if at % 2 else YamlText(part) for at, part in enumerate(parts)))


def _keys(value: Any) -> Iterator[Any]:
    """The keys of all mappings in the value."""
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ():
        yield from _keys(item)
    yield from value if isinstance(value, Mapping) else ()


def to_json(value: Any, indent: int | None = None) -> Json:
    """The value as JSON: the structure if it is a whole scalar, JSON text within other text."""
    if indent is not None and not isinstance(indent, int):
        raise UnfitValueError("tojson needs a number of spaces")
    _check_spaces(indent or 0)
    return Json(value, indent)


def b64encode(value: Any) -> str:
    """Bytes, or the UTF-8 bytes of a text, in base64, as a Secret's `data` wants them."""
    return base64.b64encode(_content("b64encode", value)).decode()


def b64decode(value: Any) -> str | Octets:
    """The text that was encoded, bytes if it is not UTF-8 text. Raises UnfitValueError for what is not base64; the
    error never contains it.
    """
    try:
        return text_or_octets(base64.b64decode(_text("b64decode", value), validate=True))
    except binascii.Error:
        raise UnfitValueError("b64decode: the value is not base64") from None


def gzip(value: Any) -> Octets:
    """A text or bytes, compressed, for `b64encode`; the same bytes for the same input."""
    return compressed(_content("gzip", value))


def without_nulls(value: Any) -> Any:
    """The mapping or list without the fields that are null, however deep; items of lists stay."""
    return without_null_fields(value)


def sha256(value: Any) -> str:
    """The SHA-256 of bytes, of a text's UTF-8 bytes, or of another value's compact JSON, in hexadecimal."""
    return hashlib.sha256(_hashed(value)).hexdigest()


def md5(value: Any) -> str:
    """The same as `sha256` with MD5; for names and checksums, not for secrets."""
    return hashlib.md5(_hashed(value), usedforsecurity=False).hexdigest()


def k8s_name(value: Any, length: int = NAME_LIMIT) -> str:
    """A legal name of an object: lower case letters, digits and `-`, at most `length` characters (16 to 63).

    A legal text is unchanged. Any other text ends with a hash of the whole text, so that `a.b` and `a-b` have different
    names.
    """
    if type(length) is not int or not 2 * _HASH_LENGTH <= length <= NAME_LIMIT:
        raise UnfitValueError(f"k8s_name: length must be a number from {2 * _HASH_LENGTH} to {NAME_LIMIT}")
    text = _text("k8s_name", value)
    if len(text) <= length and _LEGAL_NAME.fullmatch(text):
        return text
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not name:
        raise UnfitValueError("k8s_name: the text has no letter or digit that a name can have")
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{name[: length - _HASH_LENGTH - 1].rstrip('-')}-{digest}"


_LEGAL_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def later(value: Any, duration: Any) -> str:
    """The time a duration (`90s`, `1h30m`, `7d`) after another one, in Kubernetes' format (RFC 3339, in UTC)."""
    moment = moment_of(_text("later", value))
    if moment is None:
        raise UnfitValueError("later needs a time such as metadata.creationTimestamp, 2026-01-31T12:00:00Z")
    try:
        moment += timedelta(seconds=parse_duration(_text("later", duration)))
    except ValueError as error:
        raise UnfitValueError(f"later: {error}") from None
    except OverflowError:
        raise UnfitValueError("later: that time is beyond the year 9999") from None
    text = moment.replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if moment.microsecond else text) + "Z"


def _text(name: str, value: Any) -> str:
    if value is None:
        raise UnfitValueError(f"{name} needs a text, and this value is null")
    return text_of(value)


def _content(name: str, value: Any) -> bytes:
    return bytes(value) if isinstance(value, Octets) else _text(name, value).encode()


def _hashed(value: Any) -> bytes:
    return bytes(value) if isinstance(value, Octets) else text_of(value).encode()


def _check_spaces(width: Any) -> None:
    if isinstance(width, int) and width > _SPACES_LIMIT:
        raise LimitError(f"an indentation of {width} is larger than {_SPACES_LIMIT}")


def _indent(s: Any, width: int = 4, first: bool = False, blank: bool = False) -> Text | Json | str:
    if not isinstance(width, int):
        raise UnfitValueError("indent needs a number of spaces")
    _check_spaces(width)
    return indent(s, width, first, blank)


def _trim(value: Any, chars: str | None = None) -> Any:
    if isinstance(value, Json) and chars is None:
        return value
    if isinstance(value, Text) and chars is None:
        return trim(value)
    found: str = call_string_method(text_of(value).strip, () if chars is None else (chars,), {})
    return found


def _safe(value: Any) -> Any:
    """`safe`: a value stays a value and text stays text."""
    return value


def _string(value: Any) -> Any:
    """The value as text; JSON stays JSON."""
    if type(value) is Text:
        return tracked_string(value)
    return value if isinstance(value, Json) else text_of(value)


def _default(value: Any, default_value: Any = "", boolean: Any = False) -> Any:
    """Jinja's `default`. A document doesn't wait for a value with a default: the live value counts, ready or not."""
    if not is_tracked((value, default_value, boolean)):
        return do_default(value, default_value, boolean)
    if isinstance(value, UnknownValue) and value.unanswered:
        return value
    provenance = boolean.provenance if type(boolean) is TrackedValue else ()
    if isinstance(value, (TrackedValue, UnknownValue)):
        provenance = merge_provenance(mark_read_unready(value.provenance), provenance)
    if isinstance(value, Undefined) or (untracked(boolean) and not untracked(value)):
        return call_tracked(untracked, (default_value,), {}, provenance)
    return TrackedValue(untracked(value), provenance) if provenance else value


@pass_environment
def _join(environment: Environment, value: Any, d: Any = "", attribute: str | int | None = None) -> str:
    """Jinja's `join`, with each item as text."""
    items = value if attribute is None else map(make_attrgetter(environment, attribute), value)
    return joined(text_of(d), map(text_of, items))


@pass_environment
def _sum(environment: Environment, iterable: Any, attribute: str | int | None = None, start: Any = 0) -> Any:
    """Jinja's `sum`. Python's copies the result for each list that it adds."""
    items = [*iterable] if attribute is None else [*map(make_attrgetter(environment, attribute), iterable)]
    if not isinstance(untracked(start), (list, tuple)):
        return sum(items, start)
    if type(start) is list and all(type(item) is list for item in items):
        limits.current().produce(limits.size_of(start) + sum(map(limits.size_of, items)))
        return [*start, *chain.from_iterable(items)]
    total = start
    for item in items:
        limits.current().produce(limits.size_of(untracked(total)) + limits.size_of(untracked(item)))
        total = total + item
    return total


def _format(value: Any, *args: Any, **kwargs: Any) -> str:
    """Jinja's `format`, within the limits."""
    return percent_format(text_of(value), kwargs or args)


PLACE_ALL, PLACE_FIRST, PLACE_LINE = "place all lines", "place the first line", "place the first line, and end the last"
"""The filters that move text to the right, as far as its first line has less than an indentation. No template can name
them (rendering.jinja.line_tags).
"""

LAYOUT: Mapping[str, Callable[..., Any]] = {
    "indent": _indent,
    "safe": _safe,
    "string": _string,
    "to_yaml": to_yaml,
    "tojson": to_json,
    "trim": _trim,
    PLACE_ALL: partial(placed, all_lines=True),
    PLACE_FIRST: partial(placed, all_lines=False),
    PLACE_LINE: partial(placed, all_lines=False, ends_line=True),
}
"""Filters that accept template text unconverted."""

OWN: Mapping[str, Callable[..., Any]] = {
    "b64decode": b64decode,
    "b64encode": b64encode,
    "bytes": bytes_of,
    "format": _format,
    "from_json": from_json,
    "gzip": gzip,
    "join": _join,
    "k8s_name": k8s_name,
    "later": later,
    "md5": md5,
    "millis": millis_of,
    "milliseconds": milliseconds_in,
    "regex_replace": regex_replace,
    "regex_search": regex_search,
    "seconds": seconds_in,
    "sha256": sha256,
    "sum": _sum,
    "without_nulls": without_nulls,
}


_READS_PATHS = frozenset({"groupby", "map", "max", "min", "rejectattr", "selectattr", "sort", "sum", "unique"})
"""Filters whose arguments may be paths of fields."""

_ORDERS = frozenset({"dictsort", "groupby", "max", "min", "sort", "unique"})
"""Filters that compare or hash the items, or a field of each."""


_signature = lru_cache(inspect.signature)


def _orderable(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The items for one of `_ORDERS`. Raises LimitError if their keys are too large to be compared."""
    named = _signature(function).bind(*args, **kwargs).arguments
    items = named["value"]
    if isinstance(items, Mapping):
        keys: Iterable[Any] = items.values() if named.get("by") == "value" else items.keys()
    else:
        keys = items = items if isinstance(items, (list, tuple, str, range)) else [*limits.counted(items)]
        if (attribute := named.get("attribute")) is not None:
            getter = make_multi_attrgetter if name == "sort" else partial(make_attrgetter, default=named.get("default"))
            keys = map(getter(args[0], attribute), items)
    if not isinstance(items, (str, range)):
        check_order(keys)
    return items


_TAG = 256
"""The size of a tag that `striptags` removes."""

_WIDTH = 79
"""The width of `wordwrap` by default."""

_RUNS = re.compile(r"\s+|\S+")


def _runs(text: str) -> list[tuple[int, bool]]:
    """The lengths of the words and of the blanks between them, each with whether it is blanks."""
    return [(len(run), run.isspace()) for run in _RUNS.findall(text)]


def _check_size(name: str, subject: Any, rest: tuple[Any, ...]) -> None:
    """Raise LimitError for arguments with which a filter would exceed the limits."""
    budget = limits.current()
    numbers = [number for number in rest if type(number) is int]
    texts = [text for text in rest if isinstance(text, str)]
    match name:
        case "center" | "batch" | "slice":
            budget.produce(max(numbers, default=0))
        case "round":
            if any(abs(number) > _SPACES_LIMIT for number in numbers):
                raise LimitError(f"a precision of more than {_SPACES_LIMIT} is too large")
        case "replace" if len(texts) >= 2 and isinstance(subject, str):
            budget.produce(len(subject) + subject.count(texts[0]) * len(texts[1]))
        case "striptags":
            budget.produce(limits.size_of(subject))
            budget.spend(_TAG * subject.count("<"))
        case "wordwrap":
            budget.produce(limits.size_of(subject) * (1 + len(texts[0] if texts else "")))
            # Its time is quadratic in the length of a run of blanks, and each line copies the rest of a long word.
            width = max(numbers[0] if numbers else _WIDTH, 1)
            runs = _runs(subject)
            budget.read(sum(size**2 // (1 if blank else width) for size, blank in runs), limits.ORDER_LIMIT)
        case "urlize":
            budget.produce(limits.size_of(subject))
            budget.read(sum(size**2 for size, _ in _runs(subject)))
        case _ if name in _READS_PATHS:
            budget.produce(limits.size_of(subject))
            for text in texts:
                check_path(text)
        case _ if isinstance(subject, (str, list, tuple, range)):
            budget.produce(limits.size_of(subject))
        case _:
            budget.step()


def text_as_string(value: Any) -> Any:
    """Template text as a string with its provenance; another value as it is."""
    if type(value) is Text:
        return tracked_string(value)
    return str(value) if isinstance(value, Stringlike) else value


def _call_filter(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a filter's function. Raises UnfitValueError with the filter's name for values that it can't be used with."""
    try:
        return function(*args, **kwargs)
    except ERRORS as error:
        found = translate_error(error)
        raise UnfitValueError(found if found.startswith(f"{name} ") else f"{name}: {found}") from error


def _checked_arguments(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], passed: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, converted for the filter. The value is at `passed`. Raises LimitError for too large ones."""
    given, subject, rest = args[:passed], args[passed : passed + 1], args[passed + 1 :]
    for value in subject:
        if isinstance(value, Undefined):
            str(value)
        if name in _TEXTUAL and not isinstance(value, str):
            subject = (text_of(value),)
    if name == "replace":
        rest = (*map(text_of, rest[:2]), *rest[2:])
        kwargs = {key: text_of(arg) if key in ("old", "new") else arg for key, arg in kwargs.items()}
    _check_size(name, subject[0] if subject else None, (*rest, *kwargs.values()))
    if name in _ORDERS:
        ordered = (*given, *subject, *rest)
        subject = (_call_filter(name, partial(_orderable, name, function), (ordered, kwargs), {}),)
    if name in _WRITES_REPR:
        subject, rest = (*map(json_data, subject),), (*map(json_data, rest),)
        kwargs = {key: json_data(arg) for key, arg in kwargs.items()}
    return (*given, *subject, *rest), kwargs


def _bounded(result: Any) -> Any:
    """The result of a filter, never Markup. Raises LimitError for one that is too large."""
    if type(result) is int:
        limits.check_number(result)
    if not isinstance(result, (str, Octets)):
        return result
    limits.current().produce(len(result))
    return str(result) if isinstance(result, str) else result


def _filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that gets its arguments as the tables above say, stays within the limits, and never returns Markup."""
    passed = 1 if hasattr(function, "jinja_pass_arg") else 0
    changes = name in _WRITES_REPR or name in _ORDERS
    keeps_text, reads_items, secrecy = name in LAYOUT, name in _READS_ITEMS, _SECRECY.get(name)

    def applied(*args: Any, **kwargs: Any) -> Any:
        if changes or len(args) <= passed or type(args[passed]) is not str:
            args, kwargs = _checked_arguments(name, function, args, kwargs, passed)
        else:
            _check_size(name, args[passed], (*args[passed + 1 :], *kwargs.values()) if kwargs else args[passed + 1 :])
        result = _call_filter(name, function, args, kwargs)
        if isinstance(result, GeneratorType):
            return limits.chained(result, (*args, *kwargs.values()))
        return _bounded(result)

    operation, reads_text = function if keeps_text else applied, name in _READS_TEXT

    def filtered(*args: Any, **kwargs: Any) -> Any:
        shown = Secrecy.NONE if name == "map" and _names_metadata(kwargs.get("attribute")) else secrecy
        if reads_items:
            args = tuple([track_container(arg) for arg in args])
            kwargs = {key: track_container(arg) for key, arg in kwargs.items()}
        if not keeps_text:
            args = tuple([text_as_string(arg) for arg in args])
            kwargs = {key: text_as_string(arg) for key, arg in kwargs.items()}
        if is_tracked(args) or (kwargs and is_tracked(kwargs.values())):
            found = call_tracked(operation, args, kwargs)
            if reads_text:
                _record_read(found, args[0])
            if shown is not None and type(found) is TrackedValue:
                return TrackedValue(found.value, with_secrecy(found.provenance, shown))
            return found
        try:
            return operation(*args, **kwargs)
        except AwaitedError as error:
            return error.unknown

    if passed:
        filtered.jinja_pass_arg = function.jinja_pass_arg  # type: ignore[attr-defined]
    return filtered


def _record_read(data: Any, text: Any) -> None:
    """Record what a filter read from a text of the cluster: what the data lack is missing in the field of the text."""
    if type(data) is TrackedValue and type(text) is TrackedValue:
        for source in data.provenance:
            source.record_read(data.value, text.value)


def _names_metadata(attribute: Any) -> bool:
    """Whether the fields that `map` reads are names of Secrets or other metadata, which is no content."""
    return isinstance(attribute, str) and attribute.startswith(("metadata.name", "metadata.uid", "metadata.l"))


_READS_TEXT = frozenset({"b64decode", "from_json", "from_yaml"})
"""Filters that read the data of a text."""

_SECRECY: Mapping[str, Secrecy] = {
    "count": Secrecy.NONE,
    "length": Secrecy.NONE,
    "md5": Secrecy.DIGEST,
    "sha256": Secrecy.DIGEST,
}
"""Filters whose result is no more of a Secret's content than this: the number of items, or a hash."""


def _counting(name: str) -> Callable[..., Any]:
    """Jinja's `length`, which reads how many objects there are, and no object."""
    counted = _filter(name, len)

    def length(value: Any) -> Any:
        if type(value) is not TrackedValue or value.bodies is None:
            return counted(value)
        limits.current().produce(limits.size_of(value.bodies))
        return TrackedValue(len(value.bodies), with_secrecy(value.provenance, Secrecy.NONE))

    return length


def _to_yaml(value: Any) -> Any:
    """`to_yaml`. The whole file waits for an unknown value, because its structure is unknown, too.

    In a lenient render the value is empty.
    """
    content = track_container(value)
    if type(content) is TrackedValue and content.secret:
        return traced_yaml(content)
    if type(value) is TrackedValue and value.traced:
        return traced_yaml(value)
    found = _TO_YAML(value)
    if isinstance(found, UnknownValue):
        return str(found) if not found.lenient else Text((EMPTY["{}"],))
    return found


_TO_YAML = _filter("to_yaml", to_yaml)


@pass_environment
def _from_yaml(environment: Environment, value: Any) -> Any:
    """`from_yaml`. Values in template text stay values: the text around them is parsed, as that of a manifest is."""
    if type(untracked(value)) is not Text:
        return _filter("from_yaml", from_yaml)(value)
    try:
        return call_tracked(partial(template_data, files=[*environment.numbers]), (value,), {})  # type: ignore[attr-defined]
    except AwaitedError as error:
        return error.unknown


def _merge(value: Any, other: Any) -> Any:
    other = text_as_string(other)
    limits.current().read(size_of(other).total)
    return merge(text_as_string(value), other)


_COMPARING: Mapping[str, str] = {
    **dict.fromkeys(("eq", "==", "equalto"), "eq"),
    **dict.fromkeys(("ne", "!="), "ne"),
    **dict.fromkeys(("gt", ">", "greaterthan"), "gt"),
    **dict.fromkeys(("ge", ">="), "gteq"),
    **dict.fromkeys(("lt", "<", "lessthan"), "lt"),
    **dict.fromkeys(("le", "<="), "lteq"),
    "in": "in",
}
"""The tests that compare, each with the comparison that it is."""


def _test_function(name: str) -> Callable[..., Any]:
    """The function of a test."""
    function = _TEST_FUNCTIONS[name]
    if name in _COMPARING:
        return partial(compared, _COMPARING[name])
    if name in ("lower", "upper"):
        return lambda value: function(value if isinstance(value, (str, Undefined)) else text_of(value))
    if name in ("filter", "test"):
        return pass_environment(lambda environment, value: isinstance(value, str) and function(environment, value))
    return function


def _test(name: str) -> Callable[..., Any]:
    """A test that gets plain values."""
    function = _test_function(name)
    converted = track_container if function is matching else text_as_string
    is_presence = name in ("defined", "undefined")

    def tested(*args: Any) -> Any:
        args = tuple([converted(arg) for arg in args])
        if not is_tracked(args):
            return function(*args)
        value = args[0]
        if not is_presence or not isinstance(value, (TrackedValue, UnknownValue)):
            return call_tracked(tested, args, {})
        if isinstance(value, UnknownValue) and value.unanswered:
            return value
        return TrackedValue(function(value), with_secrecy(mark_read_unready(value.provenance), Secrecy.NONE))

    if hasattr(function, "jinja_pass_arg"):
        tested.jinja_pass_arg = function.jinja_pass_arg  # type: ignore[attr-defined]
    return tested


@pass_environment
def _attr(environment: Environment, value: Any, name: Any) -> Any:
    """Jinja's `attr` reads attributes of Python only, and values of manifests have none."""
    name = text_as_string(untracked(name))
    if isinstance(name, str) and name.startswith("_"):
        environment.unsafe_undefined(value, name)  # type: ignore[attr-defined]
    fail("values have fields and no Python attributes; write x.field, or x[name] for a name that is computed")


_ACCEPT_TRACKED: Mapping[str, Callable[..., Any]] = {
    "attr": _attr,
    "count": _counting("count"),
    "d": _default,
    "default": _default,
    "from_yaml": _from_yaml,
    "length": _counting("length"),
    "merge": _merge,
    "to_yaml": _to_yaml,
}
"""Filters that get tracked values and template text unconverted."""


FILTERS: dict[str, Callable[..., Any]] = {
    **{name: _filter(name, each) for name, each in {**JINJA_FILTERS, **OWN, **LAYOUT}.items() if name not in REMOVED},
    **_ACCEPT_TRACKED,
}
PLACING = {name: FILTERS.pop(name) for name in (PLACE_ALL, PLACE_FIRST, PLACE_LINE)}
TESTS: Mapping[str, Callable[..., Any]] = {name: _test(name) for name in _TEST_FUNCTIONS}

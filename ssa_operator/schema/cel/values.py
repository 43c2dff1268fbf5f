"""The values of CEL, and how a field of an object becomes one by its schema.

Promises:
- A field has the type of its schema: a string of format date-time is a timestamp, a number is a double, and lists of
  type set and map compare without order.
- A value is converted when an expression reads it.
- An item is found exactly if `equal` says so: an item is looked up by what equal values share, and compared then.
- Reading a value to look it up counts as work. An expression that does too much work is unknown offline, before it does
  it: no rule and no object hold up a process. The API server's own budget (`PerCallLimit`) counts other things.

The rules are those of k8s.io/apiserver (pkg/cel/common).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import wraps
from types import UnionType
from typing import Any, TypeAlias

from msgspec import Struct

from ssa_operator.objects.context_values import set_within
from ssa_operator.objects.json_schema import PRESERVED, Schema, is_number
from ssa_operator.schema.cel.field_names import unescaped
from ssa_operator.schema.cel.syntax import Uint
from ssa_operator.schema.field_errors import as_json
from ssa_operator.schema.string_formats import duration_nanoseconds, is_date

WORK_LIMIT = 1_000_000
"""The steps of one object's rules; reading an entry of a list or 16 characters of a text is one."""

CHARACTERS = 16
"""Characters that are read in one step."""

INT_LIMIT = 2**63
UINT_LIMIT = 2**64


class EvaluationError(Exception):
    """An expression has no value, because it reads a missing key or divides by zero, for example."""


class NoSuchOverloadError(EvaluationError):
    """A function doesn't take values of these types."""

    def __init__(self) -> None:
        super().__init__("no such overload")


class UncheckedError(Exception):
    """An expression uses something that is not known offline."""


class CostError(UncheckedError):
    """An expression does too much work."""


_steps_left: ContextVar[list[int] | None] = ContextVar("ssa_operator_cel_steps", default=None)


def limited() -> set_within[list[int] | None]:
    """Evaluate the expressions of the block with one budget."""
    return set_within(_steps_left, [WORK_LIMIT])


def spend(steps: int = 1) -> None:
    """Count some steps before they are done. Raises CostError if they are too many."""
    left = _steps_left.get()
    if left is not None:
        left[0] -= steps
        if left[0] < 0:
            raise CostError("the rules of the object do too much work")


def spend_reading(*values: Any) -> None:
    """Count the work to read some values."""
    spend(sum(map(steps_of, values)))


def steps_of(value: Any) -> int:
    """The steps to read a text or a list once, without the items of its items."""
    if isinstance(value, (str, bytes)):
        return len(value) // CHARACTERS
    raw = getattr(value, "raw", value)
    return len(raw) if isinstance(raw, (Mapping, Sequence)) else 1


Function: TypeAlias = Callable[..., Any]


def typed(*types: type | UnionType | tuple[type, ...]) -> Callable[[Function], Function]:
    """Makes a function refuse arguments of other types. A boolean is no int."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            if len(arguments) > len(types):
                raise NoSuchOverloadError
            for argument, wanted in zip(arguments, types, strict=False):
                if not isinstance(argument, wanted) or (isinstance(argument, bool) and wanted is int):
                    raise NoSuchOverloadError
            try:
                return function(*arguments)
            except TypeError as error:
                raise NoSuchOverloadError from error

        return call

    return decorate


class TypeValue(Struct, frozen=True):
    """A type as a value: `type(self)`."""

    name: str


class Duration(Struct, frozen=True, order=True):
    """A length of time."""

    nanoseconds: int


class Timestamp(Struct, frozen=True, order=True):
    """A point in time, in nanoseconds since the epoch."""

    nanoseconds: int

    @property
    def datetime(self) -> datetime:
        return EPOCH + timedelta(seconds=self.nanoseconds // 10**9)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)


def timestamp(text: str) -> Timestamp:
    """The point in time of an RFC 3339 text. Raises EvaluationError."""
    found = _RFC3339.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}+00:00")
    except ValueError as error:
        raise EvaluationError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00"') from error
    offset = 0 if found[4] is None else (int(found[5]) * 60 + int(found[6])) * (60 if found[4] == "+" else -60)
    seconds = int((moment - EPOCH).total_seconds()) - offset
    return Timestamp(seconds * 10**9 + int((found[3] or "").ljust(9, "0")))


class Optional(Struct, frozen=True):
    """An optional value."""

    value: Any = None
    present: bool = False


NONE = Optional()


class Opaque(Struct, frozen=True):
    """A value that no expression can compare: preserved unknown data."""

    raw: Any


class TypedMap(Struct, frozen=True):
    """An object or a map of a schema."""

    raw: Mapping[str, Any]
    schema: Schema

    @property
    def is_object(self) -> bool:
        """Whether its fields are declared one by one."""
        return bool(self.schema.get("properties")) or bool(self.schema.get("x-kubernetes-embedded-resource"))

    def key_of(self, name: str) -> str:
        """The key that a name in an expression selects."""
        return unescaped(name) if self.is_object else name

    def get(self, key: Any) -> Any:
        """The value of a key. Raises EvaluationError."""
        schema = self._schema_of(key) if key in self else None
        if schema is None:
            raise EvaluationError(f"no such key: {_key_text(key)}")
        return to_cel(self.raw[key], schema)

    def __contains__(self, key: Any) -> bool:
        if not isinstance(key, str) or key not in self.raw or self._schema_of(key) is None:
            return False
        # A null field of an object is a missing one.
        return self.raw[key] is not None or not self.is_object

    def keys(self) -> Iterator[str]:
        """The declared keys that it has."""
        return (key for key in self.raw if key in self)

    def _schema_of(self, key: str) -> Schema | None:
        if self.is_object:
            own = with_own_fields(self.schema) if self.schema.get("x-kubernetes-embedded-resource") else self.schema
            found = (own.get("properties") or {}).get(key)
        else:
            found = self.schema.get("additionalProperties")
        return found if isinstance(found, Mapping) else None

    def __len__(self) -> int:
        return sum(1 for _ in self.keys())


class TypedList(Struct, frozen=True):
    """A list of a schema."""

    raw: Sequence[Any]
    schema: Schema

    def __iter__(self) -> Iterator[Any]:
        items = self.schema.get("items") or {}
        return (to_cel(item, items) for item in self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def get(self, position: int) -> Any:
        """The item at a position that exists."""
        return to_cel(self.raw[position], self.schema.get("items") or {})

    @property
    def list_type(self) -> str:
        """`set`, `map` or `atomic`."""
        return str(self.schema.get("x-kubernetes-list-type") or "atomic")

    def key_of(self, raw: Any) -> str:
        """The key of an item of a list of type map, or the item of a set, as a text."""
        if self.list_type == "map":
            keys = self.schema.get("x-kubernetes-list-map-keys") or ()
            return as_json([raw.get(key) for key in keys] if isinstance(raw, Mapping) else raw)
        return as_json(raw)


_STRING: Schema = {"type": "string"}
_OWN_FIELDS: Mapping[str, Schema] = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "metadata": {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}},
}


def with_own_fields(schema: Schema) -> Schema:
    """The schema of an object whose rules can read its kind and name."""
    return {**schema, "properties": {**(schema.get("properties") or {}), **_OWN_FIELDS}}


def to_cel(raw: Any, schema: Schema) -> Any:  # noqa: C901 - one case a type
    """The value of a field. Raises EvaluationError if it doesn't fit its schema."""
    kind = schema.get("type")
    if raw is None:
        if schema.get("nullable"):
            return None
        raise EvaluationError("invalid data, got null for schema with nullable=false")
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(raw, (int, str)) and not isinstance(raw, bool):
            return raw
        raise EvaluationError("invalid data, expected XIntOrString value to be either a string or integer")
    match kind:
        case "object" if isinstance(raw, Mapping):
            return TypedMap(raw, schema)
        case "array" if isinstance(raw, (list, tuple)):
            return TypedList(raw, schema)
        case "string" if isinstance(raw, str):
            return _text(raw, str(schema.get("format") or ""))
        case "number" if isinstance(raw, (int, float)) and not isinstance(raw, bool):
            return float(raw)
        case "integer" if isinstance(raw, int) and not isinstance(raw, bool):
            return raw
        case "integer" if isinstance(raw, float) and raw.is_integer():
            # kubectl writes 1.0 as 1.
            return int(raw)
        case "boolean" if isinstance(raw, bool):
            return raw
    if kind is None and schema.get(PRESERVED):
        return Opaque(raw)
    raise EvaluationError(f"invalid data, expected {kind}")


def _text(text: str, form: str) -> Any:
    match form:
        case "duration":
            found = duration_nanoseconds(text)
            if found is None:
                raise EvaluationError(f"Invalid duration {text}: unable to parse {text} as duration")
            return Duration(found)
        case "date":
            if not is_date(text):
                raise EvaluationError(f"Invalid date formatted string {text}")
            return timestamp(f"{text}T00:00:00Z")
        case "date-time":
            return timestamp(text)
        case "byte":
            try:
                return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
            except (binascii.Error, ValueError) as error:
                raise EvaluationError(f"Invalid byte formatted string {text}") from error
    return text


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else str(key)


_TYPES: Sequence[tuple[tuple[type, ...], str]] = (
    ((type(None),), "null_type"),
    ((bool,), "bool"),
    ((Uint,), "uint"),
    ((int,), "int"),
    ((float,), "double"),
    ((str,), "string"),
    ((bytes,), "bytes"),
    ((Duration,), "google.protobuf.Duration"),
    ((Timestamp,), "google.protobuf.Timestamp"),
    ((TypeValue,), "type"),
    ((Optional,), "optional_type"),
    ((list, TypedList), "list"),
    ((dict, TypedMap), "map"),
)


def type_of(value: Any) -> TypeValue:
    """The type of a value. Raises UncheckedError for an object, whose type has a name of the API server's own."""
    if isinstance(value, TypedMap) and value.is_object:
        raise UncheckedError("the type of an object")
    for types, name in _TYPES:
        if isinstance(value, types):
            return TypeValue(name)
    raise UncheckedError(f"the type of a {type(value).__name__}")


def is_list(value: Any) -> bool:
    return isinstance(value, (list, TypedList))


def is_map(value: Any) -> bool:
    return isinstance(value, (dict, TypedMap))


def map_get(value: Any, key: Any) -> Any:
    """The value of a key of a map. Raises EvaluationError."""
    if isinstance(value, TypedMap):
        return value.get(key)
    if isinstance(key, str) and key in value:
        return value[key]
    for own, item in value.items():
        if equal(own, key):
            return item
    raise EvaluationError(f"no such key: {_key_text(key)}")


def map_has(value: Any, key: Any) -> bool:
    """Whether a map has a key."""
    if isinstance(value, TypedMap) or isinstance(key, str):
        return key in value
    return any(equal(own, key) for own in value)


def equal(left: Any, right: Any) -> bool:
    """Whether two values are equal; values of different types are not, except for numbers."""
    spend()
    if is_number(left) and is_number(right):
        return bool(left == right)
    if is_list(left) and is_list(right):
        return _lists_equal(left, right)
    if is_map(left) and is_map(right):
        keys = list(left.keys())
        return len(left) == len(right) and all(
            map_has(right, key) and equal(map_get(left, key), map_get(right, key)) for key in keys
        )
    if isinstance(left, Opaque) and isinstance(right, Opaque):
        return as_json(left.raw) == as_json(right.raw)
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.present == right.present and equal(left.value, right.value)
    return type(left) is type(right) and bool(left == right)


def _lists_equal(left: Any, right: Any) -> bool:
    if len(left) != len(right):
        return False
    typed = left if isinstance(left, TypedList) else right if isinstance(right, TypedList) else None
    if typed is not None and typed.list_type in ("set", "map"):
        other = list(right if typed is left else left)
        return all(any(equal(item, each) for each in other) for item in typed)
    return all(equal(one, other) for one, other in zip(left, right, strict=True))


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1. Raises NoSuchOverloadError for values without an order."""
    spend()
    ordered = (is_number(left) and is_number(right)) or (
        type(left) is type(right) and isinstance(left, (str, bytes, bool, Duration, Timestamp))
    )
    if not ordered:
        raise NoSuchOverloadError
    if isinstance(left, str):
        spend_reading(left, right)
        left, right = left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass")
    return int(left > right) - int(left < right)


def distinct(items: Iterable[Any]) -> list[Any]:
    """The items without those that are equal to one before."""
    found: list[Any] = []
    known: dict[Hashable, list[Any]] = {}
    for item in items:
        alike = known.setdefault(_shared(item), [])
        if not any(equal(item, each) for each in alike):
            alike.append(item)
            found.append(item)
    return found


def _shared(value: Any) -> Hashable:
    """A key that all equal values share, and hardly any other value has."""
    spend()
    if is_number(value):
        return ("number", value)
    if is_list(value):
        # Lists of type set or map are equal in any order.
        return ("list", len(value), frozenset(map(_shared, value)))
    if is_map(value):
        return ("map", frozenset((_shared(key), _shared_value(value, key)) for key in value.keys()))  # noqa: SIM118
    if isinstance(value, Opaque):
        return ("opaque", as_json(value.raw))
    if isinstance(value, Optional):
        return ("optional", value.present, _shared(value.value))
    spend_reading(value)
    try:
        hash(value)
    except TypeError:
        return type(value).__name__
    return (type(value), value)


def _shared_value(value: Any, key: Any) -> Hashable:
    try:
        return _shared(map_get(value, key))
    except EvaluationError:
        return None

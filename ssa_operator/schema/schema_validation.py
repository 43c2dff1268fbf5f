"""Validates a value against the schema of a CRD, as the API server does.

Promises:
- The verdict is the API server's, and so are the errors: type, required, enum, ranges, lengths, patterns, formats,
  allOf, anyOf, oneOf, not, and the uniqueness in lists of type set and map.
- A pattern that can't be checked is reported as unchecked, and refuses nothing.

The rules are those of k8s.io/kube-openapi (pkg/validation/validate) and k8s.io/apiextensions-apiserver. They are not
JSON Schema's: null, nullable, int-or-string, formats and the words of the errors are Kubernetes' own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.objects.json_schema import Schema, fields, is_number
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.field_errors import (
    OMITTED,
    ErrorType,
    FieldError,
    Place,
    as_json,
    error_at,
    error_field,
    number_text,
    quoted,
    walk,
)
from ssa_operator.schema.string_formats import go_pattern, is_format, known_format


@dataclass(slots=True)
class SchemaResult:
    """The result of the validation of a value."""

    errors: list[FieldError] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    """The checks that could not be made, as sentences."""
    matches: int = 0
    """The API server counts its checks, and of several alternatives shows the errors of the one with most."""
    _known: dict[tuple[object, ...], list[FieldError]] = field(default_factory=dict)
    """The errors by what they have beside the value, which no mapping can have as a key."""

    def __post_init__(self) -> None:
        errors, self.errors = self.errors, []
        self.add(*errors)

    def add(self, *errors: FieldError | None) -> None:
        """Add errors that it doesn't have yet."""
        for error in errors:
            if error is not None:
                known = self._known.setdefault((error.path, error.field, error.type, error.detail), [])
                if error not in known:
                    known.append(error)
                    self.errors.append(error)

    def merge(self, *others: SchemaResult) -> None:
        """Add the errors of others."""
        for other in others:
            self.add(*other.errors)
            self.unchecked += [each for each in other.unchecked if each not in self.unchecked]
            self.matches += other.matches


def validate(schema: Schema, value: Any, path: FieldPath = ()) -> SchemaResult:
    """The result of validating a value at a path of an object."""
    result = SchemaResult()
    if value is None:
        result.merge(_of_type(schema, value, path), _of_enum(schema, value, path))
        return result
    for applies, rule in _RULES:
        if applies(schema, value):
            result.merge(rule(schema, value, path))
            result.matches += 1
    result.matches += 1
    return result


def validate_lists(schema: Schema, value: Any) -> list[FieldError]:
    """The errors of lists of type set and map whose items are not unique."""
    errors: list[FieldError] = []
    for inner, item, place in walk(schema, value):
        list_type = inner.get("x-kubernetes-list-type") if isinstance(item, (list, tuple)) else None
        if list_type == "set":
            errors += [place.item(at).error(ErrorType.DUPLICATE, item[at]) for at in _repeated(item)]
        elif list_type == "map":
            errors += _of_list_map(inner, item, place)
    return errors


def _of_list_map(schema: Schema, value: Sequence[Any], place: Place) -> Iterator[FieldError]:
    for position, item in enumerate(value):
        if item is not None and not isinstance(item, Mapping):
            words = "must be an object for an array of list-type map"
            yield place.item(position).error(ErrorType.INVALID, item, words)
            return
    names = schema.get("x-kubernetes-list-map-keys") or ()
    keys = [{name: item[name] for name in names if name in item} if item else {} for item in value]
    for repeated in _repeated(keys):
        yield place.item(repeated).error(ErrorType.DUPLICATE, keys[repeated])


def _repeated(items: Sequence[Any]) -> Iterator[int]:
    """The positions at which a value comes for the second time."""
    counts: dict[tuple[str, str], int] = {}
    for position, item in enumerate(items):
        key = (type(item).__name__, as_json(item))
        counts[key] = counts.get(key, 0) + 1
        if counts[key] == 2:
            yield position


def _one(error: FieldError | None) -> SchemaResult:
    return SchemaResult([] if error is None else [error])


def _name(path: FieldPath) -> str:
    """The path in the words of a message; '' for the whole object."""
    return "" if not path else error_field(path)


def _general(path: FieldPath, detail: str) -> FieldError:
    """An error whose field the API server names in the text only."""
    return Place(path).error(ErrorType.INVALID, "", detail)


# ---- types


def _types(schema: Schema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _format(schema: Schema) -> str:
    """The format, '' for one that the API server ignores."""
    name, types = str(schema.get("format") or ""), _types(schema)
    if not name:
        return ""
    match types:
        case ("integer",):
            known = name in ("int32", "int64")
        case ("number",):
            known = name in ("float", "double")
        case ("boolean",) | ("object",) | ("array",):
            known = False
        case _:
            known = known_format(name)
    return name if known else ""


def type_name(value: Any) -> tuple[str, str]:
    """The type of a JSON value and its format, in OpenAPI's words."""
    if isinstance(value, bool):
        return "boolean", ""
    if isinstance(value, str):
        return "string", ""
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return "integer", "int64"
    if isinstance(value, (int, float)):
        return "number", "float64"
    return ("array", "") if isinstance(value, (list, tuple)) else ("object", "")


def _of_type(schema: Schema, value: Any, path: FieldPath) -> SchemaResult:
    result = SchemaResult(matches=1)
    types, name = _types(schema), _format(schema)
    if value is None:
        if types and not schema.get("nullable"):
            return _one(_wrong_type(path, ",".join(types), "null"))
        return result
    found, found_format = type_name(value)
    whole = found == "number" and float(value).is_integer() and "integer" in types
    number = found == "integer" and "number" in types
    textual = found in ("string", "array")
    if not textual and name and not (found in types or found_format == name or whole or number):
        return _one(_wrong_type(path, name, found_format))
    if not {"number", "integer"} & set(types) and name and textual:
        return result
    if not (found in types or whole or number):
        return _one(_wrong_type(path, ",".join(types), found))
    return result


def _wrong_type(path: FieldPath, wanted: str, value: str) -> FieldError:
    from_text = f'{_name(path)} in body must be of type {wanted}: "{value}"'
    return error_at(path, value, from_text, ErrorType.TYPE)


# ---- alternatives


def _of_alternatives(schema: Schema, value: Any, path: FieldPath) -> SchemaResult:
    result, name = SchemaResult(), f'"{_name(path)}"'
    if alternatives := schema.get("anyOf"):
        found = [validate(each, value, path) for each in alternatives]
        fitting = next((each for each in found if not each.errors), None)
        if fitting is None:
            result.add(_general(path, f"{name} must validate at least one schema (anyOf)"))
        result.merge(fitting or _best(found))
    if alternatives := schema.get("oneOf"):
        found = [validate(each, value, path) for each in alternatives]
        valid = [each for each in found if not each.errors]
        if len(valid) == 1:
            result.merge(valid[0])
        else:
            count = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
            result.add(_general(path, f"{name} must validate one and only one schema (oneOf). {count}"))
            if not valid:
                result.merge(_best(found))
    if parts := schema.get("allOf"):
        found = [validate(each, value, path) for each in parts]
        result.merge(*found)
        if failed := sum(bool(each.errors) for each in found):
            none = ". None validated" if failed == len(found) else ""
            result.add(_general(path, f"{name} must validate all the schemas (allOf){none}"))
    if isinstance(schema.get("not"), Mapping) and not validate(schema["not"], value, path).errors:
        result.add(_general(path, f"{name} must not validate the schema (not)"))
    result.matches += 1
    return result


def _best(found: Sequence[SchemaResult]) -> SchemaResult:
    return max(found, key=lambda each: each.matches)


# ---- strings


def _of_string(schema: Schema, value: Any, path: FieldPath) -> SchemaResult:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None and len(value) > longest:
        unit = "byte" if longest == 1 else "bytes"
        return _one(error_at(path, "", f"may not be more than {longest} {unit}", ErrorType.TOO_LONG))
    if shortest is not None and len(value) < shortest:
        return _one(error_at(path, value, f"{_name(path)} in body should be at least {shortest} chars long"))
    if pattern:
        compiled = go_pattern(pattern)
        if compiled is None:
            return SchemaResult(unchecked=[f"{error_field(path)}: the pattern {pattern}"])
        if compiled.search(value) is None:
            return _one(error_at(path, value, f"{_name(path)} in body should match '{pattern}'"))
    return SchemaResult()


def _of_format(schema: Schema, value: Any, path: FieldPath) -> SchemaResult:
    name = _format(schema)
    if is_format(name, value):
        return SchemaResult()
    detail = f"{_name(path)} in body must be of type {name}: {as_json(value)}"
    return _one(error_at(path, value, detail, ErrorType.TYPE))


# ---- numbers

_INT_RANGES = {"int32": 2**31, "int64": 2**63}


def _out_of_range(schema: Schema, value: Any, what: str, path: FieldPath) -> FieldError | None:
    """Whether a number of the value or of the schema lies outside the type of the field."""
    kind, name = _types(schema), _format(schema)
    if kind == ("integer",):
        bound = _INT_RANGES.get(name, 2**63)
        if float(value).is_integer() and -bound <= int(value) < bound:
            return None
        form = f"with format {name}" if name else "(default format)"
        return _general(path, f"{what} value must be of type integer {form} in {_name(path)}")
    if kind == ("number",) and name == "float" and abs(float(value)) > 3.4028235677973366e38:
        return _general(path, f"{what} value must be of type number with format float in {_name(path)}")
    return None


def _of_number(schema: Schema, value: Any, path: FieldPath) -> SchemaResult:
    result = SchemaResult(matches=1)
    result.add(_out_of_range(schema, value, "Checked", path))
    for key, what, exclusive, strict_words, fits, words in _NUMBER_RULES:
        bound = schema.get(key)
        if bound is None:
            continue
        out_of_range = _out_of_range(schema, bound, what, path)
        result.add(out_of_range)
        native = out_of_range is None and isinstance(value, int)
        limit, is_strict = int(bound) if native else bound, bool(exclusive and schema.get(exclusive))
        if not fits(value, limit) or (is_strict and value == limit):
            should = f"should be {strict_words if is_strict else words} {number_text(limit)}"
            result.add(error_at(path, value, f"{_name(path)} in body {should}"))
    return result


def _is_multiple(value: Any, factor: Any) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return factor > 0 and value % factor == 0
    return bool(factor > 0 and (value / factor).is_integer())


_NUMBER_RULES: Sequence[tuple[str, str, str, str, Callable[[Any, Any], bool], str]] = (
    ("multipleOf", "MultipleOf", "", "", _is_multiple, "a multiple of"),
    ("minimum", "Minimum boundary", "exclusiveMinimum", "greater than", operator.ge, "greater than or equal to"),
    ("maximum", "Maximum boundary", "exclusiveMaximum", "less than", operator.le, "less than or equal to"),
)


# ---- lists, enums, objects


def _of_list(schema: Schema, value: Any, path: FieldPath) -> SchemaResult:
    result, size = SchemaResult(matches=1), len(value)
    items = schema.get("items")
    if isinstance(items, Mapping):
        result.merge(*(validate(items, item, (*path, position)) for position, item in enumerate(value)))
    if schema.get("minItems") is not None and size < schema["minItems"]:
        result.add(error_at(path, size, f"{_name(path)} in body should have at least {schema['minItems']} items"))
    if schema.get("maxItems") is not None and size > schema["maxItems"]:
        result.add(_too_many(path, size, schema["maxItems"]))
    if schema.get("uniqueItems") and any(True for _ in _repeated(value)):
        result.add(error_at(path, "", f"{_name(path)} in body shouldn't contain duplicates"))
    return result


def _too_many(path: FieldPath, size: int, most: int) -> FieldError:
    detail = f"must have at most {most} {'item' if most == 1 else 'items'}"
    return error_at(path, size, detail, ErrorType.TOO_MANY)


def _of_enum(schema: Schema, value: Any, path: FieldPath) -> SchemaResult:
    options = schema.get("enum")
    if not options or any(_same(value, option) for option in options if option is not None):
        return SchemaResult()
    texts = (option if isinstance(option, str) else as_json(option) for option in options)
    detail = "supported values: " + ", ".join(map(quoted, texts))
    return _one(error_at(path, value, detail, ErrorType.NOT_SUPPORTED))


def _same(value: Any, option: Any) -> bool:
    """Whether a value is an option of an enum. The API server converts numbers: 1.5 is the integer 1 there."""
    if isinstance(value, bool) or isinstance(option, bool):
        return value is option
    if isinstance(value, float) and isinstance(option, int):
        return int(value) == option
    if isinstance(value, (list, tuple, Mapping)):
        return type(value) is type(option) and as_json(value) == as_json(option)
    return bool(value == option)


def _of_object(schema: Schema, value: Any, path: FieldPath) -> SchemaResult:
    result, size = SchemaResult(), len(value)
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if fewest is not None and size < fewest:
        result.add(error_at(path, size, f"{_name(path)} in body should have at least {fewest} properties"))
    if most is not None and size > most:
        result.add(_too_many(path, size, most))
    properties, additional = fields(schema), schema.get("additionalProperties")
    for key, item in value.items():
        inner = (*path, key)
        if key in properties:
            result.merge(validate(properties[key], item, inner))
        elif isinstance(additional, Mapping):
            result.merge(validate(additional, item, inner))
        elif additional is False:
            result.add(error_at(path, key, f"{_name(path)}.{key} in body is a forbidden property"))
    for key in schema.get("required") or ():
        if key not in value:
            result.add(error_at((*path, key), OMITTED, kind=ErrorType.REQUIRED))
    return result


_Rule = tuple[Callable[[Schema, Any], bool], Callable[[Schema, Any, FieldPath], SchemaResult]]


_RULES: Iterable[_Rule] = (
    (lambda schema, _: bool(_types(schema) or _format(schema)), _of_type),
    (lambda _schema, _value: True, _of_alternatives),
    (lambda _, value: isinstance(value, str), _of_string),
    (lambda schema, value: isinstance(value, str) and _format(schema) != "", _of_format),
    (lambda _, value: is_number(value), _of_number),
    (lambda _, value: isinstance(value, (list, tuple)), _of_list),
    (lambda _schema, _value: True, _of_enum),
    (lambda _, value: isinstance(value, Mapping), _of_object),
)
"""In the order of the API server, because the first errors of a field come first."""

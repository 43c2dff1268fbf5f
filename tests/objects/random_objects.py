"""Random objects for a CRD's schema: most are valid, the others have faults of all kinds."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from ssa_operator.schema.string_formats import go_pattern, is_format

WORDS = (
    "a", "b", "web", "a.example.com", "10Mi", "1", "500m", "1h", "30s", "1h30m", "https://example.com/a?b=c", "8080",
    "2024-02-29T12:00:00Z", "2024-02-29", "10.0.0.1", "10.0.0.0/8", "fe80::1", "YQ==", "a@example.com", "v1", "Always",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "true", "example.com/name", "", "A B", "é😀", "-", "a\nb", "$1", "0", "10%",
    "x" * 64,
)  # fmt: skip


def random_object(definition: Mapping[str, Any], version: str, chance: random.Random) -> dict[str, Any]:
    """An object with faults in about half of the cases."""
    spec = definition["spec"]
    schema = next(each["schema"]["openAPIV3Schema"] for each in spec["versions"] if each["name"] == version)
    faults = chance.choice((0.0, 0.0, 0.0, 0.02, 0.1))
    maker = RandomObject(chance, faults, chance.choice((0.1, 0.3, 0.8)))
    found = maker.value({**schema, "nullable": False}, 0)
    body = found if isinstance(found, dict) else {}
    own = {"apiVersion": f"{spec['group']}/{version}", "kind": spec["names"]["kind"]}
    return body | own | {"metadata": maker.metadata()}


class RandomObject:
    """Makes the parts of one object."""

    def __init__(self, chance: random.Random, faults: float, fullness: float) -> None:
        self._chance = chance
        self._faults = faults
        self._fullness = fullness
        self._size = 0

    def metadata(self) -> dict[str, Any]:
        """Metadata, at times with a fault."""
        found: dict[str, Any] = {"name": f"sample-{self._chance.randrange(1000)}"}
        if self._fault():
            found["name"] = self._chance.choice(("A", "a_b", "a" * 254, "-a", "a.b"))
        if self._fault():
            found["labels"] = {self._chance.choice(("a", "a/b", "a b", "/a", "a/b/c", "")): self._chance.choice(WORDS)}
        if self._fault():
            found["annotations"] = {self._chance.choice(("a", "A/b", "a b")): "x y"}
        if self._fault():
            found["nonsense"] = 1
        return found

    def value(self, schema: Mapping[str, Any], depth: int) -> Any:
        """A value for a schema."""
        if self._fault():
            return self._chance.choice((None, 1, 1.5, -3, True, "text", [], {}, [1], {"a": 1}, [{"a": None}], 10**10))
        if "default" in schema and self._chance.random() < 0.3:
            return schema["default"]
        if schema.get("enum"):
            return self._chance.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self._chance.choice((1, 16, 80, "17", "10%", "1Gi", self._string(schema)))
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._list(schema, depth)
            case "string":
                return self._string(schema)
            case "boolean":
                return self._chance.random() < 0.5
            case "integer":
                return self._integer(schema)
            case "number":
                return self._integer(schema) + self._chance.choice((0, 0.5))
        return self._chance.choice((1, "a", {"a": {"b": 1}}, [1], True))

    def _fault(self) -> bool:
        return self._chance.random() < self._faults

    def _integer(self, schema: Mapping[str, Any]) -> int:
        low = int(schema.get("minimum", self._chance.choice((0, 1, 1, -1))))
        high = int(schema.get("maximum", max(low, 0) + self._chance.choice((0, 3, 100, 70000))))
        return self._chance.choice((low, high, self._chance.randint(min(low, high), max(low, high))))

    def _string(self, schema: Mapping[str, Any]) -> str:
        pattern, form = schema.get("pattern"), schema.get("format") or ""
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength", 1000)
        if self._fault():
            return self._chance.choice(WORDS)
        fitting = [
            word
            for word in WORDS
            if shortest <= len(word) <= longest
            and is_format(form, word)
            and (pattern is None or ((found := go_pattern(pattern)) is not None and found.search(word)))
        ]
        if pattern is not None and (not fitting or self._chance.random() < 0.5):
            return _matching(pattern, self._chance)
        return self._chance.choice(fitting) if fitting else "a" * shortest

    def _list(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        fewest, most = schema.get("minItems", 0), min(schema.get("maxItems", 3), 3)
        count = self._chance.randint(fewest, max(fewest, most)) if depth < 9 else fewest
        items = [self.value(schema.get("items") or {}, depth + 1) for _ in range(count)]
        if schema.get("x-kubernetes-list-type") in ("set", "map") and not self._fault():
            keys = schema.get("x-kubernetes-list-map-keys")
            seen: dict[str, Any] = {}
            for item in items:
                key = [item.get(each) for each in keys] if keys and isinstance(item, dict) else item
                seen.setdefault(repr(key), item)
            return list(seen.values())
        return items

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        self._size += 1
        required, found = schema.get("required") or (), {}
        properties = schema.get("properties") or {}
        full = self._fullness if self._size < 60 and depth < 9 else 0.0
        chosen = [name for name in properties if name in required or self._chance.random() < full / (1 + depth / 3)]
        if wanted := _alternative(schema, self._chance):
            chosen = [name for name in chosen if name not in wanted[1]] + [n for n in wanted[0] if n not in chosen]
        for name in chosen:
            if name in properties and not (name in required and self._fault()):
                found[name] = self.value(properties[name], depth + 1)
        additional = schema.get("additionalProperties")
        if additional and self._chance.random() < max(full, 0.2):
            inner = additional if isinstance(additional, Mapping) else {}
            for key in self._chance.sample(("a", "b", "c.d", "example.com/e"), self._chance.randint(1, 2)):
                found[key] = self.value(inner, depth + 1)
        if schema.get("x-kubernetes-embedded-resource"):
            found |= {"apiVersion": "v1", "kind": "Any", "metadata": self.metadata()}
        if self._fault():
            found["unknownField"] = self._chance.choice((1, {"a": 1}, [{}]))
        return found


def _alternative(schema: Mapping[str, Any], chance: random.Random) -> tuple[set[str], set[str]] | None:
    """The fields that one of `oneOf` or `anyOf` requires, and those that the others require."""
    options = schema.get("oneOf") or schema.get("anyOf")
    if not options or chance.random() < 0.2:
        return None
    fields = [set(option.get("required") or ()) for option in options]
    chosen = chance.choice(fields)
    return chosen, set().union(*fields) - chosen


@lru_cache(maxsize=1000)
def _parsed(pattern: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return parser.parse(pattern, re.ASCII)
        except (re.error, FutureWarning):
            return None  # Go's own syntax, such as [[:alpha:]]


def _matching(pattern: str, chance: random.Random) -> str:
    """A text that probably matches a pattern."""
    parsed = _parsed(pattern)
    return _text(parsed, chance) if parsed is not None else "a"


def _text(parsed: Any, chance: random.Random) -> str:
    result = ""
    for code, argument in parsed:
        if code is codes.LITERAL:
            result += chr(argument)
        elif code is codes.NOT_LITERAL:
            result += "y" if argument == ord("x") else "x"
        elif code is codes.ANY:
            result += "x"
        elif code is codes.IN:
            result += _of_class(argument, chance)
        elif code is codes.BRANCH:
            result += _text(chance.choice(argument[1]), chance)
        elif code is codes.SUBPATTERN:
            result += _text(argument[3], chance)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            low, high, inner = argument
            for _ in range(chance.randint(low, min(int(high), low + 3))):
                result += _text(inner, chance)
    return result


def _of_class(options: Any, chance: random.Random) -> str:
    if options[0][0] is codes.NEGATE:
        return chance.choice("xZ9_~")
    code, argument = chance.choice(options)
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.RANGE:
        return chr(chance.randint(*argument))
    return {codes.CATEGORY_DIGIT: "7", codes.CATEGORY_SPACE: " "}.get(argument, "w")

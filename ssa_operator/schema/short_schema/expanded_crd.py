"""The CRD of a short schema.

Promises:
- The name of the folder gives the plural and the group, as in `echoes.example.com`.
- What the API server refuses is an error here: a default outside of its bounds, an invalid name, a rule that is no CEL.
- A rule, a column and the subresource scale name only fields that the schema declares.
- Older versions have the fields of the current one, or their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from ssa_operator.objects.json_schema import RULES, Schema
from ssa_operator.objects.messages import did_you_mean
from ssa_operator.objects.source_location import FieldPath, field_text
from ssa_operator.schema.cel.field_names import unescaped
from ssa_operator.schema.cel.syntax import CELSyntaxError, Expression, names, parse, parts_of
from ssa_operator.schema.crd_validation import SCOPES, validate_crd
from ssa_operator.schema.new_object import defaulted
from ssa_operator.schema.operator_fields import COLUMNS, RESERVED, spec_fields, status_fields
from ssa_operator.schema.rule_validation import validate_rules
from ssa_operator.schema.short_schema.field_texts import TYPES, FieldReader

VERSION = "v1alpha1"
"""The version of a schema that names none, by the convention for an API that may still change."""

_KEYS: Mapping[str, type] = {
    **dict.fromkeys(("kind", "group", "version", "scope"), str),
    **dict.fromkeys(("shortNames", "categories", "validation", "columns"), list),
    **dict.fromkeys(("spec", "status", "types", "scale", "versions"), dict),
}
_WORDS: Mapping[type, str] = {str: "a text", list: "a list", dict: "a mapping"}
SCALE: Mapping[str, str] = {
    "replicas": "specReplicasPath",
    "statusReplicas": "statusReplicasPath",
    "selector": "labelSelectorPath",
}
_PATH = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_]*)+")


class SchemaMistake(Struct, frozen=True):
    """A mistake in a short schema."""

    path: FieldPath
    """The field of the short schema."""
    message: str

    def __str__(self) -> str:
        return f"{field_text(self.path)}: {self.message}" if self.path else self.message


class ShortSchema(Struct, frozen=True, kw_only=True):
    """What a short schema stands for."""

    crd: Mapping[str, Any]
    sources: Mapping[FieldPath, FieldPath]
    """The field of the short schema by the part of the CRD that it declares."""
    mistakes: tuple[SchemaMistake, ...] = field(default=())

    def source(self, path: FieldPath) -> FieldPath:
        """The field of the short schema that declares a part of the CRD, () for the whole."""
        return next((self.sources[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.sources), ())


def short_schema(folder: str, given: Any) -> ShortSchema:
    """The CRD of the short schema of a template folder. With mistakes the CRD is incomplete."""
    if not isinstance(given, Mapping):
        return ShortSchema(
            crd={}, sources={}, mistakes=(SchemaMistake((), f"a schema is a mapping of {', '.join(_KEYS)}"),)
        )
    reading = _Reading(folder, given)
    crd = reading.crd()
    found = ShortSchema(crd=crd, sources=reading.fields.sources)
    mistakes = [SchemaMistake(path, message) for path, message in reading.fields.mistakes]
    if not mistakes:
        for error in validate_crd(crd):
            path = found.source(error.path)
            mistakes.append(SchemaMistake(path, f"the API server refuses it: {error.message}"))
    return ShortSchema(crd=crd, sources=found.sources, mistakes=tuple(dict.fromkeys(mistakes)))


class _Reading:
    """Reads one short schema. The reader of its fields has the mistakes."""

    def __init__(self, folder: str, given: Mapping[str, Any]) -> None:
        self._folder = folder
        self._given = {key: value for key, value in given.items() if value is not None}
        self.fields = FieldReader({})
        self._refuse_keys(self._given, _KEYS, ())
        for key, kind in _KEYS.items():
            if key in self._given and not isinstance(self._given[key], kind):
                self._wrong((key,), f"must be {_WORDS[kind]}")
                del self._given[key]
        self.fields.types = self._given.get("types", {})

    def _wrong(self, path: FieldPath, message: str) -> None:
        self.fields.mistakes.append((path, message))

    def _refuse_keys(self, given: Mapping[str, Any], known: Mapping[str, Any], at: FieldPath) -> None:
        for key in given:
            if key not in known:
                hint = did_you_mean(str(key), known, f"known are {', '.join(known)}")
                self._wrong((*at, key), f"there is no field {key}; {hint}")

    def crd(self) -> dict[str, Any]:
        """The CRD."""
        given = self._given
        plural, _, group = self._folder.partition(".")
        if not group:
            self._wrong((), f"the folder {self._folder} has no API group; name it <plural>.<group>")
        if given.get("group", group) != group:
            self._wrong(("group",), f"is {given['group']}, and the folder is {self._folder}; remove it")
        kind = given.get("kind", "")
        if not kind:
            self._wrong(("kind",), "is missing; add it, as in kind: WebSite")
        version, scope = given.get("version", VERSION), given.get("scope", "Namespaced")
        if scope not in SCOPES:
            self._wrong(("scope",), f"is {scope}, and must be {' or '.join(SCOPES)}")
        crd_names: dict[str, Any] = {
            "kind": kind,
            "listKind": f"{kind}List",
            "plural": plural,
            "singular": kind.lower(),
        }
        for key in ("shortNames", "categories"):
            if given.get(key):
                crd_names[key] = [str(each) for each in given[key]]
                self.fields.sources.update({("spec", "names", key, at): (key, at) for at in range(len(given[key]))})
        for key in ("kind", "listKind", "singular"):
            self.fields.sources["spec", "names", key] = ("kind",)
        self.fields.sources["spec", "versions", 0, "name"] = ("version",)
        for name in self.fields.types:
            if name in TYPES or name == "float":
                self._wrong(("types", name), "is a type already; choose another name")
            self.fields.fields({name: name}, ("types",), ("types",))
        current = self._version(version, given, (), 0)
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self._folder},
            "spec": {
                "group": group,
                "scope": scope,
                "names": crd_names,
                "versions": [{**current, "storage": True}, *self._older()],
            },
        }

    def _version(self, name: str, given: Mapping[str, Any], at: FieldPath, position: int) -> dict[str, Any]:
        """One version of the CRD, with the fields at a path of the short schema."""
        root = ("spec", "versions", position, "schema", "openAPIV3Schema", "properties")
        spec = self.fields.fields(given.get("spec", {}), (*at, "spec"), (*root, "spec"))
        status = self.fields.fields(given.get("status", {}), (*at, "status"), (*root, "status"))
        for field_name in RESERVED:
            if field_name in status["properties"]:
                self._wrong((*at, "status", field_name), "is the operator's own field, which it declares; remove it")
        schema = {"spec": spec_fields(spec), "status": status_fields(status["properties"])}
        for key in ("required", RULES):
            if key in status:
                schema["status"][key] = status[key]
        rules = [*spec.get(RULES, ()), *self._rules(schema["spec"])]
        if rules:
            schema["spec"][RULES] = rules
            if "default" in schema["spec"]:
                # The API server validates a default by the rules before it adds the defaults of its fields.
                schema["spec"]["default"] = defaulted({}, spec)
        first = ("spec", "versions", position)
        self.fields.sources.setdefault((*first, "schema"), (*at, "spec"))
        return {
            "name": name,
            "served": True,
            "storage": False,
            "subresources": {"status": {}, **self._scale(schema, first)},
            "additionalPrinterColumns": self._columns(schema, first),
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    **({"required": ["spec"]} if spec.get("required") else {}),
                    "properties": schema,
                }
            },
        }

    def _older(self) -> Iterator[dict[str, Any]]:
        for position, (name, declared) in enumerate(self._given.get("versions", {}).items(), 1):
            given = {} if declared is None else declared
            at: FieldPath = ("versions", name)
            self.fields.sources["spec", "versions", position, "name"] = at
            if not isinstance(given, Mapping):
                self._wrong(at, "a version is a mapping of spec, status and deprecated")
                continue
            self._refuse_keys(given, dict.fromkeys(("spec", "status", "deprecated")), at)
            same: dict[str, Any] = {key: self._given[key] for key in ("spec", "status") if key in self._given}
            mistakes = self.fields.mistakes
            before = len(mistakes)
            older = self._version(name, {**same, **given}, at, position)
            # The rules and columns are those of the current version, which has their mistakes already.
            mistakes[before:] = [each for each in mistakes[before:] if each[0][:1] == ("versions",)]
            deprecated = given.get("deprecated", False)
            if not isinstance(deprecated, (str, bool)):
                self._wrong((*at, "deprecated"), "must be a text with the reason, or true")
            warning = {"deprecationWarning": deprecated} if isinstance(deprecated, str) and deprecated else {}
            yield {**older, **({"deprecated": True, **warning} if deprecated else {})}

    def _items(self, key: str, needed: tuple[str, ...], others: tuple[str, ...]) -> Iterator[tuple[int, Any]]:
        """The items of a list that have the needed texts, with their positions."""
        for at, item in enumerate(self._given.get(key, ())):
            if not isinstance(item, Mapping):
                self._wrong((key, at), f"must be a mapping of {', '.join((*needed, *others))}")
                continue
            self._refuse_keys(item, dict.fromkeys((*needed, *others)), (key, at))
            missing = [name for name in needed if not item.get(name)]
            texts = [name for name in (*needed, *others) if not isinstance(item.get(name, ""), str)]
            if missing or texts:
                what = f"{missing[0]} is missing; add it" if missing else f"{texts[0]} must be a text"
                self._wrong((key, at), what)
            else:
                yield at, item

    def _rules(self, spec: Schema) -> Iterator[dict[str, Any]]:
        """The rules of `validation`."""
        for at, item in self._items("validation", ("rule",), ("message",)):
            try:
                fault = _fault(parse(item["rule"]), spec)
            except CELSyntaxError as error:
                fault = f"is no CEL expression: {error}"
            rule = {"rule": item["rule"], **({"message": item["message"]} if item.get("message") else {})}
            if not fault and "default" in spec:
                without_fields = validate_rules({**spec, RULES: [rule]}, defaulted({}, spec))
                fault = "".join(
                    f"refuses a spec without fields ({error.detail}); change the defaults, mark a field required, or "
                    "begin with !has(self.FIELD) ||"
                    for error in without_fields.errors[:1]
                )
            if fault:
                self._wrong(("validation", at, "rule"), f"the rule {item['rule']!r} {fault}")
            else:
                yield rule

    def _columns(self, schema: Schema, first: FieldPath) -> list[Mapping[str, Any]]:
        own: list[Mapping[str, Any]] = []
        for at, item in self._items("columns", ("name", "path"), ("type",)):
            path: FieldPath = ("columns", at, "path")
            fields = self._declared(item["path"], schema, path)
            kind = item.get("type") or (fields.get("type") if fields else None)
            column = kind if item.get("type") or kind in ("integer", "number", "boolean") else "string"
            self.fields.sources[*first, "additionalPrinterColumns", len(own)] = ("columns", at)
            own.append({"name": item["name"], "type": column, "jsonPath": item["path"]})
        return [*own, *(each for each in COLUMNS if each["name"] not in {mine["name"] for mine in own})]

    def _scale(self, schema: Schema, first: FieldPath) -> dict[str, Any]:
        scale = self._given.get("scale")
        if scale is None:
            return {}
        self._refuse_keys(scale, SCALE, ("scale",))
        found = {}
        for name, path in SCALE.items():
            self.fields.sources[*first, "subresources", "scale", path] = ("scale", name)
            if isinstance(scale.get(name), str):
                self._declared(scale[name], schema, ("scale", name))
                found[path] = scale[name]
            elif name in scale or name != "selector":
                self._wrong(("scale", name), "must be the path of a field, as in .spec.replicas")
        return {"scale": found}

    def _declared(self, text: str, schema: Schema, at: FieldPath) -> Schema | None:
        """The schema of a field that a path as `.spec.replicas` names; None if that is unknown."""
        parts = text.split(".")[1:]
        if not _PATH.fullmatch(text) or parts[0] not in schema:
            return None
        found, fault = _declared(schema[parts[0]], parts[1:], parts[0])
        if fault:
            self._wrong(at, f"{text}: {fault}")
        return found


def _declared(schema: Schema, parts: list[str], above: str) -> tuple[Schema | None, str]:
    """The schema of a field below a schema, None if it accepts any; and a sentence if there is no such field."""
    found: Schema | None = schema
    for part in parts:
        assert found is not None
        if "properties" in found:
            if part not in found["properties"]:
                hint = did_you_mean(part, found["properties"], "declare it, or correct the name")
                return None, f"{above} has no field {part}; {hint}"
            found = found["properties"][part]
        else:
            found = found.get("additionalProperties")
        if found is None:
            break
        above = f"{above}.{part}"
    return found, ""


def _fault(node: Expression, spec: Schema) -> str:
    """Why a rule on the spec doesn't compile, '' if no reason is known."""
    inner = [*parts_of(node)]
    bound = {
        part.value
        for each in inner
        if each.kind == "call" and each.target
        for part in each.parts
        if part.kind == "name"
    }
    for name in names(node):
        if name not in bound and name in ("spec", *(spec.get("properties") or ())):
            of_self = "self" if name == "spec" else f"self.{name}"
            return f"has no variable {name}; write {of_self}, because self is the spec"
    for each in inner:
        if chain := _chain(each):
            _, fault = _declared(spec, list(chain), "self")
            if fault:
                return f"names a field that is not there: {fault}"
    return ""


def _chain(node: Expression) -> tuple[str, ...]:
    """The fields that a select reads of self or oldSelf; () for another expression."""
    parts: list[str] = []
    while node.kind == "select" and node.target is not None:
        parts.append(unescaped(node.value))
        node = node.target
    return tuple(reversed(parts)) if node.kind == "name" and node.value in ("self", "oldSelf") else ()

"""Checks the conversions of a folder: converts generated objects and examples there and back.

Promises:
- A field that has a place in both versions, and that the templates alone don't give back, or with another value, is
  named, also in an example.
- A field that a template reads or renders, and that the version doesn't declare, is found as in a manifest. What it
  loses is no other finding.
- A conversion that fails for an object that the CRD accepts, or that gives an object that the other version's schema
  refuses, is an error with its line.
- A conversion between versions that the CRD doesn't have, or that no object goes, is named.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.json_schema import Schema, fields, schema_at
from ssa_operator.objects.render_result import ConversionError
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, leaves, value_at
from ssa_operator.operator.conversion.folder_converters import converter
from ssa_operator.operator.conversion.rules import Converter
from ssa_operator.operator.conversion.unconverted import is_same
from ssa_operator.rendering.conversions import conversion_document
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.jinja.expansion import Expansion, ExpansionError
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.schema.crd_schema import Way, needed_conversions, object_schema, stored_version
from ssa_operator.schema.field_errors import OMITTED, FieldError
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.schema.new_object import new_object, prune
from ssa_operator.schema.operator_fields import RESERVED
from ssa_operator.schema.samples import Sampler, UnknownValueError, kind_of, sample_object
from ssa_operator.tools.checks.checked_project import CheckedProject
from ssa_operator.tools.checks.field_rules import UNDECLARED_FIELD, FolderFields, check_fields
from ssa_operator.tools.checks.text_rules import IGNORED_FILE
from ssa_operator.tools.findings import Code, Finding
from ssa_operator.tools.schema_rules import NO_FIELD, UNKNOWN_FIELD, check_schemas

_MISSING = object()

_OTHERS = 3
"""Values of a field that are tried instead of the sample's."""

_FIELDS = 200
"""Fields of an object that are changed."""


CONVERSION_FAILED = Code.error(
    "conversion-failed",
    "a conversion that fails",
    "A template in _convert/ fails for a generated object or an example, or gives an object that the schema of "
    "the other version refuses. The API server then refuses each request that needs the conversion. Correct "
    "the line: a field that is not required may be missing, so test it with `is defined`, or use `default`.",
)

LOSSY_CONVERSION = Code.warning(
    "lossy-conversion",
    "a field that a conversion there and back loses",
    "The field has a place in both versions, but the templates in _convert/ don't give its value back, or give "
    "another one. The "
    "annotation ssa-operator.dev/unconverted keeps the value, but users of the other version don't see it, and "
    "what they write there has no effect on it. Write the field in both templates. If you mean it, accept the "
    "warning with a comment in the first line of the file: {# check: lossy-conversion, REASON #}.",
)


def check_conversions(project: CheckedProject) -> Iterator[Finding]:
    """The findings of all folders with conversions."""
    definitions = {kind.folder: kind.definition for kind in project.kinds.values()}
    for folder in project.sources.folders.values():
        definition = definitions.get(folder.name)
        if folder.templates is None or not folder.templates.conversions or definition is None:
            continue
        needed = needed_conversions(definition)
        yield from _unused(folder, folder.templates, definition, needed)
        ways = [way for way in needed if way in folder.templates.conversions]
        if len(ways) == len(needed):
            bodies = [each.body for each in project.examples]
            trip = _Trips(
                definition=definition,
                converter=converter(folder.templates, definition),
                folder=folder,
                schemas=project.schemas,
            )
            found = [*dict.fromkeys(each for way in ways for each in (*trip.misread(way), *trip.findings(way, bodies)))]
            misread = any(each.code in (UNDECLARED_FIELD, UNKNOWN_FIELD) for each in found)
            yield from (each for each in found if not misread or each.code != LOSSY_CONVERSION)


def _unused(
    folder: Folder, templates: Templates, definition: Mapping[str, Any], needed: list[Way]
) -> Iterator[Finding]:
    versions = [each["name"] for each in definition["spec"]["versions"]]
    for way, file in templates.conversions.items():
        unknown = [each for each in way if each not in versions]
        if unknown:
            message = f"the CRD {folder.name} has no version {unknown[0]}; it has {', '.join(versions)}"
        elif way not in needed:
            stored = stored_version(definition)
            why = (
                f"objects go by way of the stored version {stored}"
                if stored not in way
                else "both have the same fields"
            )
            message = f"no object needs it, because {why}"
        else:
            continue
        yield Finding(code=IGNORED_FILE, message=message, location=SourceLocation(file.name, 1))


class _Trips(Struct, frozen=True, kw_only=True):
    """Converts objects of a CRD there and back."""

    definition: Mapping[str, Any]
    converter: Converter
    folder: Folder
    schemas: KubernetesSchemas

    def misread(self, way: Way) -> Iterator[Finding]:
        """The findings about the fields that the conversion reads."""
        templates, schema = self.folder.templates, object_schema(self.definition, way[0])
        if templates is None or schema is None:
            return
        expansion = Expansion(templates)
        with contextlib.suppress(ExpansionError):
            expansion.expand(templates.conversions[way].name)
        name = f"{self.folder.name} in {way[0]}"
        yield from check_fields([FolderFields(folder=name, schema=schema, fields=[*expansion.fields])])

    def findings(self, way: Way, examples: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
        """The findings for objects of a version that go to another one and back."""
        own, _ = way
        spec = self.definition["spec"]
        wanted = (spec["group"], own, spec["names"]["kind"])
        for each in examples:
            if (*split_api_version(str(each.get("apiVersion"))), each.get("kind")) == wanted:
                body = new_object(each, self.definition, own).body
                faults, there, back = self._converted(body, way)
                yield from faults
                if there is not None and back is not None:
                    for path in self.converter.lost_fields(body, there, back):
                        yield self._lost(path, way, arrives=True)
        least = sample_object(self.definition, own, whole=False)
        if not least.errors:
            yield from self._converted(new_object(least.body, self.definition, own).body, way)[0]
        sample = sample_object(self.definition, own)
        if sample.errors:
            return
        body = self._with_status(new_object(sample.body, self.definition, own).body, own)
        faults, there, back = self._converted(body, way)
        yield from faults
        if there is not None and back is not None:
            yield from self._lossy(body, there, back, way)

    def _with_status(self, body: Mapping[str, Any], version: str) -> dict[str, Any]:
        """The object with a status of the author's fields."""
        schema = schema_at(object_schema(self.definition, version), ("status",))
        own = {name: part for name, part in fields(schema).items() if name not in RESERVED}
        try:
            status = Sampler(whole=True).value({"type": "object", "properties": own})
        except UnknownValueError:
            status = {}
        return {**copy.deepcopy({**body}), **({"status": status} if status else {})}

    def _converted(
        self, body: Mapping[str, Any], way: Way
    ) -> tuple[list[Finding], Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """The findings about an object, and what it is there and back."""
        own, other = way
        assert self.folder.templates is not None
        try:
            there = self.converter.unaided(body, other)
            document, is_written = conversion_document(self.folder.templates, body, other)
        except ConversionError as error:
            return [self._failed(error, way)], None, None
        body = {**document.body, **{field: there[field] for field in ("apiVersion", "kind", "metadata")}}
        _, pruned = prune(body, object_schema(self.definition, other))
        # What a value has more than the other version holds comes back by the annotation.
        unknown = {f"{NO_FIELD}{field_text(path)}" for path in pruned if is_written(path)}
        found = check_schemas([replace(document, body=body)], self.schemas) if unknown else ()
        findings = [replace(each, subject="") for each in found if each.message in unknown]
        findings += [
            Finding(
                code=CONVERSION_FAILED,
                message=f"{own} to {other} gives an object that {other} refuses: {_shown(error)}",
                location=self._location(way),
            )
            for error in new_object(there, self.definition, other).errors
            if error.path[:1] != ("metadata",)
        ]
        try:
            return findings, there, self.converter.unaided(there, own)
        except ConversionError as error:
            return [*findings, self._failed(error, (other, own))], there, None

    def _failed(self, error: ConversionError, way: Way) -> Finding:
        problem = error.problem
        location = self._location(way) if problem is None or problem.location is None else problem.location
        message = str(error) if problem is None else problem.message
        return Finding(code=CONVERSION_FAILED, message=f"{message} (for a generated object)", location=location)

    def _location(self, way: Way) -> SourceLocation:
        assert self.folder.templates is not None
        return SourceLocation(self.folder.templates.conversions[way].name, 1)

    def _lossy(
        self, body: Mapping[str, Any], there: Mapping[str, Any], back: Mapping[str, Any], way: Way
    ) -> Iterator[Finding]:
        own = way[0]
        schema, others = (object_schema(self.definition, each) for each in way)
        lost: list[FieldPath] = []
        for path in [path for path, _ in leaves(_content(body)) if path[0] != "metadata"][:_FIELDS]:
            if any(path[: len(each)] == each for each in lost):
                continue
            before = value_at(back, path, _MISSING)
            reaches, varies = None, False
            for changed in self._with_others(body, path, schema, own):
                faults, there_changed, back_changed = self._converted(changed, way)
                if faults or there_changed is None or back_changed is None:
                    continue
                value = value_at(back_changed, path, _MISSING)
                varies = varies or not _is_same_or_missing(value, before)
                if reaches is None and not _is_same_or_missing(value, value_at(changed, path, _MISSING)):
                    arrives = not is_same(_content(there_changed), _content(there))
                    reaches = arrives if arrives or _declares(others, path) else None
            if reaches is not None:
                lost.append(path)
                yield self._lost(field_text(path), way, arrives=reaches, changed=varies)

    def _lost(self, path: str, way: Way, *, arrives: bool, changed: bool = False) -> Finding:
        own, other = way
        message = f"{path} of {own} has a place in {other}, and doesn't come back from there"
        if changed:
            message = f"{path} of {own} comes back from {other} with another value"
        missing = (other, own) if arrives else way
        fix = "write the same value here" if changed else "write the field here"
        return Finding(code=LOSSY_CONVERSION, message=message, fix=fix, location=self._location(missing))

    def _with_others(
        self, body: Mapping[str, Any], path: FieldPath, schema: Schema | None, version: str
    ) -> Iterator[dict[str, Any]]:
        """The object with other values of a field that its CRD accepts, and itself."""
        part = _part(schema, path)
        present, tried = value_at(body, path), 0
        for value in Sampler().values(part, str(path[-1])) if part is not None else ():
            if tried == _OTHERS:
                break
            if is_same(value, present):
                continue
            changed = new_object(_with(body, path, value), self.definition, version)
            if not changed.errors:
                tried += 1
                yield changed.body
        yield {**body}


def _shown(error: FieldError) -> str:
    return str(error) if error.value == OMITTED else f"{error.field}: {error.detail or error.type.value}"


def _is_same_or_missing(one: Any, other: Any) -> bool:
    if one is _MISSING or other is _MISSING:
        return one is other
    return is_same(one, other)


def _content(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}


def _part(schema: Schema | None, path: FieldPath) -> Schema | None:
    """The schema of a field, None if none declares it."""
    part = schema_at(schema, path)
    return part if part is not None and kind_of(part) not in ("object", "array") else None


def _declares(schema: Schema | None, path: FieldPath) -> bool:
    return _part(schema, path) is not None


def _with(body: Mapping[str, Any], path: FieldPath, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy({**body})
    above: Any = changed
    for name in path[:-1]:
        above = above[name]
    above[path[-1]] = value
    return changed

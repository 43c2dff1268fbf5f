"""The schemas of what a template reads: of the parent's fields, of other objects, and of the template's own variables.

Promises:
- A path whose type the text doesn't show has none.
- Variables that are set from each other end after `_DEPTH` steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ssa_operator.objects.json_schema import Schema, fields, part_schema
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.jinja.templates import SHARED, STATUS, VALUES
from ssa_operator.rendering.values.manifest_values import json_text
from ssa_operator.schema.kubernetes_schemas import METADATA
from ssa_operator.tools.editor.edited_project import EditedProject
from ssa_operator.tools.editor.places import ITEM, Binding, Chain, Step, bindings, leading_chain, lines_of, manifests

_DEPTH = 8
_STRING = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)')\s*""")

TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
_OPERATOR: Schema = {"properties": {"namespace": TEXT, "version": TEXT}}
_RESULT: Schema = {"properties": {"ready": {"type": "boolean"}, "reason": TEXT, "message": TEXT}}

_LOOP: Schema = {
    "properties": {
        "index": {"type": "integer"},
        "index0": {"type": "integer"},
        "first": {"type": "boolean"},
        "last": {"type": "boolean"},
        "length": {"type": "integer"},
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A text of a project in which a place is."""

    project: EditedProject
    path: Path
    text: str
    scope: Mapping[str, Binding] = field(default_factory=dict)
    """The names that the template binds before the place."""

    @property
    def lines(self) -> list[str]:
        return lines_of(self.text)

    def at(self, line: int, column: int) -> tuple[Reading, int]:
        """The same with each line break as one character, and the offset of a column of a line in its text."""
        lines = self.lines
        return replace(self, text="\n".join(lines)), sum(len(each) + 1 for each in lines[:line]) + column

    def before(self, offset: int) -> Reading:
        """The same at an offset."""
        return replace(self, scope=bindings(self.text, offset))

    @property
    def parent_schema(self) -> Schema:
        return self.project.parent_schema(self.project.folder_of(self.path)) or {}

    @property
    def is_status(self) -> bool:
        return self.path.name == STATUS


def members(schema: Schema | None, project: EditedProject) -> Mapping[str, Schema]:
    """The fields of an object by their names."""
    return fields(project.schemas.resolved(schema or {}))


def below(schema: Schema | None, part: str, project: EditedProject) -> Schema | None:
    """The schema of a field, or of the items of a list."""
    return project.schemas.part_schema(schema or {}, 0 if part == ITEM else part)


def at_path(schema: Schema | None, path: tuple[str, ...], project: EditedProject) -> Schema | None:
    """The schema of a field below another one."""
    for part in path:
        schema = below(schema, part, project)
    return schema


def type_of(chain: Chain, reading: Reading, depth: int = 0) -> Schema | None:
    """The schema of the value of a path, None if it is unknown."""
    if not chain or depth > _DEPTH:
        return None
    first, *steps = chain
    schema: Schema | None
    if steps and steps[0].kind == "call":
        schema = _called(first.text, steps.pop(0).text, reading)
    elif first.text in reading.scope:
        schema = _bound_type(reading.scope[first.text], reading, depth)
    else:
        schema = variables_types(reading).get(first.text)
    for step in steps:
        schema = _step(schema, step, reading)
    return schema


def _step(schema: Schema | None, step: Step, reading: Reading) -> Schema | None:
    if schema is None or step.kind == "call":
        return None
    if step.kind == "name":
        return below(schema, step.text, reading.project)
    key = string_of(step.text)
    return below(schema, ITEM if key is None else key, reading.project)


def variables_types(reading: Reading) -> Mapping[str, Schema]:
    """The schemas of a template's variables."""
    project, parent = reading.project, reading.parent_schema
    metadata: Schema = {"$ref": METADATA}
    fields = members(parent, project)
    return {
        "object": {**parent, "properties": {**fields, "metadata": metadata}},
        "metadata": metadata,
        "spec": fields.get("spec", {}),
        "status": fields.get("status", {}),
        "name": TEXT,
        "namespace": TEXT,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "values": _type_of_data(values_of(reading)),
        "operator": _OPERATOR,
        "loop": _LOOP,
        "kubernetes_version": TEXT,
        **({"result": _RESULT} if reading.is_status else {}),
    }


def values_of(reading: Reading) -> Mapping[str, Any]:
    """The settings of the installation that a template sees."""
    folder = reading.project.folder_of(reading.path)
    templates = None if folder is None else folder.templates
    return {} if templates is None else templates.surroundings.values


def _type_of_data(value: Any) -> Schema:
    """The schema that some data suggest; the data are its default."""
    if isinstance(value, Mapping):
        return {"type": "object", "properties": {str(name): _type_of_data(each) for name, each in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _type_of_data(value[0]) if value else {}, "default": value}
    names = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": names[type(value)], "default": value} if type(value) in names else {}


def _called(function: str, arguments: str, reading: Reading) -> Schema | None:
    texts = [string_of(each) for each in arguments.split(",")]
    if function in ("child", "live") and texts and texts[0]:
        return _of_kind(child_api_version(texts[0], reading.project, reading.path), texts[0], reading.project)
    if function in ("lookup", "lookup_all") and len(texts) > 1 and texts[0] and texts[1]:
        found = _of_kind(texts[0], texts[1], reading.project)
        return found if function == "lookup" else {"type": "array", "items": found or {}}
    return None


def _of_kind(api_version: str, kind: str, project: EditedProject) -> Schema | None:
    return project.schemas.with_status(api_version, kind)


def child_api_version(kind: str, project: EditedProject, path: Path) -> str:
    """The apiVersion in which a folder renders a kind; otherwise one that has it."""
    for manifest_path in manifest_files(project, path):
        for each in manifests(lines_of(project.text(manifest_path))):
            if each.kind == kind and each.api_version and "{" not in each.api_version:
                return each.api_version
    return next(iter(project.schemas.api_versions(kind)), "")


def manifest_files(project: EditedProject, path: Path) -> Iterator[Path]:
    """The template files of the folder of a file, and those that all folders share."""
    folder = project.folder_of(path)
    if folder is None:
        return
    for name in folder.files:
        if name not in (SCHEMA, SETTINGS, VALUES):
            yield folder.root / folder.name / name
    if folder.templates is not None:
        for name in folder.templates.file_names:
            if name.startswith(f"{SHARED}/"):
                yield folder.root / name


def _bound_type(binding: Binding, reading: Reading, depth: int) -> Schema | None:
    if binding.kind == "set":
        return type_of(leading_chain(binding.expression), reading, depth + 1)
    if binding.kind != "for":
        return None
    chain = leading_chain(binding.expression)
    if len(chain) > 2 and chain[-1].kind == "call" and chain[-2].text in ("items", "values", "keys"):
        entries = type_of(chain[:-2], reading, depth + 1)
        named = entries is not None and (
            chain[-2].text == "keys" or (chain[-2].text == "items" and not binding.position)
        )
        return TEXT if named else _any_value(entries, reading.project)
    return below(type_of(chain, reading, depth + 1), ITEM, reading.project)


def _any_value(schema: Schema | None, project: EditedProject) -> Schema | None:
    found = project.schemas.resolved(schema or {}).get("additionalProperties")
    return found if isinstance(found, Mapping) else None


def string_of(text: str) -> str | None:
    """The string that an expression is, None if it is another one."""
    match = _STRING.fullmatch(text)
    return None if match is None else match[1] if match[1] is not None else match[2]


# How a schema is shown.


def type_text(schema: Schema, project: EditedProject) -> str:
    """The type of a field in short: `integer`, `[]string`, `map[string]string`, `Container`."""
    name = schema.get("$ref")
    found = project.schemas.resolved(schema)
    if found.get("type") == "array" or "items" in found:
        items = part_schema(found, 0)
        return f"[]{type_text(items, project)}" if items else "[]"
    if name:
        return str(name)
    values = found.get("additionalProperties")
    if isinstance(values, Mapping) and values:
        return f"map[string]{type_text(values, project)}"
    if found.get("x-kubernetes-int-or-string"):
        return "integer or string"
    return str(found.get("type") or ("object" if found.get("properties") else "any"))


def type_lines(schema: Schema, project: EditedProject) -> list[str]:
    """What a schema says of a field beside its type and its description, a Markdown line each."""
    found = {**project.schemas.resolved(schema), **{key: value for key, value in schema.items() if key != "$ref"}}
    lines = []
    if "default" in found:
        lines.append(f"default: `{_short_json(found['default'])}`")
    if found.get("enum"):
        lines.append("one of " + ", ".join(f"`{_short_json(each)}`" for each in found["enum"]))
    limits = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format")
    lines += [f"{name}: `{found[name]}`" for name in limits if found.get(name) is not None]
    if found.get("deprecated"):
        lines.append("deprecated")
    return lines


def _short_json(value: Any) -> str:
    text = value if isinstance(value, str) else json_text(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def included_path(reading: Reading, name: str) -> Path | None:
    """The file that an include or import names, None if there is none."""
    folder = reading.project.folder_of(reading.path)
    own = reading.project.name_of(reading.path)
    if own is None:
        return None
    top = own.split("/")[0]
    folder_name = folder.name if folder is not None else top
    for full in (f"{folder_name}/{name}", name if name.startswith(f"{SHARED}/") else ""):
        path = reading.project.path_of(full)
        if full and ".." not in full.split("/") and (path in reading.project.unsaved or path.is_file()):
            return path
    return None


def file_text(reading: Reading, name: str) -> str:
    """The text of a file that an include or import names, '' without one."""
    path = included_path(reading, name)
    return "" if path is None else reading.project.text(path)

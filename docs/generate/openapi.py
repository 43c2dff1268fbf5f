"""Makes the OpenAPI document of the web view's JSON from its paths and types.

Promises:
- A description is the docstring of a type or of a field.
- The document depends on the code alone.

https://spec.openapis.org/oas/v3.1.1.html
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ssa_operator.tools.editor.vocabulary import docs_of
from ssa_operator.web import answers, folder_page, overview, parent_rows, rollout_page
from ssa_operator.web.answers import OPERATIONS, Operation

_REFUSALS = {
    "400": "A parameter is malformed; the text names it.",
    "401": "No valid token. The server that listens to this host alone needs none.",
    "403": "The account of the token lacks a permission; the text names it.",
    "404": "There is no such object.",
    "429": "The reader has too many pages open.",
    "502": "The API server refused or did not answer what the page asked it.",
    "503": "The API server can't be asked who may read, or too many readers wait.",
}

_EVENTS = """\
`state` has a whole value, `change` a JSON Merge Patch (RFC 7386) to the last one. A `state` with `error` instead has \
the reason why there is no value; with `gone`, too, the object is deleted, and the stream ends. `refused` has the \
`message` and the HTTP `status` of a reader who may no longer read this, and ends the stream."""


def document() -> dict[str, Any]:
    """The document."""
    types = list(dict.fromkeys(each.answer for each in OPERATIONS.values()))
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    answered = dict(zip(types, schemas, strict=True))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The JSON of ssa-operator's web view",
            "description": "What `ssa-operator run --ui` serves. No request changes anything.",
            "version": "v1",
        },
        "paths": {path: {"get": _operation(path, each, answered)} for path, each in OPERATIONS.items()},
        "components": {
            "schemas": {name: _described(name, schema) for name, schema in sorted(components.items())},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(path: str, operation: Operation, answered: Mapping[Any, Any]) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", path)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
    ]
    queries = [(each, text, each == operation.required) for each, text in operation.parameters.items()]
    if operation.streams:
        queries.append(("stream", "Any value: the value and its changes as server-sent events", False))
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        | ({"required": True} if required else {})
        for name, text, required in queries
    ]
    content: dict[str, Any] = {"application/json": {"schema": answered[operation.answer]}}
    if operation.streams:
        content["text/event-stream"] = {"schema": {"type": "string", "description": _EVENTS}}
    refusals = {"401", "403", "503"}
    refusals |= {"404", "502"} if names else set()
    refusals |= {"400"} if operation.parameters else set()
    refusals |= {"429"} if operation.streams else set()
    return {
        "summary": operation.summary,
        **({"parameters": parameters} if parameters else {}),
        "responses": {"200": {"description": operation.summary, "content": content}, **_answers(refusals)},
    }


def _answers(codes: Iterable[str]) -> dict[str, Any]:
    return {code: {"description": _REFUSALS[code]} for code in sorted(codes)}


def _described(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a type, with the descriptions of its fields."""
    docs = _field_docs(name, (answers, folder_page, overview, parent_rows, rollout_page))
    properties = {
        field: {**value, "description": " ".join(docs[field].split())} if field in docs else dict(value)
        for field, value in schema.get("properties", {}).items()
    }
    return {key: value for key, value in schema.items() if key != "title"} | (
        {"properties": properties} if properties else {}
    )


def _field_docs(name: str, modules: Iterable[Any]) -> Mapping[str, str]:
    kind = next((each for module in modules for each in [getattr(module, name, None)] if each is not None), None)
    if kind is None:
        return {}
    (node,) = ast.parse(inspect.getsource(getattr(importlib.import_module(kind.__module__), name))).body
    assert isinstance(node, ast.ClassDef)
    return docs_of("\n".join(map(ast.unparse, node.body)))


def text() -> str:
    """The document as JSON."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())

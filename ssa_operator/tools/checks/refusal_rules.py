"""Rules about what the API server refuses in manifests beyond their schemas: names, labels, containers and ports.

Promises:
- A rule is that of `schema/manifest_validation.py`, or what an API server refuses. A name or label that is wrong has a
  suggestion, where one is near.
- No finding shows a value of a Secret, or of a manifest that reads one.
- Each refusal of an API server is at least one finding, at the line of its field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, parse_field, value_at
from ssa_operator.schema.field_errors import ErrorType, FieldError, as_json, error_at
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.schema.manifest_validation import name_faults, validate_manifest
from ssa_operator.tools.findings import Code, Finding, field_finding, short_words, shows_values
from ssa_operator.tools.schema_rules import DUPLICATE_ITEM, INVALID_VALUE, MISSING_FIELD

if TYPE_CHECKING:
    from ssa_operator.kube.api.errors import ApiError

_NAMES = ("labels", "annotations", "matchLabels", "selector")


class AskedManifest(Struct, frozen=True, kw_only=True):
    """A manifest that is applied to an API server by dry run."""

    document: Document
    body: Mapping[str, Any]
    """What the operator sends of it."""


class Refusal(Struct, frozen=True, kw_only=True):
    """A manifest that an API server refuses."""

    manifest: AskedManifest
    error: ApiError


def check_refusals(documents: Iterable[Document], schemas: KubernetesSchemas) -> list[Finding]:
    """The findings in manifests whose values have the types of their kinds."""
    return [finding for document in documents for finding in _check(document, schemas)]


def _check(document: Document, schemas: KubernetesSchemas) -> Iterator[Finding]:
    seen = set()
    for error in validate_manifest(document.body, schemas):
        if error.path not in seen:  # too long and of wrong characters is one mistake
            seen.add(error.path)
            yield _finding(document, error)


def server_findings(refusal: Refusal) -> Iterator[Finding]:
    """The findings about a manifest that an API server refuses."""
    document, error = refusal.manifest.document, refusal.error
    seen = set()
    for cause in error.causes:
        path = _path(cause.field, refusal.manifest)
        if path and path not in seen:
            seen.add(path)
            yield _finding(document, _field_error(path, cause.message, refusal.manifest.body))
    if not seen:
        path = next((path for each in error.fields if (path := _path(each, refusal.manifest))), ())
        words = _OBJECT.sub("", error.message).removeprefix("errors:").strip()
        if path:
            words = words.removeprefix(next(iter(error.fields))).removeprefix(": ")
            yield field_finding(document, INVALID_VALUE, path, f"is refused: {words}", "")
        else:
            finding = field_finding(document, INVALID_VALUE, ("kind",), "", "")
            yield replace(finding, message=f"the API server refuses it: {words}", path=())


_OBJECT = re.compile(r"^failed to create typed patch object \([^)]*\): |^\S+ \"[^\"]*\" is (?:invalid|forbidden): ")
_TYPES = {str(each).strip(): each for each in (*ErrorType, ErrorType.INVALID)}


def _path(field: str, manifest: AskedManifest) -> FieldPath:
    """The path of a field in the document, () if the API server names none."""
    path = parse_field(field, manifest.body) if not field.startswith("<") else ()
    for at, part in enumerate(path):
        inner = (*path[:at], "metadata", *path[at:])
        # The API server's own type of a pod template has the labels without `metadata`.
        if part in ("labels", "annotations") and path[at - 1] != "metadata" and value_at(manifest.body, inner):
            return inner
    if path[:2] == ("spec", "clusterIPs") and value_at(manifest.body, path) is None:
        return ("spec", "clusterIP")
    if path[:1] == ("data",) and value_at(manifest.document.body, path) is None:
        return ("stringData", *path[1:]) if value_at(manifest.document.body, ("stringData", *path[1:])) else path
    return path


def _field_error(path: FieldPath, message: str, body: Mapping[str, Any]) -> FieldError:
    """A refusal of the API server as our own validation would have it."""
    refusal = FieldRefusal("", message)
    kind = _TYPES.get(refusal.label, ErrorType.INVALID)
    detail = refusal.detail or ("it names nothing that is there" if refusal.label == "Not found" else "")
    return error_at(path, value_at(body, path), detail, kind)


INVALID_NAME = Code.error(
    "invalid-name",
    "a name, a label or an annotation that the API server refuses",
    "Names of objects are lower case letters, digits, - and, for most kinds, dots. The name of a Namespace, a "
    "Service, a container or a port, and the value of a label, has at most 63 characters. Convert a value of "
    "the parent with a filter: {{ spec.title | lower | replace(' ', '-') }}, or restrict the field by a "
    "pattern in the CRD.",
)


def _finding(document: Document, error: FieldError) -> Finding:
    path = error.path
    if path[-1:] == ("image",) and error.type is ErrorType.REQUIRED:
        name = value_at(document.body, (*path[:-1], "name"))
        message = f"is missing: container {name} has no image" if isinstance(name, str) else "is missing"
        return field_finding(document, MISSING_FIELD, path, message, "")
    if error.type is ErrorType.REQUIRED:
        if error.detail and isinstance(value_at(document.body, path), Mapping):  # a part of it is missing
            message = error.detail if error.detail.startswith("must ") else f"is incomplete: {error.detail}"
            return field_finding(document, MISSING_FIELD, path, message, "")
        message = f"is missing; {error.detail}" if error.detail else "is missing"
        return field_finding(document, MISSING_FIELD, path, message, "")
    if error.type is ErrorType.FORBIDDEN:
        return field_finding(document, INVALID_VALUE, path, f"must not be set: {error.detail}", "remove it")
    if error.type is ErrorType.DUPLICATE:
        shown = f"is {shown_value(error.value)}, which" if shows_values(document) else "has a value that"
        return field_finding(document, DUPLICATE_ITEM, path, f"{shown} another item has, too", "")
    if error.type in (ErrorType.TOO_LONG, ErrorType.TOO_MANY):
        return field_finding(document, INVALID_VALUE, path, f"is refused: {error.detail}", "")
    if error.type is ErrorType.NOT_SUPPORTED:
        allowed = re.findall(r'"([^"]*)"', error.detail)
        words = f"must be {' or '.join(allowed)}"
        shown = f"is {shown_value(error.value)}, and " if shows_values(document) else ""
        near = [each for each in allowed if each.lower() == str(error.value).lower()]
        near = near or near_names(str(error.value), allowed)
        fix = f"did you mean {near[0]}?" if near and shows_values(document) else ""
        return field_finding(document, INVALID_VALUE, path, f"{shown}{words}", fix)
    if error.detail.startswith("may not be ") and error.value in ("", None, [], {}):
        return field_finding(document, INVALID_VALUE, path, f"must not be set: it {error.detail}", "remove one of both")
    is_name = (bool(path) and path[-1] == "name") or any(part in _NAMES for part in path)
    words = short_words(error.detail)
    message = f"is {shown_value(error.value)}" if shows_values(document) else "is refused"
    message += f": {words}" if words else ""
    is_text = isinstance(error.value, str) and error.value
    fix = _suggestion(document, path, error.value) if is_name and is_text and shows_values(document) else ""
    return field_finding(document, INVALID_NAME if is_name else INVALID_VALUE, path, message, fix)


_SHOWN = 100


def shown_value(value: Any) -> str:
    """A value in a message: a text as it is written, and all else as JSON; the beginning of a long one."""
    if isinstance(value, str):
        text = value or "empty"
    else:
        try:
            text = as_json(value)
        except (TypeError, ValueError):
            text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_SHELL = re.compile(r"\$\{?(\w+)}?|<(\w+)>")


def _suggestion(document: Document, path: FieldPath, value: Any) -> str:
    """What to write instead of a name or a label's value, as a sentence; '' for none."""
    text = str(value)
    if found := _SHELL.fullmatch(text):
        return f"write {{{{ {found[1] or found[2]} }}}}"
    if "{{" in text or "{%" in text:
        return ""
    is_label = path[-1] != "name"
    better = re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII).strip("-_.")
    better = better if is_label else better.replace("_", "-").lower()
    if not is_label and path == ("metadata", "name") and name_faults(document.identity.group_kind)(better):
        better = better.replace(".", "-")
    if better and better != text and len(better) <= 63:
        return (
            f"write {better}, or a lower filter: {{{{ ... | lower }}}}" if better == text.lower() else f"write {better}"
        )
    return ""

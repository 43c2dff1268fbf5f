"""Rules about the fields of the parent that templates read: the CRD must declare each of them.

Promises:
- An undeclared field is found even in branches that no example takes, in macros and in includes.
- `default` and `is defined` make no difference: the API server prunes the field, so no parent ever has it.
- A file in `_shared/` may read a field that only some of its folders have.
- Only a list, or a mapping with free keys, is dropped when it is empty. An empty mapping whose fields the schema names,
  as in `podSelector: {}`, means something and is kept.
- Only the kinds in COUNTED are checked. For any other built-in kind an empty value and a missing one are the same to
  the API server, and a custom resource keeps its empty values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.declared_fields import DECLARE, declared_siblings, first_undeclared
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_schema import Schema, fields, part_schema
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, misspelt_field
from ssa_operator.objects.template_contents import PossibleField
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.findings.findings import Finding, field_finding

SHARED = "_shared/"


class FolderFields(Struct, frozen=True, kw_only=True):
    """The fields that the templates of one folder read, and what its CRD declares."""

    folder: str
    schema: Mapping[str, Any]
    """The structural schema of the version that the operator reads."""
    fields: Sequence[PossibleField]


class _Undeclared(Struct, frozen=True):
    """A field that a schema doesn't declare."""

    path: FieldPath
    location: SourceLocation


def check_fields(folders: Sequence[FolderFields]) -> list[Finding]:
    """The findings about the fields that the templates of some folders read."""
    declared_somewhere: set[tuple[SourceLocation, FieldPath]] = set()
    undeclared: dict[_Undeclared, list[FolderFields]] = {}
    for folder in folders:
        for field in folder.fields:
            missing = first_undeclared(field.path, folder.schema)
            if missing is None:
                declared_somewhere.add((field.location, field.path))
            else:
                undeclared.setdefault(_Undeclared(missing, field.location), []).append(folder)
    return [
        _finding(each, readers[0])
        for each, readers in undeclared.items()
        if not (each.location.file.startswith(SHARED) and (each.location, each.path) in declared_somewhere)
    ]


def _finding(undeclared: _Undeclared, folder: FolderFields) -> Finding:
    text = field_text(undeclared.path)
    fix = misspelt_field(undeclared.path, declared_siblings(undeclared.path, folder.schema)) or DECLARE
    message = f"the CRD {folder.folder} declares no {text}"
    return Finding(code="undeclared-field", message=message, location=undeclared.location, fix=fix, about=text)


COUNTED: Mapping[GroupKind, tuple[str, ...]] = {
    GroupKind("networking.k8s.io", "NetworkPolicy"): ("spec",),
    GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): ("webhooks",),
    GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): ("webhooks",),
}
"""The kinds of which the API server counts an empty value as another one than a missing one, with the fields that it
compares: it raises `metadata.generation` with each apply (seen on 1.36.3; pkg/registry compares them with
reflect.DeepEqual, and those of other kinds with apiequality.Semantic).
"""


def check_empty_values(documents: Iterable[Document], schemas: KubernetesSchemas) -> list[Finding]:
    """The findings in manifests by the schemas of their kinds."""
    return [finding for document in documents for finding in _check(document, schemas)]


def _check(document: Document, schemas: KubernetesSchemas) -> Iterator[Finding]:
    body = document.body
    fields = COUNTED.get(document.identity.group_kind, ())
    schema = schemas.schema(body["apiVersion"], body["kind"]) if fields else None
    properties = (schema or {}).get("properties", {})
    for field in fields:
        for path in dropped_values(body.get(field), properties.get(field, {}), schemas, (field,)):
            message = "is empty; the API server drops it, and counts each apply as a change"
            yield field_finding(document, "repeated-change", path, message, "leave it out, which means the same")


def dropped_values(value: Any, schema: Schema, schemas: KubernetesSchemas, path: FieldPath) -> Iterator[FieldPath]:
    """The fields below a value that an API server of Kubernetes drops, because they are empty."""
    resolved = schemas.resolved(schema)
    if value == [] or (value == {} and part_schema(resolved, "") is not None and not fields(resolved)):
        yield path
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for part, item in entries:
        yield from dropped_values(item, part_schema(resolved, part) or {}, schemas, (*path, part))

"""Renders an object of one version as another version, by a template in `_convert/`.

Promises:
- A conversion sees the object and nothing else: neither the cluster nor the settings of the installation.
- The result has fields of the object, labels and annotations. A conversion that renders anything else fails.
- A fault of the template or of its result is a ConversionError with file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.render_result import ConversionError, Document, RenderProblem
from ssa_operator.objects.source_location import FieldPath, SourceLocation
from ssa_operator.rendering.error_locations import problem_of
from ssa_operator.rendering.jinja.templates import ManifestFile, Templates
from ssa_operator.rendering.render import nodes_of, variables_of_object
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.yaml.nodes import DocumentError, find_location, node_at


def render_conversion(templates: Templates, body: Mapping[str, Any], version: str) -> Mapping[str, Any]:
    """What the conversion of the object's version to another one renders. Raises ConversionError."""
    return conversion_document(templates, body, version)[0].body


def conversion_document(
    templates: Templates, body: Mapping[str, Any], version: str
) -> tuple[Document, Callable[[FieldPath], bool]]:
    """The same with its lines, and whether the template itself names a field. Raises ConversionError."""
    own = str(body["apiVersion"]).rpartition("/")[2]
    file = templates.conversions.get((own, version))
    if file is None:
        name = f"{templates.folder}/_convert/{own}-to-{version}.yaml.j2"
        raise ConversionError(f"there is no {name}, which objects of {own} need; add it")
    variables = {**templates.globals, **variables_of_object(body)}
    with limits.enforced():
        try:
            return _rendered(templates, file, variables, f"{str(body['apiVersion']).partition('/')[0]}/{version}")
        except Exception as error:
            found: RenderProblem = problem_of(error, templates, file.name, variables, None)
            raise ConversionError(str(found), found) from error


def _rendered(
    templates: Templates, file: ManifestFile, variables: dict[str, Any], api_version: str
) -> tuple[Document, Callable[[FieldPath], bool]]:
    """The result of a file. Raises DocumentError, and whatever a template raises."""
    nodes, slots = nodes_of(templates, file, variables)
    first = SourceLocation(file.name, 1)
    if not nodes:
        return Document(body={}, location=first, location_of=lambda _: first), lambda _: False
    if len(nodes) > 1:
        raise DocumentError("a conversion renders one mapping; remove this document", nodes[1].location)
    found = nodes[0].build(slots)
    if not isinstance(found, Mapping):
        raise DocumentError("a conversion renders a mapping of spec and status", nodes[0].location)
    wanted = {"apiVersion": api_version, "kind": variables["object"].get("kind")}
    for path, message in (*_wrong_identity(found, wanted), *_wrong_metadata(found.get("metadata"))):
        raise DocumentError(message, find_location(nodes[0], path, slots))
    document = Document(body=found, location=first, location_of=lambda path: find_location(nodes[0], path, slots))
    return document, lambda path: node_at(nodes[0], path) is not None


def _wrong_identity(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    for field, value in wanted.items():
        if found.get(field, value) != value:
            yield (field,), f"{field} is {found[field]}, and the result is {value}; remove the field"


def _wrong_metadata(metadata: Any) -> Iterator[tuple[FieldPath, str]]:
    """The mistakes in the metadata of a result."""
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield ("metadata",), "metadata must be a mapping of labels and annotations"
        return
    for field, values in metadata.items():
        at = ("metadata", field)
        if field not in ("labels", "annotations"):
            yield at, f"a conversion can't change metadata.{field}, only labels and annotations; remove it"
        elif values is not None and not isinstance(values, Mapping):
            yield at, f"metadata.{field} must be a mapping"
        else:
            for key, value in (values or {}).items():
                if str(key).startswith(PREFIX):
                    yield (*at, key), f"{key} is the operator's own; a conversion can't change it"
                elif value is not None and not isinstance(value, str):
                    yield (*at, key), f"metadata.{field}.{key} must be a text; write it in quotes"

"""Compares the versions of a CRD: which are stored, and between which objects need a conversion.

Promises:
- Objects need a way between the stored version and each other one whose schema differs by more than descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ssa_operator.schema.crd_schema import object_schema

Way: TypeAlias = tuple[str, str]
"""The version that a conversion reads, and the one that it renders."""


def stored_version(definition: Mapping[str, Any]) -> str:
    """The version in which the objects of a CRD are stored."""
    return next(str(each["name"]) for each in definition["spec"]["versions"] if each.get("storage"))


def needed_conversions(definition: Mapping[str, Any]) -> list[Way]:
    """The ways that the objects of a CRD need."""
    versions = [str(each["name"]) for each in definition["spec"]["versions"]]
    if len(versions) < 2:
        return []
    stored = stored_version(definition)
    schema = without_descriptions(object_schema(definition, stored))
    others = [
        each for each in versions if each != stored and without_descriptions(object_schema(definition, each)) != schema
    ]
    return [way for other in others for way in ((other, stored), (stored, other))]


def without_descriptions(schema: Any) -> Any:
    """A schema without what makes no difference to objects."""
    if isinstance(schema, Mapping):
        return {
            name: {field: without_descriptions(each) for field, each in part.items()}
            if name == "properties"
            else part
            if name in ("default", "enum")
            else without_descriptions(part)
            for name, part in schema.items()
            if name != "description" or not isinstance(part, str)
        }
    return [without_descriptions(each) for each in schema] if isinstance(schema, list) else schema

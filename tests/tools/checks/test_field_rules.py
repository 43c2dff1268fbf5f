"""Fields of the parent that templates read and that the CRD doesn't declare, as values."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.objects.template_contents import PossibleField
from ssa_operator.tools.checks.field_rules import FolderFields, check_fields

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "limits": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"cpu": {"type": "string"}}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "names": {"type": "array", "items": {"type": "string"}},
                "items": {"type": "object", "properties": {"first": {"type": "string"}}},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def reads(*paths: str, file: str = "echoes.example.com/a.yaml.j2", schema: dict[str, Any] = SCHEMA) -> FolderFields:
    """A folder that reads these fields, each at a line of its own."""
    fields = [
        PossibleField(path=tuple(path.split(".")), location=SourceLocation(file, line))
        for line, path in enumerate(paths, 1)
    ]
    return FolderFields(folder="echoes.example.com", schema=schema, fields=fields)


@pytest.mark.parametrize(
    "path",
    [
        *("spec", "spec.replicas", "spec.labels.anything", "spec.limits.x.cpu", "spec.free.a.b", "spec.names.0"),
        *("spec.items.first", "spec.labels.items", "spec.keys", "status.phase", "metadata.whatever", "spec.names.x"),
    ],
)
def test_a_field_that_a_parent_may_have_is_no_finding(path: str) -> None:
    assert check_fields([reads(path)]) == []


@pytest.mark.parametrize(
    ("path", "missing", "fix"),
    [
        ("spec.replcas", "spec.replcas", "did you mean spec.replicas?"),
        ("spec.limits.x.gpu", "spec.limits.x.gpu", "did you mean spec.limits.x.cpu?"),
        ("spec.zzzz.b.c", "spec.zzzz", "declare it, or remove it"),
        ("status.ready", "status.ready", "declare it, or remove it"),
        ("spec.items.frist", "spec.items.frist", "did you mean spec.items.first?"),
    ],
)
def test_a_field_that_no_parent_ever_has_is_found_with_the_nearest_one(path: str, missing: str, fix: str) -> None:
    (found,) = check_fields([reads("spec.replicas", path)])
    assert found.message == f"the CRD echoes.example.com declares no {missing}"
    assert (found.code, found.fix) == ("undeclared-field", fix)
    assert found.location == SourceLocation("echoes.example.com/a.yaml.j2", 2)


def test_a_shared_file_may_read_what_only_one_of_its_folders_has() -> None:
    other = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"lsn": {"type": "string"}}}}}
    shared = "_shared/a.yaml.j2"
    assert check_fields([reads("spec.lsn", file=shared), reads("spec.lsn", file=shared, schema=other)]) == []
    (found, _) = check_fields([reads("spec.lns", file=shared), reads("spec.x", file="b", schema=other)])
    assert found.message.endswith("declares no spec.lns")

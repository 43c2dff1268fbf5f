"""What a folder with rollouts needs beside its templates: a field of the CRD, and permissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.operator.crd_files import read_crds, schema_files
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import load_all
from ssa_operator.rendering.folder.object_files import load_objects
from ssa_operator.tools.checks.crd_rules import unreported_revisions
from ssa_operator.tools.permissions import Files, OperatorSettings, needed_permissions
from tests.packaging.checkout import ROOT

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """Two folders with rollouts: of a CRD without status.revision, and of a short schema."""
    for name in ("echoes.example.com", "sites.example.com"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "child.yaml").write_text(CONFIG_MAP)
        (tmp_path / name / "_settings.yaml").write_text("interval: 5s\nrollout: {}\n")
    (tmp_path / "sites.example.com" / "_schema.yaml").write_text("kind: Site\nspec: {size: integer}\n")
    return tmp_path


def test_a_crd_without_a_place_for_the_revision_is_a_finding(templates: Path) -> None:
    definitions, faults = read_crds(*schema_files([templates]))
    assert faults == {}
    documents = [*definitions, *load_objects([ROOT / "crds" / "echoes.example.com.yaml"])]
    (found,) = unreported_revisions(load_all([templates]), documents)
    assert "echoes.example.com declares no status.revision in v1" in found.message
    assert str(found.location) == "echoes.example.com/_settings.yaml:2"
    (templates / "echoes.example.com" / "_settings.yaml").unlink()
    assert list(unreported_revisions(load_all([templates]), documents)) == []


def test_the_roles_have_what_revisions_need_only_where_a_folder_has_rollouts(templates: Path) -> None:
    files = Files(templates=[templates], installation=Installation(), crds=[ROOT / "crds"], examples=[])

    def verbs() -> set[str]:
        needed = needed_permissions(files, OperatorSettings(namespace="ops")).needs
        permissions = [each.permission for each in needed if each.permission.resource == "controllerrevisions"]
        assert {each.namespace for each in permissions} <= {"ops"}
        return {each.verb for each in permissions}

    assert verbs() == {"get", "list", "watch", "create", "patch", "delete"}
    for settings in templates.glob("*/_settings.yaml"):
        settings.unlink()
    assert verbs() == set()

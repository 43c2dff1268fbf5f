"""The resources that have a template folder, and their settings, without compiled templates."""

from __future__ import annotations

from pathlib import Path

from ssa_operator.rendering.folder.folder_settings import DEFAULT, read_resource_settings
from ssa_operator.rendering.folder.loaded_folders import load_all
from tests.operator.harness import ROOT


def test_the_settings_are_those_that_the_operator_loads(tmp_path: Path) -> None:
    for name, text in {
        "things.example.com/_settings.yaml": "clusterScope: true\n",
        "things.example.com/a.yaml.j2": "",
        "broken.example.com/a.yaml.j2": "{% if %}",
        "invalid.example.com/_settings.yaml": "clusterScope: 1\n",
        "_shared/a.yaml.j2": "",
        "Wrong/a.yaml": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    roots = [tmp_path, ROOT / "templates"]
    loaded = {name: folder.settings for name, folder in load_all(roots).folders.items()}
    assert read_resource_settings(roots) == loaded
    assert loaded["things.example.com"].cluster_scope
    assert loaded["invalid.example.com"] == DEFAULT


def test_a_resource_in_two_templates_folders_has_the_default(tmp_path: Path) -> None:
    for root in ("a", "b"):
        folder = tmp_path / root / "things.example.com"
        folder.mkdir(parents=True)
        (folder / "_settings.yaml").write_text("clusterScope: true\n")
    roots = [tmp_path / "a", tmp_path / "b"]
    assert read_resource_settings(roots) == {"things.example.com": DEFAULT}
    assert load_all(roots).folders["things.example.com"].settings == DEFAULT


def test_a_templates_folder_that_does_not_exist_has_no_resources(tmp_path: Path) -> None:
    assert read_resource_settings([tmp_path / "missing"]) == {}

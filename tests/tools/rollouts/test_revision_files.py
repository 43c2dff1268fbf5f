"""What a revision changed, what is shown of it, and the templates folder that is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.loaded_folders import FolderInputs, load_all
from ssa_operator.tools.rollouts.stored_rollouts import changed_files, differences, near_folder, written

ECHOES = "echoes.example.com"
CHILD = f"{ECHOES}/child.yaml.j2"
SECRET = f"{ECHOES}/secret.yaml.j2"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {text: '{{ values.text }}'}\n"
INPUTS = FolderInputs(
    files={CHILD: MAP, f"{ECHOES}/_settings.yaml": "rollout: {}\n", "_shared/a.j2": "a"},
    data={f"{ECHOES}/files/key": b"\xff\x00"},
    overrides=({"text": "from values"},),
    operator={"namespace": "system", "version": "1"},
)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, []),
        ({"files": {**INPUTS.files, CHILD: "x"}}, ["child.yaml.j2"]),
        ({"files": {CHILD: MAP}}, ["_shared/a.j2", "_settings.yaml"]),
        ({"data": {}}, ["files/key"]),
        ({"overrides": ()}, ["--values"]),
        ({"operator": {}}, ["the operator"]),
        ({"hold_upgrade": True}, ["the operator"]),
    ],
)
def test_a_revision_names_the_files_that_it_changed(changes: dict[str, Any], named: list[str]) -> None:
    assert changed_files(ECHOES, INPUTS, replace(INPUTS, **changes)) == named


def test_the_differences_show_no_secret_no_value_and_no_data() -> None:
    secret = "kind: Secret\nstringData: {password: hidden}\n"
    after = replace(
        INPUTS, files={**INPUTS.files, CHILD: MAP + "# new\n", SECRET: secret}, data={}, overrides=({"text": "hidden"},)
    )
    shown = "\n".join(differences(INPUTS, after))
    assert "+# new" in shown
    assert f"{SECRET} differs; it is not shown" in shown
    assert "hidden" not in shown


def test_a_stored_revision_loads_as_the_templates_folder_that_it_was(tmp_path: Path) -> None:
    templates, installation = written(ECHOES, INPUTS, tmp_path)
    folder = load_all([templates], installation=installation).folders[ECHOES]
    assert folder.problems == ()
    assert folder.inputs is not None
    assert changed_files(ECHOES, INPUTS, replace(folder.inputs, operator=INPUTS.operator)) == []


def test_a_revision_with_a_path_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    for path in ("../outside", f"{ECHOES}/../../outside", str(tmp_path / "outside")):
        with pytest.raises(CommandError, match="can't be written"):
            written(ECHOES, replace(INPUTS, files={path: "x"}), tmp_path / "in")
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize(
    "word",
    ["echo", "Echo", "echoes", "templates/echoes.example.com", "templates/echoes.example.com/", "echos.example.com"],
)
def test_a_folder_is_found_by_its_singular_its_path_and_a_mistyped_name(word: str) -> None:
    assert near_folder(word, ["planes.example.com", ECHOES]) == ECHOES
    assert near_folder("something", [ECHOES]) == ""

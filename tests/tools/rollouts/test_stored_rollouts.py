"""The words of `rollout status` about a wave, and what is shown and made of a revision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.process.streams import CommandError, OutputFormat
from ssa_operator.operator.rollouts.revisions import StoredRevision
from ssa_operator.operator.rollouts.rules import Member, State
from ssa_operator.rendering.folder.loaded_folders import FolderInputs, load_all
from ssa_operator.tools import printing
from ssa_operator.tools.rollouts.stored_rollouts import (
    ShownRevision,
    changed_files,
    differences,
    near_folder,
    status_of,
    waits_for,
    wave_of,
    written,
)

AT_REST = State(loaded="new", successes=("old",))
ROLLING = replace(AT_REST, revision="new", wave=("place",))
TIME = "2026-11-29T02:00:00Z"
SINCE = {"1": TIME}
PARENT = Member(uid="1", namespace="default", name="p0", runs="new", revision="new", ready_before="old", ready=True)


def test_a_wave_is_the_canary_or_a_batch_of_several() -> None:
    states = (AT_REST, replace(ROLLING, wave=()), ROLLING, replace(ROLLING, canaries_done=True, batch=2, batches=5))
    assert [wave_of(state) for state in states] == ["", "", "canary", "batch 2 of 5"]


@pytest.mark.parametrize("output", [OutputFormat.JSON, OutputFormat.YAML])
def test_a_revision_and_a_status_print_as_data(output: OutputFormat, capsys: pytest.CaptureFixture[str]) -> None:
    live = LiveObject(encode({"metadata": {}}))
    stored = StoredRevision(revision="1d9e31446ead", number=3, parts=1, created=TIME, live=live)
    inputs = FolderInputs(files={"things.example.com/a.yaml.j2": ""}, data={})
    shown = ShownRevision(folder="things.example.com", stored=stored, state="current", inputs=inputs, before=inputs)
    printing.data([shown.description()], output)
    (found,) = yaml.safe_load(capsys.readouterr().out)
    assert (found["revision"], found["state"], found["changeCause"]) == (3, "current", "")
    assert (found["files"], found["changed"], found["differences"]) == (["a.yaml.j2"], [], [])
    printing.data(status_of("things.example.com", ROLLING, [PARENT], SINCE), output)
    found = yaml.safe_load(capsys.readouterr().out)
    assert (found["wave"], found["phase"], found["updated"]) == ("canary", "Progressing", 1)


def test_a_status_names_the_parent_that_a_wave_waits_for_and_since_when() -> None:
    unready = replace(PARENT, ready=False, message="no image")
    assert waits_for(ROLLING, [unready], SINCE) == f"; default/p0 is not Ready since {TIME}: no image"
    assert waits_for(ROLLING, [replace(PARENT, revision="old")], SINCE) == "; default/p0 has not got it yet"
    assert waits_for(ROLLING, [PARENT], SINCE) == ""
    assert (
        waits_for(replace(ROLLING, settles=TIME), [PARENT], SINCE) == f"; they are Ready, and `settle` ends at {TIME}"
    )


def test_no_wave_waits_for_a_parent_that_is_suspended_or_was_not_ready_before() -> None:
    others = [replace(PARENT, ready=False, suspended=True), replace(PARENT, ready=False, ready_before="")]
    assert "is not Ready" not in waits_for(ROLLING, others, SINCE)


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

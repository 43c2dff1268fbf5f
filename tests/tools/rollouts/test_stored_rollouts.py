"""The words of `rollout status` about a wave."""

from __future__ import annotations

import pytest
import yaml
from msgspec.structs import replace

from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.process.streams import OutputFormat
from ssa_operator.operator.rollouts.revisions import StoredRevision
from ssa_operator.operator.rollouts.rules import Member, State
from ssa_operator.rendering.folder.loaded_folders import FolderInputs
from ssa_operator.tools import printing
from ssa_operator.tools.rollouts.stored_rollouts import ShownRevision, status_of, waits_for, wave_of

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

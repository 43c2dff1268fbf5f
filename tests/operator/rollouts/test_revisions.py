"""Revisions as ControllerRevisions: their parts, their names, and which are kept."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.rollouts.revisions import (
    KEPT,
    PART_LIMIT,
    RevisionError,
    contents,
    decode_parts,
    encode_parts,
    obsolete,
    part_bodies,
    stored_revisions,
)
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Folder, FolderInputs, load_all, load_inputs

ECHOES = "echoes.example.com"

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {text: %s}\n"


def loaded(root: Path, text: str, installation: Installation | None = None) -> Folder:
    folder = root / ECHOES
    (folder / "files").mkdir(parents=True, exist_ok=True)
    (root / "_shared").mkdir(exist_ok=True)
    (root / "_shared" / "macros.yaml.j2").write_text("{% macro one() %}1{% endmacro %}")
    (folder / "files" / "picture").write_bytes(b"\xff\x00")
    (folder / "_settings.yaml").write_text("rollout: {}\n")
    (folder / "child.yaml.j2").write_text(CONFIG_MAP % text)
    return load_all([root], installation=installation or Installation()).folders[ECHOES]


def inputs_of(folder: Folder) -> FolderInputs:
    assert folder.inputs is not None
    return folder.inputs


def stored(folder: Folder, number: int = 1) -> list[LiveObject]:
    bodies = part_bodies(ECHOES, folder.revision, inputs_of(folder), number)
    return [LiveObject(encode({**body, "metadata": {**body["metadata"], "uid": "u"}})) for body in bodies]


def test_what_is_read_back_is_the_revision_that_was_stored(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"{ECHOES}: {{size: 3}}\n")
    folder = loaded(tmp_path / "templates", "{{ values.size }}", Installation(values=(values,)))
    inputs = decode_parts(contents(ECHOES, folder.revision, stored(folder)))
    again = load_inputs(ECHOES, folder.root, inputs)
    assert (again.revision, again.digest, again.settings) == (folder.revision, folder.digest, folder.settings)
    values.write_text(f"{ECHOES}: {{size: 4}}\n")
    other = loaded(tmp_path / "templates", "{{ values.size }}", Installation(values=(values,)))
    assert other.revision != folder.revision
    assert load_inputs(ECHOES, folder.root, inputs).revision == folder.revision


def test_the_version_of_the_operator_counts_where_templates_read_it(tmp_path: Path) -> None:
    for text, counts in (("one", False), ("{{ operator.version }}", True)):
        folder = loaded(tmp_path / "templates", text)
        later = replace(inputs_of(folder), operator={"version": "9", "namespace": "default"})
        assert (load_inputs(ECHOES, folder.root, later).revision != folder.revision) is counts
    held = loaded(tmp_path / "templates", "one", Installation(hold_upgrade=True))
    kept = decode_parts(contents(ECHOES, held.revision, stored(held)))
    assert load_inputs(ECHOES, held.root, kept).revision == held.revision
    later = replace(kept, operator={"version": "9", "namespace": "default"})
    assert load_inputs(ECHOES, held.root, later).revision != held.revision, "an upgrade is no rollout"
    rendering = replace(inputs_of(folder), rendering=-1)
    assert load_inputs(ECHOES, folder.root, rendering).revision != folder.revision


def test_a_large_folder_has_several_parts(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(3 * 2**20)
    inputs = FolderInputs(files={"a": "b"}, data={"a/files/x": content, "a/files/y": "can't be read"})
    parts = encode_parts(inputs)
    assert len(parts) == 5
    assert all(len(part) <= PART_LIMIT for part in parts)
    assert decode_parts(parts) == inputs
    with pytest.raises(RevisionError):
        decode_parts(parts[:-1])
    folder = loaded(tmp_path, "one")
    bodies = part_bodies(ECHOES, folder.revision, inputs, 1)
    assert len({body["metadata"]["name"] for body in bodies}) == 5
    with pytest.raises(RevisionError, match="it is not stored"):
        contents(ECHOES, folder.revision, [LiveObject(encode(body)) for body in bodies[:-1]])


def test_ten_revisions_are_kept_and_those_in_use(tmp_path: Path) -> None:
    folders = [loaded(tmp_path, str(number)) for number in range(14)]
    objects = [live for number, folder in enumerate(folders) for live in stored(folder, number)]
    assert [each.number for each in stored_revisions(objects)] == list(range(14))
    newest, oldest = folders[-1].revision, folders[0].revision
    left = [live.metadata.name for live in obsolete(objects, newest, {oldest})]
    assert left == [live.metadata.name for folder in folders[1 : 14 - KEPT] for live in stored(folder)]

"""Revisions of template folders as ControllerRevisions: what is in them, and what they are called.

Promises:
- A revision holds everything that decides the manifests, compressed. The same revision always has the same name.
- No part is larger than PART_LIMIT, whatever the folder holds.
- The revision that is read back is the one that was stored: its content is checked by its name.
- Ten revisions of a folder are kept, and those that parents are on.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.rollouts.rules import State
from ssa_operator.rendering.folder.loaded_folders import FolderInputs

REVISIONS = Resource(
    group="apps", version="v1", kind="ControllerRevision", plural="controllerrevisions", namespaced=True
)

PART_LIMIT = 900 * 1024
"""Bytes of the content of one object: the API server stores at most 1.5 MiB."""

SIZE_LIMIT = 256 * 2**20
"""Bytes of a revision that is read."""

KEPT = 10
"""Revisions of a folder, as a StatefulSet and a Deployment keep."""

FOLDER_LABEL = f"{PREFIX}folder"
"""The label with the template folder, shortened with a hash if its name is longer than a label may be."""

REVISION_LABEL = f"{PREFIX}revision"
"""The label of each part of a revision, with its digest."""

ROLLOUT_LABEL = f"{PREFIX}rollout"
"""The label of the object that holds how far the rollouts of a folder are."""

STATE_ANNOTATION = f"{PREFIX}rollout-state"
"""The annotation of that object with which parents have which revision."""

PARTS_ANNOTATION = f"{PREFIX}parts"
"""The annotation of the first part of a revision, with the number of all parts."""

RESULT_ANNOTATION = f"{PREFIX}result"
"""The annotation of the first part of a revision with what became of its last rollout."""

CHANGE_CAUSE = "kubernetes.io/change-cause"

_NAME_LIMIT = 220
_LABEL_LIMIT = 63


class RevisionError(Exception):
    """A stored revision that can't be used. The text has the reason."""


class RevisionResult(Struct, frozen=True, omit_defaults=True):
    """What became of the last rollout of a revision."""

    result: str
    """Succeeded, Stopped, Superseded or Undone."""
    time: str = ""
    message: str = ""
    """Why it was stopped."""


def result_of_change(before: State, after: State) -> list[tuple[str, str]]:
    """The revisions of which a change of the state decides what became of them, each with that."""
    if before.revision and not after.revision and after.succeeded == before.revision:
        return [(before.revision, "Succeeded")]
    if after.undone and after.undone != before.undone:
        return [(after.undone, "Undone")]
    if before.revision and after.revision != before.revision:
        return [(before.revision, "Superseded")]
    return [(after.revision, "Stopped")] if after.stopped and not before.stopped else []


class StoredRevision(Struct, frozen=True, kw_only=True):
    """The first part of a revision."""

    revision: str
    number: int
    """Its place in the history: greater than that of all revisions that were rolled out before."""
    parts: int
    created: str
    cause: str = ""
    """The annotation `kubernetes.io/change-cause`, as kubectl shows it."""
    result: RevisionResult | None = None
    """None while it is not known, as of the first one."""
    live: LiveObject


class _Content(FolderInputs, frozen=True, kw_only=True):
    data: dict[str, bytes]
    unreadable: dict[str, str]
    """Why a file below `files/` has no content."""


def shortened(name: str, limit: int) -> str:
    """A name of at most this many characters: a longer one ends with its hash."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - 9].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def state_name(folder: str) -> str:
    """The name of the object that holds the state of a folder's rollouts."""
    return shortened(folder, _NAME_LIMIT)


def part_name(folder: str, revision: str, part: int) -> str:
    """The name of a part of a revision; the first one is part 0."""
    return f"{state_name(folder)}-{revision}{f'-{part}' if part else ''}"


def folder_selector(folder: str) -> str:
    """The label selector of everything that is stored of a folder."""
    return f"{FOLDER_LABEL}={shortened(folder, _LABEL_LIMIT)}"


def revision_selector(folder: str, revision: str) -> str:
    """The label selector of the parts of a revision."""
    return f"{folder_selector(folder)},{REVISION_LABEL}={revision}"


def encode_parts(inputs: FolderInputs) -> tuple[str, ...]:
    """The content of each part of a revision."""
    data = {path: each for path, each in inputs.data.items() if isinstance(each, bytes)}
    unreadable = {path: each for path, each in inputs.data.items() if isinstance(each, str)}
    content = _Content(**{**asdict(inputs), "data": data, "unreadable": unreadable})
    encoded = base64.b64encode(zlib.compress(msgspec.json.encode(content, order="deterministic"), 9)).decode()
    return tuple(encoded[start : start + PART_LIMIT] for start in range(0, len(encoded), PART_LIMIT))


def decode_parts(parts: Iterable[str]) -> FolderInputs:
    """What was stored. Raises RevisionError."""
    try:
        unpacked = zlib.decompressobj()
        encoded = unpacked.decompress(base64.b64decode("".join(parts), validate=True), SIZE_LIMIT)
        if unpacked.unconsumed_tail or not unpacked.eof:
            raise RevisionError("it is incomplete or too large")
        content = msgspec.json.decode(encoded, type=_Content)
    except (ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise RevisionError(f"its content can't be read: {error}") from None
    fields = asdict(content)
    data = {**content.data, **fields.pop("unreadable")}
    return FolderInputs(**{**fields, "data": data})


def part_bodies(folder: str, revision: str, inputs: FolderInputs, number: int) -> Sequence[dict[str, Any]]:
    """The objects of a revision. The first one comes last, so that a revision that has it is complete."""
    parts = encode_parts(inputs)
    bodies = [
        {
            "apiVersion": REVISIONS.api_version,
            "kind": REVISIONS.kind,
            "metadata": {
                "name": part_name(folder, revision, at),
                "labels": {**_labels(folder), REVISION_LABEL: revision},
                "annotations": {} if at else {PARTS_ANNOTATION: str(len(parts))},
            },
            "revision": number,
            "data": {"content": content},
        }
        for at, content in enumerate(parts)
    ]
    return bodies[::-1]


def state_body(folder: str, state: State) -> dict[str, Any]:
    """The object that holds the state of a folder's rollouts."""
    return {
        "apiVersion": REVISIONS.api_version,
        "kind": REVISIONS.kind,
        "metadata": {
            "name": state_name(folder),
            "labels": {**_labels(folder), ROLLOUT_LABEL: "state"},
            "annotations": {STATE_ANNOTATION: encode_state(state)},
        },
        "revision": 0,
        "data": {"folder": folder},
    }


def encode_state(state: State) -> str:
    """The state as its annotation holds it."""
    return msgspec.json.encode(state).decode()


def read_state(live: LiveObject) -> State | None:
    """The state of a folder's rollouts, None if the annotation is missing or can't be read."""
    text = live.metadata.annotations.get(STATE_ANNOTATION, "")
    try:
        state = msgspec.json.decode(text, type=State)
    except msgspec.MsgspecError:
        return None
    return state if state.successes else None


def _read_result(live: LiveObject) -> RevisionResult | None:
    try:
        return msgspec.json.decode(live.metadata.annotations.get(RESULT_ANNOTATION, ""), type=RevisionResult)
    except msgspec.MsgspecError:
        return None


def state_folder(live: LiveObject) -> str:
    """The folder whose state an object holds, '' for another object."""
    data = live.body.get("data")
    return str(data.get("folder", "")) if isinstance(data, Mapping) else ""


def stored_revisions(objects: Iterable[LiveObject]) -> list[StoredRevision]:
    """The revisions of which the first part exists, in the order of their numbers."""
    found = []
    for live in objects:
        parts = live.metadata.annotations.get(PARTS_ANNOTATION, "")
        if parts.isascii() and parts.isdigit():
            number = live.body.get("revision")
            found.append(
                StoredRevision(
                    revision=live.metadata.labels.get(REVISION_LABEL, ""),
                    number=number if isinstance(number, int) else 0,
                    parts=int(parts),
                    created=live.metadata.creation_timestamp or "",
                    cause=live.metadata.annotations.get(CHANGE_CAUSE, ""),
                    result=_read_result(live),
                    live=live,
                )
            )
    return sorted(found, key=lambda each: each.number)


def contents(folder: str, revision: str, objects: Iterable[LiveObject]) -> list[str]:
    """The content of each part of a revision, in order. Raises RevisionError."""
    by_name = {live.metadata.name: live for live in objects}
    first = next((each for each in stored_revisions(by_name.values()) if each.revision == revision), None)
    if first is None:
        raise RevisionError("it is not stored")
    found = []
    for at in range(first.parts):
        live = by_name.get(part_name(folder, revision, at))
        data = live.body.get("data") if live is not None else None
        if not isinstance(data, Mapping) or not isinstance(data.get("content"), str):
            raise RevisionError(f"its part {part_name(folder, revision, at)} is missing")
        found.append(data["content"])
    return found


def obsolete(objects: Iterable[LiveObject], newest: str, used: Collection[str]) -> list[LiveObject]:
    """What is no longer needed of a folder beside its newest revision: the oldest ones, and parts without a first."""
    found = [live for live in objects if live.metadata.labels.get(REVISION_LABEL, newest) != newest]
    stored = [each.revision for each in stored_revisions(found)]
    kept = {*stored[-(KEPT - 1) :], *(each for each in stored if each in used)}
    return [live for live in found if live.metadata.labels[REVISION_LABEL] not in kept]


def _labels(folder: str) -> dict[str, str]:
    return {"app.kubernetes.io/managed-by": "ssa-operator", FOLDER_LABEL: shortened(folder, _LABEL_LIMIT)}

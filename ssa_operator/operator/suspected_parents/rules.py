"""Parents that are suspected of holding up or ending the operator: when each of them is reconciled again.

Promises:
- A suspect is reconciled after all other parents, and alone.
- Each attempt is recorded before it begins. If an attempt ends the process again, the pauses grow from FIRST_PAUSE to
  LONGEST_PAUSE seconds.
- A suspect whose spec or templates have changed is reconciled without a pause, after all others and alone.
- Any text is a valid record: unreadable parts are left out. A record has at most SUSPECTS_LIMIT parents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ssa_operator.objects.annotations import PREFIX

SUSPECTS_ANNOTATION = f"{PREFIX}suspected-parents"
"""The annotation of the operator's Lease with the record."""

SUSPECTS_LIMIT = 20
FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0

Key = tuple[str, str, str]
"""Template folder, namespace and name of a parent."""


class Version(Struct, frozen=True):
    """The inputs of a parent's reconcile."""

    generation: int
    templates: str
    """The digest of its folder's templates."""


class Suspect(Struct, frozen=True, kw_only=True):
    """A parent that was being reconciled when a process was held up or died."""

    folder: str
    namespace: str = ""
    name: str
    generation: int = 0
    templates: str = ""
    times: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """The number of processes in which it held up the event loop for long, or in which an attempt has not ended. 0 if a
    process died in a step that had just begun, because that may have had another cause.
    """
    at: Annotated[float, Meta(ge=0, le=1e10)] = 0.0
    """When it was recorded last, in seconds since the epoch."""
    process: str = ""
    """The process that recorded it last."""

    @property
    def key(self) -> Key:
        return self.folder, self.namespace, self.name

    @property
    def version(self) -> Version:
        return Version(self.generation, self.templates)


Suspects = tuple[Suspect, ...]


def read_suspects(text: str) -> Suspects:
    """The record in an annotation."""
    try:
        items = msgspec.json.decode(text, type=list[msgspec.Raw]) if text else []
    except (msgspec.DecodeError, RecursionError):
        return ()
    return _bounded(found for item in items if (found := _suspect(item)) is not None)


def _suspect(item: msgspec.Raw) -> Suspect | None:
    try:
        return msgspec.json.decode(item, type=Suspect)
    except (msgspec.DecodeError, RecursionError):
        return None


def write_suspects(suspects: Suspects) -> str:
    """The annotation of a record, '' without suspects."""
    return msgspec.json.encode(suspects).decode() if suspects else ""


def with_held(suspects: Suspects, key: Key, version: Version, now: float, process: str, *, certain: bool) -> Suspects:
    """The record after a step held up this process. `certain`: it took so long that nothing else can be the cause."""
    before = _find(suspects, key)
    if before is None or before.version != version:
        times = int(certain)
    else:
        # The attempt of this process is recorded already.
        times = max(before.times, int(certain)) if before.process == process else before.times + 1
    return _with(suspects, _new(key, version, times, now, process))


def with_attempt(suspects: Suspects, key: Key, version: Version, now: float, process: str) -> Suspects:
    """The record before an attempt to reconcile a suspect."""
    before = _find(suspects, key)
    times = before.times if before is not None and before.version == version else 0
    return _with(suspects, _new(key, version, times + 1, now, process))


def without(suspects: Suspects, keys: Iterable[Key]) -> Suspects:
    """The record after these parents were reconciled, or are gone."""
    gone = set(keys)
    return tuple(each for each in suspects if each.key not in gone)


def due_at(suspect: Suspect, version: Version, now: float) -> float:
    """When the next attempt is due, in seconds since the epoch. If the wall clock is set, the attempt is delayed by one
    pause at most.
    """
    if version != suspect.version or suspect.times <= 1:
        return now
    pause: float = min(FIRST_PAUSE * 2 ** min(suspect.times - 2, 10), LONGEST_PAUSE)
    return min(suspect.at, now) + pause


def suspicion(suspect: Suspect) -> str:
    """Why the parent is not ready, and what to do."""
    last = datetime.fromtimestamp(int(suspect.at), UTC).replace(tzinfo=None).isoformat()
    times = "once" if suspect.times == 1 else f"{suspect.times} times"
    return (
        f"the operator was held up or died while it reconciled this parent ({times}, last at {last}Z), "
        "so it is reconciled after all others, alone, and with growing pauses; "
        "change its spec or its templates, and it is tried at once"
    )


def _new(key: Key, version: Version, times: int, now: float, process: str) -> Suspect:
    folder, namespace, name = key
    return Suspect(
        folder=folder,
        namespace=namespace,
        name=name,
        generation=version.generation,
        templates=version.templates,
        times=times,
        at=now,
        process=process,
    )


def _find(suspects: Suspects, key: Key) -> Suspect | None:
    return next((each for each in suspects if each.key == key), None)


def _with(suspects: Suspects, suspect: Suspect) -> Suspects:
    return _bounded((*without(suspects, (suspect.key,)), suspect))


def _bounded(suspects: Iterable[Suspect]) -> Suspects:
    """The newest ones, each parent once."""
    newest = {each.key: each for each in sorted(suspects, key=lambda each: each.at)}
    return tuple(newest.values())[-SUSPECTS_LIMIT:]


Change = Callable[[Suspects], Suspects]
"""A change of the record."""

"""The rollout of a template folder: why it waits or stopped, what it waits for, its waves, what the sets differ in.

Promises:
- The state is that of `ssa-operator rollout status`, made by the same function.
- The waves that follow are those of the rules, if each parent becomes Ready. What is not stored, such as the wave in
  which a parent was reached, is not shown.
- No text of a file that may be a Secret's content is shown (`folder_page.py`), and no value of the installation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.rollout_settings import RolloutSettings
from ssa_operator.objects.scalars import timestamp
from ssa_operator.operator.rollouts.folder_rollout import FolderRollout
from ssa_operator.operator.rollouts.revisions import RevisionResult, StoredRevision
from ssa_operator.operator.rollouts.rules import (
    Member,
    RefusedError,
    State,
    paused,
    reaches,
    resumed,
    undo_target,
    waves_ahead,
)
from ssa_operator.rendering.folder.loaded_folders import FolderInputs
from ssa_operator.tools.rollouts.stored_rollouts import RolloutStatus, phase_of, status_of, wave_of
from ssa_operator.tools.tree.tree_view import READY, UNKNOWN
from ssa_operator.web.folder_page import DiffLine, differences, is_hidden, shown_lines
from ssa_operator.web.parent_rows import ParentRows

AHEAD = 12
"""Waves that are drawn of those that follow."""

LOOKS_AHEAD = 60_000
"""Parents that are looked at to find them: each wave looks at all."""

PARENTS = 30
"""Parents of a wave that a page names."""

REVISIONS = 10
"""Revisions of the history."""


class RolloutLine(Struct, frozen=True, kw_only=True):
    """How far the rollout of a folder is, in a line."""

    phase: str
    """As `rollout status` has it: Complete, Progressing, Paused, Waiting or Stopped."""
    message: str


class RolloutParent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A parent of a wave."""

    namespace: str
    """'' if it is cluster-scoped."""
    name: str
    revision: str
    """The revision that it runs, '' where none is known."""
    group: str
    reason: str
    """The reason of its condition Ready."""
    message: str = ""
    since: str | None = None
    broken: bool = False
    """Whether it stopped the rollout."""
    fails: str = ""
    """When it counts as failed if it is not Ready by then (RFC 3339), where this replica decides that."""


class RolloutWave(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parents that get the revision together."""

    name: str
    state: str
    """reached, current, ahead or skipped."""
    steps: Mapping[str, int]
    """How many of its parents are `ready` at the revision, `working`, `failed`, `left` or `skipped`."""
    counts: Mapping[str, int]
    """How many parents each group of states has."""
    revisions: tuple[str, ...]
    """Those that its parents run."""
    parents: tuple[RolloutParent, ...]
    """The first of them; those that are not Ready come first."""


class RolloutFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file in which two sets differ."""

    lines: tuple[DiffLine, ...] = ()
    """The difference, () where its values are not shown and nothing else differs, and of a file below `files/`."""
    hidden: bool = False
    """Whether its values are not shown, because they may be those of a Secret."""
    added: bool = False
    removed: bool = False


class RolloutRevision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored revision."""

    number: int
    name: str
    created: str
    result: str = ""
    """What became of its last rollout: Succeeded, Stopped, Superseded or Undone."""
    time: str = ""
    """When (RFC 3339)."""
    reason: str = ""


class RolloutPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that the page of a folder's rollout shows."""

    folder: str
    phase: str
    """As `rollout status` has it, None for a folder without rollouts."""
    message: str
    revision: str = ""
    """The revision that all parents are on, or get."""
    before: str = ""
    """The one that they had before it, while it is rolled out."""
    undo: str = ""
    """The revision to which `rollout undo` returns, '' where it is refused."""
    resumes: bool = False
    """Whether `rollout resume` does anything."""
    pauses: bool = False
    stopped: str = ""
    """Why it is stopped."""
    held: str = ""
    """Why it waits for a confirmation."""
    opens: str = ""
    """When the window opens, '' while it is open."""
    settled: str = ""
    """When the present wave has been Ready for `settle` (RFC 3339)."""
    parents: int = 0
    updated: int = 0
    """Parents that the rollout has reached."""
    ready: int = 0
    """Those of them that are Ready."""
    settings: Mapping[str, str] = {}
    """The setting `rollout`, in words."""
    waves: tuple[RolloutWave, ...] = ()
    files: Mapping[str, RolloutFile] = {}
    """What differs between `before` and `revision`, by the paths below the templates folder."""
    history: tuple[RolloutRevision, ...] = ()
    """The newest first."""
    notes: tuple[str, ...] = ()
    """What is not shown, with the reason."""


def rollout_line(rollout: FolderRollout | None, parents: int) -> RolloutLine | None:
    """The line of a folder with this number of parents, None without rollouts."""
    if rollout is None or rollout.state is None:
        return None
    phase, message = phase_of(rollout.name, rollout.state, rollout.reached, parents)
    return RolloutLine(phase=phase, message=message)


def make_rollout_page(
    folder: str,
    rollout: FolderRollout | None,
    members: Sequence[Member],
    rows: ParentRows,
    files: Mapping[str, RolloutFile],
    history: Sequence[StoredRevision],
    notes: tuple[str, ...],
) -> RolloutPage:
    """The page of a folder; `history` has the oldest revision first, and `rollout` is None without rollouts."""
    settings = rollout.newest.settings.rollout if rollout is not None else None
    if rollout is None or settings is None:
        words = f"{folder} has no rollouts: a change reaches all parents at once; `rollout: {{}}` in _settings.yaml"
        return RolloutPage(folder=folder, phase="None", message=f"{words} has it reach them in waves")
    state = rollout.state
    if state is None:
        why = f": {rollout.problem}" if rollout.problem else ""
        return RolloutPage(folder=folder, phase="Waiting", message=f"no revision of {folder} is stored yet{why}")
    status: RolloutStatus = status_of(folder, state, members, {})
    return RolloutPage(
        folder=folder,
        phase=status.phase,
        message=status.message,
        revision=status.revision,
        before=revision_before(state),
        undo="" if state.undone else undo_target(state) or "",
        resumes=_does(resumed, state),
        pauses=bool(state.revision) and not state.undo and not state.stopped and _does(paused, state),
        stopped=state.stopped,
        held=state.held,
        opens=state.opens,
        settled=state.settles,
        parents=status.parents,
        updated=status.updated,
        ready=status.ready,
        settings=_settings(settings),
        waves=tuple(_waves(rollout, state, settings, members, rows)),
        files=files,
        history=tuple(map(_revision, history[::-1][:REVISIONS])),
        notes=notes,
    )


def revision_before(state: State) -> str:
    """The revision that parents had before the one that is rolled out, '' at rest."""
    return (state.undone or state.succeeded if state.undo else state.succeeded) if state.revision else ""


def _does(change: Any, state: State) -> bool:
    try:
        change(state)
    except RefusedError:
        return False
    return True


def _settings(settings: RolloutSettings) -> dict[str, str]:
    found = {
        "batch": f"{settings.batch.number}{'%' if settings.batch.percent else ''}",
        "settle": f"{settings.settle:g}s",
        "maxUnready": str(settings.max_unready),
        "maxPrune": str(settings.max_prune),
    }
    if settings.window is not None:
        hours = settings.window.duration / 3600
        found["window"] = f"{settings.window.text} for {hours:g}h {settings.window.time_zone}"
    return found


def _revision(stored: StoredRevision) -> RolloutRevision:
    result = stored.result or RevisionResult("")
    return RolloutRevision(
        number=stored.number,
        name=stored.revision,
        created=stored.created,
        result=result.result,
        time=result.time,
        reason=result.message,
    )


def _waves(
    rollout: FolderRollout, state: State, settings: RolloutSettings, members: Sequence[Member], rows: ParentRows
) -> Iterable[RolloutWave]:
    def wave(name: str, kind: str, of: Collection[Member]) -> Iterable[RolloutWave]:
        if of:
            yield _wave(rollout, state, rows, name.capitalize(), kind, of)

    active = [each for each in members if not each.suspended]
    reached = [each for each in active if reaches(state, each)]
    wave_now = {*state.wave} if state.revision else set()
    current = [each for each in reached if each.place in wave_now]
    earlier = [each for each in reached if each.place not in wave_now]
    yield from wave("Reached" if state.revision else "All parents", "reached", earlier)
    yield from wave(wave_of(state), "current", current)
    left = {each.uid: each for each in active if not reaches(state, each)}
    most = min(AHEAD, LOOKS_AHEAD // max(1, len(members)))
    for begun, ahead in waves_ahead(state, members, settings, most):
        yield from wave(wave_of(begun), "ahead", [left.pop(each.uid) for each in ahead if each.uid in left])
    yield from wave("Later", "ahead", left.values())
    yield from wave("Skipped", "skipped", [each for each in members if each.suspended])


def _wave(
    rollout: FolderRollout, state: State, rows: ParentRows, name: str, kind: str, members: Collection[Member]
) -> RolloutWave:
    found = [_parent(rollout, state, rows, each) for each in members]
    found.sort(key=lambda each: (not each.broken, each.group == READY, each.namespace, each.name))
    return RolloutWave(
        name=name,
        state=kind,
        steps=Counter(_step(state, each, kind) for each in found),
        counts=Counter(each.group for each in found),
        revisions=tuple(sorted({each.revision for each in found})),
        parents=tuple(found[:PARENTS]),
    )


def _step(state: State, parent: RolloutParent, kind: str) -> str:
    if kind in ("skipped", "ahead"):
        return "left" if kind == "ahead" else kind
    if parent.broken:
        return "failed"
    return "ready" if parent.group == READY and parent.revision == state.target else "working"


def _parent(rollout: FolderRollout, state: State, rows: ParentRows, member: Member) -> RolloutParent:
    row = rows.find(rollout.name, member.namespace, member.name)
    fails = rollout.fails_at(member)
    return RolloutParent(
        namespace=member.namespace,
        name=member.name,
        revision=member.runs,
        group=UNKNOWN if row is None else row.group,
        reason="Unknown" if row is None else row.reason,
        message="" if row is None else row.message,
        since=None if row is None else row.since,
        broken=bool(state.stopped) and member.place in state.failed,
        fails="" if fails is None or state.stopped else timestamp(fails),
    )


def changed_files(before: FolderInputs, after: FolderInputs) -> dict[str, RolloutFile]:
    """What differs between two sets."""
    found = {}
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old != new:
            found[path] = RolloutFile(
                lines=tuple(differences(shown_lines(path, old or ""), shown_lines(path, new or ""))),
                hidden=is_hidden(path, old or "") or is_hidden(path, new or ""),
                added=old is None,
                removed=new is None,
            )
    for path in sorted({*before.data, *after.data}):
        if before.data.get(path) != after.data.get(path):
            found[path] = RolloutFile(hidden=True, added=path not in before.data, removed=path not in after.data)
    return found

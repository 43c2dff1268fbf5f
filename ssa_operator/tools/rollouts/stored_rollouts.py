"""The stored rollouts and revisions of a folder: reads and changes them, and lets commands use the templates of a
revision.

Promises:
- A user needs no operator at hand: everything is read from the cluster, and the operator follows what is written.
- An undo goes to the last revision that succeeded. Another one has to be forced. It says what the operator does.
- A value of `--values`, the content of `files/`, and a file that renders a Secret are named, never shown.
- A revision that isn't stored, or can't be read, is an error that says so; nothing else is taken in its place.
- Nothing is written outside of the temporary folder, whatever paths a revision has. It is removed at the end.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, json
from msgspec.structs import asdict, replace

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import counted, near_names
from ssa_operator.objects.readiness import condition_of
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process import connection
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.operator.rollouts.members import stored_member
from ssa_operator.operator.rollouts.requests import RevisionStore
from ssa_operator.operator.rollouts.revisions import (
    RevisionError,
    RevisionResult,
    StoredRevision,
    read_state,
    state_folder,
)
from ssa_operator.operator.rollouts.rules import (
    UNSTORED,
    Member,
    RefusedError,
    State,
    begins,
    reaches,
    resumed,
    undo_target,
    undone,
)
from ssa_operator.rendering.folder.contained_files import write_bytes
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import FolderInputs
from ssa_operator.tools.command_target import resolve_kind
from ssa_operator.tools.plan.previews import USAGE, ParentArguments

OPERATOR = "the operator"
"""Stands for another version or namespace of the operator, or another version of its rendering."""

_SECRET = re.compile(r"""\bkind["']?[ \t]*:[ \t]*["']?Secret\b""")


def changed_files(folder: str, before: FolderInputs, after: FolderInputs) -> list[str]:
    """The files that two revisions don't have in common, `--values`, and the operator; those of the folder without its
    name.
    """
    one, other = ({**each.files, **each.data} for each in (before, after))
    found = sorted(path for path in {*one, *other} if one.get(path) != other.get(path))
    if before.overrides != after.overrides:
        found.append("--values")
    if any(getattr(before, each) != getattr(after, each) for each in ("operator", "rendering", "hold_upgrade")):
        found.append(OPERATOR)
    return [path.removeprefix(f"{folder}/") for path in found]


def differences(before: FolderInputs, after: FolderInputs) -> Sequence[str]:
    """The lines of a unified diff of the templates and settings of two revisions."""
    lines: list[str] = []
    for path in sorted({*before.files, *after.files}):
        one, other = before.files.get(path, ""), after.files.get(path, "")
        if one == other:
            continue
        if _SECRET.search(one) or _SECRET.search(other):
            lines.append(f"{path} differs; it is not shown, because it renders a Secret")
        else:
            lines += difflib.unified_diff(one.splitlines(), other.splitlines(), path, path, lineterm="")
    return lines


LOOK = 0.5
"""Seconds between two looks at whether the operator has begun an undo."""

_LOOKS = 20

_NAMED = 10
"""Parents that a message names."""


class RolloutStatus(Struct, frozen=True, kw_only=True):
    """How far the rollout of a folder is."""

    folder: str
    revision: str
    """The revision that all parents are on, or get."""
    wave: str
    """The canaries or the number of the batch, '' while none has begun."""
    phase: str
    """Complete, Progressing, Paused, Waiting or Stopped."""
    message: str
    parents: int
    updated: int
    """Parents that the rollout has reached."""
    ready: int
    """Those of them that are Ready."""
    settles: str
    """When the wave has been Ready for `settle` (RFC 3339), '' while it is not Ready."""
    opens: str
    """When the window opens, '' while it is open."""
    suspended: Sequence[str]
    """The parents that it skips."""


class RevisionSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """A stored revision, as `rollout history` prints it."""

    revision: int
    """Its number."""
    name: str
    created: str
    """When it was stored (RFC 3339)."""
    state: str
    """In progress, current, last succeeded, succeeded, stopped, superseded or undone; '' if that is not known."""
    result: str
    """What became of its last rollout: Succeeded, Stopped, Superseded or Undone; '' if that is not known."""
    result_time: str
    """When (RFC 3339)."""
    reason: str
    """Why it was stopped."""
    changed: Sequence[str] | None
    """The files in which it differs from the revision before it, None if that is not known."""
    change_cause: str
    """The annotation `kubernetes.io/change-cause` of its ControllerRevision."""


class RevisionDescription(RevisionSummary, frozen=True, kw_only=True, rename="camel"):
    """A stored revision, as `rollout history --revision` prints it."""

    files: Sequence[str]
    differences: Sequence[str]
    """The lines of a unified diff of its templates and settings."""


class ShownRevision(Struct, frozen=True, kw_only=True):
    """A stored revision, as a user sees it."""

    folder: str
    stored: StoredRevision
    state: str
    """As in `RevisionSummary`."""
    inputs: FolderInputs | RevisionError
    """What it was compiled from, or why that can't be read."""
    before: FolderInputs | RevisionError | None
    """The same of the revision before it, None for the first one."""

    @property
    def pair(self) -> tuple[FolderInputs, FolderInputs] | None:
        """What it and the one before it were compiled from, None if that is not known."""
        before, after = self.before, self.inputs
        return (before, after) if isinstance(before, FolderInputs) and isinstance(after, FolderInputs) else None

    @property
    def changed(self) -> list[str] | None:
        """The files that it changed, None if that is not known."""
        return changed_files(self.folder, *self.pair) if self.pair is not None else None

    def read(self) -> FolderInputs:
        """What it was compiled from. Raises CommandError."""
        if isinstance(self.inputs, RevisionError):
            known = f"revision {self.stored.number} ({self.stored.revision}) of {self.folder}"
            raise CommandError(f"{known} can't be read: {self.inputs}")
        return self.inputs

    def summary(self) -> RevisionSummary:
        """What it is."""
        result = self.stored.result or RevisionResult("")
        return RevisionSummary(
            revision=self.stored.number,
            name=self.stored.revision,
            created=self.stored.created,
            state=self.state,
            result=result.result,
            result_time=result.time,
            reason=result.message,
            changed=self.changed,
            change_cause=self.stored.cause,
        )

    def description(self) -> RevisionDescription:
        """It with its files and their differences. Raises CommandError."""
        inputs = self.read()
        files = sorted(path.removeprefix(f"{self.folder}/") for path in {*inputs.files, *inputs.data})
        lines = differences(*self.pair) if self.pair else ()
        return RevisionDescription(**asdict(self.summary()), files=files, differences=lines)


class StoredRollouts(Struct, frozen=True):
    """The rollouts of a folder in a namespace: that of the operator."""

    client: Client
    store: RevisionStore
    folder: str

    async def state(self) -> State:
        """The stored state. Raises ApiError and CommandError."""
        live = await self.store.find_state(self.folder)
        state = read_state(live) if live is not None else None
        if state is None:
            where = f"in the namespace {self.store.namespace}"
            lives, _ = await self.client.list_scope(self.store.states)
            raise CommandError(await _no_rollouts(self.client, self.folder, where, lives))
        return state

    async def history(self) -> list[ShownRevision]:
        """The stored revisions, the oldest first. Raises ApiError and CommandError."""
        state, before = await self.state(), None
        found: list[ShownRevision] = []
        for each, inputs in await self.store.contents(self.folder):
            found.append(
                ShownRevision(
                    folder=self.folder, stored=each, state=_revision_state(state, each), inputs=inputs, before=before
                )
            )
            before = inputs
        return found

    async def revision(self, number: int) -> ShownRevision:
        """The revision of a number. Raises ApiError and CommandError."""
        found = next((each for each in await self.history() if each.stored.number == number), None)
        if found is None:
            raise CommandError(_no_revision(self.folder, number))
        return found

    async def status(self) -> RolloutStatus:
        """How far the rollout is. Raises ApiError and CommandError."""
        state = await self.state()
        members, since = await self._members(state)
        return status_of(self.folder, state, members, since)

    async def change(self, change: Callable[[State], State]) -> State:
        """Change the state. Raises ApiError and CommandError."""
        await self.state()
        try:
            live = await self.store.change_state(self.folder, lambda stored: None if stored is None else change(stored))
        except RefusedError as error:
            raise CommandError(f"{self.folder} {error}") from error
        state = read_state(live) if live is not None else None
        return await self.state() if state is None else state

    async def resume(self) -> str:
        """Let waves begin again. Returns what that means. Raises ApiError and CommandError."""
        before: list[State] = []

        def change(state: State) -> State:
            before.append(state)
            return resumed(state)

        after = await self.change(change)
        done, rest = before[-1], _waits(after)
        if done.paused:
            return f"resumed; {rest}" if rest else "resumed"
        if done.stopped:
            return f"resumed; what stopped it no longer counts: {done.stopped}"
        return f"resumed; confirmed: {done.held}" if done.held else "resumed outside of its window, once"

    async def undo(self, number: int | None, *, force: bool, confirmed: bool) -> str:
        """Return to the last revision that succeeded, or to that of a number. Returns what that means. Raises ApiError
        and CommandError.
        """
        state, history = await self.state(), await self.store.history(self.folder)
        wanted = self._wanted(state, history, number, force=force)
        revision = wanted.revision
        after = await self.change(lambda stored: undone(stored, revision, confirmed=confirmed))
        named = f"revision {wanted.number} ({revision})"
        for _ in range(_LOOKS):
            if after.revision != revision or after.planned == revision or after.held:
                break
            await asyncio.sleep(LOOK)
            after = await self.state()
        if after.held and after.planned != revision:
            raise CommandError(f"{self.folder} can't be rolled back to {named}: {after.held}")
        await self.store.renumber(self.folder, revision)
        if after.held:
            raise CommandError(f"{self.folder} waits to be rolled back to {named}: {after.held}, as `undo --yes` does")
        if after.revision == revision and after.planned != revision:
            return f"will be rolled back to {named}: its operator has not begun yet"
        return f"rolled back to {named}" + (f", {_described(wanted)}" if number is not None else "")

    def _wanted(
        self, state: State, history: Sequence[StoredRevision], number: int | None, *, force: bool
    ) -> StoredRevision:
        """The revision to which an undo returns. Raises CommandError."""
        asks = state.undo and bool(state.held)  # the undo before this one
        last = state.revision if asks else undo_target(state)
        wanted = next((each for each in history if each.revision == last), None)
        if number is not None:
            found = next((each for each in history if each.number == number), None)
            if found is None:
                raise CommandError(_no_revision(self.folder, number))
            if found != wanted and not force:
                known = f", which is {wanted.number}" if wanted is not None else ""
                raise CommandError(
                    f"revision {number} ({_described(found)}) is not the last one that succeeded{known}; --force "
                    "returns to it all the same"
                )
            return found
        if state.undone and not asks:
            now = next((f"{each.number} " for each in history if each.revision == state.target), "")
            raise CommandError(
                f"{self.folder} is rolled back to revision {now}({state.target}) already; --to-revision names another"
            )
        if wanted is None:
            raise CommandError(f"no other revision of {self.folder} has succeeded; there is nothing to undo")
        return wanted

    async def _members(self, state: State) -> tuple[list[Member], dict[str, str]]:
        """The operator's parents, and the time of the last change of the condition Ready of each, by their uids. Raises
        ApiError and CommandError.
        """
        try:
            resource = await RESTMapper(self.client).resource_by_name(self.folder)
        except UnknownKind as error:
            raise CommandError(str(error)) from error
        members: list[Member] = []
        since: dict[str, str] = {}
        for namespace in state.namespaces if resource.namespaced and state.namespaces else ("",):
            lives, _ = await self.client.list(resource, namespace, state.selector)
            for live in lives:
                if not live.deleting:
                    members.append(stored_member(live, None))
                    since[live.uid] = str((condition_of(live.body, "Ready") or {}).get("lastTransitionTime", ""))
        return members, since


async def find_rollouts(client: Client, folder: str, namespace: str) -> StoredRollouts:
    """The rollouts of a folder in a namespace, with '' in the one that has them. Raises ApiError and CommandError."""
    store = RevisionStore(client, namespace)
    if namespace:
        return StoredRollouts(client, store, folder)
    try:
        lives, _ = await client.list_scope(store.states)
    except ApiError as error:
        if not error.forbidden:
            raise
        return StoredRollouts(client, RevisionStore(client, client.credentials.namespace), folder)
    found = sorted({live.metadata.namespace for live in lives if state_folder(live) == folder})
    if not found:
        raise CommandError(await _no_rollouts(client, folder, "in any namespace", lives))
    if len(found) > 1:
        raise CommandError(f"{', '.join(found)} have rollouts of {folder}; choose one with --operator-namespace")
    return StoredRollouts(client, RevisionStore(client, found[0]), folder)


def status_of(folder: str, state: State, members: Sequence[Member], since: Mapping[str, str]) -> RolloutStatus:
    """How far the rollout of a folder with these parents is; `since` has the times of the last changes of their
    conditions Ready, by their uids, as far as they are known.
    """
    suspended = [member for member in members if member.suspended]
    updated = [member for member in members if reaches(state, member)]
    phase, message = phase_of(folder, state, len(updated), len(members))
    if phase == "Progressing":
        message += waits_for(state, updated, since)
    if suspended and state.revision:
        named = ", ".join(map(str, suspended[:_NAMED]))
        more = f" and {len(suspended) - _NAMED} more" if len(suspended) > _NAMED else ""
        message += f"; it skips {counted(len(suspended), 'suspended parent')}: {named}{more}"
    return RolloutStatus(
        folder=folder,
        revision=state.target,
        wave=wave_of(state),
        phase=phase,
        message=message,
        parents=len(members),
        updated=len(updated),
        ready=sum(member.ready and member.runs in ("", state.target) for member in updated),
        settles=state.settles,
        opens=state.opens,
        suspended=[str(member) for member in suspended],
    )


async def _no_rollouts(client: Client, folder: str, where: str, known: Iterable[LiveObject]) -> str:
    """The message about a folder without rollouts: what the user may mean, or what to do. `known` has the states of
    others.
    """
    served = {each.name for each in await RESTMapper(client).resources() if not each.built_in}
    if folder not in served and (
        near := near_folder(folder, {*map(state_folder, known)}) or near_folder(folder, served)
    ):
        return f"there are no rollouts of {folder} {where}; did you mean {near}?"
    if why := await _why_unstored(client, folder):
        return f"there are no rollouts of {folder} {where}, because {why}"
    return (
        f"there are no rollouts of {folder} {where}; set `rollout: {{}}` in {folder}/_settings.yaml. Where it is set, "
        "the log of the operator says why no revision is stored"
    )


async def _why_unstored(client: Client, folder: str) -> str:
    """Why an operator can't store the first revision of a folder, as its parents say it; '' if none does."""
    try:
        resource = await RESTMapper(client).resource_by_name(folder)
        lives, _ = await client.list(resource, "")
    except (UnknownKind, ApiError):
        return ""
    messages = (str((condition_of(live.body, "Ready") or {}).get("message", "")) for live in lives)
    return next((message[message.index(UNSTORED) :] for message in messages if UNSTORED in message), "")


def near_folder(word: str, folders: Iterable[str]) -> str:
    """The folder that a user may mean: by a path that ends with it, by a singular, or by a name that is similar; '' for
    none.
    """
    word = word.rstrip("/").rpartition("/")[2].lower()
    names = {name: each for each in sorted(folders) for name in (each.partition(".")[0], each)}
    return next((names[near] for near in near_names(word, names)), "")


def _described(revision: StoredRevision) -> str:
    """What a revision is."""
    result = revision.result
    if result is None:
        return f"created {revision.created}"
    return f"{result.result.lower()} {result.time}" + (f": {result.message}" if result.message else "")


def _no_revision(folder: str, number: int) -> str:
    return f"revision {number} of {folder} is not stored; `ssa-operator rollout history` lists those that are"


def _revision_state(state: State, stored: StoredRevision) -> str:
    revision = stored.revision
    if state.revision and revision == state.target:
        return "stopped" if state.stopped else "in progress"
    if revision == state.succeeded:
        return "last succeeded" if state.revision else "current"
    if stored.result is not None:
        return stored.result.result.lower()
    return "succeeded" if revision in state.successes else ""


def _waits(state: State) -> str:
    """Why no wave begins, '' where one may."""
    if not state.revision:
        return ""
    if state.stopped:
        return f"it is stopped: {state.stopped}"
    if state.held:
        return state.held
    if state.paused and not state.undo:
        return "it is paused"
    return f"no wave begins before its window opens: {state.opens}" if state.opens and not begins(state) else ""


def wave_of(state: State) -> str:
    """The present wave in words, '' while none has begun."""
    if not state.revision or not state.wave:
        return ""
    return f"batch {state.batch} of {state.batches}" if state.batch else "canary"


def waits_for(state: State, reached: Iterable[Member], since: Mapping[str, str]) -> str:
    """What a wave waits for; `since` as in `status_of`."""
    active, known = [each for each in reached if not each.suspended], ("", state.target)
    late = [f"{each} has not got it yet" for each in active if each.runs not in known or each.revision not in known]
    late += [
        f"{each} is not Ready{_since(since.get(each.uid, ''))}: {each.message}"
        for each in active
        if each.runs in known and each.revision in known and each.ready_before and not each.ready
    ]
    if late:
        more = f" and {len(late) - _NAMED} more" if len(late) > _NAMED else ""
        return f"; {'; '.join(late[:_NAMED])}{more}"
    return f"; they are Ready, and `settle` ends at {state.settles}" if state.settles else ""


def _since(time: str) -> str:
    return f" since {time}" if time else ""


def phase_of(folder: str, state: State, updated: int, parents: int) -> tuple[str, str]:
    """The phase of a rollout, and what it means in words; `updated` of its parents are reached."""
    if state.unstored:
        return (
            "Waiting",
            f"{folder} waits: no parent gets other templates, because {state.unstored}",
        )
    if not state.revision:
        paused = "; it is paused, so the next set waits for `rollout resume`" if state.paused else ""
        return "Complete", f"{folder} successfully rolled out{paused}"
    if state.stopped:
        return "Stopped", f"the rollout of {folder} is stopped: {state.stopped}; {updated} of {parents} updated"
    why = _waits(state)
    wave = f"{wave_of(state)}, " if state.wave else ""
    waits = f"waiting for the rollout of {folder} to finish: {wave}{updated} of {counted(parents, 'parent')} updated"
    phase = "Paused" if state.paused and not state.held else "Waiting"
    return (phase, f"{waits}; {why}") if why else ("Progressing", waits)


@contextmanager
def with_revision(arguments: Sequence[str], options: Options, target: Target, number: int | None) -> Iterator[Options]:
    """The options with the templates and values of a revision of the folder of these parents; with None as they are.
    Raises CommandError, for whatever fails with the exit code of an error of `diff`.
    """
    if number is None:
        yield options
        return
    if options.installation.values:
        raise CommandError("a revision holds the values of --values; leave one of the two options out", code=USAGE)
    if "-" in arguments:
        raise CommandError("--revision reads no parents from standard input; name a file", code=USAGE)
    found = connection.run(_read(arguments, options.installation.namespace, target, number), code=USAGE)
    with tempfile.TemporaryDirectory(prefix="ssa-operator-") as directory:
        templates, installation = written(*found, Path(directory))
        yield replace(options, templates=(templates,), installation=installation)


async def _read(arguments: Sequence[str], namespace: str, target: Target, number: int) -> tuple[str, FolderInputs]:
    parents = ParentArguments.read(arguments)
    async with connection.connect(target) as client:
        mapper, names = RESTMapper(client), set()
        for reference in parents.references:
            names.add((await resolve_kind(mapper, reference.kind)).name)
        for document in parents.documents or ():
            version, kind = (str(document.body.get(each, "")) for each in ("apiVersion", "kind"))
            try:
                names.add((await mapper.resource(GroupKind(version.rpartition("/")[0], kind))).name)
            except UnknownKind as error:
                raise CommandError(f"{document.location}: {error}") from error
        if len(names) != 1:
            raise CommandError(
                f"--revision is that of one folder, and these parents have {len(names)} ({', '.join(sorted(names))})"
            )
        (folder,) = names
        shown = await (await find_rollouts(client, folder, namespace)).revision(number)
        return folder, shown.read()


def written(folder: str, inputs: FolderInputs, directory: Path) -> tuple[Path, Installation]:
    """The templates folder and the values of a revision, written below an empty folder."""
    templates, values = directory / "templates", []
    data = {path: each for path, each in inputs.data.items() if isinstance(each, bytes)}
    for path, content in {**data, **{path: text.encode() for path, text in inputs.files.items()}}.items():
        try:
            write_bytes(templates / path, content, templates)
        except (OSError, ValueError) as error:
            raise CommandError(
                f"the revision of {folder} has the file {path!r}, which can't be written: {error}", code=USAGE
            ) from error
    for at, override in enumerate(inputs.overrides):
        values.append(directory / f"values-{at}.yaml")
        values[-1].write_bytes(json.encode({folder: override}))
    return templates, Installation(values=tuple(values), namespace=inputs.operator.get("namespace", ""))

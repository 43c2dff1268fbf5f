"""What a reconcile would change, for `diff` and `plan`: as text for a terminal, and as data for `--output json`.

Promises:
- Each change follows from the outcome of a dry run. No rule decides a second time.
- No content of a Secret is shown: a short hash stands for it, equal for equal values of one field.
- The text of an object is a unified diff of YAML. Below it are the fields that other managers own, and the template
  line of each field that the templates change.
- Colours appear only in a terminal, and not with NO_COLOR.
"""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict
from rich.console import Console
from rich.text import Text

from ssa_operator.objects.field_set import Path, path_text
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.managed_fields import FieldOwner
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets
from ssa_operator.objects.source_location import SourceLocation, location_data
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Planned
from ssa_operator.operator.process.connection import Target
from ssa_operator.reconcile.adoption import former_managers
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.field_changes import (
    ChangeCause,
    FieldChange,
    content,
    field_changes,
    left_fields,
)
from ssa_operator.reconcile.refusals.known_refusals import refusal_notice
from ssa_operator.reconcile.resync.unchanged import is_same_content
from ssa_operator.reconcile.secrets.content_fields import (
    NO_CONTENT,
    ContentFields,
    HiddenPaths,
    Mask,
    fields_of,
    hidden_in_live,
    hidden_in_manifest,
)
from ssa_operator.reconcile.secrets.redacted_report import redacted_finalization, redacted_outcomes
from ssa_operator.rendering.yaml.to_yaml import yaml_document
from ssa_operator.tools.offline.documents import FILE_MANAGER, check_namespaces
from ssa_operator.tools.plan import previews
from ssa_operator.tools.plan.previews import FilePreview, NamedParent, ParentArguments

Body = Mapping[str, Any]


class ChangedField(Struct, frozen=True, kw_only=True):
    """One field that would change, with masked values."""

    field: str
    before: Any
    """Its value, None if the object lacks it."""
    after: Any
    cause: ChangeCause
    owners: tuple[FieldOwner, ...] = ()
    """The other managers that own it now."""
    location: SourceLocation | None = None
    """The template line that renders it."""


class LeftValue(Struct, frozen=True, kw_only=True):
    """One field that the operator gives up and that stays, with a masked value."""

    field: str
    value: Any
    owners: tuple[FieldOwner, ...]
    """The managers that own it then."""
    handed_over: bool = False
    """Whether the operator hands it over to them."""


class ObjectChange(Struct, frozen=True, kw_only=True):
    """The change of one object."""

    identity: Identity
    result: Result
    message: str = ""
    """What it waits for, or why it fails, is kept or is recreated."""
    location: SourceLocation | None = None
    """The template line of its manifest, or of the field that fails."""
    before: Body | None = None
    """The present object, masked, if it changes; None if it does not exist."""
    after: Body | None = None
    """The object after the change, masked, if it changes; None if it would not exist."""
    fields: tuple[ChangedField, ...] = ()
    """The fields that change in an object that stays."""
    left: tuple[LeftValue, ...] = ()
    """Fields that the operator gives up and that stay."""
    adopted: bool = False
    """Whether the operator takes over an object that it has not applied before."""
    adopted_from: tuple[str, ...] = ()
    """The managers whose fields the operator takes over with the object."""

    notice: str = ""
    """The API server's refusal of the manifest, although the manifest is not at fault."""

    @property
    def differs(self) -> bool:
        """Whether the object would change, or whether that is not known yet."""
        return self.result is not Result.UNCHANGED or self.adopted or any(each.handed_over for each in self.left)

    @property
    def diff(self) -> list[str]:
        """The lines of a unified diff of the object, [] if it does not change."""
        before, after = ([] if body is None else yaml_document(body).splitlines() for body in (self.before, self.after))
        return list(difflib.unified_diff(before, after, "live", "applied", lineterm=""))


def object_changes(
    outcomes: Sequence[Child],
    mask: Mask,
    secrets: ParentSecrets = NO_SECRETS,
    former: AbstractSet[str] = frozenset(),
) -> tuple[ObjectChange, ...]:
    """The change of each outcome of a dry run. `secrets` tells where the render put content; `former` are the field
    managers that the folder names as former ones.
    """
    shown = redacted_outcomes(outcomes, secrets)
    return tuple(_change(*each, mask, secrets, former) for each in zip(outcomes, shown, strict=True))


def _change(outcome: Child, shown: Child, mask: Mask, secrets: ParentSecrets, former: AbstractSet[str]) -> ObjectChange:
    live = outcome.live
    content_fields = fields_of(outcome, secrets)
    before, after = _bodies(outcome, content_fields)
    fields: tuple[ChangedField, ...] = ()
    left: tuple[LeftValue, ...] = ()
    adopted = outcome.action is Action.APPLY and outcome.before is not None and not outcome.before.owned_fields()
    if outcome.action is Action.APPLY and outcome.before is not None and live is not None:
        if outcome.result is Result.CONFIGURED:
            fields = changed_fields(outcome.before, live, mask, content_fields)
        if outcome.result in (Result.CONFIGURED, Result.UNCHANGED):
            left = _left(outcome.before, live, mask, content_fields)
    failed = outcome.result is Result.FAILED
    message = shown.message or (shown.reason if outcome.action in (Action.KEEP, Action.PRUNE) else "")
    return ObjectChange(
        identity=shown.identity,
        result=outcome.result,
        message=message,
        notice=(not failed and refusal_notice(shown.memory.refusal, shown.manifest, live)) or "",
        location=outcome.location,
        before=mask.masked(*before) if before is not None else None,
        after=mask.masked(*after) if after is not None else None,
        fields=fields,
        left=left,
        adopted=adopted and outcome.result in (Result.CONFIGURED, Result.UNCHANGED),
        adopted_from=former_managers(outcome.before, former) if adopted and outcome.before is not None else (),
    )


def _left(before: LiveObject, after: LiveObject, mask: Mask, content_fields: ContentFields) -> tuple[LeftValue, ...]:
    found = left_fields(before, after)
    body = IndexedBody(_masked_live(after, mask, content_fields)) if found else IndexedBody({})
    return tuple(
        LeftValue(field=path_text(path), value=body.value_at(path), owners=each.owners, handed_over=each.handed_over)
        for each in found
        for path in (_shown_path(each.path, body),)
    )


def changed_fields(
    before: LiveObject,
    after: LiveObject,
    mask: Mask,
    content_fields: ContentFields = NO_CONTENT,
    manager: str = MANAGER,
) -> tuple[ChangedField, ...]:
    """The fields that an apply of `manager` changes, with masked values."""
    old, new = (IndexedBody(_masked_live(each, mask, content_fields)) for each in (before, after))
    manifest = content_fields.manifest
    sent = None if manifest is None else IndexedBody(manifest.body)
    return tuple(
        ChangedField(
            field=path_text(path),
            before=old.value_at(path),
            after=new.value_at(path),
            cause=change.cause,
            owners=change.owners,
            location=_location(change, manifest, sent),
        )
        for change in field_changes(before, after, manager)
        for path in (_shown_path(change.path, old, new),)
    )


def _masked_live(live: LiveObject, mask: Mask, content_fields: ContentFields) -> Body:
    return mask.masked(live.body, hidden_in_live(live, content_fields))


def _shown_path(path: Path, *masked: IndexedBody) -> Path:
    """A field, or the hidden one that it is below: its own name may be hidden, too."""
    for end in range(len(path), 1, -1):
        if any(body.value_at(path[:end]) is not None for body in masked):
            return path[:end]
    return path[:1]


_Hidden: TypeAlias = "tuple[Body, HiddenPaths]"
"""An object, and its hidden fields."""


def _bodies(outcome: Child, content_fields: ContentFields) -> tuple[_Hidden | None, _Hidden | None]:
    """The object before and after, if it changes."""
    live = outcome.live

    def hidden(live: LiveObject | None) -> _Hidden | None:
        return (content(live.body), hidden_in_live(live, content_fields)) if live is not None else None

    match outcome.result:
        case Result.CREATED | Result.CONFIGURED:
            return hidden(outcome.before), hidden(live)
        case Result.RECREATED:
            body = _recreated(outcome)
            after = (body, hidden_in_manifest(body, content_fields)) if body is not None else None
            return hidden(outcome.before), after
        case Result.PRUNED:
            return hidden(outcome.before), None
        case _:
            return None, None


def _recreated(outcome: Child) -> Body | None:
    """The new object. The dry run showed it under another name."""
    manifest, live = outcome.manifest, outcome.live
    if manifest is None:
        return None
    if live is None:
        return manifest.body
    body = content(live.body)
    return {**body, "metadata": {**body["metadata"], "name": manifest.identity.name}}


def _location(change: FieldChange, manifest: Manifest | None, sent: IndexedBody | None) -> SourceLocation | None:
    if manifest is None or sent is None or change.cause in (ChangeCause.SERVER, ChangeCause.ADOPTED):
        return None
    path = sent.place(change.path)
    # A field that is no longer rendered has no line.
    return manifest.document.location_of(path) if len(path) == len(change.path) else None


STYLES = {
    Result.CREATED: "green",
    Result.CONFIGURED: "yellow",
    Result.RECREATED: "magenta",
    Result.PRUNED: "red",
    Result.WAITING: "cyan",
    Result.FAILED: "bold red",
    Result.UNCHANGED: "dim",
}
VERBS = {
    Result.CREATED: "create",
    Result.CONFIGURED: "change",
    Result.RECREATED: "recreate",
    Result.PRUNED: "prune",
    Result.WAITING: "wait",
    Result.FAILED: "fail",
    Result.UNCHANGED: "keep",
}
"""What the operator would do with an object."""


class ParentChanges(Struct, frozen=True, kw_only=True):
    """What a reconcile of one parent would change."""

    planned: Planned
    own: ObjectChange | None
    """The change of the parent itself, if it is from a file."""
    objects: tuple[ObjectChange, ...]
    problems: tuple[str, ...]
    """The failures of the templates, or the unreadable records on the parent."""
    waits: tuple[str, ...]
    """The waits of documents whose objects are not known yet."""
    notes: tuple[str, ...]
    """Notes for the user beside the changes: a held prune, a suspended parent."""

    @property
    def failed(self) -> bool:
        return bool(self.problems) or any(each.result is Result.FAILED for each in self.objects)

    @property
    def notices(self) -> bool:
        """Whether the API server refuses something, although no manifest is at fault."""
        return any(each.notice for each in self.objects)

    @property
    def differs(self) -> bool:
        """Whether something would change, or whether that is not known yet."""
        own = self.own is not None and self.own.differs
        return own or bool(self.waits or self.planned.plan.hold_message) or any(each.differs for each in self.objects)


async def changed_parents(
    arguments: Sequence[str], options: Options, namespace: str, target: Target
) -> list[ParentChanges]:
    """What a reconcile would change of the parents in files, or of those in the cluster. Raises CommandError and
    ApiError.
    """
    parents = ParentArguments.read(arguments)
    check_namespaces(parents.documents or (), namespace)
    async with previews.opened(target, options, lambda default: parents.namespaces(namespace or default)) as opened:
        named = await previews.named_parents(opened, parents, namespace)
        salt = secrets.token_bytes(16)
        return [await _changes(opened.preview, each, salt) for each in named]


async def _changes(preview: FilePreview, named: NamedParent, salt: bytes) -> ParentChanges:
    planned = await previews.planned_parent(preview, named)
    return parent_changes(named, planned, await preview.dry_run(planned, as_resumed=True), salt)


def parent_changes(named: NamedParent, planned: Planned, outcomes: Sequence[Child], salt: bytes) -> ParentChanges:
    """The changes of one parent. `salt` is the same for all parents of a run."""
    mask = Mask(salt=salt)
    rendered = planned.rendered
    problems = dict.fromkeys(map(str, rendered.problems))
    return ParentChanges(
        planned=planned,
        own=_own_change(named, mask) if named.location is not None else None,
        objects=object_changes(outcomes, mask, planned.secrets, planned.parent.folder.settings.former_managers),
        problems=tuple(filter(None, (planned.refusal, *problems))),
        waits=tuple(f"{each.location}: a document is {each}" for each in rendered.waits if not each.identity),
        notes=tuple(_notes(planned)),
    )


def _notes(planned: Planned) -> Iterator[str]:
    if planned.finalization is not None:
        waits = redacted_finalization(planned.finalization, planned.secrets).awaited
        yield "is being deleted, so no template is applied" + (f"; it remains because {waits}" if waits else "")
    if planned.suspended:
        yield "is suspended: nothing is applied until it is resumed"
    if planned.plan.hold_message:
        yield f"the prune is held: {planned.plan.hold_message}"


def _own_change(named: NamedParent, mask: Mask) -> ObjectChange:
    """The change of a parent that is applied from a file."""
    live, after = named.live, named.parent.live
    existing = Result.UNCHANGED if live is not None and is_same_content(live, after) else Result.CONFIGURED
    result = existing if live is not None else Result.CREATED
    changed = live is not None and result is Result.CONFIGURED
    return ObjectChange(
        identity=after.identity,
        result=result,
        location=named.location,
        before=mask.masked(content(live.body), hidden_in_live(live, NO_CONTENT))
        if live is not None and changed
        else None,
        after=mask.masked(content(after.body), hidden_in_live(after, NO_CONTENT))
        if result is not Result.UNCHANGED
        else None,
        fields=changed_fields(live, after, mask, manager=FILE_MANAGER) if live is not None and changed else (),
    )


# Text.


def print_changes(console: Console, changes: ParentChanges) -> None:
    """Print the changes of one parent and its children; nothing if nothing would change."""
    if not (changes.differs or changes.failed or changes.notes or changes.notices):
        return
    identity = changes.planned.parent.live.identity
    console.print(Text(str(identity), "bold"))
    for note in changes.notes:
        console.print(Text(f"  {note}", "yellow"))
    for problem in changes.problems:
        console.print(Text(f"  fail {problem}", STYLES[Result.FAILED]))
    for wait in changes.waits:
        console.print(Text(f"  wait {wait}", STYLES[Result.WAITING]))
    for each in (changes.own, *changes.objects):
        if each is not None and (each.differs or each.left or each.notice):
            _print_object(console, each)


def _print_object(console: Console, change: ObjectChange) -> None:
    style = STYLES[change.result]
    head = Text.assemble("  ", (VERBS[change.result], style), f" {change.identity}")
    if change.message:
        head.append(f": {change.message.removeprefix(f'{change.identity} ').removeprefix(f'{change.identity}: ')}")
    if change.location is not None:
        head.append(f"  {change.location}", "dim")
    console.print(head)
    for line in change.diff:
        console.print(Text(f"    {line}", _line_style(line)))
    for note in notes(change):
        console.print(Text(f"    # {note}", "cyan"))


def _line_style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def notes(change: ObjectChange) -> list[str]:
    """The reasons of the changes of an object, and whose fields they are."""
    lines = [change.notice] if change.notice else []
    if change.adopted:
        others = f" from {' and '.join(change.adopted_from)}" if change.adopted_from else ""
        lines.append(f"the operator adopts the object{others}")
    lines += [_field_note(each) for each in change.fields]
    lines += [left_note(each) for each in change.left]
    return lines


def left_note(left: LeftValue) -> str:
    """The message about a field that the operator gives up."""
    if left.handed_over:
        return (
            f"{left.field} is no longer rendered and stays {left.value}: it is handed to {_names(left.owners)}, until "
            "another manager writes it"
        )
    return f"{left.field} is no longer rendered and stays as it is, because {_names(left.owners)} owns it, too"


def _field_note(changed: ChangedField) -> str:
    where = f", rendered at {changed.location}" if changed.location is not None else ""
    match changed.cause:
        case ChangeCause.TEMPLATE if changed.after is None:
            also = f"; {_names(changed.owners)} owned it, too" if changed.owners else ""
            return f"{changed.field} is no longer rendered{also}"
        case ChangeCause.TEMPLATE:
            return f"{changed.field} changes{where}"
        case ChangeCause.TAKEN:
            return f"{changed.field} was written by {_names(changed.owners)}; the apply replaces it{where}"
        case ChangeCause.ADOPTED:
            return f"{changed.field} is removed, because only {_names(changed.owners)} wrote it"
        case ChangeCause.SERVER:
            return f"{changed.field} is changed by the API server"


def _names(owners: Sequence[FieldOwner]) -> str:
    return " and ".join(map(str, owners)) or "the API server"


# Data.


def changes_data(changes: ParentChanges) -> dict[str, Any]:
    """The changes of one parent for `--output json`."""
    live = changes.planned.parent.live
    objects = (*([changes.own] if changes.own is not None else []), *changes.objects)
    return {
        "kind": live.identity.kind,
        "namespace": live.identity.namespace,
        "name": live.identity.name,
        "exists": changes.planned.exists,
        "notes": list(changes.notes),
        "problems": list(changes.problems),
        "waits": list(changes.waits),
        "objects": [object_data(each) | {"diff": "".join(f"{line}\n" for line in each.diff)} for each in objects],
    }


def object_data(change: ObjectChange) -> dict[str, Any]:
    """The change of one object for `--output json`, without its diff."""
    return {
        **asdict(change.identity),
        "result": change.result.value,
        "message": "; ".join(filter(None, (change.message, change.notice))),
        **location_data(change.location),
        "adopted": change.adopted,
        "adoptedFrom": list(change.adopted_from),
        "fields": [
            {
                "field": each.field,
                "before": each.before,
                "after": each.after,
                "cause": each.cause.value,
                "managers": [asdict(owner) for owner in each.owners],
                **location_data(each.location),
            }
            for each in change.fields
        ],
        "left": [
            {
                "field": each.field,
                "value": each.value,
                "managers": [asdict(owner) for owner in each.owners],
                "handedOver": each.handed_over,
            }
            for each in change.left
        ],
    }

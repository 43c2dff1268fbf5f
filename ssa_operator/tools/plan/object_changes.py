"""What a reconcile would change in each object, as `diff` and `plan` show it.

Promises:
- Each change follows from the outcome of a dry run. No rule decides a second time.
- No content of a Secret is part of it: a `Mask` hides the fields that the render put it into.
- A change names the template line that renders the field, and the managers that the apply takes a field from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from msgspec import Struct

from ssa_operator.objects.field_set import Path, path_text
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.managed_fields import FieldOwner
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets
from ssa_operator.objects.source_location import SourceLocation
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
from ssa_operator.reconcile.secrets.content_fields import (
    NO_CONTENT,
    ContentFields,
    HiddenPaths,
    Mask,
    fields_of,
    hidden_in_live,
    hidden_in_manifest,
)
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes

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

"""The fields of live children with their writers, as data and as YAML with a gutter, for `ssa-operator blame`.

Promises:
- Every live child of the parent is in the result, including one that no template renders now.
- A field that no manager owns is a default only if the API server, asked by a dry run, gives a new object of the same
  manifest the same value.
- If the render put a Secret's content into a field, the result doesn't have its value, even outside of Secrets.
- The parent of a child is found by its owner references and by its label, in any of the watched namespaces. For an
  object that a child owns, such as a pod, the child above it is found, and the user is told.
- The gutters of all lines have one width. On a terminal they take less than half of the width, so that 80 columns
  suffice. Without a terminal no text is shortened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace
from rich.console import Console
from rich.text import Text

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.cluster_view import Question
from ssa_operator.objects.field_attribution import Attribution, Writer, attribute
from ssa_operator.objects.identity import Identity, split_api_version
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.managed_fields import is_in_version
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.scalars import age
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, location_data
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Preview
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.child import Action, Child
from ssa_operator.reconcile.recreate.rules import probe
from ssa_operator.reconcile.secrets.content_fields import (
    NO_CONTENT,
    ContentFields,
    fields_of_child,
    hidden_in_live,
    prefix_of,
    replaced,
)
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.shared_ownership import with_owners
from ssa_operator.rendering.jinja.templates import SHARED
from ssa_operator.rendering.yaml.to_yaml import scalar_text, yaml_lines
from ssa_operator.tools.command_target import (
    ObjectReference,
    find_object,
    matching_resources,
    nearest,
    only_resource,
    unknown_kind,
)
from ssa_operator.tools.owners import owner_chain
from ssa_operator.tools.plan import previews
from ssa_operator.tools.plan.previews import PreviewSession

DEFAULT_TEXT = "default of the API server"
"""The words for a field that no manager owns and that has its default."""


class BlamedObject(Struct, frozen=True, kw_only=True):
    """A live child, and the attribution of each of its fields."""

    live: LiveObject
    identity: Identity
    """Its identity, without a name that is content."""
    body: Mapping[str, Any]
    """The object without managedFields and without a Secret's content."""
    fields: tuple[Attribution, ...]
    """The attributions in the order of the body, without a Secret's content."""
    note: str = ""
    """Why the templates don't render the object now, '' if they do."""
    earlier: str = "applied by an earlier template"
    """The words for a field that the operator owns and no template line renders."""
    queries: frozenset[Question] = frozenset()
    """The queries whose names are content."""
    defaults: frozenset[FieldPath] = frozenset()
    """The fields without an owner whose value is the default of the schema or of the API server."""

    def origin(self, field: Attribution) -> str:
        """The origin of a field's value, '' if it is unknown."""
        if field.origin is None:
            return ""
        if any(read.query in self.queries for read in field.origin.reads):
            return f"an object that {HIDDEN[1:-1]} names"
        return str(field.origin)

    def data(self) -> dict[str, Any]:
        """The data for `--output json`."""
        identity = self.identity
        named = {"apiVersion": self.body["apiVersion"], "kind": identity.kind}
        named |= {"namespace": identity.namespace, "name": identity.name}
        found: dict[str, Any] = {"object": named, "fields": [self.field_data(each) for each in self.fields]}
        return found | ({"note": self.note} if self.note else {})

    def field_data(self, field: Attribution) -> dict[str, Any]:
        """One field of the data."""
        entry: dict[str, Any] = {"path": field_text(field.path), "value": field.value}
        if field.writer is Writer.TEMPLATE and field.location is not None:
            entry |= _location(field.location) | self._origin(field)
        elif field.owners:
            entry |= asdict(next((each for each in field.owners if each.is_operator), field.owners[0]))
        if field.writer is Writer.EARLIER_TEMPLATE:
            entry["reason"] = self.earlier
        elif field.path in self.defaults:
            entry |= {"default": True, "reason": DEFAULT_TEXT}
        elif field.writer is Writer.UNRECORDED:
            entry |= {"manager": "", "reason": field.reason}
        elif field.reason:
            entry["reason"] = field.reason
        if len(field.owners) > 1:
            entry["owners"] = [asdict(each) for each in field.owners]
        if field.location is not None and (field.differs or field.writer is not Writer.TEMPLATE):
            entry["rendered"] = {"value": field.rendered, **_location(field.location), **self._origin(field)}
        return entry

    def _origin(self, field: Attribution) -> dict[str, str]:
        return {"origin": self.origin(field)} if field.origin is not None else {}


def _location(location: SourceLocation) -> dict[str, Any]:
    chain = [location_data(each) for each in location.included_from]
    return location_data(location) | ({"includedFrom": chain} if chain else {})


async def blamed_objects(
    chain: Sequence[ObjectReference], options: Options, namespace: str, target: Target
) -> list[BlamedObject]:
    """The live children of the parent that a chain begins with, or the one that it names, with or without its parent.
    Raises CommandError and ApiError.
    """
    async with previews.opened(target, options) as opened:
        found = await parent_of_object(opened, chain[0], namespace)
        children = await blamed_children(opened.preview, found.parent, defaults=True)
        if len(chain) > 1:
            return [select_child(children, chain[1], await opened.mapper.resources(), found.parent.live.identity)]
        return [each for each in children if found.child is None or each.live.uid == found.child.uid]


async def blamed_children(
    preview: Preview, parent: Parent, wanted: Callable[[Identity], bool] = lambda _: True, *, defaults: bool = False
) -> list[BlamedObject]:
    """The `wanted` live children of a parent, in the order of the templates; those that no template renders come last.
    With `defaults`, a dry run asks which values are defaults.

    Raises ApiError.
    """
    planned = await preview.plan(parent)
    steps = {step.identity: step for step in preview.steps(planned)}
    own = {live.identity: live for live in planned.observed.children.own}
    own |= {identity: step.live for identity, step in steps.items() if step.live is not None and identity not in own}
    ordered = [*(identity for identity in steps if identity in own), *sorted(own.keys() - steps.keys())]
    ordered = list(filter(wanted, ordered))
    # The informers may be behind, and managedFields and fields must be from one moment.
    children = [read for identity in ordered if (read := await _read(preview, own[identity])) is not None]
    secrets = planned.secrets
    blamed = []
    for live, in_other_versions in children:
        step = steps.get(live.identity)
        content = fields_of_child(live.identity, steps, secrets)
        applied = content.manifest and with_owners(content.manifest, live)
        shown, fields = _redacted(live, attribute(live, applied, in_other_versions), content)
        note, earlier = _note(None if step is None else redacted_outcomes([step], secrets)[0])
        found = BlamedObject(
            identity=secrets.shown(live.identity),
            live=live,
            body=shown,
            fields=fields,
            note=note,
            earlier=earlier,
            queries=secrets.queries,
        )
        if defaults and step is not None and step.manifest is not None:
            found = replace(found, defaults=await _defaults(preview, found, step.manifest))
        blamed.append(found)
    return blamed


async def blamed_looked_up(preview: Preview, live: LiveObject) -> BlamedObject | None:
    """An object that is no child of the parent, None if it is gone. Raises ApiError."""
    if (found := await _read(preview, live)) is None:
        return None
    now, in_other_versions = found
    shown, fields = _redacted(now, attribute(now, None, in_other_versions), NO_CONTENT)
    return BlamedObject(identity=now.identity, live=now, body=shown, fields=fields)


async def _defaults(preview: Preview, blamed: BlamedObject, manifest: Manifest) -> frozenset[FieldPath]:
    """The fields without an owner that have the value that a new object of the manifest would have.

    A value that the dry run can't show, for instance because the user may not create such an object, is no default.
    """
    fields = [each for each in blamed.fields if each.writer is Writer.UNRECORDED]
    if not fields or manifest.version != blamed.live.version:
        return frozenset()
    trial = probe(manifest, blamed.live)
    resource = await preview.cluster.children.resource(manifest.identity.group_kind, manifest.version)
    options = ApplyOptions(dry_run=True, secret=manifest.document.secret)
    try:
        applied = await preview.cluster.operator_client.apply(
            resource, manifest.identity.namespace, trial.name, trial.encoded, options
        )
    except ApiError:
        return frozenset()
    new = applied.live.body
    return frozenset(each.path for each in fields if _same_field(blamed.live.body, new, each.path) == each.value)


def _same_field(live: Any, new: Any, path: FieldPath) -> Any:
    """The value that a field of the live object has in a new one; _ABSENT if that one lacks it. A list item with a name
    is the one of this name.
    """
    for step in path:
        if isinstance(step, int) and isinstance(live, list) and isinstance(new, list):
            live = live[step]
            name = live.get("name") if isinstance(live, Mapping) else None
            named = [each for each in new if isinstance(each, Mapping) and each.get("name") == name]
            new = named[0] if name is not None and named else new[step] if name is None and step < len(new) else _ABSENT
        elif isinstance(live, Mapping) and isinstance(new, Mapping):
            live, new = live.get(step), new.get(step, _ABSENT)
        else:
            return _ABSENT
    return new


_ABSENT = object()


async def _read(preview: Preview, live: LiveObject) -> tuple[LiveObject, Mapping[str, Mapping[str, Any]]] | None:
    """The current child, and its bodies in the other versions in which managers wrote it, by apiVersion; None if it is
    gone.
    """
    now = await _read_version(preview, live.identity, live.version)
    if now is None:
        return None
    others: dict[str, Mapping[str, Any]] = {}
    for api_version in {entry.api_version for entry in now.managed_fields if not is_in_version(entry, now)}:
        with contextlib.suppress(UnknownKind):  # managedFields may be of a version that is no longer served
            found = await _read_version(preview, live.identity, split_api_version(api_version)[1])
            if found is not None and found.resource_version == now.resource_version:
                others[api_version] = found.body
    return now, others


async def _read_version(preview: Preview, identity: Identity, version: str) -> LiveObject | None:
    """An object in a version, None if it is gone. Raises UnknownKind."""
    resource = await preview.cluster.children.resource(identity.group_kind, version)
    return await preview.cluster.operator_client.find(resource, identity.name, identity.namespace)


def _note(step: Child | None) -> tuple[str, str]:
    """Why the templates don't render an object now, and the words for its fields."""
    if step is None:
        return "no template renders it now", "applied by an earlier template"
    if step.manifest is not None:
        return "", "applied by an earlier template"
    if step.action is Action.WAIT:
        return f"its template is {step.reason}", "applied by an earlier render"
    return f"its template is refused: it {step.reason}", "applied by an earlier render"


def _redacted(
    live: LiveObject, found: Sequence[Attribution], content: ContentFields
) -> tuple[Mapping[str, Any], tuple[Attribution, ...]]:
    """The body and the attributions of a child without a Secret's content."""
    hidden = hidden_in_live(live, content)
    shown: dict[str, Any] = {field: live.body[field] for field in ("apiVersion", "kind")} | live.body
    shown["metadata"] = {**live.body["metadata"]}
    shown["metadata"].pop("managedFields", None)
    fields: dict[FieldPath, Attribution] = {}
    for each in found:
        above = prefix_of(each.path, hidden)
        if above is None:
            fields[each.path] = each
        elif above not in fields:
            # Names below a hidden field are hidden, too.
            rendered = HIDDEN if each.rendered is not None else None
            fields[above] = replace(each, path=above, value=HIDDEN, rendered=rendered)
    return replaced(shown, hidden, lambda *_: HIDDEN), tuple(fields.values())


def select_child(
    children: Sequence[BlamedObject], wanted: ObjectReference, resources: Iterable[Resource], parent: Identity
) -> BlamedObject:
    """The child that the user named. Raises CommandError with the nearest names if there is none, and with the kinds'
    names if there are several.
    """
    known = list(resources)
    kinds = {resource.group_kind: (resource, version) for resource, version in matching_resources(wanted.kind, known)}
    if not kinds:
        raise CommandError(unknown_kind(wanted.kind, known))
    found = {
        each.live.identity.group_kind: each
        for each in reversed(children)
        if each.live.identity.group_kind in kinds and each.live.identity.name == wanted.name
    }
    if found:
        resource, _ = only_resource(wanted.kind, [kinds[kind] for kind in kinds if kind in found])
        return found[resource.group_kind]
    names = {f"{each.identity.kind}/{each.identity.name}" for each in children}
    near = nearest(f"{next(iter(kinds)).kind}/{wanted.name}", names)
    hint = f"did you mean {' or '.join(near)}?" if near else f"its children are {', '.join(sorted(names)) or 'none'}"
    raise CommandError(f"{parent} has no child {wanted}; {hint}")


class ParentOfObject(Struct, frozen=True, kw_only=True):
    """A parent that the user named, or whose child the user named."""

    parent: Parent
    child: LiveObject | None = None
    """None if the user named the parent."""


async def parent_of_object(session: PreviewSession, reference: ObjectReference, namespace: str) -> ParentOfObject:
    """The parent that an object is, or whose child it is. Raises CommandError and ApiError."""
    folders = session.preview.controllers.templates.folders
    named = await find_object(session.client, session.mapper, reference, namespace=namespace, folders=folders)
    parents = {parent.live.uid: parent for parent in session.preview.parents()}
    live = named.live
    if live.uid in parents:
        return ParentOfObject(parent=parents[live.uid])
    if named.resource.name in folders:
        session.preview.folder_of(named.resource.group_kind)
        why = session.preview.unavailable.get(named.resource.name, "it is outside of the watched namespaces")
        raise CommandError(f"{live.identity} can't be read as a parent: {why}", code=2)
    async for each in owner_chain(session.client, session.mapper, live):
        uids = (*(owner.uid for owner in each.owner_references), *each.parent_uids)
        if (found := next((parents[uid] for uid in uids if uid in parents), None)) is None:
            continue
        if each is not live:
            streams.error(f"{live.identity} is no child of {found.live.identity}; this is its owner, which is")
        return ParentOfObject(parent=found, child=each)
    raise CommandError(
        f"{named.live.identity} is neither a parent nor a child of one: no template folder is for "
        f"{named.resource.kind}, and no parent of these templates owns it; name the folder of the templates with "
        "--templates",
        code=2,
    )


_STYLES = {
    Writer.TEMPLATE: "green",
    Writer.OPERATOR: "cyan",
    Writer.EARLIER_TEMPLATE: "magenta",
    Writer.MANAGER: "yellow",
    Writer.API_SERVER: "dim",
    Writer.UNRECORDED: "dim",
}

GUTTER_SHARE = 0.45
"""The part of a terminal's width that the gutter takes at most."""


def print_text(found: Sequence[BlamedObject], now: float) -> None:
    """Print some objects. `now` is in seconds since the epoch; times are ages, as in `status`."""
    console = streams.console()
    layout = _layout(console, [_cells(each, field, now) for each in found for field in each.fields])
    for each in found:
        if each is not found[0]:
            console.print("---")
        note = f"; {each.note}" if each.note else ""
        console.print(Text(f"# {each.identity}{note}", "bold"), soft_wrap=True)
        fields = {field.path: field for field in each.fields}
        for line in yaml_lines(each.body):
            field = None if line.field is None else fields.get(line.field)
            text = _gutter(layout, ("", ""), "") if field is None else _field_gutter(layout, each, field, now)
            text.append(line.text)
            if field is not None and (remark := _remark(field)):
                text.append(f"  # {remark}", "bold")
            console.print(text, soft_wrap=True)
    if not found:
        console.print("no children")


class _Layout(Struct, frozen=True):
    """The widths of the gutter and of its first column; without columns (0), the origin follows the writer."""

    width: int
    column: int


def _layout(console: Console, cells: Sequence[tuple[str, str]]) -> _Layout:
    column = max((len(writer) for writer, _ in cells), default=0)
    width = column + 1 + max((len(origin) for _, origin in cells), default=0)
    limit = int(console.width * GUTTER_SHARE)
    return _Layout(limit, 0) if console.is_terminal and width > limit else _Layout(width, column)


def _field_gutter(layout: _Layout, blamed: BlamedObject, field: Attribution, now: float) -> Text:
    return _gutter(layout, _cells(blamed, field, now), _STYLES[field.writer])


def _gutter(layout: _Layout, cells: tuple[str, str], style: str) -> Text:
    writer, origin = _shortened(cells[0], layout.width).ljust(layout.column), cells[1]
    text = Text.assemble((writer, style), " " if origin else "", (origin, "dim"))
    if len(text) > layout.width:
        text = text[: layout.width - 1].append("…")
    text.pad_right(layout.width - len(text))
    return text.append(" │ ", "dim")


def _shortened(writer: str, width: int) -> str:
    """The writer, shortened at its beginning if even the number of the template line has no room."""
    first = writer.partition(_INCLUDED)[0]
    return f"…{first[len(first) - width + 1 :]}" if len(first) > width else writer


_INCLUDED = " < "


def _cells(blamed: BlamedObject, field: Attribution, now: float) -> tuple[str, str]:
    """The writer of a field, and the origin of its value."""
    match field.writer:
        case Writer.TEMPLATE if field.location is not None:
            chain = (field.location, *field.location.included_from)
            return _INCLUDED.join(map(_line, chain)), blamed.origin(field)
        case Writer.OPERATOR | Writer.TEMPLATE:
            return "ssa-operator", field.reason
        case Writer.EARLIER_TEMPLATE:
            return "ssa-operator", blamed.earlier
        case Writer.MANAGER:
            owner = field.owners[0]
            name = owner.manager + (f" ({owner.subresource})" if owner.subresource else "")
            return name, field.reason or (f"{age(owner.time, now)} ago" if owner.time else "")
    return DEFAULT_TEXT if field.path in blamed.defaults else field.writer.value, ""


def _line(location: SourceLocation) -> str:
    """A template line without the name of the parent's own folder."""
    folder, _, inner = location.file.partition("/")
    return f"{location.file if folder == SHARED else inner}:{location.line}"


def _remark(field: Attribution) -> str:
    """The parts that don't fit into the gutter: other owners, and the value that the template renders instead."""
    remarks = []
    others = [owner for owner in field.owners[1 if field.writer is Writer.MANAGER else 0 :] if not owner.is_operator]
    if others:
        names = (each.manager + (f" ({each.subresource})" if each.subresource else "") for each in others)
        remarks.append(f"also owned by {', '.join(dict.fromkeys(names))}")
    if field.location is not None and (field.differs or field.writer is not Writer.TEMPLATE):
        value = scalar_text(field.rendered) if not isinstance(field.rendered, (dict, list)) else "another value"
        remarks.append(f"{_line(field.location)} renders {value if field.differs else 'the same'}")
    return "; ".join(remarks)

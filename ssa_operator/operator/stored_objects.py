"""What new CRDs would do to the objects that are stored: refuse them, lose fields of them, or add defaults to them.

Promises:
- Every stored object of a CRD that exists is read, page by page. Nothing is written.
- An object that is invalid today counts only for what a new CRD refuses in addition.
- Each object is converted to the versions that it needs, and back. One that can't be converted counts as refused.
- The objects of a page are judged in slices, between which the event loop serves others.
- A message names the object and the field. It has the size of a value that would be lost, and never a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, NotLeader, Unreachable
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import counted
from ssa_operator.objects.render_result import ConversionError, Document
from ssa_operator.objects.source_location import FieldPath, field_text, value_at
from ssa_operator.operator.conversion.rules import Converter
from ssa_operator.reconcile.long_steps import LongSteps
from ssa_operator.schema.crd_changes import crd_changes
from ssa_operator.schema.crd_schema import needed_conversions, object_schema, stored_version
from ssa_operator.schema.field_errors import OMITTED
from ssa_operator.schema.new_object import new_object, prune

_HARMLESS = frozenset({"crd-default-changed", "crd-list-type-changed", "crd-status-removed", "crd-names-changed"})
"""The changes by which no stored object is refused or loses a field."""

_ADVICE = "see `ssa-operator crds plan`, and `ssa-operator crds apply --allow-data-loss`"

_SHOWN = 3
"""Objects that a refusal names."""


class StoredChange(Struct, frozen=True, kw_only=True):
    """What becomes of one field of a stored object."""

    resource: str
    """As `echoes.example.com`."""
    namespace: str
    """'' for a cluster-scoped object."""
    name: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}: {self.message}" if self.namespace else f"{self.name}: {self.message}"


class CRDPlan(Struct, frozen=True, kw_only=True):
    """What CRDs would do to all their stored objects."""

    objects: int = 0
    refused: tuple[StoredChange, ...] = ()
    pruned: tuple[StoredChange, ...] = ()
    defaulted: int = 0
    """Objects that would get defaults."""
    lossy: tuple[StoredChange, ...] = ()
    """Fields with a place in two versions that the conversions alone don't give back."""


ConverterOf: TypeAlias = Callable[[Mapping[str, Any]], Converter | None]
"""Converts the objects of a CRD by the templates at hand; None if they don't."""


def _no_converter(_: Mapping[str, Any]) -> None:
    return None


async def plan_crds(
    client: Client, documents: Iterable[Document], converter_of: ConverterOf = _no_converter
) -> CRDPlan:
    """What these CRDs would do to the objects of the cluster. Raises ApiError and CredentialsError."""
    plans: list[CRDPlan] = []
    for document in documents:
        live = await client.find(RESOURCE, document.identity.name)
        if live is not None:
            plans.append(await _plan_crd(client, live.body, document.body, converter_of))
    return _sum(plans)


def _sum(plans: Sequence[CRDPlan]) -> CRDPlan:
    """All of the plans in one, with its entries in order."""
    return CRDPlan(
        objects=sum(plan.objects for plan in plans),
        refused=tuple(sorted((each for plan in plans for each in plan.refused), key=_place)),
        pruned=tuple(sorted((each for plan in plans for each in plan.pruned), key=_place)),
        lossy=tuple(sorted((each for plan in plans for each in plan.lossy), key=_place)),
        defaulted=sum(plan.defaulted for plan in plans),
    )


def _place(change: StoredChange) -> tuple[str, str, str, str]:
    return change.resource, change.namespace, change.name, change.path


class DataLoss(Struct, frozen=True, kw_only=True):
    """Why a CRD must not replace the live one."""

    message: str
    live: LiveObject
    """The live CRD."""
    new: bytes
    """The new CRD, encoded."""
    objects: tuple[LiveObject, ...] = ()
    """Stored objects that would be refused or lose fields: those that the message names."""

    async def holds(self, client: Client, live: LiveObject, new: Mapping[str, Any]) -> bool:
        """Whether it still holds, because the CRDs and these objects are the same. Raises ApiError and
        CredentialsError.
        """
        if not self.objects or live.resource_version != self.live.resource_version or encode(new) != self.new:
            return False
        stored = next(version["name"] for version in live.body["spec"]["versions"] if version["storage"])
        for each in self.objects:
            found = await client.find(resource_of(live.body, stored), each.identity.name, each.identity.namespace)
            if found is None or found.resource_version != each.resource_version:
                return False
        return True


async def data_loss(
    client: Client, live_crd: LiveObject, new: Mapping[str, Any], converter_of: ConverterOf = _no_converter
) -> DataLoss | None:
    """Why a CRD must not replace the live one: stored objects would be refused or lose fields. None where that can't
    be, or no object is stored that it concerns. Raises ApiError and CredentialsError.
    """
    live = live_crd.body
    if all(each.code in _HARMLESS for each in crd_changes(live, new)):
        return None
    concerned: list[LiveObject] = []
    try:
        plan = await _plan_crd(client, live, new, converter_of, concerned)
    except (NotLeader, Unreachable):
        raise
    except ApiError as error:
        unread = f"it may refuse or lose stored objects, and these can't be read: {error}; {_ADVICE}"
        return DataLoss(message=unread, live=live_crd, new=encode(new))
    # A version that is gone is refused by the API server.
    found = [each for each in (*plan.refused, *plan.pruned) if each.resource != RESOURCE.name]
    if not found:
        return None
    names = {(each.namespace, each.name) for each in found}
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    message = (
        f"{len(names)} of {counted(plan.objects, 'stored object')} would be refused or lose fields: "
        f"{'; '.join(map(str, found[:_SHOWN]))}{more}; {_ADVICE}"
    )
    shown = {(each.namespace, each.name) for each in found[:_SHOWN]}
    objects = tuple(each for each in concerned if (each.identity.namespace, each.identity.name) in shown)
    return DataLoss(message=message, live=live_crd, new=encode(new), objects=objects)


async def _plan_crd(
    client: Client,
    live: Mapping[str, Any],
    new: Mapping[str, Any],
    converter_of: ConverterOf,
    concerned: list[LiveObject] | None = None,
) -> CRDPlan:
    """What a CRD would do to its objects. Those that would be refused or lose fields are added to `concerned`."""
    stored, converter = stored_version(live), converter_of(new)
    plans: dict[Identity, CRDPlan] = {}
    page: list[LiveObject] = []
    steps = LongSteps()

    def collect(each: LiveObject) -> bool:
        page.append(each)
        return False

    async def judge() -> None:
        for each in page:
            plan = _plan_object(each, live, new, stored)
            if converter is not None:
                plan = _sum([plan, plan_conversions(each, converter, stored)])
            plans[each.identity] = plan
            if concerned is not None and (plan.refused or plan.pruned):
                concerned.append(each)
            await steps.rest()
        page.clear()

    await client.list_scope(Scope(resource_of(live, stored)), keep=collect, after_page=lambda: steps.measured(judge()))
    return _sum([_plan_versions(live, new), *plans.values()])


def plan_conversions(stored: LiveObject, converter: Converter, version: str) -> CRDPlan:
    """What the conversions of an object to the versions that it needs, and back, would lose."""
    new = converter.definition
    refused: dict[str, str] = {}
    lossy: dict[str, str] = {}
    # By the new CRD, the API server reads it with the fields and defaults of its version.
    body = new_object(stored.body, new, version).body
    for own, other in needed_conversions(new):
        if own != version:
            continue
        try:
            there = converter.unaided(body, other)
            back = converter.unaided(there, own)
            converter.convert(body, other)
        except ConversionError as failure:
            refused.setdefault("", f"can't be converted to {other}: {failure}")
            continue
        for error in new_object(there, new, other).errors:
            if error.path[:1] != ("metadata",):
                refused.setdefault(field_text(error.path), f"in {other}: {replace(error, value=OMITTED)}")
        for path in converter.lost_fields(body, there, back):
            lossy.setdefault(path, f"{path} has a place in {other}, and doesn't come back from there")
    return CRDPlan(refused=tuple(_changes(stored, new, refused)), lossy=tuple(_changes(stored, new, lossy)))


def _changes(stored: LiveObject, new: Mapping[str, Any], messages: Mapping[str, str]) -> Iterator[StoredChange]:
    identity, resource = stored.identity, f"{new['spec']['names']['plural']}.{new['spec']['group']}"
    for path, message in messages.items():
        yield StoredChange(
            resource=resource, namespace=identity.namespace, name=identity.name, path=path, message=message
        )


def resource_of(definition: Mapping[str, Any], version: str) -> Resource:
    spec = definition["spec"]
    namespaced = spec["scope"] == "Namespaced"
    return Resource(
        group=spec["group"],
        version=version,
        kind=spec["names"]["kind"],
        plural=spec["names"]["plural"],
        namespaced=namespaced,
    )


def _plan_versions(live: Mapping[str, Any], new: Mapping[str, Any]) -> CRDPlan:
    """The versions in which objects may be stored, and that the new CRD hasn't."""
    kept = {version["name"] for version in new["spec"]["versions"]}
    gone = [each for each in live.get("status", {}).get("storedVersions", ()) if each not in kept]
    refused = tuple(
        StoredChange(
            resource=RESOURCE.name,
            namespace="",
            name=live["metadata"]["name"],
            path="status.storedVersions",
            message=f"objects may be stored in version {each}, which the CRD no longer has; keep the version",
        )
        for each in gone
    )
    return CRDPlan(refused=refused)


def _plan_object(stored: LiveObject, live: Mapping[str, Any], new: Mapping[str, Any], version: str) -> CRDPlan:
    body = stored.body
    known = {(error.path, error.type) for error in new_object(body, live, version).errors}
    refused: dict[FieldPath, str] = {}
    pruned: dict[FieldPath, str] = {}
    defaulted = False
    for each in _judging_versions(new, version):
        found = new_object(body, new, each)
        for error in found.errors:
            if error.path[:1] != ("metadata",) and (error.path, error.type) not in known:
                # An invalid value may be a password.
                refused.setdefault(error.path, str(replace(error, value=OMITTED)))
        for path in found.pruned:
            size = len(encode(value_at(body, path)))
            pruned.setdefault(path, f"{field_text(path)} would be lost ({counted(size, 'byte')})")
        defaulted = defaulted or found.body != prune(body, object_schema(new, each))[0]

    def changes(messages: Mapping[FieldPath, str]) -> tuple[StoredChange, ...]:
        return tuple(_changes(stored, new, {field_text(path): message for path, message in messages.items()}))

    return CRDPlan(objects=1, refused=changes(refused), pruned=changes(pruned), defaulted=int(defaulted))


def _judging_versions(new: Mapping[str, Any], stored: str) -> Sequence[str]:
    """The versions of the new CRD whose schemas an object meets: the one that it is stored in, and the one in which it
    is stored next, where the API server converts by the version's name alone.
    """
    versions = new["spec"]["versions"]
    converts = (new["spec"].get("conversion") or {}).get("strategy", "None") != "None"
    names = [stored, *(version["name"] for version in versions if version.get("storage") and not converts)]
    known = {version["name"] for version in versions}
    return [name for name in dict.fromkeys(names) if name in known]

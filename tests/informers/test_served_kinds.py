"""What it means that the cluster doesn't serve a kind in a version: absent, unknown, or not yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.informers.crds import CRDInformer, DefinedKind
from ssa_operator.informers.lookup_index import Dependent
from ssa_operator.informers.served_kinds import ServedFacts, ServedKinds, availability, why_unknown
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.objects import live_object
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Unknown
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import DECODED_LIMIT, DecodedBodies, LiveObject
from tests.kube.fakes import scripted
from tests.operator.harness import definition

NOTHING = ServedFacts()


def kind(version: str) -> ApiKind:
    return ApiKind(f"t.example.com/{version}", "Item")


def defined(*, not_established: str | None = None, **versions: bool) -> ServedFacts:
    crd = DefinedKind(name="items.t.example.com", versions=versions, not_established=not_established)
    return ServedFacts(crd=crd)


@pytest.mark.parametrize(
    ("facts", "version", "available", "why"),
    [
        (NOTHING, "v1", False, ""),
        (defined(v1=True), "v1", True, "the API server has not yet begun to serve Item in t.example.com/v1"),
        (defined(v1beta1=False, v1=True), "v1beta1", None, "Item in v1, not in v1beta1; write t.example.com/v1"),
        # A version that the CRD no longer lists, and one that it does not list yet.
        (defined(v1=True), "v1beta1", None, "its CRD items.t.example.com serves Item in v1, not in v1beta1; write"),
        (defined(v1=True), "v2", False, "Item in v1, not in v2; write t.example.com/v1"),
        (defined(v1=True, v2=False), "v2", None, "Item in v1, not in v2; write t.example.com/v1"),
        (defined(v1beta1=True, v2=True, v1=True), "v1alpha1", None, "Item in v2, v1, v1beta1, not in v1alpha1; write"),
        (defined(v1=False), "v1", False, "its CRD items.t.example.com is not served: it serves no version"),
        (defined(v1=True, not_established="conflict"), "v1", False, "items.t.example.com is not served: conflict"),
        (ServedFacts(discovered=("v1",)), "v1", True, None),
        (
            ServedFacts(discovered=("v2", "v1")),
            "v1beta1",
            False,
            "Item in v2, v1, not in v1beta1; write t.example.com/v2",
        ),
        (ServedFacts(failing="it is stale"), "v1", None, "the discovery of its group fails: it is stale"),
        (ServedFacts(failing="it is stale", discovered=("v1",)), "v1", True, None),
        (ServedFacts(withdrawn=True), "v1", None, "the cluster served it and no longer does"),
        (ServedFacts(withdrawn=True, discovered=("v2",)), "v1", None, "Item in v2, not in v1; write t.example.com/v2"),
    ],
)
def test_what_is_not_served_is_unknown_unless_it_never_was(
    facts: ServedFacts, version: str, available: bool | None, why: str | None
) -> None:
    found = availability(kind(version), facts)
    assert (None if isinstance(found, Unknown) else found) is available
    if why is not None:
        assert why in (why_unknown(kind(version), facts) or "")
        assert bool(why) == bool(why_unknown(kind(version), facts))
    if isinstance(found, Unknown):
        assert found.why == why_unknown(kind(version), facts)


VERSIONS = st.sampled_from(["v1alpha1", "v1beta1", "v1", "v2"])


@given(
    facts=st.builds(
        ServedFacts,
        crd=st.none()
        | st.builds(
            DefinedKind,
            name=st.just("items.t.example.com"),
            versions=st.dictionaries(VERSIONS, st.booleans(), min_size=1),
            not_established=st.sampled_from([None, "conflict"]),
        ),
        discovered=st.lists(VERSIONS, unique=True),
        failing=st.sampled_from(["", "it is stale"]),
        withdrawn=st.booleans(),
    ),
    version=VERSIONS,
)
def test_only_a_kind_that_nothing_knows_of_is_absent(facts: ServedFacts, version: str) -> None:
    if not why_unknown(kind(version), facts):
        assert facts.crd is None
        assert not facts.discovered
        assert not facts.failing
        assert not facts.withdrawn
    found = availability(kind(version), facts)
    if facts.withdrawn:
        assert found is not False
    if isinstance(found, Unknown):
        assert found.why


CRDS = DECODED_LIMIT + 50
"""More than stay decoded."""

PARENTS = 20


def crd(plural: str, kind: str, *, established: bool = True, number: int = 1, **served: bool) -> dict[str, Any]:
    found = definition(plural, "t.example.com", kind)
    (version,) = found["spec"]["versions"]
    found["spec"]["versions"] = [{**version, "name": name, "served": value} for name, value in served.items()]
    found["metadata"] |= {"uid": plural, "resourceVersion": str(number), "generation": number}
    condition = {"type": "Established", "status": "True" if established else "False", "message": "a conflict"}
    return found | {"status": {"conditions": [condition]}}


async def no_groups(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"kind": "APIGroupDiscoveryList", "items": []})


@pytest.mark.parametrize("refreshes", [1, 5])
async def test_no_question_decodes_a_crd_however_many_parents_ask(
    monkeypatch: pytest.MonkeyPatch, refreshes: int
) -> None:
    async with scripted(no_groups) as client:
        crds, mapper, requeued = CRDInformer(client, lambda _name, _kind: None), RESTMapper(client), list[str]()
        bodies = DecodedBodies()
        for number in range(CRDS):
            body = encode(crd(f"items{number}", f"Item{number}", v1=True))
            crds.reflector.cache.upsert(LiveObject(body, decoded_bodies=bodies))
        served = ServedKinds(client, mapper, crds, lambda uid, _: requeued.append(uid))
        await mapper.discover()
        decoded: list[bytes] = []
        decode = live_object._decode_body

        def counted(raw: bytes) -> dict[str, Any]:
            decoded.append(raw)
            return decode(raw)

        monkeypatch.setattr(live_object, "_decode_body", counted)
        first, missing = ApiKind("t.example.com/v1", "Item0"), ApiKind("t.example.com/v1", "Missing")
        dependents = [Dependent(f"parent-{number}", Cause.TEMPLATE) for number in range(PARENTS)]
        for dependent in dependents:
            served.set_uses(dependent, {first: True, missing: False})
        for _ in range(refreshes):
            mapper.invalidate()
            await served.refresh()
            assert all(map(served.is_current, dependents))
        assert (len(decoded), requeued) == (0, [])


async def test_only_the_parents_that_asked_for_a_kind_are_requeued_when_its_answer_changes() -> None:
    async with scripted(no_groups) as client:
        crds, requeued = CRDInformer(client, lambda _name, _kind: None), list[str]()
        served = ServedKinds(client, RESTMapper(client), crds, lambda uid, _: requeued.append(uid))
        one, other = ApiKind("t.example.com/v1", "Item"), ApiKind("t.example.com/v1", "Other")
        served.set_uses(Dependent("a", Cause.TEMPLATE), {one: False, other: False})
        served.set_uses(Dependent("b", Cause.CHILD), {other: False})
        served.set_uses(Dependent("c", Cause.TEMPLATE), {one: False})
        served.forget("c")
        crds.reflector.cache.upsert(LiveObject.of(crd("items", "Item", v1=True)))
        await served.refresh()
        assert requeued == ["a"]
        assert served.asked_for(GroupKind("t.example.com", "Item"))
        served.set_uses(Dependent("a", Cause.TEMPLATE), {})
        assert not served.asked_for(GroupKind("t.example.com", "Item"))
        assert served.in_use


def informer(client: Client) -> tuple[CRDInformer, list[tuple[str, GroupKind]]]:
    changes: list[tuple[str, GroupKind]] = []
    return CRDInformer(client, lambda name, kind: changes.append((name, kind))), changes


async def test_the_index_follows_crds_that_come_change_and_go() -> None:
    item, renamed = GroupKind("t.example.com", "Item"), GroupKind("t.example.com", "Thing")
    async with scripted(no_groups) as client:
        crds, changes = informer(client)
        cache = crds.reflector.cache

        def serves(kind: GroupKind, *versions: str) -> list[bool]:
            return [crds.serves(kind, version) for version in versions]

        cache.upsert(LiveObject.of(crd("items", "Item", established=False, number=1, v1=True)))
        assert serves(item, "v1") == [False]
        with pytest.raises(UnknownKind, match="is not served: a conflict"):
            crds.resource("items.t.example.com", None)
        cache.upsert(LiveObject.of(crd("items", "Item", number=2, v1=True, v1beta1=True)))
        assert serves(item, "v1", "v1beta1", "v2") == [True, True, False]
        assert crds.resource("items.t.example.com", None).version == "v1"
        cache.upsert(LiveObject.of(crd("items", "Item", number=3, v1=True, v1beta1=False)))
        assert serves(item, "v1", "v1beta1") == [True, False]
        # The API server serves one of two CRDs of a kind; the other one has a conflict of names.
        cache.upsert(LiveObject.of(crd("itemz", "Item", established=False, number=4, v2=True)))
        assert serves(item, "v1", "v2") == [True, False]
        cache.remove(LiveObject.of(crd("itemz", "Item", established=False, number=5, v2=True)))
        assert serves(item, "v1") == [True]
        cache.upsert(LiveObject.of(crd("items", "Thing", number=6, v1=True)))
        assert (serves(item, "v1"), serves(renamed, "v1")) == ([False], [True])
        assert changes[-2:] == [("items.t.example.com", item), ("items.t.example.com", renamed)]
        cache.remove(LiveObject.of(crd("items", "Thing", number=7, v1=True)))
        assert (crds.defined(item), crds.defined(renamed)) == (None, None)


async def test_a_change_of_a_crd_that_changes_nothing_is_no_change() -> None:
    async with scripted(no_groups) as client:
        crds, changes = informer(client)
        first = crd("items", "Item", v1=True)
        crds.reflector.cache.upsert(LiveObject.of(first))
        again = first | {"metadata": first["metadata"] | {"resourceVersion": "2", "annotations": {"a": "b"}}}
        crds.reflector.cache.upsert(LiveObject.of(again))
        assert len(changes) == 1


@pytest.mark.parametrize(
    ("crd", "withdrawn", "synced", "why"),
    [
        (None, False, True, None),
        (defined(v1=False).crd, False, True, "its CRD items.t.example.com is not served: it serves no version"),
        (defined(v1=True).crd, False, True, "the API server has not yet begun to serve"),
        (None, True, True, "the cluster served it and no longer does"),
        (None, False, False, "whether its CRD was deleted is unknown: the CRDs are not listed yet"),
    ],
    ids=["CRD deleted", "no version", "API server starts", "APIService replaced", "CRDs unknown"],
)
def test_a_kind_that_is_not_served_has_no_objects_only_if_its_crd_was_deleted(
    crd: DefinedKind | None, withdrawn: bool, synced: bool, why: str | None
) -> None:
    listed = SimpleNamespace(synced=SimpleNamespace(is_set=lambda: synced), problem="")
    crds: Any = SimpleNamespace(defined=lambda _: crd, reflector=listed)
    mapper: Any = SimpleNamespace(failure=lambda _: None, is_withdrawn=lambda _: withdrawn)
    served = ServedKinds(cast("Any", None), mapper, crds, cast("Any", None))
    found = served.why_unserved(GroupKind("t.example.com", "Item"))
    assert (found is None) is (why is None)
    assert (why or "") in (found or "")
    assert served.why_unserved(GroupKind("rbac.authorization.k8s.io", "ClusterRole"))

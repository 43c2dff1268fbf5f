"""The index of what CRDs serve: it follows their events, and no question decodes a CRD."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from ssa_operator.informers.crds import CRDInformer
from ssa_operator.informers.lookup_index import Dependent
from ssa_operator.informers.served_kinds import ServedKinds
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.objects import live_object
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_encoding import encode
from ssa_operator.objects.live_object import DECODED_LIMIT, DecodedBodies, LiveObject
from tests.kube.fakes import scripted
from tests.operator.harness import definition

CRDS = DECODED_LIMIT + 50
"""More than stay decoded."""

PARENTS = 20


class Listener:
    def __init__(self) -> None:
        self.requeued: list[str] = []

    def lookup_changed(self, parent_uid: str, cause: Cause) -> None:  # noqa: ARG002
        self.requeued.append(parent_uid)


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
        crds, mapper, listener = CRDInformer(client, lambda _name, _kind: None), RESTMapper(client), Listener()
        bodies = DecodedBodies()
        for number in range(CRDS):
            body = encode(crd(f"items{number}", f"Item{number}", v1=True))
            crds.reflector.cache.upsert(LiveObject(body, decoded_bodies=bodies))
        served = ServedKinds(client, mapper, crds, listener)
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
        assert (len(decoded), listener.requeued) == (0, [])


async def test_only_the_parents_that_asked_for_a_kind_are_requeued_when_its_answer_changes() -> None:
    async with scripted(no_groups) as client:
        crds, listener = CRDInformer(client, lambda _name, _kind: None), Listener()
        served = ServedKinds(client, RESTMapper(client), crds, listener)
        one, other = ApiKind("t.example.com/v1", "Item"), ApiKind("t.example.com/v1", "Other")
        served.set_uses(Dependent("a", Cause.TEMPLATE), {one: False, other: False})
        served.set_uses(Dependent("b", Cause.CHILD), {other: False})
        served.set_uses(Dependent("c", Cause.TEMPLATE), {one: False})
        served.forget("c")
        crds.reflector.cache.upsert(LiveObject.of(crd("items", "Item", v1=True)))
        await served.refresh()
        assert listener.requeued == ["a"]
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

"""The owners above an object, which `blame` and the web view follow to a parent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.tools.owners import owner_chain
from tests.objects.example_objects import child


class Cluster:
    """A ReplicaSet `web` with a uid, in each namespace."""

    def __init__(self, uid: str) -> None:
        self._found = child("web", uid=uid)

    async def resource(self, _: Any) -> Any:
        return SimpleNamespace(namespaced=True)

    async def find(self, *_: Any) -> LiveObject:
        return self._found


@pytest.mark.parametrize(("uid", "names"), [("r-1", ["web-x", "web"]), ("r-2", ["web-x"])])
async def test_an_owner_that_was_recreated_under_its_name_owns_nothing_of_the_former_one(
    uid: str, names: list[str]
) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r-1", "controller": True}
    pod = child("web-x", ownerReferences=[reference])
    chain = owner_chain(cast(Client, Cluster(uid)), cast(RESTMapper, Cluster(uid)), pod)
    assert [each.identity.name async for each in chain] == names

"""The owner of an object that `blame` follows to a parent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.tools.blamed_object import _controller
from ssa_operator.tools.plan.previews import PreviewSession
from tests.objects.example_objects import child


class Cluster:
    """A ReplicaSet `web` with a uid, in each namespace."""

    def __init__(self, uid: str) -> None:
        self._found = child("web", uid=uid)

    async def resource(self, _: Any) -> Any:
        return SimpleNamespace(namespaced=True)

    async def get(self, *_: Any) -> LiveObject:
        return self._found


@pytest.mark.parametrize(("uid", "owns"), [("r-1", True), ("r-2", False)])
async def test_an_owner_that_was_recreated_under_its_name_owns_nothing_of_the_former_one(uid: str, owns: bool) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r-1", "controller": True}
    pod = child("web-x", ownerReferences=[reference])
    session = cast(PreviewSession, SimpleNamespace(mapper=Cluster(uid), client=Cluster(uid)))
    found = await _controller(session, pod)
    assert (found is not None) is owns

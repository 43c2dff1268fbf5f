"""Which parents an event requeues."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ssa_operator.informers.parents import ParentKey
from ssa_operator.objects.causes import Cause
from ssa_operator.operator.event_router import EventRouter
from ssa_operator.operator.queue import Queue
from tests.objects.example_objects import PARENT_UID, parent

KEY = ParentKey("echoes.example.com", "default", "web")


class Added:
    """What was added to the queue."""

    def __init__(self) -> None:
        self.keys: list[tuple[ParentKey, Cause]] = []

    def add(self, key: ParentKey, cause: Cause) -> None:
        self.keys.append((key, cause))


@pytest.mark.parametrize(
    ("namespace", "elsewhere", "requeued"),
    [("default", False, True), ("other", False, False), ("", False, False), ("other", True, True)],
)
def test_an_object_requeues_the_parent_of_its_label_only_where_that_may_have_a_child(
    namespace: str, elsewhere: bool, requeued: bool
) -> None:
    """Whoever may create objects in another namespace can give them the label."""
    queue = Added()
    folder = SimpleNamespace(settings=SimpleNamespace(cluster_scope=elsewhere))
    parents = SimpleNamespace(folder=folder, find=lambda *_: parent())
    controllers: Any = SimpleNamespace(folders={KEY.folder: parents})
    router = EventRouter(cast("Queue[ParentKey]", cast(Any, queue)), controllers)
    router.parent_added(parent(), KEY)
    router.child_changed(PARENT_UID, namespace)
    assert queue.keys == ([(KEY, Cause.CHILD)] if requeued else [])
    router.child_changed("another-uid", namespace)
    assert len(queue.keys) == requeued

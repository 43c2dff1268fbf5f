"""How the informer of parents knows whether a parent was deleted without its children."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ssa_operator.informers.parents import ParentInformer, Served
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.live_object import LiveObject
from tests.objects.example_objects import parent

RESOURCE = Resource(group="example.com", version="v1", kind="Echo", plural="echoes", namespaced=True)
LISTENER = SimpleNamespace(
    parent_added=lambda *_: None,
    parent_owned=lambda *_: None,
    parent_deleted=lambda *_: None,
    parent_changed=lambda *_: None,
)


class Informer:
    """An informer and its cache, whose reflector is the test."""

    def __init__(self, **options: Any) -> None:
        folder = cast("Any", SimpleNamespace(name="echoes.example.com"))
        served = Served(resource=RESOURCE, crd=None)
        memory = cast("Any", SimpleNamespace())
        self.informer = ParentInformer[Any](
            cast("Any", None), folder, served, cast("Any", LISTENER), new=memory, **options
        )
        self.cache: Cache = self.informer.reflectors[0].cache

    def listed(self, *lives: LiveObject) -> None:
        self.cache.replace(lives, "5", mark=self.cache.mark())

    @property
    def orphans_children(self) -> bool | None:
        (live,) = self.cache
        return self.informer.parent(live).orphans_children


def leaving(version: str, *finalizers: str, **metadata: Any) -> LiveObject:
    return parent(
        resourceVersion=version,
        deletionTimestamp="2026-01-01T00:00:00Z",
        finalizers=["ssa-operator.dev/cleanup", *finalizers],
        **metadata,
    )


@pytest.mark.parametrize(("finalizers", "orphans"), [((), False), (("orphan",), True)], ids=["background", "orphan"])
def test_a_watch_shows_the_beginning_of_a_deletion(finalizers: tuple[str, ...], orphans: bool) -> None:
    seen = Informer()
    seen.listed(parent())
    assert seen.orphans_children is False
    seen.cache.upsert(leaving("6", *finalizers))
    seen.cache.upsert(leaving("7"))
    seen.listed(leaving("7"))
    assert seen.orphans_children is orphans


def test_a_list_shows_no_beginning() -> None:
    first, again = Informer(), Informer()
    first.listed(leaving("5"))
    again.listed(parent())
    again.listed(leaving("5"))
    for each in (first, again):
        each.cache.upsert(leaving("8", labels={"a": "b"}))
        assert each.orphans_children is None


def test_an_answer_to_an_own_write_shows_no_beginning_until_the_watch_does() -> None:
    seen = Informer()
    seen.listed(parent())
    seen.cache.written(leaving("8"))
    assert seen.orphans_children is None
    seen.cache.upsert(leaving("6", "orphan"))
    assert seen.orphans_children is True


@pytest.mark.parametrize(("labels", "orphans"), [({}, False), ({"team": "a"}, None)], ids=["deleted", "relabelled"])
def test_the_first_event_of_a_parent_without_the_label_is_its_deletion(
    labels: dict[str, str], orphans: bool | None
) -> None:
    seen = Informer(keep=lambda live: live.deleting or live.metadata.labels == {"team": "a"})
    seen.listed()
    seen.cache.upsert(leaving("6", labels=labels))
    assert seen.orphans_children is orphans

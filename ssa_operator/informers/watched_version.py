"""A kind in one of its versions, as the informers of children watch it.

Promises:
- Each version has a cache of its own: a cache mirrors the API server, and no body is converted.
- Of several versions that are watched, one shows an object: that of its manifest, once it has synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ssa_operator.informers.informer import Informer
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject


@dataclass(slots=True, eq=False)
class WatchedVersion:
    """A kind in one of its versions: one cache, and an informer for each watched namespace ('': all) that fills it."""

    resource: Resource
    cache: Cache = field(default_factory=Cache)
    informers: dict[str, Informer] = field(default_factory=dict)

    def informer(self, namespace: str) -> Informer | None:
        """The informer that shows a namespace."""
        return self.informers.get("") or self.informers.get(namespace)

    def has_synced(self, namespace: str) -> bool:
        """Whether all objects of a namespace are in the cache."""
        informer = self.informer(namespace)
        return informer is not None and informer.synced


def shown_by(versions: Mapping[str, WatchedVersion], namespace: str, version: str | None) -> WatchedVersion:
    """The version that shows the objects of a namespace: this one, or the first one that has synced."""
    first = next(iter(versions.values()))
    if len(versions) == 1:
        return first
    wanted = versions.get(version or "")
    if wanted is not None and wanted.has_synced(namespace):
        return wanted
    return next((each for each in versions.values() if each.has_synced(namespace)), wanted or first)


class ObjectsInVersions(Mapping[Identity, LiveObject]):
    """All watched objects, each as `find` gives it."""

    def __init__(self, objects: Mapping[Identity, LiveObject], find: Callable[[Identity], LiveObject | None]) -> None:
        self._objects = objects
        self._find = find

    def __getitem__(self, identity: Identity) -> LiveObject:
        found = self._find(identity)
        if found is None:
            raise KeyError(identity)
        return found

    def __iter__(self) -> Iterator[Identity]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

"""The informer of CRDs: which resources the cluster serves, and what their status may hold.

Promises:
- A change of a CRD calls the listener once, with the name of its resource (`echoes.example.com`) and its kind.
- A change of a CRD's spec is reported as a change of the schema, a change of its status or metadata is not.
- A CRD is decoded when it changes, not when it is read.
- A CRD counts as served from the moment it is Established, and one that is being deleted until it is gone: the API
  server serves its objects until the last one is deleted, and that may wait for the operator's finalizer.
- Without the permission to watch CRDs the operator still works: it finds resources by discovery alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import Readiness, ReadinessState, readiness
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.crd_schema import object_schema, replicas_path, reports_status, version_priority

RESOURCE = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)


class _CRD(Struct, frozen=True, kw_only=True):
    """The parts of a CRD that the operator reads repeatedly."""

    uid: str
    generation: int
    deleting: bool
    kind: GroupKind
    plural: str
    namespaced: bool
    reports_status: bool
    scale_paths: Mapping[str, FieldPath | None]
    defined: DefinedKind

    @classmethod
    def of(cls, live: LiveObject) -> _CRD:
        crd = live.body
        spec, established = crd["spec"], _established(crd)
        is_established = established.state is ReadinessState.CURRENT
        return cls(
            uid=live.uid,
            generation=live.metadata.generation,
            deleting=live.deleting,
            kind=GroupKind(spec["group"], spec["names"]["kind"]),
            plural=spec["names"]["plural"],
            namespaced=spec["scope"] == "Namespaced",
            reports_status=reports_status(crd),
            scale_paths={each["name"]: replicas_path(each) for each in spec["versions"]},
            defined=DefinedKind(
                name=live.identity.name,
                versions={each["name"]: bool(each.get("served")) for each in spec["versions"]},
                not_established=None if is_established else established.message or "it is not Established",
            ),
        )


class CRDInformer:
    """Watches all CRDs. `on_change` is called with the CRD's name and the kind that it defines. `on_schema_change` is
    called with a kind whose objects the API server may show with other fields than before.
    """

    def __init__(
        self,
        client: Client,
        on_change: Callable[[str, GroupKind], None],
        on_schema_change: Callable[[GroupKind], None] = lambda _: None,
    ) -> None:
        self._cache = Cache()
        self._cache.listen(self._changed)
        self._on_change = on_change
        self._on_schema_change = on_schema_change
        self._crds: dict[str, _CRD] = {}
        self._by_kind: dict[GroupKind, dict[str, _CRD]] = {}
        self.reflector = Reflector(client, Scope(RESOURCE), self._cache)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener(name)` for every change of a CRD, even of its status alone."""

        def on_change(old: LiveObject | None, new: LiveObject | None) -> None:
            live = new or old
            assert live is not None
            listener(live.identity.name)

        self._cache.listen(on_change)

    def get(self, name: str) -> Mapping[str, Any] | None:
        """The CRD of a resource, None if there is none or the cache doesn't hold it."""
        live = self._cache.get("", name)
        return live.body if live is not None else None

    def resource(self, name: str, version: str | None) -> Resource:
        """How a CRD's resource is served, in the given version or the one that Kubernetes prefers. It is read from the
        CRD itself, because discovery shows a new CRD a moment later. Raises UnknownKind, which names what is missing.
        """
        crd = self._crds.get(name)
        if crd is None:
            raise UnknownKind(f"there is no CRD {name}")
        if crd.defined.not_established:
            raise UnknownKind(f"its CRD {name} is not served: {crd.defined.not_established}")
        served = crd.defined.served
        if not served:
            raise UnknownKind(f"its CRD {name} serves no version")
        if version is not None and version not in served:
            raise UnknownKind(f"its CRD {name} doesn't serve version {version}; served are {', '.join(served)}")
        return Resource(
            group=crd.kind.group,
            version=version or served[0],
            kind=crd.kind.kind,
            plural=crd.plural,
            namespaced=crd.namespaced,
        )

    def defined(self, kind: GroupKind) -> DefinedKind | None:
        """The CRD of a kind, None without one. Of several CRDs for one kind, the API server serves one."""
        found = [crd.defined for crd in self._by_kind.get(kind, {}).values()]
        return next((each for each in found if not each.not_established), found[0] if found else None)

    def schema(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        """The schema of a kind, None if no CRD defines it, or the cache doesn't hold the CRD."""
        group, version = split_api_version(api_version)
        defined = self.defined(GroupKind(group, kind))
        return None if defined is None else object_schema(self.get(defined.name) or {}, version)

    def serves(self, kind: GroupKind, version: str) -> bool:
        """Whether a CRD serves a kind in a version. Discovery may not show it yet, and while an API server starts, it
        may show it only at times.
        """
        defined = self.defined(kind)
        return defined is not None and version in defined.served

    def reports_status(self, kind: GroupKind) -> bool:
        """Whether a kind's CRD declares that a controller writes the status of its objects."""
        return any(crd.reports_status for crd in self._by_kind.get(kind, {}).values())

    def scale_paths(self, name: str) -> Mapping[str, FieldPath | None] | None:
        """The field of the number of replicas in each version of a CRD, None if it has no subresource `scale`; None
        altogether without a CRD of this name.
        """
        crd = self._crds.get(name)
        return None if crd is None else crd.scale_paths

    def _changed(self, old: LiveObject | None, new: LiveObject | None) -> None:
        live = new or old
        assert live is not None
        name = live.identity.name
        before, after = self._crds.pop(name, None), None if new is None else _CRD.of(new)
        if before is not None:
            del self._by_kind[before.kind][name]
            if not self._by_kind[before.kind]:
                del self._by_kind[before.kind]
        if after is not None:
            self._crds[name] = after
            self._by_kind.setdefault(after.kind, {})[name] = after
        if before != after:
            for kind in dict.fromkeys(each.kind for each in (before, after) if each is not None):
                self._on_change(name, kind)
        if before is not None and after is not None and before.generation != after.generation:
            self._on_schema_change(after.kind)


def _established(crd: Mapping[str, Any]) -> Readiness:
    """The readiness of a CRD: whether it is Established, even while it is being deleted."""
    metadata = {key: value for key, value in crd["metadata"].items() if key != "deletionTimestamp"}
    return readiness({**crd, "metadata": metadata}, 0)


class DefinedKind(Struct, frozen=True, kw_only=True):
    """A CRD, as far as it decides what the API server serves."""

    name: str
    """`items.example.com`."""
    versions: Mapping[str, bool]
    """Its versions, each with whether it is served."""
    not_established: str | None = None
    """Why the API server doesn't serve it, None if it does."""

    @property
    def served(self) -> tuple[str, ...]:
        """The versions that are served, the preferred one first."""
        names = (name for name, is_served in self.versions.items() if is_served and not self.not_established)
        return tuple(sorted(names, key=version_priority, reverse=True))

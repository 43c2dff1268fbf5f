"""The informer of CRDs: which resources the cluster serves, and what their status may hold.

Promises:
- A change of a CRD calls the listener once, with the name of its resource (`echoes.example.com`) and its kind.
- A CRD counts as served from the moment it is Established, and one that is being deleted until it is gone: the API
  server serves its objects until the last one is deleted, and that may wait for the operator's finalizer.
- Without the permission to watch CRDs the operator still works: it finds resources by discovery alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from ssa_operator.core.objects.crd_schema import reports_status, version_priority
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.readiness.rules import Readiness, ReadinessState, readiness
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector

RESOURCE = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)


class CRDInformer:
    """Watches all CRDs. `on_change` is called with the CRD's name and the kind that it defines."""

    def __init__(self, client: Client, on_change: Callable[[str, GroupKind], None]) -> None:
        self._cache = Cache()
        self._cache.listen(self._changed)
        self._on_change = on_change
        self._kinds_with_status: set[GroupKind] = set()
        self.reflector = Reflector(client, Scope(RESOURCE), self._cache)

    def get(self, name: str) -> Mapping[str, Any] | None:
        """The CRD of a resource, None where there is none or the cache doesn't hold it."""
        live = self._cache.get("", name)
        return live.body if live is not None else None

    def resource(self, name: str, version: str | None) -> Resource:
        """How a CRD's resource is served, in the given version or the one that Kubernetes prefers.

        The CRD itself is read, because discovery learns of a new CRD a moment later. Raises UnknownKind with what is
        missing.
        """
        crd = self.get(name)
        if crd is None:
            raise UnknownKind(f"there is no CRD {name}")
        state = _established(crd)
        if state.state is not ReadinessState.CURRENT:
            raise UnknownKind(f"its CRD {name} is not served: {state.message}")
        served = [each["name"] for each in crd["spec"]["versions"] if each.get("served")]
        if not served:
            raise UnknownKind(f"its CRD {name} serves no version")
        if version is not None and version not in served:
            raise UnknownKind(f"its CRD {name} doesn't serve version {version}; served are {', '.join(served)}")
        spec = crd["spec"]
        return Resource(
            group=spec["group"],
            version=version or max(served, key=version_priority),
            kind=spec["names"]["kind"],
            plural=spec["names"]["plural"],
            namespaced=spec["scope"] == "Namespaced",
        )

    def serves(self, kind: GroupKind, version: str) -> bool:
        """Whether a CRD serves a kind in a version. Discovery may not know it yet, or not all the time while an API
        server starts.
        """
        for live in self._cache:
            spec = live.body["spec"]
            if (spec["group"], spec["names"]["kind"]) == kind:
                with contextlib.suppress(UnknownKind):
                    self.resource(live.identity.name, version)
                    return True
        return False

    def reports_status(self, kind: GroupKind) -> bool:
        """Whether a kind's CRD declares that a controller writes the status of its objects."""
        return kind in self._kinds_with_status

    def _changed(self, old: LiveObject | None, new: LiveObject | None) -> None:
        live = new or old
        if live is None or (old is not None and new is not None and _is_unchanged(old, new)):
            return
        spec = live.body["spec"]
        kind = GroupKind(spec["group"], spec["names"]["kind"])
        self._kinds_with_status.discard(kind)
        if new is not None and reports_status(new.body):
            self._kinds_with_status.add(kind)
        self._on_change(live.identity.name, kind)


def _is_unchanged(old: LiveObject, new: LiveObject) -> bool:
    """Whether neither the spec of a CRD changed nor whether it is served."""
    return (
        old.uid == new.uid
        and old.metadata.generation == new.metadata.generation
        and old.deleting == new.deleting
        and _established(old.body).state is _established(new.body).state
    )


def _established(crd: Mapping[str, Any]) -> Readiness:
    """The readiness of a CRD: whether it is Established, also while it is being deleted."""
    metadata = {key: value for key, value in crd["metadata"].items() if key != "deletionTimestamp"}
    return readiness({**crd, "metadata": metadata}, 0)

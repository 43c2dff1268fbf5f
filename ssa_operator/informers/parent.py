"""The parent of a reconcile, with everything about its kind that the reconcile needs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.rendering.folder.sources import Folder


class Parent(Struct, frozen=True, kw_only=True):
    """The parent of a reconcile."""

    live: LiveObject
    folder: Folder
    """The template folder that renders it."""
    resource: Resource
    """How the cluster serves its kind."""
    writes_status: bool
    """Whether the operator writes its status."""
    status_schema: Mapping[str, object] | None
    """The schema of its status, None if it accepts anything."""
    shows_conditions: bool
    """Whether the operator's conditions have a place in the status."""
    crd_refusal: str = ""
    """Why the CRD of `--install-crds` could not be applied, '' if it was."""
    unreported: str
    """A sentence about what the operator can't report because the CRD doesn't declare it."""
    cache: Cache
    """The cache that the parent was read from. The operator's own writes to the parent go there."""
    orphans_children: bool = False
    """Whether it is being deleted without its children (`kubectl delete --cascade=orphan`)."""

    @property
    def leaves(self) -> bool:
        """Whether the cache shows by now that it is being deleted or gone."""
        current = self.cache.get(self.live.identity.namespace, self.live.identity.name)
        return current is None or current.uid != self.live.uid or current.deleting

"""Reading the parents above a parent that other operator processes reconcile, where they decide what is never deleted
(reconcile.finalization.deletion_cycles).

Promises:
- The namespaces and the CRDs that the parents above a parent live in are kept, even if other shards, or operators that
  watch other namespaces, reconcile these parents.
- The operator reads only for a parent that another parent created and that renders, records or has a Namespace or a
  CRD.
- Answers are valid for some seconds. A parent that may not be read counts as absent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.identity import Identity
from ssa_operator.reconcile.cluster_access import SharedCluster
from ssa_operator.reconcile.finalization.deletion_cycles import CRD, NAMESPACE
from ssa_operator.reconcile.nested_parents.ancestors import CreatedParent
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observed import Observed

log = logging.getLogger("ssa_operator")

DEPTH_LIMIT = 100
"""Number of parents above a parent that are read."""

REMEMBERED_SECONDS = 30.0
"""Seconds for which the parents above a parent are remembered."""


class AncestorsOfOthers:
    """The parents of other processes that created parents of this one. `monotonic` is in seconds."""

    def __init__(self, cluster: SharedCluster, claims: ObjectClaims, monotonic: Callable[[], float]) -> None:
        self._cluster = cluster
        self._claims = claims
        self._monotonic = monotonic
        self._found: dict[str, tuple[CreatedParent | None, float]] = {}

    async def observed(self, observed: Observed, children: Iterable[Identity]) -> Observed:
        """The observation with all parents above the parent, if they decide about one of these children. Raises
        ApiError and CredentialsError.
        """
        above = observed.parents.ancestors
        if not above.missing or not any(each.group_kind in (NAMESPACE, CRD) for each in children):
            return observed
        elsewhere: dict[str, CreatedParent] = {}
        while above.missing and len(elsewhere) < DEPTH_LIMIT:
            found = await self._find(above.missing)
            if found is None:
                break
            elsewhere[above.missing] = found
            above = self._claims.ancestors(observed.parent, elsewhere)
        return replace(observed, parents=replace(observed.parents, ancestors=above)) if elsewhere else observed

    async def _find(self, uid: str) -> CreatedParent | None:
        """A parent of another process, None if it is gone."""
        oldest = self._monotonic() - REMEMBERED_SECONDS
        self._found = {uid: each for uid, each in self._found.items() if each[1] > oldest}
        if uid not in self._found:
            self._found[uid] = (await self._read(uid), self._monotonic())
        return self._found[uid][0]

    async def _read(self, uid: str) -> CreatedParent | None:
        for name in sorted(set(self._claims.waits.crds.values())):
            try:
                resource = await self._cluster.children.resource_by_name(name)
                scope = Scope(resource, metadata_only=True)
                found, _ = await self._cluster.operator_client.list_scope(scope, keep=lambda live: live.uid == uid)
            except UnknownKind:
                continue
            except ApiError as error:
                if not error.forbidden:
                    raise
                log.info(
                    "%s can't be listed, so whether a parent with the uid %s exists is unknown: %s", name, uid, error
                )
                continue
            for live in found:
                identity = resource.identity(live.metadata.namespace, live.metadata.name)
                return CreatedParent(identity, live.creator_uid)
        return None

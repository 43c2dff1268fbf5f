"""Watches pods and ReplicaSets for the live tree of `dev`, and assigns each pod to the child that owns it.

Promises:
- The live tree shows the pods of a Deployment below the Deployment, not below its ReplicaSet.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping

from rich.tree import Tree

from ssa_operator.cli.tree import line
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.readiness.rules import ReadinessState, readiness
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector

_PODS = Resource(group="", version="v1", kind="Pod", plural="pods", namespaced=True)
_REPLICA_SETS = Resource(group="apps", version="v1", kind="ReplicaSet", plural="replicasets", namespaced=True)


class Pods:
    """Reflectors of pods and ReplicaSets."""

    def __init__(self, client: Client) -> None:
        self._caches = {resource: Cache() for resource in (_PODS, _REPLICA_SETS)}
        self._reflectors = [Reflector(client, Scope(resource), cache) for resource, cache in self._caches.items()]

    async def run(self) -> None:
        """Watch until cancelled."""
        await asyncio.gather(*(reflector.run() for reflector in self._reflectors))

    def by_owner(self, now: float) -> Mapping[str, list[Tree]]:
        """The pods of each owner, by the owner's uid. The pods of a ReplicaSet are those of the ReplicaSet's owner."""
        owners = {live.uid: _owner(live) for live in self._caches[_REPLICA_SETS]}
        found: dict[str, list[Tree]] = defaultdict(list)
        for pod in _by_name(self._caches[_PODS]):
            owner = _owner(pod)
            found[owners.get(owner, owner)].append(_leaf(pod, now))
        return found


def _by_name(pods: Iterable[LiveObject]) -> list[LiveObject]:
    return sorted(pods, key=lambda live: live.identity)


def _owner(live: LiveObject) -> str:
    return next((owner.uid for owner in live.metadata.owner_references if owner.controller), "")


def _leaf(pod: LiveObject, now: float) -> Tree:
    found = readiness(pod.body, now)
    identity = pod.identity
    entry = {
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "creationTimestamp": pod.metadata.creation_timestamp,
    }
    word = "Ready" if found.state is ReadinessState.CURRENT else str(found.state)
    return Tree(line(entry, word, str(found.state), found.message, now))

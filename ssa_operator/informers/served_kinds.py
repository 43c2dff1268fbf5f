"""Which kinds the API server serves and in which versions, for lookups and `api_available` of templates, and its
version.

Promises:
- Unknown is not empty. The objects of a kind are unknown if the cluster serves it in another version, has a CRD of it,
  served it before, or can't discover it now. Only a kind without all of these is absent.
- If another version is served, the reason names the apiVersion to write.
- `api_available` is false for a version that never was: one that is newer than all versions that the CRD serves, and
  that the CRD doesn't list. A version that the CRD has turned off, or that is older than all that it serves, was served
  once, so the answer is unknown: templates may still want what they rendered with it.
- When the answer to a question of a parent's last render changes, the parent is requeued: at once for a CRD, within the
  interval of discovery for an aggregated API.
- The version changes with that of the API server, within the same interval.
- A CRD counts as served once it is Established, even if discovery learns of it a moment later.
- Answers come from memory, and no answer decodes an object. A refresh checks each kind once for all parents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from ssa_operator.informers.crds import CRDInformer, DefinedKind
from ssa_operator.informers.lookup_index import Dependent, dependents_of
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.openapi import read_version
from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS, ApiKind
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Availability, Unknown
from ssa_operator.objects.identity import GroupKind, join_api_version, split_api_version
from ssa_operator.schema.crd_schema import version_priority


class ServedFacts(Struct, frozen=True, kw_only=True):
    """What the operator knows of how the cluster serves a kind."""

    crd: DefinedKind | None = None
    """The CRD of the kind, None if there is none or the operator may not read it."""
    discovered: Sequence[str] = ()
    """The versions in which discovery lists the kind, the preferred one first."""
    failing: str | None = None
    """Why the discovery of its group fails, None if it doesn't."""
    withdrawn: bool = False
    """Whether discovery listed the kind in this version, no longer does, and no CRD was deleted."""


def availability(kind: ApiKind, facts: ServedFacts) -> Availability:
    """The answer to `api_available`."""
    version, crd = split_api_version(kind.api_version)[1], facts.crd
    if version in facts.discovered or (crd is not None and version in crd.served):
        return True
    was_served = facts.withdrawn or (crd is None and facts.failing) or (crd is not None and _was_served(version, crd))
    return Unknown(why) if was_served and (why := why_unknown(kind, facts)) else False


def _was_served(version: str, crd: DefinedKind) -> bool:
    older = all(version_priority(version) < version_priority(each) for each in crd.served)
    return bool(crd.served) and (version in crd.versions or older)


def why_unknown(kind: ApiKind, facts: ServedFacts) -> str | None:
    """Why the objects of a kind that can't be read may exist nevertheless; None if there can be none."""
    version, crd = split_api_version(kind.api_version)[1], facts.crd
    if crd is not None:
        if version in crd.served:
            return f"the API server has not yet begun to serve {kind}"
        if crd.served:
            return _other_version(f"its CRD {crd.name} serves", kind, crd.served)
        return f"its CRD {crd.name} is not served: {crd.not_established or 'it serves no version'}"
    if facts.failing:
        return f"the discovery of its group fails: {facts.failing}"
    if facts.discovered:
        return _other_version("the cluster serves", kind, facts.discovered)
    if facts.withdrawn:
        return (
            "the cluster served it and no longer does, and no CRD of it was deleted: its API may be in an upgrade; "
            "if it is gone for good, restart the operator"
        )
    return None


def _other_version(who: str, kind: ApiKind, served: Sequence[str]) -> str:
    group, version = split_api_version(kind.api_version)
    return f"{who} {kind.kind} in {', '.join(served)}, not in {version}; write {join_api_version(group, served[0])}"


Requeue: TypeAlias = Callable[[str, Cause], None]
"""Called with the uid of a parent when an answer changed that its templates rendered."""


class ServedKinds:
    """The kinds that the cluster serves, and the parents whose templates ask for them."""

    def __init__(self, client: Client, mapper: RESTMapper, crds: CRDInformer, requeue: Requeue) -> None:
        self._client = client
        self._mapper = mapper
        self._crds = crds
        self._requeue = requeue
        self._uses: dict[Dependent, Mapping[ApiKind, Availability]] = {}
        self.followers = self._uses.keys()
        """The dependents whose last render asked for a kind."""
        self._dependents: dict[ApiKind, dict[Dependent, Availability]] = {}
        self.kubernetes_version = ""
        """The version of the API server, as in 1.36; '' before `discover`."""
        self._reading = asyncio.Lock()

    @property
    def in_use(self) -> bool:
        """Whether the templates of a parent ask for a kind."""
        return bool(self._uses)

    def asked_for(self, kind: GroupKind) -> bool:
        """Whether the templates of a parent ask for a kind, in any version."""
        return any(_group_kind(each) == kind for each in self._dependents)

    def serves(self, kind: ApiKind) -> Availability:
        """Whether the API server serves a kind, from the caches."""
        return availability(kind, self._facts(kind))

    def why_unknown(self, kind: ApiKind) -> str | None:
        """Why a kind that discovery doesn't list may have objects nevertheless, None if it has none."""
        return why_unknown(kind, self._facts(kind))

    def why_unserved(self, kind: GroupKind) -> str | None:
        """Why objects of a kind that the cluster serves in no version may exist; None if its CRD was deleted."""
        crd, failing = self._crds.defined(kind), self._mapper.failure(kind.group)
        versions = () if crd is None else crd.served or tuple(crd.versions)
        asked = ApiKind(join_api_version(kind.group, versions[0] if versions else "v1"), kind.kind)
        withdrawn = self._mapper.is_withdrawn(kind)
        if why := why_unknown(asked, ServedFacts(crd=crd, failing=failing, withdrawn=withdrawn)):
            return why
        if kind in _BUILT_IN_KINDS:
            return "every Kubernetes has the kind, and the API server doesn't list it"
        reflector = self._crds.reflector
        if not reflector.synced.is_set():
            return f"whether its CRD was deleted is unknown: {reflector.problem or 'the CRDs are not listed yet'}"
        return None

    def _facts(self, kind: ApiKind) -> ServedFacts:
        group_kind, version = _group_kind(kind), split_api_version(kind.api_version)[1]
        return ServedFacts(
            crd=self._crds.defined(group_kind),
            discovered=self._mapper.versions(group_kind),
            failing=self._mapper.failure(group_kind.group),
            withdrawn=self._mapper.is_withdrawn(group_kind, version),
        )

    async def discover(self) -> None:
        """Discover the kinds, unless they are cached, and read the version the first time. Raises ApiError."""
        await self._mapper.discover()
        if not self.kubernetes_version:
            async with self._reading:
                # At the start many parents need it; one of them reads it for all.
                if not self.kubernetes_version:
                    self.kubernetes_version = await read_version(self._client)

    async def refresh(self) -> None:
        """Discover again if the cache is invalid, and requeue the parents that rendered another answer. Raises
        ApiError.
        """
        await self._mapper.discover()
        for kind, dependents in list(self._dependents.items()):
            answer = self.serves(kind)
            for dependent, rendered in list(dependents.items()):
                if rendered != answer:
                    self._requeue(dependent.uid, dependent.cause)

    async def refresh_version(self) -> bool:
        """Read the version again. Returns whether it changed. Raises ApiError."""
        before, self.kubernetes_version = self.kubernetes_version, await read_version(self._client)
        return before not in ("", self.kubernetes_version)

    def set_uses(self, dependent: Dependent, answers: Mapping[ApiKind, Availability]) -> None:
        """Record all questions of a dependent's last render, with the answers that it rendered. The parent is requeued
        when an answer changes.
        """
        for kind in self._uses.pop(dependent, {}).keys() - answers.keys():
            del self._dependents[kind][dependent]
            if not self._dependents[kind]:
                del self._dependents[kind]
        if not answers:
            return
        self._uses[dependent] = dict(answers)
        for kind, answer in answers.items():
            self._dependents.setdefault(kind, {})[dependent] = answer
        if not self.is_current(dependent):
            self._requeue(dependent.uid, dependent.cause)

    def forget(self, parent_uid: str) -> None:
        """Remove the questions of a deleted parent."""
        for dependent in dependents_of(parent_uid):
            self.set_uses(dependent, {})

    def is_current(self, dependent: Dependent) -> bool:
        """Whether all answers of a dependent's last render are still the same."""
        return all(self.serves(kind) == answer for kind, answer in self._uses.get(dependent, {}).items())


def _group_kind(kind: ApiKind) -> GroupKind:
    return GroupKind(split_api_version(kind.api_version)[0], kind.kind)


_BUILT_IN_KINDS = frozenset(map(_group_kind, BUILT_IN_KINDS))

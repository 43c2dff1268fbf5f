"""Decides whether objects exist if the cluster doesn't serve a kind in the version that a template names.

Promises:
- Unknown is not empty. The objects of a kind are unknown if the cluster serves it in another version, has a CRD of it,
  served it before, or can't discover it now. Only a kind without all of these is absent.
- If another version is served, the reason names the apiVersion to write.
- `api_available` is false for a version that never was: one that is newer than all versions that the CRD serves, and
  that the CRD doesn't list. A version that the CRD has turned off, or that is older than all that it serves, was served
  once, so the answer is unknown: templates may still want what they rendered with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import Availability, Unknown
from ssa_operator.objects.identity import join_api_version, split_api_version
from ssa_operator.schema.crd_schema import version_priority


class DefinedKind(Struct, frozen=True, kw_only=True):
    """A CRD, as far as it decides what the API server serves."""

    name: str
    """`items.example.com`."""
    versions: Mapping[str, bool]
    """Its versions, each with whether it is served."""
    not_established: str = ""
    """Why the API server doesn't serve it, '' if it does."""

    @property
    def served(self) -> tuple[str, ...]:
        """The versions that are served, the preferred one first."""
        names = (name for name, is_served in self.versions.items() if is_served and not self.not_established)
        return tuple(sorted(names, key=version_priority, reverse=True))


class ServedFacts(Struct, frozen=True, kw_only=True):
    """What the operator knows of how the cluster serves a kind."""

    crd: DefinedKind | None = None
    """The CRD of the kind, None if there is none or the operator may not read it."""
    discovered: Sequence[str] = ()
    """The versions in which discovery lists the kind, the preferred one first."""
    failing: str = ""
    """Why the discovery of its group fails, '' if it doesn't."""
    withdrawn: bool = False
    """Whether discovery listed the kind in this version, no longer does, and no CRD was deleted."""


def availability(kind: ApiKind, facts: ServedFacts) -> Availability:
    """The answer to `api_available`."""
    version, crd = split_api_version(kind.api_version)[1], facts.crd
    if version in facts.discovered or (crd is not None and version in crd.served):
        return True
    if facts.withdrawn or (crd is None and facts.failing) or (crd is not None and _was_served(version, crd)):
        return Unknown(why_unknown(kind, facts))
    return False


def _was_served(version: str, crd: DefinedKind) -> bool:
    older = all(version_priority(version) < version_priority(each) for each in crd.served)
    return bool(crd.served) and (version in crd.versions or older)


def why_unknown(kind: ApiKind, facts: ServedFacts) -> str:
    """Why the objects of a kind that can't be read may exist nevertheless; '' if there can be none."""
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
    return ""


def _other_version(who: str, kind: ApiKind, served: Sequence[str]) -> str:
    group, version = split_api_version(kind.api_version)
    return f"{who} {kind.kind} in {', '.join(served)}, not in {version}; write {join_api_version(group, served[0])}"

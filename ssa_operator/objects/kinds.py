"""A kind as the operator knows it: how a cluster serves it, whether its objects are known, and a permission on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS
from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.messages import did_you_mean


class KindState(Struct, frozen=True, kw_only=True):
    """What discovery and the watch know of a kind."""

    namespaced: bool
    synced: bool
    """Whether its watch has synced, in each namespace that the parent needs."""
    problem: str = ""
    """Why it can't be watched in one of these, '' if it can."""
    needs_permission: bool = False
    """Whether the problem stays until an administrator grants a permission."""
    was_synced: bool = False
    """Whether it had synced before the problem. Since then the caches may lack objects."""
    reports_status: bool = False
    """Whether a controller writes the status of its objects; they are not ready before that."""
    namespaces: Mapping[str, KindState] = field(default_factory=dict)
    """What the watch of each namespace knows, if namespaces are watched one by one."""

    @property
    def shown(self) -> bool:
        """Whether the watches that the parent needs show all of its objects. Without a watch none are known."""
        return self.synced and bool(self.namespaces)

    def within(self, namespace: str) -> KindState:
        """What the watch that shows a namespace knows."""
        return self.namespaces.get(namespace, self)


def kind_state(namespaced: bool, watches: Sequence[tuple[str, KindState]]) -> KindState:
    """What the watches that a parent needs know of a kind, each with its namespace ('' for all)."""
    namespaces: dict[str, KindState] = {}
    unsynced: list[KindState] = []
    problem: KindState | None = None
    for namespace, state in watches:
        other = namespaces.get(namespace)  # of another version
        namespaces[namespace] = state if other is None or not state.synced else other
        if not state.synced:
            unsynced.append(state)
            problem = problem or (state if state.problem else None)
    return KindState(
        namespaced=namespaced,
        synced=not unsynced,
        problem="" if problem is None else problem.problem,
        needs_permission=problem is not None and problem.needs_permission,
        was_synced=not unsynced or all(state.was_synced for state in unsynced),
        namespaces=namespaces,
    )


class Permission(Struct, frozen=True, order=True, kw_only=True):
    """One verb on one resource."""

    group: str
    """The API group, '' for the core group."""
    resource: str
    """The plural, with a subresource as in `echoes/status`."""
    namespace: str = ""
    """'' for all namespaces, or for a cluster-scoped resource."""
    name: str = ""
    """'' for all names."""
    verb: str

    @property
    def resource_name(self) -> str:
        """`deployments.apps`, `pods`, `echoes.example.com/status`."""
        plural, slash, subresource = self.resource.partition("/")
        return f"{plural}.{self.group}{slash}{subresource}" if self.group else self.resource

    def covers(self, other: Permission) -> bool:
        """Whether an account with this permission has the other one, too."""
        return (
            (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
            and self.namespace in ("", other.namespace)
            and self.name in ("", other.name)
        )

    def __str__(self) -> str:
        what = f"{self.resource_name} {self.name}" if self.name else self.resource_name
        return f"{self.verb} {what} in {self.namespace}" if self.namespace else f"{self.verb} {what}"


class ServedKind(Struct, frozen=True):
    """How a cluster serves a kind."""

    resource: str
    """The plural."""
    namespaced: bool


def is_in_no_kubernetes(group: str, kind: str) -> bool:
    """Whether a group is one of Kubernetes' own and lacks the kind, so that waiting does not help."""
    kinds = {(split_api_version(each.api_version)[0], each.kind) for each in BUILT_IN_KINDS}
    return (group, kind) not in kinds and any(group == each for each, _ in kinds)


def unknown_kind_hint(group: str, kind: str) -> str:
    """What to do about a kind that the cluster doesn't serve: an instruction or a question, to follow a semicolon."""
    if "." in group and not group.endswith(".k8s.io"):
        return "install its CRD with `ssa-operator crds apply`, or correct apiVersion and kind"
    others = sorted({each.api_version for each in BUILT_IN_KINDS if each.kind == kind})
    if others and group not in {split_api_version(each)[0] for each in others}:
        return f"it is in {' and '.join(others)}"
    kinds = sorted({each.kind for each in BUILT_IN_KINDS if split_api_version(each.api_version)[0] == group})
    return did_you_mean(kind, [each for each in kinds if each != kind], "correct apiVersion and kind")

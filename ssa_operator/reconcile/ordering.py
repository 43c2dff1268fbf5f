"""Orders the steps of a plan, by their dependencies and by their kinds, and decides whether the dependencies of a step
are satisfied.

Promises:
- Where no dependency orders them, new objects are created as Helm does: Namespaces and CRDs, ServiceAccounts, roles,
  bindings, Secrets and ConfigMaps, Services and workloads, then the rest. So a controller finds what its pods need.
- A workload comes after the attempt to create such an object, whether it succeeds or not. Where nothing is new, no kind
  comes after another one.
- Manifests that depend on each other in a cycle are refused, and each refusal names the path of the cycle.
- A dependency counts with its state after this reconcile applied it. When both manifests change, the dependent waits
  for the new state of the dependency, even if the old state was ready.
- A dependency that failed, is refused or waits itself holds back everything that depends on it.
- A dependency with `wait: "false"` is satisfied as soon as its object exists.
- A manifest that is applied already and unchanged is not held back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup, Query, Selection, selects
from ssa_operator.objects.dependency_graph import Edge, Graph, graph, waves
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.readiness import ReadinessState
from ssa_operator.objects.render_result import Dependency, Rendered, RenderProblem, WaitTarget
from ssa_operator.reconcile.child import CHANGED, Action, Child, FailureReason, Result

_RBAC = "rbac.authorization.k8s.io"
_CREATION_ORDER = (
    (GroupKind("", "Namespace"), GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")),
    # Admission reads these when a pod is created, and a controller deletes the token of a missing ServiceAccount.
    (
        GroupKind("", "ServiceAccount"),
        GroupKind("", "LimitRange"),
        GroupKind("networking.k8s.io", "NetworkPolicy"),
        GroupKind("node.k8s.io", "RuntimeClass"),
        GroupKind("scheduling.k8s.io", "PriorityClass"),
        GroupKind("storage.k8s.io", "StorageClass"),
    ),
    (GroupKind(_RBAC, "Role"), GroupKind(_RBAC, "ClusterRole")),
    # The API server refuses a binding to a missing role, unless the operator may bind all roles.
    (GroupKind(_RBAC, "RoleBinding"), GroupKind(_RBAC, "ClusterRoleBinding")),
    (
        GroupKind("", "Secret"),
        GroupKind("", "ConfigMap"),
        GroupKind("", "PersistentVolume"),
        GroupKind("", "PersistentVolumeClaim"),
    ),
    (GroupKind("", "Service"),),
    tuple(POD_SPECS),
)
"""Kinds that are created before later ones and before all others, as Helm installs them. A ResourceQuota comes with the
others, because admission refuses pods until the quota has a status.
"""
_SERVICES = _CREATION_ORDER.index((GroupKind("", "Service"),))
_RANKS: Mapping[GroupKind, int] = {kind: rank for rank, kinds in enumerate(_CREATION_ORDER) for kind in kinds}


def order_steps(
    steps: Sequence[Child], dependencies: Sequence[Sequence[Dependency]], rendered: Rendered
) -> list[Child]:
    """The steps, each with the steps that have to come before it. Steps in a dependency cycle are refused.
    `dependencies` has one entry for each step.
    """
    found = graph((step.identity, own) for step, own in zip(steps, dependencies, strict=True))
    paths: dict[Identity, str] = {}
    for cycle in found.cycles():
        path = found.path(cycle)
        for identity in cycle:
            paths.setdefault(identity, path)
    missing = _why_missing(rendered)
    return [_with_predecessors(step, found, paths, missing) for step in steps]


def depths(steps: Sequence[Child]) -> Mapping[Identity, int]:
    """The length of the longest chain of steps that come before each step; {} where no step depends on another."""
    if not any(step.after for step in steps):
        return {}
    found = waves({step.identity: [edge.target for edge in step.after] for step in steps})
    return {identity: depth for depth, wave in enumerate(found) for identity in wave}


def stages(steps: Sequence[Child]) -> list[list[tuple[int, Child]]]:
    """The steps with their positions, in stages that follow each other. The steps of a stage are independent. Unchanged
    manifests come after changed ones, and prunes after everything else.
    """
    if len(steps) == 1:
        return [[(0, steps[0])]]
    depth = depths(steps)
    ranks = _ranks(steps, depth)
    found: dict[tuple[bool, int, int, bool], list[tuple[int, Child]]] = {}
    for position, step in enumerate(steps):
        key = (step.action is Action.PRUNE, ranks[position], depth.get(step.identity, 0), step.unchanged)
        found.setdefault(key, []).append((position, step))
    return [found[key] for key in sorted(found)]


def _ranks(steps: Sequence[Child], depth: Mapping[Identity, int]) -> Sequence[int]:
    """How many of the kinds that are created have to come before each step. A step has at least the rank of those that
    it depends on.
    """
    if not any(step.creates or _RANKS.get(step.identity.group_kind) == 0 for step in steps):
        return [0] * len(steps)
    places = [0] * len(steps)
    created = {0}
    by_identity: dict[Identity, int] = {}
    for position in sorted(range(len(steps)), key=lambda each: depth.get(steps[each].identity, 0)):
        step = steps[position]
        own = _RANKS.get(step.identity.group_kind, len(_CREATION_ORDER))
        place = max((own, *(by_identity.get(edge.target, 0) for edge in step.after)))
        by_identity[step.identity] = places[position] = place
        # Waiting for Services would cost each cold start a round trip, and a pod takes longer to start than a Service.
        if step.creates and own != _SERVICES:
            created.add(place)
    before = sorted(created)
    return [
        0 if step.action is Action.PRUNE else bisect_left(before, at) for step, at in zip(steps, places, strict=True)
    ]


def waiting_outcome(step: Child, outcomes: Mapping[Identity, Child], now: float) -> Child | None:
    """The outcome of a step whose dependencies are not satisfied, None where they are. `outcomes` are those of the
    steps before it; `now` is in seconds since the epoch.
    """
    if step.action is not Action.APPLY and step.action is not Action.RECREATE:
        return None
    awaited = [WaitTarget(child, state="be ready") for child, _ in step.missing]
    awaited += [_awaited(edge) for edge in step.after if not _is_satisfied(edge, outcomes.get(edge.target), now)]
    if not awaited:
        return None
    if step.unchanged:
        return step.ended(Result.UNCHANGED, live=step.live)
    waiting = replace(step, awaited=tuple(awaited))
    message = "waiting for " + " and ".join(map(str, awaited))
    return waiting.ended(Result.WAITING, live=step.live, message=message)


def inputs_changed(rendered: Rendered, outcomes: Sequence[Child], now: float) -> bool:
    """Whether the reconcile changed an object that templates read, so that another render may give something else. A
    template may read the very object that it renders.
    """
    changed = [outcome for outcome in outcomes if outcome.result in CHANGED]
    if not changed or not rendered.queries:
        return False
    by_name: dict[Reference, list[Child]] = {}
    for outcome in changed:
        identity = outcome.identity
        by_name.setdefault(Reference(identity.kind, identity.name), []).append(outcome)
    if _are_looked_up(rendered.queries, [outcome.live for outcome in changed if outcome.live is not None]):
        return True
    return any(
        query in rendered.read_unready or _is_readable(outcome, now)
        for query in rendered.queries
        if isinstance(query, Reference)
        for outcome in by_name.get(query, ())
    )


def _are_looked_up(queries: Iterable[Query], lives: Sequence[LiveObject]) -> bool:
    """Whether one of these objects is part of the answer to a lookup. An object meets only selections of its labels."""
    names = {query.identity for query in queries if isinstance(query, Lookup)}
    selections: dict[tuple[GroupKind, tuple[str, str] | None], list[Selection]] = {}
    for query in queries:
        if isinstance(query, Selection):
            selections.setdefault((query.group_kind, query.labels[0] if query.labels else None), []).append(query)
    return any(
        live.identity in names
        or any(
            selects(query, live.identity, live.metadata.labels)
            for label in (None, *live.metadata.labels.items())
            for query in selections.get((live.identity.group_kind, label), ())
        )
        for live in lives
    )


def _with_predecessors(
    step: Child, found: Graph, cycle_paths: Mapping[Identity, str], why_missing: Callable[[Reference], str]
) -> Child:
    identity = step.identity
    if identity in cycle_paths and step.action is not Action.REFUSE:
        reason = f"is in a dependency cycle: {cycle_paths[identity]}; remove one of these dependencies"
        return replace(step, action=Action.REFUSE, reason=reason, problem=FailureReason.DEPENDENCY_CYCLE)
    missing = tuple((child, why_missing(child)) for child in found.elsewhere.get(identity, ()))
    return replace(step, after=found.edges[identity], missing=missing)


def _why_missing(rendered: Rendered) -> Callable[[Reference], str]:
    """Says why a child that a manifest depends on has no step. Every child that a template renders has one."""
    problems: dict[Reference, RenderProblem] = {}
    for problem in rendered.problems:
        for each in problem.of:
            problems.setdefault(Reference(each.kind, each.name), problem)
    waiting_files = (wait for wait in rendered.waits if wait.identity is None)
    other = next((f"a template may render it that is {wait}" for wait in waiting_files), "")
    if rendered.problems:
        other = f"a template that failed may render it: {rendered.problems[0]}"
    return lambda child: f"it can't be rendered: {problems[child]}" if child in problems else other


def _is_satisfied(edge: Edge, outcome: Child | None, now: float) -> bool:
    if outcome is None or outcome.result is Result.FAILED or outcome.result is Result.WAITING:
        return False
    if outcome.once_readiness is not None:
        return outcome.once_readiness.state is ReadinessState.CURRENT
    if outcome.live is None:
        return False
    return not edge.ready or _is_readable(outcome, now)


def _is_readable(outcome: Child, now: float) -> bool:
    """Whether templates may read the child: it is ready, or its manifest says `wait: "false"`."""
    made, live = outcome.manifest, outcome.live
    if live is None:
        return False
    if made is not None and not made.instructions.wait:
        return True
    return outcome.readiness_of(live, now).usable


def _awaited(edge: Edge) -> WaitTarget:
    return WaitTarget(edge.use.query, state="be ready" if edge.ready else "be applied")

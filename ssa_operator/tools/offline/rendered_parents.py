"""The output of parents' renders, in the words of `render` and of golden cases.

Promises:
- Every wait and problem names the template line and the object.
- A manifest whose dependencies are not ready is complete, and is a wait, too: the operator applies them first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.readiness import ReadinessState, readiness
from ssa_operator.objects.render_result import Document, Rendered, RenderProblem
from ssa_operator.operator.preview import Planned
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.child import Action, Child
from ssa_operator.reconcile.observed import Observed
from ssa_operator.rendering.folder.loaded_folders import Sources
from ssa_operator.tools.offline.documents import read_objects
from ssa_operator.tools.offline.offline_cluster import OfflineCluster, RefusedParentError, ReturnedParent, live_objects
from ssa_operator.tools.offline.project import cluster_scoped, read_crd_kinds


@dataclass(slots=True, kw_only=True)
class RenderedParents:
    """The renders of several parents, one after another."""

    now: float
    """Seconds since the epoch."""

    names_parents: bool = True
    """Whether each wait and problem names the parent."""

    steps: list[Child] = field(default_factory=list)
    """The steps of the manifests that the operator would apply."""

    problems: list[str] = field(default_factory=list)

    waits: list[str] = field(default_factory=list)
    """The documents that would wait, with the objects that they wait for."""

    warnings: list[str] = field(default_factory=list)
    """The Events that the templates emit with `warn`."""

    def add(self, planned: Planned, render_problems: Iterable[RenderProblem]) -> None:
        """Add what one parent renders."""
        observed, rendered = planned.observed, planned.rendered
        problems = list(dict.fromkeys(map(str, render_problems)))
        waits = [f"{wait.location}: a document is {wait}" for wait in rendered.waits if wait.identity is None]
        unready = partial(self._unready, observed, rendered)
        for step in planned.rendered_steps:
            self._add(step, observed, unready, problems, waits)
        identity = observed.parent.identity
        parent = f" (for {identity.kind} {identity.name})" if self.names_parents else ""
        self.problems += [f"{problem}{parent}" for problem in problems]
        self.waits += [f"{wait}{parent}" for wait in waits]
        self.warnings += [f"{warning}{parent}" for warning in rendered.warnings]

    def _add(
        self,
        step: Child,
        observed: Observed,
        unready: Callable[[Identity], bool],
        problems: list[str],
        waits: list[str],
    ) -> None:
        if step.action is Action.REFUSE:
            problems.append(f"{step.location}: {step.identity} {step.reason}")
        elif step.manifest is None:
            waits.append(f"{step.location}: {step.identity} is {step.reason}")
        else:
            self.steps.append(step)
            # The manifest is complete, but the operator applies its dependencies first.
            dependencies = [str(edge) for edge in step.after if unready(edge.target)]
            dependencies += [
                f"{child} to be ready"
                for child, _ in step.missing
                if all(map(unready, _named(child, observed.children.objects)))
            ]
            if dependencies:
                waits.append(f"{step.location}: {step.identity} is waiting for {' and '.join(dependencies)}")

    def _unready(self, observed: Observed, rendered: Rendered, identity: Identity) -> bool:
        live, kind = observed.children.objects.get(identity), observed.children.kinds.get(identity.group_kind)
        if live is None or kind is None:
            return True
        ready_when = rendered.ready_when.get(Reference(identity.kind, identity.name))
        found = readiness(live.body, self.now, reports_status=kind.reports_status, ready_when=ready_when)
        return found.state is not ReadinessState.CURRENT


def _named(child: Reference, objects: Iterable[Identity]) -> list[Identity]:
    """The objects that a reference may mean."""
    return [identity for identity in objects if (identity.kind, identity.name) == (child.kind, child.name)]


def rendered_offline(
    parents: Sequence[Document],
    sources: Sources,
    crds: Sequence[Path],
    objects: Sequence[Path],
    namespace: str,
) -> RenderedParents:
    """What the parents render as new ones, where `child` and `lookup` find the objects of these files.

    What the API server removes from a parent, and what can't be checked without it, goes to standard error. Raises
    CommandError if a file of the CRDs or objects can't be read.
    """
    kinds = read_crd_kinds(crds)
    now = time.time()
    offline = OfflineCluster(
        sources=sources,
        kinds=kinds,
        namespace=namespace,
        objects=live_objects(read_objects(objects), cluster_scoped(kinds), namespace),
        now=now,
    )
    found = RenderedParents(now=now)
    found.problems += [str(problem) for problem in sources.problems]
    for parent in parents:
        try:
            each = offline.render(parent)
        except RefusedParentError as error:
            found.problems += error.lines
            _warn(error.created)
        except CommandError as error:
            found.problems.append(f"{parent.location}: {error}")
        else:
            found.add(each.planned, each.problems)
            _warn(each.created)
    return found


def _warn(created: ReturnedParent) -> None:
    for pruned in created.pruned:
        streams.error(f"warning: {pruned}")
    for unchecked in created.unchecked:
        streams.error(f"note: {unchecked}")

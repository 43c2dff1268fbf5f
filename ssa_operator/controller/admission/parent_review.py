"""Judges a parent before the API server stores it: would the templates render, and would the plan refuse a manifest?

Promises:
- A judgement leaves no trace: nothing is watched or requested for it, nothing is remembered, no Event is written.
- Only a definite problem refuses: an error of a template, or a manifest that breaks a rule. What waits is allowed, also a
  lookup that the caches can't answer, and a kind that the cluster doesn't serve.
- A folder that doesn't load refuses no parent.
- Problems hold no content of the Secrets that the templates read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.controller.folder_controllers import FolderControllers
from ssa_operator.controller.informers.parents import ParentInformer
from ssa_operator.controller.options import Options
from ssa_operator.controller.reconcile.observe import Observer
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import RenderProblem
from ssa_operator.core.planning.plan import make_plan
from ssa_operator.core.planning.step import Action, FailureReason
from ssa_operator.core.policies.admission import AdmissionRequest, is_judged, new_problems

_DEFINITE = frozenset({FailureReason.INVALID_MANIFEST, FailureReason.DEPENDENCY_CYCLE})
"""The refusals of a plan that no event but a change of the parent or its templates ends."""


class ParentReview:
    """Judges requests by the templates and caches of a running operator."""

    def __init__(self, controllers: FolderControllers, observer: Observer, options: Options) -> None:
        self._controllers = controllers
        self._observer = observer
        self._options = options

    async def problems(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Why the parent of a request is refused, nothing if it is allowed."""
        parents = self._parents(request)
        if parents is None or request.object is None or not is_judged(request):
            return ()
        found = await self._problems(parents, request.object)
        if found and request.old_object is not None:
            found = new_problems(found, await self._problems(parents, request.old_object))
        return tuple(map(str, new_problems(found, ())))

    def _parents(self, request: AdmissionRequest) -> ParentInformer | None:
        """The parents of the request's resource, None where the operator doesn't reconcile this one."""
        if request.namespace and self._options.namespaces and request.namespace not in self._options.namespaces:
            return None
        asked = request.resource.group, request.resource.version, request.resource.resource
        for parents in self._controllers.folders.values():
            served = parents.served.resource
            if (served.group, served.version, served.plural) == asked:
                return parents
        return None

    async def _problems(self, parents: ParentInformer, body: Mapping[str, Any]) -> tuple[RenderProblem, ...]:
        parent = parents.parent(LiveObject.of(body))
        observed, rendered, redactor = await self._observer.observe_unstored(parent)
        problems = [problem for problem in rendered.problems if not problem.outdated]
        if parent.folder.templates is None:
            return ()
        for step in make_plan(observed, rendered).steps:
            if step.action is Action.REFUSE and step.problem in _DEFINITE:
                problems.append(RenderProblem(f"{step.identity} {step.reason}", step.location))
        return tuple(RenderProblem(redactor.redact(each.message), each.location) for each in problems)

"""Judges a parent before the API server stores it: do its templates render, and do the manifests keep the rules?

Promises:
- A judgement leaves no trace: nothing is written or watched for it, nothing is remembered, no Event is recorded. A dry
  run is judged as any other request.
- Only an error of a template, or a manifest that breaks a rule whatever the cluster holds, refuses a parent. What waits
  is allowed, also for a lookup that the caches can't answer, and for a kind that the cluster doesn't serve.
- A folder that doesn't load refuses no parent.
- Problems hold no content of the Secrets that the templates read.
- Where the parent's account may not read what the templates look up, the parent is allowed, so that nothing that the
  account may not read influences the answer.
- Children that this process doesn't know are not taken for missing ones: a parent that it never reconciled, because it
  just started or because another shard reconciles it, is allowed if its templates read children.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.kind_state import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Rendered, RenderProblem
from ssa_operator.operator.admission.rules import AdmissionRequest, is_judged, new_problems
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.child_needs import rendered_kinds
from ssa_operator.reconcile.impersonation.rules import refusal
from ssa_operator.reconcile.observe import is_confidential
from ssa_operator.reconcile.observed import Observed, ObservedChildren, ObservedParents
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.plan import steps_of
from ssa_operator.reconcile.secrets.redacted_report import redacted_steps
from ssa_operator.reconcile.step import FailureReason
from ssa_operator.reconcile.step_record import RecordedStep

HANDLER = "admission"
"""What logs call the judgement of a parent."""

_DEFINITE = frozenset({FailureReason.INVALID_MANIFEST, FailureReason.DEPENDENCY_CYCLE})
"""The refusals of a plan that no event but a change of the parent or its templates ends."""


class ParentReview:
    """Judges requests by the templates and caches of a running operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    async def problems(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Why the parent of a request is refused, nothing if it is allowed. Raises ApiError."""
        parents = self._parents(request)
        if parents is None or request.object is None or not is_judged(request):
            return ()
        metadata = request.object["metadata"]
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        step = RecordedStep(parents.folder.name, str(metadata.get("namespace") or ""), name, handler=HANDLER)
        return await self._operator.recorded(step, self._new_problems(parents, request, request.object))

    async def _new_problems(
        self, parents: Parents, request: AdmissionRequest, body: Mapping[str, Any]
    ) -> tuple[str, ...]:
        found = await self._problems(parents, body, is_new=request.old_object is None)
        if not found or request.old_object is None:
            return new_problems(found or (), ())
        before = await self._problems(parents, request.old_object, is_new=False)
        return () if before is None else new_problems(found, before)

    def _parents(self, request: AdmissionRequest) -> Parents | None:
        """The parents of the request's resource, None if no folder with that resource runs."""
        asked = request.resource.group, request.resource.version, request.resource.resource
        for parents in self._operator.folders.values():
            served = parents.served.resource
            if (served.group, served.version, served.plural) == asked:
                return parents
        return None

    async def _problems(self, parents: Parents, body: Mapping[str, Any], *, is_new: bool) -> tuple[str, ...] | None:
        """What is wrong with the parent, None if that can't be judged. Raises ApiError."""
        # A new object has no version yet, which templates read.
        metadata = {"resourceVersion": "0", **body["metadata"]}
        parent = parents.parent(LiveObject.of({**body, "metadata": metadata}))
        settings, impersonate = parent.folder.settings, self._operator.options.impersonate
        if parent.folder.templates is None:
            return None
        if refusal(impersonate, parent.live.identity, cluster_scope=settings.cluster_scope):
            return None
        known = is_new or parents.state(parent.live).reconciled_before
        found = await self._operator.observer.render_unstored(parent, children_known=known)
        if found is None:
            return None
        rendered, secrets = found
        observed = Observed(
            parent=parent.live,
            children=ObservedChildren(objects={}, own=(), kinds=self._kinds(rendered)),
            parents=ObservedParents(crds={parent.live.identity.group_kind: parent.folder.name}),
            settings=settings,
            confidential=is_confidential(parent, rendered),
        )
        steps = (*steps_of(observed, rendered.without_hooks), *steps_of(observed, rendered.finalizing))
        broken = (
            RenderProblem(f"{step.identity} {step.reason}", step.location)
            for step in redacted_steps(steps, secrets)
            if step.problem in _DEFINITE
        )
        errors = (problem for problem in rendered.problems if not problem.outdated)
        return tuple(str(problem) for problem in (*errors, *broken))

    def _kinds(self, rendered: Rendered) -> dict[GroupKind, KindState]:
        """The kinds of the manifests that the cluster serves."""
        lookups = self._operator.controllers.lookups
        return {
            kind: KindState(namespaced=namespaced, synced=True)
            for kind in rendered_kinds(rendered)
            if (namespaced := lookups.namespaced(kind)) is not None
        }

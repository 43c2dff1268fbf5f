"""Judges a parent before the API server stores it: do its templates render, and do the manifests follow the rules?

Promises:
- A judgement leaves no trace: the operator writes, watches and remembers nothing for it, and records no Event. A dry
  run is judged like any other request.
- The operator refuses a parent only for an error of a template, or for a manifest that breaks a rule in any cluster. It
  allows a parent whose manifests wait, even for a lookup that the caches can't answer or a kind that the cluster
  doesn't serve.
- If a folder doesn't load, no parent is refused.
- Problems hold no content of the Secrets that the templates read.
- If the parent's account may not read what the templates look up, the parent is allowed, so that data that the account
  may not read never influences the answer.
- Children that this process doesn't know do not count as missing. If the templates read children, a parent that the
  process never reconciled (it just started, or another shard reconciles the parent) is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Rendered, RenderProblem
from ssa_operator.operator.admission.rules import AdmissionRequest, is_judged, new_problems
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.child import FailureReason
from ssa_operator.reconcile.impersonation import refusal
from ssa_operator.reconcile.observe import is_confidential, make_observed
from ssa_operator.reconcile.observed import ObservedChildren
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.plan import steps_of
from ssa_operator.reconcile.renderer import render_unstored
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.watched_children import named_objects, rendered_kinds

_DEFINITE = frozenset({FailureReason.INVALID_MANIFEST, FailureReason.DEPENDENCY_CYCLE})
"""The refusals of a plan that only a change of the parent or its templates can end."""


class ParentReview:
    """Judges requests by the templates and caches of a running operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    async def problems(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Why the parent of a request is refused, empty if it is allowed. Raises ApiError."""
        parents = self._parents(request)
        if parents is None or request.object is None or not is_judged(request):
            return ()
        return await self._new_problems(parents, request, request.object)

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
        """The problems of the parent, None if they can't be judged. Raises ApiError."""
        # A new object has no resourceVersion yet, and templates may read it.
        metadata = {"resourceVersion": "0", **body["metadata"]}
        parent = parents.parent(LiveObject.of({**body, "metadata": metadata}))
        settings, impersonate = parent.folder.settings, self._operator.options.impersonate
        if parent.folder.templates is None:
            return None
        if refusal(impersonate, parent.live.identity, cluster_scope=settings.cluster_scope):
            return None
        known = is_new or parents.state(parent.live).reconciled_before
        found = await render_unstored(self._operator.shared.cluster, parent, children_known=known)
        if found is None:
            return None
        rendered, secrets = found
        children = ObservedChildren(objects={}, own=(), kinds=self._kinds(rendered))
        confidential = is_confidential(parent, rendered)
        observed = make_observed(parent.live, parent.folder, rendered, children, confidential=confidential)
        steps = (*steps_of(observed, rendered.without_hooks), *steps_of(observed, rendered.finalizing))
        broken = (
            RenderProblem(f"{step.identity} {step.reason}", step.location)
            for step in redacted_outcomes(steps, secrets)
            if step.problem in _DEFINITE
        )
        errors = (problem for problem in rendered.problems if not problem.outdated)
        return tuple(str(problem) for problem in (*errors, *broken))

    def _kinds(self, rendered: Rendered) -> dict[GroupKind, KindState]:
        """The kinds of the manifests that the cluster serves."""
        lookups = self._operator.controllers.lookups
        return {
            kind: KindState(namespaced=namespaced, synced=True)
            for kind in rendered_kinds(named_objects(rendered))
            if (namespaced := lookups.namespaced(kind)) is not None
        }

"""Publishing a report: events, and the parent's status.

Promises:
- A status is written only when it differs, and never to a parent that was made again meanwhile. One that the API
  server refuses is told as an event.
- One that is put off is written as it was reported last.
- Where somebody else rewrites it each time, the report says so, and the pauses grow.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.watches.parent_cache import Memory, Parent
from ssa_operator.core.objects.crd_schema import MISFIT, declared
from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.objects.status_diff import differs
from ssa_operator.core.policies.backoff import earliest
from ssa_operator.core.policies.field_conflicts import ConflictPolicy
from ssa_operator.core.policies.status_conflicts import conflict_message
from ssa_operator.core.status.events import events, status_refused, status_undeclared
from ssa_operator.core.status.report import Report, with_notice
from ssa_operator.kube.api.errors import ApiError


class Publisher:
    """Says what passes found. `tolerance` is when a rewritten status becomes a fight."""

    def __init__(self, cluster: ClusterAccess, conflict_policy: ConflictPolicy) -> None:
        self._cluster = cluster
        self._tolerance = conflict_policy

    async def publish(self, subject: Parent, memory: Memory, report: Report, now: float, *, later: bool) -> Report:
        """Tell the report and write the status, or with `later` leave that to `write_status`. `now` is in seconds since
        the epoch.

        Raises ApiError where the status can't be written.
        """
        report = with_notice(
            report, conflict_message(memory.conflicts.look_at_status(subject.parent, now, self._tolerance))
        )
        self.tell(subject, memory, report)
        memory.report = report
        status = declared(report.status, subject.status_schema)
        if status is MISFIT or not (subject.writes_status and differs(subject.parent, status)):
            memory.conflicts.status_stands(now)
        elif not memory.conflicts.status_held:
            memory.unwritten = status
            if not later:
                await self.write_status(subject, memory, now)
        memory.report = replace(report, again_at=earliest(report.again_at, memory.conflicts.again_at()))
        return memory.report

    async def write_status(self, subject: Parent, memory: Memory, now: float) -> float | None:
        """Write the status that is `unwritten`; returns when somebody who rewrites it has to be looked at again.

        Raises ApiError where it can't be written.
        """
        parent, status = subject.parent, memory.unwritten
        assert status is not None
        body = {
            "apiVersion": subject.resource.api_version,
            "kind": subject.resource.kind,
            # The resourceVersion keeps this status from a parent that was made again under the same name: at /status,
            # a wrong uid is not refused.
            "metadata": {"name": parent.identity.name, "resourceVersion": parent.resource_version},
            "status": status,
        }
        namespace, name = parent.identity.namespace, parent.identity.name
        try:
            with subject.cache.writing(namespace, name):
                applied = await self._cluster.client.apply(
                    subject.resource, namespace, name, encode(body), subresource="status", redactor=memory.redactor
                )
                subject.cache.written(applied.live)
        except ApiError as error:
            if error.terminal and not error.not_found:
                self._cluster.recorder.tell(parent, (status_refused(memory.redactor.redact(str(error))),))
            raise
        memory.unwritten = None
        memory.conflicts.status_written(status, applied.live, now)
        return memory.conflicts.again_at()

    def tell(self, subject: Parent, memory: Memory, report: Report) -> None:
        """Write down as events what is new in the report."""
        told = events(memory.report, subject.parent, report, shown=subject.shows_conditions)
        if memory.report is None and subject.unreported:
            told = (status_undeclared(subject.unreported), *told)
        self._cluster.recorder.tell(subject.parent, told)

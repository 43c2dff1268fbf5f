"""Finds what of a new template set has to be confirmed, before a rollout brings it to the first parent: what it would
delete or recreate, and the shared objects that it changes.

Promises:
- Nothing is written: each apply and each deletion is a dry run.
- The plan shares nothing with the running operator, so that no claim, lookup or generated value of it changes.
- What is no longer rendered counts, also while something else of the parent waits, fails or can't be read, and of
  suspended parents, too. A parent that can't be planned counts as one object that could be deleted. A shared object
  counts if all of its owners give it up.
- If the API server doesn't answer, the plan fails, and the rollout waits.
- Parents are planned one after another, because an object belongs to the first parent that renders it. The dry runs of
  several parents are sent in parallel.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.client import DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import Credentials
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.messages import counted
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Planned, Preview, synced_informers
from ssa_operator.operator.rollouts.requests import RolloutUnavailableError
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.prune.deletions import deletions
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources

log = logging.getLogger("ssa_operator")

PARALLEL_PARENTS = 8
"""Parents whose dry runs are sent in parallel: few, because the operator goes on reconciling."""

_NAMED = 5
"""Objects that the description names."""


async def planned_deletions(
    credentials: Credentials, options: Options, folder: Folder, uids: Collection[str], limit: int
) -> str:
    """Why the set has to be confirmed before the parents with these uids get it, '' if it hasn't. `limit` is how many
    objects it may delete or recreate without that. Raises ApiError, CredentialsError and RolloutUnavailableError.
    """
    async with DryRunClient(credentials) as client:
        options, sources = replace(options, shard=None), Sources(folders={folder.name: folder})
        planning = _Planning()
        try:
            async with synced_informers(client, RESTMapper(client), options, sources=sources) as shared:
                if (running := shared.controllers.folders.get(folder.name)) is not None:
                    lives = [live for live in running if live.uid in uids and not live.deleting]
                    await planning.plan(Preview(client, shared), map(running.parent, lives))
        except ParentError as error:
            raise RolloutUnavailableError(str(error)) from error
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
    return planning.reason(limit)


class _Planning:
    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(PARALLEL_PARENTS)
        self.found: list[Identity] = []
        """What would be deleted or recreated."""
        self.changed_shares: set[Identity] = set()
        """Objects that several parents share, and that one of them renders in another form."""
        self._owners_left: dict[Identity, set[str]] = {}
        """The owners of each shared object that don't give it up, as far as that is planned."""
        self.parents = 0
        """Whose objects these are."""
        self.incomplete = 0
        """Those of them of which not all is rendered yet."""

    async def plan(self, preview: Preview, parents: Iterable[Parent]) -> None:
        """Add what reconciles of these parents would delete or recreate. Raises ExceptionGroup."""
        async with asyncio.TaskGroup() as group:
            for parent in parents:
                await self._slots.acquire()
                try:
                    planned = await preview.plan(parent)
                except ApiError as error:
                    self._slots.release()
                    self._count_unknown(parent, error)
                    continue
                group.create_task(self._dry_run(preview, planned))

    async def _dry_run(self, preview: Preview, planned: Planned) -> None:
        plan = planned.plan
        try:
            outcomes = await preview.try_steps(planned)
        except ApiError as error:
            self._count_unknown(planned.parent, error)
            return
        finally:
            self._slots.release()
        lost = {*deletions(plan, outcomes), *self._without_owners(plan)}
        self.changed_shares |= {step.identity for step in plan.steps if step.vote}
        self.found += lost
        self.parents += bool(lost)
        self.incomplete += bool(lost) and not plan.rendered.complete

    def _count_unknown(self, parent: Parent, error: ApiError) -> None:
        """Count a parent whose children can't be planned. Raises an error that may pass."""
        if not error.terminal:
            raise error
        log.debug("%s: what a new revision would delete is not known: %s", parent.live.identity, error)
        self.found.append(parent.live.identity)
        self.parents += 1
        self.incomplete += 1

    def _without_owners(self, plan: Plan) -> Iterable[Identity]:
        """The shared objects that have no owner any more once this parent gives them up, too."""
        for step in plan.unrendered:
            if step.live is not None and step.live.shared is not None:
                left = self._owners_left.setdefault(step.identity, set(step.live.shared.owners))
                left.discard(plan.observed.parent.uid)
                if not left:
                    yield step.identity

    def reason(self, limit: int) -> str:
        """Why the set has to be confirmed, '' if it hasn't."""
        why = []
        if len(self.found) > limit:
            unknown = f"; {self.incomplete} of them wait or fail, so this is the worst case" if self.incomplete else ""
            of = f"{counted(len(self.found), 'object')} of {counted(self.parents, 'parent')}{unknown}"
            why.append(f"it would delete or recreate {of}: {_named(self.found)}")
        if self.changed_shares:
            why.append(
                f"it changes {_named(self.changed_shares)}, which several parents share: the first one would wait for "
                "all others, and stop the rollout; give it another name, or change it without waves"
            )
        return f"{'; '.join(why)}; `rollout resume` confirms that" if why else ""


def _named(found: Collection[Identity]) -> str:
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(map(str, sorted(found)[:_NAMED])) + more

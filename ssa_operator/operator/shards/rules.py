"""Decides from the Leases of shards which shards run, as each of them sees the others.

Promises:
- A shard runs while its Lease changes. That is judged by locally observed change: wall clocks are never compared.
- While the Leases can't be read, no shard counts as dead.
- A shard that stops in order releases its Lease, and counts as stopped at once.
- A gap or an overlap that is shorter than the grace period is part of a rollout, and no problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.shards import Coverage, Shard, ShardError, coverage
from ssa_operator.operator.permissions.operator_needs import LEASE, PermissionNeed, lease_needs, needs

SHARD_LABEL = f"{PREFIX}shard"
"""The label of a Lease with the shard of its holder: `3-of-4`."""

_LABEL = re.compile(r"(\d{1,3})-of-(\d{1,3})", re.ASCII)


def lease_name(index: int) -> str:
    """The name of the Lease of the shard with that index. Like the name of a pod of a StatefulSet, it has no N."""
    return f"{LEASE}-shard-{index}"


def shard_lease_needs(namespace: str, indices: Iterable[int]) -> tuple[PermissionNeed, ...]:
    """The permissions that the shards with these indices need in the operator's namespace."""
    names = tuple(map(lease_name, indices))
    leases = partial(needs, "the Leases of shards", "coordination.k8s.io", "leases", namespaces=(namespace,))
    # RBAC can't restrict a create by POST, or a list of several objects, to names.
    return leases(("create", "list")) + leases(("get", "watch", "update"), names=names)


def own_lease_needs(namespace: str, shard: Shard | None, *, elects: bool) -> tuple[PermissionNeed, ...]:
    """The permissions for the Leases of one process in the operator's namespace."""
    if shard is not None:  # its replicas elect their leader by the Lease of the shard
        return shard_lease_needs(namespace, (shard.index,))
    return lease_needs(namespace) if elects else ()


def shard_label(shard: Shard) -> str:
    """The value of the label."""
    return f"{shard.index}-of-{shard.count}"


def read_shard_label(value: str) -> Shard | None:
    """The shard of a label, None if it is malformed."""
    match = _LABEL.fullmatch(value)
    try:
        return Shard(int(match[1]), int(match[2])) if match is not None else None
    except ShardError:
        return None


class ShardLease(Struct, frozen=True, kw_only=True):
    """The Lease of a shard as it was listed."""

    name: str
    shard: Shard
    holder: str
    """'' if it was released."""
    duration: float
    """For how many seconds its holder counts as running after a renewal."""
    version: tuple[str, str]
    """The uid and the resourceVersion, which change with each renewal."""


class _Seen(Struct, frozen=True, kw_only=True):
    lease: ShardLease
    changed_at: float


class ShardView(Struct, frozen=True, kw_only=True):
    """What one shard knows of all shards. Times are seconds on a monotonic clock of the process."""

    shard: Shard
    """The observing shard."""
    runs: bool = True
    """Whether the observing shard is known to run. Otherwise its own Lease shows it, because another replica may lead
    it.
    """
    grace: float
    """For how many seconds a gap or an overlap may last."""
    leases: Mapping[str, _Seen] = field(default_factory=dict)
    observed_at: float | None = None
    """When the Leases were last listed."""
    problem: str = ""
    """The problem with the ranges of the running shards, '' if there is none."""
    problem_since: float = 0.0

    def running(self, now: float) -> tuple[Shard, ...]:
        """The shards that run."""
        return tuple(seen.lease.shard for _, seen in sorted(self.leases.items()) if _is_running(seen, now))

    def up(self, now: float) -> dict[int, bool]:
        """Whether each of the N shards runs, by index."""
        running = self._all_running(now)
        return {index: Shard(index, self.shard.count) in running for index in range(self.shard.count)}

    def coverage(self, now: float) -> Coverage:
        """The gaps and overlaps of the running shards."""
        return coverage(self._all_running(now))

    def _all_running(self, now: float) -> set[Shard]:
        return {*self.running(now), *((self.shard,) if self.runs else ())}

    def lasting_problem(self, now: float) -> str | None:
        """The gaps and overlaps that lasted longer than the grace period, None if there are none."""
        return self.problem if now - self.problem_since >= self.grace else None


def observe_leases(view: ShardView, listed: Iterable[ShardLease], now: float) -> ShardView:
    """The view after the Leases were listed."""
    # This process could not see renewals, so all Leases count as renewed now.
    blind = view.observed_at is None or now - view.observed_at > view.grace / 2
    leases = {}
    for lease in listed:
        before = view.leases.get(lease.name)
        unchanged = before is not None and before.lease.version == lease.version and not blind
        leases[lease.name] = _Seen(lease=lease, changed_at=before.changed_at if before and unchanged else now)
    view = replace(view, leases=leases, observed_at=now)
    problem = view.coverage(now).text
    return view if problem == view.problem else replace(view, problem=problem, problem_since=now)


def lost_shards(before: ShardView, after: ShardView, now: float) -> tuple[ShardLease, ...]:
    """The Leases whose holder ran and does not run any more, without having released it."""
    lost = []
    for name, seen in before.leases.items():
        current = after.leases.get(name)
        was_running = before.observed_at is not None and _is_running(seen, before.observed_at)
        if was_running and (current is None or (current.lease.holder and not _is_running(current, now))):
            lost.append(seen.lease)
    return tuple(lost)


def _is_running(seen: _Seen, now: float) -> bool:
    return bool(seen.lease.holder) and now < seen.changed_at + seen.lease.duration

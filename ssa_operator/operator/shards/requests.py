"""Renews the Lease of this shard as its heartbeat, and reads those of the others to see which shards run.

Promises:
- A shard renews its Lease over connections of its own, so that a mass of applies delays no heartbeat. A Lease that
  can't be written or listed stops no reconcile.
- The log names a shard that died, and buckets that no shard or several shards reconcile, each only once.
- A shard that stops in order releases its Lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.api.leases import LEASES, LeaseAccess
from ssa_operator.kube.auth.credentials import Credentials, CredentialsError
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.manifest import MANAGED_BY_LABEL
from ssa_operator.objects.shards import Shard
from ssa_operator.operator.leadership.requests import Leadership, LeadershipLost
from ssa_operator.operator.leadership.rules import LeaseTiming
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.shards.rules import (
    SHARD_LABEL,
    ShardLease,
    ShardView,
    lease_name,
    lost_shards,
    observe_leases,
    read_shard_label,
    shard_label,
)

log = logging.getLogger("ssa_operator")

TIMING = LeaseTiming(retry_period=5.0)
"""The retry period is also the time between two lists of all Leases."""

RELEASE_TIMEOUT = 2.0
"""Seconds for the release of the Lease when the operator stops."""


def shard_lease_labels(shard: Shard) -> Mapping[str, str]:
    """The labels of the Lease of a shard."""
    return {MANAGED_BY_LABEL: MANAGER, SHARD_LABEL: shard_label(shard)}


class ShardLeases:
    """Runs until cancelled. `heartbeat`: whether this process renews the Lease of its shard; its leader election may do
    that instead.
    """

    def __init__(
        self,
        credentials: Credentials,
        namespace: str,
        shard: Shard,
        metrics: Metrics,
        *,
        heartbeat: bool = True,
        timing: LeaseTiming = TIMING,
    ) -> None:
        self._credentials = credentials
        self._namespace = namespace
        self._shard = shard
        self._metrics = metrics
        self._renews = heartbeat
        self._heartbeat: Leadership | None = None
        self._timing = timing
        self._view = ShardView(shard=shard, grace=timing.lease_duration, runs=heartbeat)
        self._problems: dict[str, str | None] = {}
        self._waits_since: float | None = None

    async def run(self) -> None:
        """Renew the Lease and watch the others, until cancelled."""
        log.info("shard %s reconciles the parents of the buckets %s", self._shard, self._shard.range_text)
        async with Client(self._credentials) as client, asyncio.TaskGroup() as group:
            client.observer = self._metrics
            group.create_task(self._follow(client), name="follow the Leases of shards")
            if self._renews:
                group.create_task(self._renew(client), name="renew the Lease of the shard")

    def measure(self) -> None:
        """Set the gauges."""
        if self._view.observed_at is None:
            return
        now = SYSTEM.monotonic()
        coverage = self._view.coverage(now)
        for index, is_up in self._view.up(now).items():
            self._metrics.shard_up.labels(str(index)).set(is_up)
        self._metrics.shard_buckets.labels("uncovered").set(sum(map(len, coverage.gaps)))
        self._metrics.shard_buckets.labels("overlapping").set(sum(map(len, coverage.overlaps)))

    async def _renew(self, client: Client) -> None:
        """Hold the Lease as a leader holds its own, even if another process writes it."""
        name = lease_name(self._shard.index)
        labels = shard_lease_labels(self._shard)
        access = LeaseAccess(client, self._namespace, name, timeout=self._timing.request_timeout, labels=labels)
        self._heartbeat = heartbeat = Leadership(
            access,
            WriteFence(),
            self._timing,
            purpose=f"heartbeat of shard {self._shard}",
            level=logging.DEBUG,
        )
        try:
            while True:
                with contextlib.suppress(LeadershipLost):
                    await heartbeat.run()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_TIMEOUT):
                    await heartbeat.release()

    async def _follow(self, client: Client) -> None:
        while True:
            try:
                listed, _ = await client.list(LEASES, self._namespace, SHARD_LABEL)
                self._observe([lease for live in listed if (lease := _shard_lease(live)) is not None])
                self._report("list", "")
            except (ApiError, CredentialsError) as error:
                self._report("list", f"whether the other shards run is unknown: {error}")
            await SYSTEM.sleep(self._timing.retry_period)

    def _observe(self, listed: list[ShardLease]) -> None:
        now = SYSTEM.monotonic()
        before, self._view = self._view, observe_leases(self._view, listed, now)
        for lease in lost_shards(before, self._view, now):
            if lease.name != lease_name(self._shard.index):
                log.warning(
                    "shard %s (buckets %s) is gone: %s no longer renews Lease %s",
                    lease.shard,
                    lease.shard.range_text,
                    lease.holder,
                    lease.name,
                )
        self._report("ranges", self._view.lasting_problem(now))
        self._report("holder", self._other_holder(now))

    def _other_holder(self, now: float) -> str | None:
        """That another process holds the Lease of this shard, for longer than one that was killed."""
        heartbeat = self._heartbeat
        if heartbeat is None or heartbeat.leader in ("", heartbeat.identity):
            self._waits_since = None
            return None
        self._waits_since = now if self._waits_since is None else self._waits_since
        if now - self._waits_since <= 2 * self._timing.lease_duration:
            return None
        return (
            f"another process is shard {self._shard.index}, too: {heartbeat.leader} renews {heartbeat.access}; "
            "run each shard once, as a StatefulSet does"
        )

    def _report(self, about: str, problem: str | None) -> None:
        """Log a problem when it begins."""
        if problem and problem != self._problems.get(about):
            log.warning("%s", problem)
        self._problems[about] = problem


def _shard_lease(live: LiveObject) -> ShardLease | None:
    """A listed Lease, None if it is not that of a shard."""
    shard = read_shard_label(live.metadata.labels.get(SHARD_LABEL, ""))
    spec: Mapping[str, Any] = live.body.get("spec") or {}
    if shard is None:
        return None
    return ShardLease(
        name=live.identity.name,
        shard=shard,
        holder=spec.get("holderIdentity") or "",
        duration=float(spec.get("leaseDurationSeconds") or 0),
        version=(live.uid, live.resource_version),
    )

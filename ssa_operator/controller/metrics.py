"""The Prometheus metrics of a running operator.

Promises:
- Every name begins with `ssa_operator_`. Times are in seconds.
- Label values are folders, resources, namespaces, kinds and fixed words, never names of objects.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from ssa_operator.kube.watch.reflector import Reflector

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one operator, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.reconciles = Counter(
            "ssa_operator_reconcile_total",
            "Reconciles by result: ok, waiting, failed, error.",
            ("folder", "result"),
            registry=self._registry,
        )
        self.reconcile_seconds = Histogram(
            "ssa_operator_reconcile_duration_seconds",
            "Duration of a reconcile.",
            ("folder",),
            buckets=_FAST,
            registry=self._registry,
        )
        self.children = Counter(
            "ssa_operator_children_total",
            "Children by result of a reconcile: created, configured, unchanged, recreated, pruned, waiting, failed.",
            ("folder", "kind", "result"),
            registry=self._registry,
        )
        self.events = Counter(
            "ssa_operator_events_total",
            "Events on parents by result: written, dropped (too many), failed.",
            ("result",),
            registry=self._registry,
        )
        self.queue_depth = Gauge(
            "ssa_operator_workqueue_depth", "Parents that wait for a worker.", registry=self._registry
        )
        self.queue_seconds = Histogram(
            "ssa_operator_workqueue_queue_duration_seconds",
            "Time for which a parent waits for a worker, from the moment at which it is added or due.",
            buckets=_FAST,
            registry=self._registry,
        )
        self.queue_unfinished = Gauge(
            "ssa_operator_workqueue_unfinished_work_seconds",
            "Time spent so far on all parents that workers reconcile now.",
            registry=self._registry,
        )
        self.queue_longest_running = Gauge(
            "ssa_operator_workqueue_longest_running_seconds",
            "Time spent so far on the parent that a worker has reconciled for the longest time.",
            registry=self._registry,
        )
        self.queue_retries = Counter(
            "ssa_operator_workqueue_retries_total",
            "Parents that were requeued after a failure, with backoff.",
            registry=self._registry,
        )
        self.resync_lag = Gauge(
            "ssa_operator_resync_lag_seconds",
            "Delay of resyncs after their interval because of --tick-rate.",
            registry=self._registry,
        )
        self.parents = Gauge(
            "ssa_operator_parents", "Parents by template folder.", ("folder",), registry=self._registry
        )
        self.ready = Gauge(
            "ssa_operator_parents_ready", "Parents that are Ready.", ("folder",), registry=self._registry
        )
        self.watch_restarts = Gauge(
            "ssa_operator_watch_restarts",
            "Restarts of a watch.",
            ("resource", "namespace"),
            registry=self._registry,
        )
        self.watch_age = Gauge(
            "ssa_operator_watch_age_seconds",
            "Time since a watch last received anything from the API server.",
            ("resource", "namespace"),
            registry=self._registry,
        )
        self.leader = Gauge(
            "ssa_operator_leader_election_master_status",
            "1 if this replica leads by the Lease of this name, 0 if it is a standby. Absent without leader election.",
            ("name",),
            registry=self._registry,
        )
        self.templates_loaded = Gauge(
            "ssa_operator_templates_loaded",
            "1 if the folder's current templates are in use, 0 if they don't load and the last good ones are in use.",
            ("folder",),
            registry=self._registry,
        )

    def set_watches(self, reflectors: Iterable[Reflector], now: float) -> None:
        """Set the metrics of watches, at `now` by the reflectors' clock. Watches of the same resource and namespace
        (children, lookups) are one: their restarts are added, and their age is the greatest.
        """
        restarts: collections.Counter[tuple[str, str]] = collections.Counter()
        ages: dict[tuple[str, str], float] = {}
        for reflector in reflectors:
            labels = (reflector.resource.name, reflector.scope.redactor.redact(reflector.scope.namespace))
            restarts[labels] += max(reflector.restarts, 0)
            if reflector.last_event is not None:
                ages[labels] = max(ages.get(labels, 0.0), now - reflector.last_event)
        self.watch_restarts.clear()
        self.watch_age.clear()
        for labels, count in restarts.items():
            self.watch_restarts.labels(*labels).set(count)
        for labels, age in ages.items():
            self.watch_age.labels(*labels).set(age)

    def forget(self, folder: str) -> None:
        """Remove the gauges of a folder that has stopped."""
        for gauge in (self.parents, self.ready, self.templates_loaded):
            with contextlib.suppress(KeyError):
                gauge.remove(folder)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

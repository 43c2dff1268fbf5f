"""What Prometheus is told about a running operator.

Promises:
- Names begin with `ssa_operator_`; times are seconds. Labels are folders, kinds and fixed words only, never names of
  objects.
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
            "Time of one reconcile.",
            ("folder",),
            buckets=_FAST,
            registry=self._registry,
        )
        self.children = Counter(
            "ssa_operator_children_total",
            "Children by what a reconcile did with them.",
            ("folder", "kind", "result"),
            registry=self._registry,
        )
        self.events = Counter(
            "ssa_operator_events_total",
            "Events by result: written, dropped (too many), failed.",
            ("result",),
            registry=self._registry,
        )
        self.queue_depth = Gauge(
            "ssa_operator_workqueue_depth", "Parents that wait for a worker.", registry=self._registry
        )
        self.queue_seconds = Histogram(
            "ssa_operator_workqueue_queue_duration_seconds",
            "Time that a parent waits for a worker, from the moment at which it is added or due.",
            buckets=_FAST,
            registry=self._registry,
        )
        self.queue_unfinished = Gauge(
            "ssa_operator_workqueue_unfinished_work_seconds",
            "Time spent so far on all parents that workers have in hand.",
            registry=self._registry,
        )
        self.queue_longest_running = Gauge(
            "ssa_operator_workqueue_longest_running_seconds",
            "Time spent so far on the parent that a worker has had in hand for the longest time.",
            registry=self._registry,
        )
        self.queue_retries = Counter(
            "ssa_operator_workqueue_retries_total",
            "Parents that were added again after a failure, with backoff.",
            registry=self._registry,
        )
        self.resync_lag = Gauge(
            "ssa_operator_resync_lag_seconds",
            "By how much resyncs are later than their interval because of --tick-rate.",
            registry=self._registry,
        )
        self.parents = Gauge("ssa_operator_parents", "Parents by folder.", ("folder",), registry=self._registry)
        self.ready = Gauge(
            "ssa_operator_parents_ready", "Parents that are Ready.", ("folder",), registry=self._registry
        )
        self.watch_restarts = Gauge(
            "ssa_operator_watch_restarts",
            "How often a watch had to be opened again.",
            ("resource", "namespace"),
            registry=self._registry,
        )
        self.watch_age = Gauge(
            "ssa_operator_watch_age_seconds",
            "Time since a watch last heard from the API server.",
            ("resource", "namespace"),
            registry=self._registry,
        )
        self.templates_loaded = Gauge(
            "ssa_operator_templates_loaded",
            "1 where the folder's files are in use, 0 where the last good set is.",
            ("folder",),
            registry=self._registry,
        )

    def watch(self, reflectors: Iterable[Reflector], now: float) -> None:
        """Take how the watches are, at `now` by the reflectors' clock. Several of one resource and namespace (children,
        lookups) count as one, as quiet as its quietest.
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
        """A folder has stopped: its gauges say nothing any more."""
        for gauge in (self.parents, self.ready, self.templates_loaded):
            with contextlib.suppress(KeyError):
                gauge.remove(folder)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

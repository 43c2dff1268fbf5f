"""The Prometheus metrics of a running operator.

Promises:
- Every name begins with `ssa_operator_`, except the usual `process_` ones. Times are in seconds.
- The names are those of client-go and controller-runtime, if these have one.
- Label values are folders, resources, namespaces, kinds and fixed words. Only a few parents that hold up the operator
  have their names as labels. A template may take a kind from a parent: beyond KINDS_LIMIT kinds, the label is
  `<other>`.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics import MetricWrapperBase

from ssa_operator import __version__
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.secret_fields import HIDDEN

NO_ANSWER = "<error>"
"""The label `code` of a request without an answer, as in client-go."""

KINDS_LIMIT = 500
"""Kinds of children that labels name."""

OTHER_KIND = "<other>"

SERIES_LIMIT = 1024
"""Series that are found without a look at their labels."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

_Metric = TypeVar("_Metric", bound=MetricWrapperBase)

_Seconds = partial(Histogram, buckets=_SECONDS)


class Definition(NamedTuple):
    """What a metric is, for the reference."""

    name: str
    type: str
    labels: tuple[str, ...]
    documentation: str


class Metrics:
    """The metrics of one operator, in a registry of their own. Observes the requests of its client."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()

        def add(kind: Callable[..., _Metric], name: str, meaning: str) -> _Metric:
            """A metric of `name{label,label}`."""
            name, _, labels = name.rstrip("}").partition("{")
            return kind(name, meaning, labels.split(",") if labels else (), registry=registry)

        self.reconciles = add(
            Counter, "ssa_operator_reconcile_total{folder,result}", "Reconciles by result: ok, waiting, failed, error."
        )
        self.reconcile_seconds = add(
            _Seconds, "ssa_operator_reconcile_duration_seconds{folder}", "Duration of a reconcile."
        )
        self.render_seconds = add(
            _Seconds,
            "ssa_operator_render_duration_seconds{folder}",
            "Duration of one render of a folder for one parent.",
        )
        self.active_workers = add(Gauge, "ssa_operator_active_workers", "Workers that reconcile a parent now.")
        self.max_concurrent_reconciles = add(
            Gauge, "ssa_operator_max_concurrent_reconciles", "Number of workers (--workers)."
        )
        self.child_failures = add(
            Counter,
            "ssa_operator_child_failures_total{folder,kind,reason}",
            "Children that a reconcile did not apply, by reason: DependencyCycle, InvalidManifest, Conflict (including"
            " a field that another manager keeps changing), ApplyFailed.",
        )
        self.children = add(
            Counter,
            "ssa_operator_children_total{folder,kind,result}",
            "Children by result of a reconcile: created, configured, unchanged, recreated, pruned, waiting, failed.",
        )
        self.events = add(
            Counter,
            "ssa_operator_events_total{result}",
            "Events on parents by result: written, dropped (too many), failed.",
        )
        self.queue_adds = add(Counter, "ssa_operator_workqueue_adds_total", "Causes for which parents were queued.")
        self.queue_depth = add(Gauge, "ssa_operator_workqueue_depth", "Parents that wait for a worker.")
        self.queue_seconds = add(
            _Seconds,
            "ssa_operator_workqueue_queue_duration_seconds",
            "Time for which a parent waits for a worker, from the moment at which it is added or due.",
        )
        self.queue_unfinished = add(
            Gauge,
            "ssa_operator_workqueue_unfinished_work_seconds",
            "Time spent so far on all parents that workers reconcile now.",
        )
        self.queue_longest_running = add(
            Gauge,
            "ssa_operator_workqueue_longest_running_seconds",
            "Time spent so far on the parent that a worker has reconciled for the longest time.",
        )
        self.queue_retries = add(
            Counter, "ssa_operator_workqueue_retries_total", "Parents that were requeued after a failure, with backoff."
        )
        self.resync_lag = add(
            Gauge, "ssa_operator_resync_lag_seconds", "Delay of resyncs after their interval because of --resync-rate."
        )
        self.parents = add(Gauge, "ssa_operator_parents{folder}", "Parents by template folder.")
        self.ready = add(Gauge, "ssa_operator_parents_ready{folder}", "Parents that are Ready.")
        self.watch_restarts = add(Gauge, "ssa_operator_watch_restarts{resource,namespace}", "Restarts of a watch.")
        self.watch_age = add(
            Gauge,
            "ssa_operator_watch_age_seconds{resource,namespace}",
            "Time since a watch last received anything from the API server.",
        )
        self.leader = add(
            Gauge,
            "ssa_operator_leader_election_master_status{name}",
            "1 if this replica leads by the Lease of this name, 0 if it is a standby. Absent without leader election.",
        )
        self.shard_up = add(
            Gauge,
            "ssa_operator_shard_up{shard}",
            "1 if the shard renews its Lease, 0 if it does not. Each shard reports all of them.",
        )
        self.shard_buckets = add(
            Gauge,
            "ssa_operator_shard_buckets{state}",
            "Of the 256 buckets of parents, those that no running shard reconciles (uncovered) or several do"
            " (overlapping).",
        )
        self.watch_synced = add(
            Gauge,
            "ssa_operator_watch_synced{resource,namespace}",
            "1 if the objects of a watch have been listed, 0 if not yet or if the resource is missing or forbidden.",
        )
        self.lists = add(
            Counter,
            "ssa_operator_reflector_lists_total{resource}",
            "Complete lists of a resource by watches: the first one of each watch, and those after a gap.",
        )
        self.cache_objects = add(
            Gauge, "ssa_operator_cache_objects{resource}", "Objects that the caches of watches hold."
        )
        self.partial_objects = add(
            Gauge,
            "ssa_operator_cache_partial_objects{resource}",
            "Objects with the operator's label of which only metadata is kept, because no manifest, record or status of"
            " a parent names them.",
        )
        self.requests = add(
            Counter,
            "ssa_operator_rest_client_requests_total{verb,resource,code}",
            "Requests to the API server by verb (as in RBAC, and apply), resource ('' for discovery and others), and"
            f" HTTP code (`{NO_ANSWER}` without an answer).",
        )
        self.request_seconds = add(
            _Seconds,
            "ssa_operator_rest_client_request_duration_seconds{verb,resource}",
            "Duration of a request to the API server, without retries; of a watch, until it is opened.",
        )
        self.request_retries = add(
            Counter,
            "ssa_operator_rest_client_request_retries_total{verb,code}",
            "Requests that were sent again at once, by the code of the answer before.",
        )
        self.rate_limiter_seconds = add(
            _Seconds,
            "ssa_operator_rest_client_rate_limiter_duration_seconds",
            "Time for which a write waits because enough writes are under way. It grows after answers with code 429.",
        )
        self.loop_lag = add(
            _Seconds,
            "ssa_operator_event_loop_lag_seconds",
            "Delay with which a timer of the event loop runs: how long other work held the loop up.",
        )
        self.suspected_parents = add(
            Gauge,
            "ssa_operator_suspected_parents{folder,namespace,name}",
            "1 for a parent that is reconciled last and alone, because the process died while it was.",
        )
        self.templates_loaded = add(
            Gauge,
            "ssa_operator_templates_loaded{folder}",
            "1 if the folder's current templates are in use, 0 if they don't load or are gone and the last ones are.",
        )
        self.rollout_in_progress = add(
            Gauge,
            "ssa_operator_rollout_in_progress{folder}",
            "1 while a changed template set reaches the parents of the folder in waves. Absent without `rollout`.",
        )
        self.rollout_stopped = add(
            Gauge,
            "ssa_operator_rollout_stopped{folder}",
            "1 while no wave of the folder's rollout begins because parents are not Ready any more.",
        )
        self.rollout_parents = add(
            Gauge,
            "ssa_operator_rollout_parents{folder}",
            "Parents of this process that the newest rollout of the folder has reached.",
        )
        self.crd_applied = add(
            Gauge,
            "ssa_operator_crd_applied{crd}",
            "1 if a CRD of --install-crds is applied, 0 if the API server refuses it or its file can't be read. Absent"
            " without --install-crds and on a standby.",
        )
        self.build_info = add(Gauge, "ssa_operator_build_info{version}", "1, with the operator's version.")
        self.build_info.labels(__version__).set(1)
        self._process = ProcessCollector(registry=self._registry)
        # Finding a series by its labels takes longer than to count.
        self._series = lru_cache(maxsize=SERIES_LIMIT)(MetricWrapperBase.labels)
        self._request_series = lru_cache(maxsize=SERIES_LIMIT)(self._find_request_series)
        self._kinds: set[str] = set()

    def kind_label(self, kind: str) -> str:
        """The label `kind` of a child."""
        if kind not in self._kinds:
            if len(self._kinds) >= KINDS_LIMIT:
                return OTHER_KIND
            self._kinds.add(kind)
        return kind

    # RequestObserver.

    def answered(self, request: Request, code: int, seconds: float) -> None:
        answered, duration = self._request_series(request.verb, request.resource_name, code)
        answered.inc()
        duration.observe(seconds)

    def _find_request_series(self, verb: str, resource: str, code: int) -> tuple[Counter, Histogram]:
        answered = self.requests.labels(verb, resource, str(code) if code else NO_ANSWER)
        return answered, self.request_seconds.labels(verb, resource)

    def retried(self, request: Request, code: int) -> None:
        self.request_retries.labels(request.verb, str(code) if code else NO_ANSWER).inc()

    def limited(self, seconds: float) -> None:
        self.rate_limiter_seconds.observe(seconds)

    def event_ended(self, result: str) -> None:
        """An Event was `written`, `failed` or was `dropped`."""
        self._series(self.events, result).inc()

    def rendered(self, folder: str, seconds: float) -> None:
        """A render of the folder for a parent took this time."""
        self._series(self.render_seconds, folder).observe(seconds)

    def reconcile_ended(self, folder: str, seconds: float) -> None:
        """A reconcile of a parent of the folder took this time."""
        self._series(self.reconcile_seconds, folder).observe(seconds)

    def count_reconcile(self, folder: str, result: str) -> None:
        """A reconcile of a parent of the folder had this result."""
        self._series(self.reconciles, folder, result).inc()

    def count_child(self, folder: str, kind: str, result: str) -> None:
        """A reconcile had this result for a child of the kind."""
        self._series(self.children, folder, self.kind_label(kind), result).inc()

    def listed(self, resource_name: str) -> None:
        self.lists.labels(resource_name).inc()

    def set_watches(self, reflectors: Iterable[Reflector], now: float) -> None:
        """Set the metrics of watches, at `now` by the reflectors' clock. Watches of the same resource and namespace
        (children, lookups) are one: their restarts are added, and their age is the greatest.
        """
        restarts: collections.Counter[tuple[str, str]] = collections.Counter()
        ages: dict[tuple[str, str], float] = {}
        synced: dict[tuple[str, str], bool] = {}
        caches: dict[tuple[str, int], tuple[int, int]] = {}
        for reflector in reflectors:
            labels = (reflector.resource.name, HIDDEN if reflector.scope.hidden else reflector.scope.namespace)
            restarts[labels] += max(reflector.restarts, 0)
            synced[labels] = synced.get(labels, True) and reflector.synced.is_set()
            # The reflectors of several namespaces share one cache.
            caches[reflector.resource.name, id(reflector.cache)] = len(reflector.cache), reflector.cache.partial
            if reflector.last_event is not None:
                ages[labels] = max(ages.get(labels, 0.0), now - reflector.last_event)
        for gauge in (self.watch_restarts, self.watch_age, self.watch_synced, self.cache_objects, self.partial_objects):
            gauge.clear()
        for labels, is_synced in synced.items():
            self.watch_synced.labels(*labels).set(is_synced)
        for (resource, _), (objects, partials) in caches.items():
            self.cache_objects.labels(resource).inc(objects)
            self.partial_objects.labels(resource).inc(partials)
        for labels, count in restarts.items():
            self.watch_restarts.labels(*labels).set(count)
        for labels, age in ages.items():
            self.watch_age.labels(*labels).set(age)

    def set_crds(self, applied: Iterable[str], refused: Iterable[str]) -> None:
        """Set the metric of the CRDs that the operator installs, by their names."""
        self.crd_applied.clear()
        for value, names in ((1, applied), (0, refused)):
            for name in names:
                self.crd_applied.labels(name).set(value)

    def forget(self, folder: str) -> None:
        """Remove the gauges of a folder that has stopped."""
        for gauge in (self.parents, self.ready, self.templates_loaded):
            with contextlib.suppress(KeyError):
                gauge.remove(folder)
        self.forget_rollout(folder)

    def forget_rollout(self, folder: str) -> None:
        """Remove the gauges of a folder that has no rollouts any more."""
        for gauge in (self.rollout_in_progress, self.rollout_stopped, self.rollout_parents):
            with contextlib.suppress(KeyError):
                gauge.remove(folder)

    def definitions(self) -> Iterator[Definition]:
        """All metrics, in the order of their definition."""
        for metric in vars(self).values():
            if isinstance(metric, MetricWrapperBase):
                (family,) = metric.describe()
                yield _definition(family, metric._labelnames)  # noqa: SLF001 - no other way to read them
        for family in self._process.collect():
            yield _definition(family, ())

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


def _definition(family: Any, labels: Iterable[str]) -> Definition:
    suffix = "_total" if family.type == "counter" else ""
    return Definition(f"{family.name}{suffix}", family.type, tuple(labels), family.documentation)

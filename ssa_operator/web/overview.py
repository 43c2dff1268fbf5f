"""The overview: the template folders with the states of their parents, figures, and a page of parents.

Promises:
- The first parents are those that need a change. What a filter leaves out is counted.
- While the API server does not answer, the overview says so and since when, because what it shows is of then. The
  watches of the operator know it, so that it costs no request.
- A figure is the difference of two counters of the metrics, so that charts and `/metrics` agree.
- A folder that doesn't load is named with each problem, its file and line, and so is one whose CRD is refused, or that
  waits for its resource.
- Open pages that show the same share it, and making it takes a small part of the process's time, however many are open.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from prometheus_client.metrics import MetricWrapperBase

from ssa_operator import __version__
from ssa_operator.kube.watch.reflector import Reflector, ReflectorState
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.objects.scalars import timestamp
from ssa_operator.objects.source_location import location_data
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator import Operator
from ssa_operator.web.event_stream import pause_after
from ssa_operator.web.parent_rows import Filter, ParentRow, ParentRows
from ssa_operator.web.rollout_page import RolloutLine, rollout_line

INTERVAL = 10.0
"""Seconds between two samples."""

SAMPLES = 60


class Figures(Struct, frozen=True, kw_only=True):
    """Each has one number for each INTERVAL, the newest last."""

    reconciles: tuple[float, ...]
    """Reconciles a minute."""
    errors: tuple[float, ...]
    """Reconciles a minute that failed."""
    queue: tuple[int, ...]
    """Parents that wait to be reconciled."""


class FigureSamples:
    """Samples of the metrics of one operator."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._reconciles: deque[float] = deque(maxlen=SAMPLES)
        self._errors: deque[float] = deque(maxlen=SAMPLES)
        self._queue: deque[int] = deque(maxlen=SAMPLES)
        self.version = 0

    def take(self, metrics: Metrics, waiting: int) -> None:
        """Take one sample; `waiting` parents are in the work queue."""
        total = _sum(metrics.reconciles, ())
        failed = _sum(metrics.reconciles, ("failed", "error"))
        if self._before is not None:
            per_minute = 60 / INTERVAL
            self._reconciles.append(round((total - self._before[0]) * per_minute, 1))
            self._errors.append(round((failed - self._before[1]) * per_minute, 1))
        self._queue.append(waiting)
        self._before = total, failed
        self.version += 1

    def figures(self) -> Figures:
        """The figures of all samples."""
        return Figures(reconciles=tuple(self._reconciles), errors=tuple(self._errors), queue=tuple(self._queue))


def _sum(counter: MetricWrapperBase, results: Iterable[str]) -> float:
    """The sum of a counter over all folders, of these results or of all (())."""
    wanted = frozenset(results)
    return sum(
        sample.value
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and (not wanted or sample.labels.get("result") in wanted)
    )


class ApiServerAway(Struct, frozen=True, kw_only=True):
    """The API server does not answer."""

    since: str
    """The last contact (RFC 3339)."""
    problem: str
    """The error of a watch."""


class ApiContact:
    """Follows the watches of an operator. `now` is in seconds since 1970."""

    def __init__(self, operator: Operator, now: Callable[[], float]) -> None:
        self._operator = operator
        self._now = now
        self._last = now()

    def look(self) -> ApiServerAway | None:
        """What is known now, None if the API server answers."""
        reflectors = [*self._reflectors()]
        failing = [each for each in reflectors if each.state is ReflectorState.FAILING]
        if not failing or any(each.state is ReflectorState.WATCHING for each in reflectors):
            self._last = self._now()
            return None
        problem = next((each.problem for each in failing if each.problem), "")
        # Fewer failures than it takes for a problem are transient.
        return ApiServerAway(since=timestamp(self._last), problem=problem) if problem else None

    def _reflectors(self) -> Iterator[Reflector]:
        yield self._operator.controllers.crds.reflector
        for parents in self._operator.folders.values():
            yield from parents.reflectors


PAGE = 100
"""Parents of one page."""

MAX_PAGE = 500


class FolderRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One template folder."""

    kind: str = ""
    """The kind of its parents, '' while the cluster serves none."""
    parents: int = 0
    counts: Mapping[str, int] = {}
    """How many parents each group of states has."""
    digest: str = ""
    """Identifies the templates in use, '' without any."""
    loaded: str = ""
    """When these were loaded (RFC 3339)."""
    problems: tuple[Mapping[str, Any], ...] = ()
    """Why its templates don't load: `message`, and where one is at fault `file` and `line`."""
    crd: str = ""
    """Why its CRD is not the one of `--install-crds`, '' if it is."""
    waits: str = ""
    """Why none of its parents is reconciled."""
    rollout: RolloutLine | None = None
    """How far its rollout is, None without rollouts."""


class Overview(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that the page of the overview shows."""

    version: str
    """The version of the operator."""
    folders: Mapping[str, FolderRow]
    figures: Figures
    parents: int
    """All parents."""
    matching: int
    """Those that the filter selects."""
    suspended: int
    """All that are suspended."""
    conflicts: int
    """All with a child that others change, too."""
    offset: int
    """How many of these come before the first one of `items`."""
    items: Mapping[str, ParentRow]
    """The parents of this page, by their addresses below `/parents/`."""
    order: tuple[str, ...]
    """The keys of `items` in order."""
    problems: tuple[Mapping[str, Any], ...] = ()
    """The problems of templates that are no single folder's, as in `FolderRow`. Who may not see all folders sees none.
    """
    namespaces: tuple[str, ...] = ()
    """The namespaces with parents, at most NAMESPACES."""
    leader: bool | None = None
    """Whether this process leads, None without leader election."""
    holder: str = ""
    """The name of the replica that leads, '' without leader election or if none is known."""
    shard: str = ""
    """The shard of this process, as `--shard` has it."""
    away: ApiServerAway | None = None
    """Why the API server does not answer, None if it does."""


NAMESPACES = 200


def make_overview(
    operator: Operator,
    rows: ParentRows,
    figures: Figures,
    wanted: Filter,
    visible: Collection[str],
    *,
    offset: int,
    limit: int,
    away: ApiServerAway | None = None,
) -> Overview:
    """The overview with the page of the filter that begins at `offset`. Only the `visible` folders are shown."""
    found = rows.select(wanted, visible)
    items = {address(row): row for row in found[offset : offset + limit]}
    folders = _folders(operator, rows, visible)
    suspended, conflicts = rows.flagged(visible)
    options, templates = operator.options, operator.controllers.templates
    sees_all = len(folders) == len(templates.folders)
    return Overview(
        version=__version__,
        folders=folders,
        figures=figures,
        parents=sum(folder.parents for folder in folders.values()),
        matching=len(found),
        suspended=suspended,
        conflicts=conflicts,
        offset=offset,
        items=items,
        order=tuple(items),
        problems=tuple(map(problem_data, templates.loaded.problems)) if sees_all else (),
        namespaces=tuple(rows.namespaces(visible)[:NAMESPACES]),
        leader=operator.leadership.leads if operator.leadership is not None else None,
        holder=operator.leadership.leader if operator.leadership is not None else "",
        away=away,
        shard="" if options.shard is None else f"{options.shard.index}/{options.shard.count}",
    )


def address(row: ParentRow) -> str:
    """Where a parent is found below `/parents/`."""
    return "/".join(part for part in row.address if part)


def _folders(operator: Operator, rows: ParentRows, visible: Collection[str]) -> dict[str, FolderRow]:
    found, rollouts = {}, operator.rollouts
    for name, folder in sorted(operator.controllers.templates.folders.items()):
        if name not in visible:
            continue
        parents = operator.folders.get(name)
        counts = rows.counts(name)
        found[name] = FolderRow(
            kind="" if parents is None else parents.served.resource.kind,
            parents=sum(counts.values()),
            counts=dict(counts),
            digest=folder.digest[:12],
            loaded=loaded_at(operator, name),
            problems=tuple(map(problem_data, folder.problems)),
            crd=operator.controllers.refused_crds.get(name, ""),
            waits=operator.missing.get(name, ""),
            rollout=rollout_line(None if rollouts is None else rollouts.find(name), sum(counts.values())),
        )
    return found


def loaded_at(operator: Operator, folder: str) -> str:
    """When the templates in use of a folder were loaded (RFC 3339), '' without any."""
    seconds = operator.controllers.templates.loaded_at.get(folder)
    return "" if seconds is None else timestamp(seconds)


def problem_data(problem: RenderProblem) -> Mapping[str, Any]:
    """A problem of a template as JSON."""
    return {"message": problem.message} | location_data(problem.location)


class SharedOverviews:
    """The overviews of one version, which open pages share."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._version: object = None
        self._made: dict[Hashable, dict[str, Any]] = {}
        self._spent = self._next = 0.0

    def version(self, current: object) -> object:
        """The version that pages show now. The next one comes so late that making overviews takes a small part of the
        process's time.
        """
        now = self._clock()
        if current != self._version and now >= self._next:
            self._version, self._made = current, {}
            self._next, self._spent = now + pause_after(self._spent), 0.0
        return self._version

    def of(self, question: Hashable, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The answer to a question about the version."""
        if question not in self._made:
            started = self._clock()
            self._made[question] = make()
            self._spent += self._clock() - started
        return self._made[question]

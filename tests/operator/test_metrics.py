"""/metrics of a running operator, and the page of the reference that describes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ssa_operator.cli import reference
from ssa_operator.kube.api import request as calls
from ssa_operator.operator.metrics import KINDS_LIMIT, OTHER_KIND, Metrics
from tests.devcluster.waiting import until
from tests.operator.harness import ECHOES, Desk, Operate, Running, echo, map_template, not_ready_because, only

HISTOGRAM_LABELS = {"le"}

REFUSED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_B}\n"
"""A manifest that the API server refuses."""


def described() -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each metric in the reference, by its name in /metrics."""
    page = reference.text("metrics", None)
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", page, re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def served(text: str) -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each metric in /metrics; no labels for one without samples."""
    found = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - HISTOGRAM_LABELS
        found[name] = (family.type, labels)
    return {name: found[name] for name in found if not name.endswith("_created")}


@pytest.fixture
async def served_metrics(desk: Desk, operate: Operate, templates: Path) -> dict[str, tuple[str, set[str]]]:
    """`served` by an operator with one ready parent."""
    only(templates, map=map_template("map", word="name"))
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        running.operator.measure()
        return served(running.operator.metrics.text().decode())


def samples(running: Running) -> Callable[..., float]:
    """The values of /metrics, by name and labels."""
    running.operator.measure()
    families = text_string_to_metric_families(running.operator.metrics.text().decode())
    values = {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}
    return lambda name, **labels: values[name, frozenset(labels.items())]


def is_cached(running: Running, resource: str) -> bool:
    return any(each.resource.name == resource and len(each.cache) for each in running.operator.controllers.reflectors)


@pytest.mark.cluster
async def test_the_reference_describes_each_metric_of_a_running_operator_with_its_type_and_labels(
    served_metrics: dict[str, tuple[str, set[str]]],
) -> None:
    page = described()
    assert served_metrics.keys() == page.keys()
    for name, (kind, labels) in served_metrics.items():
        assert kind == page[name][0], name
        assert labels in (set(), page[name][1]), name


@pytest.mark.cluster
async def test_metrics_count_what_the_operator_does(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, map=map_template("map", word="name"), bad=REFUSED)
    async with operate(workers=3) as running:
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed"))
        # The status is there before the reconcile has ended, and before the watch shows the ConfigMap.
        await until(lambda: not running.operator.queue.processing() and is_cached(running, "configmaps"))
        found = samples(running)
    requests = "ssa_operator_rest_client_requests_total"
    # The child, and the record of the folder's kinds.
    assert found(requests, verb="apply", resource="configmaps", code="201") == 2
    assert found(requests, verb="apply", resource="configmaps", code="422") >= 1
    assert found(requests, verb="watch", resource=ECHOES, code="200") >= 1
    assert found("ssa_operator_rest_client_request_duration_seconds_count", verb="watch", resource=ECHOES) >= 1
    assert found("ssa_operator_child_failures_total", folder=ECHOES, kind="ConfigMap", reason="ApplyFailed") >= 1
    assert found("ssa_operator_render_duration_seconds_count", folder=ECHOES) >= 1
    assert found("ssa_operator_reflector_lists_total", resource=ECHOES) >= 1
    assert found("ssa_operator_watch_synced", resource=ECHOES, namespace=desk.namespace) == 1
    assert found("ssa_operator_cache_objects", resource=ECHOES) == 1
    assert found("ssa_operator_cache_objects", resource="configmaps") == 1
    assert found("ssa_operator_max_concurrent_reconciles") == 3
    assert found("ssa_operator_workqueue_adds_total") >= 1
    assert found("ssa_operator_rest_client_rate_limiter_duration_seconds_count") >= 1
    assert found("process_resident_memory_bytes") > 2**20


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/namespaces/a/configmaps/x", ("get", "configmaps")),
        ("/api/v1/namespaces/a/configmaps", ("list", "configmaps")),
        ("/api/v1/namespaces/a", ("get", "namespaces")),
        ("/api/v1/namespaces", ("list", "namespaces")),
        ("/api/v1/namespaces/a/status", ("get", "namespaces")),
        ("/apis/apps/v1/deployments", ("list", "deployments.apps")),
        ("/apis/example.com/v1/namespaces/a/echoes/web/status", ("get", ECHOES)),
        ("/apis/apps/v1", ("get", "")),
        ("/api/v1", ("get", "")),
        ("/version", ("get", "")),
    ],
)
def test_a_request_is_counted_under_its_verb_and_resource(path: str, expected: tuple[str, str]) -> None:
    request = calls.raw_get(path)
    assert (request.verb, request.resource_name) == expected


def test_a_request_without_an_answer_has_the_code_of_client_go() -> None:
    metrics = Metrics()
    metrics.answered(calls.raw_get("/version"), 0, 0.1)
    assert (
        'ssa_operator_rest_client_requests_total{code="<error>",resource="",verb="get"} 1.0' in metrics.text().decode()
    )


def test_kinds_that_parents_choose_make_a_bounded_number_of_series() -> None:
    metrics = Metrics()
    labels = {metrics.kind_label(f"Kind{number}") for number in range(2 * KINDS_LIMIT)}
    assert len(labels) == KINDS_LIMIT + 1
    assert metrics.kind_label("Kind1") == "Kind1"
    assert metrics.kind_label("Unheard") == OTHER_KIND

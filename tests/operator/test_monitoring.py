"""The dashboard and the alert rules use metrics, labels and values that a running operator has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from ssa_operator.cli import reference
from tests.operator.harness import ROOT
from tests.operator.test_metrics import described, served_metrics

__all__ = ["served_metrics"]

MONITORING = ROOT / "deploy" / "monitoring"

DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())

RULES = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]

TARGET_LABELS = {"job", "instance", "namespace", "pod"}
"""Labels that Prometheus adds to each sample."""

SUFFIXES = ("_bucket", "_count", "_sum")


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> dict[str, str]:
    """Each expression by where it stands."""
    alerts = {rule["alert"]: rule["expr"] for rule in RULES}
    shown = {
        f"{panel['title']} {target['refId']}": target["expr"].replace("$__rate_interval", "5m")
        for panel in panels()
        for target in panel["targets"]
    }
    return alerts | shown


def parts(node: Any) -> Iterator[Any]:
    """An expression and all expressions in it."""
    yield node
    for name in ("expr", "lhs", "rhs", "param", "vector_selector"):
        inner = getattr(node, name, None)
        if inner is not None:
            yield from parts(inner)
    for argument in getattr(node, "args", None) or ():
        yield from parts(argument)


def base(selector: promql_parser.VectorSelector, known: set[str]) -> str:
    """The metric of a selector: `x` of `x_bucket`."""
    name = selector.name or ""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.removesuffix(suffix) in known), name)


@pytest.fixture(params=expressions().items(), ids=lambda item: item[0])
def expression(request: pytest.FixtureRequest) -> Any:
    _, text = request.param
    return promql_parser.parse(text)


def test_each_metric_and_label_of_an_expression_is_in_the_reference(expression: Any) -> None:
    page = described()
    selectors = [part for part in parts(expression) if isinstance(part, promql_parser.VectorSelector)]
    assert selectors
    labels = set[str]()
    for selector in selectors:
        name = base(selector, set(page))
        assert name in page, f"{selector.name} is no metric of the operator"
        labels |= page[name][1] | {"le"}
        used = {matcher.name for matcher in selector.matchers.matchers}
        assert used <= page[name][1] | TARGET_LABELS, f"{name} has no {used}"
    for part in parts(expression):
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            assert set(part.modifier.labels) <= labels | TARGET_LABELS


def test_each_value_that_an_alert_selects_is_named_in_the_description_of_its_metric() -> None:
    page = reference.text("metrics", None)
    found = 0
    for rule in RULES:
        for name, label, value in re.findall(r'(\w+)\{(\w+)="(\w+)"\}', rule["expr"]):
            if label != "code":
                row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
                assert value in row
                found += 1
    assert found


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_running_operator_serves_each_metric_that_the_dashboard_and_the_alerts_use(
    served_metrics: dict[str, tuple[str, set[str]]],
) -> None:
    found = {*served_metrics}
    parsed = map(promql_parser.parse, expressions().values())
    used = {
        base(part, found) for tree in parsed for part in parts(tree) if isinstance(part, promql_parser.VectorSelector)
    }
    assert len(used) > 20
    assert used <= found


@pytest.mark.parametrize(
    "name",
    ["ssa_operator_leader_election_master_status", "ssa_operator_shard_up", "ssa_operator_shard_buckets"],
)
def test_a_missing_leader_or_shard_is_an_alert_and_is_on_the_dashboard(name: str) -> None:
    assert any(name in rule["expr"] for rule in RULES)
    assert any(name in target["expr"] for panel in panels() for target in panel["targets"])


def test_the_dashboard_selects_folders_by_each_metric_that_has_them() -> None:
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert {"datasource", "job", "folder"} <= variables
    metrics = described()
    for target in (target for panel in panels() for target in panel["targets"]):
        for name, labels in re.findall(r"(ssa_operator_\w+)\{([^}]*)\}", target["expr"]):
            known = next(each for each in (name, *(name.removesuffix(end) for end in SUFFIXES)) if each in metrics)
            assert ('folder=~"$folder"' in labels) == ("folder" in metrics[known][1]), target["expr"]


def test_each_alert_says_what_happens_and_what_to_do() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        for variable in re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())):
            # The labels of an aggregation are those that it names; others keep all labels of the metric.
            grouped = re.search(r"by \(([^)]*)\)", rule["expr"])
            name = re.search(r"ssa_operator_\w+", rule["expr"])
            assert name is not None
            kept = set(re.findall(r"\w+", grouped[1])) if grouped else described()[name[0]][1]
            assert variable in kept, rule["alert"]


def checks_of_alerts() -> dict[str, list[dict[str, Any]]]:
    """The checks of the rule tests (`python -m tests.monitoring`) by alert."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted((ROOT / "tests" / "monitoring" / "alerts").glob("*.yaml")):
        for test in yaml.safe_load(file.read_text())["tests"]:
            for check in test["alert_rule_test"]:
                found.setdefault(check["alertname"], []).append(check)
    return found


@pytest.mark.more_cases
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_alert_has_rule_tests_in_which_it_fires_and_in_which_it_does_not(rule: dict[str, Any]) -> None:
    checks = checks_of_alerts()[rule["alert"]]
    expected = [alert for check in checks for alert in check.get("exp_alerts", ())]
    assert expected
    assert any("exp_alerts" not in check for check in checks)
    for alert in expected:
        assert alert["exp_labels"]["severity"] == rule["labels"]["severity"]
        assert alert["exp_annotations"]["description"] == rule["annotations"]["description"]


def test_the_panels_of_the_dashboard_have_their_own_places_and_ids() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    places = [
        (place["x"] + column, place["y"] + line)
        for panel in DASHBOARD["panels"]
        for place in [panel["gridPos"]]
        for column in range(place["w"])
        for line in range(place["h"])
    ]
    assert len(set(places)) == len(places)

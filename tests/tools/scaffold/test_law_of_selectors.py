"""Of two parents in one namespace, no selector selects a pod of the other one, or a note says so."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.objects.label_selectors import selects
from tests.tools.scaffold.laws import made, renders
from tests.tools.scaffold.shapes import of, pods

LABEL = "app.kubernetes.io/instance"
KEYS = ("app", "part", LABEL, "release")
TEXTS = ("shop", "shop-db", "db", "web")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TEXTS), max_size=3)
EXPRESSIONS = st.lists(
    st.one_of(
        st.builds(
            lambda key, operator, values: {"key": key, "operator": operator, "values": values},
            st.sampled_from(KEYS),
            st.sampled_from(["In", "NotIn"]),
            st.lists(st.sampled_from(TEXTS), min_size=1, max_size=2, unique=True),
        ),
        st.builds(
            lambda key, operator: {"key": key, "operator": operator},
            st.sampled_from(KEYS),
            st.sampled_from(["Exists", "DoesNotExist"]),
        ),
    ),
    max_size=2,
)
SELECTORS = st.builds(
    lambda labels, expressions: {
        **({"matchLabels": labels} if labels else {}),
        **({"matchExpressions": expressions} if expressions else {}),
    },
    LABELS,
    EXPRESSIONS,
)


@st.composite
def manifests(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Workloads, and what selects their pods."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        labels = draw(LABELS.filter(bool))
        body = pods(labels, f"shop-{number}")
        selector = dict(draw(st.sets(st.sampled_from(sorted(labels.items())), min_size=1)))
        body["spec"]["selector"]["matchLabels"] = selector
        del body["metadata"]["labels"]
        if draw(st.booleans()):
            term = {"topologyKey": "zone", "labelSelector": draw(SELECTORS)}
            rule = draw(st.sampled_from(["podAffinity", "podAntiAffinity"]))
            affinity = {rule: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            body["spec"]["template"]["spec"] |= {"affinity": affinity, "topologySpreadConstraints": [draw(spreads())]}
        found.append(body)
    if draw(st.booleans()):
        peers = [{"podSelector": draw(SELECTORS)} for _ in range(draw(st.integers(0, 2)))]
        spec = {"podSelector": draw(SELECTORS), "ingress": [{"from": peers}], "egress": [{"to": copy.deepcopy(peers)}]}
        found.append(of("networking.k8s.io/v1", "NetworkPolicy", "shop-policy", spec=spec))
    if draw(st.booleans()):
        found.append(of("policy/v1", "PodDisruptionBudget", "shop-budget", spec={"selector": draw(SELECTORS)}))
    if draw(st.booleans()):
        found.append(of("v1", "Service", "shop-service", spec={"selector": draw(LABELS), "ports": [{"port": 80}]}))
    return found


def spreads() -> st.SearchStrategy[dict[str, Any]]:
    return SELECTORS.map(
        lambda selector: {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
    )


def selectors(value: Any, kind: str) -> Iterator[Mapping[str, Any]]:
    """The selectors of a manifest, in its order."""
    if isinstance(value, Mapping):
        for key, item in sorted(value.items()):
            if key == "selector" and kind == "Service":
                yield {"matchLabels": item} if item else {"matchExpressions": [{"operator": "Never"}]}
            elif key in ("selector", "podSelector", "labelSelector"):
                yield item
            else:
                yield from selectors(item, kind)
    elif isinstance(value, list):
        for item in value:
            yield from selectors(item, kind)


def pod_labels(bodies: Mapping[tuple[str, str], Any]) -> list[Mapping[str, str]]:
    """The labels of the pods of each Deployment, by its number."""
    return [
        bodies[key]["spec"]["template"]["metadata"].get("labels", {})
        for key in sorted(bodies)
        if key[0] == "Deployment"
    ]


@settings(max_examples=40)
@given(manifests())
def test_no_selector_selects_a_pod_of_another_parent(bodies: list[dict[str, Any]]) -> None:
    found = made(*copy.deepcopy(bodies), instance="shop")
    given_by_key = {(body["kind"], body["metadata"]["name"]): body for body in bodies}
    one, two = (
        {(key[1], key[3].replace(name, "shop")): body for key, body in renders(found, name, "here").items()}
        for name in ("one", "two")
    )
    pods_given, pods_one, pods_two = map(pod_labels, (given_by_key, one, two))
    for (kind, name), body in given_by_key.items():
        notes = [note for note in found.notes if re.search(rf"\b{name}\b", note)]
        is_noted = any("the selector is the same for all" in note or "of other objects" in note for note in notes)
        before, after = (list(selectors(each["spec"], kind)) for each in (body, one[kind, name]))
        assert len(before) == len(after)
        for old, new in zip(before, after, strict=True):
            own = [selects(new, labels) for labels in pods_one]
            assert own == [selects(old, labels) for labels in pods_given], (old, new)
            if any(own) and (old.get("matchLabels") or old.get("matchExpressions")) and not is_noted:
                assert not any(selects(new, labels) for labels in pods_two), (old, new)

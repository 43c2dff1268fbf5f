"""Label selectors select what the API server selects."""

from __future__ import annotations

import pytest

from ssa_operator.objects.label_selectors import label_selector, selects
from tests.operator.fixtures import client, desk
from tests.operator.harness import Desk

__all__ = ["client", "desk"]

SELECTORS = (
    "", "a", "!a", " ! a ", "a=1", "a==1", "a = 1", "a!=1", "a=", "a!=", "a in (1, 2)", "a in ()", "a in (1,)",
    "a notin (1,2)", "a notin ()", "a=1,b", "a=1,!b", "a in (1,2),b notin (x)", "a=1,a!=1", "x.y/z=1", "in=1", "notin",
)  # fmt: skip
LABELS: tuple[dict[str, str], ...] = (
    {}, {"a": "1"}, {"a": "2"}, {"a": ""}, {"b": "x"}, {"a": "1", "b": "x"}, {"a": "2", "b": ""}, {"x.y/z": "1"},
    {"in": "1"}, {"notin": "2"},
)  # fmt: skip


@pytest.mark.cluster
async def test_each_selector_selects_what_the_api_server_selects(desk: Desk) -> None:
    for at, labels in enumerate(LABELS):
        metadata = {"name": f"m{at}", "labels": {"kept": "by-the-test", **labels}}
        await desk.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    resource = await desk.mapper.resource_by_name("configmaps")
    for selector in SELECTORS:
        text = ",".join(filter(None, ("kept", selector)))
        found, _ = await desk.client.list(resource, desk.namespace, text)
        expected = [f"m{at}" for at, labels in enumerate(LABELS) if selects(label_selector(selector), labels)]
        assert sorted(live.identity.name for live in found) == expected, selector

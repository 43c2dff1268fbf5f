"""What a snapshot answers to the queries of templates."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ssa_operator.objects.cluster_view import Answer, Lookup, Selection
from ssa_operator.objects.label_selectors import Requirement
from ssa_operator.tools.plan.all_parents import VERSION, Snapshot, StoredSnapshot, stored_query

WHERE: dict[str, Any] = {"api_version": "v1", "kind": "ConfigMap"}
QUERIES: dict[str, Lookup | Selection] = {
    "a": Lookup(**WHERE, namespace="n", name="a"),
    "a b": Selection(**WHERE, namespace="n", labels=(("app", "web"),)),
    "b": Selection(**WHERE, namespace="", labels=(), requirements=(Requirement("tier", "Exists"),)),
    "c": Selection(**WHERE, namespace="", labels=(("app", "web"),), namespaces=("far",)),
    "": Selection(**WHERE, namespace="", labels=(), namespaces=()),
}
"""The queries, by the names of the objects that they find."""


def _config_map(name: str, namespace: str, **labels: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web", **labels}},
    }


@pytest.mark.parametrize("found", QUERIES)
def test_a_snapshot_that_was_read_from_a_file_finds_what_the_cluster_had(found: str) -> None:
    stored = StoredSnapshot(
        version=VERSION,
        taken=0.0,
        salt="",
        kinds=[],
        parents=[],
        objects=[_config_map("a", "n"), _config_map("b", "n", tier="1"), _config_map("c", "far")],
        queries=[stored_query(query, Answer()) for query in QUERIES.values()],
    )
    snapshot = Snapshot(msgspec.json.decode(msgspec.json.encode(stored), type=StoredSnapshot))
    answer = snapshot.answer(QUERIES[found])
    assert not answer.unknown
    assert " ".join(body["metadata"]["name"] for body in answer.objects) == found

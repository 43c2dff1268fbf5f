"""Objects found by their labels: always those that a look at every object would find."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.label_index import INDEXES_LIMIT
from ssa_operator.objects.live_object import LiveObject
from tests.instruction_counts import instructions

LABELS = st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["1", "2"]))
NAMESPACES = st.sampled_from(["a", "b"])
EVENTS = st.tuples(NAMESPACES, st.sampled_from(["x", "y"]), st.one_of(st.none(), LABELS))
QUESTIONS = st.tuples(st.sampled_from(["a", "b", ""]), LABELS)


def live(namespace: str, name: str, labels: dict[str, str], version: int) -> LiveObject:
    metadata = {"namespace": namespace, "name": name, "labels": labels, "resourceVersion": str(version), "uid": name}
    return LiveObject.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


@given(st.lists(EVENTS), st.lists(EVENTS), st.lists(QUESTIONS, min_size=1))
def test_the_objects_with_some_labels_are_found_however_they_came(
    first: list[tuple[str, str, dict[str, str] | None]],
    then: list[tuple[str, str, dict[str, str] | None]],
    queries: list[tuple[str, dict[str, str]]],
) -> None:
    cache, versions = Cache(), itertools.count(1)
    for events in (first, then):
        for namespace, name, labels in events:
            if labels is None:
                cache.remove(live(namespace, name, {}, next(versions)))
            elif next(versions) % 2:
                cache.upsert(live(namespace, name, labels, next(versions)))
            else:
                cache.written(live(namespace, name, labels, next(versions)))
        for namespace, wanted in queries:
            expected = {
                each
                for each in cache
                if namespace in ("", each.identity.namespace) and wanted.items() <= each.metadata.labels.items()
            }
            found = cache.select(namespace, wanted)
            assert len(found) == len(expected)
            assert set(found) == expected


def test_queries_with_a_thousand_different_label_names_cost_an_event_no_more_than_a_few_do() -> None:
    def event(queries: int) -> int:
        cache = Cache()
        cache.upsert(live("a", "x", {"k": "1"}, 1))
        for number in range(queries):
            cache.select("a", {"k": "1", f"l{number}": "1"})
        return instructions(lambda: cache.upsert(live("a", "x", {"k": "2"}, 2)))

    assert event(1000) <= 1.1 * event(INDEXES_LIMIT)


def test_an_index_that_is_read_again_and_again_is_built_once() -> None:
    cache = Cache()
    for number in range(50):
        cache.upsert(live("a", f"x{number}", {"k": str(number)}, number + 1))
    first = instructions(lambda: cache.select("a", {"k": "7"}))
    for number in range(1000):
        cache.select("a", {f"l{number}": "1"})
        assert [each.identity.name for each in cache.select("a", {"k": "7"})] == ["x7"]
    assert instructions(lambda: cache.select("a", {"k": "7"})) < first / 10


def test_a_query_whose_index_was_dropped_finds_what_came_since() -> None:
    cache = Cache()
    cache.upsert(live("a", "x", {"k": "1"}, 1))
    cache.select("a", {"k": "1"})
    for number in range(INDEXES_LIMIT):
        cache.select("a", {f"l{number}": "1"})
    cache.upsert(live("a", "y", {"k": "1"}, 2))
    cache.remove(live("a", "x", {"k": "1"}, 3))
    assert [each.identity.name for each in cache.select("a", {"k": "1"})] == ["y"]

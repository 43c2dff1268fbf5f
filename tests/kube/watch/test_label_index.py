"""Objects found by their labels: always those that a look at every object would find."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.kube.watch.cache import Cache

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

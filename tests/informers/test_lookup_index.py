"""The lookup index finds the same queries that a scan of all queries would find."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.informers.lookup_index import Dependent, LookupIndex, LookupQuery
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Lookup, Selection
from ssa_operator.objects.live_object import LiveObject

NAMES = st.sampled_from(["x", "y"])
NAMESPACES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(st.sampled_from(["k", "l", "m"]), st.sampled_from(["1", "2"]))
KINDS = st.sampled_from(["ConfigMap", "Secret"])
QUERIES: st.SearchStrategy[LookupQuery] = st.one_of(
    st.builds(Lookup, api_version=st.just("v1"), kind=KINDS, namespace=NAMESPACES, name=NAMES),
    st.builds(
        Selection,
        api_version=st.just("v1"),
        kind=KINDS,
        namespace=st.sampled_from(["a", "b", ""]),
        labels=LABELS.map(lambda labels: tuple(sorted(labels.items()))),
    ),
)
DEPENDENTS = st.builds(Dependent, st.sampled_from(["u1", "u2", "u3"]), st.sampled_from([Cause.TEMPLATE, Cause.CHILD]))
RENDERS = st.lists(st.tuples(DEPENDENTS, st.dictionaries(QUERIES, st.integers(0, 9), max_size=4)))


def live(kind: str, namespace: str, name: str, labels: Mapping[str, str]) -> LiveObject:
    metadata = {"namespace": namespace, "name": name, "labels": dict(labels)}
    return LiveObject.of({"apiVersion": "v1", "kind": kind, "metadata": metadata})


def matches(query: LookupQuery, live_object: LiveObject) -> bool:
    identity = live_object.identity
    if isinstance(query, Lookup):
        return query.identity == identity
    return (
        query.kind == identity.kind
        and query.namespace in ("", identity.namespace)
        and set(query.labels) <= set(live_object.metadata.labels.items())
    )


@given(RENDERS, KINDS, NAMESPACES, NAMES, LABELS, LABELS)
def test_a_change_affects_exactly_the_queries_that_match_the_old_or_the_new_object(
    renders: list[tuple[Dependent, dict[LookupQuery, int]]],
    kind: str,
    namespace: str,
    name: str,
    before: dict[str, str],
    after: dict[str, str],
) -> None:
    index = LookupIndex()
    last: dict[Dependent, dict[LookupQuery, int]] = {}
    for dependent, queries in renders:
        index.replace(dependent, queries)
        last[dependent] = queries
    old, new = live(kind, namespace, name, before), live(kind, namespace, name, after)
    expected = {query for queries in last.values() for query in queries}
    affected = list(index.affected("v1", old, new))
    assert len(affected) == len(set(affected))
    assert set(affected) == {query for query in expected if matches(query, old) or matches(query, new)}
    assert set(index.affected("v1", None, new)) == {query for query in expected if matches(query, new)}
    for query in affected:
        assert index.dependents(query) == {
            dependent: queries[query] for dependent, queries in last.items() if query in queries
        }
    assert {each for kind in index.kinds for each in index.queries(kind)} == expected


@given(RENDERS)
def test_each_query_is_reported_once_as_added_and_once_as_removed(
    renders: list[tuple[Dependent, dict[LookupQuery, int]]],
) -> None:
    index = LookupIndex()
    expected: set[LookupQuery] = set()
    for dependent, queries in [*renders, *((dependent, dict[LookupQuery, int]()) for dependent, _ in renders)]:
        added, removed = index.replace(dependent, queries)
        assert expected.isdisjoint(added)
        assert expected.issuperset(removed)
        expected = (expected | set(added)) - set(removed)
    assert expected == set()
    assert index.kinds == ()

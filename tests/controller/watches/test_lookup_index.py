"""Who is concerned by a change, found by an index: always those whom a look at everybody would find."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.controller.queue import Cause
from ssa_operator.controller.watches.lookup_index import Dependent, LookupIndex, LookupQuery
from ssa_operator.core.objects.cluster_view import Lookup, Selection
from ssa_operator.core.objects.live_object import LiveObject

NAMES = st.sampled_from(["x", "y"])
NAMESPACES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(st.sampled_from(["k", "l", "m"]), st.sampled_from(["1", "2"]))
KINDS = st.sampled_from(["ConfigMap", "Secret"])
ASKED: st.SearchStrategy[LookupQuery] = st.one_of(
    st.builds(Lookup, api_version=st.just("v1"), kind=KINDS, namespace=NAMESPACES, name=NAMES),
    st.builds(
        Selection,
        api_version=st.just("v1"),
        kind=KINDS,
        namespace=st.sampled_from(["a", "b", ""]),
        labels=LABELS.map(lambda labels: tuple(sorted(labels.items()))),
    ),
)
USERS = st.builds(Dependent, st.sampled_from(["u1", "u2", "u3"]), st.sampled_from([Cause.TEMPLATE, Cause.CHILD]))
USES = st.lists(st.tuples(USERS, st.dictionaries(ASKED, st.integers(0, 9), max_size=4)))


def live(kind: str, namespace: str, name: str, labels: Mapping[str, str]) -> LiveObject:
    metadata = {"namespace": namespace, "name": name, "labels": dict(labels)}
    return LiveObject.of({"apiVersion": "v1", "kind": kind, "metadata": metadata})


def matches(query: LookupQuery, found: LiveObject) -> bool:
    identity = found.identity
    if isinstance(query, Lookup):
        return query.identity == identity
    return (
        query.kind == identity.kind
        and query.namespace in ("", identity.namespace)
        and set(query.labels) <= set(found.metadata.labels.items())
    )


@given(USES, KINDS, NAMESPACES, NAMES, LABELS, LABELS)
def test_exactly_those_are_concerned_who_ask_for_the_object_as_it_was_or_is(
    uses: list[tuple[Dependent, dict[LookupQuery, int]]],
    kind: str,
    namespace: str,
    name: str,
    before: dict[str, str],
    after: dict[str, str],
) -> None:
    users = LookupIndex()
    last: dict[Dependent, dict[LookupQuery, int]] = {}
    for user, seen in uses:
        users.use(user, seen)
        last[user] = seen
    old, new = live(kind, namespace, name, before), live(kind, namespace, name, after)
    asked = {query for seen in last.values() for query in seen}
    concerned = list(users.concerned("v1", old, new))
    assert len(concerned) == len(set(concerned))
    assert set(concerned) == {query for query in asked if matches(query, old) or matches(query, new)}
    assert set(users.concerned("v1", None, new)) == {query for query in asked if matches(query, new)}
    for query in concerned:
        assert users.of(query) == {user: seen[query] for user, seen in last.items() if query in seen}
    assert {each for kind in users.kinds for each in users.asked(kind)} == asked


@given(USES)
def test_what_comes_and_goes_is_told_once(uses: list[tuple[Dependent, dict[LookupQuery, int]]]) -> None:
    users = LookupIndex()
    asked: set[LookupQuery] = set()
    for user, seen in [*uses, *((user, dict[LookupQuery, int]()) for user, _ in uses)]:
        came, went = users.use(user, seen)
        assert asked.isdisjoint(came)
        assert asked.issuperset(went)
        asked = (asked | set(came)) - set(went)
    assert asked == set()
    assert users.kinds == ()

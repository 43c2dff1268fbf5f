"""The lookup index finds the same queries that a scan of all queries would find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ssa_operator.informers.lookup_index import Dependent, LookupIndex, LookupQuery, SelectionAnswers
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Lookup, OfflineClusterView, Selection
from ssa_operator.objects.label_selectors import Requirement
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render
from tests.rendering.template_files import templates

NAMES = st.sampled_from(["x", "y"])
NAMESPACES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(st.sampled_from(["k", "l", "m"]), st.sampled_from(["1", "2"]))
KINDS = st.sampled_from(["ConfigMap", "Secret"])
REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(["k", "m"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.sampled_from([("1",), ("1", "2")]),
)
QUERIES: st.SearchStrategy[LookupQuery] = st.one_of(
    st.builds(Lookup, api_version=st.just("v1"), kind=KINDS, namespace=NAMESPACES, name=NAMES),
    st.builds(
        Selection,
        api_version=st.just("v1"),
        kind=KINDS,
        namespace=st.sampled_from(["a", "b", ""]),
        labels=LABELS.map(lambda labels: tuple(sorted(labels.items()))),
        requirements=st.lists(REQUIREMENTS, max_size=1).map(tuple),
        namespaces=st.sampled_from([None, (), ("a",), ("a", "b")]),
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
        and (query.namespaces is None or identity.namespace in query.namespaces)
        and set(query.labels) <= set(live_object.metadata.labels.items())
        and all(_fulfils(each, live_object.metadata.labels.get(each.key)) for each in query.requirements)
    )


def _fulfils(requirement: Requirement, value: str | None) -> bool:
    positive = value is not None and (requirement.operator in ("Exists", "DoesNotExist") or value in requirement.values)
    return positive == (requirement.operator in ("In", "Exists"))


_OF_NOBODY = Selection(
    api_version="v1",
    kind="ConfigMap",
    namespace="",
    labels=(("k", "2"),),
    requirements=(Requirement("k", "DoesNotExist"),),
)


@given(RENDERS, KINDS, NAMESPACES, NAMES, LABELS, LABELS)
@example([(Dependent("u1", Cause.TEMPLATE), {_OF_NOBODY: 1})], "ConfigMap", "a", "x", {}, {"k": "2"})
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


QUERY = Selection(api_version="v1", kind="ConfigMap", namespace="default", labels=(("app", "web"),))
PARENT = {
    "apiVersion": "example.com/v1",
    "kind": "Echo",
    "metadata": {"name": "web", "namespace": "default", "uid": "uid-0"},
    "spec": {},
}


def config_map(name: str, version: int, **labels: str) -> LiveObject:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version), "labels": labels}
    return LiveObject.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": name}})


class CountedCache(Cache):
    """A cache that counts selections."""

    def __init__(self) -> None:
        super().__init__()
        self.selections = 0

    def select(self, *args: Any) -> Any:
        self.selections += 1
        return super().select(*args)


@pytest.fixture
def cache() -> CountedCache:
    made = CountedCache()
    for at in (2, 0, 1):
        made.upsert(config_map(f"c{at}", at + 1, app="web"))
    return made


def found(answers: SelectionAnswers, cache: Cache) -> list[str]:
    return [live.identity.name for live in answers.find(QUERY, cache, keep=True).lives]


def test_an_answer_is_computed_once_for_all_who_ask(cache: CountedCache) -> None:
    answers = SelectionAnswers()
    first = answers.find(QUERY, cache, keep=True)
    assert all(answers.find(QUERY, cache, keep=True) is first for _ in range(100))
    assert cache.selections == 1


def test_each_change_of_the_cache_gives_the_answer_of_then(cache: CountedCache) -> None:
    answers, versions = SelectionAnswers(), set()
    changes = (
        lambda: None,
        lambda: cache.upsert(config_map("c1", 4, app="other")),
        lambda: cache.written(config_map("c9", 5, app="web")),
        lambda: cache.remove(config_map("c0", 6, app="web")),
        lambda: cache.upsert(config_map("c2", 7, app="web")),
    )
    for change in changes:
        change()
        answer = answers.find(QUERY, cache, keep=True)
        fresh = SelectionAnswers().find(QUERY, cache, keep=False)
        assert (set(map(id, answer.lives)), answer.version) == (set(map(id, fresh.lives)), fresh.version)
        versions.add(answer.version)
    assert len(versions) == len(changes)
    assert sorted(found(answers, cache)) == ["c2", "c9"]


def test_the_answer_of_another_cache_is_computed(cache: CountedCache) -> None:
    answers, other = SelectionAnswers(), CountedCache()
    other.upsert(config_map("x", 9, app="web"))
    assert (len(found(answers, cache)), found(answers, other)) == (3, ["x"])


@pytest.mark.parametrize(
    ("expression", "decoded"),
    [
        ("lookup_all('v1', 'ConfigMap') | length", 0),
        ("lookup_all('v1', 'ConfigMap') | count", 0),
        ("lookup_all('v1', 'ConfigMap', labels={'app': name}) | length > 2", 0),
        ("'some' if lookup_all('v1', 'ConfigMap') else 'none'", 0),
        ("lookup_all('v1', 'ConfigMap') | map(attribute='data.a') | join(',')", 3),
        ("lookup_all('v1', 'ConfigMap')[1].data.a", 3),
    ],
)
async def test_an_object_is_decoded_when_a_template_reads_it(
    cache: CountedCache, expression: str, decoded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[str] = []
    body = LiveObject.body

    def counted(live: LiveObject) -> dict[str, Any]:
        bodies.append(live.identity.name)
        return body.fget(live)  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setattr(LiveObject, "body", property(counted))
    folder: Templates = templates(
        {
            "a.yaml.j2": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: {{ ("
            + expression
            + ") ~ '' }}\n"
        }
    )
    answers = SelectionAnswers()

    class View(OfflineClusterView, frozen=True):
        def answer(self, query: Any, /) -> Any:
            return answers.answer(answers.find(query, cache, keep=True))

    shown = {render(folder, PARENT, View()).documents[0].body["data"]["a"] for _ in range(10)}
    assert len(shown) == 1
    assert len(bodies) == decoded

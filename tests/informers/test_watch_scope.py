"""Which objects one watch shows for a query."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.informers.watch_scope import NARROW_WATCHES_LIMIT, WatchScope, choose_scope
from ssa_operator.objects.cluster_view import Lookup, Selection
from ssa_operator.objects.live_object import LiveObject


def scope(namespace: str = "", name: str = "") -> WatchScope:
    return WatchScope(api_version="v1", kind="ConfigMap", namespace=namespace, name=name)


SCOPES = st.builds(scope, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "x", "y"]))


def test_the_scope_of_a_lookup_is_one_object_and_that_of_a_selection_its_namespace() -> None:
    lookup = Lookup(api_version="v1", kind="ConfigMap", namespace="a", name="x")
    selection = Selection(api_version="v1", kind="ConfigMap", namespace="a", labels=(("l", "1"),))
    assert (WatchScope.of(lookup), WatchScope.of(selection)) == (scope("a", "x"), scope("a"))


def test_the_scope_of_an_object_is_that_of_its_lookup() -> None:
    live = LiveObject.of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "a", "name": "x"}})
    lookup = Lookup(api_version="apps/v1", kind="Deployment", namespace="a", name="x")
    assert WatchScope.of_object(live) == WatchScope.of(lookup)
    assert WatchScope.of_object(live).group_kind == live.identity.group_kind


def test_the_next_wider_scope_comes_first() -> None:
    assert scope("a", "x").wider == (scope("a"), scope())
    assert scope("", "x").wider == (scope(),)
    assert scope().wider == ()


@given(SCOPES, SCOPES)
def test_a_scope_contains_another_if_it_is_wider_or_the_same(one: WatchScope, other: WatchScope) -> None:
    by_namespace = one.namespace in ("", other.namespace) and one.name in ("", other.name)
    # A name without a namespace is that of a cluster-scoped object.
    assert one.contains(other) is (by_namespace and (one.namespace == other.namespace or not one.name))


def test_many_watched_names_give_way_to_their_namespace() -> None:
    watched = [scope("a", f"n{number}") for number in range(NARROW_WATCHES_LIMIT - 1)]
    possible = {scope("a"), scope()}
    assert choose_scope(scope("a", "x"), watched, possible) == scope("a", "x")
    watched.append(scope("a", "last"))
    assert choose_scope(scope("a", "x"), watched, possible) == scope("a")
    assert choose_scope(scope("b", "x"), watched, possible) == scope("b", "x")
    assert choose_scope(scope("a", "x"), watched, {scope()}) == scope("a", "x")


def test_many_watched_namespaces_give_way_to_all() -> None:
    watched = [scope(f"n{number}", "x") for number in range(NARROW_WATCHES_LIMIT)]
    assert choose_scope(scope("a", "x"), watched, {scope("a"), scope()}) == scope()
    assert choose_scope(scope("a"), watched, {scope()}) == scope()
    assert choose_scope(scope("a", "x"), watched, {scope("a")}) == scope("a", "x")


def test_many_watched_cluster_scoped_objects_give_way_to_all() -> None:
    watched = [scope("", f"n{number}") for number in range(NARROW_WATCHES_LIMIT)]
    assert choose_scope(scope("", "x"), watched[1:], {scope()}) == scope("", "x")
    assert choose_scope(scope("", "x"), watched, {scope()}) == scope()

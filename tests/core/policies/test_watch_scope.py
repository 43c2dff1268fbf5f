"""Which objects are watched for what is asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.objects.cluster_view import Lookup, Selection
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.policies.watch_scope import FEW, WatchScope, choose_scope


def scope(namespace: str = "", name: str = "") -> WatchScope:
    return WatchScope(api_version="v1", kind="ConfigMap", namespace=namespace, name=name)


AREAS = st.builds(scope, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "x", "y"]))


def test_a_lookup_asks_for_one_object_and_a_selection_for_its_namespace() -> None:
    lookup = Lookup(api_version="v1", kind="ConfigMap", namespace="a", name="x")
    selection = Selection(api_version="v1", kind="ConfigMap", namespace="a", labels=(("l", "1"),))
    assert (WatchScope.of(lookup), WatchScope.of(selection)) == (scope("a", "x"), scope("a"))


def test_the_area_of_an_object_is_that_of_its_lookup() -> None:
    live = LiveObject.of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "a", "name": "x"}})
    lookup = Lookup(api_version="apps/v1", kind="Deployment", namespace="a", name="x")
    assert WatchScope.around(live) == WatchScope.of(lookup)
    assert WatchScope.around(live).group_kind == live.identity.group_kind


def test_the_next_wider_area_comes_first() -> None:
    assert scope("a", "x").wider == (scope("a"), scope())
    assert scope("", "x").wider == (scope(),)
    assert scope().wider == ()


@given(AREAS, AREAS)
def test_an_area_holds_another_where_it_leaves_open_what_that_one_says(one: WatchScope, other: WatchScope) -> None:
    by_namespace = one.namespace in ("", other.namespace) and one.name in ("", other.name)
    # A name without a namespace is an object that has none.
    assert one.holds(other) is (by_namespace and (one.namespace == other.namespace or not one.name))


def test_a_few_names_are_watched_each_and_then_their_namespace() -> None:
    watched = [scope("a", f"n{number}") for number in range(FEW - 1)]
    possible = {scope("a"), scope()}
    assert choose_scope(scope("a", "x"), watched, possible) == scope("a", "x")
    watched.append(scope("a", "last"))
    assert choose_scope(scope("a", "x"), watched, possible) == scope("a")
    assert choose_scope(scope("b", "x"), watched, possible) == scope("b", "x")
    assert choose_scope(scope("a", "x"), watched, {scope()}) == scope("a", "x")


def test_a_few_namespaces_are_watched_each_and_then_all() -> None:
    watched = [scope(f"n{number}", "x") for number in range(FEW)]
    assert choose_scope(scope("a", "x"), watched, {scope("a"), scope()}) == scope()
    assert choose_scope(scope("a"), watched, {scope()}) == scope()
    assert choose_scope(scope("a", "x"), watched, {scope("a")}) == scope("a", "x")


def test_a_few_objects_without_a_namespace_are_watched_each_and_then_all() -> None:
    watched = [scope("", f"n{number}") for number in range(FEW)]
    assert choose_scope(scope("", "x"), watched[1:], {scope()}) == scope("", "x")
    assert choose_scope(scope("", "x"), watched, {scope()}) == scope()

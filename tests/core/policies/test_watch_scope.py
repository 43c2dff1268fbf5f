"""Which objects are watched for what is asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.policies.watch_scope import FEW, Area, worthwhile
from ssa_operator.core.objects.live_object import Live
from ssa_operator.core.objects.cluster_view import Lookup, Selection


def area(namespace: str = "", name: str = "") -> Area:
    return Area(api_version="v1", kind="ConfigMap", namespace=namespace, name=name)


AREAS = st.builds(area, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "x", "y"]))


def test_a_lookup_asks_for_one_object_and_a_selection_for_its_namespace() -> None:
    lookup = Lookup(api_version="v1", kind="ConfigMap", namespace="a", name="x")
    selection = Selection(api_version="v1", kind="ConfigMap", namespace="a", labels=(("l", "1"),))
    assert (Area.of(lookup), Area.of(selection)) == (area("a", "x"), area("a"))


def test_the_area_of_an_object_is_that_of_its_lookup() -> None:
    live = Live.of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "a", "name": "x"}})
    lookup = Lookup(api_version="apps/v1", kind="Deployment", namespace="a", name="x")
    assert Area.around(live) == Area.of(lookup)
    assert Area.around(live).group_kind == live.identity.group_kind


def test_the_next_wider_area_comes_first() -> None:
    assert area("a", "x").wider == (area("a"), area())
    assert area("", "x").wider == (area(),)
    assert area().wider == ()


@given(AREAS, AREAS)
def test_an_area_holds_another_where_it_leaves_open_what_that_one_says(one: Area, other: Area) -> None:
    by_namespace = one.namespace in ("", other.namespace) and one.name in ("", other.name)
    # A name without a namespace is an object that has none.
    assert one.holds(other) is (by_namespace and (one.namespace == other.namespace or not one.name))


def test_a_few_names_are_watched_each_and_then_their_namespace() -> None:
    watched = [area("a", f"n{number}") for number in range(FEW - 1)]
    possible = {area("a"), area()}
    assert worthwhile(area("a", "x"), watched, possible) == area("a", "x")
    watched.append(area("a", "last"))
    assert worthwhile(area("a", "x"), watched, possible) == area("a")
    assert worthwhile(area("b", "x"), watched, possible) == area("b", "x")
    assert worthwhile(area("a", "x"), watched, {area()}) == area("a", "x")


def test_a_few_namespaces_are_watched_each_and_then_all() -> None:
    watched = [area(f"n{number}", "x") for number in range(FEW)]
    assert worthwhile(area("a", "x"), watched, {area("a"), area()}) == area()
    assert worthwhile(area("a"), watched, {area()}) == area()
    assert worthwhile(area("a", "x"), watched, {area("a")}) == area("a", "x")


def test_a_few_objects_without_a_namespace_are_watched_each_and_then_all() -> None:
    watched = [area("", f"n{number}") for number in range(FEW)]
    assert worthwhile(area("", "x"), watched[1:], {area()}) == area("", "x")
    assert worthwhile(area("", "x"), watched, {area()}) == area()

"""Which scopes of children parents need, and when a watch is needed by none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.informers.watch_scopes import NARROW_WATCHES_LIMIT, ChildScope, ScopeUses, WatchScope, choose_scope
from ssa_operator.objects.cluster_view import Lookup, Selection
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState, kind_state
from ssa_operator.objects.live_object import LiveObject

A, B = GroupKind("a.com", "A"), GroupKind("a.com", "B")
SCOPES = st.builds(ChildScope, st.sampled_from([A, B]), st.sampled_from(["v1", "v2"]), st.sampled_from(["", "x", "y"]))


@given(st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from(["add", "replace", "forget"]), st.sets(SCOPES))))
def test_a_scope_is_used_as_long_as_a_parent_needs_it_and_told_once_it_is_not(
    steps: list[tuple[str, str, set[ChildScope]]],
) -> None:
    uses, needed = ScopeUses(), dict[str, set[ChildScope]]()
    for parent, step, scopes in steps:
        before = set[ChildScope]().union(*needed.values())
        released: set[ChildScope] = set()
        match step:
            case "add":
                uses.add(parent, frozenset(scopes))
                needed[parent] = needed.get(parent, set()) | scopes
            case "replace":
                released = set(uses.replace(parent, frozenset(scopes), {}))
                needed[parent] = scopes
            case _:
                released = set(uses.forget(parent))
                needed.pop(parent, None)
        after = set[ChildScope]().union(*needed.values())
        assert released == before - after
        assert {scope for scope in before | after if uses.is_used(scope)} == after
        assert all(uses.scopes(each) == scopes for each, scopes in needed.items())


def test_an_object_has_the_version_of_its_manifest_and_else_that_of_its_kind() -> None:
    old, new = Identity(*A, "x", "old"), Identity(*A, "x", "new")
    uses = ScopeUses()
    assert uses.version("p", old) is None
    uses.replace("p", frozenset({ChildScope(A, "v2", "x")}), {})
    assert uses.version("p", old) == "v2"
    uses.replace("p", frozenset({ChildScope(A, "v1", "x"), ChildScope(A, "v2", "x")}), {old: "v1", new: "v2"})
    assert [uses.version("p", each) for each in (old, new, Identity(*B, "x", "b"))] == ["v1", "v2", None]


def test_a_namespace_that_can_not_be_read_says_nothing_about_another_one() -> None:
    known = KindState(namespaced=True, synced=True)
    forbidden = KindState(namespaced=True, synced=False, problem="forbidden in y", needs_permission=True)
    state = kind_state(True, [("x", known), ("y", forbidden)])
    assert state.within("x") == known
    assert state.within("y") == forbidden
    assert (state.synced, state.problem, state.needs_permission) == (False, "forbidden in y", True)
    everywhere = kind_state(True, [("", known)])
    assert everywhere.within("x").synced


def test_a_namespace_is_known_once_each_version_of_the_kind_in_it_is() -> None:
    known, unknown = KindState(namespaced=True, synced=True), KindState(namespaced=True, synced=False)
    for watches in ([("x", known), ("x", unknown)], [("x", unknown), ("x", known)]):
        assert not kind_state(True, watches).within("x").synced


def scope(namespace: str = "", name: str = "") -> WatchScope:
    return WatchScope(api_version="v1", kind="ConfigMap", namespace=namespace, name=name)


CHOSEN = st.builds(scope, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "x", "y"]))


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


@given(CHOSEN, CHOSEN)
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

"""Which scopes of children parents need, and when a watch is needed by none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.informers.child_scopes import ChildScope, ScopeUses
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kind_state import KindState, kind_state

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

"""Which shards run, by their Leases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ssa_operator.objects.shards import Shard
from ssa_operator.operator.shards.rules import (
    ShardLease,
    ShardView,
    lost_shards,
    observe_leases,
    own_lease_needs,
    read_shard_label,
    shard_label,
    shard_lease_needs,
)

VIEW = ShardView(shard=Shard(0, 3), grace=15.0)


def lease(index: int, version: int, *, count: int = 3, holder: str = "pod") -> ShardLease:
    name = f"ssa-operator-shard-{index}"
    return ShardLease(name=name, shard=Shard(index, count), holder=holder, duration=15.0, version=("uid", f"{version}"))


def test_a_shard_is_up_while_its_lease_changes_and_down_15_seconds_after_its_last_renewal() -> None:
    view = VIEW
    for second in range(0, 30, 5):
        view = observe_leases(view, [lease(1, second), lease(2, min(second, 5))], float(second))
        assert view.up(second) == {0: True, 1: True, 2: second < 20}


def test_a_shard_that_dies_is_reported_once_and_one_that_stops_in_order_is_not() -> None:
    lost = []
    view = VIEW
    for second in range(0, 60, 5):
        holder = "pod" if second < 10 else ""
        after = observe_leases(view, [lease(1, min(second, 10), holder=holder), lease(2, min(second, 5))], second)
        lost += [each.shard for each in lost_shards(view, after, second)]
        view = after
    assert lost == [Shard(2, 3)]
    assert view.up(55) == {0: True, 1: False, 2: False}


def test_no_shard_is_taken_for_a_dead_one_while_the_leases_cannot_be_read() -> None:
    view = observe_leases(VIEW, [lease(1, 1), lease(2, 1)], 0.0)
    after = observe_leases(view, [lease(1, 1), lease(2, 1)], 60.0)
    assert after.up(60.0) == {0: True, 1: True, 2: True}
    assert lost_shards(view, after, 60.0) == ()


def test_a_gap_is_a_problem_after_the_grace_period() -> None:
    view = VIEW
    problems = []
    for second in range(0, 25, 5):
        view = observe_leases(view, [lease(1, second)], second)
        problems.append(view.lasting_problem(second))
    assert problems == [None, None, None, *["no shard reconciles the buckets aa-ff"] * 2]


def test_shards_of_another_n_are_an_overlap_until_they_stop() -> None:
    old = lease(1, 0, count=2)
    view = observe_leases(VIEW, [lease(1, 0), replace(old, name="old"), lease(2, 0)], 0.0)
    assert view.problem == "several shards reconcile the buckets 80-ff"
    view = observe_leases(view, [lease(1, 5), replace(old, name="old", holder=""), lease(2, 5)], 5.0)
    assert view.problem == ""


@pytest.mark.parametrize("value", ["", "3", "4-of-4", "0-of-0", "1-of-999", "x-of-4"])
def test_a_malformed_label_names_no_shard(value: str) -> None:
    assert read_shard_label(value) is None


def test_the_label_of_a_shard_is_read_as_it_is_written() -> None:
    assert read_shard_label(shard_label(Shard(3, 4))) == Shard(3, 4)


def test_each_shard_may_write_its_lease_and_list_all_in_the_operators_namespace() -> None:
    assert [str(need.permission) for need in shard_lease_needs("system", range(2))] == [
        "create leases.coordination.k8s.io in system",
        "list leases.coordination.k8s.io in system",
        "get leases.coordination.k8s.io ssa-operator-shard-0 in system",
        "watch leases.coordination.k8s.io ssa-operator-shard-0 in system",
        "update leases.coordination.k8s.io ssa-operator-shard-0 in system",
        "get leases.coordination.k8s.io ssa-operator-shard-1 in system",
        "watch leases.coordination.k8s.io ssa-operator-shard-1 in system",
        "update leases.coordination.k8s.io ssa-operator-shard-1 in system",
    ]


def test_a_standby_of_a_shard_does_not_count_itself_as_running() -> None:
    view = observe_leases(replace(VIEW, runs=False), [lease(1, 0), lease(2, 0)], 0.0)
    assert view.up(0.0) == {0: False, 1: True, 2: True}
    view = observe_leases(view, [lease(0, 5), lease(1, 5), lease(2, 5)], 5.0)
    assert view.up(5.0) == {0: True, 1: True, 2: True}


@pytest.mark.parametrize("elects", [False, True])
def test_a_shard_needs_its_own_lease_and_a_list_of_all(*, elects: bool) -> None:
    assert [str(need.permission) for need in own_lease_needs("system", Shard(1, 4), elects=elects)] == [
        f"{verb} leases.coordination.k8s.io{name} in system"
        for verb, name in (
            ("create", ""),
            ("list", ""),
            ("get", " ssa-operator-shard-1"),
            ("watch", " ssa-operator-shard-1"),
            ("update", " ssa-operator-shard-1"),
        )
    ]


def test_a_process_without_shards_needs_a_lease_only_for_leader_election() -> None:
    assert own_lease_needs("system", None, elects=False) == ()
    assert own_lease_needs("system", None, elects=True)

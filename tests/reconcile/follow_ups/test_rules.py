"""Reconciles that follow each other."""

from __future__ import annotations

from ssa_operator.reconcile.follow_ups.rules import MAX_IMMEDIATE_REQUEUES, follow_up_pause, follows_at_once


def test_a_chain_is_created_without_a_pause_and_an_endless_one_backs_off() -> None:
    assert not follows_at_once(0)
    assert all(follows_at_once(count) for count in range(1, MAX_IMMEDIATE_REQUEUES + 1))
    pauses = [follow_up_pause(MAX_IMMEDIATE_REQUEUES + more) for more in range(1, 21)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.5, 120)

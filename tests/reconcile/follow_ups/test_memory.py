"""Reconciles that follow each other."""

from __future__ import annotations

from ssa_operator.reconcile.follow_ups.memory import FollowUps


def test_a_chain_is_created_without_a_pause_and_an_endless_one_backs_off() -> None:
    chain, pauses = FollowUps(), []
    assert not chain.at_once
    for _ in range(1000):
        chain = chain.continued
        assert chain.at_once
    for _ in range(20):
        chain = chain.continued
        pauses.append(chain.pause)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.5, 120)

"""Finds the shortest sequence of changes that breaks a rule.

Promises:
- The result breaks the same rule as the original sequence.
- Steps are left out first, then values become simpler.
- At most `attempts` sequences are played.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace

from ssa_operator.schema.spec_changes import REMOVED, SpecChange, simpler
from ssa_operator.tools.exploration.results import ExplorationRule, Played

Play = Callable[[Sequence[SpecChange]], Awaitable[Played]]


async def shortest_sequence(played: Played, rule: ExplorationRule, play: Play, attempts: int) -> Played:
    """The shortest sequence that was found. `played` breaks the rule."""
    best, changed = played, True
    tried: set[str] = {str(played.changes)}
    while changed:
        changed = False
        for candidate in _candidates(best.changes):
            if str(candidate) in tried:
                continue
            if attempts <= 0:
                return best
            attempts -= 1
            tried.add(str(candidate))
            found = await play(candidate)
            if found.failure is not None and found.failure.rule is rule:
                best, changed = found, True
                break
    return best


def _candidates(changes: Sequence[SpecChange]) -> Iterator[list[SpecChange]]:
    """Shorter and simpler sequences, the shortest first."""
    if len(changes) > 2:
        yield [changes[-1]]
        yield [*changes[len(changes) // 2 :]]
    for at in range(len(changes)):
        yield [*changes[:at], *changes[at + 1 :]]
    for at, change in enumerate(changes):
        for value in simpler(change.value) if change.value is not REMOVED else ():
            yield [*changes[:at], replace(change, value=value), *changes[at + 1 :]]

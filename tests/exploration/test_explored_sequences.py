"""How a failing sequence of changes becomes as short as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.exploration.explored_sequences import shortest_sequence
from tests.exploration.results import ExplorationRule, Failure, Played
from tests.exploration.spec_changes import SpecChange


def change(name: str, value: object) -> SpecChange:
    return SpecChange(path=("spec", name), value=value)


class Game:
    """Plays sequences; `fails` decides."""

    def __init__(self, fails: Callable[[dict[str, object]], ExplorationRule | None]) -> None:
        self.fails = fails
        self.count = 0

    def played(self, changes: Sequence[SpecChange]) -> Played:
        """The sequence until it fails."""
        result = Played()
        for each in changes:
            result.changes.append(each)
            rule = self.fails({str(each.path[1]): each.value for each in result.changes})
            if rule is not None:
                result.failure = Failure(rule=rule, step=len(result.changes), message="it fails")
                break
        return result

    async def play(self, changes: Sequence[SpecChange]) -> Played:
        self.count += 1
        return self.played(changes)


LONG = [change("a", 7), change("b", "some text"), change("c", [1, 2]), change("d", 5), change("e", True)]


async def test_steps_are_left_out_and_values_become_simpler() -> None:
    def fails(spec: dict[str, object]) -> ExplorationRule | None:
        return ExplorationRule.DIFFERS if "b" in spec and "d" in spec and spec["d"] != 0 else None

    game = Game(fails)
    found = await shortest_sequence(game.played(LONG), ExplorationRule.DIFFERS, game.play, 100)
    assert found.changes == [change("b", "a"), change("d", 1)]
    assert found.failure is not None
    assert found.failure.step == 2


async def test_another_failure_is_not_taken_for_the_same() -> None:
    def fails(spec: dict[str, object]) -> ExplorationRule | None:
        if "a" not in spec:
            return ExplorationRule.CRASH
        return ExplorationRule.DIFFERS if "e" in spec else None

    game = Game(fails)
    found = await shortest_sequence(game.played(LONG), ExplorationRule.DIFFERS, game.play, 100)
    assert found.changes == [change("a", 0), change("e", True)]


async def test_no_more_sequences_are_played_than_asked_for() -> None:
    game = Game(lambda spec: ExplorationRule.DIFFERS if len(spec) == len(LONG) else None)
    found = await shortest_sequence(game.played(LONG), ExplorationRule.DIFFERS, game.play, 3)
    assert (found.changes, game.count) == (LONG, 3)

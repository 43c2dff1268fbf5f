"""Crashes and stale views at some points of one story, and the record, the comparison and the table of the runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.operator import operator
from tests.examples.example_catalog import NAMES
from tests.perturbations.history import Body, Expectation, History, described
from tests.perturbations.matrix import play_story, prepared
from tests.perturbations.perturbation import Crash, Kind, Lag, Perturbation, WritePoint
from tests.perturbations.play import REST, Outcome, play_unperturbed
from tests.perturbations.record import Record, recorded
from tests.perturbations.stories import stories
from tests.perturbations.table import BEGIN, END, HEAD, Row, replaced_table

KINDS = [Kind.CRASH, Kind.STALE]
STATES = ["shared objects", "rollout", "deletions that no operator saw", "two versions"]


def some(every: Sequence[Perturbation]) -> Sequence[Perturbation]:
    """Four points, from the first to the last part of a story."""
    return every[:: max(1, len(every) // 4)][:4]


def test_every_example_has_a_story(tmp_path: Path) -> None:
    assert {*NAMES} <= {story.name for story in stories(tmp_path)}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", ["service-index", *STATES])
async def test_a_perturbed_story_ends_as_an_undisturbed_one(
    name: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "DRAIN_DEADLINE", 0.0)
    (story,) = (each for each in stories(tmp_path) if each.name == name)
    async with prepared(cluster, [story]) as client:
        limit, record = asyncio.Semaphore(4), Record()
        rows = await play_story(story, cluster, client, tmp_path, KINDS, limit, record, choose=some)
    outcomes = [outcome for row in rows for outcome in row.outcomes]
    assert len(outcomes) == 4 * len(KINDS)
    assert any(outcome.played for outcome in outcomes)
    assert [outcome for outcome in outcomes if outcome.problem] == []


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
async def test_at_rest_no_request_goes_out(
    name: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "DRAIN_DEADLINE", 0.0)
    (story,) = (each for each in stories(tmp_path) if each.name == name)
    async with prepared(cluster, [story]) as client:
        _, run = await play_unperturbed(story, cluster, client, tmp_path, REST)
    assert run.at_rest == []


MAP, SECRET = ("configmaps", "web"), ("secrets", "web")


def body(uid: str, **rest: Any) -> Body:
    return {"metadata": {"name": "web", "uid": uid}, **rest}


def history(namespace: str, *steps: dict[tuple[str, str], Body]) -> History:
    found = History(namespace)
    found.steps += [found.values(step) for step in steps]
    return found


def secrets(namespace: str, *passwords: str, uids: Sequence[str] = ()) -> History:
    """A Secret with one password after the other, beside a ConfigMap with the name of the namespace."""
    uids = uids or [f"uid of {namespace}"] * len(passwords)
    steps = [
        {SECRET: body(uid, data={"password": password}), MAP: body("m" + namespace, data={"host": f"db.{namespace}"})}
        for uid, password in zip(uids, passwords, strict=True)
    ]
    return history(namespace, *steps)


EXPECTATION = Expectation.of(secrets("a1", "x", "x"), secrets("a2", "y", "y"))


def differences(found: History) -> str:
    return described(EXPECTATION.differences(found.steps[:-1], found.steps[-1]))


def test_a_value_that_each_run_draws_has_to_stay() -> None:
    assert differences(secrets("b1", "z", "z")) == ""
    lost = EXPECTATION.differences(secrets("b1", "z").steps, secrets("b1", "other").steps[0])
    assert [str(each) for each in lost] == [
        "secrets web/data/password is 'the value since step 1' instead of 'the value since step 0'"
    ]
    assert lost[0].lost


def test_what_a_run_draws_is_the_same_after_a_restart() -> None:
    before, same, other = (secrets("b1", password).steps[0] for password in ("z", "z", "other"))
    assert EXPECTATION.changes(before, same) == []
    assert described(EXPECTATION.changes(before, other)) == "secrets web/data/password is another one than before"


def test_an_object_that_is_recreated_has_a_uid_since_a_later_step() -> None:
    assert "secrets web/metadata/uid" in differences(secrets("b1", "z", "z", uids=["1", "2"]))


def test_what_is_the_same_in_each_run_is_compared_literally() -> None:
    found = secrets("b1", "z", "z")
    other = history("b1", {SECRET: body("u", data={"password": "z"}), MAP: body("m", data={"host": "db.other"})})
    texts = described(EXPECTATION.differences(found.steps[:1], other.steps[0]))
    assert "configmaps web/data/host is 'db.other' instead of 'db.NS'" in texts


def test_it_does_not_matter_which_address_is_free() -> None:
    one, other, third = (history("a1", {MAP: body("m", spec={"clusterIP": f"10.0.0.{last}"})}) for last in (1, 2, 3))
    expectation = Expectation.of(one, other)
    assert expectation.drawn == frozenset()
    assert expectation.differences([], third.steps[0]) == []


def test_what_is_missing_or_left_over_is_one_difference() -> None:
    found = secrets("b1", "z", "z")
    del_map = history("b1", {SECRET: body("uid of b1", data={"password": "z"}), ("secrets", "more"): body("m")})
    texts = described(EXPECTATION.differences(found.steps[:1], del_map.steps[0]))
    assert texts == "configmaps web is missing; secrets more is left over"


def test_the_operators_own_annotations_and_finalizers_are_compared() -> None:
    left = {"annotations": {"ssa-operator.dev/generated-values": "[]"}, "finalizers": ["ssa-operator.dev/cleanup"]}
    one, other = (history(name, {MAP: body(f"m{name}")}) for name in ("a1", "a2"))
    found = History("b1").values({MAP: {"metadata": {"name": "web", "uid": "m", **left}}})
    texts = described(Expectation.of(one, other).differences([], found))
    assert "annotations/ssa-operator.dev/generated-values" in texts
    assert "finalizers/0" in texts


CRASH = Crash(WritePoint(0, "patch /api/v1/namespaces/NS/secrets/a", 1), after=True)
LAG = Lag(1, "")

FIRST = Outcome(story="Echo", perturbation=str(CRASH), played=True, lost=("secrets a",), problem="secrets a is missing")
SECOND = Outcome(story="Echo", perturbation=str(LAG), played=False)


def test_outcomes_of_an_ended_run_are_found(tmp_path: Path) -> None:
    path = tmp_path / "outcomes"
    for outcome in (FIRST, SECOND):
        with recorded(path) as record:
            record.add(outcome)
    with recorded(path) as record:
        assert [record.find("Echo", each) for each in (CRASH, LAG)] == [FIRST, SECOND]
        assert record.find("blue-green", LAG) is None


def test_a_half_written_outcome_is_played_again(tmp_path: Path) -> None:
    path = tmp_path / "outcomes"
    with recorded(path) as record:
        record.add(FIRST)
        record.add(SECOND)
    path.write_bytes(path.read_bytes()[:-2])
    with recorded(path) as record:
        assert record.find("Echo", CRASH) == FIRST
        assert record.find("Echo", LAG) is None
        record.add(SECOND)
    with recorded(path) as record:
        assert record.find("Echo", LAG) == SECOND


def test_without_a_file_outcomes_are_kept_in_memory() -> None:
    with recorded(None) as record:
        record.add(SECOND)
        assert record.find("Echo", LAG) == SECOND


def outcome(*, played: bool = True, lost: tuple[str, ...] = (), problem: str = "") -> Outcome:
    return Outcome(story="a", perturbation="p", played=played, lost=lost, problem=problem)


def test_a_story_has_one_row_and_the_rows_of_the_others_stay() -> None:
    rows = [
        Row(story="a", kind=Kind.UNOBSERVED, outcomes=[outcome(problem="other uids")]),
        Row(story="a", kind=Kind.CRASH, outcomes=[outcome(), outcome(played=False), outcome()]),
        Row(story="a", kind=Kind.STALE, outcomes=[outcome(lost=("a Secret",), problem="a Secret is lost")]),
    ]
    other = "| b | 1 | 1 | 1 | 0 | 0 | 0 |"
    page = f"text\n{BEGIN}\nMeasured: before.\n\n{HEAD}| a | 9 | 9 | 9 | 9 | 9 | 9 |\n{other}\n{END}\nend\n"
    assert replaced_table(page, rows, "now") == (
        f"text\n{BEGIN}\nMeasured: now.\n\n{HEAD}| a | 2 | 1 | 1 | 1 | 0 | 1 |\n{other}\n{END}\nend\n"
    )

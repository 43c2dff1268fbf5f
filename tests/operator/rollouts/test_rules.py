"""Properties of the waves of rollouts, over parents that recover and fail in any order, and of their windows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from ssa_operator.objects.rollout_settings import Batch, Canary, RolloutSettings, Window
from ssa_operator.operator.rollouts.rules import (
    NO_PROGRESS,
    Decision,
    Member,
    Progress,
    State,
    decide,
    first_state,
    paused,
    place_of,
    planned,
    resumed,
    revision_of,
    undo_target,
    undone,
    unready_deadline,
    with_loaded,
)
from ssa_operator.operator.rollouts.windows import is_open, next_opening
from ssa_operator.rendering.folder.folder_settings import parse_settings

OLD, NEW, NEWER = "old", "new", "newer"
SETTINGS = RolloutSettings(batch=Batch(2), settle=5.0)


def member(number: int, **fields: object) -> Member:
    values = {"name": f"p{number}", "namespace": f"n{number % 3}", "ready": True, "revision": OLD, **fields}
    return Member(uid=f"uid-{number}", **{"runs": values["revision"], **values})  # type: ignore[arg-type]


class Simulation:
    """Parents that are reconciled with the revision that the state gives them. `broken` fail at a revision."""

    def __init__(self, members: list[Member], settings: RolloutSettings = SETTINGS) -> None:
        self.members = {each.uid: each for each in members}
        self.settings = settings
        self.state = with_loaded(first_state(OLD), NEW)
        self.progress: Progress = NO_PROGRESS
        self.now = 0.0
        self.broken: set[tuple[str, str]] = set()
        self.reached: dict[str, list[str]] = {uid: [] for uid in self.members}
        """The revisions that each parent got, in order."""
        self.waves: list[set[str]] = []

    def decide(self) -> Decision:
        found = decide(self.state, list(self.members.values()), self.settings, self.progress, self.now)
        state = planned(found.state, "") if found.needs_plan else found.state
        before = self.revisions()
        self.state, self.progress = json.decode(json.encode(state), type=State), found.progress
        changed = {uid for uid, revision in self.revisions().items() if revision != before[uid]}
        for uid in changed:
            self.reached[uid].append(self.revisions()[uid])
        if changed:
            self.waves.append(changed)
        return found

    def revisions(self) -> Mapping[str, str]:
        return {uid: revision_of(self.state, each) for uid, each in self.members.items()}

    def reconcile(self, *uids: str) -> None:
        """The reconcile of these parents, or of all, ends."""
        for uid in uids or tuple(self.members):
            each, revision = self.members[uid], revision_of(self.state, self.members[uid])
            if each.revision != revision:
                broken = (uid, revision) in self.broken
                before = each.runs if each.ready else each.ready_before
                after = replace(each, runs=revision, ready_before=before)
                self.members[uid] = replace(after, revision=revision, ready=not broken, stalled=broken)

    def run(self, steps: int = 60) -> None:
        for _ in range(steps):
            if not self.state.revision:
                return
            self.decide()
            self.reconcile()
            self.now += self.settings.settle


numbers = st.integers(min_value=0, max_value=12)


@settings(max_examples=15, deadline=None)
@given(count=numbers, unready=st.sets(numbers), suspended=st.sets(numbers), batch=st.integers(1, 5))
def test_each_parent_is_reached_once_and_no_wave_is_larger_than_the_batch(
    count: int, unready: set[int], suspended: set[int], batch: int
) -> None:
    members = [member(number, ready=number not in unready, suspended=number in suspended) for number in range(count)]
    run = Simulation(members, replace(SETTINGS, batch=Batch(batch)))
    run.run()
    assert not run.state.revision
    assert run.state.succeeded == NEW
    assert all(reached == [NEW] for reached in run.reached.values())
    active = {each.uid for each in members if not each.suspended}
    assert all(len(wave & active) <= batch for wave in run.waves)
    order = [uid for wave in run.waves for uid in wave & active]
    was_ready = [each.uid for each in members if each.ready]
    assert all(uid in was_ready for uid in order[: sum(uid in active for uid in was_ready)])


@settings(max_examples=15, deadline=None)
@given(count=st.integers(3, 12), broken=st.integers(0, 11), events=st.lists(st.integers(0, 11)))
def test_no_more_than_a_batch_is_unsettled_and_a_failed_parent_stops_the_rollout(
    count: int, broken: int, events: list[int]
) -> None:
    run = Simulation([member(number) for number in range(count)])
    run.broken = {(f"uid-{broken % count}", NEW)}
    for event in events:
        run.decide()
        run.reconcile(f"uid-{event % count}")
        run.now += 1.0
        unsettled = [
            uid
            for uid, each in run.members.items()
            if revision_of(run.state, each) == NEW and not (each.ready and each.revision == NEW)
        ]
        assert len(unsettled) <= 2
    run.run()
    assert run.state.revision, "it goes on although a parent failed"
    assert f"p{broken % count}" in run.state.stopped
    reached = [uid for uid, revision in run.revisions().items() if revision == NEW]
    stopped_at = {uid for wave in run.waves for uid in wave}
    assert set(reached) == stopped_at
    run.broken = set()
    failed = f"uid-{broken % count}"
    run.members[failed] = replace(run.members[failed], ready=True, stalled=False)
    run.run()
    assert not run.state.revision, "it doesn't go on although the parent is Ready again"


@settings(max_examples=15, deadline=None)
@given(count=st.integers(1, 12), cut=st.lists(st.booleans(), max_size=30))
def test_an_operator_that_restarts_at_any_moment_goes_on(count: int, cut: list[bool]) -> None:
    run = Simulation([member(number) for number in range(count)])
    for restarts in cut:
        run.decide()
        before = run.revisions()
        run.reconcile()
        if restarts:
            run.progress = NO_PROGRESS
            run.state = json.decode(json.encode(run.state), type=State)
            assert run.revisions() == before
        run.now += 2.0
    run.run()
    assert run.state.succeeded == NEW
    assert all(reached == [NEW] for reached in run.reached.values())


@settings(max_examples=15, deadline=None)
@given(count=st.integers(1, 12), at=st.integers(0, 12))
def test_a_newer_set_supersedes_and_every_parent_stays_on_its_revision_until_then(count: int, at: int) -> None:
    run = Simulation([member(number) for number in range(count)])
    run.run(at)
    before = run.revisions()
    run.state = with_loaded(run.state, NEWER)
    assert run.revisions() == before
    run.run()
    assert run.state.succeeded == NEWER
    assert all(reached in ([NEW, NEWER], [NEWER]) for reached in run.reached.values())


def test_after_a_set_that_failed_the_next_one_begins_at_the_same_canaries() -> None:
    run = Simulation([member(number) for number in range(9)])
    run.decide()
    run.decide()
    (canary,) = run.waves[0]
    run.broken = {(canary, NEW), (canary, NEWER)}
    run.run()
    assert "not Ready at revision new" in run.state.stopped
    run.state = with_loaded(run.state, NEWER)
    run.run()
    assert run.waves == [{canary}, {canary}], "a second mistake reaches another parent"
    assert "not Ready at revision newer" in run.state.stopped
    run.state = with_loaded(run.state, "good")
    run.run()
    assert run.waves[2] == {canary}
    assert run.state.succeeded == "good"


@settings(max_examples=15, deadline=None)
@given(count=st.integers(1, 12), broken=st.integers(0, 11))
def test_an_undo_takes_failed_parents_at_once_and_the_others_in_batches(count: int, broken: int) -> None:
    run = Simulation([member(number) for number in range(count)])
    failed = f"uid-{broken % count}"
    run.broken = {(failed, NEW)}
    run.run()
    assert undo_target(run.state) == OLD
    others = {uid for uid, revision in run.revisions().items() if revision == NEW} - {failed}
    run.waves.clear()
    run.state = undone(run.state, OLD)
    run.run()
    assert run.state.succeeded == OLD
    assert not run.state.revision
    assert run.waves[0] == {failed}
    assert set().union(*run.waves[1:]) == others
    assert all(len(wave) <= 2 for wave in run.waves[1:])
    assert with_loaded(run.state, NEW) == run.state, "the same files are rolled out again"
    assert undo_target(run.state) is None


def test_the_canaries_are_those_of_the_selector_and_of_several_namespaces() -> None:
    members = [member(number, labels={"tier": "canary"} if number < 2 else {}) for number in range(9)]
    selector = {"matchLabels": {"tier": "canary"}}
    run = Simulation(members, replace(SETTINGS, canary=Canary(selector=selector, count=None)))
    run.decide()
    run.decide()
    assert run.waves == [{"uid-0", "uid-1"}]
    spread = Simulation(members, replace(SETTINGS, canary=Canary(count=3)))
    spread.decide()
    spread.decide()
    assert {members[int(uid.removeprefix("uid-"))].namespace for uid in spread.waves[0]} == {"n0", "n1", "n2"}


def test_a_new_parent_gets_the_last_success_until_the_canaries_are_done() -> None:
    run = Simulation([member(number) for number in range(9)])
    run.decide()
    run.decide()
    during = member(50, revision="", ready=False)
    assert revision_of(run.state, during) == OLD
    run.reconcile()
    run.decide()
    run.now += SETTINGS.settle
    run.decide()
    after = member(51, revision="", ready=False, stalled=True)
    assert revision_of(run.state, after) == NEW
    run.members[after.uid], run.reached[after.uid] = after, []
    run.run()
    assert not run.state.revision, "a new parent stops the rollout"


def test_a_parent_that_stays_unready_stops_the_rollout_after_a_while() -> None:
    run = Simulation([member(number) for number in range(9)])
    run.decide()
    run.decide()
    (canary,) = run.waves[0]
    run.members[canary] = replace(run.members[canary], revision=NEW, runs=NEW, ready_before=OLD, ready=False)
    found = run.decide()
    assert found.due == unready_deadline(SETTINGS.settle)
    assert not run.state.stopped
    run.now += unready_deadline(SETTINGS.settle)
    run.decide()
    assert "1 parent that was Ready is not Ready at revision new" in run.state.stopped
    tolerant = Simulation([member(number) for number in range(9)], replace(SETTINGS, max_unready=1))
    tolerant.broken = {(canary, NEW)}
    tolerant.run()
    assert tolerant.state.succeeded == NEW
    assert tolerant.waves[:2] == [{canary}, tolerant.waves[1]], "what failed proves nothing"
    assert len(tolerant.waves[1]) == 1


def test_a_rollout_waits_while_it_is_paused_or_would_delete_children() -> None:
    run = Simulation([member(number) for number in range(9)])
    run.state = planned(run.state, "3 ConfigMaps")
    run.run(5)
    assert run.waves == []
    assert "3 ConfigMaps" in run.state.held
    # What ends a pause confirms no deletion.
    run.state = resumed(paused(run.state))
    run.run(5)
    assert run.waves == []
    run.state = paused(resumed(run.state))
    run.run(5)
    assert run.waves == []
    run.state = resumed(run.state)
    run.run()
    assert run.state.succeeded == NEW


def test_a_canary_that_is_suspended_is_replaced_and_a_wave_without_parents_is_not_done() -> None:
    run = Simulation([member(number) for number in range(9)])
    run.broken = {(uid, NEW) for uid in run.members}
    run.decide()
    run.decide()
    (canary,) = run.waves[0]
    run.reconcile()
    run.members[canary] = replace(run.members[canary], suspended=True)
    run.run()
    assert len(run.waves) == 2
    assert len(run.waves[1]) == 1, "a batch got a set that no parent has proven"
    alone = Simulation([member(1)])
    alone.decide()
    alone.decide()
    alone.members = {uid: replace(each, suspended=True) for uid, each in alone.members.items()}
    alone.run()
    assert alone.state.stopped
    alone.members["uid-2"], alone.reached["uid-2"] = member(2, ready=False), []
    alone.run()
    assert "no parent is left that was Ready" in alone.state.stopped
    alone.state = resumed(alone.state)
    alone.run()
    assert alone.state.succeeded == NEW


def test_parents_whose_revision_can_not_be_rendered_any_more_are_reached_from_the_canary() -> None:
    left_alone = [member(number, ready=False, revision="", runs=OLD, ready_before=OLD) for number in range(6)]
    found = decide(replace(with_loaded(first_state(OLD), NEW), planned=NEW), left_alone, SETTINGS, NO_PROGRESS, 0.0)
    reached = [each for each in left_alone if revision_of(found.state, each) == NEW]
    assert len(reached) == 1, "a batch comes without a canary"
    failed = [replace(each, revision=NEW, runs=NEW, stalled=True) if each in reached else each for each in left_alone]
    assert decide(found.state, failed, SETTINGS, found.progress, 1.0).state.stopped


def test_an_undo_waits_for_no_window_no_pause_and_no_settling() -> None:
    run = Simulation([member(number) for number in range(9)])
    run.run(6)
    run.members = {uid: replace(each, ready=False) for uid, each in run.members.items()}
    run.state = replace(with_loaded(run.state, OLD), paused=True)
    for _ in range(12):
        found = decide(run.state, list(run.members.values()), SETTINGS, run.progress, run.now, opens="tomorrow")
        run.state = planned(found.state, "") if found.needs_plan else found.state
        run.progress = found.progress
        run.reconcile()
    assert not run.state.revision
    assert set(run.revisions().values()) == {OLD}


def test_new_parents_do_not_begin_the_settling_again() -> None:
    run = Simulation([member(number) for number in range(4)])
    for number in range(30):
        run.members[f"new-{number}"] = replace(member(number, revision="", ready=False), uid=f"new-{number}")
        run.reached[f"new-{number}"] = []
        run.decide()
        run.reconcile()
        run.now += SETTINGS.settle / 2
    assert run.state.succeeded == NEW


def test_the_state_stays_small() -> None:
    members = [member(number, ready=number % 40 == 0) for number in range(24_000)]
    settings = replace(SETTINGS, batch=Batch(50, percent=True))
    state, progress, largest, now = with_loaded(first_state(OLD), NEW), NO_PROGRESS, 0, 0.0
    for number in range(14):
        state = with_loaded(state, f"set {number}")
        for _ in range(4):
            found = decide(state, members, settings, progress, now)
            state, progress = planned(found.state, "") if found.needs_plan else found.state, found.progress
            largest = max(largest, len(json.encode(state)))
            reached = {each.uid for each in members if revision_of(state, each) == state.target}
            members = [
                replace(each, runs=state.target, ready_before=OLD, revision=state.target)
                if each.uid in reached
                else each
                for each in members
            ]
            now += SETTINGS.settle
    assert largest < 50 * 1024
    assert len(state.revisions) <= 12


@pytest.mark.parametrize("percent", [1, 10, 100])
def test_a_percentage_is_rounded_down_and_is_at_least_one(percent: int) -> None:
    assert Batch(percent, percent=True).of(25) == max(1, 25 * percent // 100)
    assert place_of("a") != place_of("b")


def window(schedule: str, duration: str, zone: str = "UTC") -> Window:
    text = f"rollout: {{window: {{schedule: '{schedule}', duration: {duration}, timeZone: {zone}}}}}"
    rollout = parse_settings("_settings.yaml", text).rollout
    assert rollout is not None
    assert rollout.window is not None
    return rollout.window


@pytest.mark.parametrize(
    ("schedule", "duration", "moment", "opens"),
    [
        ("0 2 * * *", "4h", "2026-01-05 02:00:00", True),
        ("0 2 * * *", "4h", "2026-01-05 05:59:59", True),
        ("0 2 * * *", "4h", "2026-01-05 06:00:00", False),
        ("0 2 * * *", "4h", "2026-01-05 01:59:59", False),
        ("0 22 * * 5", "8h", "2026-01-10 05:00:00", True),  # a Saturday
        ("0 22 * * 5", "8h", "2026-01-11 05:00:00", False),
        ("0 0 * * 0,7", "1d", "2026-01-11 12:00:00", True),
        ("*/30 * * * *", "1m", "2026-01-05 10:30:59", True),
        ("*/30 * * * *", "1m", "2026-01-05 10:31:00", False),
        ("0 0 13 * 5", "1h", "2026-02-13 00:30:00", True),
        ("0 0 13 * 5", "1h", "2026-02-20 00:30:00", True),  # cron takes either day
        ("0 0 13 * 5", "1h", "2026-02-21 00:30:00", False),
        ("0 0 1-7/2 3 *", "1h", "2026-03-03 00:30:00", True),
        ("0 0 1-7/2 3 *", "1h", "2026-03-04 00:30:00", False),
    ],
)
def test_a_window_is_open_from_each_start_for_its_duration(
    schedule: str, duration: str, moment: str, opens: bool
) -> None:
    for zone in ("UTC", "America/New_York"):
        now = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone)).timestamp()
        assert is_open(window(schedule, duration, zone), now) is opens


@pytest.mark.parametrize(
    ("schedule", "zone", "moment", "opens"),
    [
        ("0 2 * * 1-5", "UTC", "2026-01-02T06:00+00:00", "2026-01-05T02:00+00:00"),  # from Friday to Monday
        ("0 2 * * *", "Europe/Berlin", "2026-01-05T01:30+00:00", ""),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T00:00+00:00", "2026-03-30T02:30+02:00"),  # 02:30 is skipped
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00+02:00", "2026-10-25T02:30+02:00"),
        ("0 0 29 2 *", "UTC", "2096-03-01T00:00+00:00", "2104-02-29T00:00+00:00"),
        ("0 0 31 2 *", "UTC", "2026-01-05T00:00+00:00", "never"),
    ],
)
def test_the_next_opening_of_a_window_is_known(schedule: str, zone: str, moment: str, opens: str) -> None:
    now = datetime.fromisoformat(moment).timestamp()
    assert next_opening(window(schedule, "1h", zone), now) == opens

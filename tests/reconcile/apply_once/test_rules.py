"""Manifests that are applied once: their records, and what the plan does with them."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.readiness import ReadinessState
from ssa_operator.reconcile import apply_once
from ssa_operator.reconcile.apply_once import FinalState, OnceRecord
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.plan import make_plan
from tests.objects.example_objects import PARENT_UID, document, observed, parent, rendered

JOB = GroupKind("batch", "Job")
IDENTITY = Identity("batch", "Job", "default", "migrate")
KINDS = {JOB: KindState(namespaced=True, synced=True)}


def job(image: str = "a", **annotations: str) -> dict[str, Any]:
    notes = {"ssa-operator.dev/apply": "Once"} | {
        f"ssa-operator.dev/{name}": text for name, text in annotations.items()
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate", "annotations": notes},
        "spec": {"template": {"spec": {"containers": [{"name": "a", "image": image}]}}},
    }


def live_job(*conditions: str, labels: dict[str, str] | None = None, **metadata: Any) -> LiveObject:
    return LiveObject.of(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "migrate",
                "namespace": "default",
                "uid": "j-1",
                "resourceVersion": "7",
                "labels": {PARENT_UID_LABEL: PARENT_UID} if labels is None else labels,
            }
            | metadata,
            "status": {"conditions": [{"type": each, "status": "True"} for each in conditions]},
        }
    )


def records(end: FinalState = FinalState.UNSEEN, body: dict[str, Any] | None = None) -> ParentRecords:
    """The records of a Job that was applied once."""
    return apply_once.with_once_record(
        ParentRecords(), IDENTITY, OnceRecord(apply_once.digest(document(body or job()), parent()), end)
    )


def planned(*lives: LiveObject, kept: ParentRecords | None = None, body: dict[str, Any] | None = None) -> Child:
    seen = observed(*lives, kinds=KINDS, records=kept or ParentRecords())
    (step,) = make_plan(seen, rendered(body or job())).steps
    return step


def test_a_manifest_without_a_record_is_applied() -> None:
    assert planned().action is Action.APPLY


@pytest.mark.parametrize("end", [FinalState.UNSEEN, FinalState.READY])
def test_an_object_that_is_gone_is_not_applied_again_and_counts_as_ready(end: FinalState) -> None:
    step = planned(kept=records(end))
    assert step.action is Action.KEEP
    assert step.once_readiness is not None
    assert step.once_readiness.state is ReadinessState.CURRENT


def test_an_object_that_failed_and_is_gone_stays_failed() -> None:
    step = planned(kept=records(FinalState.FAILED))
    assert step.action is Action.KEEP
    assert step.once_readiness is not None
    assert step.once_readiness.state is ReadinessState.FAILED


def test_an_object_that_existed_before_is_requested_in_each_reconcile_and_reported_as_such() -> None:
    theirs = live_job("Complete", labels={})
    first = planned(theirs)
    assert first.action is Action.KEEP
    kept = apply_once.record_outcome(ParentRecords(), first.ended(Result.UNCHANGED, live=theirs), parent(), 0.0)
    assert apply_once.once_record(kept, IDENTITY) == OnceRecord(records_digest(), FinalState.READY, existed_before=True)
    # No watch shows it.
    plan = make_plan(observed(kinds=KINDS, records=kept), rendered(job()))
    assert [*plan.unseen] == [IDENTITY]
    (there,) = make_plan(observed(kinds=KINDS, records=kept, unlabelled={IDENTITY: theirs}), rendered(job())).steps
    assert (there.action, there.live, there.once_readiness) == (Action.KEEP, theirs, None)
    assert there.reason == "existed before it would have been applied once and is left alone"
    assert plan.steps[0].once_readiness is not None
    assert plan.steps[0].once_readiness.message.startswith(
        "existed before it would have been applied once, became ready and"
    )
    # An object that the operator created is not requested.
    assert make_plan(observed(kinds=KINDS, records=records()), rendered(job())).unseen == {}


def test_a_changed_manifest_is_applied_when_the_old_object_is_gone() -> None:
    changed = job("b")
    assert planned(live_job(), kept=records(), body=changed).action is Action.KEEP
    assert planned(kept=records(), body=changed).action is Action.APPLY


def test_an_object_that_exists_is_left_alone() -> None:
    for kept in (ParentRecords(), records()):
        step = planned(live_job(), kept=kept)
        assert (step.action, step.once_readiness) == (Action.KEEP, None)


def test_an_object_that_is_being_deleted_counts_as_gone() -> None:
    going = live_job("Complete", deletionTimestamp="2026-01-01T00:00:00Z")
    assert planned(going, kept=records()).once_readiness is not None
    assert planned(going, kept=records(), body=job("b")).action is Action.WAIT


def test_an_object_that_an_earlier_process_created_without_a_record_counts_as_applied() -> None:
    for live in (live_job(), live_job(deletionTimestamp="2026-01-01T00:00:00Z")):
        step = planned(live)
        assert step.action is Action.KEEP
        # Dependants wait until its final state is known.
        assert (step.once_readiness is None) or (step.once_readiness.state is ReadinessState.TERMINATING)
        outcome = step.ended(Result.UNCHANGED, live=step.live)
        assert apply_once.once_record(
            apply_once.record_outcome(ParentRecords(), outcome, parent(), 0.0), IDENTITY
        ) == OnceRecord(records_digest())


def records_digest() -> str:
    return apply_once.digest(document(job()), parent())


def test_a_job_of_a_former_parent_of_the_same_name_is_recreated() -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Echo", "name": "web", "uid": "old", "controller": True}
    left = live_job("Complete", labels={PARENT_UID_LABEL: "old"}, ownerReferences=[owner])
    assert planned(left).action is Action.RECREATE


def test_a_recreated_parent_with_the_old_annotations_starts_without_records() -> None:
    again = parent(uid="new")
    seen = observed(kinds=KINDS, records=records(FinalState.READY), parent=again)
    assert make_plan(seen, rendered(job())).steps[0].action is Action.APPLY


def test_the_digest_is_of_what_the_author_wrote() -> None:
    plain = records_digest()
    assert apply_once.digest(document(job("b")), parent()) != plain
    assert apply_once.digest(document(job(recreate="Orphan", prune="false")), parent()) == plain
    turned = {key: job()[key] for key in reversed(job())}
    assert apply_once.digest(document(turned), parent()) == plain
    bare = {**job(), "metadata": {"name": "migrate"}}
    assert apply_once.digest(document(bare), parent()) == plain


def test_a_generated_value_is_no_part_of_the_digest() -> None:
    found = set()
    for value in ("first-value", "other-value"):
        made = dataclasses.replace(
            document(job(f"{value} {base64.b64encode(value.encode()).decode()}")), generated_values=(value,)
        )
        found.add(apply_once.digest(made, parent()))
    assert len(found) == 1


def outcome_of(live: LiveObject | None, kept: ParentRecords, result: Result = Result.UNCHANGED) -> Child:
    step = planned(*([live] if live else []), kept=kept)
    return step.ended(result, live=live)


@pytest.mark.parametrize(
    ("before", "live", "after"),
    [
        (FinalState.UNSEEN, live_job(), FinalState.UNSEEN),
        (FinalState.UNSEEN, live_job("Complete"), FinalState.READY),
        (FinalState.UNSEEN, live_job("Complete", deletionTimestamp="2026-01-01T00:00:00Z"), FinalState.READY),
        (FinalState.UNSEEN, live_job("Failed"), FinalState.FAILED),
        (FinalState.READY, live_job("Failed"), FinalState.READY),
        (FinalState.READY, None, FinalState.READY),
        (FinalState.FAILED, None, FinalState.FAILED),
        (FinalState.FAILED, live_job("Complete"), FinalState.READY),
    ],
)
def test_the_record_holds_the_final_state(before: FinalState, live: LiveObject | None, after: FinalState) -> None:
    kept = records(before)
    found = apply_once.once_record(apply_once.record_outcome(kept, outcome_of(live, kept), parent(), 0.0), IDENTITY)
    assert found == OnceRecord(records_digest(), after)


def test_the_record_is_of_the_old_manifest_while_the_old_object_exists() -> None:
    kept = records()
    step = planned(live_job("Complete"), kept=kept, body=job("b"))
    after = apply_once.record_outcome(kept, step.ended(Result.UNCHANGED, live=step.live), parent(), 0.0)
    assert apply_once.once_record(after, IDENTITY) == OnceRecord(records_digest(), FinalState.READY)


def test_an_object_that_is_applied_again_has_a_new_record() -> None:
    kept = records(FinalState.READY)
    step = planned(kept=kept, body=job("b"))
    after = apply_once.record_outcome(kept, step.ended(Result.CREATED, live=live_job()), parent(), 0.0)
    assert apply_once.once_record(after, IDENTITY) == OnceRecord(apply_once.digest(document(job("b")), parent()))


@pytest.mark.parametrize("result", [Result.FAILED, Result.WAITING])
def test_an_apply_that_failed_is_not_recorded(result: Result) -> None:
    assert (
        apply_once.record_outcome(ParentRecords(), outcome_of(None, ParentRecords(), result), parent(), 0.0)
        == ParentRecords()
    )


def test_a_record_that_can_not_be_written_is_a_retryable_failure() -> None:
    failed = apply_once.unrecorded_outcome(outcome_of(None, ParentRecords(), Result.CREATED), "403")
    assert (failed.result, failed.retryable) == (Result.FAILED, True)
    assert "migrate is applied once, and that can't be recorded on its parent: 403" in failed.message


def test_dependants_do_not_wait_for_an_object_that_is_gone_unless_it_failed() -> None:
    assert apply_once.is_done(records(FinalState.READY).once_records, "Job", "migrate")
    assert apply_once.is_done(records().once_records, "Job", "migrate")
    assert not apply_once.is_done(records(FinalState.FAILED).once_records, "Job", "migrate")
    assert not apply_once.is_done(records().once_records, "Job", "other")
    assert not apply_once.is_done({"finalize/Job.batch/default/migrate": "done"}, "Job", "migrate")


@pytest.mark.parametrize(
    ("condition", "end"),
    [("Complete", FinalState.READY), ("Failed", FinalState.FAILED), ("Suspended", FinalState.UNSEEN)],
)
def test_the_last_known_state_of_a_deleted_object_is_its_final_state(condition: str, end: FinalState) -> None:
    last = {IDENTITY: live_job(condition, deletionTimestamp="2026-01-01T00:00:00Z")}
    hook = {"finalize/Job.batch/default/hook": "done"}
    before = replace(records(), once_records=hook | dict(records().once_records))
    found = apply_once.with_final_states(before, last[IDENTITY].parent_uid, last.get, 0.0)
    assert apply_once.once_record(found, IDENTITY) == OnceRecord(records_digest(), end)
    assert found.once_records["finalize/Job.batch/default/hook"] == "done"
    ready = records(FinalState.READY)
    assert apply_once.with_final_states(ready, last[IDENTITY].parent_uid, last.get, 0.0) == ready
    assert apply_once.with_final_states(before, "another-parent", last.get, 0.0) == before


@pytest.mark.parametrize("identity", [IDENTITY, Identity("", "Namespace", "", "team"), Identity("a.b", "C", "d", "e")])
def test_a_key_leads_back_to_its_object(identity: Identity) -> None:
    seen: list[Identity] = []
    apply_once.with_final_states(
        apply_once.with_once_record(ParentRecords(), identity, OnceRecord("d")), "u", seen.append, 0.0
    )
    assert seen == [identity]


def test_only_the_newest_records_of_unrendered_manifests_are_kept() -> None:
    kept = ParentRecords(once_records={"finalize/Job.batch/default/hook": "done"})
    identities = [
        Identity("batch", "Job", "default", f"j{number}") for number in range(apply_once.UNRENDERED_LIMIT + 10)
    ]
    for identity in identities:
        kept = apply_once.with_once_record(kept, identity, OnceRecord("d"))
    left = apply_once.trim_once_records(kept, identities[:5])
    assert len(left.once_records) == apply_once.UNRENDERED_LIMIT + 5 + 1
    assert apply_once.once_record(left, identities[4]) is not None
    assert apply_once.once_record(left, identities[5]) is None
    assert apply_once.once_record(left, identities[-1]) is not None
    assert apply_once.trim_once_records(left, identities[:5]) == left

"""The finalize hooks of a deletion: when they run, wait, are done or are skipped."""

from __future__ import annotations

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.render_result import RenderProblem, StatusFields
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.status.report import make_deletion_report
from tests.objects.example_objects import parent
from tests.reconcile.finalization.deletions import (
    COMPLETE,
    FAILED,
    NOW,
    Cluster,
    job,
    live,
    space,
    waiting,
)


def test_a_hook_that_was_done_does_not_run_again_after_its_ttl_deleted_it() -> None:
    cluster = Cluster(
        ParentRecords(inventory={space("s"): 1}, has_finalizer=True), {space("s"): live(space("s"))}, ("h",)
    )
    cluster.objects[job("h")] = live(job("h"), COMPLETE)
    finalization = cluster.plan()
    assert finalization.hooks_done
    cluster.records = finalization.records  # the process dies here, and the Job goes
    del cluster.objects[job("h")]
    cluster.act(cluster.plan())
    assert cluster.done == ["deleted s"]


def test_a_failed_hook_is_recreated_only_after_a_backoff() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {job("h"): live(job("h"), FAILED)}, ("h",))
    cluster.now = NOW + 0.1
    waiting = cluster.plan()
    assert [step.action for step in waiting.plan.steps] == [Action.UNCHANGED]
    assert waiting.plan.rendered.again_at == NOW + 8
    cluster.now = NOW + 8
    assert [step.action for step in cluster.plan().plan.steps] == [Action.RECREATE]


def test_a_hook_that_can_not_be_rendered_does_not_block_the_deletion() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {})
    assert cluster.plan(problems=(RenderProblem("no field x"),)).finished


def test_only_hooks_that_are_skipped_are_reported_as_skipped() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {}, hooks=("bye",))
    broken, stale = RenderProblem("no field x"), RenderProblem("unexpected '}'", outdated=True)
    report = make_deletion_report(parent(), cluster.plan(problems=(broken, stale)), (), StatusFields(), NOW)
    message = report.verdict.message
    assert "skipped because it can't be rendered: no field x" in message
    assert "the last good templates are in use because new ones can't be used: unexpected '}'" in message
    assert message.count("skipped") == 1
    assert "Job default/bye" in message


def test_a_hook_that_was_done_does_not_block_the_deletion_when_its_input_is_gone() -> None:
    records = ParentRecords(once_records={"finalize/Job.batch/default/h": "done"}, has_finalizer=True)
    cluster = Cluster(records, {job("h"): live(job("h"), COMPLETE)})
    finalization = cluster.plan(waits=(waiting("h", Reference("Namespace", "s")),))
    assert finalization.finished
    assert finalization.skipped_hooks == ()


def test_a_hook_that_reads_a_missing_child_is_skipped_and_so_is_one_that_reads_that_hook() -> None:
    waits = (waiting("h", Reference("Namespace", "s")), waiting("second", Reference("Job", "h")))
    finalization = Cluster(ParentRecords(has_finalizer=True), {}).plan(waits=waits)
    assert finalization.finished
    assert [each.partition(":")[0] for each in finalization.skipped_hooks] == ["Job default/h", "Job default/second"]
    assert "Namespace/s, which does not exist" in finalization.skipped_hooks[0]


def test_a_hook_waits_for_a_child_that_it_reads_and_that_exists() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {space("s"): live(space("s"))})
    finalization = cluster.plan(waits=(waiting("h", Reference("Namespace", "s")),))
    assert not finalization.hooks_done
    assert "waiting for Namespace/s to be ready" in finalization.awaited


def test_a_hook_is_not_skipped_before_the_watch_of_what_it_reads_has_synced() -> None:
    finalization = Cluster(ParentRecords(has_finalizer=True), {}).plan(waits=(waiting("h", Reference("Service", "s")),))
    assert not finalization.hooks_done


def test_no_hook_runs_in_a_namespace_that_is_being_deleted() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {}, ("h",), terminating="default")
    assert cluster.plan().finished
    assert "namespace default, which is being deleted" in cluster.plan().skipped_hooks[0]

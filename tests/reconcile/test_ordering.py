"""When the dependencies of a manifest are satisfied, and what the status reports until then."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.annotations import PREFIX, Reference
from ssa_operator.objects.cluster_view import Lookup, Selection
from ssa_operator.objects.dependency_graph import Edge
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import (
    Dependency,
    Document,
    Rendered,
    RenderProblem,
    StatusFields,
    Wait,
    WaitTarget,
)
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.apply_once import FinalState, OnceRecord
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.finalization.rules import make_finalization
from ssa_operator.reconcile.ordering import depths, inputs_changed, stages, waiting_outcome
from ssa_operator.reconcile.plan import Plan, make_plan
from ssa_operator.reconcile.resync.unchanged import apply_record
from ssa_operator.reconcile.status.report import Report, make_report
from tests.objects.example_objects import (
    CONFIG_MAP,
    DEPLOYMENT,
    child,
    config_map,
    config_map_identity,
    document,
    job,
    made,
    observed,
    parent,
)

NOW = 1_767_268_800.0
KINDS = {kind: KindState(namespaced=True, synced=True) for kind in (CONFIG_MAP, DEPLOYMENT, GroupKind("batch", "Job"))}
MIGRATE = Reference("Job", "migrate")


def after(body: dict[str, Any], *references: Reference) -> Document:
    return dataclasses.replace(
        document(body), dependencies=tuple(Dependency(each, awaited=True, after=True) for each in references)
    )


def plan_of(
    *documents: Document, live: tuple[LiveObject, ...] = (), rendered: Rendered | None = None, **seen: Any
) -> Plan:
    result = dataclasses.replace(rendered or Rendered(), documents=documents)
    return make_plan(observed(*live, kinds=KINDS, **seen), result)


def live_job(**status: Any) -> LiveObject:
    metadata = {"name": "migrate", "namespace": "default", "uid": "j", "resourceVersion": "9", "generation": 1}
    return LiveObject.of(job(metadata=metadata, status=status))


def done(step: Child, live: LiveObject | None, result: Result = Result.UNCHANGED, **more: Any) -> dict[Any, Child]:
    return {step.identity: step.ended(result, live=live, **more)}


COMPLETE = live_job(conditions=[{"type": "Complete", "status": "True"}])
FAILED = live_job(
    conditions=[{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "limit reached"}]
)


def test_a_manifest_is_applied_after_the_one_that_it_names() -> None:
    first, second = plan_of(document(job()), after(config_map(), MIGRATE)).steps
    assert (first.action, second.action) == (Action.APPLY, Action.APPLY)
    assert [depths([first, second])[step.identity] for step in (first, second)] == [0, 1]
    assert waiting_outcome(second, done(first, COMPLETE), NOW) is None
    waiting = waiting_outcome(second, done(first, live_job(), Result.CREATED), NOW)
    assert waiting is not None
    assert (waiting.result, waiting.message) == (Result.WAITING, "waiting for Job/migrate to be ready")


def test_steps_without_dependencies_have_no_depths() -> None:
    assert depths(plan_of(document(job()), document(config_map())).steps) == {}


def test_a_manifest_that_was_applied_once_and_deleted_since_satisfies_its_dependents_unless_it_failed() -> None:
    first, second = plan_of(document(job()), after(config_map(), MIGRATE)).steps
    for end, satisfied in ((FinalState.READY, True), (FinalState.UNSEEN, True), (FinalState.FAILED, False)):
        gone = replace(first, action=Action.KEEP, once_readiness=OnceRecord("d", end).readiness_when_gone)
        assert (waiting_outcome(second, done(gone, None), NOW) is None) is satisfied


def hook(body: dict[str, Any], *references: Reference) -> Document:
    return after(body | {"metadata": body["metadata"] | {"annotations": {f"{PREFIX}on": "finalize"}}}, *references)


def test_finalize_hooks_come_after_each_other_and_after_children_that_still_exist() -> None:
    hooks = (hook(job("backup"), Reference("ConfigMap", "settings")), hook(job("b"), Reference("Job", "backup")))
    seen = observed(child(), kinds=KINDS, parent=parent(deletionTimestamp="2026-01-01T00:00:00Z"))
    steps = make_finalization(seen, Rendered(documents=hooks), NOW).plan.steps
    assert [depths(steps)[step.identity] for step in steps] == [1, 2, 0]
    outcomes = done(steps[2], child())
    assert waiting_outcome(steps[0], outcomes, NOW) is None
    waiting = waiting_outcome(steps[1], outcomes | done(steps[0], live_job(), Result.CREATED), NOW)
    assert waiting is not None
    assert waiting.message == "waiting for Job/backup to be ready"


def test_a_dependency_with_wait_false_only_has_to_exist() -> None:
    careless = job(metadata={"annotations": {f"{PREFIX}wait": "false"}})
    first, second = plan_of(document(careless), after(config_map(), MIGRATE)).steps
    assert waiting_outcome(second, done(first, live_job()), NOW) is None


@pytest.mark.parametrize("result", [Result.FAILED, Result.WAITING])
def test_a_dependent_waits_for_a_dependency_that_was_not_applied_though_its_old_state_is_ready(result: Result) -> None:
    first, second = plan_of(document(job()), after(config_map(), MIGRATE)).steps
    assert waiting_outcome(second, done(first, COMPLETE, result), NOW) is not None


def test_an_unchanged_child_does_not_wait_for_an_unready_dependency() -> None:
    live = child()
    apply_records = {live.identity: apply_record(made(config_map()), live)}
    first, second = plan_of(
        document(job()), after(config_map(), MIGRATE), live=(live,), apply_records=apply_records
    ).steps
    waiting = waiting_outcome(second, done(first, live_job()), NOW)
    assert waiting is not None
    assert waiting.result is Result.UNCHANGED
    changed = plan_of(
        document(job()), after(config_map(data={}), MIGRATE), live=(live,), apply_records=apply_records
    ).steps[1]
    waiting = waiting_outcome(changed, done(first, live_job()), NOW)
    assert waiting is not None
    assert waiting.result is Result.WAITING


def test_manifests_in_a_cycle_are_refused_with_the_path_and_all_others_applied() -> None:
    settings = Reference("ConfigMap", "settings")
    plan = plan_of(after(job(), settings), after(config_map(), MIGRATE), after(config_map("behind"), MIGRATE),
                   document(config_map("free")), live=(child("old"),))  # fmt: skip
    assert [step.action for step in plan.steps] == [
        Action.REFUSE, Action.REFUSE, Action.APPLY, Action.APPLY, Action.KEEP
    ]  # fmt: skip
    path = "is in a dependency cycle: Job/migrate -> ConfigMap/settings -> Job/migrate"
    assert all(
        step.reason.startswith(path) and step.problem is FailureReason.DEPENDENCY_CYCLE for step in plan.steps[:2]
    )
    refused = done(plan.steps[0], None, Result.FAILED)
    assert waiting_outcome(plan.steps[2], refused, NOW) is not None


def test_a_cycle_is_found_through_a_manifest_that_waits() -> None:
    uses = (Dependency(MIGRATE, awaited=True),)
    location = SourceLocation("b.yaml.j2", 3)
    identity = config_map_identity()
    wait = Wait(
        location=location, awaited=(WaitTarget(MIGRATE, state="be ready"),), identity=identity, dependencies=uses
    )
    plan = plan_of(after(job(), Reference("ConfigMap", "settings")), rendered=Rendered(waits=(wait,)))
    assert [step.problem for step in plan.steps] == [FailureReason.DEPENDENCY_CYCLE] * 2
    assert plan.steps[1].location == location


def read_by(*names: str | None, result: Result = Result.CREATED, live: LiveObject | None = COMPLETE) -> bool:
    """Whether another reconcile follows one with this outcome for the Job, for these readers of the Job."""
    uses = (Dependency(MIGRATE, awaited=True),)
    location = SourceLocation("b.yaml.j2", 3)
    waits = [
        Wait(
            location=location,
            awaited=(),
            identity=None if name is None else config_map_identity(name),
            dependencies=uses,
        )
        for name in names
        if name != "migrate"
    ]
    own = dataclasses.replace(document(job()), dependencies=uses if "migrate" in names else ())
    rendered = Rendered(documents=(own,), waits=tuple(waits), queries=(MIGRATE,))
    (step,) = plan_of(document(job())).steps
    return inputs_changed(rendered, (step.ended(result, live=live),), NOW)


def test_another_reconcile_follows_one_that_changed_what_templates_read() -> None:
    assert read_by("settings")
    assert read_by(None)
    assert read_by()  # a branch that left nothing
    assert read_by("settings", result=Result.CONFIGURED)


def test_no_reconcile_follows_one_that_changed_nothing_that_can_be_read() -> None:
    assert not read_by("settings", result=Result.UNCHANGED)
    assert not read_by("settings", live=live_job())
    assert not read_by("settings", live=FAILED)
    assert not inputs_changed(Rendered(), (), NOW)


def test_a_child_that_is_read_unready_is_read_before_it_is_ready() -> None:
    (step,) = plan_of(document(job())).steps
    outcome = step.ended(Result.CREATED, live=live_job())
    assert inputs_changed(Rendered(queries=(MIGRATE,), read_unready=frozenset({MIGRATE})), (outcome,), NOW)
    assert not inputs_changed(Rendered(queries=(MIGRATE,)), (outcome,), NOW)
    assert not inputs_changed(
        Rendered(queries=(MIGRATE,), read_unready=frozenset({Reference("Job", "other")})), (outcome,), NOW
    )


@pytest.mark.parametrize(
    ("query", "read"),
    [
        (Lookup(api_version="batch/v1", kind="Job", namespace="default", name="migrate"), True),
        (Lookup(api_version="batch/v1", kind="Job", namespace="far", name="migrate"), False),
        (Selection(api_version="batch/v1", kind="Job", namespace="", labels=()), True),
        (Selection(api_version="batch/v1", kind="Job", namespace="default", labels=(("a", "b"),)), False),
        (Selection(api_version="v1", kind="Pod", namespace="default", labels=()), False),
    ],
)
def test_an_object_that_is_looked_up_is_read_too(query: Lookup | Selection, read: bool) -> None:
    (step,) = plan_of(document(job())).steps
    outcome = step.ended(Result.CREATED, live=live_job())
    assert inputs_changed(Rendered(queries=(query,)), (outcome,), NOW) is read


def test_a_manifest_that_reads_its_own_object_is_rendered_again() -> None:
    assert read_by("migrate")
    assert read_by("migrate", "settings")


def report(plan: Plan, *lives: LiveObject | None, results: tuple[Result, ...]) -> Report:
    """The report of a reconcile in which the first steps had these results, and the others followed them."""
    outcomes: dict[Any, Child] = {}
    for step, live, result in zip(plan.steps, lives, results, strict=False):
        message = f"{step.identity} {step.reason}" if result is Result.FAILED else step.reason
        outcomes |= done(step, live, result, message=message, problem=step.problem)
    for step in plan.steps[len(results) :]:
        outcomes |= {step.identity: waiting_outcome(step, outcomes, NOW) or step.ended(Result.CREATED)}
    return make_report(parent(), plan, tuple(outcomes.values()), StatusFields(), NOW)


def message_of(found: Report, kind: str) -> str:
    entries: list[dict[str, str]] = found.status["resources"]
    return next(entry["message"] for entry in entries if entry["kind"] == kind)


def test_a_waiting_child_reports_the_progress_of_its_dependency() -> None:
    plan = plan_of(document(job()), after(config_map(), MIGRATE))
    found = report(plan, live_job(), results=(Result.CREATED,))
    assert message_of(found, "ConfigMap") == "waiting for Job/migrate to be ready (0 of 1 completions)"
    assert found.verdict.reason == "WaitingForDependency"
    assert found.verdict.message == f"ConfigMap default/settings: {message_of(found, 'ConfigMap')}"
    assert not found.verdict.stalled
    assert not found.complete


def test_a_child_that_waits_for_a_failed_job_reports_why_it_failed() -> None:
    plan = plan_of(document(job()), after(config_map(), MIGRATE))
    found = report(plan, FAILED, results=(Result.UNCHANGED,))
    assert message_of(found, "ConfigMap") == (
        "waiting for Job/migrate to be ready (it failed: BackoffLimitExceeded: limit reached)"
    )
    assert found.verdict.message.startswith("Job default/migrate: BackoffLimitExceeded: limit reached; ConfigMap")
    assert found.verdict.stalled


def test_a_child_that_waits_for_a_refused_manifest_reports_the_refusal_and_ready_has_its_reason() -> None:
    plan = plan_of(document(job(metadata={"namespace": "far"})), after(config_map(), MIGRATE))
    found = report(plan, None, results=(Result.FAILED,))
    expected = "waiting for Job/migrate to be ready (Job far/migrate is outside its parent's namespace default; "
    assert message_of(found, "ConfigMap").startswith(expected)
    assert found.verdict.reason == "InvalidManifest"


def test_a_child_that_waits_for_a_manifest_that_cannot_be_rendered_names_the_template_line() -> None:
    location = SourceLocation("job.yaml.j2", 5)
    problem = RenderProblem("spec.image is missing", location)
    known = RenderProblem("no template renders Secret/x", location, of=(plan_of(document(job())).steps[0].identity,))
    for rendered, words in (
        (Rendered(problems=(problem,)), "a template that failed may render it: job.yaml.j2:5: spec.image is missing"),
        (Rendered(problems=(known,)), "it can't be rendered: job.yaml.j2:5: no template renders Secret/x"),
    ):
        plan = plan_of(after(config_map(), MIGRATE), live=(COMPLETE,), rendered=rendered)
        found = report(plan, results=())
        assert message_of(found, "ConfigMap") == f"waiting for Job/migrate to be ready ({words})"
        assert found.verdict.reason == "RenderFailed"


def test_a_chain_of_waits_reports_its_first_cause() -> None:
    plan = plan_of(document(job()), after(config_map("b"), MIGRATE), after(config_map(), Reference("ConfigMap", "b")))
    found = report(plan, live_job(), results=(Result.CREATED,))
    b, settings = (found.status["resources"][at]["message"] for at in (0, 1))
    assert b == "waiting for Job/migrate to be ready (0 of 1 completions)"
    assert settings == "waiting for ConfigMap/b to be ready (it is waiting for Job/migrate to be ready)"


def test_a_cycle_comes_before_other_refusals_and_hides_none() -> None:
    far = document(config_map("far", metadata={"namespace": "far"}))
    plan = plan_of(far, after(job(), MIGRATE))
    found = report(plan, None, None, results=(Result.FAILED, Result.FAILED))
    assert found.verdict.reason == "DependencyCycle"
    assert "Job/migrate -> Job/migrate" in found.verdict.message
    assert "ConfigMap far/far is outside" in found.verdict.message
    assert found.verdict.stalled


def test_the_first_cause_comes_before_the_children_that_wait_for_it() -> None:
    b = config_map_identity("b")
    missing = WaitTarget(Lookup(api_version="v1", kind="Secret", namespace="default", name="x"))
    wait = Wait(location=SourceLocation("z.yaml.j2", 3), awaited=(missing,), identity=b)
    plan = plan_of(after(job(), Reference("ConfigMap", "b")), rendered=Rendered(waits=(wait,)))
    first, second = plan.steps
    outcomes = done(second, None, Result.WAITING, message=second.reason)
    waiting = waiting_outcome(first, outcomes, NOW)
    assert waiting is not None
    found = make_report(parent(), plan, (waiting, *outcomes.values()), StatusFields(), NOW)
    assert found.verdict.message == (
        "ConfigMap default/b: waiting for Secret default/x to exist; Job default/migrate: "
        "waiting for ConfigMap/b to be ready (it is waiting for Secret default/x to exist)"
    )


def test_a_manifest_after_a_custom_resource_waits_for_its_status() -> None:
    kind = GroupKind("example.com", "In")
    kinds = KINDS | {kind: KindState(namespaced=True, synced=True, reports_status=True)}
    body = {"apiVersion": "example.com/v1", "kind": "In", "metadata": {"name": "in", "namespace": "default"}}
    documents = (document(body), after(config_map(), Reference("In", "in")))
    plan = make_plan(observed(kinds=kinds), Rendered(documents=documents))
    first, second = plan.steps
    waiting = waiting_outcome(second, done(first, LiveObject.of(body)), NOW)
    assert waiting is not None
    found = report(plan, LiveObject.of(body), results=(Result.CREATED,))
    assert "(its controller has not written its status yet)" in message_of(found, "ConfigMap")
    assert (
        waiting_outcome(second, done(first, LiveObject.of(body | {"status": {"observedGeneration": 0}})), NOW) is None
    )


RBAC = "rbac.authorization.k8s.io"
CREATION_ORDER = (
    ("", "Namespace"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("", "ServiceAccount"),
    (RBAC, "Role"),
    (RBAC, "ClusterRole"),
    (RBAC, "RoleBinding"),
    (RBAC, "ClusterRoleBinding"),
    ("", "Secret"),
    ("", "ConfigMap"),
    ("", "PersistentVolumeClaim"),
    ("", "Service"),
    ("", "Pod"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("batch", "CronJob"),
    ("networking.k8s.io", "Ingress"),
    ("example.com", "Widget"),
)
"""Kinds in the order in which new objects are applied. Neighbours may be applied at once."""


def creation(group: str, kind: str, name: str = "a", *after: Identity, **fields: Any) -> Child:
    identity = Identity(group=group, kind=kind, namespace="default", name=name)
    edges = tuple(Edge(each, Dependency(Reference(each.kind, each.name), awaited=True)) for each in after)
    return replace(Child(action=Action.APPLY, identity=identity, after=edges), **fields)


def kinds_of(steps: list[Child]) -> list[list[str]]:
    return [[step.identity.kind for _, step in stage] for stage in stages(steps)]


def test_new_objects_are_applied_in_the_order_in_which_kinds_need_each_other() -> None:
    found = stages([creation(*kind) for kind in reversed(CREATION_ORDER)])
    at = {step.identity.kind: number for number, stage in enumerate(found) for _, step in stage}
    assert [at[kind] for _, kind in CREATION_ORDER] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 5, 6, 6]


def test_at_rest_nothing_waits_for_another_kind() -> None:
    steps = [creation(*kind, live=child()) for kind in CREATION_ORDER[2:]]
    assert len(stages(steps)) == 1


def test_objects_of_one_kind_are_created_at_once_beside_changes_of_other_kinds() -> None:
    steps = [creation("apps", "Deployment", "b"), creation("", "Secret", live=child()), creation("apps", "Deployment")]
    assert kinds_of(steps) == [["Deployment", "Secret", "Deployment"]]


def test_a_changed_workload_comes_after_a_secret_that_is_new() -> None:
    steps = [creation("apps", "Deployment", live=child()), creation("", "Secret"), creation("", "ConfigMap")]
    assert kinds_of(steps) == [["Secret", "ConfigMap"], ["Deployment"]]


def test_a_secret_that_reads_a_service_comes_after_it_and_before_the_workload() -> None:
    service = creation("", "Service")
    secret = creation("", "Secret", "b", service.identity)
    steps = [creation("apps", "Deployment"), secret, service]
    assert kinds_of(steps) == [["Service"], ["Secret"], ["Deployment"]]


def test_a_workload_does_not_wait_for_a_secret_that_reads_another_workload() -> None:
    job_step = creation("batch", "Job")
    steps = [creation("", "Secret", "b", job_step.identity), job_step, creation("apps", "Deployment")]
    assert kinds_of(steps) == [["Job", "Deployment"], ["Secret"]]


@given(
    st.lists(
        st.tuples(st.sampled_from(CREATION_ORDER), st.booleans(), st.booleans(), st.sets(st.integers(0, 9))),
        max_size=10,
    )
)
def test_each_step_comes_after_its_dependencies_and_before_all_prunes(
    given_steps: list[tuple[tuple[str, str], bool, bool, set[int]]],
) -> None:
    steps: list[Child] = []
    for number, (kind, exists, unchanged, after) in enumerate(given_steps):
        targets = (steps[each].identity for each in sorted(after) if each < number)
        live = child() if exists else None
        steps.append(creation(*kind, f"s{number}", *targets, live=live, unchanged=unchanged and exists))
    steps.append(creation("", "ConfigMap", "old", action=Action.PRUNE, live=child()))
    found = stages(steps)
    at = {step.identity: number for number, stage in enumerate(found) for _, step in stage}
    assert sorted(position for stage in found for position, _ in stage) == list(range(len(steps)))
    for step in steps:
        assert all(at[edge.target] < at[step.identity] for edge in step.after)
    assert [step.action for _, step in found[-1]] == [Action.PRUNE]

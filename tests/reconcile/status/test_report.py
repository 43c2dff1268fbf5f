"""The report of a reconcile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.render_result import Rendered, RenderProblem, StatusFields
from ssa_operator.objects.secret_fields import ParentSecrets, SecretFields
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.child import Child, FailureReason, Result
from ssa_operator.reconcile.plan import Plan, make_plan
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.status.report import Report, make_idle_report, make_report
from ssa_operator.reconcile.status.verdict import Verdict
from ssa_operator.rendering.jinja.predicates import compile_predicate
from tests.objects.example_objects import child, config_map, document, observed, parent, rendered

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z."""

NOTHING = StatusFields()


def report(plan: Plan, *outcomes: Child, of: LiveObject | None = None, own: StatusFields = NOTHING) -> Report:
    return make_report(of or parent(), plan, outcomes, own, NOON)


def applied(live: LiveObject, **own: Any) -> Report:
    plan = make_plan(observed(live), rendered(config_map()))
    outcome = plan.steps[0].ended(Result.CONFIGURED, live=live)
    return report(plan, outcome, own=StatusFields(**own))


def failed(message: str, **fields: Any) -> Report:
    plan = make_plan(observed(), rendered(config_map()))
    return report(plan, plan.steps[0].ended(Result.FAILED, message=message, **fields))


def ready_condition(found: Report) -> dict[str, Any]:
    conditions: list[dict[str, Any]] = found.status["conditions"]
    return next(condition for condition in conditions if condition["type"] == "Ready")


def test_a_status_template_that_fails_leaves_its_fields_as_they_were() -> None:
    before = {"createdAt": "2026-01-01T00:00:00Z", "theirs": 1, "conditions": []}
    written: dict[str, Any] = {"f:status": {"f:createdAt": {}, "f:conditions": {}}}
    entry = {"manager": MANAGER, "operation": "Apply", "subresource": "status", "fieldsV1": written}
    own = StatusFields(problems=(RenderProblem("no"),))
    plan = make_plan(observed(), rendered())
    found = report(plan, of=parent(status=before, managedFields=[entry]), own=own)
    assert found.status["createdAt"] == "2026-01-01T00:00:00Z"
    assert "theirs" not in found.status
    assert ready_condition(found)["reason"] == "RenderFailed"
    assert "createdAt" not in report(plan, of=parent(status=before), own=own).status


def test_a_problem_of_a_whole_folder_is_reported_once() -> None:
    problem = RenderProblem("no")
    plan = make_plan(observed(), rendered(problems=(problem,)))
    assert ready_condition(report(plan, own=StatusFields(problems=(problem,))))["message"] == "no"


def test_a_parent_whose_children_are_current_is_ready() -> None:
    found = applied(child())
    assert found.status["conditions"] == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": "ConfigMap default/settings is ready",
            "lastTransitionTime": "2026-01-01T12:00:00Z",
            "observedGeneration": 1,
        }
    ]
    assert found.status["observedGeneration"] == 1
    assert found.status["resources"] == [
        {"group": "", "kind": "ConfigMap", "namespace": "default", "name": "settings", "uid": "c-1", "state": "Current"}
    ]
    assert found.complete


def test_a_failure_names_the_template_line_the_object_and_whether_it_is_stalled() -> None:
    found = failed(
        "ConfigMap default/settings: no", problem=FailureReason.APPLY_FAILED, location=SourceLocation("a.yaml.j2", 7)
    )
    condition = ready_condition(found)
    assert condition["reason"] == "ApplyFailed"
    assert condition["message"] == "a.yaml.j2:7: ConfigMap default/settings: no"
    assert {each["type"] for each in found.status["conditions"]} == {"Ready", "Stalled"}
    assert not found.complete


def test_a_retryable_failure_is_reconciling_not_stalled() -> None:
    found = failed("later", problem=FailureReason.APPLY_FAILED, retryable=True, retry_after=3.0)
    assert {each["type"] for each in found.status["conditions"]} == {"Ready", "Reconciling"}
    assert (found.retryable, found.retry_after) == (True, 3.0)


def test_files_that_do_not_load_are_no_failure_of_a_parent_that_goes_on() -> None:
    broken = RenderProblem("unexpected '}'", SourceLocation("a.yaml.j2", 3), outdated=True)
    plan = make_plan(observed(), rendered(problems=(broken,)))
    found = report(plan)
    condition = ready_condition(found)
    assert (condition["status"], condition["reason"]) == ("True", "Ready")
    assert condition["message"] == (
        "no manifest is rendered; the last good templates are in use because new ones can't be used: "
        "a.yaml.j2:3: unexpected '}'; close an expression with two braces: {{ name }}"
    )
    assert not found.verdict.stalled
    failed = report(make_plan(observed(), rendered(problems=(broken, RenderProblem("spec.x is missing")))))
    assert ready_condition(failed)["reason"] == "RenderFailed"
    assert ready_condition(failed)["message"].startswith("spec.x is missing; the last good templates are in use")


def test_a_template_that_fails_comes_first_in_the_message_with_every_other_failure_after_it() -> None:
    plan = make_plan(
        observed(),
        rendered(config_map(), problems=(RenderProblem("spec.x is missing", SourceLocation("b.yaml.j2", 3)),)),
    )
    found = report(plan, plan.steps[0].ended(Result.FAILED, message="refused", problem=FailureReason.APPLY_FAILED))
    condition = ready_condition(found)
    assert condition["reason"] == "RenderFailed"
    assert condition["message"] == "b.yaml.j2:3: spec.x is missing; echoes.example.com/a.yaml.j2:1: refused"


def test_the_transition_time_changes_only_when_the_status_does() -> None:
    before = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}]}
    owner = parent(status=before)
    plan = make_plan(observed(child()), rendered(config_map()))
    same = report(plan, plan.steps[0].ended(Result.UNCHANGED, live=child()), of=owner)
    assert ready_condition(same)["lastTransitionTime"] == "2025-01-01T00:00:00Z"
    broken = report(plan, plan.steps[0].ended(Result.FAILED, problem=FailureReason.APPLY_FAILED), of=owner)
    assert ready_condition(broken)["lastTransitionTime"] == "2026-01-01T12:00:00Z"


def test_the_fields_of_a_status_template_never_replace_ours() -> None:
    found = applied(child(), fields={"phase": "Up", "conditions": "mine", "resources": 3, "observedGeneration": 9})
    assert found.status["phase"] == "Up"
    assert found.status["observedGeneration"] == 1
    assert isinstance(found.status["conditions"], list)


def test_a_status_template_that_fails_is_reported_and_blocks_no_apply() -> None:
    found = applied(child(), problems=(RenderProblem("spec.x is missing", SourceLocation("_status.yaml.j2", 2)),))
    assert ready_condition(found)["message"] == "_status.yaml.j2:2: spec.x is missing"
    assert found.complete


def test_a_long_cause_does_not_displace_the_others() -> None:
    plan = make_plan(observed(), rendered(*(config_map(f"c{number}") for number in range(4))))
    long = f"spec.template: Invalid value: {'x' * 9000}: field is immutable"
    outcomes = [
        step.ended(Result.FAILED, message=message, problem=FailureReason.CONFLICT)
        for step, message in zip(plan.steps, (long, "second", "third", "fourth"), strict=True)
    ]
    message = ready_condition(report(plan, *outcomes))["message"]
    for words in ("spec.template: Invalid value: xxx", "xxx: field is immutable; ", "second", "third", "fourth"):
        assert words in message


def test_messages_and_lists_are_bounded() -> None:
    found = failed("x" * 100_000, problem=FailureReason.APPLY_FAILED)
    assert len(ready_condition(found)["message"]) <= 4096
    assert len(found.status["resources"][0]["message"]) <= 512


def test_a_held_prune_is_the_reason_of_ready() -> None:
    plan = make_plan(observed(child("a"), child("b"), applied_digest="t0"), rendered())
    found = report(plan, *(step.ended(Result.UNCHANGED, live=step.live) for step in plan.steps))
    assert ready_condition(found)["reason"] == "PruneHeld"
    assert [entry["state"] for entry in found.status["resources"]] == ["Current", "Current"]


def test_a_plan_with_a_blocked_prune_is_not_complete() -> None:
    plan = make_plan(observed(child("old"), child()), rendered(config_map(), problems=(RenderProblem("no"),)))
    outcomes = [step.ended(Result.UNCHANGED, live=step.live) for step in plan.steps]
    assert plan.blocked
    assert not report(plan, *outcomes).complete


def test_a_parent_for_which_nothing_is_applied_is_rendered_again_at_the_time_of_its_status_template() -> None:
    stalled = Verdict(ready=False, reason="Forbidden", message="may not", stalled=True)
    report = make_idle_report(parent(), stalled, [child("a")], StatusFields(again_at=60.0), 1.0)
    assert report.again_at == 60.0


def test_a_rule_of_readiness_quotes_nothing_of_an_object_that_holds_a_secrets_content() -> None:
    rule = compile_predicate("fail('no ' ~ data.pw)")
    plan = make_plan(observed(), Rendered(documents=(replace(document(config_map()), ready_when=rule),), digest="t1"))
    live = LiveObject.of({**child().body, "data": {"pw": "hunter2"}})
    outcome = plan.steps[0].ended(Result.UNCHANGED, live=live)
    assert "no hunter2" in report(plan, outcome).verdict.message
    secrets = ParentSecrets(children={plan.steps[0].identity: SecretFields((("data", "pw"),))})
    message = report(plan, *redacted_outcomes([outcome], secrets)).verdict.message
    assert message == "ConfigMap default/settings: ready-when fail('no ' ~ data.pw) is false"

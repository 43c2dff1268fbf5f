"""The work of each step of a reconcile is linear in the number of children: counted in instructions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup, Query, Selection
from ssa_operator.objects.dependency_graph import graph
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.render_result import Dependency, Rendered, RenderProblem, StatusFields
from ssa_operator.reconcile.child import Child, Result
from ssa_operator.reconcile.observed import Observed, RenderHistory
from ssa_operator.reconcile.ordering import inputs_changed
from ssa_operator.reconcile.plan import Plan, make_plan, render_history_after
from ssa_operator.reconcile.status.previous_status import KEPT_UNTIL, reported_successors
from ssa_operator.reconcile.status.report import make_report
from tests.instruction_counts import is_linear
from tests.objects.example_objects import (
    PARENT_UID,
    child,
    config_map,
    config_map_identity,
    document,
    observed,
    parent,
    rendered,
)

Work = Callable[[], object]


def one(number: int) -> Query:
    return Reference("ConfigMap", f"new-{number}")


def found(number: int) -> Query:
    return Lookup(api_version="v1", kind="ConfigMap", namespace="default", name=f"new-{number}")


def labelled(number: int) -> Query:
    return Selection(api_version="v1", kind="ConfigMap", namespace="default", labels=(("number", str(number)),))


QUERIES = pytest.mark.parametrize("query", [one, found, labelled], ids=["child", "lookup", "labels"])


def lives(count: int, name: str = "new") -> tuple[LiveObject, ...]:
    names = [(f"{name}-{number}", str(number)) for number in range(count)]
    return tuple(child(each, each, labels={PARENT_UID_LABEL: PARENT_UID, "number": number}) for each, number in names)


def renamed(count: int, renders: RenderHistory | None = None) -> tuple[Observed, Rendered]:
    """A parent whose children all have another name now."""
    seen = observed(*lives(count, "old"), renders=renders or RenderHistory(applied_digest="t1"))
    return seen, rendered(*(config_map(f"new-{number}") for number in range(count)))


def pairs(count: int, query: Callable[[int], Query] = one, *, awaited: bool = True) -> Rendered:
    """Children that each read another one."""
    documents = [document(config_map(f"new-{number}")) for number in range(count)]
    for number in range(count):
        reads = (Dependency(query(number), awaited=awaited),)
        documents.append(dataclasses.replace(document(config_map(f"reader-{number}")), dependencies=reads))
    return Rendered(documents=tuple(documents), queries=tuple(query(number) for number in range(count)), digest="t1")


def outcomes_of(plan: Plan, present: Sequence[LiveObject], result: Result) -> tuple[Child, ...]:
    by_identity = {live.identity: live for live in present}
    return tuple(step.ended(result, live=by_identity.get(step.identity)) for step in plan.steps)


def test_children_that_are_renamed_are_planned() -> None:
    assert is_linear(lambda count: partial(make_plan, *renamed(count)))


def test_children_that_are_renamed_again_while_their_successors_are_not_ready_are_planned() -> None:
    def prepare(count: int) -> Work:
        history = render_history_after(make_plan(*renamed(count)), RenderHistory(applied_digest="t1"), complete=False)
        return partial(make_plan, *renamed(count, history))

    assert is_linear(prepare)


def test_renamed_children_share_the_names_of_what_replaces_them() -> None:
    prunes = make_plan(*renamed(40)).steps[40:]
    assert len({id(step.successors) for step in prunes}) == 1
    assert prunes[0].successors == {config_map_identity(f"new-{number}") for number in range(40)}


def test_children_that_an_earlier_process_kept_share_the_names_of_what_replaces_them() -> None:
    entry = {"group": "", "kind": "ConfigMap", "namespace": "default", "message": f"{KEPT_UNTIL} b is ready"}
    own = lives(40)
    before = parent(status={"resources": [{**entry, "name": live.identity.name} for live in own]})
    assert len({id(successors) for successors in reported_successors(before, own).values()}) == 1


def test_children_that_wait_for_others_are_planned_and_reported() -> None:
    def prepare(count: int) -> Work:
        seen, results = observed(), pairs(count)

        def step() -> None:
            plan = make_plan(seen, results)
            make_report(parent(), plan, outcomes_of(plan, (), Result.WAITING), StatusFields(), 0.0)

        return step

    assert is_linear(prepare)


def test_children_that_wait_for_what_other_templates_failed_to_render_are_planned() -> None:
    def prepare(count: int) -> Work:
        documents = pairs(count).documents[count:]
        problems = tuple(RenderProblem("no", of=(config_map_identity(f"new-{number}"),)) for number in range(count))
        return partial(make_plan, observed(), Rendered(documents=documents, problems=problems))

    assert is_linear(prepare)


def test_cycles_are_named() -> None:
    def prepare(count: int) -> Work:
        identities = [config_map_identity(f"{number}") for number in range(2 * count)]
        reads = [
            (Dependency(Reference("ConfigMap", f"{number ^ 1}"), awaited=True),) for number in range(len(identities))
        ]
        found = graph(zip(identities, reads, strict=True))
        return lambda: [found.path(cycle) for cycle in found.cycles()]

    assert is_linear(prepare)


@QUERIES
def test_what_the_next_render_reads_is_found(query: Callable[[int], Query]) -> None:
    def prepare(count: int) -> Work:
        results, present = pairs(count, query), lives(count)
        plan = make_plan(observed(*present), results)
        # Nothing that a template reads has changed.
        changed = tuple(
            outcome
            for outcome in outcomes_of(plan, lives(count, "reader"), Result.CREATED)
            if outcome.identity.name.startswith("reader")
        )
        return partial(inputs_changed, results, changed, 0.0)

    assert is_linear(prepare)

"""What a reconcile knows when it plans is made in one place, also for a process that knows nothing of the parent."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from ssa_operator.objects.causes import Cause
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.observe import RECONCILE_AT, make_observed
from ssa_operator.reconcile.observed import Observed, ObservedChildren
from ssa_operator.reconcile.parent_records.rules import AppliedRecord, ParentRecords
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.settings import ApplyMode, ReconcileSettings
from ssa_operator.rendering.folder.loaded_folders import Folder
from tests.objects.example_objects import parent
from tests.packaging.checkout import ROOT

FOLDER = Folder(resource="echoes", group="example.com", files={})
NOTHING = ObservedChildren(objects={}, own=(), kinds={})


def observed(*, reconcile_at: str = "", **fields: Any) -> Observed:
    live = parent(annotations={RECONCILE_AT: reconcile_at} if reconcile_at else {})
    return make_observed(live, FOLDER, Rendered(digest="t1"), NOTHING, **fields)


def test_it_is_made_in_one_place() -> None:
    places = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "ssa_operator").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == Observed.__name__
    ]
    assert places == ["ssa_operator/reconcile/observe.py"]


def test_a_process_that_knows_nothing_of_a_parent_goes_by_its_records() -> None:
    records = ParentRecords(applied=AppliedRecord(templates="t0", kinds=frozenset()))
    found = observed(records=records)
    assert not found.reconciled_before
    assert found.renders.applied_digest == "t0"


def test_the_kind_of_the_parent_has_the_crd_of_its_folder() -> None:
    assert dict(observed().parents.crds) == {parent().identity.group_kind: FOLDER.name}


@pytest.mark.parametrize(
    ("causes", "apply", "applies_all"),
    [
        (Cause.PARENT, ApplyMode.ALWAYS, True),
        (Cause.RESYNC, ApplyMode.ALWAYS, True),
        (Cause.CHILD, ApplyMode.ALWAYS, False),
        (Cause.PARENT, ApplyMode.CHANGED, False),
    ],
)
def test_the_causes_and_the_settings_decide_whether_everything_is_applied(
    causes: Cause, apply: ApplyMode, applies_all: bool
) -> None:
    assert observed(causes=causes, settings=ReconcileSettings(apply=apply)).applies_all is applies_all


def test_a_new_reconcile_at_has_everything_applied() -> None:
    state = ParentState(reconcile_at="1")
    renewed, before = (observed(state=state, causes=Cause.CHILD, reconcile_at=each) for each in ("2", "1"))
    assert (renewed.renewed, renewed.applies_all) == (True, True)
    assert (before.renewed, before.applies_all) == (False, False)

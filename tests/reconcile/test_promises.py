"""The list of promises is complete, and each of them begins without a memory."""

from __future__ import annotations

import importlib

import pytest

from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile import promises
from ssa_operator.reconcile.child_history import CarriedOut, ChildHistory, NoMemory, Observation, PromiseMemory
from ssa_operator.reconcile.follow_ups.memory import FollowUps
from ssa_operator.reconcile.promises import PROMISES
from tests.packaging.checkout import ROOT

each_promise = pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)


def test_every_memory_is_in_the_list_of_promises() -> None:
    rooms = sorted(path.parent.name for path in (ROOT / "ssa_operator" / "reconcile").glob("*/memory.py"))
    modules = [importlib.import_module(f"ssa_operator.reconcile.{room}.memory") for room in rooms]
    found: set[object] = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, NoMemory) and each.__module__ == module.__name__
    }
    assert found == {*PROMISES}


@each_promise
def test_a_promise_that_remembers_nothing_is_at_rest_and_takes_no_memory(promise: type[PromiseMemory]) -> None:
    nothing = promise()
    assert nothing.at_rest
    assert nothing.due_at(0.0) is None
    assert ChildHistory().remember(nothing) == ChildHistory()


@each_promise
def test_a_reconcile_that_did_nothing_leaves_no_memory(promise: type[PromiseMemory]) -> None:
    seen = Observation(now=0.0, changed_by_user=False, deleting=False, suspended=False)
    done = CarriedOut(outcomes=(), rendered=Rendered(), before=ChildHistory(), now=0.0)
    assert promise().observed(seen).after_act(()).after(done) == promise()


def test_a_history_shows_what_was_remembered_last() -> None:
    history = ChildHistory().remember(FollowUps(1)).remember(FollowUps(2))
    assert history[FollowUps] == FollowUps(2)
    assert not history.at_rest
    assert history.due_at(5.0) == 5.0
    assert history.remember(FollowUps()) == ChildHistory()


def test_a_promise_is_asked_only_for_answers_of_its_own() -> None:
    asked = {"observed": promises.OBSERVED, "after_act": promises.AFTER_ACT, "after": promises.AFTER}
    for question, answering in (asked | {"news": promises.NEWS}).items():
        assert {*answering} == {each for each in PROMISES if question in vars(each)}


def test_no_promise_is_asked_at_the_beginning_of_a_reconcile_that_remembers_nothing() -> None:
    seen = Observation(now=0.0, changed_by_user=True, deleting=False, suspended=True)
    nothing = ChildHistory()
    assert promises.begin(nothing, seen) is nothing


def test_a_reconcile_that_teaches_nothing_leaves_the_history_as_it_is() -> None:
    history = ChildHistory().remember(FollowUps(1))
    assert promises.after_act(history, ()) == history
    assert promises.news(history, ()) == ()
    assert history.remember(history[FollowUps]) is history

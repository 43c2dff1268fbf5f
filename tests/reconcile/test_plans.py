"""The children of a parent over any sequence of changed templates and specs, foreign changes, crashes and restarts: the
plan, and what the process remembers of it, as a state machine without a cluster.

The cluster of the model only holds objects. How an API server merges and validates is tested on a real one.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import StatusFields
from ssa_operator.reconcile import promises
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.observed import Observed, RenderHistory
from ssa_operator.reconcile.parent_records.rules import ParentRecords, read_parent_records
from ssa_operator.reconcile.plan import Plan, make_plan, render_history_after
from ssa_operator.reconcile.status.report import make_report
from tests.objects.example_objects import OTHER_UID, child, config_map, observed, parent, rendered
from tests.reconcile.parent_records.test_rules import recorded

NAMES = tuple("abcdef")
TEMPLATES = {"all": frozenset(NAMES), "half": frozenset("abc"), "others": frozenset("def"), "none": frozenset[str]()}
NOW = 1_700_000_000.0


class ParentModel(RuleBasedStateMachine):
    """One parent. The rendered names are those that the templates have and the spec enables."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[Identity, LiveObject] = {}
        self.foreign = child("theirs", uid="t-1", owner=OTHER_UID)
        self.templates = "all"
        self.spec = frozenset(NAMES)
        self.reconcile_at = "0"
        self.kept = ParentRecords()
        self._forget()
        self.brought_to: str | None = None
        self.rendered_here: dict[str, set[str]] = {}
        self.made = 0

    # What people and other programs do.

    @rule(name=st.sampled_from(sorted(TEMPLATES)))
    def save_templates(self, name: str) -> None:
        self.templates = name

    @rule(spec=st.frozensets(st.sampled_from(NAMES)))
    def change_the_spec(self, spec: frozenset[str]) -> None:
        self.spec = spec

    @rule()
    def confirm(self) -> None:
        self.reconcile_at = str(int(self.reconcile_at) + 1)

    @precondition(lambda self: self.objects)
    @rule(data=st.data())
    def delete_a_child(self, data: st.DataObject) -> None:
        del self.objects[data.draw(st.sampled_from(sorted(self.objects)))]

    @rule()
    def restart(self) -> None:
        self._forget()
        self.brought_to, self.rendered_here = None, {}

    def _forget(self) -> None:
        """A new process has no state of the parent."""
        self.memories, self.renders = ChildMemories(), RenderHistory()

    # What the operator does.

    @rule()
    def reconcile(self) -> None:
        self._reconcile(steps=None)
        if self.kept.held_prune is None:
            assert {identity.name for identity in self.objects} == self._wanted()

    @rule(steps=st.integers(0, 6))
    def reconcile_and_crash(self, steps: int) -> None:
        self._reconcile(steps)
        self.restart()

    @rule()
    def converge(self) -> None:
        """After any history, two more reconciles are enough: a third one changes nothing."""
        self.reconcile()
        self.reconcile()
        before = dict(self.objects)
        plan = self._reconcile(steps=None)
        assert self.objects == before
        assert not any(step.action is Action.PRUNE for step in plan.steps)

    @invariant()
    def objects_of_other_parents_stay(self) -> None:
        assert self.foreign.parent_uid == OTHER_UID

    def _wanted(self) -> frozenset[str]:
        return TEMPLATES[self.templates] & self.spec

    def _reconcile(self, steps: int | None) -> Plan:
        """A reconcile, or its first steps."""
        before, wanted = dict(self.objects), self._wanted()
        given = rendered(*(config_map(name) for name in sorted(wanted)), digest=self.templates)
        kept = read_parent_records(recorded(self.kept))
        plan = make_plan(self._observed(kept), given)
        self.kept = replace(kept, held_prune=plan.held_prune)  # on record before anything is done
        outcomes = []
        ordered = sorted(plan.steps, key=lambda step: step.action is Action.PRUNE)
        for done, step in enumerate(ordered):
            if steps is not None and done >= steps:
                break
            outcomes.append(self._act(step))
        self._check_deletions(plan, before)
        if steps is None or len(outcomes) == len(ordered):
            report = make_report(parent(), plan, outcomes, StatusFields(), NOW)
            self.memories = promises.after(self.memories, outcomes, now=NOW)
            self.renders = render_history_after(plan, self.renders, complete=report.complete)
            self.rendered_here.setdefault(self.templates, set()).update(wanted)
            if report.complete:
                self.brought_to = self.templates
                self.kept = replace(self.kept, held_prune=None)
        return plan

    def _observed(self, kept: ParentRecords) -> Observed:
        renders = self.renders
        return observed(
            *self.objects.values(),
            others=(self.foreign,),
            apply_records={each: row.applied for each, row in self.memories.by_child.items() if row.applied},
            applies_all=False,
            applied_digest=renders.applied_digest,
            applied_children=renders.applied_children,
            rendered_before=renders.rendered if renders.digest == self.templates else frozenset(),
            reconcile_at=self.reconcile_at,
            successors=renders.successors,
            records=replace(kept, held_prune=kept.held_prune or renders.held_prune),
        )

    def _act(self, step: Child) -> Child:
        match step.action:
            case Action.APPLY:
                new = step.identity not in self.objects
                if new:
                    self.made += 1
                    self.objects[step.identity] = child(step.identity.name, uid=f"c-{self.made}")
                result = Result.CREATED if new else Result.UNCHANGED
                return step.ended(result, live=self.objects[step.identity])
            case Action.PRUNE:
                del self.objects[step.identity]
                return step.ended(Result.PRUNED)
            case _:
                return step.ended(Result.UNCHANGED, live=self.objects.get(step.identity))

    def _check_deletions(self, plan: Plan, before: dict[Identity, LiveObject]) -> None:
        """Whether this reconcile was allowed to delete what it deleted."""
        identities = [step.identity for step in plan.steps]
        assert len(identities) == len(set(identities))
        gone = {identity.name for identity in before.keys() - self.objects.keys()}
        assert not gone & self._wanted()
        assert not (plan.hold_message and gone)
        if gone and gone == {identity.name for identity in before}:
            # All children were pruned: the data decided it with known good templates, or a user confirmed.
            known = self.brought_to == self.templates or gone <= self.rendered_here.get(self.templates, set())
            hold = plan.observed.records.held_prune
            assert known or (hold is not None and hold.reconcile_at != self.reconcile_at)


ParentModel.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestParent = ParentModel.TestCase

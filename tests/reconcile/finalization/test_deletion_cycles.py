"""What a parent never deletes, and which deletions it doesn't wait for: in any order of events, every deletion ends."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.finalization.deletion_cycles import CRD, NAMESPACE, may_wait_for_parents
from ssa_operator.reconcile.finalization.rules import Finalization, make_finalization
from ssa_operator.reconcile.nested_parents import Ancestors
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.plan import make_plan
from tests.objects.example_objects import observed, parent, rendered
from tests.reconcile.finalization.deletions import NOW, live, space

BEGAN = "2026-01-01T00:00:00Z"
KINDS = {kind: KindState(namespaced=False, synced=True) for kind in (NAMESPACE, CRD)}


def report(finalizer: str) -> dict[str, Any]:
    message = f"Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances, {finalizer} in 2"
    return {"conditions": [{"type": "NamespaceFinalizersRemaining", "status": "True", "message": message}]}


def crd(name: str) -> Identity:
    return Identity(*CRD, "", name)


@pytest.mark.parametrize(
    ("found", "may_wait"),
    [
        (live(space("a"), report(FINALIZER), deletionTimestamp=BEGAN), True),
        (live(space("a"), report(FINALIZER)), False),
        (live(space("a"), report("x.y/z"), deletionTimestamp=BEGAN), False),
        (live(space("a"), {"conditions": "?"}, deletionTimestamp=BEGAN), False),
        (live(space("a"), report("x.y/z"), deletionTimestamp=BEGAN).as_partial(), True),
        (live(crd("as.b"), deletionTimestamp=BEGAN), True),
        (live(crd("as.b")), False),
        (live(Identity("b", "Echo", "", "a"), finalizers=[FINALIZER], deletionTimestamp=BEGAN), False),
    ],
)
def test_a_namespace_that_reports_the_finalizer_and_a_crd_may_wait_for_parents(
    found: LiveObject, may_wait: bool
) -> None:
    assert may_wait_for_parents(found) is may_wait


@pytest.mark.parametrize("is_ending", [False, True])
def test_only_while_what_the_parent_lives_in_is_being_deleted_no_namespace_of_parents_is_awaited(
    is_ending: bool,
) -> None:
    """An object of an earlier wave is deleted after the namespace that the parent waits for."""
    for status, awaited in ((report(FINALIZER), not is_ending), (report("x.y/z"), True)):
        there = (live(space("base")), live(space("a"), status, deletionTimestamp=BEGAN))
        records = ParentRecords(inventory={space("base"): 1, space("a"): 2}, has_finalizer=True)
        seen = observed(*there, kinds=KINDS, records=records, parent=parent(deletionTimestamp=BEGAN))
        found = make_finalization(seen, Rendered(), NOW, home_is_ending=is_ending)
        actions = {step.identity.name: step.action for step in found.plan.steps if "remains" not in step.reason}
        assert actions == ({"base": Action.KEEP, "a": Action.KEEP} if awaited else {"base": Action.PRUNE})
        assert found.awaits_parents is (awaited and status == report(FINALIZER))


OLDER, YOUNGER = "2025-12-31T23:59:59Z", "2026-01-01T00:00:01Z"


@pytest.mark.parametrize("missing", ["", "gone"])
@pytest.mark.parametrize(("created", "is_older"), [(OLDER, True), (BEGAN, False), (YOUNGER, False)])
def test_while_parents_above_are_unknown_no_namespace_that_is_older_than_the_parent_is_deleted(
    missing: str, created: str, is_older: bool
) -> None:
    kept = bool(missing) and is_older
    managed = [{"manager": "ssa-operator", "operation": "Apply", "time": created, "fieldsV1": {"f:metadata": {}}}]
    there = live(space("a"), creationTimestamp=created, managedFields=managed)
    known: dict[str, Any] = {
        "kinds": KINDS,
        "ancestors": Ancestors(missing=missing),
        "cluster_scope": True,
        "applied_digest": "t1",
    }
    records = ParentRecords(inventory={space("a"): 1}, has_finalizer=True)
    seen = observed(there, records=records, parent=parent(creationTimestamp=BEGAN), **known)
    (step,) = make_plan(seen, rendered()).steps
    assert step.action is (Action.KEEP if kept else Action.PRUNE)
    assert (step.why_kept or "").startswith("it is older than Echo default/web, and a parent above") is kept
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    (step,) = make_plan(seen, rendered(body)).steps
    assert step.manifest is not None
    assert step.manifest.deleted_by_operator is not kept
    leaving = replace(seen, parent=parent(creationTimestamp=BEGAN, deletionTimestamp=BEGAN))
    assert make_finalization(leaving, Rendered(), NOW).finished is kept


@dataclass
class Model:
    """A cluster of namespaces, CRDs and parents, in which Kubernetes and the operators delete what they have to."""

    homes: dict[str, tuple[Identity, Identity]]
    """The namespace and the CRD that each parent lives in."""
    inventories: dict[str, dict[Identity, int]]
    """The namespaces and CRDs that each parent has to delete, each with its wave."""
    chance: random.Random
    deleted: set[Identity | str] = field(default_factory=set)
    """What is being deleted."""
    gone: set[Identity | str] = field(default_factory=set)
    reports: set[Identity] = field(default_factory=set)
    """The namespaces that report the finalizer."""
    events: set[Identity | str] = field(default_factory=set)
    """The namespaces and CRDs that their controllers have to see, and the parents that have to be reconciled."""

    def delete(self, each: Identity | str) -> None:
        if each not in self.deleted:
            self.deleted.add(each)
            self.events |= {each, *self.owners(each)}

    def owners(self, each: Identity | str) -> Iterator[str]:
        """The parents that watch an object."""
        yield from (name for name, found in self.inventories.items() if each in found)

    def run(self) -> None:
        while self.events:
            each = self.chance.choice(sorted(self.events, key=str))
            self.events.remove(each)
            if each in self.deleted and each not in self.gone:
                self.reconcile(each) if isinstance(each, str) else self.control(each)

    def control(self, identity: Identity) -> None:
        """Do what Kubernetes does with a namespace or a CRD that is being deleted."""
        within = [name for name, homes in self.homes.items() if identity in homes and name not in self.gone]
        for name in within:
            self.delete(name)
        if not within:
            self.gone.add(identity)
        elif identity not in self.reports:
            self.reports.add(identity)
        else:
            return
        self.events |= {*self.owners(identity)}

    def reconcile(self, name: str) -> None:
        plan = self.plan(name)
        for step in plan.plan.steps:
            if step.action is Action.PRUNE:
                self.delete(step.identity)
        if plan.finished:
            self.gone.add(name)
            self.events |= {*self.homes[name]}

    def plan(self, name: str) -> Finalization:
        there = [
            live(
                each,
                report(FINALIZER) if each in self.reports else None,
                owner=name,
                **({"deletionTimestamp": BEGAN} if each in self.deleted else {}),
            )
            for each in self.inventories[name]
            if each not in self.gone
        ]
        namespace, definition = self.homes[name]
        body = parent(name=name, namespace=namespace.name, uid=name, deletionTimestamp=BEGAN)
        seen = observed(
            *there,
            kinds=KINDS,
            parent=body,
            crds={GroupKind("example.com", "Echo"): definition.name},
            records=ParentRecords(inventory=self.inventories[name], has_finalizer=True),
        )
        is_ending = any(map(may_wait_for_parents, there)) and any(each in self.deleted for each in seen.homes)
        return make_finalization(seen, Rendered(), NOW, home_is_ending=is_ending)


@given(data=st.data(), seed=st.integers(0, 1000))
def test_every_deletion_ends_in_any_order_of_events_without_a_look_at_other_parents(
    data: st.DataObject, seed: int
) -> None:
    """Each object has one owner, and no event but those of a parent's own children reaches it."""
    spaces, crds = [space(f"s{n}") for n in range(4)], [crd(f"c{n}") for n in range(3)]
    names = [f"p{n}" for n in range(data.draw(st.integers(1, 5)))]
    homes = {name: (data.draw(st.sampled_from(spaces)), data.draw(st.sampled_from(crds))) for name in names}
    inventories: dict[str, dict[Identity, int]] = {name: {} for name in names}
    for identity in (*spaces, *crds):
        if owner := data.draw(st.sampled_from([*names, ""])):
            inventories[owner][identity] = data.draw(st.integers(1, 2))
    model = Model(homes, inventories, random.Random(seed))
    objects: list[Identity | str] = [*names, *spaces, *crds]
    for each in data.draw(st.lists(st.sampled_from(objects), min_size=1, max_size=3)):
        model.delete(each)
    model.run()
    assert model.deleted == model.gone

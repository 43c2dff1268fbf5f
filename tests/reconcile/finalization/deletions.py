"""A cluster of a few objects in which a parent is deleted, as values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.render_result import Dependency, Rendered, Wait, WaitTarget
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.finalization.deletion_cycles import EndingNamespace
from ssa_operator.reconcile.finalization.rules import (
    Finalization,
    make_finalization,
)
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.parent_records.rules import read_parent_records as read_records
from tests.objects.example_objects import PARENT_UID, document, observed, parent
from tests.reconcile.parent_records.test_rules import recorded

JOB = GroupKind("batch", "Job")
NAMESPACE = GroupKind("", "Namespace")
NOW = 1_700_000_000.0
FINALIZE = {"ssa-operator.dev/on": "finalize"}


def hook(name: str) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": FINALIZE}, "spec": {}}


def live(
    identity: Identity, status: dict[str, Any] | None = None, owner: str = PARENT_UID, **metadata: Any
) -> LiveObject:
    body = {
        "apiVersion": f"{identity.group}/v1" if identity.group else "v1",
        "kind": identity.kind,
        "metadata": {
            "name": identity.name,
            "namespace": identity.namespace,
            "uid": f"uid-{identity.name}",
            "labels": {PARENT_UID_LABEL: owner},
        }
        | metadata,
    }
    return LiveObject.of(body | ({"status": status} if status else {}))


def job(name: str) -> Identity:
    return Identity("batch", "Job", "default", name)


def space(name: str) -> Identity:
    return Identity("", "Namespace", "", name)


FAILED = {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z"}]}
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


@dataclass
class Cluster:
    """A cluster of a few objects, and what the operator did in it."""

    records: ParentRecords
    objects: dict[Identity, LiveObject]
    hooks: tuple[str, ...] = ()
    standing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    now: float = NOW
    terminating: str = ""

    def plan(self, **more: Any) -> Finalization:
        # Through the parent's annotations, as after a restart.
        kept = read_records(recorded(self.records))
        kinds = {kind: KindState(namespaced=kind == JOB, synced=True) for kind in (JOB, NAMESPACE)}
        seen = observed(*self.objects.values(), kinds=kinds, records=kept, cluster_scope=True)
        plain = [
            dataclasses.replace(
                document({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}),
                dependencies=tuple(Dependency(Reference("Job", each), awaited=True) for each in needs),
            )
            for name, needs in self.standing.items()
        ]
        rendered = Rendered(documents=(*plain, *(document(hook(name)) for name in self.hooks)), **more)
        ending = {self.terminating: EndingNamespace(reason="is being deleted")} if self.terminating else {}
        children = replace(seen.children, own=tuple(self.objects.values()))
        return make_finalization(
            replace(
                seen,
                parent=parent(deletionTimestamp="2026-01-01T00:00:00Z"),
                children=children,
                ending_namespaces=ending,
            ),
            rendered,
            self.now,
        )

    def act(self, finalization: Finalization) -> None:
        self.records = finalization.records
        for step in finalization.plan.steps:
            match step.action:
                case Action.APPLY:
                    if step.identity not in self.objects:
                        self.done.append(f"created {step.identity.name}")
                        self.objects[step.identity] = live(step.identity)
                case Action.PRUNE | Action.RECREATE:
                    self.done.append(f"deleted {step.identity.name}")
                    del self.objects[step.identity]
                case _:
                    pass


def waiting(name: str, child: Reference) -> Wait:
    awaited = (WaitTarget(child, state="be ready"),)
    location = SourceLocation("bye.yaml.j2", 1)
    return Wait(location=location, awaited=awaited, identity=job(name), annotations=FINALIZE)

"""Objects for tests of the pure rules: the shortest body that means something, changed by what a test is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import fields

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import MANAGER, PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.manifest import Manifest, Rules, manifest
from ssa_operator.objects.parent_settings import ParentSettings
from ssa_operator.objects.render_result import Document, Rendered
from ssa_operator.objects.source_location import FieldPath, SourceLocation
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.child_memory import ChildMemories, ChildMemory
from ssa_operator.reconcile.observed import Observed, ObservedChildren, ObservedParents, RenderHistory
from ssa_operator.reconcile.plan import Plan

PARENT_UID = "11111111-0000-0000-0000-000000000000"
OTHER_UID = "22222222-0000-0000-0000-000000000000"
DEPLOYMENT = GroupKind("apps", "Deployment")
CONFIG_MAP = GroupKind("", "ConfigMap")
NAMESPACE = GroupKind("", "Namespace")


def parent(**metadata: Any) -> LiveObject:
    status = metadata.pop("status", None)
    body: dict[str, Any] = {
        "apiVersion": "example.com/v1",
        "kind": "Echo",
        "metadata": {"name": "web", "namespace": "default", "uid": PARENT_UID, "generation": 1, "resourceVersion": "5"}
        | metadata,
        "spec": {"replicas": 2},
    }
    if status is not None:
        body["status"] = status
    return LiveObject.of(
        {**body, "metadata": {key: value for key, value in body["metadata"].items() if value is not None}}
    )


def config_map(name: str = "settings", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name} | fields.pop("metadata", {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}} | fields


def document(body: Mapping[str, Any], line: int = 1) -> Document:
    location = SourceLocation("echoes.example.com/a.yaml.j2", line)

    def location_of(path: FieldPath) -> SourceLocation:
        return SourceLocation(location.file, line + len(path))

    return Document(body=body, location=location, location_of=location_of)


def rendered(*bodies: Mapping[str, Any], **fields: Any) -> Rendered:
    documents = tuple(document(body, line=10 * position + 1) for position, body in enumerate(bodies))
    return Rendered(documents=documents, **({"digest": "t1"} | fields))


def child(name: str = "settings", uid: str = "c-1", owner: str = PARENT_UID, **metadata: Any) -> LiveObject:
    """A ConfigMap as our apply left it."""
    return LiveObject.of(
        config_map(
            name,
            metadata={
                "namespace": "default",
                "uid": uid,
                "resourceVersion": "7",
                "labels": {PARENT_UID_LABEL: owner},
                "ownerReferences": [
                    {"apiVersion": "example.com/v1", "kind": "Echo", "name": "web", "uid": owner, "controller": True}
                ],
                "managedFields": [
                    {
                        "manager": MANAGER,
                        "operation": "Apply",
                        "time": "2025-01-01T00:00:00Z",
                        "fieldsV1": {"f:data": {"f:a": {}}},
                    }
                ],
            }
            | metadata,
        )
    )


def made(body: Mapping[str, Any], owner: LiveObject | None = None, **rules: Any) -> Manifest:
    return manifest(document(body), owner or parent(), Rules(**({"namespaced": True} | rules)))


_GROUPS = {
    "children": ObservedChildren,
    "parents": ObservedParents,
    "renders": RenderHistory,
    "settings": ParentSettings,
}


_ROWS = {
    "apply_records": "applied",
    "conflicts": "conflict",
    "feedback_loops": "changes",
    "recreations": "recreation",
    "shown_warnings": "warned",
}


def memories(**remembered: Any) -> ChildMemories:
    """What is remembered, by promise and child."""
    rows: dict[Identity, dict[str, Any]] = {}
    for name in _ROWS.keys() & remembered.keys():
        for identity, each in remembered.pop(name).items():
            rows.setdefault(identity, {})[_ROWS[name]] = each
    return ChildMemories(by_child={identity: ChildMemory(**row) for identity, row in rows.items()}, **remembered)


def observed(*own: LiveObject, others: tuple[LiveObject, ...] = (), **changes: Any) -> Observed:
    """What a reconcile knows; `changes` are fields of it, or of one of its groups, or what is in a memory."""
    groups: dict[str, dict[str, Any]] = {
        "children": {
            "objects": {live.identity: live for live in (*own, *others)},
            "own": own,
            "kinds": {
                CONFIG_MAP: KindState(namespaced=True, synced=True),
                DEPLOYMENT: KindState(namespaced=True, synced=True),
                NAMESPACE: KindState(namespaced=False, synced=True),
            },
        },
        "parents": {
            "existing": {
                PARENT_UID: Identity("example.com", "Echo", "default", "web"),
                OTHER_UID: Identity("example.com", "Echo", "default", "other"),
            },
        },
        "renders": {},
        "settings": {},
    }
    for name, group in _GROUPS.items():
        for field in fields(group):  # type: ignore[arg-type]
            if field.name in changes:
                groups[name][field.name] = changes.pop(field.name)
    values: dict[str, Any] = {name: group(**groups[name]) for name, group in _GROUPS.items()}
    promises = {*_ROWS, "new_names", "follows"} & changes.keys()
    values["memory"] = memories(**{name: changes.pop(name) for name in promises})
    return Observed(**({"parent": parent()} | values | changes))


def config_map_identity(name: str = "settings") -> Identity:
    return Identity("", "ConfigMap", "default", name)


def job(name: str = "migrate", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name} | fields.pop("metadata", {})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}} | fields


def actions(plan: Plan) -> dict[str, Action]:
    """What is done with each child, by its name."""
    return {step.identity.name: step.action for step in plan.steps}

"""The paths below `/api/v1` with what each takes and answers, for the routes and the OpenAPI document of the site.

Promises:
- Each answer has the fields of its type, and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, Required, TypedDict

from msgspec import Struct

from ssa_operator.web.folder_page import FolderPage
from ssa_operator.web.overview import Overview
from ssa_operator.web.rollout_page import RolloutPage


class ReaderData(TypedDict):
    """Who reads, and what."""

    user: str
    """The account of the reader's token, '' if this host needs none."""
    cluster: str
    """The context of the operator's kubeconfig, in-cluster if it runs in the cluster."""


class ConditionData(TypedDict, total=False):
    """A condition of a parent (https://kubernetes.io/docs/reference/using-api/api-concepts/)."""

    type: str
    status: str
    reason: str
    message: str
    observedGeneration: int
    lastTransitionTime: str


class ParentObject(TypedDict):
    """A parent."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    creationTimestamp: str | None
    conditions: list[ConditionData]
    event: NotRequired[dict[str, Any]]
    """The last Event, if its status has no place for conditions."""
    revision: NotRequired[str]
    """The revision of its templates that it runs, with rollouts."""


class TreeNode(TypedDict, total=False):
    """A child, or an object below one."""

    group: str
    kind: Required[str]
    namespace: str
    name: Required[str]
    uid: str
    state: str
    """Current, InProgress, Waiting, Failed, Terminating or NotFound."""
    message: str
    since: str
    """Since when it is not ready."""
    creationTimestamp: str
    phase: str
    """Succeeded for a pod that has completed."""
    restarts: int
    restartedAt: str
    depth: Required[int]
    """1 for a child, 2 for what is right below it."""


class Done(TypedDict):
    """What a reconcile did to a child."""

    result: str
    object: str
    child: str
    """The key of the child."""
    reason: NotRequired[str]


class TimelineEntry(TypedDict, total=False):
    """One thing that happened: a reconcile, a change by another manager, or another reason of a condition."""

    kind: Required[str]
    """reconcile, change or condition."""
    at: Required[float]
    """In seconds since 1970."""
    until: float
    seconds: float
    count: int
    """How many reconciles were alike."""
    causes: list[str]
    result: str
    did: list[Done]
    more: int
    """How many more things a reconcile did."""
    message: str
    manager: str
    operation: str
    object: str
    child: str
    fields: list[str]
    deleted: bool
    type: str
    status: str
    reason: str
    before: str
    """The reason that the condition had."""
    group: str
    """The group of states of the parent, as in the overview."""


class ParentTree(TypedDict):
    """A parent and everything below it."""

    parent: ParentObject
    nodes: dict[str, TreeNode]
    """By GROUP/KIND/NAMESPACE/NAME."""
    order: list[str]
    """The keys of `nodes` in the order of the tree."""
    notes: list[str]
    """What is not shown, with the reason."""
    left: NotRequired[int]
    """How many nodes are still to come; the last portion, and each answer that is no stream, lacks it."""
    timeline: dict[str, TimelineEntry]
    """What happened in the last hour, by id."""


class ReadinessData(TypedDict):
    """How an object was judged."""

    state: str
    rule: str
    message: NotRequired[str]


class ShownEvent(TypedDict):
    """A Kubernetes Event."""

    type: str
    reason: str
    note: str
    time: str
    reporter: str
    count: NotRequired[int]


class Details(TypedDict):
    """Conditions, Events and readiness of an object."""

    conditions: list[ConditionData]
    events: list[ShownEvent]
    notes: list[str]
    readiness: NotRequired[ReadinessData]
    """Of a child, or of an object below one."""


class FieldOwnerData(TypedDict):
    """A manager that owns a field."""

    manager: str
    operation: str
    subresource: str
    time: str


class ChangedFieldData(TypedDict):
    """A field that an apply would change."""

    field: str
    before: Any
    after: Any
    cause: str
    managers: list[FieldOwnerData]
    file: NotRequired[str]
    line: NotRequired[int]


class LeftFieldData(TypedDict):
    """A field that an apply would leave to its managers."""

    field: str
    value: Any
    managers: list[FieldOwnerData]
    handedOver: bool


class ChangedObject(TypedDict):
    """What an apply would do to an object."""

    group: str
    kind: str
    namespace: str
    name: str
    result: str
    message: str
    file: NotRequired[str]
    line: NotRequired[int]
    adopted: bool
    adoptedFrom: list[Any]
    fields: list[ChangedFieldData]
    left: list[LeftFieldData]
    diff: str


class WouldChange(TypedDict):
    """What an apply of a parent would change now, as `diff --output json` prints it."""

    kind: str
    namespace: str
    name: str
    exists: bool
    notes: list[str]
    problems: list[str]
    waits: list[str]
    objects: list[ChangedObject]


class EdgeData(TypedDict):
    """What a child reads of another object, or that it comes after it."""

    source: str
    """The key of the child."""
    target: str
    """The key of the other object, or the words of a query."""
    label: str
    file: NotRequired[str]
    line: NotRequired[int]
    cycle: NotRequired[bool]


class LookedUp(TypedDict):
    """An object that a template looks up by name, and that is no child."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: NotRequired[str]
    state: NotRequired[str]
    """As of a child; NotFound if it does not exist. Absent if the reader or the operator may not get it."""
    message: NotRequired[str]
    """Why it has no state."""
    creationTimestamp: NotRequired[str]


class Edges(TypedDict):
    """What the children of a parent wait for."""

    edges: list[EdgeData]
    objects: dict[str, LookedUp]
    """The looked-up objects, by GROUP/KIND/NAMESPACE/NAME."""
    problems: list[str]


class ManifestLine(TypedDict, total=False):
    """A line of a live child, with who wrote it."""

    text: Required[str]
    path: str
    writer: str
    file: str
    line: int
    includedFrom: list[dict[str, Any]]
    origin: str
    """The field of the parent, or the query, that the value comes from."""
    manager: str
    operation: str
    subresource: str
    time: str
    owners: list[FieldOwnerData]
    reason: str
    rendered: dict[str, Any]
    """What the template renders for the field, if the live value is another one."""
    default: bool


class ManifestData(TypedDict):
    """A live child as YAML."""

    lines: list[ManifestLine]
    note: NotRequired[str]


class RenderedLine(TypedDict):
    """A line of a rendered manifest."""

    text: str
    line: NotRequired[int]
    """The line of the file that writes it."""


class RenderedDocument(TypedDict):
    """A manifest that a file renders."""

    kind: str
    name: str
    line: int
    """Its first line in the file."""
    lines: list[RenderedLine]
    message: NotRequired[str]
    """Why it is not applied."""


class FileMessage(TypedDict):
    """A problem or a wait of a file."""

    message: str
    line: int


class RenderedFile(TypedDict):
    """What a template file renders for a parent."""

    documents: list[RenderedDocument]
    problems: list[FileMessage]
    waits: list[FileMessage]
    elsewhere: int
    """The number of problems in other files."""
    notes: list[str]
    """What is not shown, with the reason."""


class Operation(Struct, frozen=True, kw_only=True):
    """A path that can be read."""

    summary: str
    answer: Any
    """The type of the value."""
    parameters: Mapping[str, str] = {}
    """The parameters of the query, with their descriptions."""
    required: str = ""
    """The one of them that must be given, '' for none."""
    streams: bool = False
    """Whether `stream=1` gives the value and its changes as server-sent events."""


_CHILD = {"child": "GROUP/KIND/NAMESPACE/NAME of the child; the parent without it"}
_OF_PARENT = {
    "": Operation(summary="A parent and everything below it", answer=ParentTree, streams=True),
    "/edges": Operation(summary="What the children of a parent read and wait for", answer=Edges),
    "/manifest": Operation(
        summary="The lines of a live child or of a looked-up object, with their writers",
        answer=ManifestData,
        parameters={"child": "GROUP/KIND/NAMESPACE/NAME of the child"},
        required="child",
    ),
    "/details": Operation(summary="Conditions, Events and readiness of an object", answer=Details, parameters=_CHILD),
    "/rendered": Operation(
        summary="What a template file renders for a parent now",
        answer=RenderedFile,
        parameters={"file": "FOLDER/FILE, as in `files` of the folder"},
        required="file",
    ),
    "/would-change": Operation(summary="What an apply would change now", answer=WouldChange, parameters=_CHILD),
}

OPERATIONS = {
    "/api/v1/reader": Operation(summary="Who reads, and which cluster", answer=ReaderData),
    "/api/v1/overview": Operation(
        summary="The template folders, figures, and a page of parents",
        answer=Overview,
        parameters={
            "folder": "Only the parents of this folder",
            "namespace": "Only the parents in this namespace",
            "group": "failed, working, unknown, ready, or unready for all but ready",
            "labels": "A label selector, such as app=web,!old",
            "text": "Words that each occur in the kind, name, reason or message",
            "suspended": "Any value: only suspended parents",
            "conflict": "Any value: only parents with fields that others change",
            "offset": "How many parents come before the first one of the page",
            "limit": "The number of parents, at most 500",
        },
        streams=True,
    ),
    "/api/v1/folders/{folder}": Operation(
        summary="The files of a template folder, their problems, and its graph", answer=FolderPage, streams=True
    ),
    "/api/v1/folders/{folder}/rollout": Operation(
        summary="How far the rollout of a folder is, its waves, and what the sets differ in",
        answer=RolloutPage,
        streams=True,
    ),
    **{f"/api/v1/parents/{{folder}}/{{namespace}}/{{name}}{part}": each for part, each in _OF_PARENT.items()},
    **{f"/api/v1/parents/{{folder}}/{{name}}{part}": each for part, each in _OF_PARENT.items()},
}

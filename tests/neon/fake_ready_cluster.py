"""A cluster in which everything that is applied is ready at once, to see what the templates make of it wave by wave."""

from __future__ import annotations

import base64
import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ssa_operator.objects.dependency_graph import graph_of
from ssa_operator.objects.render_result import Rendered
from ssa_operator.rendering.folder.loaded_folders import load
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render, render_status
from tests.rendering.template_files import FakeClusterView

ROOT = Path(__file__).parents[2]
UID = "0f3b1c52-7f2e-4c39-9c0e-5d8f2a7b6e41"
ID = UID.replace("-", "")
BRANCH_UID = "7d1a9a3e-52b7-4e0c-8f2a-3c4b5d6e7f80"
BRANCH_ID = BRANCH_UID.replace("-", "")
KEYS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "keys", "namespace": "n"},
    "data": {"AWS_ACCESS_KEY_ID": "bWluZQ==", "AWS_SECRET_ACCESS_KEY": "bm9ib2R5IG1heSBzZWUgaXQ="},
}
S3 = {"bucket": "mine", "secret_ref": {"name": "keys"}}


@functools.cache
def templates(kind: str = "NeonDatabase") -> Templates:
    names = {"NeonDatabase": "neondatabases", "NeonBranch": "neonbranches"}
    folder = load(ROOT / "templates").folders[f"{names[kind]}.melenion.com"]
    assert folder.problems == ()
    assert folder.templates is not None
    return folder.templates


def database(name: str = "db", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "melenion.com/v1",
        "kind": "NeonDatabase",
        "metadata": {"name": name, "namespace": "n", "uid": UID, "generation": 1},
        "spec": {"postgres_version": 17, **spec},
    }


def branch(name: str = "dev", **spec: Any) -> dict[str, Any]:
    return {
        **database(name),
        "kind": "NeonBranch",
        "metadata": {"name": name, "namespace": "n", "uid": BRANCH_UID, "generation": 1},
        "spec": {"database": "db", **spec},
    }


@dataclass(slots=True)
class Stage:
    """One database or branch; `waves` are the objects that each pass could make, as `Kind/name`."""

    parent: Mapping[str, Any]
    others: tuple[Mapping[str, Any], ...] = (KEYS,)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    waves: list[set[str]] = field(default_factory=list)

    @property
    def templates(self) -> Templates:
        return templates(self.parent["kind"])

    def world(self) -> FakeClusterView:
        return FakeClusterView(children=tuple(self.objects.values()), others=self.others)

    def rendered(self) -> Rendered:
        found = render(self.templates, self.parent, self.world())
        assert found.problems == (), found.problems
        assert graph_of(found, lambda identity: identity).cycles() == ()
        return found

    def step(self) -> bool:
        """Apply what can be; whether anything is new or changed."""
        bodies = [live(document.body) for document in self.rendered().documents]
        changed = {key(body): body for body in bodies if self.objects.get(key(body)) != body}
        new = set(changed) - set(self.objects)
        self.objects |= changed
        if new:
            self.waves.append(new)
        return bool(changed)

    def status(self) -> dict[str, Any]:
        found = render_status(self.templates, self.parent, self.world())
        assert found.problems == (), found.problems
        return dict(found.fields)


def made(name: str = "db", **spec: Any) -> Stage:
    """A database of which everything is there and ready."""
    return _finished_once(Stage(database(name, **spec)))


def made_branch(name: str = "dev", *others: Mapping[str, Any], of: Stage | None = None, **spec: Any) -> Stage:
    """A branch of which everything is there and ready, of a ready database, beside these other objects."""
    parent = made() if of is None else of
    return _finished_once(Stage(branch(name, **spec), others=({**parent.parent, "status": parent.status()}, *others)))


def finished(stage: Stage) -> Stage:
    while stage.step():
        pass
    assert stage.rendered().complete
    return stage


_FINISHED: dict[str, Stage] = {}
"""By what a new stage has."""


def _finished_once(stage: Stage) -> Stage:
    """A copy of the finished stage, which takes ten renders."""
    key = repr((stage.parent, stage.others))
    if key not in _FINISHED:
        _FINISHED[key] = finished(stage)
    return copy.deepcopy(_FINISHED[key])


def key(body: Mapping[str, Any]) -> str:
    return f"{body['kind']}/{body['metadata']['name']}"


def live(body: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest as the API server has it, once its controller has done its work."""
    metadata = {"namespace": "n", "generation": 1, **body["metadata"]}
    made = {**body, "metadata": metadata}
    if "stringData" in made:
        texts = made.pop("stringData")
        made["data"] = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    status = READY.get(body["kind"])
    return made if status is None else {**made, "status": status(body["spec"])}


def _deployment(spec: Mapping[str, Any]) -> dict[str, Any]:
    counts = ("replicas", "updatedReplicas", "availableReplicas", "readyReplicas")
    return {"observedGeneration": 1, **dict.fromkeys(counts, spec["replicas"])}


def _stateful_set(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**_deployment(spec), "currentRevision": "1", "updateRevision": "1"}


READY: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "Job": lambda _: {"conditions": [{"type": "Complete", "status": "True"}]},
    "PodDisruptionBudget": lambda _: {"observedGeneration": 1},
}


def pods(stage: Stage) -> dict[str, dict[str, Any]]:
    """The pod templates by component."""
    workloads = [body for body in stage.objects.values() if "template" in body.get("spec", {})]
    return {body["metadata"]["labels"]["app.kubernetes.io/component"]: body["spec"]["template"] for body in workloads}


def container(stage: Stage, component: str) -> dict[str, Any]:
    """The container that has the name of its component."""
    found = pods(stage)[component]["spec"]["containers"]
    (own,) = (each for each in found if each["name"] == component)
    assert isinstance(own, dict)
    return own


def containers(stage: Stage) -> list[dict[str, Any]]:
    """All containers of all components."""
    return [each for pod in pods(stage).values() for each in pod["spec"]["containers"]]

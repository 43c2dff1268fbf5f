"""Resyncs that repeat the last applies: a user can't tell them from resyncs that render.

The oracle: whenever a resync is about to repeat applies, a render from the same caches gives the same manifests.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api.client import Applied
from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.reconcile.adoption import only_to_known
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.observe import _observed
from ssa_operator.reconcile.parent_state import ResyncInputs
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.renderer import RenderedObjects, parent_view
from ssa_operator.reconcile.resync import requests
from ssa_operator.reconcile.shards.unlabelled_objects import NO_OBJECTS
from ssa_operator.reconcile.watched_children import named_objects
from ssa_operator.rendering.render import render
from tests.operator.harness import ECHOES, PATIENCE, Desk, Operate, Running, echo, entries, holds, map_template, only

pytestmark = pytest.mark.cluster

CONFIG_MAPS = "configmaps"

READER = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  annotations: {{ annotations }}
data:
  replicas: "{{ spec.replicas }}"
  color: "{{ values.color }}"
  note: {{ read_file('note.txt') }}
  source: "{{ lookup('v1', 'ConfigMap', 'source', optional=true).data.text | default('none') }}"
  parts: "{{ lookup_all('v1', 'ConfigMap', labels={'part-of': 'test'}) | map(attribute='metadata.name') | join(',') }}"
  served: "{{ api_available('apps/v1', 'Deployment') }} {{ kubernetes_version }}"
  old: "{{ expired('1s') }}"
"""

FOLLOWER = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-follower
data:
  replicas: "{{ child('ConfigMap', name).data.replicas }}"
  kept: "{{ live('ConfigMap', name).data.kept | default('new') }}"
"""

PASSWORD = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}
stringData:
  password: {{ generated() }}
"""


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end, resyncs compare as before an Oracle."""
    monkeypatch.setattr(requests, "_are_current", requests._are_current)


@dataclass(slots=True)
class Oracle:
    """Compares each repeated resync with a render."""

    running: Running
    repeats: int = 0
    differences: list[str] = field(default_factory=list)
    _repeated: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        are_current = requests._are_current

        def compared(reconcile: Reconcile, inputs: ResyncInputs) -> bool:
            current, known = are_current(reconcile, inputs), reconcile.state.repeatable
            if current and known is not None and known.inputs is inputs:
                self.repeats += 1
                self._repeated.set()
                repeated = {(each.identity, each.version, each.encoded) for each in known.applies}
                rendered = self._rendered(reconcile)
                if repeated != rendered and not self._is_due(reconcile):
                    self.differences.append(f"{repeated} differs from {rendered}")
            return current

        requests._are_current = compared

    def _is_due(self, reconcile: Reconcile) -> bool:
        """Whether the moment of a template's `expired` has come, maybe between the resync's look at the clock and the
        oracle's render.
        """
        report = reconcile.state.status.report
        return report is not None and report.again_at is not None and report.again_at <= time.time()

    def _rendered(self, reconcile: Reconcile) -> set[tuple[Identity, str, bytes]]:
        cluster = self.running.operator.shared.cluster
        view = parent_view(reconcile, tuple(cluster.children.by_parent(reconcile.uid)))
        rendered = render(reconcile.parent.folder, reconcile.parent.live.body, view)
        assert not rendered.problems
        fresh = Reconcile.begin(cluster, reconcile.parent, reconcile.state, reconcile.causes)
        found = RenderedObjects(rendered=rendered, named=named_objects(rendered), unlabelled=NO_OBJECTS, as_rendered={})
        observed = _observed(fresh, found, fresh.records, NO_OBJECTS)
        planned = [(step.manifest, step.live) for step in make_plan(observed, rendered).steps]
        return {
            (each.identity, each.version, only_to_known(each, live))
            for each, live in planned
            if each is not None and live is not None
        }

    async def repeated(self, more: int = 1) -> None:
        """Return once so many further resyncs have repeated applies."""
        wanted = self.repeats + more
        async with asyncio.timeout(PATIENCE):
            while self.repeats < wanted:
                self._repeated.clear()
                await self._repeated.wait()


@dataclass(slots=True)
class Model:
    """What the user wrote, and what the children must have for it."""

    desk: Desk
    running: Running
    name: str
    numbers: Any = field(default_factory=lambda: itertools.count(1))
    data: dict[str, str] = field(default_factory=dict)

    async def patch_parent(self) -> None:
        self.data["replicas"] = str(next(self.numbers) % 50)
        await self.desk.patch("echo", self.name, spec={"replicas": int(self.data["replicas"])})

    async def change_values(self) -> None:
        self.data["color"] = f"color-{next(self.numbers)}"
        self.running.write(f"{ECHOES}/_values.yaml", f"color: {self.data['color']}\n")

    async def change_file(self) -> None:
        self.data["note"] = f"note-{next(self.numbers)}"
        self.running.write(f"{ECHOES}/files/note.txt", self.data["note"])

    async def change_template(self) -> None:
        self.data["more"] = f"more-{next(self.numbers)}"
        self.running.write(f"{ECHOES}/reader.yaml.j2", READER + f"  more: {self.data['more']}\n")

    async def change_source(self) -> None:
        self.data["source"] = f"text-{next(self.numbers)}"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}}
        await self.desk.apply({**body, "data": {"text": self.data["source"]}})

    async def delete_source(self) -> None:
        self.data["source"] = "none"
        await self.desk.kubectl("delete", "configmap", "source", "--ignore-not-found")

    async def add_part(self) -> None:
        name = f"part-{next(self.numbers):03}"
        metadata = {"name": name, "labels": {"part-of": "test"}}
        await self.desk.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        self.data["parts"] = ",".join(filter(None, (self.data["parts"], name)))

    async def drift(self) -> None:
        await self.desk.patch("configmap", self.name, data={"replicas": "drift"})

    async def drift_silently(self) -> None:
        """A change of a field that no template renders: it stays."""
        await self.desk.patch("configmap", self.name, metadata={"labels": {"by-hand": str(next(self.numbers))}})

    async def delete_child(self) -> None:
        await self.desk.delete("configmap", f"{self.name}-follower")

    @property
    def changes(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.patch_parent,
            self.change_values,
            self.change_file,
            self.change_template,
            self.change_source,
            self.delete_source,
            self.add_part,
            self.drift,
            self.drift_silently,
            self.delete_child,
        ]

    async def settled(self) -> None:
        """Return once the children have what the user wants."""

        def is_wanted(body: dict[str, Any]) -> bool:
            return bool(self.data.items() <= body["data"].items())

        await self.desk.until(CONFIG_MAPS, self.name, is_wanted)
        follows = {"replicas": self.data["replicas"], "kept": "new"}.items()
        await self.desk.until(CONFIG_MAPS, f"{self.name}-follower", lambda body: follows <= body["data"].items())


def _templates(templates: Path) -> Path:
    folder = only(templates, reader=READER, follower=FOLLOWER, password=PASSWORD) / ECHOES
    (folder / "_values.yaml").write_text("color: red\n")
    (folder / "files").mkdir()
    (folder / "files" / "note.txt").write_text("first")
    return templates


@pytest.mark.slow
async def test_a_repeated_resync_sends_what_a_render_would_give_whatever_changed_before(
    desk: Desk, templates: Path, operate: Operate
) -> None:
    _templates(templates)
    chance = random.Random(17)
    async with operate(interval=0.05, resync_rate=1000.0) as running:
        oracle = Oracle(running)
        model = Model(desk, running, "one")
        model.data = {"replicas": "1", "color": "red", "note": "first", "source": "none", "parts": "", "old": "true"}
        await desk.apply_until_ready(echo("one"))
        stories = [*model.changes, *chance.choices(model.changes, k=6)]
        chance.shuffle(stories)
        for change in stories:
            await model.settled()
            await oracle.repeated()
            await change()
        await model.settled()
        await oracle.repeated()
    assert oracle.differences == []


async def test_a_repeated_resync_reverts_a_change_that_no_watch_shows(
    desk: Desk, templates: Path, operate: Operate
) -> None:
    only(templates, settings="apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\ndata:\n  a: b\n")
    async with operate(interval=0.05, resync_rate=1000.0) as running:
        oracle = Oracle(running)
        await desk.apply_until_ready(echo("one"))
        await oracle.repeated()
        for task in running.operator.shared.cluster.children.tasks:
            task.cancel()
        for _ in range(2):
            await desk.patch("configmap", "one", data={"a": "drift"})
            await desk.until(CONFIG_MAPS, "one", holds(a="b"))
            # The answer is in the cache, so that the next resyncs are at rest again.
            await oracle.repeated(2)
        await desk.delete("configmap", "one")
        await desk.until(CONFIG_MAPS, "one", holds(a="b"))
    results = [outcome.result for report in running.reports for outcome in report.outcomes]
    assert results.count(Result.CREATED) == 2
    assert oracle.differences == []


async def test_a_repeated_resync_that_gets_a_429_sends_each_apply_once(
    desk: Desk, templates: Path, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(templates, settings="apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\ndata:\n  a: b\n")
    refused: list[int] = []
    """The reconcile in which each apply was refused."""
    refused_twice = asyncio.Event()

    async with operate(interval=0.05, resync_rate=1000.0) as running:
        oracle = Oracle(running)
        await desk.apply_until_ready(echo("one"))
        await oracle.repeated()

        async def refuse(*_: object) -> Applied:
            refused.append(len(running.reconciles))
            if len(refused) == 2:
                refused_twice.set()
            raise ApiError("apply", ErrorStatus(code=429, message="too many requests", retry_after=0.05))

        with monkeypatch.context() as patch:
            patch.setattr(running.operator.shared.cluster.operator_client, "apply", refuse)
            async with asyncio.timeout(PATIENCE):
                await refused_twice.wait()
        assert refused[0] != refused[1]
        # Once the API server accepts requests again, resyncs go on as before.
        await oracle.repeated(2)
    assert oracle.differences == []


def _annotated(policy: str, name: str = "kept") -> str:
    annotations = f"  annotations: {{ssa-operator.dev/apply: {policy}}}"
    return map_template(name, v="'1'").replace("\ndata:", f"\n{annotations}\ndata:")


AT_REST = {
    "made when absent": _annotated("IfNotPresent"),
    "made once": _annotated("Once"),
    "made once, and gone": _annotated("Once", "gone"),
    "with a generated value": PASSWORD,
    "with a generated value, made when absent": PASSWORD.replace(
        "stringData:", "  annotations: {ssa-operator.dev/apply: IfNotPresent}\nstringData:"
    ),
    "large": map_template("large", v="'0123456789abcdef' * 8000"),
    "many": "{% for at in range(150) %}\n---\n" + map_template("{{ at }}", v="'0123456789' * 70") + "\n{% endfor %}",
}


@pytest.mark.parametrize("rendered", AT_REST)
async def test_a_resync_of_a_parent_at_rest_renders_nothing(
    desk: Desk, templates: Path, operate: Operate, rendered: str
) -> None:
    only(templates, a=AT_REST[rendered], b=map_template("plain", v="'1'"))
    async with operate(interval=0.05, resync_rate=100_000.0) as running:
        await desk.apply_until_ready(echo("one"))
        if rendered.endswith("gone"):
            await desk.delete("configmap", "one-gone")
            await desk.until(
                ECHOES, "one", lambda body: "gone" in entries(body)["ConfigMap/one-gone"].get("message", "")
            )

        def renders() -> list[str]:
            lines = running.operator.metrics.text().decode().splitlines()
            return [line for line in lines if line.startswith("ssa_operator_render_duration_seconds_count")]

        before: list[str] = []
        causes = set[Cause]()
        async with asyncio.timeout(PATIENCE):
            while renders() != before or causes != {Cause.RESYNC}:
                before = renders()
                running.forget()
                await running.reconciled(3)
                causes = {cause for _, cause in running.reconciles[:3]}
        await desk.patch("configmap", "one-plain", data={"v": "drift"})
        await desk.until(CONFIG_MAPS, "one-plain", holds(v="1"))

"""The explorations of the project's templates in a running operator, and the faults that they would find."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase as HypothesisPhase
from hypothesis.database import InMemoryExampleDatabase
from msgspec.structs import replace

from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start
from ssa_operator.kube.api.client import Client
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.render_result import Rendered
from ssa_operator.operator import crd_installation as crds
from ssa_operator.operator.operator_options import Options
from ssa_operator.reconcile import plan, planner, reconciler
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.prune.rules import plan_prune
from ssa_operator.reconcile.status.report import make_report, with_message
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import load
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.tools.offline.documents import read_objects
from ssa_operator.tools.offline.project import crds_of
from tests.exploration.explored_folders import looked_up_objects, starts
from tests.exploration.explored_parents import explored_parents
from tests.exploration.settled_parents import (
    BrokenByInvalidError,
    BrokenRuleError,
    ChangedByRepeatError,
    CrashError,
    DiffersFromNewError,
    Phase,
    UnnamedFailureError,
)
from tests.exploration.spec_change_machine import Exploration, NewParents, explore, machine_of
from tests.exploration.spec_changes import SpecChange
from tests.operator.harness import ECHOES, ROOT, administrator, definition, map_template, only

SEQUENCES = int(os.environ.get("EXPLORED_SEQUENCES", "3"))
"""Sequences of changes for each template folder."""

STEPS = 6
"""Changes of each sequence at most."""

FOLDERS = sorted([*ROOT.glob("templates/*.*"), *ROOT.glob("examples/*/templates/*")])


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Cluster]]:
    """A control plane of the module's own: what an exploration creates stays there."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        patch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        cluster = runner.run(start(ClusterSpec(name="exploration")))
        yield runner, cluster
        runner.run(cluster.stop())


@contextmanager
def exploring(
    control_plane: tuple[asyncio.Runner, Cluster], templates: Path, resource: str, crd_folders: Sequence[Path]
) -> Iterator[Exploration]:
    """An exploration of one template folder, whose operator runs until the end of the block."""
    runner, cluster = control_plane

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        async with Client(await administrator(cluster)) as client:
            if folders := [each for each in crd_folders if each.exists()]:
                await crds.install(client, crds.load_crds(*folders))
            options = Options(
                templates=(templates,), resync_rate=0.0, listen=None, installation=Installation(namespace="default")
            )
            async with explored_parents(client, options) as parents:
                yield parents

    context = opened()
    parents = runner.run(context.__aenter__())
    try:
        found = starts(templates, resource, crd_folders, GroupKind("", "Namespace"))
        yield Exploration(runner=runner, parents=parents, new=NewParents(parents), starts=found)
    finally:
        runner.run(context.__aexit__(None, None, None))


@pytest.mark.cluster
@pytest.mark.exhaustive
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_changed_parent_is_as_a_new_one(control_plane: tuple[asyncio.Runner, Cluster], folder: Path) -> None:
    with exploring(control_plane, folder.parent, folder.name, crds_of([folder.parent], None)) as exploration:
        explore(exploration, SEQUENCES, STEPS)
        assert exploration.phases


STICKY = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-sticky
data:
  replicas: "{{ live("ConfigMap", name ~ "-sticky").data.replicas | default(spec.replicas) }}"
"""
"""A planted bug: the template keeps the first value for ever."""

COUNTING = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-counting
data:
  reconciles: "{{ (live("ConfigMap", name ~ "-counting").data.reconciles | default(0) | int) + 1 }}"
"""

OPTIONAL = "{% if spec.replicas > 1 %}\n" + map_template("optional", replicas="spec.replicas") + "{% endif %}\n"

FAILING = map_template("failing", hundredth="100 // spec.replicas")


def prunes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the operator."""
    monkeypatch.setattr(plan, "plan_prune", lambda *given: replace(plan_prune(*given), steps=()))


def prunes_what_failed_to_render(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the operator."""

    def planned(observed: Observed, rendered: Rendered, *given: Any) -> Any:
        return plan_prune(observed, dataclasses.replace(rendered, problems=()), *given)

    monkeypatch.setattr(plan, "plan_prune", planned)


def crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the operator."""

    def planned(observed: Observed, rendered: Rendered) -> Any:
        assert not rendered.problems
        return make_plan(observed, rendered)

    monkeypatch.setattr(planner, "make_plan", planned)


def names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the operator."""
    monkeypatch.setattr(reconciler, "make_report", lambda *given: with_message(make_report(*given), "it failed"))


def nothing(_: pytest.MonkeyPatch) -> None:
    """The operator as it is."""


@pytest.fixture
def project(templates: Path) -> Path:
    """The templates of an Echo that a test replaces, with an example."""
    (templates.parent / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "echo.yaml", templates.parent / "examples")
    return templates


CRDS = [ROOT / "crds"]


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "fault", "broken"),
    [
        (STICKY, nothing, DiffersFromNewError),
        # How often each parent was reconciled decides which of both it breaks first.
        (COUNTING, nothing, (ChangedByRepeatError, DiffersFromNewError)),
        (OPTIONAL, prunes_nothing, DiffersFromNewError),
        (FAILING, prunes_what_failed_to_render, BrokenByInvalidError),
        (FAILING, crashes, CrashError),
        (FAILING, names_nothing, UnnamedFailureError),
    ],
    ids=["sticky", "counting", "unpruned", "pruned", "crash", "unnamed"],
)
def test_a_planted_fault_is_found(
    control_plane: tuple[asyncio.Runner, Cluster],
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    template: str,
    fault: Callable[[pytest.MonkeyPatch], None],
    broken: type[BrokenRuleError] | tuple[type[BrokenRuleError], ...],
) -> None:
    fault(monkeypatch)
    only(project, planted=template)
    with exploring(control_plane, project, ECHOES, CRDS) as exploration, pytest.raises(broken):
        explore(exploration, 10, STEPS, database=None, phases=[HypothesisPhase.generate])


@pytest.mark.cluster
@pytest.mark.slow
def test_a_planted_fault_is_shortened_and_played_again_until_it_is_mended(
    control_plane: tuple[asyncio.Runner, Cluster], project: Path
) -> None:
    only(project, sticky=STICKY)
    database = InMemoryExampleDatabase()
    with exploring(control_plane, project, ECHOES, CRDS) as exploration:
        with pytest.raises(DiffersFromNewError, match=r"sticky data.replicas is .* \(.*sticky.yaml.j2:6\)") as found:
            explore(exploration, 10, 2, database=database)
        notes = "\n".join(found.value.__notes__)
        # One change of the only field is enough.
        assert re.findall(r"Draw \d+ \(change\): (.*), ", notes) == ["SpecChange(path=('spec', 'replicas')"]
        assert "@reproduce_failure(" in notes
        with pytest.raises(DiffersFromNewError):
            explore(exploration, 10, 2, database=database, phases=[HypothesisPhase.reuse])
    only(project, sticky=map_template("sticky", replicas="spec.replicas"))
    with exploring(control_plane, project, ECHOES, CRDS) as exploration:
        explore(exploration, 10, 2, database=database, phases=[HypothesisPhase.reuse])
        assert Phase.READY in exploration.phases


@pytest.mark.cluster
@pytest.mark.slow
def test_an_example_that_cannot_be_rendered_is_no_success(
    control_plane: tuple[asyncio.Runner, Cluster], project: Path
) -> None:
    only(project, broken=map_template("broken", color="spec.color"))
    words = r"echo.yaml:1: no sequence can begin with this parent: .*broken.yaml.j2:6"
    with exploring(control_plane, project, ECHOES, CRDS) as exploration, pytest.raises(AssertionError, match=words):
        explore(exploration, 1, STEPS, database=None, phases=[HypothesisPhase.generate])


PORT: dict[str, Any] = {"port": {"type": "integer"}}
SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}
spec:
  selector: {app: {{ name }}}
  ports:
    - port: {{ spec.service.port | default(spec.port) | default(80) }}
"""


@pytest.mark.cluster
@pytest.mark.slow
def test_a_change_that_makes_a_child_invalid_is_rolled_back_to_an_empty_mapping(
    control_plane: tuple[asyncio.Runner, Cluster], tmp_path: Path
) -> None:
    """The spec before the last change has an empty mapping, which the API server makes null where server-side apply
    removes all its fields (https://github.com/kubernetes/kubernetes/issues/135841).
    """
    crd = definition("doors", "example.com", "Door")
    spec = {"type": "object", "properties": {**PORT, "service": {"type": "object", "properties": PORT}}}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    front = {"apiVersion": "example.com/v1", "kind": "Door", "metadata": {"name": "front"}, "spec": {"port": 80}}
    for path, text in (
        ("crds/doors.yaml", json.dumps(crd)),
        ("examples/front.yaml", json.dumps(front)),
        ("templates/doors.example.com/service.yaml.j2", SERVICE),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    resource = "doors.example.com"
    with exploring(control_plane, tmp_path / "templates", resource, [tmp_path / "crds"]) as exploration:
        machine = machine_of(exploration)()
        machine.begin(*exploration.starts[0])
        machine.play(SpecChange(("spec", "service"), {}))
        machine.play(SpecChange(("spec", "service", "port"), 70_000))
        machine.teardown()
        assert exploration.phases == [Phase.READY, Phase.FAILED]


def test_a_parent_is_not_among_the_objects_that_its_templates_look_up() -> None:
    """A NeonBranch looks up its database, and its ancestor, which is a NeonBranch, too."""
    contents = template_contents(load(ROOT / "templates").folders["neonbranches.melenion.com"])
    database, branch = read_objects([ROOT / "examples" / f"{name}.yaml" for name in ("neondatabase", "neonbranch")])
    ancestor = dataclasses.replace(branch, body={**branch.body, "metadata": {"name": "ancestor"}})
    assert looked_up_objects(contents, branch, [database, branch, ancestor]) == [database, ancestor]

"""The exploration as a process on the real API server: it finds, shortens, keeps and replays a bug."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ssa_operator.rendering.folder.loaded_folders import load
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.tools.offline.documents import read_objects
from tests.cli.process import Command
from tests.exploration.folder_exploration import looked_up_objects
from tests.operator.harness import ECHOES, ROOT, Desk, map_template, only


@contextlib.asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[Command]:
    """An exploration. It is killed at the end of the block, if it still runs."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.exploration", *arguments), stdout=pipe, stderr=pipe, cwd=ROOT
    )
    try:
        yield Command(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of an exploration."""
    async with started(*arguments) as command:
        out, err = await command.process.communicate()
        assert command.process.returncode is not None
        return command.process.returncode, out.decode(), err.decode()


STICKY = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-sticky
data:
  replicas: "{{ live("ConfigMap", name ~ "-sticky").data.replicas | default(spec.replicas) }}"
"""
"""A planted bug: the template keeps the first value for ever."""


def project(templates: Path) -> tuple[str, ...]:
    """The options for these templates, with the CRD and the example of an Echo."""
    example = templates.parent / "echo.yaml"
    example.write_text((ROOT / "examples" / "echo.yaml").read_text())
    return (f"--templates={templates}", f"--crds={ROOT / 'crds'}", f"--examples={example}")


@pytest.mark.cluster
@pytest.mark.slow
async def test_a_planted_bug_is_found_shortened_and_played_again(desk: Desk, templates: Path) -> None:
    options = (*project(only(templates, sticky=STICKY)), f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run("--sequences=1", "--steps=3", "--json", *options)
    assert (code, err) == (1, "exploration: not all sequences of changes end as new parents do\n")
    found = json.loads(out)
    (folder,) = found["folders"]
    (failure,) = folder["failures"]
    assert found["summary"]["failures"] == 1
    assert failure["rule"] == "DiffersFromNew"
    # One change of the only field is enough.
    (step,) = failure["steps"]
    assert (step["op"], step["path"]) == ("add", "/spec/replicas")
    (difference,) = failure["differences"]
    assert difference == {
        "child": "ConfigMap/hello-sticky",
        "field": "data.replicas",
        "found": "2",
        "expected": str(step["value"]),
        "file": f"{ECHOES}/sticky.yaml.j2",
        "line": 6,
    }
    kept = Path(failure["path"])
    assert kept.parent == templates.parent / "tests" / ECHOES
    await asyncio.to_thread(kept.unlink)
    code, out, _ = await run("--sequences=1", "--steps=3", *options)
    assert code == 1
    (kept,) = kept.parent.iterdir()
    (value,) = re.findall(r"1\. spec\.replicas: (\S+)", out)
    # The file can be played alone, and names what differs.
    code, out, _ = await run(f"--replay={kept}", *options)
    assert code == 1
    assert f"    1. spec.replicas: {value}\n" in out
    differs = f"ConfigMap/hello-sticky data.replicas is 2, and should be {value} ({ECHOES}/sticky.yaml.j2:6)"
    assert f"    {differs}\n" in out
    # It passes once the template is mended, and it is played before new sequences.
    only(templates, sticky=map_template("sticky", replicas="spec.replicas"))
    code, out, err = await run("--sequences=1", "--steps=1", *options)
    assert code == 0, out + err
    assert out.startswith(f"{ECHOES}: 2 sequences, 2 changes")
    assert out.endswith(": 0 failures\n")
    assert f"{kept}: 1 change: ok\n" in err


async def test_a_file_that_holds_no_sequence_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "explored.yaml"
    file.write_text((ROOT / "examples" / "echo.yaml").read_text())
    code, out, err = await run(f"--replay={file}")
    assert (code, out) == (2, "")
    assert err == f"exploration: {file} is no ExploredSequence; name a file that the exploration wrote\n"
    body = {"apiVersion": "ssa-operator.dev/v1", "kind": "ExploredSequence", "metadata": {"name": ECHOES}}
    parent = yaml.safe_load((ROOT / "examples" / "echo.yaml").read_text())
    file.write_text(yaml.safe_dump(body | {"parent": parent, "steps": [{"op": "add", "path": "/spec/a"}]}))
    code, out, err = await run(f"--replay={file}")
    assert (code, out) == (2, "")
    assert err.startswith(f"exploration: {file}:")
    assert err.endswith(": the step add /spec/a needs a value\n")
    # A folder that the project doesn't have.
    file.write_text(yaml.safe_dump({**body, "metadata": {"name": "webs.example.com"}, "parent": parent, "steps": []}))
    code, out, err = await run(f"--replay={file}")
    assert (code, out) == (2, "")
    assert err == f"exploration: {file}: there are no templates/webs.example.com; name them with --templates\n"


async def test_sequences_without_an_end_are_an_error() -> None:
    assert await run("--sequences=0") == (
        2,
        "",
        "exploration: --sequences 0 plays without an end; write --minutes, too\n",
    )


@pytest.mark.cluster
async def test_an_example_that_cannot_be_rendered_is_no_success(desk: Desk, templates: Path) -> None:
    options = project(only(templates, broken=map_template("broken", color="spec.color")))
    code, out, err = await run(f"--kubeconfig={desk.kubeconfig}", *options)
    assert (code, err) == (2, "exploration: no sequence was played\n")
    (line,) = out.splitlines()
    assert line.startswith(f"{ECHOES}: skipped: {templates.parent / 'echo.yaml'}:1: no sequence can begin with this")
    assert f"{ECHOES}/broken.yaml.j2:6: " in line


PLAIN = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-copy
data:
  level: {{ labels["example.com/level"] | default("none") }}
  size: {{ object.data.size | default("none") }}
"""


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_the_parents_of_a_built_in_kind_are_explored_and_what_is_not_is_no_success(
    desk: Desk, tmp_path: Path
) -> None:
    templates = tmp_path / "templates"
    for folder in ("configmaps", "gones.example.com", "nodes"):
        (templates / folder).mkdir(parents=True)
        (templates / folder / "copy.yaml.j2").write_text(PLAIN)
    example = tmp_path / "settings.yaml"
    metadata = {"name": "settings", "labels": {"example.com/level": "high"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": "1"}}
    example.write_text(yaml.safe_dump(body))
    options = (f"--templates={templates}", f"--examples={example}", f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run("--sequences=2", "--steps=3", "--json", *options)
    assert (code, err) == (2, "exploration: not all template folders were explored: gones.example.com, nodes\n")
    found = {each["folder"]: each for each in json.loads(out)["folders"]}
    assert found["configmaps"]["sequences"] == 2
    assert found["configmaps"]["failures"] == []
    assert found["gones.example.com"]["skipped"] == (
        "neither --crds nor the cluster has a CRD gones.example.com; name the folder of the CRD with --crds"
    )
    assert found["nodes"]["skipped"].startswith("a Node belongs to the whole cluster")
    assert json.loads(out)["summary"]["skipped"] == 2
    # One folder alone is a success.
    code, out, err = await run("--sequences=1", "--steps=1", *options, "configmaps")
    assert code == 0, out + err


DOOR = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "doors.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Door", "plural": "doors"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "port": {"type": "integer"},
                                    "service": {"type": "object", "properties": {"port": {"type": "integer"}}},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
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
EMPTIED = """\
apiVersion: ssa-operator.dev/v1
kind: ExploredSequence
metadata: {name: doors.example.com}
parent:
  apiVersion: example.com/v1
  kind: Door
  metadata: {name: front}
  spec: {port: 80}
steps:
- {op: add, path: /spec/service, value: {}}
- {op: add, path: /spec/service/port, value: 70000}
"""
"""The spec before the last step has an empty mapping, which the API server makes null where server-side apply removes
all its fields (https://github.com/kubernetes/kubernetes/issues/135841).
"""


def test_a_parent_is_not_among_the_objects_that_its_templates_look_up() -> None:
    """A NeonBranch looks up its database, and its ancestor, which is a NeonBranch, too."""
    contents = template_contents(load(ROOT / "templates").folders["neonbranches.melenion.com"])
    database, branch = read_objects([ROOT / "examples" / f"{name}.yaml" for name in ("neondatabase", "neonbranch")])
    body = {**branch.body, "metadata": {"name": "ancestor"}}
    ancestor = replace(branch, body=body)
    assert looked_up_objects(contents, branch, [database, branch, ancestor]) == [database, ancestor]


async def doors(desk: Desk, folder: Path) -> Path:
    """Templates of Doors, whose CRD the cluster has."""
    await desk.define(DOOR)
    templates = folder / "templates"
    (templates / "doors.example.com").mkdir(parents=True)
    (templates / "doors.example.com" / "service.yaml.j2").write_text(SERVICE)
    return templates


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_rollback_empties_a_mapping(desk: Desk, tmp_path: Path) -> None:
    templates, sequence = await doors(desk, tmp_path), tmp_path / "sequence.yaml"
    sequence.write_text(EMPTIED)
    options = (f"--templates={templates}", f"--kubeconfig={desk.kubeconfig}", "--json")
    code, out, err = await run(f"--replay={sequence}", *options)
    assert code == 0, out + err
    (folder,) = json.loads(out)["folders"]
    assert (folder["changes"]["ready"], folder["changes"]["failed"]) == (1, 1)


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_change_that_makes_a_child_invalid_is_played_and_rolled_back(desk: Desk, tmp_path: Path) -> None:
    templates = await doors(desk, tmp_path)
    example = tmp_path / "door.yaml"
    door = {"apiVersion": "example.com/v1", "kind": "Door", "metadata": {"name": "front"}, "spec": {"port": 80}}
    example.write_text(yaml.safe_dump(door))
    options = (f"--templates={templates}", f"--examples={example}", f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run("--sequences=2", "--steps=4", "--json", *options)
    assert code == 0, out + err
    (folder,) = json.loads(out)["folders"]
    # The port 70000, for instance: the API server accepts the Door, and refuses the Service.
    assert folder["changes"]["failed"] > 0
    assert sum(folder["changes"].values()) == 8


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_crd_that_only_the_cluster_has_is_enough(desk: Desk, templates: Path) -> None:
    only(templates, sized=map_template("sized", replicas="spec.replicas"))
    options = (f"--templates={templates}", f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run("--sequences=1", "--steps=2", *options)
    assert code == 0, out + err
    assert out.startswith(f"{ECHOES}: 1 sequence, 2 changes")


@pytest.mark.cluster
async def test_an_example_of_a_kind_that_the_cluster_lacks_is_an_error(desk: Desk, templates: Path) -> None:
    options = project(only(templates, reader=map_template("reader", a="lookup('nosuch.dev/v1', 'Gone', 'a').data")))
    other = templates.parent / "gone.yaml"
    other.write_text("apiVersion: nosuch.dev/v1\nkind: Gone\nmetadata:\n  name: a\n")
    options += (f"--examples={other}", f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run(*options)
    assert (code, out) == (2, "")
    assert err.startswith("exploration: the cluster ")
    assert err.count("\n") == 1
    assert "nosuch.dev" in err


@pytest.mark.cluster
@pytest.mark.exhaustive
async def test_sigterm_deletes_what_was_created(desk: Desk, templates: Path) -> None:
    """A CI job that is cancelled leaves no namespaces of its own behind."""
    options = project(only(templates, sticky=map_template("sticky", replicas="spec.replicas")))
    options += ("--sequences=1000", "--steps=1", f"--kubeconfig={desk.kubeconfig}")
    async with started(*options) as command:
        await command.says(f"{ECHOES} 1: 1 change")
        command.process.terminate()
        assert await command.ended() == 130
    created = json.loads(await desk.kubectl("get", "namespaces,echoes", "--all-namespaces", "--output=json"))["items"]
    left = [
        each["metadata"]
        for each in created
        if "explore-" in f"{each['metadata'].get('namespace')} {each['metadata']['name']}"
    ]
    # The namespace controller deletes namespaces, and what is in them.
    staying = [each for each in left if "deletionTimestamp" not in each]
    going = {each["name"] for each in left if "deletionTimestamp" in each and "namespace" not in each}
    assert [each for each in staying if each.get("namespace") not in going] == []

"""`ssa-operator test --explore` as a process on the real API server: it finds, shortens, keeps and replays a bug."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.process import run
from tests.controller.harness import ECHOES, ROOT, Desk, map_template, only

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
    code, out, err = await run("test", "--explore", "--sequences=1", "--steps=3", "--output=json", *options)
    assert (code, err) == (1, "ssa-operator: not all sequences of changes end as new parents do\n")
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
    # The file can be played alone, and names what differs.
    code, out, _ = await run("test", f"--replay={kept}", *options)
    assert code == 1
    assert f"    1. spec.replicas: {step['value']}\n" in out
    shown = f"ConfigMap/hello-sticky data.replicas is 2, and should be {step['value']} ({ECHOES}/sticky.yaml.j2:6)"
    assert f"    {shown}\n" in out
    # It passes once the template is mended, and it is played before new sequences.
    only(templates, sticky=map_template("sticky", replicas="spec.replicas"))
    code, out, err = await run("test", "--explore", "--sequences=1", "--steps=2", *options)
    assert code == 0, out + err
    assert out.startswith(f"{ECHOES}: 2 sequences, 3 changes")
    assert out.endswith(": 0 failures\n")
    assert f"{kept}: 1 changes: ok\n" in err


async def test_a_file_that_holds_no_sequence_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "explored.yaml"
    file.write_text((ROOT / "examples" / "echo.yaml").read_text())
    code, out, err = await run("test", f"--replay={file}")
    assert (code, out) == (2, "")
    assert err == f"ssa-operator: {file} is no ExploredSequence; name a file that test --explore wrote\n"
    body = {"apiVersion": "ssa-operator.dev/v1", "kind": "ExploredSequence", "metadata": {"name": ECHOES}}
    parent = yaml.safe_load((ROOT / "examples" / "echo.yaml").read_text())
    file.write_text(yaml.safe_dump(body | {"parent": parent, "steps": [{"op": "add", "path": "/spec/a"}]}))
    code, out, err = await run("test", f"--replay={file}")
    assert (code, out) == (2, "")
    assert err.startswith(f"ssa-operator: {file}:")
    assert err.endswith(": the step add /spec/a needs a value\n")
    # A folder that the project doesn't have.
    file.write_text(yaml.safe_dump({**body, "metadata": {"name": "webs.example.com"}, "parent": parent, "steps": []}))
    code, out, err = await run("test", f"--replay={file}")
    assert (code, out) == (2, "")
    assert err == f"ssa-operator: {file}: there are no templates/webs.example.com; name them with --templates\n"

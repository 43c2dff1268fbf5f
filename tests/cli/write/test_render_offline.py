"""`ssa-operator render` without a cluster: manifests, what would wait, and what fails, each with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.process import run
from tests.operator.harness import echo


@pytest.mark.exhaustive
async def test_render_prints_manifests_without_a_cluster() -> None:
    code, out, err = await run("render", "examples/echo.yaml", KUBECONFIG="nowhere")
    assert (code, err) == (0, "")
    (deployment,) = yaml.safe_load_all(out)
    assert deployment["spec"]["replicas"] == 2
    assert "ownerReferences" not in deployment["metadata"]


async def test_render_as_applied_prints_the_manifests_that_the_operator_applies() -> None:
    code, out, _ = await run("render", "-", "--as-applied", "--output=json", stdin=json.dumps(echo("a", 3)))
    deployment = json.loads(out)
    assert code == 0
    assert deployment["metadata"]["ownerReferences"][0]["uid"] == "00000000-0000-0000-0000-000000000000"
    assert deployment["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ssa-operator"
    assert deployment["metadata"]["namespace"] == "default"


ORDERED = """\
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: later, annotations: {ssa-operator.dev/after: Job/migrate}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: reads}
data: {uid: "{{ child('Job', 'migrate').metadata.uid }}"}
"""


def folder(tmp_path: Path, **files: str) -> Path:
    """A folder of templates for Echo."""
    path = tmp_path / "templates" / "echoes.example.com"
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / f"{name}.yaml.j2").write_text(text)
    return path.parent


@pytest.mark.exhaustive
async def test_several_folders_of_templates_and_crds_can_be_given(tmp_path: Path) -> None:
    gadgets = tmp_path / "gadgets"
    gadgets.mkdir()
    (gadgets / "a.yaml.j2").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    gadget = {"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "g"}}
    both = json.dumps({"apiVersion": "v1", "kind": "List", "items": [echo("web"), gadget]})
    arguments = ("render", "-", "--templates=templates", f"--templates={tmp_path}", "--crds=crds", f"--crds={tmp_path}")
    code, out, err = await run(*arguments, stdin=both)
    assert (code, err) == (0, "")
    assert [body["kind"] for body in yaml.safe_load_all(out)] == ["Deployment", "ConfigMap"]
    code, again, _ = await run("render", "-", stdin=both, SSA_OPERATOR_TEMPLATES=f"templates:{tmp_path}")
    assert (code, again) == (0, out)


async def test_render_names_a_document_that_would_wait_and_prints_its_manifest(tmp_path: Path) -> None:
    templates = folder(tmp_path, a=ORDERED)
    code, out, err = await run("render", "-", f"--templates={templates}", stdin=json.dumps(echo("web")))
    assert (code, err) == (0, "")
    assert [body["metadata"]["name"] for body in yaml.safe_load_all(out)] == ["migrate", "later"]
    comments = [line for line in out.splitlines() if line.startswith("#")]
    said = "ConfigMap default/{} is waiting for Job/migrate to be ready (for Echo web)"
    assert comments == [
        "# echoes.example.com/a.yaml.j2:1",
        "# echoes.example.com/a.yaml.j2:5",
        f"# echoes.example.com/a.yaml.j2:5: {said.format('later')}",
        f"# echoes.example.com/a.yaml.j2:12: {said.format('reads')}",
    ]
    code, _, _ = await run("render", "-", "--strict", f"--templates={templates}", stdin=json.dumps(echo("web")))
    assert code == 1


async def test_render_names_a_cycle_and_shows_everything_else(tmp_path: Path) -> None:
    templates = folder(
        tmp_path,
        a=ORDERED.replace("{name: migrate}", "{name: migrate, annotations: {ssa-operator.dev/after: ConfigMap/later}}"),
    )
    code, out, err = await run("render", "-", f"--templates={templates}", stdin=json.dumps(echo("web")))
    assert code == 1
    assert (
        "a.yaml.j2:1: Job default/migrate is in a dependency cycle: Job/migrate -> ConfigMap/later -> Job/migrate"
        in err
    )
    assert yaml.safe_load(out) is None


@pytest.mark.exhaustive
async def test_render_of_several_objects_as_json_is_a_list() -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [echo("a"), echo("b")]}
    _, out, _ = await run("render", "-", "--output=json", stdin=json.dumps(both))
    assert [item["metadata"]["name"] for item in json.loads(out)["items"]] == ["a", "b"]


async def test_render_prints_every_valid_manifest_and_names_what_fails(tmp_path: Path) -> None:
    folder = tmp_path / "echoes.example.com"
    folder.mkdir()
    (folder / "a.yaml.j2").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n")
    (folder / "b.yaml.j2").write_text("a:\n  b: {{ spec.nothing }}\n")
    code, out, err = await run("render", "examples/echo.yaml", f"--templates={tmp_path}")
    assert code == 1
    assert yaml.safe_load(out)["kind"] == "ConfigMap"
    assert "echoes.example.com/b.yaml.j2:2: spec.nothing" in err


async def test_render_of_a_cluster_scoped_parent_requires_a_namespace_in_the_template(tmp_path: Path) -> None:
    folder = tmp_path / "namespaces"
    folder.mkdir()
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: NAMESPACE}\n"
    (folder / "good.yaml.j2").write_text(manifest.replace("NAMESPACE", "{{ name }}"))
    (folder / "bad.yaml.j2").write_text(manifest.replace(", namespace: NAMESPACE", ""))
    # The API server removes a namespace of a cluster-scoped object.
    parent = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "namespace": "x"}})
    code, out, err = await run("render", "-", "--as-applied", f"--templates={tmp_path}", stdin=parent)
    assert code == 1
    assert yaml.safe_load(out)["metadata"]["namespace"] == "team"
    assert "namespaces/bad.yaml.j2:1: ConfigMap a needs metadata.namespace" in err
    assert "(for Namespace team)" in err


async def test_render_names_the_object_that_a_document_would_wait_for(tmp_path: Path) -> None:
    folder = tmp_path / "echoes.example.com"
    folder.mkdir()
    (folder / "a.yaml.j2").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n")
    data = "data: {ip: \"{{ child('Service', 'a').spec.clusterIP }}\"}\n"
    (folder / "b.yaml.j2").write_text(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: b}}\n{data}")
    code, out, _ = await run("render", "examples/echo.yaml", f"--templates={tmp_path}")
    assert code == 0
    assert yaml.safe_load(out)["kind"] == "Service"
    assert "# echoes.example.com/b.yaml.j2:4: ConfigMap default/b is waiting for Service/a" in out
    code, _, _ = await run("render", "examples/echo.yaml", f"--templates={tmp_path}", "--strict")
    assert code == 1


async def test_render_without_a_folder_names_the_folder() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    code, _, err = await run("render", "-", stdin=json.dumps(secret))
    assert code == 1
    assert "no templates for Secret a: there is no folder secrets" in err


async def test_a_crd_in_place_of_its_object_gets_the_commands_for_crds() -> None:
    code, _, err = await run("render", "crds/echoes.example.com.yaml")
    assert code == 1
    assert err == (
        "ssa-operator: crds/echoes.example.com.yaml:1: echoes.example.com is a CRD, not one of its objects; "
        "write `ssa-operator crds apply` to install it, `ssa-operator check` to check it, and the file of an object "
        "to render\n"
    )


async def test_manifests_that_do_not_fit_into_the_records_of_their_parent_are_named(tmp_path: Path) -> None:
    name = "a" * 240
    text = f"""\
{{% for number in range(900) %}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: "{name}-{{{{ number }}}}", namespace: other}}
{{% endfor %}}
"""
    templates = folder(tmp_path, many=text)
    (templates / "echoes.example.com" / "_settings.yaml").write_text("clusterScope: true\n")
    arguments = ("render", "-", "--templates", str(templates), "--crds=crds")
    code, out, err = await run(*arguments, stdin=json.dumps(echo("a", 1)))
    assert (code, out) == (1, "")
    assert "can't be recorded on its parent before it is created" in err

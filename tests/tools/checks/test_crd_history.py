"""`check --against`: the CRDs beside those of a folder, a file or a git revision."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ssa_operator.cli.main import application_of

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  names: {kind: Shop, plural: shops}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                size: {type: integer, minimum: 1}
                note: {type: string}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
FILE = "crds/shop.yaml"


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project below the root of a git repository, which has it in its first commit."""
    folder = tmp_path / "team" / "shop"
    for name, text in (
        (FILE, CRD),
        ("templates/shops.example.com/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    ):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    monkeypatch.chdir(folder)
    return folder


def checked(*arguments: str) -> Result:
    return CliRunner().invoke(application_of(["check"]), ["check", "--api-server=never", *arguments])


def changes(*arguments: str) -> list[str]:
    return [line for line in checked(*arguments).output.splitlines() if " crd-" in line and "columns" not in line]


@pytest.mark.parametrize("state", ["HEAD", "earlier", "earlier/crds/shop.yaml", "earlier/crds"])
def test_a_change_that_loses_is_found_with_its_line(project: Path, state: str) -> None:
    shutil.copytree(project / "crds", project / "earlier" / "crds")
    assert changes("--against", state) == []
    (project / FILE).write_text(
        CRD.replace("minimum: 1", "minimum: 2").replace("                note: {type: string}\n", "")
    )
    lost, narrowed = changes("--against", state)
    assert lost.startswith("crds/shop.yaml:")
    assert "error crd-removed: shops.example.com: spec.note of version v1 is gone" in lost
    assert narrowed.startswith(
        "crds/shop.yaml:21: error crd-narrowed: shops.example.com: spec.size of version v1 has minimum 2"
    )
    assert checked("--against", state).exit_code == 1


def test_a_crd_that_is_missing_now_is_a_removal(project: Path) -> None:
    (project / FILE).unlink()
    (found,) = changes("--against", "HEAD")
    assert found.startswith("error crd-removed: the CRD shops.example.com is gone")


def test_a_revision_of_before_the_crds_has_nothing_to_lose(project: Path) -> None:
    git(project, "rm", "-q", "--cached", FILE)
    git(project, "commit", "-qm", "second")
    assert changes("--against", "HEAD") == []
    assert changes("--against", "HEAD~1") == []


@pytest.mark.parametrize("state", ["nothing", "--output=x", "HEAD:team/shop/crds"])
def test_a_state_that_is_not_there_is_an_error(project: Path, state: str) -> None:
    result = checked(f"--against={state}")
    assert "there is no folder, file or revision" in str(result.exception) + result.output
    assert not (project / "x").exists()


def test_an_earlier_crd_that_is_no_yaml_is_named(project: Path) -> None:
    (project / FILE).write_text("a: [\n")
    git(project, "commit", "-qam", "second")
    (project / FILE).write_text(CRD)
    result = checked("--against", "HEAD")
    assert "HEAD:team/shop/crds/shop.yaml:" in str(result.exception) + result.output


def test_a_short_schema_is_compared_as_the_crd_that_it_stands_for(project: Path) -> None:
    (project / FILE).unlink()
    schema = project / "templates/shops.example.com/_schema.yaml"
    schema.write_text("kind: Shop\nversion: v1\nspec:\n  size: integer | minimum=1\n  note: string\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "second")
    assert changes("--against", "HEAD") == []
    schema.write_text("kind: Shop\nversion: v1\nspec:\n  size: integer | minimum=2\n  note: string\n")
    (found,) = changes("--against", "HEAD")
    assert found.startswith("templates/shops.example.com/_schema.yaml:4: error crd-narrowed: ")
    schema.unlink()
    (found,) = changes("--against", "HEAD")
    assert "crd-removed" in found

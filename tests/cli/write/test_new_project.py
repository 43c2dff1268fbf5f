"""`ssa-operator new --project`: the repository that it writes works as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from typer.testing import CliRunner

from ssa_operator import __version__
from ssa_operator.cli.main import application_of
from ssa_operator.operator.process.streams import CommandError
from tests.packaging.checkout import ROOT

GROUP = "example.com"
SITE = ("new", "WebSite", f"--group={GROUP}", "--field=replicas:int=2", "--field=host:string!")


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    result = CliRunner().invoke(application_of(), arguments)
    if isinstance(result.exception, CommandError):
        return result.exception.code, result.stdout, str(result.exception)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new repository, which is the working folder of the commands after it."""
    folder = tmp_path / "sites"
    assert run(*SITE, f"--project={folder}")[::2] == (0, "")
    monkeypatch.chdir(folder)
    return folder


def test_it_has_everything_around_the_resource(tmp_path: Path) -> None:
    code, out, err = run(*SITE, f"--project={tmp_path / 'sites'}")
    assert (code, err) == (0, "")
    files = sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "sites").rglob("*") if path.is_file())
    assert files == [
        "sites/.github/workflows/operator.yaml",
        "sites/.gitignore",
        "sites/.pre-commit-config.yaml",
        "sites/Dockerfile",
        "sites/Makefile",
        "sites/README.md",
        "sites/deploy/permissions.yaml",
        "sites/deploy/values.yaml",
        "sites/examples/website.yaml",
        "sites/requirements.txt",
        f"sites/templates/websites.{GROUP}/_schema.yaml",
        f"sites/templates/websites.{GROUP}/_status.yaml.j2",
        f"sites/templates/websites.{GROUP}/deployment.yaml.j2",
        f"sites/templates/websites.{GROUP}/service.yaml.j2",
        f"sites/tests/websites.{GROUP}/example/expected.yaml",
        f"sites/tests/websites.{GROUP}/example/parent.yaml",
        f"sites/tests/websites.{GROUP}/example/status.yaml",
    ]
    *created, last = out.splitlines()
    assert sorted(created) == [f"created {tmp_path / file}" for file in files]
    assert last == f"next: cd {tmp_path / 'sites'} && ssa-operator dev"
    assert not [
        file
        for file in files
        if any(f"@{word}@" in (tmp_path / file).read_text() for word in ("name", "kind", "folder", "declared", "crds"))
    ]


def test_its_requirements_have_what_the_local_control_plane_imports(repository: Path) -> None:
    (line,) = (repository / "requirements.txt").read_text().splitlines()
    required = Requirement(line)
    assert (required.name, str(required.specifier)) == ("ssa-operator", f"=={__version__}")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = {Requirement(each).name for extra in required.extras for each in extras[extra]}
    assert {"cryptography", "platformdirs"} <= installed


def test_its_image_has_the_tag_of_a_commit(repository: Path) -> None:
    # With a tag that stays, `helm upgrade` changes no pod, and new templates never roll out.
    values = yaml.safe_load((repository / "deploy" / "values.yaml").read_text())
    assert values["image"] == {"repository": "registry.example/sites"}
    readme = (repository / "README.md").read_text()
    build, push, install = re.findall(r"^    ((?:docker|helm) (?:[^\\\n]|\\\n)*)$", readme, re.MULTILINE)
    image = '"registry.example/sites:$TAG"'
    assert build.endswith(f"--tag {image} .")
    assert push == f"docker push {image}"
    # A commit such as 1234567 is no number.
    assert '--set-string image.tag="$TAG"' in install


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["null", "true", "no", "e3"])
def test_each_legal_name_stays_a_name_in_its_values(tmp_path: Path, name: str) -> None:
    assert run(*SITE, f"--project={tmp_path / name}")[::2] == (0, "")
    values = yaml.safe_load((tmp_path / name / "deploy" / "values.yaml").read_text())
    assert values == {"fullnameOverride": name, "image": {"repository": f"registry.example/{name}"}}


def test_the_commands_of_its_readme_and_workflow_pass(repository: Path) -> None:
    assert run("check", "--strict") == (0, "", "")
    assert run("test") == (0, "1 case: 1 passed\n", "")
    assert run("rbac", "--helm-values") == (0, (repository / "deploy" / "permissions.yaml").read_text(), "")


def test_its_make_targets_pass_and_refuse_permissions_that_are_not_those_of_the_templates(repository: Path) -> None:
    def make(target: str) -> subprocess.CompletedProcess[str]:
        # The environment of this repository, which has ssa-operator already.
        command = ["make", target, f"BIN={Path(sys.executable).parent}", "INSTALLED="]
        return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)

    listed = re.findall(r"^  make (\w+)", make("help").stdout, re.MULTILINE)
    assert listed == ["help", "install", "run", "check", "test", "rbac"]
    (hook,) = yaml.safe_load((repository / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert hook["entry"] == "make check"
    permissions = repository / "deploy" / "permissions.yaml"
    before = permissions.read_text()
    permissions.write_text("rbac: {}\n")
    refused = make("check")
    assert (refused.returncode != 0, "-rbac: {}" in refused.stdout) == (True, True)
    assert make("rbac").returncode == 0
    assert permissions.read_text() == before
    assert make("check").returncode == 0


def test_its_values_have_the_permissions_of_the_children(repository: Path) -> None:
    values = yaml.safe_load((repository / "deploy" / "permissions.yaml").read_text())
    allowed = {
        (group, resource, verb)
        for rule in values["rbac"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {
        ("apps", "deployments", "patch"),
        ("", "services", "delete"),
        (GROUP, "websites/status", "patch"),
    } <= allowed
    assert (GROUP, "websites", "delete") not in allowed


def test_another_resource_changes_the_permissions(repository: Path) -> None:
    (repository / "in.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {b: c}\n")
    assert run("new", "Note", f"--group={GROUP}", "--from-manifests=in.yaml")[0] == 0
    assert run("check", "--strict")[0] == 0
    assert run("test")[1] == "2 cases: 2 passed\n"
    _, permissions, _ = run("rbac", "--helm-values")
    added = set(permissions.splitlines()) - set((repository / "deploy" / "permissions.yaml").read_text().splitlines())
    assert "    resources: [configmaps]" in added


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "README.md").write_text("mine")
    code, out, err = run(*SITE, f"--project={tmp_path / 'sites'}")
    assert (code, out) == (1, "")
    assert f"{tmp_path / 'sites' / 'README.md'}" in err
    assert [path.name for path in (tmp_path / "sites").iterdir()] == ["README.md"]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("My_Sites", (), "'My_Sites' becomes the name of the image and the release; name the folder with lower-case"),
        ("-", (), "'-' becomes the name of the image and the release"),
        ("1e3", (), "'1e3' becomes the name of the image and the release"),
        ("sites", ("--crds=here",), "--project has its own folders; leave out --templates, --crds and --examples"),
    ],
)
def test_wrong_usage_is_refused_and_writes_nothing(
    tmp_path: Path, name: str, options: tuple[str, ...], words: str
) -> None:
    code, out, err = run(*SITE, f"--project={tmp_path / name}", *options)
    assert (code, out) == (2, "")
    assert words in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.more_cases
@pytest.mark.parametrize("option", ["--namespace=a", "--explain", "--check", "--output=json", "--impersonate=a"])
def test_values_for_helm_are_cluster_wide_rules(repository: Path, option: str) -> None:
    code, out, err = run("rbac", "--helm-values", option)
    assert (code, out) == (2, "")
    assert "--helm-values prints cluster-wide rules as YAML" in err

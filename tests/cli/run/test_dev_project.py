"""`ssa-operator dev` follows a project: its CRDs, its examples and its template folders."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct

from tests.cli.process import run, started
from tests.operator.conversion import sites
from tests.operator.harness import Desk, definition, map_template
from tests.operator.test_refused_crds import save

pytestmark = pytest.mark.cluster


class Project(Struct, frozen=True, kw_only=True):
    """A project with one folder, whose parents have the field `text`."""

    desk: Desk
    group: str
    folder: Path

    def name(self, plural: str) -> str:
        return f"{plural}.{self.group}"

    @property
    def arguments(self) -> tuple[str, ...]:
        names = ("templates", "crds", "examples")
        return ("dev", "--name=tests", *(f"--{name}={self.folder / name}" for name in names), "--listen=")

    def save_crd(self, plural: str, *fields: str) -> None:
        crd = definition(plural, self.group, plural.removesuffix("s").capitalize())
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"] = {"type": "object", "properties": {name: {"type": "string"} for name in fields}}
        save(self.folder / "crds", crd)

    def save_example(self, plural: str, **spec: Any) -> None:
        metadata = {"name": plural.removesuffix("s"), "namespace": self.desk.namespace}
        kind = plural.removesuffix("s").capitalize()
        body = {"apiVersion": f"{self.group}/v1", "kind": kind, "metadata": metadata, "spec": spec}
        (self.folder / "examples").mkdir(exist_ok=True)
        (self.folder / "examples" / f"{plural}.yaml").write_text(yaml.safe_dump(body))

    def save_template(self, plural: str, **data: str) -> None:
        folder = self.folder / "templates" / self.name(plural)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "map.yaml.j2").write_text(map_template(plural, **data))


@pytest.fixture
def project(desk: Desk, group: str, tmp_path: Path) -> Project:
    found = Project(desk=desk, group=group, folder=tmp_path)
    found.save_crd("olds", "text")
    found.save_template("olds", v="spec.text")
    found.save_example("olds", text="one")
    return found


async def test_dev_applies_the_crds_and_examples_that_are_saved_and_starts_new_folders(project: Project) -> None:
    desk = project.desk
    async with started(*project.arguments) as command:
        await desk.until("configmaps", "old-olds", lambda body: body["data"]["v"] == "one")

        project.save_example("olds", text="two")
        await desk.until("configmaps", "old-olds", lambda body: body["data"]["v"] == "two")

        project.save_example("olds", text="two", more="three")
        project.save_crd("olds", "text", "more")
        project.save_template("olds", v="spec.text", more="spec.more")
        await desk.until("configmaps", "old-olds", lambda body: body["data"].get("more") == "three")

        project.save_template("news", v="spec.text")
        project.save_example("news", text="four")
        await command.says("examples/news.yaml:1: ")
        project.save_crd("news", "text")
        await desk.until("configmaps", "new-news", lambda body: body["data"]["v"] == "four")

        command.process.send_signal(signal.SIGTERM)
        assert await command.ended() == 0


async def test_new_beside_dev_needs_no_other_command(project: Project) -> None:
    async with started(*project.arguments) as command:
        await command.says(f"{project.desk.namespace}/old: Ready=True")
        templates = f"--templates={project.folder / 'templates'}"
        code, _, err = await run("new", "Shop", f"--group={project.group}", templates)
        assert code == 0, err
        await command.says("default/shop: Ready=True")
        shutil.rmtree(project.folder / "templates" / project.name("shops"))
        await command.says(f"{project.name('shops')}: stops: its templates are gone")
        command.process.send_signal(signal.SIGTERM)
        assert await command.ended() == 0


@pytest.mark.slow
async def test_dev_serves_conversions(project: Project) -> None:
    desk, name = project.desk, project.name("sites")
    sites.write(project.folder, name=name)
    metadata = {"name": "web", "namespace": desk.namespace}
    spec = {"image": "nginx", "count": 3, "size": "large"}
    example = {"apiVersion": f"{project.group}/v1alpha1", "kind": "Site", "metadata": metadata, "spec": spec}
    (project.folder / "examples" / "site.yaml").write_text(yaml.safe_dump(example))
    async with started(*project.arguments) as command:
        await desk.until("configmaps", "web", lambda body: body["data"] == {"image": "nginx"})
        for version, expected in (("v1", {"image": "nginx", "replicas": {"min": 3}}), ("v1alpha1", spec)):
            text = await desk.kubectl("get", f"sites.{version}.{project.group}", "web", "--output=json")
            assert yaml.safe_load(text)["spec"] == expected
        await desk.delete(name, "web")  # later no operator converts it
        command.process.send_signal(signal.SIGTERM)
        assert await command.ended() == 0


async def test_an_example_whose_crd_is_refused_is_no_second_problem(project: Project) -> None:
    desk = project.desk
    broken = project.folder / "crds" / f"{project.name('news')}.yaml"
    async with started(*project.arguments) as command:
        await command.says(f"{desk.namespace}/old: Ready=True")
        project.save_crd("news", "text")
        broken.write_text(broken.read_text().replace("type: string", "type: text"))
        project.save_template("news", v="spec.text")
        project.save_example("news", text="one")
        project.save_example("olds", text="two")
        await command.says(f"the CRD {project.name('news')} is not applied")
        await desk.until("configmaps", "old-olds", lambda body: body["data"]["v"] == "two")
        project.save_crd("news", "text")
        await desk.until("configmaps", "new-news", lambda body: body["data"]["v"] == "one")
        command.process.send_signal(signal.SIGTERM)
        assert await command.ended() == 0
    assert "examples/news.yaml:1: the cluster serves no" not in "".join(command.lines)


async def test_dev_follows_a_folder_of_crds_that_comes_later(desk: Desk, group: str, tmp_path: Path) -> None:
    project = Project(desk=desk, group=group, folder=tmp_path)
    project.save_template("shorts", v="spec.text")
    schema = tmp_path / "templates" / project.name("shorts") / "_schema.yaml"
    schema.write_text("kind: Short\nversion: v1\nspec: {text: string}\n")
    project.save_example("shorts", text="one")
    async with started("dev", "--name=tests", "--listen=", PWD=str(tmp_path)) as command:
        await desk.until("configmaps", "short-shorts", lambda body: body["data"]["v"] == "one")
        project.save_template("news", v="spec.text")
        project.save_crd("news", "text")
        project.save_example("news", text="two")
        await desk.until("configmaps", "new-news", lambda body: body["data"]["v"] == "two")
        command.process.send_signal(signal.SIGTERM)
        assert await command.ended() == 0

"""The options and words that hands know from kubectl: `-f`, `-A`, `-l`, `-o wide`, and an object in place of a file."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run
from tests.operator.harness import ECHOES, ROOT, Desk, echo, operating

EXAMPLE = ROOT / "examples" / "echo.yaml"


async def test_a_file_is_named_by_f_too_and_a_dash_is_standard_input() -> None:
    for command in (("render",), ("graph",), ("graph", "--output=mermaid")):
        named = await run(*command, "examples/echo.yaml")
        assert named[0] == 0
        assert await run(*command, "-f", "examples/echo.yaml") == named
        read = await run(*command, "-f", "-", stdin=EXAMPLE.read_text())
        assert read == await run(*command, "-", stdin=EXAMPLE.read_text())
        assert read[0] == 0


@pytest.mark.parametrize("command", ["apply", "diff", "render", "graph"])
async def test_without_a_file_a_command_names_the_ways_to_give_one(command: str) -> None:
    code, out, err = await run(command)
    assert (code, out) == (2, "")
    assert "ssa-operator: name " in err
    assert "-f FILE" in err
    code, _, err = await run(command, "-f", "nowhere.yaml")
    assert (code, err) == (2, "ssa-operator: there is no file or folder nowhere.yaml; correct -f\n")


async def test_a_graph_is_data_too() -> None:
    code, out, _ = await run("graph", "examples/echo.yaml", "-o", "json")
    assert code == 0
    (found,) = json.loads(out)
    assert found["parent"] == "Echo default/hello"
    (node,) = found["nodes"]
    assert (node["label"], node["manifest"]) == ("Deployment/hello", True)
    assert (node["file"], node["line"]) == (f"{ECHOES}/deployment.yaml.j2", 1)
    assert (found["edges"], found["cycles"]) == ([], [])


@pytest.fixture
async def echoes(desk: Desk, client: Client) -> AsyncIterator[Desk]:
    """Two ready Echoes, `web` with the label team=a, and the templates of the project."""
    async with operating(client, Options(templates=(ROOT / "templates",), namespaces=(desk.namespace,), listen=None)):
        web = echo("web")
        await desk.apply_until_ready(web | {"metadata": web["metadata"] | {"labels": {"team": "a"}}})
        await desk.apply_until_ready(echo("other"))
        yield desk


async def shown(desk: Desk, *arguments: str) -> str:
    code, out, err = await run(*arguments, f"--kubeconfig={desk.kubeconfig}")
    assert (code, err) == (0, ""), arguments
    return out


@pytest.mark.cluster
async def test_lists_take_the_options_of_kubectl_get(echoes: Desk) -> None:
    here = f"-n{echoes.namespace}"
    web, other = f"Echo {echoes.namespace}/web", f"Echo {echoes.namespace}/other"
    for command in ("status", "tree"):
        labelled = await shown(echoes, command, here, "-l", "team=a")
        assert web in labelled
        assert other not in labelled
        everywhere = await shown(echoes, command, "-A", "-nkube-system")
        assert web in everywhere
        assert other in everywhere
        wide = await shown(echoes, command, here, "-o", "wide")
        assert f"Echo.example.com {echoes.namespace}/web  Ready" in wide
        assert f"Deployment.apps {echoes.namespace}/web  Current" in wide
        assert f"Deployment {echoes.namespace}/web is ready" in wide
    code, _, err = await run("status", "-l", "team in", f"--kubeconfig={echoes.kubeconfig}")
    assert code == 2
    assert "--selector is 'team in'" in err


@pytest.mark.cluster
async def test_tree_without_a_name_shows_all_parents_down_to_pods(echoes: Desk) -> None:
    here = f"-n{echoes.namespace}"
    found, of_kind = await shown(echoes, "tree", here), await shown(echoes, "tree", "echo", here)
    assert re.sub(r"\d+s$", "", found, flags=re.MULTILINE) == re.sub(r"\d+s$", "", of_kind, flags=re.MULTILINE)
    assert [line.split()[1] for line in found.splitlines() if line.startswith("Echo")] == [
        f"{echoes.namespace}/other",
        f"{echoes.namespace}/web",
    ]
    assert f"Pod {echoes.namespace}/web-" in found
    assert len(json.loads(await shown(echoes, "tree", here, "-ojson"))) == 2
    assert json.loads(await shown(echoes, "tree", "echo/web", here, "-ojson"))["name"] == "web"


@pytest.mark.cluster
async def test_a_parent_of_the_cluster_is_rendered_by_its_name(echoes: Desk, tmp_path: Path) -> None:
    here = f"-n{echoes.namespace}"
    named = await shown(echoes, "render", "echo/web", here)
    assert "kind: Deployment" in named
    file = tmp_path / "web.yaml"
    file.write_text(json.dumps(echo("web")))
    assert named == await shown(echoes, "render", "--live", "-f", str(file), here)
    code, _, err = await run("render", "echo/nobody", here, f"--kubeconfig={echoes.kubeconfig}")
    assert code == 1
    assert "there is no Echo" in err


def without_ages(text: str) -> str:
    """The output of `blame` without the times that pass between two calls."""
    return re.sub(r"\w+ ago *", "", text)


@pytest.mark.cluster
async def test_blame_of_a_child_finds_its_parent(echoes: Desk) -> None:
    here = f"-n{echoes.namespace}"
    named = await shown(echoes, "blame", "echo/web", "deployment/web", here)
    assert "deployment.yaml.j2:" in named
    assert without_ages(await shown(echoes, "blame", "deployment/web", here)) == without_ages(named)
    pod = next(
        line.split("/")[1].split()[0]
        for line in (await shown(echoes, "tree", "echo/web", here)).splitlines()
        if "Pod " in line
    )
    code, out, err = await run("blame", f"pod/{pod}", here, f"--kubeconfig={echoes.kubeconfig}")
    assert (code, without_ages(out)) == (0, without_ages(named))
    assert f"Pod {echoes.namespace}/{pod} is no child of Echo {echoes.namespace}/web" in err
    await echoes.kubectl("create", "configmap", "own")
    code, _, err = await run("blame", "configmap/own", here, f"--kubeconfig={echoes.kubeconfig}")
    assert code == 2
    assert "is neither a parent nor a child" in err
    await echoes.kubectl("delete", "configmap", "own")


@pytest.mark.cluster
async def test_crds_are_applied_from_a_file_and_from_standard_input(desk: Desk) -> None:
    file = ROOT / "crds" / f"{ECHOES}.yaml"
    assert await shown(desk, "crds", "apply", "-f", str(file)) == f"{ECHOES} established\n"
    code, out, _ = await run("crds", "apply", "-f", "-", f"--kubeconfig={desk.kubeconfig}", stdin=file.read_text())
    assert (code, out) == (0, f"{ECHOES} established\n")


@pytest.mark.cluster
async def test_a_namespace_other_than_that_of_the_file_is_refused_in_the_words_of_kubectl(
    desk: Desk, tmp_path: Path
) -> None:
    file = tmp_path / "web.yaml"
    web = echo("web")
    file.write_text(json.dumps(web | {"metadata": web["metadata"] | {"namespace": "default"}}))
    for command in ("apply", "diff"):
        code, out, err = await run(command, str(file), f"-n{desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
        assert (code, out) == (2, ""), command
        assert (
            f'the namespace from the provided object "default" does not match the namespace "{desk.namespace}"' in err
        )
    assert await desk.find(ECHOES, "web") is None


@pytest.mark.cluster
async def test_status_without_the_crd_says_how_to_install_it(desk: Desk, tmp_path: Path) -> None:
    templates = tmp_path / "templates"
    (templates / "cups.unknown.example.com").mkdir(parents=True)
    at = (f"--templates={templates}", f"-n{desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run("status", *at)
    assert (code, out) == (1, "")
    assert "cups.unknown.example.com: the cluster serves no resource cups.unknown.example.com; install its CRD" in err
    assert "with `ssa-operator crds apply`" in err
    (templates / ECHOES).mkdir()
    code, out, err = await run("status", *at)
    assert (code, out) == (0, "no parents\n")
    assert "install its CRD with `ssa-operator crds apply`" in err


@pytest.mark.cluster
async def test_every_command_warns_once_of_an_unverified_api_server(desk: Desk, tmp_path: Path) -> None:
    config = yaml.safe_load(desk.kubeconfig.read_text())
    for each in config["clusters"]:
        each["cluster"].pop("certificate-authority-data", None)
        each["cluster"].pop("certificate-authority", None)
        each["cluster"]["insecure-skip-tls-verify"] = True
    kubeconfig = tmp_path / "insecure"
    kubeconfig.write_text(yaml.safe_dump(config))
    for command in ("status", "plan", "diff"):
        files = ("examples/echo.yaml",) if command == "diff" else ()
        _, _, err = await run(command, *files, f"--kubeconfig={kubeconfig}")
        assert err.count("has insecure-skip-tls-verify") == 1, command

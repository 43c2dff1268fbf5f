"""`ssa-operator diff`: what the API server would change, and whose fields these are."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import in_terminal, run
from tests.operator.harness import (
    ECHOES,
    Desk,
    config_map,
    echo,
    map_template,
    not_ready_because,
    only,
    operating,
    uid,
)

pytestmark = pytest.mark.cluster

TWO = f"""\
{map_template("a", replicas="spec.replicas")}---
apiVersion: v1
kind: Secret
metadata:
  name: {{{{ name }}}}
stringData:
  word: first-secret-word
  same: unchanged-word
"""


SECRET_OF = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{{{ name }}}}\nstringData:\n  {data}\n"


async def applied(desk: Desk, client: Client, templates: Path, *parents: dict[str, Any]) -> None:
    """Have an operator make these parents ready."""
    options = Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        for parent in parents:
            await desk.apply_until_ready(parent)


async def diff(desk: Desk, templates: Path, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
    return await run(
        "diff",
        *arguments,
        f"--templates={templates}",
        f"--namespace={desk.namespace}",
        f"--kubeconfig={desk.kubeconfig}",
        stdin=stdin,
    )


async def objects(desk: Desk, templates: Path, *arguments: str, stdin: str = "") -> dict[str, dict[str, Any]]:
    """The changed objects in the JSON of one parent, by `Kind/name`."""
    _, out, err = await diff(desk, templates, *arguments, "--output=json", stdin=stdin)
    assert err == ""
    (parent,) = json.loads(out)["parents"]
    return {f"{each['kind']}/{each['name']}": each for each in parent["objects"]}


async def test_without_differences_nothing_is_printed_and_the_exit_code_is_0(
    desk: Desk, client: Client, templates: Path
) -> None:
    only(templates, a=TWO)
    await applied(desk, client, templates, echo("web"))
    assert await diff(desk, templates, "echo/web") == (0, "", "")
    assert await diff(desk, templates, "echo", "web") == (0, "", "")


async def test_changes_of_the_templates_name_their_line_and_secrets_are_hashed(
    desk: Desk, client: Client, templates: Path
) -> None:
    only(templates, a=TWO)
    await applied(desk, client, templates, echo("web"))
    only(
        templates,
        a=TWO.replace("first-secret-word", "second-secret-word").replace("  replicas:", "  count: x\n  replicas:"),
    )
    code, out, err = await diff(desk, templates, "echo/web")
    assert (code, err) == (1, "")
    assert f"change ConfigMap {desk.namespace}/web-a" in out
    assert "+  count: x" in out
    assert f"data.count changes, rendered at {ECHOES}/a.yaml.j2:6" in out
    for word in ("first-secret-word", "second-secret-word", "unchanged-word"):
        assert word not in out
        assert base64.b64encode(word.encode()).decode() not in out
    changed = [line.strip() for line in out.splitlines() if "(hash " in line and line.strip()[0] in "+-"]
    assert [line.partition(": (hash ")[0] for line in changed] == ["-  word", "+  word"]
    assert len(set(changed)) == 2


async def test_only_what_an_earlier_template_generated_is_hidden_in_a_diff(
    desk: Desk, client: Client, templates: Path
) -> None:
    secret = SECRET_OF.format(data="word: {{ generated() }}")
    pin = "{{ child('Secret', name).data.word | b64decode }}"
    only(
        templates,
        a=map_template("a", one="'gone-1'", two="'2'"),
        b=map_template("b", one="'gone-2'"),
        c=map_template("c", pin=pin[3:-3], other="'1'"),
        secret=secret,
    )
    await applied(desk, client, templates, echo("web"))
    word = base64.b64decode((await desk.read("secrets", "web"))["data"]["word"]).decode()
    only(templates, a=map_template("a", two="'3'"), c=map_template("c", pin=pin[3:-3]), secret=secret)
    code, out, err = await diff(desk, templates, "echo/web")
    assert (code, err) == (1, "")
    for shown in (
        "-  one: gone-1",
        "-  two: '2'",
        "+  two: '3'",
        "-  one: gone-2",
        f"prune ConfigMap {desk.namespace}/web-b",
    ):
        assert shown in out, out
    assert "-  other: (hash " in out, "it was beside the generated value"
    assert word not in out


async def test_what_an_object_is_and_what_its_template_writes_as_a_literal_is_no_secret(
    desk: Desk, templates: Path
) -> None:
    await desk.kubectl("create", "secret", "generic", "vault", "--from-literal=pw=correct-horse")
    config = """\
{% set users = {lookup("v1", "Secret", "vault").data.pw | b64decode: "admin"} %}
apiVersion: v1
kind: Secret
metadata:
  name: prometheus-{{ name }}
  labels: {app: prometheus, instance: "{{ name }}"}
stringData:
  prometheus.yaml: {{ {"users": users} | to_yaml | b64encode }}
  region: eu
"""
    only(templates, a=config)
    await desk.apply(echo("web"))
    found = (await objects(desk, templates, "echo/web"))["Secret/prometheus-web"]
    for shown in (
        "kind: Secret",
        "name: prometheus-web",
        "app: prometheus",
        "instance: web",
        "prometheus.yaml: (hash ",
    ):
        assert shown in found["diff"], found["diff"]
    assert "correct-horse" not in json.dumps(found)


@pytest.mark.exhaustive
async def test_a_field_of_another_manager_that_is_taken_back_names_the_manager(
    desk: Desk, client: Client, templates: Path
) -> None:
    await applied(desk, client, templates, echo("web", 1))
    await desk.kubectl("scale", "deployment", "web", "--replicas=4")
    found = await objects(desk, templates, "echo/web")
    (field,) = found["Deployment/web"]["fields"]
    assert (field["field"], field["before"], field["after"], field["cause"]) == ("spec.replicas", 4, 1, "taken")
    assert [(each["manager"], each["subresource"]) for each in field["managers"]] == [("kubectl", "scale")]
    assert field["file"] == f"{ECHOES}/deployment.yaml.j2"
    assert (await diff(desk, templates, "echo/web"))[0] == 1
    assert (await desk.read("deployments.apps", "web"))["spec"]["replicas"] == 4


@pytest.mark.exhaustive
async def test_a_field_that_is_given_up_and_that_others_own_is_told_as_left(
    desk: Desk, client: Client, templates: Path
) -> None:
    only(templates, a=map_template("a", one="'1'", two="'2'"))
    await applied(desk, client, templates, echo("web"))
    both = config_map("web-a", two="2")
    await desk.kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=json.dumps(both))
    only(templates, a=map_template("a", one="'1'"))
    found = (await objects(desk, templates, "echo/web"))["ConfigMap/web-a"]
    assert [(each["field"], each["managers"][0]["manager"]) for each in found["left"]] == [("data.two", "other")]
    assert found["fields"] == []


async def test_an_adoption_names_the_former_manager_and_the_fields_that_go(desk: Desk, templates: Path) -> None:
    only(templates, a=map_template("a", one="'1'"))
    await desk.kubectl_apply(echo("web"), config_map("web-a", one="0", old="x"))
    existing = await desk.read("configmaps", "web-a")
    code, out, _ = await diff(desk, templates, "echo/web")
    assert code == 1
    assert "the operator adopts the object from kubectl-client-side-apply" in out
    assert "data.old is removed, because only kubectl-client-side-apply (Update) wrote it" in out
    assert "-  old: x" in out
    assert await desk.read("configmaps", "web-a") == existing


async def test_a_new_parent_in_a_file_is_shown_with_its_children_and_stays_absent(desk: Desk, templates: Path) -> None:
    code, out, err = await diff(desk, templates, "-", stdin=json.dumps(echo("new", 3)))
    assert (code, err) == (1, "")
    assert f"create Echo {desk.namespace}/new" in out
    assert f"create Deployment {desk.namespace}/new  {ECHOES}/deployment.yaml.j2:1" in out
    assert "+  replicas: 3" in out
    assert await desk.find(ECHOES, "new") is None


@pytest.mark.exhaustive
async def test_prunes_recreations_waits_and_refusals_are_told(desk: Desk, client: Client, templates: Path) -> None:
    job = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{ name }}"
  annotations: {ssa-operator.dev/recreate: Background}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: IMAGE}]}}}
"""
    keep = map_template("keep", a="'b'")
    only(templates, job=job.replace("IMAGE", "one"), keep=keep, old=map_template("old", a="'b'"))
    options = Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply(echo("web"))
        live = await desk.read("jobs.batch", "web")
        await desk.read("configmaps", "web-old")
    only(templates, job=job.replace("IMAGE", "two"), keep=keep)
    code, out, _ = await diff(desk, templates, "echo/web")
    assert code == 1
    assert f"recreate Job {desk.namespace}/web: spec.template.spec.containers[0].image is immutable" in out
    assert f"prune ConfigMap {desk.namespace}/web-old" in out
    assert uid(await desk.read("jobs.batch", "web")) == uid(live)
    waits = map_template("late", a="lookup('v1', 'ConfigMap', 'later').data.x")
    refused = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: elsewhere}\n"
    only(templates, job=job.replace("IMAGE", "two"), late=waits, refused=refused)
    code, out, _ = await diff(desk, templates, "echo/web")
    assert code == 2
    assert f"wait ConfigMap {desk.namespace}/web-late: waiting for ConfigMap {desk.namespace}/later" in out
    assert "fail ConfigMap elsewhere/a: is outside its parent's namespace" in out
    kept = "is no longer rendered; kept because a template waits"
    assert f"prune ConfigMap {desk.namespace}/web-old: {kept}" in out


@pytest.mark.exhaustive
async def test_errors_are_one_line_with_exit_code_2(desk: Desk, templates: Path, tmp_path: Path) -> None:
    code, out, err = await diff(desk, templates, "echo/none")
    assert (code, out) == (2, "")
    assert f"there is no Echo {desk.namespace}/none" in err
    bad = {**echo("web"), "spec": {"replicas": "many"}}
    code, _, err = await diff(desk, templates, "-", stdin=json.dumps(bad))
    assert code == 2
    assert "standard input:1: apply of Echo" in err
    assert "spec.replicas" in err
    code, _, err = await diff(desk, templates, "echo/web", "examples/echo.yaml")
    assert code == 2
    assert "echo/web is no file" in err
    (templates / ECHOES / "bad.yaml.j2").write_text("{% if %}")
    code, _, err = await diff(desk, templates, "-", stdin=json.dumps(echo("web")))
    assert code == 2
    assert f"{ECHOES}/bad.yaml.j2:1" in err
    assert "Traceback" not in err


@pytest.mark.exhaustive
async def test_colours_are_for_terminals_without_no_color(desk: Desk, templates: Path, tmp_path: Path) -> None:
    (tmp_path / "echo.yaml").write_text(json.dumps(echo("new")))
    plain = (await diff(desk, templates, str(tmp_path / "echo.yaml")))[1]
    assert "\x1b[" not in plain
    cases: tuple[tuple[dict[str, str], bool], ...] = (({}, True), ({"NO_COLOR": "1"}, False))
    for environment, coloured in cases:
        arguments = ("diff", str(tmp_path / "echo.yaml"), f"--templates={templates}", "-n", desk.namespace)
        code, shown = await in_terminal(*arguments, f"--kubeconfig={desk.kubeconfig}", **environment)
        assert code == 1
        assert ("\x1b[32m" in shown) is coloured


@pytest.mark.exhaustive
async def test_a_second_controller_is_refused_by_diff_and_render_as_by_the_operator(
    desk: Desk, client: Client, templates: Path, tmp_path: Path
) -> None:
    owner = "ownerReferences: [{apiVersion: v1, kind: Pod, name: other, uid: other, controller: true}]"
    owned = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  {owner}\n"
    only(templates, a=map_template("a", x="1"), owned=owned)
    words = "is controlled by Pod other in its template, and its parent is its controller"
    options = Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("InvalidManifest", words))
    code, out, err = await diff(desk, templates, "echo/web")
    assert code != 0
    assert words in out + err
    (tmp_path / "echo.yaml").write_text(json.dumps(echo("web")))
    code, _, err = await run("render", str(tmp_path / "echo.yaml"), "--as-applied", f"--templates={templates}")
    assert code == 1
    assert words in err

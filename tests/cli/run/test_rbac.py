"""`ssa-operator rbac`, and the same review by a running operator."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.cli.process import run, started
from tests.operator.conversion.sites import write as write_sites
from tests.operator.harness import ECHOES, ROOT, Desk, echo, only
from tests.operator.limited_accounts import allowed_everywhere, limited

SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ name }}\nstringData:\n  word: hidden-content\n"
COMPUTED = "apiVersion: apps/v1\nkind: {{ spec.kind }}\nmetadata:\n  name: {{ name }}\nspec: {}\n"


async def manifests(*arguments: str) -> list[dict[str, Any]]:
    """What the command prints, without warnings."""
    code, out, err = await run("rbac", *arguments, KUBECONFIG="nowhere")
    assert (code, err) == (0, "")
    return list(yaml.safe_load_all(out))


def identities(bodies: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]) for body in bodies]


def things(folder: Path, text: str) -> Path:
    """A templates folder of things.a.example.com, which has no CRD file."""
    (folder / "templates" / "things.a.example.com").mkdir(parents=True)
    (folder / "templates" / "things.a.example.com" / "a.yaml.j2").write_text(text)
    return folder / "templates"


@pytest.mark.exhaustive
async def test_an_installation_has_the_permissions_that_the_command_prints() -> None:
    code, out, err = await run("rbac", KUBECONFIG="nowhere")
    assert (code, err) == (0, "")
    committed = (ROOT / "deploy" / "base" / "rbac.yaml").read_text()
    assert out == committed, "deploy/base/rbac.yaml is not what `ssa-operator rbac` prints; run `make rbac`"


async def test_it_prints_an_account_roles_and_bindings() -> None:
    bodies = await manifests("--service-account=echo-operator", "--operator-namespace=system")
    assert identities(bodies) == [
        ("ServiceAccount", "system", "echo-operator"),
        ("ClusterRole", "", "echo-operator"),
        ("ClusterRoleBinding", "", "echo-operator"),
        ("Role", "system", "echo-operator"),
        ("RoleBinding", "system", "echo-operator"),
    ]
    assert bodies[2]["subjects"] == [{"kind": "ServiceAccount", "name": "echo-operator", "namespace": "system"}]


@pytest.mark.parametrize("limits", [(), ("--namespace=team-a",)], ids=["everywhere", "in one namespace"])
async def test_nothing_is_granted_on_secrets_without_a_template_that_needs_them(
    tmp_path: Path, limits: tuple[str, ...]
) -> None:
    shutil.copytree(ROOT / "templates" / ECHOES, tmp_path / ECHOES)
    bodies = await manifests(f"--templates={tmp_path}", f"--crds={ROOT / 'crds'}", *limits)
    granted = {resource for body in bodies for rule in body.get("rules", ()) for resource in rule["resources"]}
    assert "deployments" in granted
    assert not granted & {"secrets", "*"}


@pytest.mark.exhaustive
async def test_the_lease_is_granted_in_the_operators_namespace_only() -> None:
    bodies = await manifests("--operator-namespace=system")
    granting = [
        (body["kind"], body["metadata"].get("namespace"))
        for body in bodies
        for rule in body.get("rules", ())
        if "leases" in rule["resources"]
    ]
    assert set(granting) == {("Role", "system")}


async def test_with_namespaces_the_cluster_role_has_what_is_cluster_scoped_and_the_parents_with_the_finalizer() -> None:
    bodies = await manifests("--namespace=team-a", "--namespace=team-b")
    assert [each for each in identities(bodies) if each[0].endswith("Role")] == [
        ("ClusterRole", "", "ssa-operator"),
        ("Role", "ssa-operator", "ssa-operator"),
        ("Role", "team-a", "ssa-operator"),
        ("Role", "team-b", "ssa-operator"),
    ]
    (cluster_role,) = [body for body in bodies if body["kind"] == "ClusterRole"]
    assert [rule["resources"] for rule in cluster_role["rules"]] == [
        ["namespaces"],
        ["customresourcedefinitions"],
        ["tokenreviews"],
        ["subjectaccessreviews"],
        ["neonbranches"],
        ["neonbranches/status"],
        ["neondatabases"],
        ["neondatabases/status"],
    ]


@pytest.mark.exhaustive
async def test_with_impersonation_the_operator_writes_no_children_and_the_accounts_have_an_unbound_role() -> None:
    printed = await manifests("--impersonate=deployer")
    assert [each for each in identities(printed) if each[0].endswith(("Role", "RoleBinding"))] == [
        ("ClusterRole", "", "ssa-operator"),
        ("ClusterRoleBinding", "", "ssa-operator"),
        ("Role", "ssa-operator", "ssa-operator"),
        ("RoleBinding", "ssa-operator", "ssa-operator"),
        ("ClusterRole", "", "ssa-operator-children"),
    ]
    own, account = printed[1]["rules"], printed[-1]["rules"]
    assert {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "resourceNames": ["deployer"],
        "verbs": ["impersonate"],
    } in own
    (watched,) = [rule for rule in own if rule["resources"] == ["deployments"]]
    assert watched["verbs"] == ["list", "watch"]
    (written,) = [rule for rule in account if rule["resources"] == ["deployments"]]
    assert written["verbs"] == ["get", "create", "patch", "delete"]
    _, out, _ = await run("rbac", "--impersonate=deployer")
    assert "# kubectl create rolebinding ssa-operator-children --namespace=NAMESPACE" in out


async def test_the_permissions_of_the_webhook_are_granted_only_for_an_operator_that_has_one(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "templates" / ECHOES, tmp_path / ECHOES)
    of_echoes = (f"--templates={tmp_path}", f"--crds={ROOT / 'crds'}")

    def of_webhook(bodies: list[dict[str, Any]]) -> list[tuple[str, list[str], list[str], list[str]]]:
        return [
            (body["kind"], rule["resources"], rule.get("resourceNames", []), rule["verbs"])
            for body in bodies
            for rule in body.get("rules", ())
            if {"validatingwebhookconfigurations", "secrets"} & {*rule["resources"]}
        ]

    assert of_webhook(await manifests(*of_echoes)) == []
    assert of_webhook(await manifests(*of_echoes, "--admission-service=webhook")) == [
        ("ClusterRole", ["validatingwebhookconfigurations"], ["ssa-operator"], ["create", "patch"]),
        ("Role", ["secrets"], [], ["create"]),
        ("Role", ["secrets"], ["ssa-operator-admission"], ["get", "update"]),
    ]


async def test_conversions_need_the_crds_whose_folders_convert(tmp_path: Path) -> None:
    option = "--conversion-service=convert"
    with_it, without = [await run("rbac", f"--templates={write_sites(tmp_path)}", *given) for given in ([option], [])]
    added = [rule for rule in yaml_rules(with_it[1]) if rule not in yaml_rules(without[1])]
    assert [(rule["resources"], rule.get("resourceNames"), rule["verbs"]) for rule in added] == [
        (["customresourcedefinitions"], ["sites.example.com"], ["patch"]),
        (["secrets"], None, ["create"]),
        (["secrets"], ["ssa-operator-conversion"], ["get", "update"]),
    ]


@pytest.mark.exhaustive
async def test_json_is_a_list_of_the_same_manifests() -> None:
    code, out, _ = await run("rbac", "--output=json", KUBECONFIG="nowhere")
    assert code == 0
    assert json.loads(out)["items"] == await manifests()


async def test_each_rule_has_a_comment_with_the_files_that_need_it() -> None:
    _, out, _ = await run("rbac", "--templates=examples/namespaces/templates", "--namespace=team-a")
    comment, group, resource, names, verbs = out[out.index("  # lookups") :].splitlines()[:5]
    assert comment == "  # lookups (namespaces): pull-secret.yaml.j2"
    assert [line.strip() for line in (group, resource, names, verbs)] == [
        '- apiGroups: [""]',
        "resources: [secrets]",
        "resourceNames: [pull-secret]",
        "verbs: [list, watch]",
    ]


async def test_the_name_of_an_account_is_checked() -> None:
    for command in ("rbac", "run"):
        code, _, err = await run(command, "--impersonate=system:serviceaccount:a:b")
        assert (code, "write the name of a service account alone" in err) == (2, True)


async def test_what_only_a_render_knows_is_a_warning_and_the_examples_show_it(tmp_path: Path) -> None:
    templates = things(tmp_path, COMPUTED)
    arguments = ("rbac", f"--templates={templates}")
    line = "things.a.example.com/a.yaml.j2:2"
    code, out, err = await run(*arguments)
    assert code == 0
    assert err.splitlines() == [
        (
            "warning: things.a.example.com: there is no CRD file of it, so its parents count as namespaced, "
            "with a status; name the folder of its CRD with --crds"
        ),
        f"warning: {line}: this kind is computed",
    ]
    assert "statefulsets" not in out
    (tmp_path / "examples").mkdir()
    example = {
        "apiVersion": "a.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "x"},
        "spec": {"kind": "StatefulSet"},
    }
    (tmp_path / "examples" / "thing.yaml").write_text(yaml.safe_dump(example))
    code, out, err = await run(*arguments)
    assert code == 0
    assert f"warning: {line}: this kind is computed" in err
    (rule,) = [rule for rule in yaml_rules(out) if rule["resources"] == ["statefulsets"]]
    assert rule["verbs"] == ["get", "list", "watch", "create", "patch", "delete"]


def yaml_rules(text: str) -> list[dict[str, Any]]:
    return [rule for body in yaml.safe_load_all(text) for rule in body.get("rules", ())]


async def test_a_custom_kind_without_a_crd_file_is_a_warning(tmp_path: Path) -> None:
    templates = things(tmp_path, "apiVersion: b.example.com/v1\nkind: Proxy\nmetadata: {name: x}\n")
    code, out, err = await run("rbac", f"--templates={templates}")
    assert code == 0
    assert (
        "things.a.example.com/a.yaml.j2:2: there is no CRD file of Proxy.b.example.com, so its resource counts as"
        in err
    )
    assert "resources: [proxies]" in out


# The arguments, the exit code and a part of the message.
MISTAKES = [
    (["--templates=nowhere"], 2, "there is no folder nowhere"),
    (["--namespace=A"], 2, "--namespace is 'A', which is not a valid name"),
    (["--output=table"], 2, "--output table is for --check"),
    (["--operator-namespace="], 2, "--operator-namespace is empty"),
]


@pytest.mark.more_cases
@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES)
async def test_a_mistake_is_one_line(arguments: list[str], code: int, message: str) -> None:
    found, out, err = await run("rbac", *arguments, KUBECONFIG="nowhere")
    assert (found, out, len(err.splitlines())) == (code, "", 1)
    assert message in err


async def test_a_folder_that_does_not_load_is_an_error_with_its_line(tmp_path: Path) -> None:
    code, out, err = await run("rbac", f"--templates={things(tmp_path, '{% if %}')}")
    assert (code, out) == (1, "")
    assert "things.a.example.com/a.yaml.j2:1" in err


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_check_passes_for_an_account_that_may_do_everything(desk: Desk) -> None:
    code, out, err = await run("rbac", "--check", f"--kubeconfig={desk.kubeconfig}")
    assert (code, out, err) == (0, "the current account has all permissions that the templates need\n", "")
    code, out, _ = await run("rbac", "--check", "--output=json", f"--kubeconfig={desk.kubeconfig}")
    assert (code, json.loads(out)) == (0, [])


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_check_names_the_template_line_that_needs_a_missing_verb(
    desk: Desk, templates: Path, tmp_path: Path
) -> None:
    user = f"limited-{desk.namespace}"
    _, out, _ = await run("rbac", f"--templates={templates}", f"--crds={ROOT / 'crds'}")
    rules = [rule for rule in yaml_rules(out) if rule["resources"] != ["leases"]]
    for rule in rules:
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != "delete"]
    await desk.apply(*allowed_everywhere(user, rules))
    arguments = ("rbac", "--check", f"--templates={templates}", f"--crds={ROOT / 'crds'}")
    code, out, err = await run(*arguments, f"--kubeconfig={limited(desk.kubeconfig, tmp_path, user)}")
    assert code == 1
    assert err == "ssa-operator: the current account lacks 5 permissions; grant what `ssa-operator rbac` prints\n"
    missing = [line.split()[:2] for line in out.splitlines()[1:]]
    assert missing == [
        ["deployments.apps", "delete"],
        ["leases.coordination.k8s.io", "ssa-operator"],
        ["leases.coordination.k8s.io", "ssa-operator"],
    ]
    assert f"{ECHOES}/deployment.yaml.j2:2" in out


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_running_operator_reports_missing_permissions_and_goes_on(
    desk: Desk, templates: Path, tmp_path: Path
) -> None:
    user = f"limited-{desk.namespace}"
    _, out, _ = await run("rbac", f"--templates={templates}", f"--crds={ROOT / 'crds'}")
    await desk.apply(*allowed_everywhere(user, [rule for rule in yaml_rules(out) if rule["resources"] != ["pods"]]))
    arguments = ["run", f"--templates={templates}", f"--namespace={desk.namespace}", "--listen=127.0.0.1:0"]
    pods = f"list pods in {desk.namespace} (pods of workloads that aren't ready: {ECHOES}/deployment.yaml.j2:2)"
    async with started(*arguments, KUBECONFIG=str(limited(desk.kubeconfig, tmp_path, user))) as command:
        url = (await command.says("listening on ")).split("listening on ")[1].strip()
        await command.says(f"permission missing: {pods}")
        await desk.apply_until_ready(echo("web"))
        assert await ready_text(url) == f"ok\nmissing permission: {pods}\n"
        # A changed template needs more.
        only(templates, a=SECRET)
        secrets = f"create secrets in {desk.namespace} (children: {ECHOES}/a.yaml.j2:2)"
        line = await command.says(" permissions are missing; `ssa-operator rbac` prints the roles that grant them")
        assert "secrets" not in line
        text = await ready_text(url)
        assert text.startswith("ok\n")
        assert f"missing permission: {secrets}\n" in text
        assert "pods" not in text
    assert "hidden-content" not in text + "".join(command.lines)


async def ready_text(url: str) -> str:
    async with aiohttp.ClientSession() as http, http.get(f"{url}/readyz") as answer:
        assert answer.status == 200
        return await answer.text()

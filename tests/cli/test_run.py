"""`ssa-operator run` as a process: it starts, obeys signals, survives SIGKILL in the middle, and says what it may not
do.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import aiohttp
import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.cli.process import run, started
from tests.controller.desk import Desk, echo, not_ready_because

pytestmark = pytest.mark.cluster

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ name }}\nstringData:\n  word: hidden-content\n"

RULES = [
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": ["example.com"], "resources": ["echoes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["example.com"], "resources": ["echoes/status"], "verbs": ["patch"]},
    {"apiGroups": ["example.com"], "resources": ["echoes/finalizers"], "verbs": ["update"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
]


@pytest.fixture
def maps_and_secrets(templates: Path) -> Path:
    """Templates of two children: a ConfigMap, and then a Secret."""
    folder = templates / "echoes.example.com"
    (folder / "deployment.yaml.j2").unlink()
    (folder / "a.yaml.j2").write_text(CONFIG_MAP)
    (folder / "b.yaml.j2").write_text(SECRET)
    return templates


def limited(cluster: Cluster, folder: Path, user: str) -> Path:
    """The cluster's kubeconfig with another user's rights."""
    path = folder / f"{user}.kubeconfig"
    text = cluster.kubeconfig.read_text()
    path.write_text(
        re.sub(
            r"(?m)^( *)client-certificate:|^( *)client-certificate-data:",
            lambda found: f"{found[1] or found[2]}as: {user}\n{found[0]}",
            text,
        )
    )
    assert f"as: {user}" in path.read_text()
    return path


async def test_it_is_ready_reconciles_and_ends_in_order_at_sigterm(
    cluster: Cluster, desk: Desk, templates: Path
) -> None:
    arguments = (
        "run",
        f"--templates={templates}",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--namespace={desk.namespace}",
        "--listen=127.0.0.1:0",
    )
    async with started(*arguments) as operator:
        line = await operator.says("listening on ")
        url = line.split("listening on ")[1].strip()
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        async with aiohttp.ClientSession() as http, http.get(f"{url}/readyz") as answer:
            assert answer.status == 200
        operator.process.send_signal(signal.SIGTERM)
        assert await operator.ended() == 0
    assert not any("Traceback" in line for line in operator.lines)


async def test_log_lines_can_be_json(cluster: Cluster, desk: Desk, templates: Path) -> None:
    arguments = (
        "run",
        f"--templates={templates}",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--namespace={desk.namespace}",
        "--listen=",
    )
    async with started(*arguments, SSA_OPERATOR_LOG_FORMAT="json") as operator:
        entry = json.loads(await operator.says("starts with"))
    assert (entry["level"], entry["message"]) == ("info", "echoes.example.com: starts with example.com/v1")


async def test_killed_between_two_children_and_started_again_it_finishes(
    cluster: Cluster, desk: Desk, maps_and_secrets: Path, tmp_path: Path
) -> None:
    """The first process lacks the right to make the second child, so it is certain where it is killed."""
    user = f"limited-{desk.namespace}"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": user},
        "rules": RULES,
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await desk.apply(role, binding)
    arguments = ("run", f"--templates={maps_and_secrets}", f"--namespace={desk.namespace}", "--listen=")
    async with started(*arguments, KUBECONFIG=str(limited(cluster, tmp_path, user))) as operator:
        await desk.apply(echo("web"))
        stuck = await desk.until("echoes.example.com", "web", not_ready_because("ApplyFailed", "secrets", "forbidden"))
        operator.process.kill()
        await operator.ended()
    first = await desk.until("configmaps", "web", lambda _: True)
    assert (await desk.view("secrets")).find("web") is None

    async with started(*arguments, KUBECONFIG=str(cluster.kubeconfig)):
        await desk.ready("echoes.example.com", "web")
        secret = await desk.until("secrets", "web", lambda _: True)
    after = await desk.until("configmaps", "web", lambda _: True)
    assert after["metadata"]["uid"] == first["metadata"]["uid"]
    assert secret["metadata"]["ownerReferences"][0]["uid"] == stuck["metadata"]["uid"]
    assert "hidden-content" not in json.dumps(stuck)


async def test_a_child_whose_template_went_while_nobody_ran_is_pruned_at_the_next_start(
    cluster: Cluster, desk: Desk, maps_and_secrets: Path
) -> None:
    arguments = (
        "run",
        f"--templates={maps_and_secrets}",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--namespace={desk.namespace}",
        "--listen=",
    )
    async with started(*arguments):
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
    (maps_and_secrets / "echoes.example.com/b.yaml.j2").unlink()
    async with started(*arguments):
        await desk.gone("secrets", "web")
        await desk.until("configmaps", "web", lambda body: "deletionTimestamp" not in body["metadata"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--templates=nowhere"), "there is no folder nowhere"),
        (("run", "--interval=0"), "--interval is 0"),
        (("run", "--selector=a in"), "--selector is 'a in'"),
        (("run", "--namespace=a,B"), "--namespace is 'B'"),
        (("run", "--interval=soon"), "--interval: 'soon' is not a duration"),
        (("run", "--listen=here"), "write HOST:PORT"),
        (("run", "--apply=never"), "allowed are always and changed"),
        (("run", "--kubeconfig=nowhere"), "nowhere"),
        (("render", "nowhere.yaml"), "nowhere.yaml can't be read"),
        (("crds", "apply", "--crds=nowhere"), "there is no folder nowhere"),
    ],
)
async def test_what_is_wrong_is_one_line_without_a_traceback(arguments: tuple[str, ...], words: str) -> None:
    code, out, err = await run(*arguments)
    assert code in (1, 2)
    assert words in err
    assert "Traceback" not in err
    assert out == ""

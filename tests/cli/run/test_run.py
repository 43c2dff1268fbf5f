"""`ssa-operator run` as a process: start, signals, a restart after SIGKILL, and the messages of missing permissions."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import ssl
import subprocess
import sys
import uuid
from asyncio.sslproto import SSLProtocol
from pathlib import Path

import aiohttp
import pytest

from ssa_operator.operator.process.session import MAX_OPEN_FILES, TLS_BUFFER, limit_tls_buffers, raise_open_files
from tests.cli.process import run, started
from tests.operator.harness import ECHOES, PATIENCE, Desk, echo, not_ready_because, only, plain_template, uid
from tests.operator.limited_accounts import allowed_everywhere, limited
from tests.packaging.test_start import workshop

pytestmark = pytest.mark.cluster

CONFIG_MAP = plain_template("ConfigMap")
SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ name }}\nstringData:\n  word: hidden-content\n"

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: it, cluster: {{server: "{server}"}}}}]
contexts: [{{name: it, context: {{cluster: it}}}}]
current-context: it
"""

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
    return only(templates, a=CONFIG_MAP, b=SECRET)


def operator(desk: Desk, templates: Path, *more: str) -> tuple[str, ...]:
    """The command that runs an operator in the test's namespace."""
    return ("run", f"--templates={templates}", f"--namespace={desk.namespace}", *more)


async def test_the_operator_becomes_ready_reconciles_and_stops_in_order_at_sigterm(desk: Desk, templates: Path) -> None:
    more = (f"--kubeconfig={desk.kubeconfig}", "--listen=127.0.0.1:0")
    async with started(*operator(desk, templates, *more)) as command:
        line = await command.says("listening on ")
        url = line.split("listening on ")[1].strip()
        await desk.apply_until_ready(echo("web"))
        async with aiohttp.ClientSession() as http, http.get(f"{url}/readyz") as answer:
            assert answer.status == 200
        command.process.send_signal(signal.SIGTERM)
        assert await command.ended() == 0
    assert not any("Traceback" in line for line in command.lines)


async def test_with_ui_it_shows_the_web_view_and_an_open_page_does_not_hold_up_its_end(
    desk: Desk, templates: Path
) -> None:
    more = (f"--kubeconfig={desk.kubeconfig}", "--listen=127.0.0.1:0", "--ui")
    async with started(*operator(desk, templates, *more)) as command:
        url = (await command.says("the web view is at ")).split("the web view is at ")[1].strip()
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            assert answer.content_type == "text/html"
            async with http.get(url.replace("/ui/", "/api/v1/overview?stream=1")) as stream:
                assert await stream.content.readline() == b"event: state\n"
                command.process.send_signal(signal.SIGTERM)
                assert await command.ended() == 0
    assert not any("Traceback" in line for line in command.lines)


async def test_a_running_operator_has_loaded_no_other_command_and_nothing_that_commands_are_made_of(
    desk: Desk, templates: Path
) -> None:
    more = (f"--kubeconfig={desk.kubeconfig}", "--listen=127.0.0.1:0")
    async with started(*operator(desk, templates, *more), PYTHONVERBOSE="1") as command:
        code = asyncio.create_task(command.ended())  # reads what Python says, so that the operator never waits
        await desk.apply_until_ready(echo("web"))
        command.process.send_signal(signal.SIGTERM)
        assert await code == 0
    imported = {line.split("'")[1] for line in command.lines if line.startswith("import '")}
    assert {"ssa_operator.cli.run.run", "ssa_operator.reconcile.reconciler"} <= imported
    assert workshop(imported) == []


@pytest.mark.exhaustive
async def test_an_operator_without_a_template_folder_says_so_and_runs_the_first_one(
    desk: Desk, templates: Path
) -> None:
    folder, later = templates / ECHOES, templates.parent / "later"
    folder.rename(later)
    more = (f"--kubeconfig={desk.kubeconfig}", "--listen=")
    async with started(*operator(desk, templates, *more)) as command:
        await command.says(f"WARNING {templates} has no folder of a resource; add one, named <plural>.<group>")
        later.rename(folder)
        await desk.apply_until_ready(echo("web"))


@pytest.mark.exhaustive
async def test_the_webhook_runs_with_the_operator_and_unregisters_when_it_stops(desk: Desk, templates: Path) -> None:
    only(templates, a="{{ fail('no echoes today') }}")
    more = (f"--kubeconfig={desk.kubeconfig}", "--listen=", "--admission=127.0.0.1:0")
    async with started(*operator(desk, templates, *more)) as command:
        await command.says("the webhook listens on https://127.0.0.1:")
        async with asyncio.timeout(PATIENCE):
            message = ""
            while "a.yaml.j2:1: no echoes today" not in message:
                try:
                    await desk.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(echo("web")))
                except AssertionError as error:
                    message = str(error)
        command.process.send_signal(signal.SIGTERM)
        assert await command.ended() == 0
    assert not any("Traceback" in line for line in command.lines)
    names = "jsonpath={.items[*].metadata.name}"
    assert "ssa-operator" not in await desk.kubectl("get", "validatingwebhookconfigurations", "-o", names)


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--admission=nowhere"], "--admission is 'nowhere'; write HOST:PORT"),
        (["--admission-service=a"], "--admission-service needs --admission"),
        (["--admission=:9443", "--admission-service=:1"], "write NAME or NAME:PORT"),
    ],
)
async def test_incomplete_options_of_the_webhook_are_one_line(
    arguments: list[str], words: str, templates: Path
) -> None:
    code, _, err = await run("run", f"--templates={templates}", *arguments)
    assert (code, words in err, err.count("\n")) == (2, True, 1), err


@pytest.mark.exhaustive
def test_without_the_extra_of_the_webhook_the_error_names_it(templates: Path) -> None:
    script = "import sys; sys.modules['cryptography'] = None; from ssa_operator.cli.main import main; main()"
    arguments = ["run", f"--templates={templates}", "--admission=:9443"]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, "ssa-operator[admission]" in done.stderr) == (1, True), done.stderr


async def test_the_probes_answer_while_the_api_server_does_not(desk: Desk, templates: Path, tmp_path: Path) -> None:
    released = asyncio.Event()

    async def never_answers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.close()

    async with await asyncio.start_server(never_answers, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(server=f"http://127.0.0.1:{port}"))
        async with started(*operator(desk, templates, f"--kubeconfig={kubeconfig}", "--listen=127.0.0.1:0")) as command:
            url = (await command.says("listening on ")).split("listening on ")[1].strip()
            async with aiohttp.ClientSession() as http:
                codes = {}
                for probe in ("healthz", "readyz"):
                    async with http.get(f"{url}/{probe}") as answer:
                        codes[probe] = answer.status
        released.set()
    assert codes == {"healthz": 200, "readyz": 503}


@pytest.mark.exhaustive
async def test_log_lines_can_be_json(desk: Desk, templates: Path) -> None:
    more = (f"--kubeconfig={desk.kubeconfig}", "--listen=")
    async with started(*operator(desk, templates, *more), SSA_OPERATOR_LOG_FORMAT="json") as command:
        entry = json.loads(await command.says("starts with"))
    assert (entry["level"], entry["message"]) == ("info", "echoes.example.com: starts with example.com/v1")


@pytest.mark.exhaustive
async def test_each_json_line_of_a_reconcile_names_the_parent_and_the_reconcile(desk: Desk, templates: Path) -> None:
    only(templates, a=CONFIG_MAP)
    more = (f"--kubeconfig={desk.kubeconfig}", "--listen=", "--log-format=json")
    async with started(*operator(desk, templates, *more)) as command:
        outside = json.loads(await command.says("starts with"))
        await desk.apply(echo("web"))
        created = json.loads(await command.says("ConfigMap"))
        ready = json.loads(await command.says("Ready=True"))
        await desk.apply(echo("other"))
        other = json.loads(await command.says("/other: ConfigMap"))
    assert "reconcileID" not in outside
    fields = {name: created[name] for name in ("controller", "namespace", "name")}
    assert fields == {"controller": ECHOES, "namespace": desk.namespace, "name": "web"}
    assert created["reconcileID"] == ready["reconcileID"] == str(uuid.UUID(created["reconcileID"]))
    assert (other["name"], other["reconcileID"] != created["reconcileID"]) == ("other", True)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("level", "shown"), [("info", False), ("debug", True)])
async def test_a_text_line_names_the_reconcile_at_the_level_debug_only(
    desk: Desk, templates: Path, level: str, shown: bool
) -> None:
    only(templates, a=CONFIG_MAP)
    more = (f"--kubeconfig={desk.kubeconfig}", "--listen=", f"--log-level={level}")
    async with started(*operator(desk, templates, *more)) as command:
        await desk.apply(echo("web"))
        line = await command.says("ConfigMap")
    assert (re.search(r" reconcileID=[0-9a-f-]{36}\n$", line) is not None) is shown


@pytest.mark.exhaustive
async def test_a_restarted_operator_applies_the_children_that_a_killed_one_has_not(
    desk: Desk, maps_and_secrets: Path, tmp_path: Path
) -> None:
    """The first process lacks the permission to create the second child, so it is certain where it is killed."""
    user = f"limited-{desk.namespace}"
    await desk.apply(*allowed_everywhere(user, RULES))
    arguments = operator(desk, maps_and_secrets, "--listen=")
    async with started(*arguments, KUBECONFIG=str(limited(desk.kubeconfig, tmp_path, user))) as command:
        await desk.apply(echo("web"))
        stuck = await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "secrets", "forbidden"))
        command.process.kill()
        await command.ended()
    first = await desk.read("configmaps", "web")
    assert await desk.find("secrets", "web") is None

    async with started(*arguments, KUBECONFIG=str(desk.kubeconfig)):
        await desk.ready(ECHOES, "web")
        secret = await desk.read("secrets", "web")
    assert uid(await desk.read("configmaps", "web")) == uid(first)
    assert secret["metadata"]["ownerReferences"][0]["uid"] == uid(stuck)
    assert "hidden-content" not in json.dumps(stuck)


@pytest.mark.exhaustive
async def test_a_child_whose_template_was_deleted_while_no_operator_ran_is_pruned_at_the_next_start(
    desk: Desk, maps_and_secrets: Path
) -> None:
    arguments = operator(desk, maps_and_secrets, f"--kubeconfig={desk.kubeconfig}", "--listen=")
    async with started(*arguments):
        await desk.apply_until_ready(echo("web"))
    (maps_and_secrets / ECHOES / "b.yaml.j2").unlink()
    async with started(*arguments):
        await desk.gone("secrets", "web")
        kept = await desk.read("configmaps", "web")
    assert "deletionTimestamp" not in kept["metadata"]


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--templates=nowhere"), "there is no folder nowhere"),
        (("run", "--interval=0"), "--interval is 0"),
        (("run", "--selector=a in"), "--selector is 'a in'"),
        (("plan", "--selector=a in"), "--selector is 'a in'"),
        (("plan", "--selector=a=b", "--against=x.json"), "write --selector with --save"),
        (("run", "--namespace=a,B"), "--namespace is 'B'"),
        (("run", "--interval=soon"), "--interval: 'soon' is not a duration"),
        (("run", "--listen=here"), "write HOST:PORT"),
        (("run", "--apply=never"), "allowed are always and changed"),
        (("run", "--kubeconfig=nowhere"), "nowhere"),
        (("render", "nowhere.yaml"), "nowhere.yaml can't be read"),
        *(
            ((*command, "--crds=nowhere"), "there is no folder nowhere; name the folder of your CRDs with --crds")
            for command in (
                ("capture", "echo/web"),
                ("crds", "apply"),
                ("crds", "wait"),
                ("dev",),
                ("graph", "echoes"),
                ("rbac",),
                ("render", "examples/echo.yaml"),
                ("run",),
                ("test",),
            )
        ),
    ],
)
async def test_a_mistake_of_the_user_is_one_line_without_a_traceback(arguments: tuple[str, ...], words: str) -> None:
    code, out, err = await run(*arguments)
    assert code in (1, 2)
    assert words in err
    assert "Traceback" not in err
    assert out == ""


def test_the_operator_may_open_as_many_files_as_its_hard_limit_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raise_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(before[1], MAX_OPEN_FILES), before[1])
        raise_open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_tls_connection_has_a_small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)
    limit_tls_buffers()
    loop = asyncio.get_running_loop()
    connection = SSLProtocol(loop, asyncio.Protocol(), ssl.create_default_context(), loop.create_future())
    connection._app_transport.close()
    assert len(connection.get_buffer(-1)) == TLS_BUFFER

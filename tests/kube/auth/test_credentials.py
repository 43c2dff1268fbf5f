import asyncio
import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ssl import Purpose, SSLContext, create_default_context
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssa_operator.kube.auth import child_process as program
from ssa_operator.kube.auth import credential_plugins, credentials
from ssa_operator.kube.auth.credentials import Credentials, CredentialsError
from ssa_operator.kube.auth.server_config import FetchedCredential
from tests.kube.fakes import StillClock, TokenSequence
from tests.kube.fakes import credentials as made_of

CLUSTER_FIELDS = (
    "certificate-authority",
    "certificate-authority-data",
    "extensions",
    "insecure-skip-tls-verify",
    "proxy-url",
    "tls-server-name",
)
USER_FIELDS = ("as", "as-uid", "client-certificate", "client-key-data", "password", "token", "tokenFile", "username")
CONTEXTS = {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}]}
PATIENCE = 60.0
EXEC = {"apiVersion": "client.authentication.k8s.io/v1"}
ALIASES = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))
CLUSTER = {"server": "https://api.example.com:6443/"}


def exec_credential(**status: str) -> str:
    """What an exec plugin prints."""
    return json.dumps({**EXEC, "kind": "ExecCredential", "status": {"token": "t", **status}})


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's: neither kubeconfigs nor proxies nor a pod."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path / "serviceaccount")


@pytest.fixture(scope="module")
def pair() -> tuple[bytes, bytes]:
    """A self-signed certificate and its key, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def kubeconfig(
    path: Path, user: Mapping[str, Any] | None = None, cluster: Mapping[str, Any] = CLUSTER, **more: Any
) -> str:
    context = {"cluster": "c", **({"user": "u"} if user is not None else {}), **more}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": context}],
        "clusters": [{"name": "c", "cluster": dict(cluster)}],
        "users": [{"name": "u", "user": dict(user)}] if user is not None else [],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(body))
    return str(path)


async def authorization(found: Credentials) -> str | None:
    return (await found.headers()).get("Authorization")


async def test_a_token_and_a_default_namespace_are_read(tmp_path: Path) -> None:
    found = await credentials.load(kubeconfig(tmp_path / "k", {"token": "abc"}, namespace="prod"))
    assert (found.server, found.namespace, found.config.context) == ("https://api.example.com:6443", "prod", "x")
    assert await authorization(found) == "Bearer abc"


async def test_a_password_is_sent_as_basic_authentication(tmp_path: Path) -> None:
    found = await credentials.load(kubeconfig(tmp_path / "k", {"username": "u", "password": "p"}))
    assert await authorization(found) == "Basic " + base64.b64encode(b"u:p").decode()


async def test_a_context_without_a_user_sends_no_credentials(tmp_path: Path) -> None:
    found = await credentials.load(kubeconfig(tmp_path / "k"))
    assert await found.headers() == {}


async def test_impersonation_is_asked_for(tmp_path: Path) -> None:
    found = await credentials.load(kubeconfig(tmp_path / "k", {"token": "t", "as": "jane"}))
    assert (await found.headers())["Impersonate-User"] == "jane"


async def test_the_first_kubeconfig_that_sets_a_value_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    kubeconfig(first, {"token": "first"})
    kubeconfig(second, {"token": "second"}, namespace="second")
    body = yaml.safe_load(second.read_text())
    body["current-context"] = "y"
    body["contexts"].append({"name": "y", "context": {"cluster": "c", "user": "v", "namespace": "y"}})
    body["users"].append({"name": "v", "user": {"token": "v"}})
    second.write_text(yaml.safe_dump(body))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{first}:{second}")
    found = await credentials.load()
    assert (found.config.context, found.namespace, await authorization(found)) == ("x", "default", "Bearer first")
    other = await credentials.load(context="y")
    assert (other.namespace, await authorization(other)) == ("y", "Bearer v")


async def test_the_home_folders_kubeconfig_is_the_last_resort(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "home/.kube/config", {"token": "home"})
    assert await authorization(await credentials.load()) == "Bearer home"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "k is not a kubeconfig"),
        ("[]", "k is not a kubeconfig"),
        ("a: [", "k is not a kubeconfig: .* in line 2"),
        ("token: hunter2\n  x: hunter2: y", "k is not a kubeconfig"),
        ("apiVersion: v1", "no current-context; choose one with --context"),
        ("current-context: x", "no contexts entry x"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]", "no clusters entry c; it has none"),
        (
            json.dumps({**CONTEXTS, "clusters": [{"name": "c", "cluster": {"server": "s"}}]}),
            "server 's' is not an http or https URL",
        ),
        pytest.param("[" * 100_000, "is nested deeper than 100 levels", id="lists without end"),
        pytest.param("- " * 5000, "is nested deeper than 100 levels", id="items without end"),
        pytest.param("{a: " * 5000, "is nested deeper than 100 levels", id="mappings without end"),
        pytest.param(ALIASES, "more than 1000000 values", id="aliases"),
        pytest.param(MERGES, "more than 1000000 values", id="merges"),
        pytest.param(f"users: [{{name: {'9' * 5000}}}]", "k is not a kubeconfig", id="a long number"),
        ("users: [{name: 2001-99-99}]", "k is not a kubeconfig"),
        ("users: [{name: !!int hunter2}]", "k is not a kubeconfig"),
        ("users: [{name: !!float ''}]", "k is not a kubeconfig"),
        ("users: [{name: !!python/object/apply:os.system [hunter2]}]", "could not determine a constructor .* line 1"),
        ("users: hunter2", "k is not a kubeconfig"),
        ("users: [5]", "k is not a kubeconfig"),
        ("a: \0hunter2", "k is not a kubeconfig"),
        ("current-context: &a [*a]", "no contexts entry"),
        ("? [a]\n: hunter2", "k is not a kubeconfig"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_says_why(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(CredentialsError, match=words) as found:
        await credentials.load(str(path))
    assert str(path) in str(found.value)
    assert "hunter2" not in str(found.value)


async def test_no_kubeconfig_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"there is no kubeconfig at .*name a kubeconfig with --kubeconfig"):
        await credentials.load(str(tmp_path / "missing"))
    with pytest.raises(CredentialsError, match="there is no kubeconfig"):
        await credentials.load()


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"tokenFile": "missing"}, "user u: tokenFile: .*missing"),
        ({"client-certificate-data": "YQ=="}, "user u: client-certificate and client-key need each other"),
        ({"client-certificate-data": "YQ==", "client-key-data": "YQ=="}, "can't be used together"),
        ({"client-certificate": "missing", "client-key": "missing"}, "client-certificate: .*missing"),
        ({"exec": {**EXEC, "command": "no-such-plugin", "installHint": "get it"}}, "not installed; get it"),
        ({"exec": {**EXEC, "command": "false"}}, "exec plugin false exited with code 1"),
        ({"exec": {**EXEC, "command": "true"}}, "exec plugin true printed no JSON"),
        ({"exec": {**EXEC, "command": "echo", "args": ["[]"]}}, "exec plugin echo printed no ExecCredential"),
        ({"exec": {**EXEC, "command": "yes"}}, "exec plugin yes wrote more than 1048576 bytes"),
        ({"exec": {**EXEC, "command": "true", "interactiveMode": "Always"}}, "exec plugin true needs a terminal"),
        ({"exec": {**EXEC, "command": "true", "interactiveMode": "Sometimes"}}, "interactiveMode 'Sometimes'"),
        ({"exec": {**EXEC, "command": "true", "env": ["A=B"]}}, "env a list of name and value"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "true"}}, "v1alpha1' is not supp"),
        ({"exec": {**EXEC}}, "user u: exec has no command"),
        ({"auth-provider": {"name": "azure", "config": {}}}, "auth-provider azure"),
        ({"token": "t", "as-groups": ["g"]}, "as-groups"),
        ({"token": "a\nb"}, "user u: the value of Authorization has a line break"),
        ({"token": "t", "as": "a\r\nb"}, "user u: the value of Impersonate-User has a line break"),
        ({"tokenFile": 5}, "user u: tokenFile: "),
        ({"tokenFile": "a\0b"}, "user u: tokenFile: .*null"),
        ({"client-certificate": 5, "client-key": 5}, "client-certificate: "),
        ({"client-certificate-data": 5, "client-key-data": "YQ=="}, "client-certificate-data is not base64"),
        ({"exec": {**EXEC, "command": "printf", "args": ["[" * 100_000]}}, "exec plugin printf printed no JSON"),
        ({"exec": {**EXEC, "command": "printf", "args": [r"\377"]}}, "exec plugin printf printed no JSON"),
        ({"exec": {**EXEC, "command": "echo", "args": [exec_credential(token="a\nb")]}}, "has a line break"),
    ],
)
async def test_credentials_that_cannot_be_used_name_the_user_and_the_field(
    tmp_path: Path, user: dict[str, Any], words: str
) -> None:
    with pytest.raises(CredentialsError, match=words):
        await credentials.load(kubeconfig(tmp_path / "k", user))


async def test_client_certificates_are_shown_from_data_and_from_files_beside_the_kubeconfig(
    tmp_path: Path, pair: tuple[bytes, bytes]
) -> None:
    certificate, key = pair
    (tmp_path / "crt").write_bytes(certificate)
    (tmp_path / "key").write_bytes(key)
    authority = {**CLUSTER, "certificate-authority": "crt"}
    from_files = {"client-certificate": "crt", "client-key": "key"}
    from_data = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    for user in (from_files, from_data):
        found = await credentials.load(kubeconfig(tmp_path / "k", user, authority))
        assert isinstance(found.ssl, SSLContext)
        assert [each["serialNumber"] for each in found.ssl.get_ca_certs()] == ["01"]


async def test_skipping_verification_is_honoured_with_a_warning_and_the_default_is_to_verify(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    verified = await credentials.load(kubeconfig(tmp_path / "k", {}))
    assert caplog.messages == []
    skipped = await credentials.load(kubeconfig(tmp_path / "k", {}, {**CLUSTER, "insecure-skip-tls-verify": True}))
    (warning,) = caplog.messages
    assert "insecure-skip-tls-verify" in warning
    assert str(tmp_path / "k") in warning
    assert skipped.ssl is not None
    assert verified.ssl is not None
    assert (skipped.ssl.check_hostname, verified.ssl.check_hostname) == (False, True)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"insecure-skip-tls-verify": "false"}, "cluster c: insecure-skip-tls-verify must be true or false"),
        ({"insecure-skip-tls-verify": 1}, "cluster c: insecure-skip-tls-verify must be true or false"),
        ({"certificate-authority-data": "%%%%"}, "cluster c: certificate-authority-data is not base64"),
        ({"certificate-authority-data": 5}, "cluster c: certificate-authority-data is not base64"),
        ({"certificate-authority-data": "YQ=="}, "the certificate authority is not a PEM certificate"),
    ],
)
async def test_a_setting_that_would_weaken_the_verification_by_mistake_is_an_error(
    tmp_path: Path, setting: dict[str, Any], words: str
) -> None:
    with pytest.raises(CredentialsError, match=words):
        await credentials.load(kubeconfig(tmp_path / "k", {}, {**CLUSTER, **setting}))


@pytest.mark.exhaustive
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode(errors="surrogatepass")))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_a_kubeconfig_or_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "k").write_bytes(content)
    with pytest.raises(CredentialsError, match="k"):
        asyncio.run(credentials.load(str(tmp_path / "k")))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
SERVER = st.sampled_from(["https://127.0.0.1:1", "http://127.0.0.1:1", "http://[::1", "https://\0", "http://a:b", 5])


@pytest.mark.exhaustive
@given(
    st.fixed_dictionaries({"server": SERVER}, optional=dict.fromkeys(CLUSTER_FIELDS, ANYTHING)),
    st.dictionaries(st.sampled_from(USER_FIELDS), ANYTHING, max_size=3),
    st.dictionaries(st.just("namespace"), ANYTHING),
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_of_a_field_is_used_or_an_error(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], context: dict[str, Any]
) -> None:
    with contextlib.suppress(CredentialsError):
        asyncio.run(credentials.load(kubeconfig(tmp_path / "k", user, cluster, **context)))


async def test_proxies_and_server_names_of_the_kubeconfig_are_used(tmp_path: Path) -> None:
    cluster = {**CLUSTER, "proxy-url": "http://proxy:1", "tls-server-name": "api"}
    config = (await credentials.load(kubeconfig(tmp_path / "k", {}, cluster))).config
    assert (config.proxy, config.tls_server_name) == ("http://proxy:1", "api")
    with pytest.raises(CredentialsError, match=r"socks5.*not supported"):
        await credentials.load(kubeconfig(tmp_path / "k", {}, {**CLUSTER, "proxy-url": "socks5://proxy:1"}))


async def test_a_remote_cluster_is_reached_by_the_environments_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:2")
    assert (await credentials.load(kubeconfig(tmp_path / "k", {}))).config.proxy == "http://proxy:2"


async def test_a_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    clock = StillClock()
    file = tmp_path / "token"
    file.write_text("one\n")
    found = await credentials.load(kubeconfig(tmp_path / "k", {"token": "never", "tokenFile": "token"}), clock=clock)
    file.write_text("two")
    clock.time += 59
    assert await authorization(found) == "Bearer one"
    clock.time += 1
    assert await authorization(found) == "Bearer two"


async def test_a_token_file_that_is_gone_for_a_moment_does_not_stop_the_requests(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = StillClock()
    file = tmp_path / "token"
    file.write_text("one")
    found = await credentials.load(kubeconfig(tmp_path / "k", {"tokenFile": "token"}), clock=clock)
    file.unlink()
    clock.time += 60
    assert await authorization(found) == "Bearer one"
    assert "could not be renewed" in caplog.text
    file.write_text("two")
    clock.time += 10
    assert await authorization(found) == "Bearer two"


@pytest.fixture
def plugin(tmp_path: Path) -> dict[str, Any]:
    """An exec plugin beside the kubeconfig that counts its runs; the file `answer` holds its status."""
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, os, pathlib\n"
        "runs = pathlib.Path(os.environ['RUNS'])\n"
        "runs.write_text(runs.read_text() + '.' if runs.exists() else '.')\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "status = json.loads(runs.with_name('answer').read_text().replace('RUN', str(len(runs.read_text()))))\n"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': status}))\n"
    )
    launcher = tmp_path / "bin" / "plugin"
    launcher.parent.mkdir()
    launcher.write_text(f"#!/bin/sh\nexec {sys.executable} {script}\n")
    launcher.chmod(0o700)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/plugin",
        "env": [{"name": "RUNS", "value": str(tmp_path / "runs")}],
    }


def expiry(clock: StillClock, seconds: float) -> str:
    return datetime.fromtimestamp(clock.now() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_an_exec_plugin_runs_again_before_its_token_expires_and_not_sooner(
    tmp_path: Path, plugin: dict[str, Any]
) -> None:
    clock = StillClock()
    answer = {"token": "tRUN", "expirationTimestamp": expiry(clock, 600)}
    (tmp_path / "answer").write_text(json.dumps(answer))
    found = await credentials.load(kubeconfig(tmp_path / "k", {"exec": plugin}), clock=clock)
    clock.time += 500
    assert await authorization(found) == "Bearer t1"
    clock.time += 80
    (tmp_path / "answer").write_text(json.dumps({**answer, "expirationTimestamp": expiry(clock, 600)}))
    assert await authorization(found) == "Bearer t2"
    assert await authorization(found) == "Bearer t2"


async def test_an_exec_plugin_whose_tokens_expire_at_once_is_not_run_for_every_request(
    tmp_path: Path, plugin: dict[str, Any]
) -> None:
    clock = StillClock()
    (tmp_path / "answer").write_text(json.dumps({"token": "tRUN", "expirationTimestamp": expiry(clock, 1)}))
    found = await credentials.load(kubeconfig(tmp_path / "k", {"exec": plugin}), clock=clock)
    for _ in range(5):
        clock.time += 1
        assert await authorization(found) == "Bearer t1"


async def test_an_exec_plugin_that_fails_after_expiry_is_an_error(tmp_path: Path, plugin: dict[str, Any]) -> None:
    clock = StillClock()
    (tmp_path / "answer").write_text(json.dumps({"token": "t", "expirationTimestamp": expiry(clock, 100)}))
    found = await credentials.load(kubeconfig(tmp_path / "k", {"exec": plugin}), clock=clock)
    (tmp_path / "answer").unlink()
    clock.time += 90
    assert await authorization(found) == "Bearer t"
    clock.time += 20
    with pytest.raises(CredentialsError, match="user u: exec plugin bin/plugin"):
        await found.headers()


async def test_an_exec_plugins_certificate_replaces_the_tls_settings(
    tmp_path: Path, plugin: dict[str, Any], pair: tuple[bytes, bytes]
) -> None:
    clock = StillClock()
    certificate, key = (each.decode() for each in pair)
    answer = {"clientCertificateData": certificate, "clientKeyData": key, "expirationTimestamp": expiry(clock, 100)}
    (tmp_path / "answer").write_text(json.dumps(answer))
    found = await credentials.load(kubeconfig(tmp_path / "k", {"exec": plugin}), clock=clock)
    first = found.ssl
    clock.time += 80
    assert await found.headers() == {}
    assert found.ssl is first
    (tmp_path / "answer").write_text(json.dumps({**answer, "clientCertificateData": certificate + "\n"}))
    clock.time += 80
    await found.headers()
    assert found.ssl is not first


async def test_an_exec_plugin_without_a_credential_is_an_error(tmp_path: Path, plugin: dict[str, Any]) -> None:
    (tmp_path / "answer").write_text("{}")
    with pytest.raises(CredentialsError, match="gave neither a token nor a client certificate"):
        await credentials.load(kubeconfig(tmp_path / "k", {"exec": plugin}))


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The settings of an exec plugin that is these lines of a shell script."""

    def write(*lines: str, **settings: Any) -> dict[str, Any]:
        script = tmp_path / "plugin.sh"
        script.write_text("\n".join(("#!/bin/sh", *lines, "")))
        script.chmod(0o700)
        return {**EXEC, "command": "./plugin.sh", **settings}

    return write


class Alive:
    """A pipe in the file system, named `alive`: its end comes when no process has it open for writing."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._reader = asyncio.StreamReader()
        self._reading = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
        self._own = os.open(path, os.O_WRONLY)

    async def begin(self) -> None:
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self.transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._reading)

    async def up(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._reader.readline()

    def up_while_blocked(self) -> None:
        assert select.select([self._reading], [], [], PATIENCE)[0]

    async def nothing(self) -> None:
        os.close(self._own)
        async with asyncio.timeout(PATIENCE):
            await self._reader.read()


@pytest.fixture
async def alive(tmp_path: Path) -> AsyncIterator[Alive]:
    pipe = Alive(tmp_path / "alive")
    await pipe.begin()
    yield pipe
    pipe.transport.close()


SLEEPS_WITH_A_CHILD = ('exec 3>"$(dirname "$0")/alive"', "echo waiting for somebody to log in >&2", "sleep 1000 &",
                       "echo up >&3", "sleep 1000")  # fmt: skip


@pytest.mark.more_cases
@pytest.mark.parametrize("first", ["", "trap '' TERM"], ids=["ends when asked", "ignores SIGTERM"])
async def test_an_exec_plugin_that_does_not_answer_in_time_is_ended_with_all_its_processes(
    tmp_path: Path, shell: Callable[..., dict[str, Any]], alive: Alive, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credential_plugins, "DEADLINE", 1.0)
    monkeypatch.setattr(program, "GRACE", 0.2)
    settings = shell(first, *SLEEPS_WITH_A_CHILD)
    with pytest.raises(CredentialsError, match=r"user u: exec plugin \./plugin\.sh gave no answer in 1 s"):
        await credentials.load(kubeconfig(tmp_path / "k", {"exec": settings}))
    await alive.nothing()


@pytest.mark.exhaustive
async def test_a_cancelled_exec_plugin_is_ended_with_all_its_processes(
    tmp_path: Path, shell: Callable[..., dict[str, Any]], alive: Alive
) -> None:
    settings = shell(*SLEEPS_WITH_A_CHILD)
    loading = asyncio.create_task(credentials.load(kubeconfig(tmp_path / "k", {"exec": settings})))
    await alive.up()
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    await alive.nothing()


@pytest.mark.exhaustive
@pytest.mark.parametrize("times", [1, 2])
async def test_a_program_that_is_cancelled_as_it_starts_is_ended_with_all_its_processes(
    tmp_path: Path, shell: Callable[..., dict[str, Any]], alive: Alive, times: int
) -> None:
    shell(*SLEEPS_WITH_A_CHILD)
    plugin = program.Program(argv=[str(tmp_path / "plugin.sh")], environment=os.environ)
    running = asyncio.create_task(program.run(plugin, deadline=PATIENCE))
    # `run` and the start that it awaits take one step each, which forks the process.
    for _ in range(2):
        await asyncio.sleep(0)
    # The loop is blocked, and has not connected the program's pipes yet.
    alive.up_while_blocked()
    for _ in range(times):
        running.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE):
            await running
    await alive.nothing()


async def test_an_exec_plugin_may_write_as_much_to_stderr_as_it_likes(
    tmp_path: Path, shell: Callable[..., dict[str, Any]]
) -> None:
    answer = {**EXEC, "kind": "ExecCredential", "status": {"token": "t"}}
    (tmp_path / "answer").write_text(json.dumps(answer))
    noise = f'{sys.executable} -c \'import sys; sys.stderr.write("noise " * 700_000 + "the end")\''
    path = kubeconfig(tmp_path / "k", {"exec": shell(noise, 'cat "$(dirname "$0")/answer"')})
    async with asyncio.timeout(PATIENCE):
        assert await authorization(await credentials.load(path)) == "Bearer t"
    shell(noise, "exit 3")
    with pytest.raises(CredentialsError, match=r"exited with code 3: .*noise the end$") as found:
        await credentials.load(path)
    assert len(str(found.value)) < 5000


PRINTS_ITS_INFO = """exec python3 -c '
import json, os
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = json.dumps(info["spec"], sort_keys=True)
print(json.dumps({"apiVersion": info["apiVersion"], "kind": info["kind"], "status": {"token": token}}))
'"""


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_an_exec_plugin_gets_the_cluster_with_provideclusterinfo(
    tmp_path: Path, shell: Callable[..., dict[str, Any]], pair: tuple[bytes, bytes], version: str
) -> None:
    (tmp_path / "ca.crt").write_bytes(pair[0])
    name = "client.authentication.k8s.io/exec"
    cluster = {
        **CLUSTER,
        "certificate-authority": "ca.crt",
        "tls-server-name": "api",
        "extensions": [{"name": "other", "extension": 1}, {"name": name, "extension": {"audience": "a"}}],
    }
    known = {
        "server": "https://api.example.com:6443",
        "tls-server-name": "api",
        "certificate-authority-data": base64.b64encode(pair[0]).decode(),
        "config": {"audience": "a"},
    }
    for provide, info in ((False, {}), (True, {"cluster": known})):
        settings = shell(
            PRINTS_ITS_INFO, provideClusterInfo=provide, apiVersion=f"client.authentication.k8s.io/{version}"
        )
        found = await credentials.load(kubeconfig(tmp_path / "k", {"exec": settings}, cluster))
        spec = {"interactive": False, **info}
        assert await authorization(found) == f"Bearer {json.dumps(spec, sort_keys=True)}"


@pytest.mark.parametrize(("mode", "interactive"), [("IfAvailable", True), ("Always", True), ("Never", False)])
async def test_at_a_terminal_an_exec_plugin_may_talk_to_the_user(
    tmp_path: Path,
    shell: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    mode: str,
    interactive: bool,
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    settings = shell("echo open https://login.example.com >&2", PRINTS_ITS_INFO, interactiveMode=mode)
    found = await credentials.load(kubeconfig(tmp_path / "k", {"exec": settings}))
    assert await authorization(found) == f"Bearer {json.dumps({'interactive': interactive})}"
    assert ("open https://login.example.com" in capfd.readouterr().err) == interactive


async def test_an_exec_plugin_may_leave_an_agent_behind(tmp_path: Path, shell: Callable[..., dict[str, Any]]) -> None:
    settings = shell('sleep 1000 >/dev/null & echo $! >"$(dirname "$0")/agent"', PRINTS_ITS_INFO)
    async with asyncio.timeout(PATIENCE):
        await credentials.load(kubeconfig(tmp_path / "k", {"exec": settings}))
    os.kill(int((tmp_path / "agent").read_text()), signal.SIGKILL)  # it lives


def id_token(expires: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"e30.{claims}.sig"


@asynccontextmanager
async def issuer(folder: Path, *tokens: str) -> AsyncIterator[tuple[str, list[str]]]:
    """An OpenID issuer with a certificate of its own, `issuer.crt`: its URL, and the refresh tokens that it gets."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    pem = serialization.Encoding.PEM
    (folder / "issuer.crt").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "issuer.key").write_bytes(private)
    given = list(tokens)
    seen: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/.well-known/openid-configuration":
            return web.json_response({"token_endpoint": f"https://{request.host}/token"})
        seen.append(str((await request.post())["refresh_token"]))
        body = {"id_token": given.pop(0), "access_token": "a", "token_type": "bearer"}
        return web.json_response({**body, "refresh_token": f"after-{seen[-1]}"})

    context = create_default_context(Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "issuer.crt", folder / "issuer.key")
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://localhost:{runner.addresses[0][1]}", seen
    finally:
        await runner.cleanup()


def oidc(url: str, token: str | None, **config: str) -> dict[str, Any]:
    known = {"client-id": "c", "client-secret": "s", "idp-issuer-url": url, "refresh-token": "r"}
    return {"auth-provider": {"name": "oidc", "config": known | ({"id-token": token} if token else {}) | config}}


@pytest.mark.exhaustive
@pytest.mark.parametrize("old", [id_token(1), None], ids=["expired", "none yet"])
async def test_an_oidc_token_is_renewed_before_it_expires_with_the_newest_refresh_token(
    tmp_path: Path, old: str | None
) -> None:
    clock = StillClock()
    clock.time = time.time()
    one, two = id_token(clock.time + 100), id_token(clock.time + 4000)
    async with issuer(tmp_path, one, two) as (url, seen):
        user = oidc(url, old, **{"idp-certificate-authority": "issuer.crt"})
        found = await credentials.load(kubeconfig(tmp_path / "k", user), clock=clock)
        assert await authorization(found) == f"Bearer {one}"
        clock.time += 80
        assert await authorization(found) == f"Bearer {two}"
        clock.time += 3000
        assert await authorization(found) == f"Bearer {two}"
        assert seen == ["r", "after-r"]


@pytest.mark.exhaustive
async def test_an_oidc_issuer_with_an_untrusted_certificate_gets_no_secret(tmp_path: Path) -> None:
    async with issuer(tmp_path, id_token(4_000_000_000)) as (url, seen):
        with pytest.raises(CredentialsError, match=r"user u: auth-provider oidc .*CERTIFICATE_VERIFY_FAILED"):
            await credentials.load(kubeconfig(tmp_path / "k", oidc(url, id_token(1))))
        assert seen == []


@pytest.mark.exhaustive
async def test_an_oidc_token_that_has_not_expired_is_used(tmp_path: Path) -> None:
    token = id_token(4_000_000_000)
    found = await credentials.load(kubeconfig(tmp_path / "k", oidc("https://issuer.invalid", token)))
    assert await authorization(found) == f"Bearer {token}"


@pytest.mark.exhaustive
async def test_several_files_are_merged_as_the_official_client_merges_them(tmp_path: Path) -> None:
    """Its public loader as the judge. It differs in `current-context`: client-go takes the first, it takes the last."""
    one, two, empty = tmp_path / "a" / "one", tmp_path / "b" / "two", tmp_path / "empty"
    kubeconfig(one, {"tokenFile": "token"}, {**CLUSTER, "server": "https://one"})
    kubeconfig(two, {"token": "two"}, {**CLUSTER, "server": "https://two"})
    body = yaml.safe_load(two.read_text())
    for kind, value in (("contexts", {"cluster": "d", "user": "w"}), ("clusters", CLUSTER), ("users", {"token": "w"})):
        names = {"contexts": "y", "clusters": "d", "users": "w"}
        body[kind].append({"name": names[kind], kind.removesuffix("s"): value})
    two.write_text(yaml.safe_dump(body))
    (one.parent / "token").write_text("from-a-file")
    paths = f"{one}:{tmp_path / 'missing'}:{two}"
    for context in ("x", "y"):
        program = (
            "import sys; from kubernetes import client, config; found = client.Configuration();"
            "config.load_kube_config(sys.argv[1], sys.argv[2], found, persist_config=False);"
            "print(found.host, found.api_key['BearerToken'])"
        )
        theirs = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
            [sys.executable, "-c", program, paths, context], capture_output=True, text=True, check=True
        )
        ours = await credentials.load(paths, context)
        assert f"{ours.server} {await authorization(ours)}" == theirs.stdout.strip()
    empty.touch()
    assert (await credentials.load(f"{empty}:{paths}")).server == "https://one"


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[bytes, bytes]) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("one\n")
    (folder / "ca.crt").write_bytes(pair[0])
    (folder / "namespace").write_text("operators")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return folder


async def test_in_a_pod_the_service_account_is_used_and_its_token_read_again(pod: Path) -> None:
    clock = StillClock()
    found = await credentials.load(clock=clock)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "operators")
    (pod / "token").write_text("two\n")
    assert await authorization(found) == "Bearer one"
    clock.time += 60
    assert await authorization(found) == "Bearer two"


async def test_in_a_pod_a_kubeconfig_that_exists_or_is_asked_for_comes_first(pod: Path, tmp_path: Path) -> None:
    kubeconfig(tmp_path / "home/.kube/config", {"token": "home"})
    assert await authorization(await credentials.load()) == "Bearer home"
    with pytest.raises(CredentialsError, match="there is no kubeconfig"):
        await credentials.load(str(tmp_path / "missing"))


async def test_a_pod_without_a_certificate_authority_is_an_error(pod: Path) -> None:
    (pod / "ca.crt").unlink()
    with pytest.raises(CredentialsError, match=r"service account in .* can't be read: .*ca\.crt"):
        await credentials.load()


async def test_after_a_401_credentials_that_cannot_change_are_not_tried_again(tmp_path: Path) -> None:
    found = await credentials.load(kubeconfig(tmp_path / "k", {"token": "t"}))
    assert not await found.renew_after_401(await found.headers())


async def test_after_a_401_credentials_that_another_request_renewed_are_not_fetched_again() -> None:
    source = TokenSequence("one", "two", "three")
    found = made_of("http://x", source, StillClock())
    headers = await found.headers()
    assert await found.renew_after_401(headers)
    assert await found.renew_after_401(headers)
    assert source.reads == 2


async def test_a_server_that_always_answers_401_does_not_run_the_plugin_for_every_request() -> None:
    clock = StillClock()
    source = TokenSequence(*(str(number) for number in range(9)))
    found = made_of("http://x", source, clock)
    results = [await found.renew_after_401(await found.headers()) for _ in range(3)]
    assert (results, source.reads) == ([True, False, False], 2)
    clock.time += 10
    assert await found.renew_after_401(await found.headers())


def test_no_token_is_in_a_repr() -> None:
    assert "hunter2" not in repr(FetchedCredential(headers={"Authorization": "Bearer hunter2"}))


async def test_a_rotated_certificate_authority_is_read_again_at_once_and_then_every_ten_seconds(
    tmp_path: Path, pair: tuple[bytes, bytes]
) -> None:
    clock = StillClock()
    (tmp_path / "ca.crt").write_bytes(pair[0])
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": "ca.crt"}
    found = await credentials.load(kubeconfig(tmp_path / "k", {"token": "t"}, cluster), clock=clock)
    before = found.ssl
    assert found.renew_authorities()
    assert found.ssl is not before
    assert not found.renew_authorities()
    kept = found.ssl
    # An empty file must not make the client trust the authorities of the system.
    for broken in ("half", ""):
        clock.time += 10
        (tmp_path / "ca.crt").write_text(broken)
        assert not found.renew_authorities()
        assert found.ssl is kept

import base64
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ssl import SSLContext
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ssa_operator.kube import credentials
from ssa_operator.kube.credentials import Credentials, CredentialsError
from ssa_operator.kube.grant import Grant
from tests.kube.fakes import Granted, StillClock
from tests.kube.fakes import credentials as made_of

CONTEXTS = {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}]}
CLUSTER = {"server": "https://api.example.com:6443/"}


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
    assert (found.server, found.namespace, found.endpoint.context) == ("https://api.example.com:6443", "prod", "x")
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


async def test_of_several_files_the_first_to_say_something_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert (found.endpoint.context, found.namespace, await authorization(found)) == ("x", "default", "Bearer first")
    other = await credentials.load(context="y")
    assert (other.namespace, await authorization(other)) == ("y", "Bearer v")


async def test_the_home_folders_kubeconfig_is_the_last_resort(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "home/.kube/config", {"token": "home"})
    assert await authorization(await credentials.load()) == "Bearer home"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no kubeconfig"),
        ("[]", "no kubeconfig"),
        ("a: [", "no kubeconfig: .* line 1"),
        ("token: hunter2\n  x: hunter2: y", "no kubeconfig"),
        ("apiVersion: v1", "no current-context; choose one with --context"),
        ("current-context: x", "name x in .*contexts list"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]", "name c in .*clusters list"),
        (
            json.dumps({**CONTEXTS, "clusters": [{"name": "c", "cluster": {"server": "s"}}]}),
            "server 's' is no http or https URL",
        ),
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
    with pytest.raises(CredentialsError, match=r"there is no kubeconfig at .*name one with --kubeconfig"):
        await credentials.load(str(tmp_path / "missing"))
    with pytest.raises(CredentialsError, match="there is no kubeconfig"):
        await credentials.load()


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"tokenFile": "missing"}, "user u: tokenFile: .*missing"),
        ({"client-certificate-data": "YQ=="}, "user u: client-certificate and client-key need each other"),
        ({"client-certificate-data": "YQ==", "client-key-data": "YQ=="}, "can't be used together"),
        ({"client-certificate": "missing", "client-key": "missing"}, "client-certificate: .*missing"),
        ({"exec": {"apiVersion": "v1", "command": "no-such-plugin", "installHint": "get it"}}, "not installed; get it"),
        ({"exec": {"apiVersion": "v1", "command": "false"}}, "exec plugin false: .*returned 1"),
        ({"exec": {"apiVersion": "v1", "command": "true"}}, "exec plugin true: .*failed to decode"),
        ({"auth-provider": {"name": "azure", "config": {}}}, "auth-provider azure"),
        ({"token": "t", "as-groups": ["g"]}, "as-groups"),
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


async def test_skipping_verification_is_honoured_and_the_default_is_to_verify(tmp_path: Path) -> None:
    skipped = await credentials.load(kubeconfig(tmp_path / "k", {}, {**CLUSTER, "insecure-skip-tls-verify": True}))
    verified = await credentials.load(kubeconfig(tmp_path / "k", {}))
    assert skipped.ssl is not None
    assert verified.ssl is not None
    assert (skipped.ssl.check_hostname, verified.ssl.check_hostname) == (False, True)


async def test_proxies_and_server_names_of_the_kubeconfig_are_used(tmp_path: Path) -> None:
    cluster = {**CLUSTER, "proxy-url": "http://proxy:1", "tls-server-name": "api"}
    endpoint = (await credentials.load(kubeconfig(tmp_path / "k", {}, cluster))).endpoint
    assert (endpoint.proxy, endpoint.tls_server_name) == ("http://proxy:1", "api")
    with pytest.raises(CredentialsError, match=r"socks5.*not supported"):
        await credentials.load(kubeconfig(tmp_path / "k", {}, {**CLUSTER, "proxy-url": "socks5://proxy:1"}))


async def test_a_remote_cluster_is_reached_by_the_environments_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:2")
    assert (await credentials.load(kubeconfig(tmp_path / "k", {}))).endpoint.proxy == "http://proxy:2"


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


async def test_an_exec_plugin_that_gives_nothing_is_told(tmp_path: Path, plugin: dict[str, Any]) -> None:
    (tmp_path / "answer").write_text("{}")
    with pytest.raises(CredentialsError, match="gave neither a token nor a client certificate"):
        await credentials.load(kubeconfig(tmp_path / "k", {"exec": plugin}))


async def test_an_oidc_token_that_has_not_expired_is_used(tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4_000_000_000}).encode()).decode().rstrip("=")
    token = f"e30.{claims}.sig"
    provider = {"name": "oidc", "config": {"id-token": token, "client-id": "c", "idp-issuer-url": "https://i"}}
    found = await credentials.load(kubeconfig(tmp_path / "k", {"auth-provider": provider}))
    assert await authorization(found) == f"Bearer {token}"


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


async def test_a_pod_without_a_certificate_authority_is_told(pod: Path) -> None:
    (pod / "ca.crt").unlink()
    with pytest.raises(CredentialsError, match="certification file does not exist"):
        await credentials.load()


async def test_after_a_401_credentials_that_cannot_change_are_not_tried_again(tmp_path: Path) -> None:
    found = await credentials.load(kubeconfig(tmp_path / "k", {"token": "t"}))
    assert not await found.refused(await found.headers())


async def test_after_a_401_what_somebody_else_has_renewed_is_not_read_again() -> None:
    source = Granted("one", "two", "three")
    found = made_of("http://x", source, StillClock())
    headers = await found.headers()
    assert await found.refused(headers)
    assert await found.refused(headers)
    assert source.reads == 2


async def test_a_server_that_always_says_401_does_not_make_the_plugin_run_for_every_request() -> None:
    clock = StillClock()
    source = Granted(*(str(number) for number in range(9)))
    found = made_of("http://x", source, clock)
    results = [await found.refused(await found.headers()) for _ in range(3)]
    assert (results, source.reads) == ([True, False, False], 2)
    clock.time += 10
    assert await found.refused(await found.headers())


def test_no_token_is_in_a_repr() -> None:
    assert "hunter2" not in repr(Grant(headers={"Authorization": "Bearer hunter2"}))

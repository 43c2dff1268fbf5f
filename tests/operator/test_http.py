"""Who may read the HTTP server of an operator, decided by the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.auth import credentials
from ssa_operator.kube.auth.certificate_authority import CertificateAuthority, KeyPair
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.operator import http
from ssa_operator.operator.http import Server
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import Options, listens_to_this_host
from ssa_operator.operator.serving_certificate import CertificateError, CertificateFiles, ServingCertificate
from tests.devcluster.waiting import until
from tests.operator.harness import ECHOES, Desk, MakeOptions, Operate, echo
from tests.operator.limited_accounts import API, Rules
from tests.operator.test_health import UNREACHABLE

EVERYWHERE = "0.0.0.0"
TRUST = CertificateAuthority("tests", dt.datetime.now(dt.UTC))


class Reader:
    """Sends requests with a token, '' for none, and maybe from another address of this host."""

    def __init__(self, server: Server, token: str = "", address: str = "127.0.0.1") -> None:
        self._url = f"http://127.0.0.1:{server.port}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._address = address

    async def get(self, path: str) -> tuple[int, str]:
        connector = aiohttp.TCPConnector(local_addr=(self._address, 0))
        async with (
            aiohttp.ClientSession(self._url, connector=connector, headers=self._headers) as session,
            session.get(path) as answer,
        ):
            return answer.status, await answer.text()

    async def status(self, path: str) -> int:
        return (await self.get(path))[0]


async def new_account(desk: Desk, name: str, paths: list[str], rules: Rules) -> str:
    """The token of a new service account that may get some paths, and has rules in its namespace."""
    here = f"{desk.namespace}-{name}"
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": desk.namespace}]
    everywhere = [{"nonResourceURLs": paths, "verbs": ["get"]}] if paths else []
    await desk.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {"apiVersion": f"{API}/v1", "kind": "ClusterRole", "metadata": {"name": here}, "rules": everywhere},
        {
            "apiVersion": f"{API}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": here},
            "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": here},
            "subjects": subjects,
        },
        {"apiVersion": f"{API}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{API}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": API, "kind": "Role", "name": name},
            "subjects": subjects,
        },
    )
    return (await desk.kubectl("create", "token", name)).strip()


@contextlib.asynccontextmanager
async def serving(operate: Operate, host: str) -> AsyncIterator[Server]:
    async with operate(listen=(host, 0)) as running, Server(running.operator, host, 0) as server:
        yield server


@pytest.mark.cluster
async def test_without_a_token_other_hosts_read_the_probes_only(desk: Desk, operate: Operate) -> None:
    async with serving(operate, EVERYWHERE) as server:
        await desk.apply_until_ready(echo("web"))
        nobody, stranger = Reader(server), Reader(server, "no-token-of-this-cluster")
        for path in ("/metrics", "/objects", f"/objects/{ECHOES}", f"/objects/{ECHOES}/{desk.namespace}/web", "/api"):
            assert [await nobody.status(path), await stranger.status(path)] == [401, 401], path
        assert "kubectl create token" in (await nobody.get("/metrics"))[1]
        assert [await nobody.status(path) for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.cluster
async def test_an_account_reads_the_paths_that_it_may_get(desk: Desk, operate: Operate) -> None:
    token = await new_account(desk, "prometheus", ["/metrics"], [])
    async with serving(operate, EVERYWHERE) as server:
        prometheus = Reader(server, token)
        status, text = await prometheus.get("/metrics")
        assert status == 200
        assert "ssa_operator_" in text
        status, text = await prometheus.get("/objects")
        assert (status, text) == (
            403,
            f"system:serviceaccount:{desk.namespace}:prometheus may not get the nonResourceURL /objects\n",
        )


@pytest.mark.cluster
async def test_an_account_reads_the_objects_that_it_may_read_in_the_cluster(desk: Desk, operate: Operate) -> None:
    rules: Rules = [{"apiGroups": ["example.com"], "resources": ["echoes"], "verbs": ["get", "list"]}]
    token = await new_account(desk, "viewer", ["/objects", "/objects/*"], rules)
    async with serving(operate, EVERYWHERE) as server:
        await desk.apply_until_ready(echo("web"))
        viewer = Reader(server, token)
        assert await viewer.status("/objects") == 200
        assert await viewer.status(f"/objects/{ECHOES}/{desk.namespace}/web") == 200
        # Neither tells whether the object exists.
        for path in (f"/objects/{ECHOES}/kube-system/web", f"/objects/{ECHOES}"):
            status, text = await viewer.get(path)
            assert status == 403, path
            assert f"system:serviceaccount:{desk.namespace}:viewer may not " in text
            assert "echoes.example.com" in text


@pytest.mark.slow
@pytest.mark.cluster
async def test_a_withdrawn_permission_ends(desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_LIFETIME", 0.0)
    token = await new_account(desk, "prometheus", ["/metrics"], [])
    async with serving(operate, EVERYWHERE) as server:
        prometheus = Reader(server, token)
        assert await prometheus.status("/metrics") == 200
        await desk.delete("clusterrolebinding", f"{desk.namespace}-prometheus")
        # The API server's authorizer has a cache of its own, which follows a watch.
        while await prometheus.status("/metrics") != 403:
            await desk.kubectl("get", "serviceaccounts")
        await desk.delete("serviceaccount", "prometheus")
        while await prometheus.status("/metrics") != 401:
            await desk.kubectl("get", "serviceaccounts")


@pytest.mark.cluster
async def test_a_server_for_this_host_needs_a_token_from_other_addresses_only(desk: Desk, operate: Operate) -> None:
    """A service mesh passes requests of other hosts on from an address such as 127.0.0.6."""
    async with serving(operate, "127.0.0.1") as server:
        assert await Reader(server).status("/objects") == 200
        assert await Reader(server, address="127.0.0.6").status("/objects") == 401


async def test_nobody_reads_while_the_api_server_can_not_be_asked(options: MakeOptions, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(UNREACHABLE)
    async with Client(await credentials.load(str(path), None)) as client:
        operator = Operator(client, RESTMapper(client), options())
        async with Server(operator, EVERYWHERE, 0) as server:
            status, text = await Reader(server, "some-token").get("/metrics")
    assert status == 503
    assert "some-token" not in text


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        (None, False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.com", False),
    ],
)
def test_only_loopback_addresses_are_this_host_alone(host: str | None, local: bool) -> None:
    assert listens_to_this_host(host) is local


def write(pair: KeyPair, folder: Path) -> CertificateFiles:
    files = CertificateFiles(certificate=folder / "tls.crt", key=folder / "tls.key")
    files.certificate.write_bytes(pair.certificate)
    files.key.write_bytes(pair.key)
    return files


def new_pair() -> KeyPair:
    return TRUST.server("operator", ("localhost",), ("127.0.0.1",))


async def test_with_a_certificate_the_server_speaks_https_only(options: MakeOptions, tmp_path: Path) -> None:
    files = write(new_pair(), tmp_path)
    path = tmp_path / "kubeconfig"
    path.write_text(UNREACHABLE)
    trusting = ssl.create_default_context(cadata=TRUST.certificate.decode())
    async with Client(await credentials.load(str(path), None)) as client:
        operator = Operator(client, RESTMapper(client), options(certificate=files))
        async with Server(operator, "127.0.0.1", 0) as server, aiohttp.ClientSession() as session:
            async with session.get(f"https://127.0.0.1:{server.port}/healthz", ssl=trusting) as answer:
                assert answer.status == 200
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://127.0.0.1:{server.port}/healthz")


def served(certificate: ServingCertificate, *trusted: bytes) -> bytes | None:
    """The certificate that a new connection gets, in DER. It trusts these, too."""
    trusting = ssl.create_default_context(cadata=b"".join((TRUST.certificate, *trusted)).decode())
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = certificate.context.wrap_bio(up, down, server_side=True)
    client = trusting.wrap_bio(down, up, server_hostname="127.0.0.1")
    waiting = [client, server]
    while waiting:
        for side in tuple(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    return client.getpeercert(binary_form=True)


def test_a_renewed_certificate_counts_for_new_connections(tmp_path: Path) -> None:
    first, second = new_pair(), new_pair()
    certificate = ServingCertificate(write(first, tmp_path))
    assert served(certificate) == ssl.PEM_cert_to_DER_cert(first.certificate.decode())
    (tmp_path / "tls.crt").write_bytes(second.certificate)  # the key comes a moment later
    certificate.renew()
    assert served(certificate) == ssl.PEM_cert_to_DER_cert(first.certificate.decode())
    write(second, tmp_path)
    certificate.renew()
    assert served(certificate) == ssl.PEM_cert_to_DER_cert(second.certificate.decode())


def new_rsa_pair() -> KeyPair:
    """A certificate that signs itself."""
    key, name = rsa.generate_private_key(65537, 2048), x509.Name([])
    now = dt.datetime.now(dt.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(address, critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return KeyPair(
        certificate=signed.public_bytes(pem), key=key.private_bytes(pem, pkcs8, serialization.NoEncryption())
    )


def test_a_renewed_certificate_may_have_another_type_of_key(tmp_path: Path) -> None:
    """A TLS context keeps a certificate of each type, and prefers the old one."""
    certificate = ServingCertificate(write(new_pair(), tmp_path))
    other = new_rsa_pair()
    write(other, tmp_path)
    certificate.renew()
    assert served(certificate, other.certificate) == ssl.PEM_cert_to_DER_cert(other.certificate.decode())


def test_an_encrypted_key_is_an_error_and_no_prompt(tmp_path: Path) -> None:
    files = write(new_pair(), tmp_path)
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    files.key.write_bytes(encrypted)
    with pytest.raises(CertificateError, match="unencrypted key"):
        ServingCertificate(files)


@contextlib.asynccontextmanager
async def without_api_server(options: MakeOptions, folder: Path, host: str) -> AsyncIterator[Server]:
    path = folder / "kubeconfig"
    path.write_text(UNREACHABLE)
    async with (
        Client(await credentials.load(str(path), None)) as client,
        Server(Operator(client, RESTMapper(client), options()), host, 0) as server,
    ):
        yield server


async def raw(server: Server, *headers: bytes) -> bytes:
    """The answer to a request for /metrics with exactly these headers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"\r\n".join((b"GET /metrics HTTP/1.1", b"Connection: close", *headers, b"", b"")))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_token_that_can_be_none_is_no_error_of_the_server(
    options: MakeOptions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with without_api_server(options, tmp_path, EVERYWHERE) as server:
        foreign = await raw(server, b"Host: a", b"Authorization: Bearer \xff\xfe")
        broken = await raw(server, b"Host: a", b"Authorization : Bearer some-token")
    assert foreign.startswith(b"HTTP/1.1 401 ")
    assert b" 400 Bad Request" in broken
    assert "some-token" not in caplog.text


async def test_a_web_page_whose_name_resolves_to_this_host_reads_nothing(options: MakeOptions, tmp_path: Path) -> None:
    async with without_api_server(options, tmp_path, "127.0.0.1") as server:
        assert (await raw(server, b"Host: localhost:8080")).startswith(b"HTTP/1.1 200 ")
        assert (await raw(server, b"Host: page.example.com:8080")).startswith(b"HTTP/1.1 401 ")


async def test_requests_with_the_same_question_ask_once_and_too_many_do_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_MAX_WAITING", 10)
    answers: http._Answers[str, bool] = http._Answers(SYSTEM)
    asked, may_answer = [], asyncio.Event()

    async def ask() -> bool:
        asked.append(1)
        await may_answer.wait()
        return True

    waiting = [asyncio.create_task(answers.get(f"key-{number % 2}", ask)) for number in range(10)]
    await until(lambda: len(asked) == 4)
    with pytest.raises(web.HTTPServiceUnavailable, match="Service Unavailable"):
        await answers.get("other", ask)
    may_answer.set()
    assert await asyncio.gather(*waiting) == [True] * 10
    assert len(asked) == 4  # as many as run in parallel


async def test_a_review_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REVIEW_TIMEOUT", 0.01)
    answers: http._Answers[str, bool] = http._Answers(SYSTEM)

    async def ask() -> bool:
        await asyncio.Event().wait()
        return True

    with pytest.raises(web.HTTPServiceUnavailable):
        await answers.get("key", ask)


def test_files_that_are_no_certificate_are_named(tmp_path: Path) -> None:
    files = write(new_pair(), tmp_path)
    files.key.write_bytes(new_pair().key)
    with pytest.raises(CertificateError, match=r"tls\.crt and .*tls\.key are no certificate with its unencrypted key"):
        ServingCertificate(files)
    files.key.unlink()
    with pytest.raises(CertificateError, match=r"tls\.key: No such file"):
        ServingCertificate(files)


HOSTILE_REQUESTS = {
    "NUL and no UTF-8": b"GET /objects/%00/%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a path out": b"GET /objects/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an encoded path out": b"GET /objects/%2e%2e/%2fetc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a raw byte": b"GET /objects/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long path": b"GET /objects/" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a host of bytes": b"GET /objects HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    "half an address": b"GET /objects HTTP/1.1\r\nHost: [::1\r\n\r\n",
    "a large port": b"GET /objects HTTP/1.1\r\nHost: localhost:99999999\r\n\r\n",
    "two hosts": b"GET /objects HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
    "a token of bytes": b"GET /objects HTTP/1.1\r\nHost: evil\r\nAuthorization: Bearer \xff\r\n\r\n",
    "many headers": b"GET /objects HTTP/1.1\r\n" + b"X: a\r\n" * 5000 + b"\r\n",
    "a large body": b"POST /objects HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
    "two lengths": b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "a wrong encoding": b"GET /x HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
    "a wrong chunk": b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    "TLS": b"\x16\x03\x01",
    "another version": b"GET / HTTP/9.9\r\n\r\n",
    "no HTTP": b"A" * 70_000,
}
"""Requests by what is wrong with them. A line adds another one."""


@pytest.mark.more_cases
@pytest.mark.parametrize("name", HOSTILE_REQUESTS)
async def test_a_hostile_request_is_refused_and_logs_nothing(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kubeconfig").write_text(UNREACHABLE)
    async with Client(await credentials.load(str(tmp_path / "kubeconfig"), None)) as client:
        operator = Operator(client, RESTMapper(client), Options(templates=(tmp_path,)))
        async with Server(operator, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(HOSTILE_REQUESTS[name])
            version, code, *_ = (await reader.readline()).split()
            writer.close()
            await writer.wait_closed()
            assert version.startswith(b"HTTP/")
            assert 400 <= int(code) < 500
    assert caplog.text == ""

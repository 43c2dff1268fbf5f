"""The certificates in TLS handshakes."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path
from typing import cast

import pytest

from ssa_operator.devcluster import cluster_files as credentials
from ssa_operator.devcluster.components import Layout
from ssa_operator.kube.auth.certificate_authority import CertificateAuthority, CertificateSubject


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    made = Layout(directory=tmp_path_factory.mktemp("cluster"))
    made.certificates.mkdir()
    credentials.write_credentials("tests", made, "https://127.0.0.1:6443", dt.datetime.now(dt.UTC))
    return made


def shake_hands(layout: Layout, name: str, client: str | None = "admin") -> str:
    """Handshakes in memory, strictly verified on both sides; returns the client's user name as the server sees it."""
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=layout.certificate("ca"))
    server_context.verify_mode = ssl.CERT_REQUIRED
    server_context.load_cert_chain(layout.certificate("kube-apiserver"), layout.key("kube-apiserver"))
    client_context = ssl.create_default_context(cafile=layout.certificate("ca"))
    for context in (server_context, client_context):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # both sides know the result after the last flight
    if client is not None:
        client_context.load_cert_chain(layout.certificate(client), layout.key(client))
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(up, down, server_side=True)
    client_side = client_context.wrap_bio(down, up, server_hostname=name)
    waiting = [client_side, server]
    while waiting:
        for side in tuple(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    certificate = server.getpeercert()
    assert certificate is not None
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate["subject"])
    return dict(item for part in subject for item in part)["commonName"]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "kubernetes.default.svc"])
def test_the_serving_certificate_is_valid_for_loopback_and_the_in_cluster_name(layout: Layout, name: str) -> None:
    assert shake_hands(layout, name) == "admin"


def test_the_serving_certificate_is_valid_for_no_other_name(layout: Layout) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(layout, "example.com")


def test_a_client_without_a_certificate_is_refused(layout: Layout) -> None:
    with pytest.raises(ssl.SSLError):
        shake_hands(layout, "localhost", client=None)


def test_keys_are_readable_by_their_owner_only(layout: Layout) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in (*layout.certificates.iterdir(), layout.kubeconfig)}
    assert set(modes.values()) == {0o600}


def test_a_certificate_of_another_cluster_is_refused(layout: Layout, tmp_path: Path) -> None:
    other = Layout(directory=tmp_path)
    other.certificates.mkdir()
    credentials.write_credentials("other", other, "https://127.0.0.1:6443", dt.datetime.now(dt.UTC))
    for kind in ("crt", "key"):
        (tmp_path / "certificates" / f"admin.{kind}").rename(layout.certificates / f"stranger.{kind}")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(layout, "localhost", client="stranger")
    for kind in ("crt", "key"):
        (layout.certificates / f"stranger.{kind}").unlink()


def test_a_key_is_not_in_the_repr() -> None:
    pair = CertificateAuthority("tests", dt.datetime.now(dt.UTC)).client(CertificateSubject("someone"))
    assert "PRIVATE" in pair.key.decode()
    assert "PRIVATE" not in repr(pair)

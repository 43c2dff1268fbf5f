"""The certificates of the webhook, in TLS handshakes."""

from __future__ import annotations

import base64
import ssl

import pytest

from ssa_operator.kube.clock import SYSTEM
from ssa_operator.operator.webhooks.shared_certificate import (
    LIFETIME,
    RENEWAL,
    WebhookCertificate,
    new_certificate,
    read_certificate,
)

DAY = 86400.0
HOST = "*.ops.svc"


def verify(certificate: WebhookCertificate, authorities: bytes, name: str) -> None:
    """A handshake in memory. Raises ssl.SSLError if a client with these authorities does not trust the certificate."""
    context = ssl.create_default_context(cadata=authorities.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = certificate.context().wrap_bio(to_server, to_client, server_side=True)
    client = context.wrap_bio(to_client, to_server, server_hostname=name)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass


def test_a_certificate_is_for_its_host_alone() -> None:
    made = new_certificate(HOST, SYSTEM.now())
    verify(made, made.authorities, "webhook.ops.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        verify(made, made.authorities, "webhook.other.svc")
    local = new_certificate("127.0.0.1", SYSTEM.now())
    verify(local, local.authorities, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        verify(local, made.authorities, "127.0.0.1")


def test_a_renewal_is_trusted_beside_the_certificate_before_until_that_expires() -> None:
    now = SYSTEM.now()
    before = new_certificate(HOST, now - LIFETIME.total_seconds() + DAY)
    after = new_certificate(HOST, now, before)
    for certificate in (before, after):
        verify(certificate, after.authorities, "webhook.ops.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        verify(after, before.authorities, "webhook.ops.svc")
    third = new_certificate(HOST, now + 2 * DAY, after)
    assert third.authorities.count(b"BEGIN CERTIFICATE") == 2
    assert before.token == after.token == third.token


def test_a_certificate_is_renewed_well_before_it_expires() -> None:
    now = SYSTEM.now()
    made = new_certificate(HOST, now)
    renewal = now + (LIFETIME - RENEWAL).total_seconds()
    assert (made.expires_soon(renewal - DAY), made.expires_soon(renewal + DAY)) == (False, True)


def test_a_certificate_survives_its_secret() -> None:
    made = new_certificate(HOST, SYSTEM.now())
    data = made.data
    assert read_certificate(data) == made
    other = base64.b64encode(new_certificate(HOST, SYSTEM.now()).key).decode()
    for broken in (
        {},
        {**data, "tls.key": other},
        {**data, "ca.crt": ""},
        {**data, "tls.crt": "?"},
        {**data, "token": ""},
    ):
        assert read_certificate(broken) is None


def test_no_key_and_no_token_is_in_a_repr() -> None:
    made = new_certificate(HOST, SYSTEM.now())
    assert repr(made) == str(made) == "WebhookCertificate(...)"

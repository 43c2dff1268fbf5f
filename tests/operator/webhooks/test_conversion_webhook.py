"""The conversion webhook by itself, and the certificates of webhooks in TLS handshakes."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.annotations import NOT_CONVERTED
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.conversion.rules import Converter
from ssa_operator.operator.webhooks.conversion_webhook import SMALL, ConversionWebhook
from ssa_operator.operator.webhooks.shared_certificate import (
    LIFETIME,
    RENEWAL,
    WebhookCertificate,
    new_certificate,
    read_certificate,
)
from ssa_operator.reconcile.render_turns import RenderTurns

CONFIG = {"caBundle": "", "url": "https://a/convert/x"}

CRDS = ("ones.example.com", "refused.example.com", "twos.example.com")


def crd(name: str) -> dict[str, Any]:
    versions = [
        {"name": each, "storage": each == "v1", "schema": {"openAPIV3Schema": {"type": "object", "title": each}}}
        for each in ("v1", "v2")
    ]
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"versions": versions}}


class Reflector:
    """CRDs that are not listed yet."""

    def __init__(self) -> None:
        self.listed = asyncio.Event()

    async def synced_or_unavailable(self) -> None:
        await self.listed.wait()


def operator() -> Any:
    """An operator whose folders convert the CRDs."""
    conversions = dict.fromkeys((("v1", "v2"), ("v2", "v1")))
    folder = SimpleNamespace(templates=SimpleNamespace(conversions=conversions))
    known = {name: crd(name) for name in CRDS}
    crds = SimpleNamespace(get=known.get, reflector=Reflector())
    return SimpleNamespace(
        namespace="ops",
        folders={},
        options=SimpleNamespace(conversion_service=None),
        controllers=SimpleNamespace(crds=crds, templates=SimpleNamespace(folders=dict.fromkeys(CRDS, folder))),
        shared=SimpleNamespace(cluster=SimpleNamespace(turns=RenderTurns())),
    )


class Refusing:
    """A client that may write all CRDs but one."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.patched: list[tuple[str, str]] = []

    async def merge_patch(self, resource: Resource, _namespace: str, name: str, body: bytes) -> None:
        assert body == b"{}"
        self.patched.append((resource.version, name))

    async def apply(self, _resource: Any, _namespace: str, name: str, _body: bytes, _options: Any) -> None:
        if name.startswith("refused"):
            raise ApiError(f"apply of {name}", ErrorStatus(code=403, reason="Forbidden", message="not allowed"))
        self.applied.append(name)


async def test_a_crd_that_can_not_be_written_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    webhook, client = ConversionWebhook(operator(), None, 0), Refusing()
    for _ in range(2):
        client.applied = []
        written = await webhook._register(client, CONFIG)  # type: ignore[arg-type]
        assert (written, client.applied) == (False, ["ones.example.com", "twos.example.com"])
    (message,) = [each for each in caplog.messages if "does not convert" in each]
    assert message.startswith("the CRD refused.example.com does not convert by this operator: ")


async def test_a_review_waits_for_the_crds_and_large_objects_leave_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = operator()
    webhook = ConversionWebhook(served, None, 0)
    threads = []

    def convert(body: dict[str, Any], _version: str) -> dict[str, Any]:
        threads.append(threading.current_thread() is threading.main_thread())
        return body

    converter: Any = SimpleNamespace(convert_or_mark=convert)
    found: Converter = converter
    monkeypatch.setattr(webhook, "_converter", lambda _: found)
    objects = [{"apiVersion": "example.com/v1", "kind": "One", "spec": "x" * size} for size in (1, SMALL)]
    request = {"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": objects}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    answer = asyncio.create_task(webhook._answer(json.dumps(review).encode()))
    await asyncio.sleep(0)
    assert threads == []
    served.controllers.crds.reflector.listed.set()
    assert (await answer)["response"]["convertedObjects"] == objects
    assert threads == [True, False]


def marked(name: str, version: str) -> LiveObject:
    text = json.dumps({"version": version, "message": "no image"})
    metadata = {"name": name, "namespace": "a", "uid": name, "annotations": {NOT_CONVERTED: text}}
    return LiveObject.of(
        {"apiVersion": "example.com/v1", "kind": "One", "metadata": {**metadata, "resourceVersion": "1"}}
    )


async def test_only_a_version_of_the_crd_is_written_for_an_object_that_says_it_is_not_converted() -> None:
    class Parents(list[LiveObject]):
        served = SimpleNamespace(
            resource=Resource(group="example.com", version="v1", kind="One", plural="ones", namespaced=True)
        )

    served = operator()
    served.folders = {"ones.example.com": Parents([marked("a", "v2"), marked("b", "v2/namespaces/other/ones/x")])}
    client: Any = Refusing()
    await ConversionWebhook(served, None, 0)._register(client, CONFIG)
    assert client.patched == [("v2", "a")]


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

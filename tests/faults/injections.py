"""All faults of the matrix.

Faults of the network and of the API server's answers come from the proxy. Those that a real API server, a real
admission webhook or a real quota can produce are real.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import os
import shutil
import signal
import ssl
from pathlib import Path
from typing import Any

from aiohttp import web

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.certificate_authority import CertificateAuthority
from ssa_operator.objects.json_codec import encode
from tests.faults.cell import Cell, Injection, watching
from tests.faults.proxy import (
    Delay,
    Effect,
    EndWatch,
    Fault,
    Refuse,
    ResetAfter,
    ResetBefore,
    Silence,
    Truncate,
    WatchError,
    refusal,
    status_body,
)
from tests.faults.story import CHANGED_CHILD, Phase
from tests.operator.harness import PATIENCE

WATCHES = frozenset({"watch"})
TOO_LARGE = "Too large resource version: 9000000, current: 8000000"


class ProxyFault(Injection):
    """A fault that the proxy produces."""

    def __init__(self, name: str, effect: Effect, verbs: frozenset[str] = frozenset(), hold: float = 6.0) -> None:
        super().__init__(name)
        self.fault = Fault(effect=effect, verbs=verbs)
        self.hold = hold

    async def begin(self, cell: Cell) -> None:
        await cell.proxy.begin(self.fault)

    async def end(self, cell: Cell) -> None:
        await cell.proxy.end()

    def took_effect(self, cell: Cell) -> bool:
        return isinstance(self.fault.effect, Refuse | Silence) or super().took_effect(cell)


class DiscoveryFault(ProxyFault):
    """A fault of discovery, which an operator needs when it starts."""

    def applies_to(self, phase: Phase) -> bool:
        return phase is Phase.START_UP


class ExpiredToken(Injection):
    """The API server no longer accepts the token. In the end the token file has another one."""

    async def kubeconfig(self, cell: Cell) -> Path:
        token = cell.folder / "token"
        token.write_text("one")
        cell.proxy.token = "one"
        return cell.proxy.write_kubeconfig(cell.folder / "kubeconfig", token_file=token)

    async def begin(self, cell: Cell) -> None:
        cell.proxy.token = "two"

    async def end(self, cell: Cell) -> None:
        (cell.folder / "token").write_text("two")


class RotatedAuthority(Injection):
    """The API server has a certificate of another authority. In the end the authority's file has that one."""

    async def prepare(self, cell: Cell) -> None:
        await cell.proxy.refuse()
        cell.proxy.tls = self._serve(cell, "one")
        await cell.proxy.listen()

    async def kubeconfig(self, cell: Cell) -> Path:
        authority = cell.folder / "ca.crt"
        authority.write_bytes((cell.folder / "one.crt").read_bytes())
        return cell.proxy.write_kubeconfig(cell.folder / "kubeconfig", authority=authority)

    async def begin(self, cell: Cell) -> None:
        await cell.proxy.refuse()
        cell.proxy.tls = self._serve(cell, "two")
        await cell.proxy.listen()

    async def end(self, cell: Cell) -> None:
        (cell.folder / "ca.crt").write_bytes((cell.folder / "two.crt").read_bytes())

    def took_effect(self, cell: Cell) -> bool:  # noqa: ARG002
        return True

    @staticmethod
    def _serve(cell: Cell, name: str) -> ssl.SSLContext:
        authority = CertificateAuthority(name, dt.datetime.now(dt.UTC))
        (cell.folder / f"{name}.crt").write_bytes(authority.certificate)
        return server_context(authority, cell.folder)


def server_context(authority: CertificateAuthority, folder: Path) -> ssl.SSLContext:
    """The TLS context of a server at 127.0.0.1."""
    pair = authority.server("localhost", ("localhost",), ("127.0.0.1",))
    (folder / "server.crt").write_bytes(pair.certificate)
    (folder / "server.key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    return context


WEBHOOKS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingWebhookConfiguration",
    plural="validatingwebhookconfigurations",
    namespaced=False,
)
CONFIG_MAPS = Resource(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
QUOTAS = Resource(group="", version="v1", kind="ResourceQuota", plural="resourcequotas", namespaced=True)
API_SERVICES = Resource(
    group="apiregistration.k8s.io", version="v1", kind="APIService", plural="apiservices", namespaced=False
)
ADMIN = ApplyOptions(manager="admin")


class AdmissionWebhook(Injection):
    """An admission webhook that denies the operator's writes of ConfigMaps and Secrets, or does not answer them."""

    awaits_write = True

    def __init__(self, name: str, *, answers: bool) -> None:
        super().__init__(name)
        self._answers = answers
        self._denying: set[str] = set()
        self._denied: set[str] = set()

    def applies_to(self, phase: Phase) -> bool:
        return phase is not Phase.ORPHAN  # writes parents only

    async def prepare(self, cell: Cell) -> None:
        authority = CertificateAuthority("webhook", dt.datetime.now(dt.UTC))
        called = asyncio.Event()

        async def review(request: web.BaseRequest) -> web.StreamResponse:
            called.set()
            asked = (await request.json())["request"]
            allowed = not (cell.namespace in self._denying and _is_operators(asked))
            if not allowed:
                self._denied.add(cell.namespace)
                if not self._answers:
                    await asyncio.sleep(5)
            status = {"message": "the policy of the test denies it"}
            response = {"uid": asked["uid"], "allowed": allowed} | ({} if allowed else {"status": status})
            return web.json_response(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            )

        runner = web.ServerRunner(web.Server(review, access_log=None), shutdown_timeout=0.01)
        await runner.setup()
        cell.cleanup.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(authority, cell.folder)).start()
        await self._register(cell, f"https://127.0.0.1:{runner.addresses[0][1]}/", authority)
        probe = encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}})
        async with asyncio.timeout(PATIENCE):
            while not called.is_set():  # the API server reads the configuration a moment later
                await cell.client.apply(
                    CONFIG_MAPS, cell.namespace, "probe", probe, ApplyOptions(manager="admin", dry_run=True)
                )
                await asyncio.sleep(0.05)

    async def _register(self, cell: Cell, url: str, authority: CertificateAuthority) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "secrets"], "operations": ["*"]}
        webhook = {
            "name": "policy.faults.example.com",
            "clientConfig": {"url": url, "caBundle": base64.b64encode(authority.certificate).decode()},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cell.namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 1,
        }
        body = {
            "apiVersion": WEBHOOKS.api_version,
            "kind": WEBHOOKS.kind,
            "metadata": {"name": cell.namespace},
            "webhooks": [webhook],
        }
        await cell.client.apply(WEBHOOKS, "", cell.namespace, encode(body), ADMIN)
        cell.cleanup.push_async_callback(_delete, cell, WEBHOOKS, "", cell.namespace)

    async def begin(self, cell: Cell) -> None:
        self._denying.add(cell.namespace)

    async def end(self, cell: Cell) -> None:
        self._denying.discard(cell.namespace)

    def took_effect(self, cell: Cell) -> bool:
        return cell.namespace in self._denied


def _is_operators(asked: dict[str, Any]) -> bool:
    """Whether a request is an operator's: the test's user and the operator are the same administrator."""
    options = asked.get("options") or {}
    by_operator = options.get("fieldManager") == "ssa-operator" or "preconditions" in options
    return asked["userInfo"]["username"] == "admin" and by_operator


async def _delete(cell: Cell, resource: Resource, namespace: str, name: str) -> None:
    path = resource.path(namespace, name)
    await cell.client.send(calls.Request(method="DELETE", path=path, subject=f"delete of {name}"))


class Quota(Injection):
    """A ResourceQuota that is exceeded, until it is deleted."""

    early = True

    def applies_to(self, phase: Phase) -> bool:
        return phase not in (Phase.PRUNE, Phase.ROLLOUT, Phase.ORPHAN)  # they create nothing

    async def begin(self, cell: Cell) -> None:
        hard = {"count/configmaps": "0", "count/secrets": "0"}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": hard}}
        await cell.client.apply(QUOTAS, cell.namespace, "none", encode(body), ADMIN)
        view = await cell.witness.desk.view("resourcequotas")
        await view.until("none", lambda found: found.get("status", {}).get("hard") == hard)

    async def end(self, cell: Cell) -> None:
        await _delete(cell, QUOTAS, cell.namespace, "none")

    def took_effect(self, cell: Cell) -> bool:  # noqa: ARG002
        return True


class DiscoveryOfOneGroup(Injection):
    """An aggregated API server does not answer, so that the discovery of its group fails. A template folder is for one
    of its resources."""

    early = True
    hold = 12.0  # at least one repeated discovery

    def templates(self, cell: Cell) -> tuple[Path, ...]:
        folder = cell.folder / "templates" / f"gadgets.{self._group(cell)}"
        folder.mkdir(parents=True)
        (folder / "map.yaml.j2").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: gadget\n")
        return (folder.parent,)

    @staticmethod
    def _group(cell: Cell) -> str:
        return f"{cell.namespace}.example.com"

    async def begin(self, cell: Cell) -> None:
        group = self._group(cell)
        spec = {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": cell.namespace, "name": "nowhere"},
        }
        name = f"v1.{group}"
        body = {
            "apiVersion": API_SERVICES.api_version,
            "kind": API_SERVICES.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        await cell.client.apply(API_SERVICES, "", name, encode(body), ADMIN)
        view = await cell.witness.desk.view("apiservices.apiregistration.k8s.io")
        await view.until(name, lambda found: found.get("status", {}).get("conditions"))

    async def end(self, cell: Cell) -> None:
        await _delete(cell, API_SERVICES, "", f"v1.{self._group(cell)}")

    def took_effect(self, cell: Cell) -> bool:
        return any(call.verb == "discover" for call in cell.proxy.calls)


class Restart(Injection):
    """etcd and kube-apiserver are killed and started again, for all cells of the control plane at once.

    The state is newer than the operator knows, because a user changes an object before the operator is connected again;
    or `older`: etcd has a copy of its data from before the phase.
    """

    stops_server = True

    def __init__(self, name: str, cells: int, *, older: bool) -> None:
        super().__init__(name)
        self.rolls_back = older
        self._together = asyncio.Barrier(cells)

    async def _once(self, work: Any) -> None:
        """Have one of the cells do some work while the others wait."""
        if await self._together.wait() == 0:
            await work()
        await self._together.wait()

    def abandon(self) -> None:
        # A coroutine only by its signature: it waits for nothing.
        self._aborting = asyncio.ensure_future(self._together.abort())

    async def before_act(self, cell: Cell) -> None:
        if self.rolls_back:
            await self._once(lambda: self._copy(cell))

    @staticmethod
    async def _copy(cell: Cell) -> None:
        """Copy etcd's data. etcd is stopped meanwhile, so that the copy is one state of all files."""
        data, pid = cell.cluster.directory / "etcd", cell.cluster.pids["etcd"]
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.to_thread(shutil.copytree, data, data.with_name("etcd-copy"))
        finally:
            os.kill(pid, signal.SIGCONT)

    async def begin(self, cell: Cell) -> None:
        # From here to the end of the fault no request passes the proxy.
        await cell.proxy.begin(Fault(effect=ResetBefore()))
        await self._once(lambda: self._stop(cell))

    @staticmethod
    async def _stop(cell: Cell) -> None:
        for name in ("kube-apiserver", "etcd"):
            await cell.cluster.stop_component(name)

    async def end(self, cell: Cell) -> None:
        await self._once(lambda: self._start(cell))
        before = cell.witness
        cell.witness = await watching(cell.client, cell.cluster, cell.namespace, cell.cleanup)
        if not self.rolls_back:
            cell.witness.deleted += before.deleted
            cell.witness.added |= before.added
            name = CHANGED_CHILD[1].replace("web-1", "web-2")
            await cell.witness.apply(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": "9"}}
            )
        await cell.proxy.end()

    async def _start(self, cell: Cell) -> None:
        data = cell.cluster.directory / "etcd"
        if self.rolls_back:
            shutil.rmtree(data)
            data.with_name("etcd-copy").rename(data)
        for name in ("etcd", "kube-apiserver"):
            await cell.cluster.start_component(name)
        await cell.cluster.wait_until_ready()
        if self.rolls_back:
            # Kubernetes asks for this after a restore: its own controllers keep their old caches, too.
            await cell.cluster.stop_component("kube-controller-manager")
            await cell.cluster.start_component("kube-controller-manager")


def injections() -> list[Injection]:
    """All faults for cells that share a control plane with others."""
    return [
        ProxyFault("connection refused", Refuse()),
        ProxyFault("reset before the request", ResetBefore()),
        ProxyFault("reset after the request", ResetAfter()),
        ProxyFault("half-open connection", Silence()),
        ProxyFault("slow answers (3 s)", Delay(3.0)),
        ProxyFault(
            "429 with Retry-After: 2",
            refusal(429, "TooManyRequests", "too many requests", (("Retry-After", "2"),)),
        ),
        ProxyFault("429 without Retry-After", refusal(429, "TooManyRequests", "too many requests")),
        ProxyFault("500", refusal(500, "InternalError", "etcdserver: leader changed")),
        ProxyFault("503", refusal(503, "ServiceUnavailable", "apiserver is shutting down")),
        ProxyFault("504", refusal(504, "Timeout", "request did not complete within the allotted timeout")),
        ProxyFault("truncated JSON", Truncate()),
        ProxyFault("watch ended at once", EndWatch()),
        ProxyFault("410 as a status", refusal(410, "Expired", "too old resource version: 1 (2)"), WATCHES),
        ProxyFault("410 as an event", WatchError(status_body(410, "Expired", "too old resource version: 1 (2)"))),
        ProxyFault(
            "too large resource version",
            refusal(
                504,
                "Timeout",
                TOO_LARGE,
                causes=[{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                retryAfterSeconds=1,
            ),
            WATCHES,
        ),
        DiscoveryFault("discovery answers 503", refusal(503, "ServiceUnavailable", "no"), frozenset({"discover"})),
        ExpiredToken("expired token"),
        RotatedAuthority("rotated CA"),
        DiscoveryOfOneGroup("discovery fails for one group"),
        AdmissionWebhook("admission webhook denies", answers=True),
        AdmissionWebhook("admission webhook times out", answers=False),
        Quota("quota exceeded"),
    ]


def restarts() -> list[tuple[str, bool]]:
    """The names of the faults that restart a control plane, and whether its etcd returns to an older state."""
    return [("server restarted, newer etcd state", False), ("server restarted, older etcd state", True)]

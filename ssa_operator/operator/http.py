"""The HTTP server of a running operator, and who may read it: probes, metrics, and the parents from the caches.

Promises:
- `/` is a page with a link to each other path, and refers to nothing else. The links are relative.
- The probes are open. Everything else is open only to this host, and only if the server listens to this host alone.
- Every other request needs a bearer token, which the API server authenticates, and whose account may `get` the path,
  or `/ui/` where Kubernetes lets every account `get` the path.
- A client that reads an object must be allowed to read it in the cluster, too.
- Answers of the API server are valid for ANSWER_LIFETIME seconds. Without an answer, every request is refused.
- No log line and no answer contains a token.
- `/healthz` answers as long as the event loop makes progress. It is 503, and names the cause, when a task ended or a
  worker is stuck, because only a restart helps then. An unreachable API server does not change it.
- `/readyz` is ok once the operator serves every folder whose resource exists, except where it may not read parents. Its
  text names the other folders, these namespaces, refused CRDs and missing permissions, which don't change its code.
- `/objects` shows caches and last reports, and never shows a Secret's content. Only the reviews of the caller's
  permissions go to the API server.
- With a certificate, everything is HTTPS.
- Clients that stall, however many, delay no probe, as `http_connections.py` promises.
- No request changes the operator or the cluster.

Paths are non-resource URLs, as for the components of Kubernetes, so that one ClusterRole fits them all:
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler
from yarl import URL

from ssa_operator.kube.api.access_reviews import Subject, authenticate, is_allowed, may_get_path
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.kinds import Permission
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.http_connections import Connections, track_request
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import listens_to_this_host
from ssa_operator.operator.permissions.requests import describe
from ssa_operator.operator.serving_certificate import ServingCertificate
from ssa_operator.reconcile.parent_state import Parents

log = logging.getLogger("ssa_operator")

ANSWER_LIFETIME = 10.0
"""Seconds for which an answer of the API server is valid. A withdrawn permission ends after this time."""

REVIEW_TIMEOUT = 8.0
"""Seconds for one answer, including the wait for a slot: less than Prometheus waits."""

OPEN_PATHS = frozenset({"/healthz", "/readyz"})

LOCAL = frozenset({"127.0.0.1", "::1"})
"""The addresses of requests from this host, including those through `kubectl port-forward`. Istio's sidecar connects
from another one. A proxy in the same pod that connects from these is trusted, so it has to authorize.
"""

_KEPT = 1000
"""Answers of each kind. Beyond them, the oldest one is dropped."""

_PARALLEL = 4
"""Reviews of each kind in parallel."""

_MAX_WAITING = 100
"""Requests that may wait for reviews of each kind, so that unknown tokens can't pile up."""

_Key = TypeVar("_Key", bound=Hashable)
_Answer = TypeVar("_Answer")


class AccessControl:
    """Decides about requests. `host` is the address that the server listens on. `open_paths` need no permission, and
    `other_token` finds the token of a request without the header Authorization.
    """

    def __init__(
        self,
        client: Client,
        host: str | None,
        clock: Clock,
        open_paths: frozenset[str] = frozenset(),
        other_token: Callable[[web.Request], str] = lambda _: "",
    ) -> None:
        self._client = client
        self._open_paths = OPEN_PATHS | open_paths
        self._other_token = other_token
        self._trusts_this_host = listens_to_this_host(host)
        self._accounts: _Answers[bytes, Subject | None] = _Answers(clock)
        self._paths: _Answers[tuple[Subject, str], bool] = _Answers(clock)
        self._permissions: _Answers[tuple[Subject, Permission], bool] = _Answers(clock)

    async def authorize(self, request: web.Request) -> None:
        """Raise HTTPUnauthorized, HTTPForbidden or HTTPServiceUnavailable unless the request may `get` its path."""
        if request.path in self._open_paths or self._is_trusted(request):
            return
        account, path = await self._account(request), _reviewed(request.path)
        if not await self.may_get(account, path):
            raise web.HTTPForbidden(text=f"{account.user} may not get the nonResourceURL {path}\n")

    async def authorize_read(self, request: web.Request, permission: Permission) -> None:
        """Raise as `authorize` unless the request's account has the permission in the cluster."""
        if self._is_trusted(request):
            return
        account = await self._account(request)
        if not await self._permissions.get(
            (account, permission), lambda: is_allowed(self._client, permission, account)
        ):
            raise web.HTTPForbidden(text=f"{account.user} may not {permission}\n")

    async def authorize_parent(self, operator: Operator, request: web.Request) -> None:
        """Raise as `authorize_read` unless the request's account may get the parent in the request's path."""
        resource = parents_of(operator, request).served.resource
        await self.authorize_read(request, read_permission(resource, "get", *_named(request)))

    def _is_trusted(self, request: web.Request) -> bool:
        # A web page can make its own name resolve to this host (DNS rebinding); the browser sends that name.
        return self._trusts_this_host and request.remote in LOCAL and _is_this_host(request.headers.get("Host", ""))

    async def account_of(self, token: str) -> Subject | None:
        """The account of a token, None if the API server does not know it. Raises HTTPServiceUnavailable."""
        if not token or not token.isascii():
            return None
        digest = hashlib.sha256(token.encode()).digest()
        return await self._accounts.get(digest, lambda: authenticate(self._client, token))

    async def may_get(self, account: Subject, path: str) -> bool:
        """Whether an account may `get` a path. Raises HTTPServiceUnavailable."""
        return await self._paths.get((account, path), lambda: may_get_path(self._client, path, account))

    async def reader(self, request: web.Request) -> Subject | None:
        """The account that makes a request, None if this host needs none. Raises as `authorize`."""
        return None if self._is_trusted(request) else await self._account(request)

    async def _account(self, request: web.Request) -> Subject:
        header = request.headers.get("Authorization")
        scheme, _, token = (header or "").partition(" ")
        if header is None:
            scheme, token = "bearer", self._other_token(request)
        account = await self.account_of(token.strip()) if scheme.lower() == "bearer" else None
        if account is None:
            raise web.HTTPUnauthorized(
                headers={"WWW-Authenticate": "Bearer"},
                text=f"{request.path} needs a bearer token of this cluster, such as `kubectl create token` prints\n",
            )
        return account


def _reviewed(path: str) -> str:
    """The path that an account has to `get`: of the web view `/ui/`, because the ClusterRole `system:discovery` lets
    every account `get` `/api/*`.
    """
    return "/ui/" if path == "/ui" or path.startswith("/api/") else path


def _is_this_host(authority: str) -> bool:
    try:
        return listens_to_this_host(URL(f"http://{authority}").host)
    except ValueError:
        return False


class _Answers(Generic[_Key, _Answer]):
    """The API server's answers, each valid for ANSWER_LIFETIME seconds after the question."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[_Key, tuple[float, _Answer]] = {}
        self._slots = asyncio.Semaphore(_PARALLEL)
        self._waiting = 0

    async def get(self, key: _Key, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """The answer to a question. Raises HTTPServiceUnavailable."""
        if (known := self._known(key)) is not None:
            return known[1]
        if self._waiting >= _MAX_WAITING:
            raise web.HTTPServiceUnavailable(text="too many requests wait for the API server\n")
        self._waiting += 1
        try:
            async with asyncio.timeout(REVIEW_TIMEOUT), self._slots:
                if (known := self._known(key)) is not None:  # another request asked meanwhile
                    return known[1]
                asked = self._clock.monotonic()
                answer = await ask()
        except (ApiError, CredentialsError, TimeoutError) as error:
            # The error may name details of the cluster, and it is not known whether the client may see them.
            log.debug("a review of who may read failed: %s", error)
            raise web.HTTPServiceUnavailable(text="the API server can't be asked who may read this\n") from error
        finally:
            self._waiting -= 1
        self._answers.pop(key, None)
        if len(self._answers) >= _KEPT:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = asked + ANSWER_LIFETIME, answer
        return answer

    def _known(self, key: _Key) -> tuple[float, _Answer] | None:
        known = self._answers.get(key)
        return known if known is not None and self._clock.monotonic() < known[0] else None


PATHS = {
    "/healthz": "whether the process works",
    "/readyz": "whether the operator serves every folder, and which permissions it lacks",
    "/metrics": "metrics for Prometheus",
    "/objects": "the parents of each folder, with their conditions and children",
}
"""What `/` links to, with what it answers."""


class Pages(Protocol):
    """More routes of the same port, such as the web view, as an async context manager around the server."""

    open_paths: frozenset[str]
    """Those that need no permission."""

    def routes(self, access: AccessControl) -> Iterable[web.RouteDef]:
        """The routes; `access` decides who may read them."""

    def token(self, request: web.Request) -> str:
        """The token of a request without the header Authorization, '' for none."""

    def refused(self, request: web.Request, error: web.HTTPUnauthorized) -> web.StreamResponse:
        """The answer to a request without a valid token. Raises `error` or another HTTPException."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(self, *_: object) -> None: ...


class Server:
    """The HTTP server of an operator, as an async context manager. `port` is the port that it listens on, `pages` are
    more routes.

    Raises CertificateError if the options name files that hold no certificate.
    """

    def __init__(self, operator: Operator, host: str | None, port: int, pages: Pages | None = None) -> None:
        self._operator = operator
        self._pages = pages
        files = operator.options.certificate
        self._certificate = ServingCertificate(files) if files is not None else None
        self._access = (
            AccessControl(operator.client, host, SYSTEM)
            if pages is None
            else AccessControl(operator.client, host, SYSTEM, pages.open_paths, pages.token)
        )
        app = web.Application(middlewares=[track_request, self._authorized])
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                web.get("/objects", self._folders),
                web.get("/objects/{folder}", self._objects),
                web.get("/objects/{folder}/{name}", self._object),
                web.get("/objects/{folder}/{namespace}/{name}", self._object),
                *(() if pages is None else pages.routes(self._access)),
            ]
        )
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=_log(),
            auto_decompress=False,  # no request needs a compressed body, and one could be large
            handler_cancellation=True,
            shutdown_timeout=1.0,
        )
        context = None if self._certificate is None else self._certificate.context
        self.connections = Connections(runner, host, port, context)

    @property
    def port(self) -> int:
        return self.connections.port

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if self._pages is not None:
                await stack.enter_async_context(self._pages)
            await stack.enter_async_context(self.connections)
            if self._certificate is not None:
                renewing = asyncio.create_task(self._certificate.follow(), name="renew the certificate")
                stack.callback(renewing.cancel)
            self._open = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    @web.middleware
    async def _authorized(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            await self._access.authorize(request)
        except web.HTTPUnauthorized as error:
            if self._pages is None:
                raise
            return self._pages.refused(request, error)
        return await handler(request)

    async def _index(self, _request: web.Request) -> web.Response:
        paths = PATHS if self._pages is None else {"/ui/": "the web view", **PATHS}
        rows = "".join(f'<li><a href=".{path}">{path}</a>: {answer}</li>\n' for path, answer in paths.items())
        text = f"<!doctype html>\n<title>ssa-operator</title>\n<h1>ssa-operator</h1>\n<ul>\n{rows}</ul>\n"
        policy = {"Content-Security-Policy": "default-src 'none'"}
        return web.Response(text=text, content_type="text/html", charset="utf-8", headers=policy)

    async def _healthz(self, _request: web.Request) -> web.Response:
        problems = self._operator.health_problems()
        if not problems:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="".join(f"{problem}\n" for problem in problems))

    async def _readyz(self, _request: web.Request) -> web.Response:
        missing = "".join(f"missing permission: {line}\n" for line in describe(self._operator.missing_permissions))
        folders = self._operator.folders
        unserved = "".join(
            f"not served: {name} in {namespace} ({reason})\n" if reason else f"not served: {name} in {namespace}\n"
            for name, parents in folders.items()
            if parents.serving
            for namespace, reason in parents.unserved.items()
        )
        refused = self._operator.controllers.refused_crds.items()
        missing = "".join(f"CRD not applied: {name} ({reason})\n" for name, reason in refused) + missing
        if self._operator.ready:
            return web.Response(text=f"ok\n{unserved}{missing}")
        unsynced = {name: parents.unserved.values() for name, parents in folders.items() if not parents.serving}
        reasons = {name: next(filter(None, found), "") for name, found in unsynced.items()}
        waiting = ", ".join(f"{name} ({reason})" if reason else name for name, reason in reasons.items()) or "starting"
        return web.Response(status=503, text=f"not synced: {waiting}\n{unserved}{missing}")

    async def _metrics(self, _request: web.Request) -> web.Response:
        self._operator.measure()
        return web.Response(body=self._operator.metrics.text(), content_type="text/plain", charset="utf-8")

    async def _folders(self, _request: web.Request) -> web.Response:
        folders = {name: {"parents": len(parents)} for name, parents in self._operator.folders.items()}
        waiting = {name: {"waits": reason} for name, reason in self._operator.missing.items()}
        return _json(folders | waiting)

    async def _objects(self, request: web.Request) -> web.Response:
        parents = parents_of(self._operator, request)
        await self._access.authorize_read(request, read_permission(parents.served.resource, "list"))
        return _json({"items": {_name(live): _view(parents, live) for live in parents}})

    async def _object(self, request: web.Request) -> web.Response:
        await self._access.authorize_parent(self._operator, request)
        return _json(_view(*parent_of(self._operator, request)))


def _log() -> logging.Logger:
    """A log without malformed requests: aiohttp quotes them, with their tokens, and anyone may send them."""
    log = logging.getLogger("ssa_operator.http")
    if not log.filters:
        invalid = (HttpProcessingError, web.RequestPayloadError)
        log.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], invalid)))
    return log


def parents_of(operator: Operator, request: web.Request) -> Parents:
    """The parents of the folder in a request's path. Raises HTTPNotFound."""
    folder = request.match_info["folder"]
    if folder in operator.folders:
        return operator.folders[folder]
    reason = operator.missing.get(folder, "there is no such template folder")
    raise web.HTTPNotFound(text=f"{folder}: {reason}\n")


def parent_of(operator: Operator, request: web.Request) -> tuple[Parents, LiveObject]:
    """The parent that a request's path names, and those of its folder. Raises HTTPNotFound."""
    parents, (namespace, name) = parents_of(operator, request), _named(request)
    live = parents.find(namespace, name)
    if live is None:
        where = f"{namespace}/{name}" if namespace else name
        raise web.HTTPNotFound(text=f"{parents.folder.name}: there is no {where}\n")
    return parents, live


def _named(request: web.Request) -> tuple[str, str]:
    """The namespace and name in a request's path."""
    return request.match_info.get("namespace", ""), request.match_info["name"]


def read_permission(resource: Resource, verb: str, namespace: str = "", name: str = "") -> Permission:
    """What a reader of some objects, or of one, needs."""
    return Permission(group=resource.group, resource=resource.plural, namespace=namespace, name=name, verb=verb)


def _name(live: LiveObject) -> str:
    identity = live.identity
    return f"{identity.namespace}/{identity.name}" if identity.namespace else identity.name


def _view(parents: Parents, live: LiveObject) -> dict[str, Any]:
    """The cached parent, with the conditions and resources of its last report."""
    report = parents.state(live).status.report
    status: Mapping[str, Any] = report.status if report is not None else {}
    return {
        "object": redacted(live.body),
        "conditions": status.get("conditions", []),
        "resources": status.get("resources", []),
    }


def redacted(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object. In a Secret, the values are empty and the keys stay."""
    if body.get("kind") != "Secret" or body.get("apiVersion") != "v1":
        return body
    emptied = {
        field: dict.fromkeys(body[field], "")
        for field in ("data", "stringData")
        if isinstance(body.get(field), Mapping)
    }
    annotations = body["metadata"].get("annotations", {})
    shown = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    return {**body, **emptied, "metadata": {**body["metadata"], "annotations": shown}}


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")

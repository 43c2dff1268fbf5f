"""Who may read the HTTP server of an operator.

Promises:
- The probes are open. Everything else is open only to this host, and only if the server listens to this host alone.
- Every other request needs a bearer token, which the API server authenticates, and whose account may `get` the path.
- A client that reads an object must be allowed to read it in the cluster, too.
- Answers of the API server are valid for ANSWER_LIFETIME seconds. Without an answer, every request is refused.
- No log line and no answer contains a token.

Paths are non-resource URLs, as for the components of Kubernetes, so that one ClusterRole fits them all:
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from aiohttp import web
from yarl import URL

from ssa_operator.kube.api.access_reviews import Subject, authenticate, is_allowed, may_get_path
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import Clock
from ssa_operator.objects.permission import Permission
from ssa_operator.operator.operator_options import listens_to_this_host

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
    """Decides about requests. `host` is the address that the server listens on."""

    def __init__(self, client: Client, host: str | None, clock: Clock) -> None:
        self._client = client
        self._trusts_this_host = listens_to_this_host(host)
        self._accounts: _Answers[bytes, Subject | None] = _Answers(clock)
        self._paths: _Answers[tuple[Subject, str], bool] = _Answers(clock)
        self._permissions: _Answers[tuple[Subject, Permission], bool] = _Answers(clock)

    async def authorize(self, request: web.Request) -> None:
        """Raise HTTPUnauthorized, HTTPForbidden or HTTPServiceUnavailable unless the request may `get` its path."""
        if request.path in OPEN_PATHS or self._is_trusted(request):
            return
        account, path = await self._account(request), request.path
        if not await self._paths.get((account, path), lambda: may_get_path(self._client, path, account)):
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

    def _is_trusted(self, request: web.Request) -> bool:
        # A web page can make its own name resolve to this host (DNS rebinding); the browser sends that name.
        return self._trusts_this_host and request.remote in LOCAL and _is_this_host(request.headers.get("Host", ""))

    async def _account(self, request: web.Request) -> Subject:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token, account = token.strip(), None
        if scheme.lower() == "bearer" and token and token.isascii():
            digest = hashlib.sha256(token.encode()).digest()
            account = await self._accounts.get(digest, lambda: authenticate(self._client, token))
        if account is None:
            raise web.HTTPUnauthorized(
                headers={"WWW-Authenticate": "Bearer"},
                text=f"{request.path} needs a bearer token of this cluster, such as `kubectl create token` prints\n",
            )
        return account


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

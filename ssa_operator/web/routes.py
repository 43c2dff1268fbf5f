"""The routes of the web view: its pages below `/ui`, and below `/api/v1` the JSON that they are made of.

Promises:
- Every route answers GET alone. No request changes the operator or the cluster.
- Beyond this host, a reader needs the permissions of `http_access.py`: the path, `list` or `get` of the parents that an
  answer shows, and `get` of a child whose manifest it shows.
- No answer has a Secret's content.
- The pages load nothing from elsewhere and run no inline script (Content-Security-Policy), and no page may frame them.
- The view asks the API server only while a page shows a parent.

The routes:
- `/api/v1/overview` with `folder`, `namespace`, `group`, `text`, `suspended`, `conflict`, `offset` and `limit`;
- `/api/v1/parents/FOLDER[/NAMESPACE]/NAME`, its tree;
- `.../edges`, what its children wait for; `.../manifest?child=KEY`, a child's lines with their writers.

With `stream=1`, the first two are server-sent events (`event_stream.py`).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
from aiohttp import web
from msgspec import Struct

from ssa_operator.kube.api.client import DryRunClient
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.kinds import Permission
from ssa_operator.operator.http import AccessControl, parent_of, read_permission
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.tools.connection.object_reference import FoundObject
from ssa_operator.tools.plan.preview import Preview
from ssa_operator.tools.tree.listings import Lists, Watches
from ssa_operator.web.event_stream import PAUSE, EventStreams, Values, paced
from ssa_operator.web.figures import INTERVAL, FigureSamples
from ssa_operator.web.manifest_lines import manifest_of
from ssa_operator.web.overview import MAX_PAGE, PAGE, make_overview
from ssa_operator.web.parent_page import MayList, parent_edges, parent_tree
from ssa_operator.web.parent_rows import Filter, ParentRows

STATIC = Path(__file__).parent / "static"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}


class Asset(Struct, frozen=True, kw_only=True):
    """A file of the page."""

    body: bytes
    compressed: bytes
    content_type: str
    etag: str


def read_assets(folder: Path = STATIC) -> Mapping[str, Asset]:
    """The files of the page, by their names."""
    found = {}
    for file in sorted(folder.iterdir()):
        if file.suffix in _TYPES:
            body = file.read_bytes()
            found[file.name] = Asset(
                body=body,
                compressed=gzip.compress(body, mtime=0),
                content_type=_TYPES[file.suffix],
                etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
            )
    return found


class WebView:
    """The web view of a running operator, as an async context manager."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self._rows = ParentRows(operator.folders)
        self._samples = FigureSamples()
        self.streams = EventStreams()
        self._assets = read_assets()
        client = operator.client
        self._client = DryRunClient(client.credentials)
        self._preview = Preview(self._client, operator.shared, SYSTEM)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        self._sampling = asyncio.create_task(self._sample(), name="sample the figures of the web view")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sampling.cancel()
        await asyncio.gather(self._sampling, return_exceptions=True)
        await self._client.__aexit__(None, None, None)

    async def _sample(self) -> None:
        while True:
            self._samples.take(self.operator.metrics, len(self.operator.queue))
            await asyncio.sleep(INTERVAL)

    def routes(self, access: AccessControl) -> Iterable[web.RouteDef]:
        """The routes. `access` decides who may read."""
        requests = _Requests(self, access)
        parent = "/api/v1/parents/{folder}"
        places = (f"{parent}/{{name}}", f"{parent}/{{namespace}}/{{name}}")
        return [
            web.get("/ui", _to_pages),
            web.get("/ui/assets/{file}", self._asset),
            web.get("/ui/{page:.*}", self._page),
            web.get("/api/v1/overview", requests.overview),
            *(web.get(f"{place}/edges", requests.edges) for place in places),
            *(web.get(f"{place}/manifest", requests.manifest) for place in places),
            *(web.get(place, requests.parent) for place in places),
        ]

    async def _page(self, request: web.Request) -> web.StreamResponse:
        return _asset_response(request, self._assets["index.html"])

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        asset = self._assets.get(request.match_info["file"])
        if asset is None:
            raise web.HTTPNotFound(text="there is no such file\n")
        return _asset_response(request, asset)

    def overview(self, wanted: Filter, visible: Collection[str], offset: int, limit: int) -> dict[str, Any]:
        """The overview as JSON."""
        self._rows.follow()
        found = make_overview(
            self.operator, self._rows, self._samples.figures(), wanted, visible, offset=offset, limit=limit
        )
        value: dict[str, Any] = msgspec.to_builtins(found)
        return value

    def overview_version(self) -> object:
        """What changes with each overview."""
        self._rows.follow()
        operator = self.operator
        leads = operator.leadership is not None and operator.leadership.leads
        return (
            self._rows.version,
            self._samples.version,
            id(operator.controllers.templates.loaded),
            tuple(operator.missing.items()),
            leads,
        )

    def folders(self) -> Mapping[str, Permission | None]:
        """The template folders, each with what a reader of its parents needs, None where the cluster serves none."""
        running = self.operator.folders
        return {
            name: read_permission(running[name].served.resource, "list") if name in running else None
            for name in self.operator.controllers.templates.folders
        }

    def find(self, request: web.Request) -> tuple[Parents, FoundObject]:
        """The parent of a request. Raises HTTPNotFound."""
        parents, live = parent_of(self.operator, request)
        return parents, FoundObject(resource=parents.served.resource, live=live)

    async def tree(self, request: web.Request, may: MayList) -> dict[str, Any]:
        """The tree of a request's parent, read once. Raises ApiError and CommandError."""
        parents, found = self.find(request)
        return await parent_tree(Lists(self._client), self.operator.mapper, parents, found, may, SYSTEM.now())

    async def trees(self, request: web.Request, may: MayList) -> Values:
        """The tree of a request's parent, again after each change. It ends when the parent is gone."""
        self._rows.follow()
        async with Watches(self._client) as watches:
            with self._rows.changes(self.find(request)[1].live.uid) as changed:
                while True:
                    changed.clear()
                    try:
                        parents, found = self.find(request)
                    except web.HTTPNotFound as error:
                        yield {"error": (error.text or "").strip(), "gone": True}
                        return
                    async with watches.round():
                        value = await parent_tree(watches, self.operator.mapper, parents, found, may, SYSTEM.now())
                    yield {**value, "notes": [*value["notes"], *watches.problems]}
                    await asyncio.sleep(PAUSE)
                    await _first(watches.change(), changed.wait())

    async def edges(self, request: web.Request) -> dict[str, Any]:
        """What the children of a request's parent wait for. Raises ApiError."""
        return await parent_edges(self._preview, *self.find(request))

    async def manifest(self, request: web.Request, child: str) -> dict[str, Any]:
        """The lines of a child. Raises ApiError, HTTPNotFound."""
        found = await manifest_of(self._preview, *self.find(request), child)
        if found is None:
            raise web.HTTPNotFound(text=f"{child} is no live child of this parent\n")
        return found

    async def permission_of_child(self, child: str) -> Permission:
        """What a reader of a child needs. Raises HTTPNotFound."""
        group, kind, namespace, name = _child_parts(child)
        try:
            resource = await self.operator.mapper.resource(GroupKind(group, kind))
        except UnknownKind as error:
            raise web.HTTPNotFound(text=f"{error}\n") from error
        return read_permission(resource, "get", namespace, name)


class _Requests:
    """Authorizes the requests for JSON, and answers them."""

    def __init__(self, view: WebView, access: AccessControl) -> None:
        self._view = view
        self._access = access

    async def overview(self, request: web.Request) -> web.StreamResponse:
        wanted, offset, limit = _page_of(request)
        visible: set[str] = set()

        async def review() -> None:
            """Find out which folders the reader may see."""
            may, needs = self._may(request), self._view.folders()
            allowed = {name for name, need in needs.items() if need is None or await may(need)}
            visible.clear()
            visible.update(allowed)

        await review()
        if "stream" in request.query:
            values = paced(
                lambda: self._view.overview(wanted, visible, offset, limit),
                lambda: (self._view.overview_version(), tuple(sorted(visible))),
            )
            return await self._view.streams.send(request, values, review)
        return _json(self._view.overview(wanted, visible, offset, limit))

    async def parent(self, request: web.Request) -> web.StreamResponse:
        await self._review(request)
        if "stream" in request.query:
            self._view.find(request)
            values = self._view.trees(request, self._may(request))
            return await self._view.streams.send(request, values, lambda: self._review(request))
        return _json(await _answered(self._view.tree(request, self._may(request))))

    async def edges(self, request: web.Request) -> web.StreamResponse:
        await self._review(request)
        return _json(await _answered(self._view.edges(request)))

    async def manifest(self, request: web.Request) -> web.StreamResponse:
        await self._review(request)
        child = request.query.get("child", "")
        await self._access.authorize_read(request, await self._view.permission_of_child(child))
        return _json(await _answered(self._view.manifest(request, child)))

    async def _review(self, request: web.Request) -> None:
        await self._access.authorize_parent(self._view.operator, request)

    def _may(self, request: web.Request) -> MayList:
        async def may(permission: Permission) -> bool:
            try:
                await self._access.authorize_read(request, permission)
            except (web.HTTPForbidden, web.HTTPUnauthorized):
                return False
            return True

        return may


async def _answered(work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        return await work
    except (ApiError, CommandError) as error:
        raise web.HTTPBadGateway(text=f"{error}\n") from error


async def _first(*works: Awaitable[object]) -> None:
    """Wait for the first of several things."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _child_parts(child: str) -> Sequence[str]:
    parts = child.split("/")
    if len(parts) != 4:
        raise web.HTTPBadRequest(text="child is GROUP/KIND/NAMESPACE/NAME\n")
    return parts


def _page_of(request: web.Request) -> tuple[Filter, int, int]:
    query = request.query
    wanted = Filter(
        folder=query.get("folder", ""),
        namespace=query.get("namespace", ""),
        group=query.get("group", ""),
        text=query.get("text", "")[:200],
        suspended="suspended" in query,
        conflict="conflict" in query,
    )
    return wanted, _number(query, "offset", 0, 10_000_000), _number(query, "limit", PAGE, MAX_PAGE)


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise web.HTTPBadRequest(text=f"{name} is {text[:40]!r}, and has to be a number\n")
    return min(int(text), most)


async def _to_pages(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("/ui/")


def _json(value: object) -> web.Response:
    headers = {**HEADERS, "Cache-Control": "no-store"}
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", headers=headers)


def _asset_response(request: web.Request, asset: Asset) -> web.Response:
    headers = {**HEADERS, "ETag": asset.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("If-None-Match") == asset.etag:
        return web.Response(status=304, headers=headers)
    zipped = "gzip" in request.headers.get("Accept-Encoding", "")
    if zipped:
        headers["Content-Encoding"] = "gzip"
    return web.Response(
        body=asset.compressed if zipped else asset.body,
        content_type=asset.content_type,
        charset="utf-8",
        headers=headers,
    )

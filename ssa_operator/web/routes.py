"""The routes of the web view: its pages below `/ui`, and below `/api/v1` the JSON that they are made of (`answers.py`).

Promises:
- Every route answers GET alone, except for login and logout. No request changes the operator or the cluster.
- Beyond this host, a reader needs the permissions of `operator/http.py`: the path, `list` or `get` of the parents that
  an answer shows, and `get` of a child whose manifest it shows. No answer has a Secret's content.
- The pages work below any path by which a proxy serves them, because their addresses are relative. They load nothing
  from elsewhere and run no inline script (Content-Security-Policy), and no page may frame them.
- The view asks the API server only while a page shows a parent or a rollout.
- At most MAX_WORKS requests that ask the API server are answered at once, and MAX_WAITING wait. Others are refused in
  words, so that many readers hold up nothing but each other.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
from aiohttp import web
from msgspec import Struct

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api.client import DryRunClient
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import Permission
from ssa_operator.operator.http import AccessControl, parent_of, read_permission
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.preview import Preview
from ssa_operator.operator.process.option_values import check_selector
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.operator.rollouts.folder_rollout import FolderRollout
from ssa_operator.operator.rollouts.requests import RevisionStore
from ssa_operator.operator.rollouts.revisions import StoredRevision
from ssa_operator.operator.rollouts.rules import State
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.tree.listings import Lists, Watches
from ssa_operator.web.answers import OPERATIONS
from ssa_operator.web.event_stream import PAUSE, EventStreams, Values, paced, pause_after
from ssa_operator.web.folder_page import FolderGraph, folder_graph, make_folder_page, sample_parent, template_files
from ssa_operator.web.login import LOGOUT, OPEN_PATHS, Login, refused, root_of, token_of
from ssa_operator.web.login import PAGE as LOGIN
from ssa_operator.web.object_page import (
    CORE_EVENTS,
    changes_now,
    details_of_child,
    details_of_parent,
    manifest_of,
    rendered_file,
)
from ssa_operator.web.overview import (
    INTERVAL,
    MAX_PAGE,
    PAGE,
    ApiContact,
    FigureSamples,
    SharedOverviews,
    loaded_at,
    make_overview,
)
from ssa_operator.web.parent_page import MayGet, MayList, parent_edges, parent_tree, portions
from ssa_operator.web.parent_rows import GROUPS, Filter, ParentRows
from ssa_operator.web.rollout_page import RolloutFile, changed_files, make_rollout_page, revision_before
from ssa_operator.web.timelines import TimelineRecording, Timelines, entry_data

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

ROOT = b"{{root}}"
"""Stands in the page for the relative address of `/ui/`."""

MAX_WORKS = 8
"""Requests that ask the API server at once."""

MAX_WAITING = 64
"""Requests that wait for one of them to end."""

MAX_DRY_RUNS = 2
"""Parents that are dry-run at once for all pages; each takes a request a child."""

HISTORY_INTERVAL = 10.0
"""Seconds after which the revisions of a folder are read again while a page shows its rollout."""

SETTLE = 0.1
"""Seconds after a change until the page of a parent is made: what follows from the change goes first."""

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
            found[file.name] = _asset(file.read_bytes(), _TYPES[file.suffix])
    return found


def _asset(body: bytes, content_type: str) -> Asset:
    return Asset(
        body=body,
        compressed=gzip.compress(body, mtime=0),
        content_type=content_type,
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    )


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Reader(NamedTuple):
    """What the reader of a page may see."""

    may: MayList
    may_get: MayGet


class WebView:
    """The web view of a running operator, as an async context manager."""

    open_paths = OPEN_PATHS

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.timelines = Timelines(SYSTEM.now)
        self._rows = ParentRows(operator.folders)
        self._recording = TimelineRecording(operator, self.timelines, self._rows.follow)
        self._rows.on_change = self._recording.parent_changed
        self._samples = FigureSamples()
        self._overviews = SharedOverviews()
        self._contact = ApiContact(operator, SYSTEM.now)
        self.streams = EventStreams()
        self._graphs: dict[str, tuple[object, FolderGraph]] = {}
        self._histories: dict[str, tuple[State, float, tuple[list[StoredRevision], tuple[str, ...]]]] = {}
        self._differences: dict[str, tuple[object, Mapping[str, RolloutFile]]] = {}
        self._assets = read_assets()
        client = operator.client
        self._client = DryRunClient(client.credentials)
        self._preview = Preview(self._client, operator.shared)
        self._dry_runs = asyncio.Semaphore(MAX_DRY_RUNS)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        self._rows.follow()
        self._recording.start()
        self._sampling = asyncio.create_task(self._sample(), name="sample the figures of the web view")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._recording.stop()
        self._sampling.cancel()
        await asyncio.gather(self._sampling, return_exceptions=True)
        await self._client.__aexit__(None, None, None)

    async def _sample(self) -> None:
        while True:
            self._samples.take(self.operator.metrics, len(self.operator.queue))
            self._rows.follow()
            self._contact.look()
            await asyncio.sleep(INTERVAL)

    def routes(self, access: AccessControl) -> Iterable[web.RouteDef]:
        """The routes. `access` decides who may read."""
        requests, login = _Requests(self, access), Login(self._assets["login.html"].body.decode(), access)
        return [
            web.get("/ui", _to_pages),
            web.get("/ui/assets/{file}", self._asset),
            web.get(LOGIN, login.page),
            web.post(LOGIN, login.login),
            web.post(LOGOUT, login.logout),
            web.get("/ui/{page:.*}", self._page),
            # A path that ends in a word comes before one that ends in any name.
            *(web.get(path, requests.handler(path)) for path in sorted(OPERATIONS, key=lambda path: path[-1] == "}")),
        ]

    def token(self, request: web.Request) -> str:
        """The token in the cookie of a request."""
        return token_of(request)

    def refused(self, request: web.Request, error: web.HTTPUnauthorized) -> web.StreamResponse:
        """The way to the login page, for a browser."""
        return refused(request, error)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        index = self._assets["index.html"]
        return _asset_response(request, _asset(index.body.replace(ROOT, root_of(request).encode()), index.content_type))

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        asset = self._assets.get(request.match_info["file"])
        if asset is None:
            raise web.HTTPNotFound(text="there is no such file\n")
        return _asset_response(request, asset)

    def overview(self, wanted: Filter, visible: Collection[str], offset: int, limit: int) -> dict[str, Any]:
        """The overview as JSON."""
        self._rows.follow()
        figures, away = self._samples.figures(), self._contact.look()
        found = make_overview(
            self.operator, self._rows, figures, wanted, visible, offset=offset, limit=limit, away=away
        )
        value: dict[str, Any] = msgspec.to_builtins(found)
        return value

    async def shared_overview(
        self, wanted: Filter, visible: Collection[str], offset: int, limit: int
    ) -> dict[str, Any]:
        """The same for open pages: those that show the same share it."""
        question = (wanted, frozenset(visible), offset, limit)
        return self._overviews.of(question, lambda: self.overview(wanted, visible, offset, limit))

    def overview_version(self) -> object:
        """What changes with each overview, for open pages."""
        self._rows.follow()
        operator = self.operator
        leader = operator.leadership is not None and (operator.leadership.leads, operator.leadership.leader)
        current = (
            self._rows.version,
            self._samples.version,
            id(operator.controllers.templates.folders),
            tuple(operator.missing.items()),
            leader,
            self._contact.look(),
            tuple(found and found.state for found in map(self._rollout, operator.controllers.templates.folders)),
        )
        return self._overviews.version(current)

    def folders(self) -> Mapping[str, Permission | None]:
        """The template folders, each with what a reader of its parents needs, None where the cluster serves none."""
        running = self.operator.folders
        return {
            name: read_permission(running[name].served.resource, "list") if name in running else None
            for name in self.operator.controllers.templates.folders
        }

    async def folder_page(self, name: str) -> dict[str, Any]:
        """The page of a template folder. Raises HTTPNotFound and ApiError."""
        folder, parents = self._folder(name), self.operator.folders.get(name)
        waits = self.operator.missing.get(name, "")
        loaded = loaded_at(self.operator, name)
        page = make_folder_page(folder, parents, waits, await self._graph(folder, parents), loaded)
        value: dict[str, Any] = msgspec.to_builtins(page)
        return value

    def folder_version(self, name: str) -> object:
        """What changes with each load of a folder."""
        loaded = self.operator.controllers.templates.folders.get(name), self.operator.folders.get(name)
        return loaded_at(self.operator, name), *map(id, loaded)

    def _rollout(self, name: str) -> FolderRollout | None:
        return None if self.operator.rollouts is None else self.operator.rollouts.find(name)

    async def rollout_page(self, name: str) -> dict[str, Any]:
        """The page of a folder's rollout. Raises HTTPNotFound."""
        name = self._folder(name).name
        rollout = self._rollout(name)
        self._rows.follow()
        members = [] if rollout is None else await rollout.shown_members()
        history: list[StoredRevision] = []
        notes: tuple[str, ...] = ()
        files: Mapping[str, RolloutFile] = {}
        if rollout is not None and (state := rollout.state) is not None:
            history, notes = await self._history(rollout.process.store, name, state)
            files = self._difference(rollout, revision_before(state), state.target)
        page = make_rollout_page(name, rollout, members, self._rows, files, history, notes)
        value: dict[str, Any] = msgspec.to_builtins(page)
        return value

    def rollout_version(self, name: str) -> object:
        """What changes with each change of a rollout or of a parent, and after HISTORY_INTERVAL."""
        rollout, now = self._rollout(name), asyncio.get_running_loop().time()
        return rollout and rollout.version, self._rows.version, now // HISTORY_INTERVAL

    async def _history(
        self, store: RevisionStore, name: str, state: State
    ) -> tuple[list[StoredRevision], tuple[str, ...]]:
        """The history of a folder, read after each change of the state, and after HISTORY_INTERVAL: what became of a
        revision is written after the state. Pages share it.
        """
        now, known = asyncio.get_running_loop().time(), self._histories.get(name)
        if known is None or known[0] != state or now - known[1] >= HISTORY_INTERVAL:
            try:
                found: tuple[list[StoredRevision], tuple[str, ...]] = await store.history(name), ()
            except (ApiError, CredentialsError) as error:
                found = (known[2][0] if known is not None else []), (f"the history can't be read: {error}",)
            known = self._histories[name] = (state, now, found)
        return known[2]

    def _difference(self, rollout: FolderRollout, before: str, after: str) -> Mapping[str, RolloutFile]:
        """What the sets of a rollout differ in, found once for each two of them."""
        sets = (rollout.compiled.get(before), rollout.compiled.get(after))
        old, new = (None if each is None else each.inputs for each in sets)
        if old is None or new is None:
            return {}
        key, known = (before, after), self._differences.get(rollout.name)
        if known is None or known[0] != key:
            known = self._differences[rollout.name] = (key, changed_files(old, new))
        return known[1]

    def _folder(self, name: str) -> Folder:
        folder = self.operator.controllers.templates.folders.get(name)
        if folder is None:
            raise web.HTTPNotFound(text=f"{name}: there is no such template folder\n")
        return folder

    async def _graph(self, folder: Folder, parents: Parents | None) -> FolderGraph:
        """The graph of a folder, drawn once for each change of it."""
        if parents is None or folder.templates is None:
            return FolderGraph()
        key = (folder.digest, parents.served)
        known = self._graphs.get(folder.name)
        if known is None or known[0] != key:
            resources = await self.operator.mapper.resources()
            scoped = {resource.group_kind for resource in resources if not resource.namespaced}
            sample = sample_parent(parents)
            graph = await self.operator.shared.cluster.turns.in_thread(lambda: folder_graph(folder, sample, scoped))
            known = self._graphs[folder.name] = (key, graph)
        return known[1]

    def find(self, request: web.Request) -> tuple[Parents, FoundObject]:
        """The parent of a request. Raises HTTPNotFound."""
        parents, live = parent_of(self.operator, request)
        return parents, FoundObject(resource=parents.served.resource, live=live)

    async def tree(self, request: web.Request, reader: Reader) -> dict[str, Any]:
        """The tree of a request's parent, read once. Raises ApiError and CommandError."""
        parents, found = self.find(request)
        value = await parent_tree(Lists(self._client), self.operator.mapper, parents, found, reader.may, SYSTEM.now())
        return {**value, "timeline": await self.timeline(_key_of_parent(parents, found), reader)}

    async def trees(self, request: web.Request, reader: Reader) -> Values:
        """The tree of a request's parent, again after each change. It ends when the parent is gone."""
        self._rows.follow()
        parents, found = self.find(request)
        key = _key_of_parent(parents, found)
        async with Watches(self._client) as watches:
            with self._rows.changes(found.live.uid) as changed, self.timelines.changes(key) as happened:
                tree: dict[str, Any] | None = None
                loop, pause, begun = asyncio.get_running_loop(), PAUSE, False
                while True:
                    happened.clear()
                    if tree is None:
                        started = loop.time()
                        changed.clear()
                        try:
                            parents, found = self.find(request)
                        except web.HTTPNotFound as error:
                            yield {"error": (error.text or "").strip(), "gone": True}
                            return
                        async with watches.round():
                            now, mapper = SYSTEM.now(), self.operator.mapper
                            tree = await parent_tree(watches, mapper, parents, found, reader.may, now)
                        tree["notes"] = [*tree["notes"], *watches.problems]
                        pause = pause_after(loop.time() - started) if begun else PAUSE  # a first one begins watches
                    timeline = await self.timeline(key, reader)
                    for shown in [tree] if begun else portions(tree):
                        yield {**shown, "timeline": timeline}
                        await asyncio.sleep(pause)
                    begun = True
                    # What happened without a change of an object needs no new tree.
                    if await _first(happened.wait(), watches.change(), changed.wait()) != {0}:
                        tree = None
                        await asyncio.sleep(SETTLE)

    async def timeline(self, key: ParentKey, reader: Reader) -> dict[str, Any]:
        """What happened to a parent, by id."""
        entries = self.timelines.of(key)
        children = {each.child for each in entries if each.child is not None and each.fields}
        readable = {child for child in children if await reader.may_get(child)}
        return {str(each.id): entry_data(each, readable) for each in entries}

    async def details(self, request: web.Request, reader: Reader) -> dict[str, Any]:
        """The conditions, Events and readiness of a request's parent, or of an object below it. Raises ApiError and
        HTTPNotFound.
        """
        parents, found = self.find(request)
        child, mapper = request.query.get("child", ""), self.operator.mapper
        namespace = _child_parts(child)[2] if child else found.live.identity.namespace
        events = await reader.may(read_permission(CORE_EVENTS, "list", namespace or "default"))
        if not child:
            return await details_of_parent(self._client, found, events=events)
        identity = Identity(*_child_parts(child))
        details = await details_of_child(
            self._preview, self._client, mapper, parents, found, identity, SYSTEM.now(), events=events
        )
        if details is None:
            raise web.HTTPNotFound(text=f"{child} is no live object below this parent\n")
        return details

    async def edges(self, request: web.Request, reader: Reader) -> dict[str, Any]:
        """What the children of a request's parent wait for. Raises ApiError."""
        mapper = self.operator.mapper
        return await parent_edges(
            self._preview, self._client, mapper, *self.find(request), reader.may_get, SYSTEM.now()
        )

    async def manifest(self, request: web.Request, _: Reader) -> dict[str, Any]:
        """The lines of a child, or of a looked-up object. Raises ApiError, HTTPNotFound."""
        child, mapper = request.query.get("child", ""), self.operator.mapper
        identity = Identity(*_child_parts(child))
        found = await manifest_of(self._preview, self._client, mapper, *self.find(request), identity)
        if found is None:
            raise web.HTTPNotFound(text=f"{child} is no live child of this parent, and no template looks it up\n")
        return found

    async def rendered(self, request: web.Request, reader: Reader) -> dict[str, Any]:
        """What a template file renders for a request's parent. Raises ApiError and HTTPNotFound."""
        (parents, found), file = self.find(request), request.query.get("file", "")
        folder = self._folder(parents.folder.name)
        if not any(file in texts for texts in template_files(folder)):
            raise web.HTTPNotFound(text=f"file is {file[:80]!r}, and has to be FOLDER/FILE of a template file\n")
        return await rendered_file(self._preview, folder, parents, found, file, reader.may_get)

    async def would_change(self, request: web.Request, reader: Reader) -> dict[str, Any]:
        """What an apply of a request's parent, or of one child, would change now. Raises ApiError."""
        async with self._dry_runs:
            child = request.query.get("child", "")
            return await changes_now(self._preview, *self.find(request), child, reader.may_get)

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
        self._works = _Works()
        self._handlers: Mapping[str, Handler] = {
            "reader": self.reader,
            "overview": self.overview,
            "folder": self.folder,
            "rollout": self.rollout,
            "name": self.parent,
            "edges": self._of_parent(view.edges),
            "manifest": self._of_parent(view.manifest, of_child=True),
            "details": self._of_parent(view.details, of_child=True),
            "rendered": self._of_parent(view.rendered),
            "would-change": self._of_parent(view.would_change, of_child=True),
        }

    def handler(self, path: str) -> Handler:
        """What answers the requests of a path of OPERATIONS, by the last part of the path."""
        return self._handlers[path.rpartition("/")[2].strip("{}")]

    async def reader(self, request: web.Request) -> web.StreamResponse:
        account = await self._access.reader(request)
        cluster = self._view.operator.client.credentials.config.context
        return _json({"user": "" if account is None else account.user, "cluster": cluster})

    async def overview(self, request: web.Request) -> web.StreamResponse:
        wanted, offset, limit = _page_of(request)
        visible: set[str] = set()

        async def review() -> None:
            """Find out which folders the reader may see."""
            await self._access.authorize(request)  # again, while a stream is open
            may, needs = self._may(request), self._view.folders()
            allowed = {name for name, need in needs.items() if need is None or await may(need)}
            visible.clear()
            visible.update(allowed)

        await review()
        if "stream" in request.query:
            values = paced(
                lambda: self._view.shared_overview(wanted, visible, offset, limit),
                lambda: (self._view.overview_version(), tuple(sorted(visible))),
            )
            return await self._view.streams.send(request, values, review, await self._name(request))
        return _json(self._view.overview(wanted, visible, offset, limit))

    async def folder(self, request: web.Request) -> web.StreamResponse:
        return await self._of_folder(request, self._view.folder_page, self._view.folder_version)

    async def rollout(self, request: web.Request) -> web.StreamResponse:
        if (folder := request.match_info["folder"]) not in self._view.folders():
            await self._access.authorize(request)
            raise web.HTTPNotFound(text=f"there is no template folder {folder}\n")
        return await self._of_folder(request, self._view.rollout_page, self._view.rollout_version)

    async def _of_folder(
        self,
        request: web.Request,
        page: Callable[[str], Awaitable[dict[str, Any]]],
        version: Callable[[str], object],
    ) -> web.StreamResponse:
        """Answer with the page of a folder, again after each change of its version."""
        name = request.match_info["folder"]

        async def review() -> None:
            await self._access.authorize(request)
            need = self._view.folders().get(name)
            if need is not None:
                await self._access.authorize_read(request, need)

        return await self._send(
            request, review, lambda: page(name), lambda: paced(lambda: page(name), lambda: version(name))
        )

    async def parent(self, request: web.Request) -> web.StreamResponse:
        def trees() -> Values:
            self._view.find(request)
            return self._view.trees(request, self._reader(request))

        return await self._send(
            request,
            lambda: self._review(request),
            lambda: self._view.tree(request, self._reader(request)),
            trees,
        )

    async def _send(
        self,
        request: web.Request,
        review: Callable[[], Awaitable[None]],
        once: Callable[[], Awaitable[dict[str, Any]]],
        values: Callable[[], Values],
    ) -> web.StreamResponse:
        """The value, or with `stream` the values. `review` raises an HTTP error for who may not read them."""
        await review()
        if "stream" in request.query:
            return await self._view.streams.send(request, values(), review, await self._name(request))
        return _json(await self._works.do(once))

    def _of_parent(
        self, answer: Callable[[web.Request, Reader], Awaitable[dict[str, Any]]], *, of_child: bool = False
    ) -> Handler:
        """What answers with something of a parent, and `of_child` with something of the child in `child`."""

        async def handle(request: web.Request) -> web.StreamResponse:
            await self._review(request)
            if of_child and (child := request.query.get("child", "")):
                await self._access.authorize_read(request, await self._view.permission_of_child(child))
            return _json(await self._works.do(lambda: answer(request, self._reader(request))))

        return handle

    def _reader(self, request: web.Request) -> Reader:
        return Reader(self._may(request), self._may_get(request))

    def _may_get(self, request: web.Request) -> MayGet:
        may = self._may(request)

        async def may_get(identity: Identity) -> bool:
            try:
                resource = await self._view.operator.mapper.resource(identity.group_kind)
            except UnknownKind:
                return True  # it does not exist
            return await may(read_permission(resource, "get", identity.namespace, identity.name))

        return may_get

    async def _review(self, request: web.Request) -> None:
        await self._access.authorize(request)
        await self._access.authorize_parent(self._view.operator, request)

    async def _name(self, request: web.Request) -> str:
        """What the open pages of a reader are counted by: the account, or the address if this host needs none."""
        account = await self._access.reader(request)
        return request.remote or "" if account is None else account.user

    def _may(self, request: web.Request) -> MayList:
        async def may(permission: Permission) -> bool:
            try:
                await self._access.authorize_read(request, permission)
            except (web.HTTPForbidden, web.HTTPUnauthorized):
                return False
            return True

        return may


class _Works:
    """Bounds the requests that ask the API server."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MAX_WORKS)
        self._waiting = 0

    async def do(self, work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """The value of a piece of work. Raises HTTPServiceUnavailable and HTTPBadGateway."""
        if self._waiting >= MAX_WAITING:
            raise web.HTTPServiceUnavailable(text="too many readers wait for an answer; try again in a moment\n")
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            return await work()
        except (ApiError, CommandError) as error:
            raise web.HTTPBadGateway(text=f"{error}\n") from error
        finally:
            self._slots.release()


async def _first(*works: Awaitable[object]) -> set[int]:
    """Wait for the first of several things. Returns the positions of those that are done."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return {position for position, task in enumerate(tasks) if task in done}
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key_of_parent(parents: Parents, found: FoundObject) -> ParentKey:
    identity = found.live.identity
    return ParentKey(parents.folder.name, identity.namespace, identity.name)


def _child_parts(child: str) -> Sequence[str]:
    parts = child.split("/")
    if len(parts) != 4:
        raise web.HTTPBadRequest(text="child is GROUP/KIND/NAMESPACE/NAME\n")
    return parts


def _page_of(request: web.Request) -> tuple[Filter, int, int]:
    query = request.query
    if query.get("group", "") not in GROUPS:
        raise web.HTTPBadRequest(
            text=f"group is {query['group'][:40]!r}, and has to be one of {', '.join(GROUPS[1:])}\n"
        )
    wanted = Filter(
        folder=query.get("folder", ""),
        namespace=query.get("namespace", ""),
        group=query.get("group", ""),
        selector=_selector(query.get("labels", "")),
        text=query.get("text", "")[:200],
        suspended="suspended" in query,
        conflict="conflict" in query,
    )
    return wanted, _number(query, "offset", 0, 10_000_000), _number(query, "limit", PAGE, MAX_PAGE)


def _selector(text: str) -> str:
    try:
        check_selector(text[:200], "labels")
    except CommandError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error
    return text[:200]


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise web.HTTPBadRequest(text=f"{name} is {text[:40]!r}, and has to be a number\n")
    return min(int(text), most)


async def _to_pages(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(root_of(request))


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

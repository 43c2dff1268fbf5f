"""What a real API server says of manifests: `--api-server auto` of `ssa-operator check` and `lsp`.

Promises:
- A local cluster that runs is asked, and nothing in it changes: each request is a dry run, in a namespace without
  objects of users. If it lacks the project's CRDs, or has others, a server of the command's own is asked.
- The own server ends with the command, and leaves nothing behind. Nothing is downloaded or built for it.
- A refusal that follows from what the cluster has, and not from the manifest, is none.
- If a manifest was not asked for, `note` says why, and names the command that helps.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import threading
from collections.abc import Coroutine, Iterable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.secret_fields import NO_SECRET_FIELDS, VALUES
from ssa_operator.tools.checks.refusal_rules import AskedManifest, Refusal
from ssa_operator.tools.command_target import NAME, running_clusters
from ssa_operator.tools.findings import shows_values

if TYPE_CHECKING:
    from ssa_operator.devcluster.scratch_server import ScratchServer
    from ssa_operator.kube.api.client import Client
    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.kube.api.errors import ApiError

NAMESPACE = "kube-public"
"""Each API server creates it, and no user has objects in it. Validation does not depend on the namespace."""

T = TypeVar("T")

_REQUESTS = 16
"""Requests that are sent in parallel."""
_START = "ssa-operator cluster start"


class _NotAskedError(Exception):
    """Why no API server is asked; the text follows a colon."""


class APIServer:
    """The API server of one command. `version` is the one of Kubernetes whose rules count, as in 1.36."""

    def __init__(self, version: str) -> None:
        self.note = ""
        """What is not checked, and the command that helps; '' if everything is."""
        self._version = version
        self._own: ScratchServer | None = None
        self._running: Path | None = None
        """The kubeconfig of a local cluster."""

    def begin(self) -> None:
        """Find the local cluster that runs, or start a server without waiting for it."""
        self._run(self._find())

    def refusals(self, manifests: Sequence[AskedManifest], crds: Iterable[Document]) -> list[Refusal]:
        """The manifests that the API server refuses. `crds` are the project's."""
        if self._own is None and self._running is None:
            return []
        return self._run(self._refusals(manifests, crds)) or []

    def close(self) -> None:
        """End the own server."""
        if self._own is not None:
            asyncio.run(self._own.stop())

    def _run(self, work: Coroutine[None, None, T]) -> T | None:
        """The result of work; None if no server can be asked, which is noted: the other findings are right without."""
        from ssa_operator.kube.api.errors import ApiError
        from ssa_operator.kube.auth.credentials import CredentialsError

        errors: tuple[type[Exception], ...] = (_NotAskedError, ApiError, CredentialsError)
        with contextlib.suppress(ModuleNotFoundError):
            from ssa_operator.devcluster.cluster import ClusterError
            from ssa_operator.devcluster.processes import ProcessError

            errors = (*errors, ClusterError, ProcessError)
        try:
            return asyncio.run(work)
        except errors as error:
            self.note = f"The API server's own rules were not checked: {error}"
            return None

    async def _find(self) -> None:
        if self._version != KUBERNETES_VERSION:
            raise _NotAskedError(f"the local API server has those of {KUBERNETES_VERSION}, not of {self._version}")
        self._running = _running_cluster()
        if self._running is None:
            await self._begin()

    async def _begin(self) -> None:
        try:
            from ssa_operator.devcluster import binaries, scratch_server
            from ssa_operator.devcluster.components import STORAGE
        except ModuleNotFoundError as error:
            raise _NotAskedError(
                f"there is none here; `pip install 'ssa-operator[dev]' && {_START}` gets one"
            ) from error
        programs = binaries.available(binaries.from_environment(), STORAGE)
        if programs is None:
            raise _NotAskedError(f"there is none here; `{_START}` gets one")
        try:
            self._own = await scratch_server.begin(programs)
        except OSError as error:
            raise _NotAskedError(f"none can be started: {error}") from error

    async def _refusals(self, manifests: Sequence[AskedManifest], crds: Iterable[Document]) -> list[Refusal]:
        from ssa_operator.kube.api.client import Client, DryRunClient
        from ssa_operator.kube.api.errors import Unreachable
        from ssa_operator.kube.api.openapi import read_version
        from ssa_operator.kube.auth import credentials

        kinds = {_kind_of(each): each for each in crds}
        used = [kinds[kind] for kind in {group_kind(each.document): None for each in manifests} if kind in kinds]
        if self._own is None:
            with contextlib.suppress(Unreachable):
                async with DryRunClient(await credentials.load(str(self._running))) as client:
                    if await read_version(client) == self._version and await _has(client, used):
                        return await ask(client, manifests)
            await self._begin()
        assert self._own is not None
        async with Client(await credentials.load(str(await self._own.kubeconfig()))) as client:
            if (version := await read_version(client)) != self._version:
                raise _NotAskedError(f"KUBEBUILDER_ASSETS has a server of {version}, not of {self._version}")
            await _install(client, used)
            return await ask(client, manifests)


class WarmAPIServer(APIServer):
    """An API server that stays while an editor edits. Until it serves, it is not asked. Threads may use it."""

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self.serves = False
        self._asking = threading.Lock()

    def begin(self) -> None:
        """Find the local cluster that runs, or start a server, and wait until it serves."""
        super().begin()
        super().refusals((), ())
        self.serves = not self.note

    def refusals(self, manifests: Sequence[AskedManifest], crds: Iterable[Document]) -> list[Refusal]:
        if not self.serves:
            return []
        with self._asking:
            self.note = ""
            return super().refusals(manifests, crds)


def _running_cluster() -> Path | None:
    """The kubeconfig of a local cluster, of that of SSA_OPERATOR_NAME if it runs."""
    running = {path.parent.name: path for path in running_clusters()}
    return running.get(os.environ.get(NAME) or "default") or next(iter(running.values()), None)


def _kind_of(crd: Document) -> GroupKind:
    return GroupKind(crd.body["spec"]["group"], crd.body["spec"]["names"]["kind"])


def _alone(crd: Document) -> dict[str, Any]:
    """A CRD whose objects no webhook converts."""
    return {**crd.body, "spec": {key: each for key, each in crd.body["spec"].items() if key != "conversion"}}


async def _has(client: Client, crds: Iterable[Document]) -> bool:
    """Whether the cluster has the same CRDs, so that an apply would change none of them."""
    from ssa_operator.informers.crds import RESOURCE
    from ssa_operator.kube.api.errors import ApiError
    from ssa_operator.kube.api.request import ApplyOptions

    for crd in crds:
        name = crd.identity.name
        live = await client.find(RESOURCE, name)
        try:
            applied = await client.apply(RESOURCE, "", name, encode(_alone(crd)), ApplyOptions(dry_run=True))
        except ApiError:
            return False
        if live is None or applied.live.body["spec"] != live.body["spec"]:
            return False
    return True


async def _install(client: Client, crds: Iterable[Document]) -> None:
    """Install CRDs in the own server. One that is refused has a finding of its own."""
    from ssa_operator.operator.crd_installation import refusals

    await refusals(client, [dataclasses.replace(each, body=_alone(each)) for each in crds])


async def ask(client: Client, manifests: Sequence[AskedManifest]) -> list[Refusal]:
    """The manifests that an API server refuses. Raises ApiError."""
    from ssa_operator.kube.api.discovery import RESTMapper

    mapper, slots = RESTMapper(client), asyncio.Semaphore(_REQUESTS)

    async def one(manifest: AskedManifest) -> ApiError | None:
        async with slots:
            return await _refusal(client, mapper, manifest)

    alike = {encode(each.body): each for each in manifests}
    errors = dict(zip(alike, await asyncio.gather(*map(one, alike.values())), strict=True))
    found = ((each, errors[encode(each.body)]) for each in manifests)
    return [Refusal(manifest=manifest, error=error) for manifest, error in found if error is not None]


async def _refusal(client: Client, mapper: RESTMapper, manifest: AskedManifest) -> ApiError | None:
    """The refusal of a manifest, None if it is accepted, or if no server says anything of its kind. Raises ApiError."""
    from ssa_operator.kube.api.discovery import UnknownKind
    from ssa_operator.kube.api.errors import ApiError, Unreachable
    from ssa_operator.kube.api.openapi import read_version
    from ssa_operator.kube.api.request import ApplyOptions

    document = manifest.document
    try:
        resource = await mapper.resource(group_kind(document), split_api_version(document.body["apiVersion"])[1])
    except UnknownKind:
        return None
    namespace = NAMESPACE if resource.namespaced else ""
    metadata = {key: each for key, each in manifest.body["metadata"].items() if key != "namespace"}
    body = encode({**manifest.body, "metadata": metadata})
    secret = NO_SECRET_FIELDS if shows_values(document) else VALUES
    try:
        await client.apply(resource, namespace, metadata["name"], body, ApplyOptions(dry_run=True, secret=secret))
    except Unreachable as error:
        # It ends the connection if it fails on a manifest (a Job with a successPolicy and no completions, 1.36.3).
        await read_version(client)
        return error
    except ApiError as error:
        if error.denied_by_policy or (error.conflict or error.already_exists):
            return None
        if not (error.terminal or error.denied or error.code == HTTPStatus.INTERNAL_SERVER_ERROR):
            raise
        causes = [each for each in error.words.causes if not _OF_CLUSTER.search(each.message)]
        if not causes and (error.words.causes or _OF_CLUSTER.search(error.words.message)):
            return None
        return error
    return None


_OF_CLUSTER = re.compile(
    r"is forbidden: (?:error looking up service account|no PriorityClass|unable to find|exceeded quota|pod rejected)"
    r"|field is immutable|may not change once set|cannot change roleRef"
    r"|updates to [a-z]{1,60} spec for fields other than|is immutable after|already allocated|is not in the valid range"
)
"""What the API server says of other objects, of the object as it is in the cluster, and of the cluster's addresses."""

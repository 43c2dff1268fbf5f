"""Applies the CRDs and examples of a project to the cluster of `dev`, again whenever their files change.

Promises:
- A saved CRD or example is applied. An unchanged one is not, so that a change in the cluster stays. After a change of a
  CRD, all examples are applied, because the API server may have pruned fields of them.
- A file that can't be read, and an object that is refused, keep no other one from being applied. `problems` names them
  as long as they last.
- What was refused is applied again, with growing pauses, and at once when a file changes.
- An object whose file is deleted stays in the cluster.
- Examples have the annotation of `kubectl apply`, so that the user can go on with kubectl.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.kube.api import request
from ssa_operator.kube.api.backoff import BACKOFF_CAP, backoff
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.crd_installation import CRDInstaller
from ssa_operator.rendering.folder.contained_files import yaml_files
from ssa_operator.rendering.folder.folder_snapshot import files_state
from ssa_operator.rendering.folder.hot_reload import changes
from ssa_operator.rendering.folder.object_files import SUFFIXES, DefinitionError, FileError, load_objects

AS_DEV = "ssa-operator-dev"
"""The field manager of changes by the keys and examples of `dev`."""

SCHEMA_DELAY = 0.5
"""Seconds after which the API server takes objects by a CRD's new schema. Earlier, it refuses to apply a new field."""

_OPTIONS = request.ApplyOptions(manager=AS_DEV)

log = logging.getLogger("ssa_operator")


class ProjectProblem(Struct, frozen=True):
    """Why a file or an object of the project is not applied."""

    text: str
    """The reason, with the file and line."""

    lasting: bool
    """Whether only a change by the user helps."""


class ProjectFiles:
    """The files beside the templates. `examples` are those that can be read, `problems` why others are not applied."""

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        installer: CRDInstaller,
        crds: Sequence[Path],
        examples: Sequence[Path],
    ) -> None:
        self.examples: Sequence[Document] = ()
        self.problems: Sequence[ProjectProblem] = ()
        self._client = client
        self._mapper = mapper
        self._installer = installer
        self._paths = tuple(dict.fromkeys((*crds, *examples)))
        self._examples = tuple(examples)
        self._applied: Mapping[tuple[str, ...], bytes] = {}
        """The examples in the cluster, by file, kind and name."""
        self._known = files_state(self._folders, self._files)
        self._changed = asyncio.Event()

    @property
    def _folders(self) -> list[Path]:
        # A path that doesn't exist may become a folder.
        return [path for path in self._paths if not path.is_file()]

    @property
    def _files(self) -> list[Path]:
        return [path for path in self._paths if path.is_file()]

    async def apply_examples(self) -> None:
        """Apply the examples that are not applied yet, or have changed since."""
        self.examples, problems = read_examples(self._examples)
        applied: dict[tuple[str, ...], bytes] = {}
        for document in self.examples:
            metadata, encoded = document.body["metadata"], encode(document.body)
            names = (str(group_kind(document)), str(metadata.get("namespace", "")), str(metadata["name"]))
            key = (document.location.file, *names)
            if self._applied.get(key) == encoded:
                applied[key] = encoded
                continue
            try:
                await self._apply(document)
            except (ApiError, CredentialsError, UnknownKind) as error:
                lasting = isinstance(error, ApiError) and error.terminal
                problems.append(ProjectProblem(f"{document.location}: {error}", lasting))
            else:
                applied[key] = encoded
                log.info("%s: %s %s is applied", document.location, names[0], names[2])
        for problem in problems:
            if problem not in self.problems:
                log.error("%s", problem.text)
        self._applied, self.problems = applied, tuple(problems)

    async def follow(self) -> None:
        """Apply what changes, until cancelled."""
        watching = asyncio.create_task(self._watch(), name="watch the project's files")
        failures = 0
        try:
            while True:
                failures = failures + 1 if self.problems else 0
                pause = min(backoff(failures, random.random()), BACKOFF_CAP / 16) if failures else None  # noqa: S311
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
                        failures = 0
                if self._changed.is_set():
                    self._changed.clear()
                    await self._update_crds()
                await self.apply_examples()
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        async for _ in changes(self._folders, self._files, known=self._known):
            self._changed.set()

    async def _update_crds(self) -> None:
        before = self._installer.applied
        try:
            await self._installer.install(changed=True)
        except (ApiError, CredentialsError, DefinitionError) as error:
            log.warning("the CRDs can't be applied: %s", error)
        if self._installer.applied != before:
            await asyncio.sleep(SCHEMA_DELAY)
            # The API server may have pruned fields that the CRD declares now.
            self._applied = {}

    async def _apply(self, document: Document) -> None:
        """Apply an example. Raises ApiError, CredentialsError and UnknownKind."""
        metadata = document.body["metadata"]
        version = split_api_version(document.body["apiVersion"])[1]
        resource = await self._mapper.resource(group_kind(document), version)
        namespace = metadata.get("namespace") or ("default" if resource.namespaced else "")
        body = encode(_as_kubectl(document.body, namespace))
        await self._client.send(request.apply(resource, namespace, metadata["name"], body, _OPTIONS))


def read_examples(paths: Sequence[Path]) -> tuple[list[Document], list[ProjectProblem]]:
    """The objects of files and folders that can be read, and the problems of the others. A path need not exist."""
    documents: list[Document] = []
    problems: list[ProjectProblem] = []
    for path in _example_files(paths):
        try:
            documents += load_objects([path])
        except FileError as error:
            problems += [ProjectProblem(str(problem), lasting=True) for problem in error.problems]
    return documents, problems


def _example_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from yaml_files(path, SUFFIXES)
        elif path.exists():
            yield path


def _as_kubectl(body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    metadata = {**body["metadata"], "namespace": namespace} if namespace else dict(body["metadata"])
    last = encode({**body, "metadata": metadata}).decode() + "\n"
    return {**body, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), LAST_APPLIED: last}}}

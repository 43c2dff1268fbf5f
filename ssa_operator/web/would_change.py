"""What an apply would change now: of one child, of a whole parent, and of a parent with an edited spec.

Promises:
- The changes are those of `ssa-operator diff`: the same functions plan them, and each write is a dry run.
- An edited spec is validated, rendered and dry-run, and never stored. Its preview shares nothing with the running
  operator but the loaded templates, so that no claim, lookup or generated value of the operator changes.
- No content of a Secret is part of an answer: a short hash stands for it.
- An object that the reader may not get is not part of an answer.

https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from msgspec.structs import replace

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.client import DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.step import Action
from ssa_operator.rendering.folder.loaded_folders import Sources
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.plan.changes import changes_data, parent_changes
from ssa_operator.tools.plan.preview import Planned, Preview, opened
from ssa_operator.tools.plan.previews import NamedParent, planned_parent
from ssa_operator.tools.printing import yaml_text
from ssa_operator.web.looked_up import MayGet
from ssa_operator.web.merge_patch import merge_patch
from ssa_operator.web.parent_page import key_of, node_key

MAX_SPEC = 128 * 1024
"""Bytes of an edited spec."""

MAX_WAITING = 4
"""Edited specs that may wait. They are dry-run one after another."""

EDITED = "the edited spec"
"""What stands for the file of an edited spec in messages."""


async def changes_now(
    preview: Preview, parents: Parents, found: FoundObject, child: str, may_get: MayGet
) -> dict[str, Any]:
    """What an apply of the parent would change now, or of one child (`node_key`). Raises ApiError."""
    parent = parents.parent(found.live)
    planned = await preview.plan(parent)
    if child:
        planned = _only(planned, child)
    data = await _changes(preview, NamedParent(parent=parent), planned, may_get)
    if child:
        return data | {"objects": [each for each in data["objects"] if node_key(each) == child]}
    return data | ({} if found.resource.confidential else {"spec": yaml_text(found.live.body.get("spec") or {})})


def _only(planned: Planned, child: str) -> Planned:
    """The plan of one child. Whether an object is pruned depends on all others."""
    steps = tuple(step for step in planned.plan.steps if key_of(step.identity) == child)
    if not steps or any(step.action in (Action.PRUNE, Action.KEEP) for step in steps):
        return planned
    return replace(planned, plan=replace(planned.plan, steps=steps))


class EditedSpecs:
    """Dry-runs parents with edited specs, one after another."""

    def __init__(self, operator: Operator, client: DryRunClient) -> None:
        self._operator = operator
        self._client = client
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def changes(self, found: FoundObject, parents: Parents, text: str, may_get: MayGet) -> dict[str, Any]:
        """What an apply would change if the parent had this spec. Raises ApiError, CommandError for a text that is no
        spec, and HTTPServiceUnavailable if too many wait.
        """
        if found.resource.confidential or found.live.deleting:
            raise CommandError("the spec of this parent can't be edited here")
        spec = await asyncio.to_thread(parse_spec, text)
        if self._waiting >= MAX_WAITING:
            raise web.HTTPServiceUnavailable(text="too many specs wait for their dry run; try again\n")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._dry_run(found, parents, spec, may_get)
        except ParentError as error:
            raise CommandError(str(error)) from error
        finally:
            self._waiting -= 1

    async def _dry_run(
        self, found: FoundObject, parents: Parents, spec: Mapping[str, Any], may_get: MayGet
    ) -> dict[str, Any]:
        identity, folder = found.live.identity, parents.folder
        options = self._operator.options
        if found.resource.namespaced:
            options = replace(options, namespaces=(identity.namespace,))
        # The informers of the operator must not take the edited parent for the stored one.
        sources = Sources(folders={folder.name: folder})
        async with opened(self._client, RESTMapper(self._client), options, sources=sources) as preview:
            stored = preview.folder_of(identity.group_kind).find(identity.namespace, identity.name)
            if stored is None or stored.uid != found.live.uid:
                raise CommandError(f"{identity} is gone")
            before = parents.parent(stored)
            patch = {"spec": merge_patch(stored.body.get("spec") or {}, dict(spec))}
            edited: Parent = await preview.as_edited(before, patch)
            named = NamedParent(parent=edited, live=stored, location=SourceLocation(EDITED, 1))
            return await _changes(preview, named, await planned_parent(preview, named), may_get)


def parse_spec(text: str) -> dict[str, Any]:
    """The spec that a text has, by the YAML rules of manifests. Raises CommandError with the line at fault."""
    try:
        nodes = parse(StaticText(text, EDITED), for_kubectl=True)
        values = [node.build(SlotValues()) for node in nodes]
    except DocumentError as error:
        raise CommandError(f"{error.location}: {error}") from error
    values = [value for value in values if value is not None] or [{}]
    if len(values) > 1 or not isinstance(values[0], dict) or not all(isinstance(key, str) for key in values[0]):
        raise CommandError(f"{EDITED} has to be one mapping of fields")
    return values[0]


async def _changes(preview: Preview, named: NamedParent, planned: Planned, may_get: MayGet) -> dict[str, Any]:
    outcomes = await preview.dry_run(planned, as_resumed=True)
    changes = parent_changes(named, planned, outcomes, secrets.token_bytes(16))
    hidden = {each.identity for each in changes.objects if not await may_get(preview.placed(planned)(each.identity))}
    shown = tuple(each for each in changes.objects if each.identity not in hidden)
    data = changes_data(replace(changes, objects=shown))
    if hidden:
        kinds = ", ".join(sorted({each.kind for each in hidden}))
        data["notes"].append(f"objects of these kinds are not shown, because you may not get them: {kinds}")
    return data

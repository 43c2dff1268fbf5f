"""Makes a golden case of a live parent, from everything that its templates read: the parent, its children, and
looked-up objects.

Promises:
- The case holds no content of a Secret: stand-ins replace it, even if the templates put it into other children.
- Fields of the metadata that the API server sets are left out, unless the templates mention them. The operator's own
  records are left out.
- With the stand-ins, the case renders the same as the templates in the cluster.
- Nothing that exists is overwritten or removed. If a case can't be written, no files of it are left.
- An entry of a Secret that holds JSON keeps its structure, and the names of those fields that the templates mention.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.objects.annotations import LAST_APPLIED, PREFIX
from ssa_operator.objects.cluster_view import Body, Lookup, Selection
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Planned
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError, writing
from ssa_operator.reconcile.secrets.content_fields import NO_CONTENT, ContentFields, fields_of_child, hidden_in_live
from ssa_operator.rendering.folder.contained_files import real_path
from ssa_operator.schema.operator_fields import RESERVED
from ssa_operator.tools.cases.golden_cases import (
    CHILDREN,
    NOW,
    OTHERS,
    PARENT,
    CaseProject,
    load_project,
    project_of_case,
    read_case,
    render_case,
    update_case,
    write_files,
)
from ssa_operator.tools.command_target import ObjectReference
from ssa_operator.tools.plan import previews
from ssa_operator.tools.plan.secret_mask import Manifests, SecretMask
from ssa_operator.tools.printing import canonical_text

_WORDS = re.compile(r"[\w-]+")


_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "selfLink", "managedFields", "generateName")
"""Fields of the metadata that the API server sets."""


class LiveCase(Struct, frozen=True, kw_only=True):
    """A live parent with what its templates read."""

    planned: Planned
    others: Sequence[Body]
    """The objects that the templates look up."""
    uses_time: bool
    """Whether the templates ask for the time."""
    now: float
    """The time of the plan, in seconds since the epoch."""


async def read_live_case(
    reference: ObjectReference, templates: Sequence[Path], namespace: str, target: Target
) -> LiveCase:
    """The live parent with what its templates read. Raises CommandError if an object of it can't be read."""
    async with previews.opened(
        target, Options(templates=tuple(templates)), lambda default: [namespace or default]
    ) as opened:
        (named,) = await previews.parents_of_references(opened, [reference], namespace)
        preview, now = opened.preview, time.time()
        planned = await preview.plan(named.parent)
        status = await preview.render_status(planned)
        others = {}
        for query in dict.fromkeys((*planned.rendered.queries, *status.queries)):
            if isinstance(query, Lookup | Selection):
                answer = preview.cluster.lookups.answer(query)
                if answer.unknown:
                    raise CommandError(f"{query} can't be captured: {answer.unknown}")
                others.update({LiveObject.of(dict(body)).identity: body for body in answer.objects})
    rendered = planned.rendered
    return LiveCase(
        planned=planned,
        others=[others[identity] for identity in sorted(others)],
        uses_time=rendered.changed_by_time or rendered.again_at is not None or status.again_at is not None,
        now=now,
    )


def write_case(live: LiveCase, path: Path, templates: Sequence[Path], crds: Sequence[Path]) -> list[Path]:
    """Write the case, and return its files. Raises CommandError."""
    if os.path.lexists(path):
        raise CommandError(f"{path} exists; remove it, or name another case with --case", code=2)
    project = load_project(templates, crds)
    with writing(path):
        real_path(path, project_of_case(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        # An unused name, because an existing file may belong to another program.
        temporary = path.with_name(f".capture-{secrets.token_hex(8)}")
        temporary.mkdir()
    try:
        captured_case(live).align(temporary, project)
        update_case(temporary, project)
        with writing(path):
            temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return sorted(path.iterdir())


@dataclass(slots=True, kw_only=True)
class CapturedCase:
    """The objects of a case. `align` completes it."""

    parent: dict[str, Any]
    children: dict[Identity, dict[str, Any]]
    others: list[dict[str, Any]]
    now: str
    """The content of `now.txt`, '' for none."""
    mask: SecretMask
    live: Mapping[Identity, Body]
    """The live children in the cluster."""
    applied: Mapping[Identity, Body]
    """The manifests that the templates render in the cluster."""

    def write(self, path: Path) -> None:
        """Write the files of the case, without the expected ones."""
        texts = {
            PARENT: canonical_text([self.parent]),
            CHILDREN: canonical_text([self.children[identity] for identity in sorted(self.children)]),
            OTHERS: canonical_text(self.others),
            NOW: self.now,
        }
        write_files((path / name, text) for name, text in texts.items())

    def align(self, path: Path, project: CaseProject) -> None:
        """Write the case. Values that the templates derive from a Secret's content, for example a checksum, are derived
        from its stand-ins instead. Raises CommandError if the case can't be rendered.
        """

        def renders(children: Mapping[Identity, dict[str, Any]]) -> Iterator[tuple[Manifests, Manifests]]:
            self.children = {**children}
            self.write(path)
            rendered = render_case(read_case(path), project).rendered.steps
            yield self.applied, {step.identity: step.manifest.body for step in rendered if step.manifest is not None}

        self.children = self.mask.aligned(self.children, self.live, renders)
        self.write(path)


def captured_case(live: LiveCase) -> CapturedCase:
    """The case of a live parent."""
    planned = live.planned
    parent, templates = planned.parent.live, planned.parent.folder.templates
    assert templates is not None
    steps, secrets = {step.identity: step for step in planned.plan.steps}, planned.secrets
    # Sorted, because stand-ins are numbered in this order: two captures of one parent are equal.
    own = sorted(planned.observed.children.own, key=lambda child: child.identity)
    children = {each.identity: each for each in own if not secrets.of(each.identity).name_object}
    known = {parent.identity, *(each.identity for each in own)}
    others = [other for other in map(LiveObject.of, map(dict, live.others)) if other.identity not in known]
    mask = SecretMask(public=frozenset(_WORDS.findall(templates.text)))

    def masked(child: LiveObject, fields: ContentFields = NO_CONTENT) -> dict[str, Any]:
        return mask.masked(child, hidden_in_live(child, fields))

    mentioned = frozenset(
        name for name in (*_SERVER_FIELDS, "ownerReferences", "generation") if _mentions(templates.text, name)
    )
    return CapturedCase(
        parent=_parent(masked(parent), mentioned | ({"creationTimestamp"} if live.uses_time else set())),
        children={
            identity: _object(masked(child, fields_of_child(identity, steps, secrets)), mentioned)
            for identity, child in children.items()
        },
        others=[_object(masked(other), mentioned) for other in others],
        now=f"{datetime.fromtimestamp(int(live.now), UTC):%Y-%m-%dT%H:%M:%SZ}\n" if live.uses_time else "",
        mask=mask,
        live={identity: child.body for identity, child in children.items()},
        applied={step.identity: step.manifest.body for step in steps.values() if step.manifest is not None},
    )


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _parent(masked: Body, mentioned: frozenset[str]) -> dict[str, Any]:
    """The parent without the fields that the API server and the operator write."""
    found = _object(masked, mentioned)
    metadata = {**found["metadata"]}
    if "generation" not in mentioned:
        metadata.pop("generation", None)
    finalizers = [each for each in metadata.pop("finalizers", []) if not each.startswith(PREFIX)]
    if finalizers:
        metadata["finalizers"] = finalizers
    status = {key: value for key, value in (found.pop("status", None) or {}).items() if key not in RESERVED}
    return {**found, "metadata": metadata, **({"status": status} if status else {})}


def _object(masked: Body, mentioned: frozenset[str]) -> dict[str, Any]:
    """An object without the fields of its metadata that only a cluster sets."""
    left_out = {*_SERVER_FIELDS, "ownerReferences"} - mentioned
    metadata = {key: value for key, value in masked["metadata"].items() if key not in left_out}
    for field in ("labels", "annotations"):
        entries = metadata.pop(field, None) or {}
        kept = {key: value for key, value in entries.items() if not key.startswith(PREFIX) and key != LAST_APPLIED}
        if kept:
            metadata[field] = kept
    head = {key: masked[key] for key in ("apiVersion", "kind")}
    rest = {key: value for key, value in masked.items() if key not in ("apiVersion", "kind", "metadata")}
    return {**head, "metadata": metadata, **rest}

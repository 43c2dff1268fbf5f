"""What one template file renders for a live parent, to stand beside the file.

Promises:
- The manifests are those that a reconcile would apply now, before the API server adds its defaults, and each line has
  the template line that writes it.
- A problem or a wait of the file has its line. A folder that doesn't load is rendered by its last good templates.
- No line has a Secret's content, and an object that the reader may not get is not part of an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.preview import Planned, Preview
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.secrets.content_fields import fields_of, hidden_in_manifest, replaced
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.yaml.to_yaml import yaml_lines
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.web.looked_up import MayGet

MAX_LINES = 2_000
"""Lines of an answer."""


async def rendered_file(
    preview: Preview, folder: Folder, parents: Parents, found: FoundObject, file: str, may_get: MayGet
) -> dict[str, Any]:
    """What a file of a folder renders for a parent: `documents` of `lines`, `problems`, `waits`. Raises ApiError."""
    planned = await preview.plan(replace(parents.parent(found.live), folder=folder))
    placed = preview.placed(planned)
    documents: list[dict[str, Any]] = []
    notes, left = [], MAX_LINES
    for step in preview.steps(planned):
        if not line_in(file, step.location):
            continue
        if not await may_get(placed(step.identity)):
            notes.append(f"a {step.identity.kind} is not shown, because you may not get it")
            continue
        document = _document(step, planned, file, left)
        left -= len(document["lines"])
        documents.append(document)
    if left <= 0:
        notes.append(f"only the first {MAX_LINES} lines are shown")
    problems = [each for each in planned.rendered.problems if not each.outdated]
    here = [each for each in problems if line_in(file, each.location)]
    # A wait for a whole file has no step.
    waits = [each for each in planned.rendered.waits if not each.identity and line_in(file, each.location)]
    return {
        "documents": documents,
        "problems": [{"message": each.message, "line": line_in(file, each.location)} for each in here],
        "waits": [{"message": f"a document is {each}", "line": line_in(file, each.location)} for each in waits],
        "elsewhere": len(problems) - len(here),
        "notes": list(dict.fromkeys(notes)),
    }


def line_in(file: str, location: SourceLocation | None) -> int:
    """The line of a file that writes what is at a location, or that includes the file that does; 0 if none does."""
    if location is None:
        return 0
    return next((each.line for each in (location, *location.included_from) if each.file == file), 0)


def _document(step: Child, planned: Planned, file: str, most: int) -> dict[str, Any]:
    shown = redacted_outcomes([step], planned.secrets)[0]
    data: dict[str, Any] = {
        "kind": shown.identity.kind,
        "name": shown.identity.name,
        "line": line_in(file, step.location),
        "lines": list(_lines(step, planned, file, most)),
    }
    return data | ({"message": shown.reason} if step.manifest is None and shown.reason else {})


def _lines(step: Child, planned: Planned, file: str, most: int) -> Iterator[dict[str, Any]]:
    if step.manifest is None:
        return
    document = step.manifest.document
    hidden = hidden_in_manifest(document.body, fields_of(step, planned.secrets))
    body = replaced(document.body, hidden, lambda *_: HIDDEN)
    for line in islice(yaml_lines(body), most):
        at = 0 if line.field is None else line_in(file, document.location_of(line.field))
        yield {"text": line.text} | ({"line": at} if at else {})

"""Checks that the CRD of a folder with rollouts has a place for the revision of each parent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.folder.folder_settings import SETTINGS
from ssa_operator.rendering.folder.loaded_folders import Sources
from ssa_operator.schema.crd_schema import declared, has_status, status_schema
from ssa_operator.tools.findings.findings import Finding


def unreported_revisions(sources: Sources, definitions: Iterable[Document]) -> Iterator[Finding]:
    """A finding for each folder with rollouts whose CRD declares no `status.revision`."""
    by_name = {each.body["metadata"]["name"]: each.body for each in definitions}
    for name, folder in sorted(sources.folders.items()):
        definition = by_name.get(name)
        if folder.settings.rollout is None or definition is None:
            continue
        for version in definition["spec"].get("versions", ()):
            if not version.get("served") or not has_status(definition, version["name"]):
                continue
            status = declared({"revision": ""}, status_schema(definition, version["name"]))
            if not (isinstance(status, Mapping) and "revision" in status):
                yield Finding(
                    code="crd-without-report",
                    message=f"CRD {name} declares no status.revision in {version['name']}, so its objects can't show "
                    "which revision of the templates they are on",
                    location=SourceLocation(f"{name}/{SETTINGS}", _line(folder.files.get(SETTINGS, ""))),
                    fix="declare revision: {type: string} in the status of the CRD",
                )


def _line(settings: str) -> int:
    """The line of the setting."""
    lines = settings.split("\n")
    return next((number for number, line in enumerate(lines, 1) if line.startswith("rollout")), 1)

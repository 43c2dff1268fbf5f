"""A parent of a file, as the API server returns a new object.

Promises:
- The uid is all zeros and the generation 1; fields of the metadata and the status that the file sets stay.
- Missing fields have the defaults of the parent's CRD.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.cli.template_folders import CRDKind, as_served, cluster_scoped
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.manifest import group_kind
from ssa_operator.core.objects.render_result import Document
from ssa_operator.core.status.conditions import timestamp
from ssa_operator.rendering.folder.sources import Folder

OFFLINE_UID = "00000000-0000-0000-0000-000000000000"


def as_created(
    parent: Document, folder: Folder, kinds: Mapping[GroupKind, CRDKind], now: float, namespace: str = "default"
) -> dict[str, Any]:
    """The parent with metadata, defaults, and a namespace if its kind has one. `now` is in seconds since the epoch.
    `namespace` is that of a parent whose file names none.

    Raises CommandError if its CRD doesn't serve its version.
    """
    metadata = {
        "uid": OFFLINE_UID,
        "generation": 1,
        "resourceVersion": "0",
        "creationTimestamp": timestamp(now),
    }
    if group_kind(parent) not in cluster_scoped(kinds):
        metadata["namespace"] = namespace
    body = as_served(parent.body, folder, kinds)
    return {**body, "metadata": {**metadata, **body["metadata"]}}

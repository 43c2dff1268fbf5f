"""Plays the parents that the templates of an example create, and those that these create, for `ssa-operator check`.

Promises:
- Each manifest of a kind that has a folder is rendered as the operator would render it, as a parent, up to `maxDepth`.
- Templates that create parents without end are one finding for each example, at the line of the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Document
from ssa_operator.reconcile.nested_parents.ancestors import chain
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.offline.offline_cluster import OfflineParent

PLAYED = 64
"""Parents that are rendered for one example: finite chains are short, and an endless one is found at once."""


def check_nesting(example: OfflineParent, play: Callable[[Document], OfflineParent | None]) -> Iterator[Finding]:
    """The finding about parents that the example leads to. `play` renders a manifest as a parent; it returns None for
    one of a kind without a folder, or one that can't be rendered.
    """
    pending: list[tuple[OfflineParent, tuple[Identity, ...], Document | None]] = [(example, (), None)]
    played = 0
    while pending:
        parent, above, manifest = pending.pop()
        identity = parent.observed.parent.identity
        if manifest is not None and parent.rendered.documents and len(above) >= parent.folder.settings.max_depth:
            yield Finding(
                code="endless-parents",
                message=(
                    f"the templates create parents that create parents: {chain(above, identity)}; end the recursion, "
                    f"or set `maxDepth: {len(above) + 1}` or more in {parent.folder.name}/_settings.yaml"
                ),
                location=manifest.location,
            )
            return
        for document in parent.rendered.documents:
            found = play(_placed(document, identity.namespace)) if played < PLAYED else None
            if found is not None and found.observed.parent.identity not in (*above, identity):
                played += 1
                pending.append((found, (*above, identity), document))


def _placed(document: Document, namespace: str) -> Document:
    """The manifest, in the namespace of its parent if it names none."""
    metadata: Mapping[str, object] = document.body["metadata"]
    if not namespace or metadata.get("namespace"):
        return document
    return replace(document, body={**document.body, "metadata": {**metadata, "namespace": namespace}})

"""The rule about the names of children that `_status.yaml.j2` reads: a template must render each.

Promises:
- A name that a variant of the example renders is no finding.
- Nothing is reported if a manifest failed or its name is unknown, or if no example shows a manifest of a kind that the
  folder can render.
- In a manifest, such a name is an error of the render.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.offline.offline_cluster import OfflineParent


class ChildNames:
    """The children that the examples of a folder render, and those that its status reads."""

    def __init__(self) -> None:
        self._rendered: dict[Reference, None] = {}
        self._read: dict[Reference, SourceLocation | None] = {}
        self._found_at: set[SourceLocation | None] = set()
        self._unknown = False

    def add(self, parent: OfflineParent) -> None:
        """Another render of the folder."""
        waits = [wait.identity for wait in parent.rendered.waits]
        self._unknown = self._unknown or bool(parent.problems) or None in waits
        identities = [*(step.identity for step in parent.steps), *(each for each in waits if each is not None)]
        own = dict.fromkeys(Reference(each.kind, each.name) for each in identities)
        self._rendered |= own
        self._read = {**parent.status.children, **self._read}
        self._found_at |= {location for child, location in parent.status.children.items() if child in own}

    def findings(self, possible: Collection[str] | None) -> Iterator[Finding]:
        """The reads of children that no render has. `possible` are the kinds that the folder can render, None if that
        is unknown.
        """
        if self._unknown or possible is None:
            return
        shown = {each.kind for each in self._rendered}
        for child, location in self._read.items():
            unsure = child.kind in possible and child.kind not in shown
            if child in self._rendered or location in self._found_at or unsure:
                continue
            names = [f"{each.kind}/{each.name}" for each in self._rendered]
            near = near_names(f"{child.kind}/{child.name}", names)
            fix = f"did you mean {near[0]}?" if near else f"rendered are {', '.join(names[:_SHOWN]) or 'no manifests'}"
            yield Finding(code="unknown-child", message=f"no template renders {child}", location=location, fix=fix)


_SHOWN = 5

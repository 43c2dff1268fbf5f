"""The input of `ssa-operator check`: the folders, CRDs and examples of a project, and the schemas of its target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.folder.loaded_folders import Sources
from ssa_operator.schema.crd_schema import reports_status
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.checks.crd_rules import accepts_no_object
from ssa_operator.tools.checks.field_rules import scale_path
from ssa_operator.tools.checks.refusal_rules import AskedManifest, Refusal
from ssa_operator.tools.offline.project import CRDKind


class CheckedProject(Struct, frozen=True, kw_only=True):
    """The input of `check`."""

    sources: Sources
    kinds: Mapping[GroupKind, CRDKind]
    examples: Sequence[Document]
    """Objects of files. Those without a template folder are objects that `lookup` finds."""
    unread_examples: bool = False
    """Whether a file of examples can't be read, so that what it has is not known."""
    now: float
    """Seconds since the epoch."""
    schemas: KubernetesSchemas
    """The schemas of the targeted Kubernetes, with the CRDs."""

    ask: Callable[[Sequence[AskedManifest]], Sequence[Refusal]] = lambda _: ()
    """Asks an API server about all manifests of the examples."""
    unclear_crds: frozenset[str] = frozenset()
    """The names of the CRDs with fields that no CRD has."""

    @property
    def not_awaited(self) -> frozenset[GroupKind]:
        """The kinds whose CRD declares no status that is awaited, and those whose status the operator writes."""
        return frozenset(
            found
            for found, kind in self.kinds.items()
            if kind.folder in self.sources.folders or not reports_status(kind.definition)
        )

    @property
    def refused(self) -> frozenset[GroupKind]:
        """The kinds whose CRD the API server refuses, or whose objects it all refuses."""
        return frozenset(
            found
            for found, kind in self.kinds.items()
            if accepts_no_object(kind.definition) or kind.definition["metadata"]["name"] in self.unclear_crds
        )

    @property
    def scale_paths(self) -> Mapping[GroupKind, FieldPath]:
        """The field with the number of replicas of each custom kind, () if its CRD has no scale subresource."""
        return {found: scale_path(kind.definition) for found, kind in self.kinds.items()}

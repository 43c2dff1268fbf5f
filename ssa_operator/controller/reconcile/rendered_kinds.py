"""The kinds and the namespaces of what a render gave: what the operator has to watch before it plans."""

from __future__ import annotations

from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.manifest import group_kind
from ssa_operator.core.objects.render_result import Rendered


def rendered_kinds(rendered: Rendered) -> set[GroupKind]:
    """The kinds of the manifests, also of those that wait."""
    waiting = {wait.identity.group_kind for wait in rendered.waits if wait.identity is not None}
    return {group_kind(document) for document in rendered.documents} | waiting


def rendered_namespaces(rendered: Rendered) -> set[tuple[GroupKind, str]]:
    """The namespaces that manifests name, which may be outside of those that the operator watches."""
    named = {(group_kind(document), document.body["metadata"].get("namespace")) for document in rendered.documents}
    return {(kind, namespace) for kind, namespace in named if namespace}

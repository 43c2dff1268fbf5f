"""What an API server serves a kind as: its group, version, plural and scope, and the paths of its objects.

Promises:
- A path is a pure function of the resource and the object's names; every segment is percent-encoded.
- A path that would name another object than was meant is refused, never sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from ssa_operator.core.objects.identity import GroupKind, join_api_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One entry of discovery: `deployments.apps` in version `v1`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        return join_api_version(self.group, self.version)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def name(self) -> str:
        """`deployments.apps`, or `namespaces` in the core group: what a CRD and a template folder are called."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def built_in(self) -> bool:
        """Whether Kubernetes itself serves it: its groups have no dot, or end in k8s.io (as those of some CRDs do)."""
        return "." not in self.group or self.group.endswith(".k8s.io")

    @property
    def confidential(self) -> bool:
        """Whether its objects' content must not reach an error, a log or a status: Secrets."""
        return self.plural == "secrets" and not self.group

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of an object, or of the collection where there is no name.

        Raises ValueError for a namespace on a cluster-scoped resource, for a named object of a namespaced resource
        without one, and for names that are no path segment (".", "..", or with "/").
        """
        if namespace and not self.namespaced:
            raise ValueError(f"{self.name} is cluster-scoped: {name or 'its collection'} has no namespace {namespace}")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.name} is namespaced: {name} needs a namespace")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{_segment(namespace)}" if namespace else ""
        leaf = f"/{_segment(name)}" if name else ""
        return f"{root}{scope}/{self.plural}{leaf}" + (f"/{subresource}" if subresource else "")

    def describe(self, namespace: str = "", name: str = "") -> str:
        """What users read: `Deployment default/web`, `Namespace prod`, `Deployments in default`."""
        if name:
            return f"{self.kind} {namespace}/{name}" if namespace else f"{self.kind} {name}"
        return f"{self.name} in {namespace}" if namespace else self.name

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def _segment(name: str) -> str:
    # What k8s.io/apimachinery/pkg/api/validation/path refuses.
    if name in {".", ".."} or "/" in name or "%" in name:
        raise ValueError(f'{name!r} is no name of an object: it may not be "." or ".." or contain "/" or "%"')
    return quote(name, safe="")

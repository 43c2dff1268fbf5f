"""A resource that the API server serves: group, version, plural and scope, and the paths of its objects.

Promises:
- A path is a pure function of the resource, the namespace and the name. Every segment is percent-encoded.
- A name that leads to another object's path (`..`, `a/b`) raises InvalidPath before the request is sent.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from msgspec import Struct

from ssa_operator.kube.api.errors import InvalidPath
from ssa_operator.objects.identity import GroupKind, Identity, is_built_in, join_api_version, segment_fault


class Resource(Struct, frozen=True, kw_only=True):
    """One entry of discovery: `deployments.apps` in version `v1`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    subresources: frozenset[str] = frozenset()
    singular: str = ""
    short_names: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        return join_api_version(self.group, self.version)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    def identity(self, namespace: str, name: str) -> Identity:
        """The identity of one of its objects. A cluster-scoped object has no namespace, whatever the argument is."""
        return Identity(self.group, self.kind, namespace if self.namespaced else "", name)

    @property
    def name(self) -> str:
        """`deployments.apps`, or `namespaces` in the core group: the name of a CRD and of a template folder."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def built_in(self) -> bool:
        """Whether its group is one of Kubernetes."""
        return is_built_in(self.group)

    @property
    def confidential(self) -> bool:
        """Whether errors, logs and statuses must not show the content of its objects: Secrets."""
        return self.plural == "secrets" and not self.group

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of an object, or without a name that of the collection.

        Raises InvalidPath for a namespace of a cluster-scoped resource, for a named object of a namespaced resource
        without a namespace, and for names that are not one path segment (".", "..", or with "/").
        """
        if namespace and not self.namespaced:
            why = f"{self.name} is cluster-scoped: {name or 'its collection'} has no namespace {namespace}"
            raise InvalidPath(self.describe(namespace, name), why)
        if name and self.namespaced and not namespace:
            raise InvalidPath(self.describe("", name), f"{self.name} is namespaced: {name} needs a namespace")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{self._segment(namespace, namespace, name)}" if namespace else ""
        leaf = f"/{self._segment(name, namespace, name)}" if name else ""
        return f"{root}{scope}/{self.plural}{leaf}" + (f"/{subresource}" if subresource else "")

    def _segment(self, segment: str, namespace: str, name: str) -> str:
        """A segment of the path of an object, encoded. Raises InvalidPath."""
        if _PLAIN.fullmatch(segment):
            return segment
        if fault := segment_fault(segment):
            why = f"{segment!r} is not a valid object name: it {fault}"
            raise InvalidPath(self.describe(namespace, name), why)
        return quote(segment, safe="")

    def describe(self, namespace: str = "", name: str = "") -> str:
        """The object or collection in messages: `Deployment default/web`, `Namespace prod`, `pods in default`."""
        if name:
            return f"{self.kind} {namespace}/{name}" if namespace else f"{self.kind} {name}"
        return f"{self.name} in {namespace}" if namespace else self.name

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.ASCII)
"""A valid name that is encoded as itself: nearly all are."""

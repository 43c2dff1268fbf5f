"""The identity of an object: its group, kind, namespace and name, without a version.

Promises:
- Two manifests with the same group, kind, namespace and name are one object, whatever their versions.
- Entries that users may have edited are read without an error: an entry that names no object gives None.
- A name that is no segment of a path names no object.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from ssa_operator.objects.json_codec import is_unicode


class GroupKind(NamedTuple):
    """A kind and its API group; the core group is ''."""

    group: str
    kind: str

    @classmethod
    def of(cls, api_version: str, kind: str) -> GroupKind:
        """The kind of an object with this `apiVersion` and `kind`."""
        return cls(api_version.rpartition("/")[0], kind)

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


_SHARED_LENGTH = 512
"""Characters of the longest text that stays in memory: templates may write any, and the API server takes no longer."""


def split_api_version(api_version: str) -> tuple[str, str]:
    """Group and version of an `apiVersion`: `apps/v1` -> `('apps', 'v1')`, `v1` -> `('', 'v1')`."""
    split = _split if len(api_version) <= _SHARED_LENGTH else _split.__wrapped__
    return split(api_version)


@lru_cache(maxsize=1024)
def _split(api_version: str) -> tuple[str, str]:
    group, slash, version = api_version.rpartition("/")
    return (group, version) if slash else ("", api_version)


def is_built_in(group: str) -> bool:
    """Whether an API group is one of Kubernetes: without a dot, or ending in k8s.io (some CRDs end in it, too)."""
    return "." not in group or group.endswith(".k8s.io")


def join_api_version(group: str, version: str) -> str:
    """The `apiVersion` of a group and a version; the inverse of `split_api_version`."""
    return f"{group}/{version}" if group else version


# A reconcile asks for it some seventy times.
_group_kind = lru_cache(maxsize=1024)(GroupKind)


class Identity(Struct, frozen=True, order=True):
    """Group, kind, namespace ('' for a cluster-scoped object) and name."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        if len(self.group) + len(self.kind) > _SHARED_LENGTH:
            return GroupKind(self.group, self.kind)
        return _group_kind(self.group, self.kind)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def segment_fault(name: str) -> str | None:
    """Why a name is not a valid path segment, so that no object and no namespace can have it; None if it is valid.
    k8s.io/apimachinery/pkg/api/validation/path refuses the same names for every kind.
    """
    if name in {".", ".."} or "/" in name or "%" in name:
        return 'must not be "." or ".." or contain "/" or "%"'
    return None if name.isascii() or is_unicode(name) else "must not contain half of a character (a lone surrogate)"


def read_group_kind(entry: object) -> GroupKind | None:
    """The kind of a list entry with `group` (left out for the core group) and `kind`; None if it names no kind."""
    if not isinstance(entry, (dict, Mapping)):  # the first one is found sooner
        return None
    group, kind = entry.get("group", ""), entry.get("kind")
    return GroupKind(group, kind) if isinstance(group, str) and isinstance(kind, str) and kind else None


def read_identity(entry: object) -> Identity | None:
    """The identity of a list entry that also has `namespace` (left out for a cluster-scoped object) and `name`; None if
    it names no object.
    """
    group_kind = read_group_kind(entry)
    if group_kind is None or not isinstance(entry, (dict, Mapping)):
        return None
    namespace, name = entry.get("namespace", ""), entry.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str):
        return None
    return identity_of(group_kind, namespace, name)


def identity_of(kind: GroupKind, namespace: str, name: str) -> Identity | None:
    """The identity of an object with these names; None if no object can have them."""
    if not kind.kind or not name or segment_fault(name) or segment_fault(namespace):
        return None
    return Identity(*kind, namespace, name)

"""A permission, and how a cluster serves a kind."""

from __future__ import annotations

from msgspec import Struct


class Permission(Struct, frozen=True, order=True, kw_only=True):
    """One verb on one resource."""

    group: str
    """The API group, '' for the core group."""
    resource: str
    """The plural, with a subresource as in `echoes/status`."""
    namespace: str = ""
    """'' for all namespaces, or for a cluster-scoped resource."""
    name: str = ""
    """'' for all names."""
    verb: str

    @property
    def resource_name(self) -> str:
        """`deployments.apps`, `pods`, `echoes.example.com/status`."""
        plural, slash, subresource = self.resource.partition("/")
        return f"{plural}.{self.group}{slash}{subresource}" if self.group else self.resource

    def covers(self, other: Permission) -> bool:
        """Whether an account with this permission has the other one, too."""
        return (
            (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
            and self.namespace in ("", other.namespace)
            and self.name in ("", other.name)
        )

    def __str__(self) -> str:
        what = f"{self.resource_name} {self.name}" if self.name else self.resource_name
        return f"{self.verb} {what} in {self.namespace}" if self.namespace else f"{self.verb} {what}"


class ServedKind(Struct, frozen=True):
    """How a cluster serves a kind."""

    resource: str
    """The plural."""
    namespaced: bool

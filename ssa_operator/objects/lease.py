"""A Lease as the operator reads and writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class Lease(Struct, frozen=True, kw_only=True):
    """A Lease that was read or written, or that will be written."""

    holder: str
    """The holder's identity, '' if it was released."""

    duration: int
    """Seconds."""

    transitions: int = 0
    """How often another holder acquired it."""

    acquired: str = ""
    """When the holder acquired it, by the holder's wall clock; for people only."""

    renewed: str = ""
    """When the holder last renewed it, by the holder's wall clock; for people only."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The metadata that was read; a write keeps it."""

    @property
    def resource_version(self) -> str:
        """'' for a Lease that does not exist yet."""
        return str(self.metadata.get("resourceVersion", ""))

    @property
    def uid(self) -> str:
        return str(self.metadata.get("uid", ""))

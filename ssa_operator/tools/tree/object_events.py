"""Events as every view shows them, from either API that has them.

Promises:
- The time of an Event is that at which it happened last. Older reporters use the deprecated fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.json_codec import mapping


class ObjectEvent(Struct, frozen=True, kw_only=True):
    """An Event on an object, '' for what it doesn't say."""

    uid: str
    """The uid of the object that it is about."""
    object: str
    """`Kind/name` of this object."""
    type: str
    reason: str
    note: str
    time: str
    """An RFC 3339 timestamp."""
    reporter: str
    count: int

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObjectEvent:
        """The Event of a body of `v1` or `events.k8s.io/v1`."""
        about = mapping(body.get("regarding") or body.get("involvedObject"))
        series = mapping(body.get("series"))
        times = (
            series.get("lastObservedTime"),
            body.get("deprecatedLastTimestamp"),
            body.get("lastTimestamp"),
            body.get("eventTime"),
            mapping(body.get("metadata")).get("creationTimestamp"),
        )
        source = mapping(body.get("source"))
        reporters = (body.get(name) for name in ("reportingController", "reportingComponent"))
        counts = [each for each in (series.get("count"), body.get("count")) if isinstance(each, int)]
        return cls(
            uid=_text(about.get("uid")),
            object=f"{about.get('kind', '')}/{about.get('name', '')}",
            type=_text(body.get("type")),
            reason=_text(body.get("reason")),
            note=_text(body.get("note"), body.get("message")),
            time=_text(*times),
            reporter=_text(*reporters, source.get("component")),
            count=max(counts, default=1),
        )

    @property
    def data(self) -> dict[str, str]:
        """The Event for `--output json`."""
        return {"type": self.type, "reason": self.reason, "note": self.note, "time": self.time}


def _text(*values: object) -> str:
    """The first of some values that is a text, '' without one."""
    return next((value for value in values if isinstance(value, str) and value), "")

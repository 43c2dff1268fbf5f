"""Reads the last Event that the operator recorded on a parent, for parents whose status can't show conditions.

Promises:
- Only Events of the operator count, and only those on the parent with this uid.
- If the user can't read the Events, the reason is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.reconcile.status.event_requests import EVENTS
from ssa_operator.tools.tree.listings import FORBIDDEN, Listings


async def last_events(listings: Listings, parents: Iterable[LiveObject]) -> tuple[Mapping[str, dict[str, Any]], str]:
    """The data of the last Event on each parent, by the parent's uid, and why Events can't be read ('' if they can)."""
    scopes = {Scope(EVENTS, parent.identity.namespace or "default") for parent in parents}
    found: dict[str, Mapping[str, Any]] = {}
    problem = ""
    for listing in (await listings.read(scopes)).values():
        if listing.problem:
            problem = FORBIDDEN if listing.forbidden else listing.problem
        own = (live.body for live in listing.objects if live.body.get("reportingController") == MANAGER)
        for body in sorted(own, key=event_time):
            found[str((body.get("regarding") or {}).get("uid", ""))] = body
    return {uid: _data(body) for uid, body in found.items()}, problem


def _data(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": event.get("type"),
        "reason": event.get("reason"),
        "note": event.get("note"),
        "time": event_time(event),
    }


def event_time(event: Mapping[str, Any]) -> str:
    """When an Event happened last, '' if it doesn't say. Older reporters use the deprecated fields."""
    times = (
        (event.get("series") or {}).get("lastObservedTime"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
        event.get("metadata", {}).get("creationTimestamp"),
    )
    return next((time for time in times if isinstance(time, str) and time), "")

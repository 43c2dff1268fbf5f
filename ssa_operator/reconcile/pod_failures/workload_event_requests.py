"""Asks for the Events of one object that isn't ready.

Promises:
- The operator never watches Events. It lists those of one object, by its uid, in one request.
- If the Events can't be listed, no cause is reported and no verdict changes. A missing permission is logged once for
  each namespace.
"""

from __future__ import annotations

import logging

import msgspec

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import decoder
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.pod_failures.workload_events import (
    CLUSTER_SCOPED,
    ObjectEvents,
    event_cause,
    events_selector,
)

log = logging.getLogger("ssa_operator")

EVENT = GroupKind("", "Event")

LIMIT = 500
"""The most Events that are read of one object. Its controller aggregates them, so there are only a few."""

_NAMESPACES = 1000
"""The most namespaces whose missing permission is remembered."""

_decode = decoder(ObjectEvents)


async def event_cause_of(live: LiveObject, reconcile: Reconcile, reported: str) -> str:
    """Why an object isn't ready, by its newest Warning Event; '' if that is unknown. `reported` is the cause that was
    found before.
    """
    namespace = live.identity.namespace or CLUSTER_SCOPED
    try:
        resource = await reconcile.cluster.children.resource(EVENT, "v1")
        scope = calls.Scope(resource, namespace, field_selector=events_selector(live))
        response = await reconcile.client.send(calls.list_page(scope, limit=LIMIT))
        return event_cause(_decode(response.body).items or (), reported)
    except (ApiError, CredentialsError, UnknownKind, msgspec.DecodeError) as error:
        _log(error, namespace, reconcile)
    return ""


def _log(error: Exception, namespace: str, reconcile: Reconcile) -> None:
    where, known = (reconcile.account, namespace), reconcile.cluster.without_events
    is_forbidden = isinstance(error, ApiError) and error.forbidden
    if not is_forbidden or where in known:
        log.debug("the Events of an object in %s can't be listed: %s", namespace, error)
        return
    if len(known) < _NAMESPACES:
        known.add(where)
        who = reconcile.account or "the operator"
        log.warning("%s: %s may not list events, so no status quotes why an object isn't ready", namespace, who)

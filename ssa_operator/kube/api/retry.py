"""When a failed request is sent again, and when a watch is opened again.

Promises:
- Both are pure functions of what happened and of a drawn number.
- A request is repeated only where it may be: it is repeatable, or the server has certainly not carried it out.
- A wait that the server asks for is kept; one longer than `PATIENCE` is left to the caller, who has the error's
  `retry_after`.
"""

from __future__ import annotations

from ssa_operator.core.policies.backoff import exponential
from ssa_operator.kube.api.errors import ApiError, Unreachable
from ssa_operator.kube.api.request import Request

ATTEMPTS = 4
"""How often a request is sent at most: the controller's own backoff takes over after a few seconds."""

FIRST = 0.1
LONGEST = 3.0
PATIENCE = 10.0
"""Seconds."""

WATCH_FIRST = 0.8
WATCH_LONGEST = 30.0
"""Seconds; client-go's reflector has the same."""


def pause(request: Request, error: ApiError, attempt: int, chance: float) -> float | None:
    """Seconds before the request is sent again, None where it isn't. `attempt` counts from 0; `chance` is in [0, 1).

    Exponential with full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    if attempt + 1 >= ATTEMPTS or error.terminal or not _may_repeat(request, error):
        return None
    wait = exponential(FIRST, LONGEST, attempt) * chance
    if error.retry_after is not None:
        # Jitter on top, so that those who were told the same don't come back together.
        wait += error.retry_after
    return wait if wait <= PATIENCE else None


def _may_repeat(request: Request, error: ApiError) -> bool:
    if isinstance(error, Unreachable):
        return request.repeatable or not error.sent
    if error.throttled:
        return True  # refused before it was looked at
    return request.repeatable and error.code >= 500 and not error.missing_version


def watch_pause(failures: int, chance: float) -> float:
    """Seconds before a watch that failed that often is opened again: 0.8 s, 1.6 s ... 30 s, and jitter."""
    return exponential(WATCH_FIRST, WATCH_LONGEST, failures - 1) * (1 + chance)

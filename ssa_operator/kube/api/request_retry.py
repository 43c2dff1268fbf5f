"""Decides whether a failed request is retried, and how long a failed request or watch waits.

Promises:
- Both decisions are pure functions of the error, the number of attempts and a random number.
- The client retries a request only if it is idempotent or if the API server has certainly not processed it.
- The client waits as long as the server's Retry-After asks. If that is longer than `PATIENCE`, it raises the error,
  and the caller reads `retry_after`.
"""

from __future__ import annotations

from ssa_operator.kube.api.backoff import exponential
from ssa_operator.kube.api.errors import ApiError, Unreachable
from ssa_operator.kube.api.request import Request

ATTEMPTS = 4
"""The most attempts of one request. After these few seconds the backoff of the reconcile takes over."""

FIRST = 0.1
LONGEST = 3.0
PATIENCE = 10.0
"""Seconds."""

WATCH_FIRST = 0.8
WATCH_LONGEST = 30.0
"""Seconds, as in client-go's reflector."""


def retry_delay(request: Request, error: ApiError, attempt: int, chance: float) -> float | None:
    """Seconds before the request is sent again, None if it is not retried. `attempt` counts from 0; `chance` is in
    [0, 1).

    Exponential with full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    if attempt + 1 >= ATTEMPTS or error.terminal or not _is_retryable(request, error):
        return None
    delay = exponential(FIRST, LONGEST, attempt) * chance
    if error.retry_after is not None:
        # The jitter spreads clients that got the same Retry-After.
        delay += error.retry_after
    return delay if delay <= PATIENCE else None


def _is_retryable(request: Request, error: ApiError) -> bool:
    if isinstance(error, Unreachable):
        return request.idempotent or not error.sent
    if error.throttled:
        return True  # the server refuses it before it processes it
    return request.idempotent and error.code >= 500 and not error.missing_version


def watch_backoff(failures: int, chance: float) -> float:
    """Seconds before a watch is opened again after that many failures: 0.8 s, 1.6 s ... 30 s, with jitter."""
    return exponential(WATCH_FIRST, WATCH_LONGEST, failures - 1) * (1 + chance)

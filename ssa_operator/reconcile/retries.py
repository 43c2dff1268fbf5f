"""How often reconciles of a parent failed in a row; the pauses that follow from it are those of `kube.api.backoff`.

Promises:
- A retryable failure of a child and a reconcile that did not come to its end are counted apart, each for its own
  backoff.
- The same error is logged once in a row.
- However many parents have a child that admission denies, their retries have a common limit. A reconcile that created
  another child resets their pauses.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Retries(Struct, frozen=True, kw_only=True):
    """The failures in a row."""

    failed: int = 0
    """Reconciles in a row with a retryable failure."""
    unfinished: int = 0
    """Reconciles in a row that did not come to their end."""
    error: str = ""
    """Why the last of these did not."""
    not_before: float = 0.0
    """The end of the pause that the API server asked for, in seconds on the process's monotonic clock: no resync
    begins before.
    """


def after_report(retries: Retries, *, retryable: bool, renewed: bool = False, not_before: float = 0.0) -> Retries:
    """The retries after a reconcile that came to its end; `renewed` is whether the pauses begin anew."""
    failed = 0 if renewed else retries.failed
    return Retries(failed=failed + 1, not_before=not_before) if retryable else _NONE


_NONE = Retries()


def after_error(retries: Retries, error: str, *, terminal: bool, not_before: float = 0.0) -> Retries:
    """The retries after a reconcile that did not come to its end; a terminal error is not retried, and not counted."""
    unfinished = retries.unfinished + (0 if terminal else 1)
    return replace(retries, error=error, unfinished=unfinished, not_before=not_before)


class RateLimit:
    """Spreads what happens over time: `rate` a second (above 0), and as many at once after a second without any.

    client-go has such a bucket for all retries of a work queue (DefaultTypedControllerRateLimiter: 10 a second). Of
    retries, it is for denied children only: after an outage of the API server, every parent has to be retried soon.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0

    def pause(self, now: float) -> float:
        """Take a turn; the seconds until it comes. `now` is in seconds on the monotonic clock."""
        self._free_at = max(self._free_at, now - 1.0) + 1.0 / self._rate
        return max(0.0, self._free_at - now)

"""What accounts may read, by the API server's answers: a SubjectAccessReview for each account and permission.

The informers read with the operator's permissions, for all accounts. Before a template of an impersonated parent gets
an answer from their caches, the API server has to allow that answer to the parent's account.

Promises:
- An answer is valid for ANSWER_LIFETIME seconds, whether it allows or denies. A withdrawn permission ends after this
  time.
- Without an answer, nothing is allowed.
- At most ANSWERS_LIMIT answers are kept, and PARALLEL reviews are in progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ssa_operator.kube.api.access_reviews import Subject, is_allowed
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.cluster_view import ALLOWED, AccessReview
from ssa_operator.objects.kinds import Permission
from ssa_operator.reconcile.impersonation.rules import denied, not_reviewed

ANSWER_LIFETIME = 30.0
"""Seconds for which an answer of the API server is valid."""

FAILURE_LIFETIME = 5.0
"""Seconds after which a review that failed is repeated."""

ANSWERS_LIMIT = 20_000
"""Answers that are kept. Beyond them, the oldest one is dropped."""

PARALLEL = 8
"""Reviews in progress."""

_Key = tuple[str, Permission]


class AccountReviews:
    """The answers by account and permission."""

    def __init__(self, client: Client, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._clock = clock
        self._answers: dict[_Key, tuple[float, AccessReview]] = {}
        self._slots = asyncio.Semaphore(PARALLEL)

    def answer(self, account: str, permission: Permission) -> AccessReview | None:
        """The answer that is still valid, None without one."""
        known = self._answers.get((account, permission))
        return known[1] if known is not None and self._clock.monotonic() < known[0] else None

    async def review(self, account: str, permissions: Iterable[Permission]) -> None:
        """Ask the API server for those answers that are missing."""
        await asyncio.gather(*(self._review(account, permission) for permission in permissions))

    async def _review(self, account: str, permission: Permission) -> None:
        async with self._slots:
            if self.answer(account, permission) is not None:  # another parent asked meanwhile
                return
            asked, lifetime = self._clock.monotonic(), ANSWER_LIFETIME
            try:
                allowed = await is_allowed(self._client, permission, Subject.of(account))
                answer = ALLOWED if allowed else denied(account, permission)
            except (ApiError, CredentialsError) as error:
                answer, lifetime = not_reviewed(account, permission, str(error)), FAILURE_LIFETIME
        self._answers.pop((account, permission), None)
        if len(self._answers) >= ANSWERS_LIMIT:
            del self._answers[next(iter(self._answers))]
        self._answers[account, permission] = asked + lifetime, answer

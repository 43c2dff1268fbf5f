"""What one render may read of the caches, for a parent whose account the operator impersonates.

Promises:
- During a render, the same question has the same answer, so that no part of a manifest is rendered with an object that
  another part may not read.
- A question that the API server has not answered yet is answered with "not known". It is pending, and the caller
  renders again after `review`.
- A kind that the cluster doesn't serve has no objects, and needs no permission.
"""

from __future__ import annotations

from collections.abc import Callable

from ssa_operator.objects.cluster_view import ALLOWED, AccessReview, Lookup, Selection
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.kinds import Permission, ServedKind
from ssa_operator.reconcile.impersonation.reviews import AccountReviews
from ssa_operator.reconcile.impersonation.rules import not_reviewed, read_permission


class AccountView:
    """The permissions of an account during one render. `served` knows how the cluster serves a kind in a version."""

    def __init__(
        self, account: str, reviews: AccountReviews, served: Callable[[GroupKind, str | None], ServedKind | None]
    ) -> None:
        self._account = account
        self._reviews = reviews
        self._served = served
        self._answers: dict[Permission, AccessReview] = {}
        self._pending: list[Permission] = []

    def review_of(self, query: Lookup | Selection | Identity) -> AccessReview:
        """Whether the account may read what a template asks for."""
        version = None if isinstance(query, Identity) else split_api_version(query.api_version)[1]
        served = self._served(query.group_kind, version)
        if served is None:
            return ALLOWED
        permission = read_permission(query, served)
        if permission not in self._answers:
            answer = self._reviews.answer(self._account, permission)
            if answer is None:
                self._pending.append(permission)
                answer = not_reviewed(self._account, permission)
            self._answers[permission] = answer
        return self._answers[permission]

    @property
    def asked(self) -> bool:
        """Whether the render read anything that needs a permission."""
        return bool(self._answers)

    @property
    def denies(self) -> bool:
        """Whether the account lacked a permission, or it was not known whether it has it."""
        return any(answer.why_not for answer in self._answers.values())

    @property
    def pending(self) -> bool:
        """Whether an answer was missing, so that the next render may read more than this one."""
        return bool(self._pending)

    async def review(self) -> None:
        """Have the API server answer what is pending."""
        await self._reviews.review(self._account, self._pending)

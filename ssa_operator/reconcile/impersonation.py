"""Which account the operator acts as for a parent, and what that account may read.

The informers read with the operator's permissions, for all accounts. Before a template of an impersonated parent gets
an answer from their caches, the API server has to allow that answer to the parent's account.

Promises:
- The account belongs to the parent's namespace. No field of the parent, and no template, chooses it.
- A cluster-scoped parent has no such account. The operator refuses it, unless the folder allows cluster scope.
- A message about a missing permission is the same whether the object exists or not.
- A withdrawn permission ends after ANSWER_LIFETIME seconds. Without an answer, nothing is allowed.
- During a render, the same question has the same answer, so that no part of a manifest is rendered with an object that
  another part may not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ssa_operator.kube.api.access_reviews import Subject, is_allowed
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.cluster_view import ALLOWED, AccessReview, Lookup, Selection
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.kinds import Permission, ServedKind


def account_of(name: str, parent: Identity) -> str:
    """The user name of the service account `name` in the parent's namespace; '' if `name` is '', and for a
    cluster-scoped parent.
    """
    return f"system:serviceaccount:{parent.namespace}:{name}" if name and parent.namespace else ""


def refusal(name: str, parent: Identity, *, cluster_scope: bool) -> str | None:
    """Why the operator applies nothing for a parent while it impersonates `name`, None if it may."""
    if not name or parent.namespace or cluster_scope:
        return None
    return (
        f"the parent is cluster-scoped, so that it has no service account {name} to apply its children as; nothing is "
        "applied. Set `clusterScope: true` in the folder's _settings.yaml to apply them with the operator's own "
        "permissions"
    )


def read_permission(query: Lookup | Selection | Identity, served: ServedKind) -> Permission:
    """The permission to read what a template asks for: `get` on one name, `list` on a selection."""
    if isinstance(query, Selection):
        group, namespace, name, verb = query.group_kind.group, query.namespace, "", "list"
    else:
        identity = query.identity if isinstance(query, Lookup) else query
        group, namespace, name, verb = identity.group, identity.namespace, identity.name, "get"
    return Permission(
        group=group, resource=served.resource, namespace=namespace if served.namespaced else "", name=name, verb=verb
    )


def denied(account: str, permission: Permission) -> AccessReview:
    """The answer for an account without a permission."""
    return AccessReview(f"{account} may not {permission}; grant it with a Role", needs_permission=True)


def not_reviewed(account: str, permission: Permission, why: str = "the API server is asked now") -> AccessReview:
    """The answer while it is not known whether an account has a permission."""
    return AccessReview(f"whether {account} may {permission} is not known: {why}")


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

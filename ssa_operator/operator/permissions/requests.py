"""Asks the API server which of the needed permissions an account lacks, and repeats the review while an operator runs.

Promises:
- The API server decides, so that every authorizer counts: one SelfSubjectAccessReview a permission, for another account
  one SubjectAccessReview. An account that may do everything costs one request.
- A missing permission is logged once, with the template line that needs it; several are one line with their number and
  the command that prints the roles. They stop neither the operator nor a folder.
- The review is repeated when templates or served kinds change, and every RETRY seconds while a permission is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from ssa_operator.kube.api.access_reviews import is_allowed
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.kinds import Permission, ServedKind
from ssa_operator.objects.template_contents import TemplateContents
from ssa_operator.operator.permissions.operator_needs import PermissionNeed, impersonation_needs, operator_needs
from ssa_operator.operator.permissions.rbac_roles import without_covered
from ssa_operator.operator.permissions.template_needs import ParentKind, folder_needs
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.schema.crd_schema import field_options

log = logging.getLogger("ssa_operator")

RETRY = 60.0
"""Seconds after which the operator repeats a review that failed or that found a missing permission."""

_PARALLEL = 8
"""Reviews in parallel."""

_EVERYTHING = Permission(group="*", resource="*", verb="*")


async def missing_permissions(client: Client, needs: Collection[PermissionNeed]) -> tuple[PermissionNeed, ...]:
    """Those needs whose permission the client's account does not have. Raises ApiError."""
    permissions = {need.permission for need in needs}
    if not permissions or await is_allowed(client, _EVERYTHING):
        return ()
    widest = without_covered(permissions)
    answers = await _review(client, widest)
    # An account without a wide permission may have the narrow ones that it covers.
    denied = [permission for permission in widest if not answers[permission]]
    narrow = [each for each in permissions - set(widest) if any(wide.covers(each) for wide in denied)]
    answers |= await _review(client, narrow)
    allowed = [permission for permission, is_allowed in answers.items() if is_allowed]
    return tuple(need for need in needs if not any(each.covers(need.permission) for each in allowed))


async def _review(client: Client, permissions: Iterable[Permission]) -> dict[Permission, bool]:
    slots = asyncio.Semaphore(_PARALLEL)

    async def one(permission: Permission) -> bool:
        async with slots:
            return await is_allowed(client, permission)

    asked = list(permissions)
    answers = await asyncio.gather(*map(one, asked))
    return dict(zip(asked, answers, strict=True))


class PermissionReviewer:
    """Reviews the permissions of a running operator. `folders` are the running folders by name. `own_needs` are the
    permissions that its options need. `impersonate` is the name of the account that it impersonates, '' for none.
    """

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        folders: Mapping[str, Parents],
        namespaces: tuple[str, ...],
        own_needs: Collection[PermissionNeed] = (),
        impersonate: str = "",
        rollout_needs: Collection[PermissionNeed] = (),
    ) -> None:
        self.missing: tuple[PermissionNeed, ...] = ()
        """The needs whose permission was missing in the last review."""
        self._client = client
        self._mapper = mapper
        self._folders = folders
        self._namespaces = namespaces
        impersonation = impersonation_needs(impersonate, namespaces) if impersonate else ()
        self._own_needs = (*operator_needs(), *impersonation, *own_needs)
        self._impersonate = impersonate
        self._rollout_needs = rollout_needs
        """The permissions that are needed while a folder has rollouts."""
        self._contents: dict[str, tuple[str, TemplateContents]] = {}
        self._reviewed: frozenset[PermissionNeed] | None = None
        self._logged: frozenset[Permission] = frozenset()
        self._wanted = asyncio.Event()

    def request_review(self) -> None:
        """Review again, because templates or served kinds may have changed."""
        self._wanted.set()

    async def run(self) -> None:
        """Review whenever that is requested, until cancelled."""
        pause: float | None = None
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            except TimeoutError:
                self._reviewed = None
            self._wanted.clear()
            try:
                await self._review()
            except (ApiError, CredentialsError) as error:
                log.debug("the permissions could not be reviewed: %s", error)
                self._reviewed = None
            except Exception:
                log.exception("the permissions could not be reviewed")
                self._reviewed = None
            pause = RETRY if self._reviewed is None or self.missing else None

    async def _review(self) -> None:
        needs = (*self._own_needs, *await self._needs())
        if self._reviewed == frozenset(needs):
            return
        self.missing = await missing_permissions(self._client, needs)
        self._reviewed = frozenset(needs)
        self._log()

    async def _needs(self) -> list[PermissionNeed]:
        await self._mapper.discover()
        needs: list[PermissionNeed] = []
        for parents in list(self._folders.values()):
            contents = await self._template_contents(parents)
            served = parents.served
            parent = ParentKind(
                folder=parents.folder.name,
                group=served.resource.group,
                resource=served.resource.plural,
                namespaced=served.resource.namespaced,
                writes_status=served.writes_status,
                cluster_scope=parents.folder.settings.cluster_scope,
            )
            kinds = served_kinds(contents, self._mapper)
            needs += folder_needs(parent, contents, kinds, self._namespaces, self._impersonate)[0]
            needs += self._rollout_needs if parents.folder.settings.rollout is not None else ()
        # Permissions that the accounts of parents lack are reported in the conditions of these parents.
        return [need for need in needs if not need.by_account]

    async def _template_contents(self, parents: Parents) -> TemplateContents:
        """What a folder can render and look up; it is derived once for each set of templates."""
        folder, served = parents.folder, parents.served
        # The CRD lists the values of fields that templates may use as kinds.
        digest = f"{folder.digest} {served.crd['metadata'].get('generation') if served.crd else ''}"
        known, contents = self._contents.get(folder.name, ("", TemplateContents()))
        if known != digest:
            # Imported here, because an operator that starts has more urgent work.
            from ssa_operator.rendering.possible_manifests import template_contents  # noqa: PLC0415

            options = partial(field_options, served.crd or {}, served.resource.version)
            contents = await asyncio.to_thread(template_contents, folder, options)
            self._contents[folder.name] = digest, contents
        return contents

    def _log(self) -> None:
        missing = frozenset(need.permission for need in self.missing)
        lines = describe(need for need in self.missing if need.permission not in self._logged)
        if len(lines) > 1:
            log.warning(
                "%s permissions are missing; `ssa-operator rbac` prints the roles that grant them; /readyz lists them",
                len(lines),
            )
        for line in lines:
            log.log(logging.DEBUG if len(lines) > 1 else logging.WARNING, "permission missing: %s", line)
        if self._logged and not missing:
            log.info("the operator has all permissions that its templates need")
        self._logged = missing


def served_kinds(contents: TemplateContents, mapper: RESTMapper) -> dict[GroupKind, ServedKind]:
    """How the cluster serves the kinds that templates render and look up, from the mapper's cache."""
    found = {kind: served_kind(kind, mapper) for kind in contents.kinds}
    return {kind: served for kind, served in found.items() if served is not None}


def served_kind(kind: GroupKind, mapper: RESTMapper) -> ServedKind | None:
    """How the cluster serves a kind, from the mapper's cache; None if it doesn't."""
    try:
        resource = mapper.peek(kind)
    except UnknownKind:
        return None
    return ServedKind(resource.plural, resource.namespaced)


def describe(needs: Iterable[PermissionNeed]) -> list[str]:
    """A line for each permission, with its purposes and the template lines that need it."""
    reasons: dict[Permission, dict[str, None]] = {}
    for need in needs:
        origin = f"{need.purpose}: {need.origin}" if need.origin else need.purpose
        reasons.setdefault(need.permission, {})[origin] = None
    return [f"{permission} ({'; '.join(reasons[permission])})" for permission in sorted(reasons)]

"""Asks the API server which account a token authenticates, and what an account may do.

Promises:
- The API server decides, so that every authenticator and authorizer counts.
- A review stores nothing, so it may be repeated, and a standby sends it, too.
- No error quotes a token.

https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.kinds import Permission

_GROUP = "authorization.k8s.io"
_SELF = Resource(
    group=_GROUP, version="v1", kind="SelfSubjectAccessReview", plural="selfsubjectaccessreviews", namespaced=False
)
_OTHER = Resource(
    group=_GROUP, version="v1", kind="SubjectAccessReview", plural="subjectaccessreviews", namespaced=False
)
_TOKEN = Resource(
    group="authentication.k8s.io", version="v1", kind="TokenReview", plural="tokenreviews", namespaced=False
)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """An account, as the API server knows it."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further keys and values from the authenticator, which an authorizer may use."""

    @classmethod
    def of(cls, user: str) -> Subject:
        """The account with this user name, in the groups that the API server adds to its requests."""
        groups: tuple[str, ...] = ("system:authenticated",)
        parts = user.split(":")
        if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}", *groups)
        return cls(user=user, groups=groups)


_Review = TypeVar("_Review", bound=msgspec.Struct)


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


async def is_allowed(client: Client, permission: Permission, subject: Subject | None = None) -> bool:
    """Whether an account, None for the client's own, has a permission. Raises ApiError."""
    resource, _, subresource = permission.resource.partition("/")
    attributes = {
        "verb": permission.verb,
        "group": permission.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": permission.namespace,
        "name": permission.name,
    }
    return await _is_allowed(client, {"resourceAttributes": {k: v for k, v in attributes.items() if v}}, subject)


async def may_get_path(client: Client, path: str, subject: Subject) -> bool:
    """Whether an account may `get` a non-resource URL. Raises ApiError."""
    return await _is_allowed(client, {"nonResourceAttributes": {"path": path, "verb": "get"}}, subject)


async def authenticate(client: Client, token: str) -> Subject | None:
    """The account of a bearer token, None if the API server does not know the token. Raises ApiError."""
    review = await _send(client, _TOKEN, {"token": token}, _TokenReview)
    user = review.status.user
    if not review.status.authenticated or not user.username:
        return None
    return Subject(user=user.username, groups=user.groups, uid=user.uid, extra=tuple(user.extra.items()))


async def _is_allowed(client: Client, attributes: Mapping[str, Any], subject: Subject | None) -> bool:
    if subject is None:
        return (await _send(client, _SELF, attributes, _AccessReview)).status.allowed
    account = {"user": subject.user, "groups": subject.groups, "uid": subject.uid, "extra": dict(subject.extra)}
    spec = {**attributes, **{name: value for name, value in account.items() if value}}
    return (await _send(client, _OTHER, spec, _AccessReview)).status.allowed


async def _send(client: Client, kind: Resource, spec: Mapping[str, Any], review: type[_Review]) -> _Review:
    body = encode({"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec})
    request = replace(calls.create(kind, "", body), idempotent=True, review=True, confidential=True)
    return await client.read(request, review)

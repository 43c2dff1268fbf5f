"""The rules of impersonation: which account the operator acts as for a parent, and which permissions that account
needs.

Promises:
- The account belongs to the parent's namespace. No field of the parent, and no template, chooses it.
- A cluster-scoped parent has no such account. The operator refuses it, unless the folder's settings
  allow cluster scope.
- A message about a missing permission is the same whether the object exists or not.
"""

from __future__ import annotations

from ssa_operator.objects.cluster_view import AccessReview, Lookup, Selection
from ssa_operator.objects.identity import Identity
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

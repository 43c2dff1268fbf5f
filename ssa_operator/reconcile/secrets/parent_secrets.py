"""Where the renders of a parent put the contents of Secrets, for the operator and for the commands.

Promises:
- A field that held content counts as content as long as the child exists and the process remembers it: the API server
  and other controllers may still quote the former value.
- Only the places of content are remembered, never the content.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.parents import Parent
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.render_result import Document, Rendered, StatusFields, Wait
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets, SecretFields

_SECRET = GroupKind("", "Secret")


def secrets_of(rendered: Rendered, parent: LiveObject, namespaced: Callable[[GroupKind], bool | None]) -> ParentSecrets:
    """What is known after one render; `namespaced` returns whether the objects of a kind are in namespaces."""
    found: dict[Identity, SecretFields] = {}
    results: list[Document | Wait] = [*rendered.documents, *rendered.waits]
    for each in results:
        if each.secret and each.identity is not None:
            identity = _placed(each.identity, parent, namespaced)
            found[identity] = found.get(identity, each.secret) | each.secret
    return ParentSecrets(
        children=found or NOTHING,
        queries=rendered.secret_queries,
        read=reads_secrets(rendered, parent),
        read_others=parent.identity.group_kind == _SECRET
        or any((each["metadata"].get("labels") or {}).get(PARENT_UID_LABEL) != parent.uid for each in rendered.secrets),
    )


def with_render(known: ParentSecrets, rendered: Rendered, parent: Parent, children: ChildInformers) -> ParentSecrets:
    """What is known after one more render."""
    if known == NO_SECRETS and not reads_secrets(rendered, parent.live):
        return known
    new = secrets_of(rendered, parent.live, children.namespaced)
    found = dict(new.children)
    for identity, fields in known.children.items():
        if identity in found or identity in children:
            found[identity] = fields | found.get(identity, fields)
    queries = rendered.secret_queries if rendered.secret_queries != known.queries else known.queries
    new = ParentSecrets(
        children=found or NOTHING,
        queries=queries,
        read=known.read or new.read,
        read_others=known.read_others or new.read_others,
    )
    return known if new == known else new


def reads_secrets(rendered: Rendered, parent: LiveObject) -> bool:
    """Whether a render read a Secret, which its parent may be, or generated a value."""
    return bool(rendered.secrets or rendered.generated_values or parent.identity.group_kind == _SECRET)


def with_status(known: ParentSecrets, own: StatusFields) -> ParentSecrets:
    """What is known after a render of the status template."""
    return replace(known, queries=known.queries | own.secret_queries, read=known.read or bool(own.secrets))


def _placed(identity: Identity, parent: LiveObject, namespaced: Callable[[GroupKind], bool | None]) -> Identity:
    if namespaced(identity.group_kind) is False:
        return replace(identity, namespace="")
    return identity if identity.namespace else replace(identity, namespace=parent.identity.namespace)

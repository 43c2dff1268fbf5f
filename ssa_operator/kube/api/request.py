"""Every call to the API server as a value.

Promises:
- A request is complete before it is sent: path, query, headers, encoded body, and whether it is idempotent.
- A request is `idempotent` only if sending it twice has the same effect as sending it once.
- Neither `repr` nor `str` of a request shows its body.
- If a render of the parent put content of a Secret into an object, no error or warning of a write of the object quotes
  it. If the parent's templates read a Secret, the stored object may hold content, and errors quote only the request.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import quote, urlencode

from msgspec import Struct

from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import MANAGER
from ssa_operator.objects.secret_fields import HIDDEN, NO_SECRET_FIELDS, NO_SECRETS, WHOLE, ParentSecrets, SecretFields

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

Parameters = tuple[tuple[str, str], ...]
"""The names and values of a URL's query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call."""

    method: str

    path: str

    subject: str
    """The name of the call in errors: `apply of Deployment default/web`."""

    query: Parameters = ()

    body: bytes = field(default=b"", repr=False)

    content_type: str = JSON

    accept: str = JSON

    if_none_match: str = ""
    """The ETag of an answer that the caller has: if it is still current, the API server answers with a 304."""

    idempotent: bool = False
    """Whether sending it twice has the same effect as sending it once."""

    dry_run: bool = False
    """Whether the API server stores nothing of it."""

    review: bool = False
    """Whether it reviews the permissions of an account. A review stores nothing."""

    confidential: bool = False
    """Whether the server's answer may quote a Secret's content."""

    identity: Identity | None = None
    """The object that is written, None for any other request."""

    secret: SecretFields = NO_SECRET_FIELDS
    """The fields of the object that hold a Secret's content, which errors and warnings must not quote. Admission may
    have copied it into any other field.
    """

    quotes_sent_only: bool = False
    """Whether errors must quote values of the body only, because the stored object may hold a Secret's content."""

    @property
    def target(self) -> str:
        """Path and query, encoded."""
        return f"{self.path}?{_encoded(self.query)}" if self.query else self.path

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def changes_cluster(self) -> bool:
        return self.writes and not self.dry_run and not self.review

    @property
    def verb(self) -> str:
        """The verb as RBAC has it (`get`, `list`, `watch`, `create`, `patch`, `delete`), or `apply` for a server-side
        apply.
        """
        if self.method != "GET":
            return "apply" if self.content_type == APPLY_PATCH else _VERBS[self.method]
        if ("watch", "true") in self.query:
            return "watch"
        return "list" if self._collection[1] else "get"

    @property
    def resource_name(self) -> str:
        """`deployments.apps`; '' for a path that is not a resource's, such as those of discovery."""
        return self._collection[0]

    def hiding(self, secrets: ParentSecrets) -> Request:
        """The request of a parent: its errors and warnings quote no content of its object."""
        if self.identity is None or secrets == NO_SECRETS:
            return self
        return replace(self, secret=self.secret | secrets.of(self.identity), quotes_sent_only=secrets.read)

    @property
    def _collection(self) -> tuple[str, bool]:
        return _collection(self.path)

    def __str__(self) -> str:
        return f"{self.method} {self.target}"


_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


@lru_cache(maxsize=1024)
def _collection(path: str) -> tuple[str, bool]:
    """The resource of a path ('' without one), and whether the path is a collection's."""
    match path.strip("/").split("/"):
        case ["api", _, *rest]:
            group = ""
        case ["apis", group, _, *rest]:
            pass
        case _:
            return "", False
    if len(rest) >= 3 and rest[0] == "namespaces":
        # Of namespaces, these are the two subresources.
        rest = rest[2:] if rest[2] not in ("status", "finalize") else rest
    if not rest:
        return "", False
    return f"{rest[0]}.{group}" if group else rest[0], len(rest) == 1


@lru_cache(maxsize=256)
def _encoded(query: Parameters) -> str:
    # Nearly all requests are applies, and all applies have the same query.
    return urlencode(query, quote_via=quote)


def raw_get(path: str, accept: str = JSON, if_none_match: str = "") -> Request:
    """GET of a path that is not a resource's: discovery, /version, /readyz."""
    return Request(
        method="GET",
        path=path,
        subject=f"GET {path}",
        accept=accept,
        if_none_match=if_none_match,
        idempotent=True,
    )


def get(resource: Resource, name: str, namespace: str = "") -> Request:
    return Request(
        method="GET",
        path=resource.path(namespace, name),
        subject=f"get of {resource.describe(namespace, name)}",
        idempotent=True,
        confidential=resource.confidential,
    )


class Scope(Struct, frozen=True):
    """The objects that a list or watch selects."""

    resource: Resource

    namespace: str = ""
    """'' is all namespaces."""

    label_selector: str = ""
    """'' is all labels."""

    name: str = ""
    """'' is all names. RBAC allows a list or watch of one name if a rule has it in `resourceNames`."""

    metadata_only: bool = False
    """Whether only the objects' metadata is read. They have the kind PartialObjectMetadata then."""

    hidden: bool = False
    """Whether a template takes the name or the namespace from a Secret, so that no error and no log shows them."""

    field_selector: str = ""
    """'' is all objects. It is omitted if there is a name."""

    shard_selector: str = ""
    """Kubernetes' `shardSelector`, '' without one. An API server without the gate ShardedListAndWatch ignores it and
    answers with all objects.
    """

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace)

    @property
    def query(self) -> Parameters:
        query: Parameters = (("labelSelector", self.label_selector),) if self.label_selector else ()
        if self.name:
            query += (("fieldSelector", f"metadata.name={_escaped(self.name)}"),)
        elif self.field_selector:
            query += (("fieldSelector", self.field_selector),)
        if self.shard_selector:
            query += (("shardSelector", self.shard_selector),)
        return query

    def __str__(self) -> str:
        return f"{self.resource.kind} {HIDDEN}" if self.hidden else self.resource.describe(self.namespace, self.name)


def _escaped(value: str) -> str:
    """The value of a field selector, as apimachinery's fields.EscapeValue writes it."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def list_page(scope: Scope, *, limit: int, token: str = "") -> Request:
    """One page of a consistent list. `limit` 0 is the whole list; `token` is the page's continue token."""
    query = scope.query
    if limit:
        query += (("limit", str(limit)),)
    if token:
        query += (("continue", token),)
    return _read(scope, "list", query)


def watch(scope: Scope, *, resource_version: str, seconds: int) -> Request:
    """Changes after a version. With '' the server first sends the present objects and then a bookmark (KEP-3157)."""
    query = (*scope.query, ("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", str(seconds)))
    if resource_version:
        query += (("resourceVersion", resource_version),)
    else:
        query += (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
    return _read(scope, "watch", query)


def _read(scope: Scope, verb: str, query: Parameters) -> Request:
    return Request(
        method="GET",
        path=scope.path,
        query=query,
        subject=f"{verb} of {scope}",
        accept=_accept(verb) if scope.metadata_only else JSON,
        idempotent=True,
        confidential=scope.resource.confidential,
        secret=WHOLE if scope.hidden else NO_SECRET_FIELDS,
    )


def _accept(verb: str) -> str:
    return METADATA_LIST if verb == "list" else METADATA


class ApplyOptions(Struct, frozen=True, kw_only=True):
    """The options of a server-side apply. It is always forced."""

    subresource: str = ""
    """'' is the object itself."""

    dry_run: bool = False

    manager: str = MANAGER
    """The field manager."""

    secret: SecretFields = NO_SECRET_FIELDS
    """The fields of the body that hold a Secret's content, which errors and warnings must not quote."""


DEFAULT_APPLY = ApplyOptions()
"""An apply of the object itself, as the operator's field manager."""


def apply(resource: Resource, namespace: str, name: str, body: bytes, options: ApplyOptions = DEFAULT_APPLY) -> Request:
    """A forced server-side apply.

    It is idempotent: the same body applied twice is one change. If the body has a resourceVersion, a retry after a lost
    answer is a conflict; the caller then reads the object again, as after every conflict.
    """
    query: Parameters = (("fieldManager", options.manager), ("force", "true"), ("fieldValidation", "Strict"))
    return Request(
        method="PATCH",
        path=resource.path(namespace, name, options.subresource),
        query=(*query, ("dryRun", "All")) if options.dry_run else query,
        subject=f"apply of {_described(resource, namespace, name, options.secret)}"
        + (f" ({options.subresource})" if options.subresource else ""),
        body=body,
        content_type=APPLY_PATCH,
        idempotent=True,
        dry_run=options.dry_run,
        confidential=resource.confidential,
        identity=resource.identity(namespace, name),
        secret=options.secret,
    )


def _described(resource: Resource, namespace: str, name: str, secret: SecretFields) -> str:
    hidden = secret.paths and secret.name_object
    return f"{resource.kind} {HIDDEN}" if hidden else resource.describe(namespace, name)


def merge_patch(
    resource: Resource,
    namespace: str,
    name: str,
    body: bytes,
    *,
    subresource: str = "",
    manager: str = MANAGER,
    dry_run: bool = False,
) -> Request:
    """A JSON merge patch. It is not idempotent, because its body may have a resourceVersion."""
    query: Parameters = (("fieldManager", manager),)
    return Request(
        method="PATCH",
        path=resource.path(namespace, name, subresource),
        query=(*query, ("dryRun", "All")) if dry_run else query,
        subject=f"patch of {resource.describe(namespace, name)}",
        body=body,
        content_type=MERGE_PATCH,
        dry_run=dry_run,
        confidential=resource.confidential,
        identity=resource.identity(namespace, name),
    )


def json_patch(
    resource: Resource, namespace: str, name: str, body: bytes, *, manager: str = MANAGER, dry_run: bool = False
) -> Request:
    """A JSON patch (RFC 6902). It is not retried automatically: its tests may no longer hold."""
    query: Parameters = (("fieldManager", manager),)
    return Request(
        method="PATCH",
        path=resource.path(namespace, name),
        query=(*query, ("dryRun", "All")) if dry_run else query,
        subject=f"patch of {resource.describe(namespace, name)}",
        body=body,
        content_type=JSON_PATCH,
        dry_run=dry_run,
        confidential=resource.confidential,
        identity=resource.identity(namespace, name),
    )


def create(resource: Resource, namespace: str, body: bytes) -> Request:
    return Request(
        method="POST",
        path=resource.path(namespace),
        query=(("fieldManager", MANAGER), ("fieldValidation", "Strict")),
        subject=f"create of {resource.kind}" + (f" in {namespace}" if namespace else ""),
        body=body,
        confidential=resource.confidential,
    )


def update(resource: Resource, namespace: str, name: str, body: bytes) -> Request:
    """A PUT of a whole object. It is not idempotent, because its body has the resourceVersion that was read."""
    return Request(
        method="PUT",
        path=resource.path(namespace, name),
        query=(("fieldManager", MANAGER), ("fieldValidation", "Strict")),
        subject=f"update of {resource.describe(namespace, name)}",
        body=body,
        confidential=resource.confidential,
    )


class DeleteOptions(Struct, frozen=True, kw_only=True):
    """The options of a delete. Its preconditions are the uid and, unless '', the resourceVersion."""

    uid: str

    propagation: str = "Background"
    """The propagation policy for dependents: Background, Foreground or Orphan."""

    resource_version: str = ""

    dry_run: bool = False


def delete(resource: Resource, namespace: str, name: str, options: DeleteOptions) -> Request:
    """A DELETE of the object with that uid only. It is idempotent, because it never deletes another object."""
    preconditions = {"uid": options.uid}
    if options.resource_version:
        preconditions["resourceVersion"] = options.resource_version
    body: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
        "propagationPolicy": options.propagation,
    }
    if options.dry_run:
        # The API server ignores the query of a DELETE that has a body.
        body["dryRun"] = ["All"]
    return Request(
        method="DELETE",
        path=resource.path(namespace, name),
        subject=f"delete of {resource.describe(namespace, name)}",
        body=encode(body),
        idempotent=True,
        dry_run=options.dry_run,
        confidential=resource.confidential,
        identity=resource.identity(namespace, name),
    )

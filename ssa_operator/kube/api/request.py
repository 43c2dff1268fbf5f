"""Every call to the API server as a value.

Promises:
- A request is complete before anything is sent: path, query, headers, encoded body, and whether it may be repeated.
- `repeatable` is true only where doing it twice is the same as doing it once.
- Neither `repr` nor `str` shows the body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote, urlencode

from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.objects.live_object import MANAGER
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.kube.api.resource import Resource

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. `subject` is what errors call it: `apply of Deployment default/web`.

    confidential: whether the server's words about it may hold a Secret's content. secrecy: what else they must not hold
    to be shown.
    """

    method: str
    path: str
    subject: str
    query: Query = ()
    body: bytes = field(default=b"", repr=False)
    content_type: str = JSON
    accept: str = JSON
    repeatable: bool = False
    confidential: bool = False
    redactor: Redactor = NO_SECRETS

    @property
    def target(self) -> str:
        """Path and query, encoded."""
        return f"{self.path}?{_encoded(self.query)}" if self.query else self.path

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.target}"


@lru_cache(maxsize=256)
def _encoded(query: Query) -> str:
    # Nearly all requests are applies, whose queries are alike.
    return urlencode(query, quote_via=quote)


def raw_get(path: str, accept: str = JSON) -> Request:
    """GET of a path that is no resource's: discovery, /version, /readyz."""
    return Request(method="GET", path=path, subject=f"GET {path}", accept=accept, repeatable=True)


def get(resource: Resource, name: str, namespace: str = "") -> Request:
    return Request(
        method="GET",
        path=resource.path(namespace, name),
        subject=f"get of {resource.describe(namespace, name)}",
        repeatable=True,
        confidential=resource.confidential,
    )


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects are listed or watched: of a resource, in a namespace ('' is all), with some labels ('' is all), of
    one name ('' is all).

    RBAC lets a list or watch of one name pass where a rule allows it by `resourceNames`. `secrecy` is what must not be
    said of it: a template may have the name from a Secret.
    """

    resource: Resource
    namespace: str = ""
    label_selector: str = ""
    name: str = ""
    redactor: Redactor = NO_SECRETS

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace)

    @property
    def query(self) -> Query:
        labels = (("labelSelector", self.label_selector),) if self.label_selector else ()
        return (*labels, ("fieldSelector", f"metadata.name={_escaped(self.name)}")) if self.name else labels

    def __str__(self) -> str:
        return self.redactor.redact(self.resource.describe(self.namespace, self.name))


def _escaped(value: str) -> str:
    """A field selector's value, as apimachinery's fields.EscapeValue writes it."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def list_page(scope: Scope, *, limit: int, token: str = "") -> Request:
    """One page of a consistent list; `limit` 0 is everything at once, `token` the page's continue token."""
    query = scope.query
    if limit:
        query += (("limit", str(limit)),)
    if token:
        query += (("continue", token),)
    return _within(scope, "list", query)


def watch(scope: Scope, *, resource_version: str, seconds: int) -> Request:
    """Changes after a version; '' begins with the present objects, up to a marked bookmark (KEP-3157)."""
    query = (*scope.query, ("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", str(seconds)))
    if resource_version:
        query += (("resourceVersion", resource_version),)
    else:
        query += (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
    return _within(scope, "watch", query)


def _within(scope: Scope, verb: str, query: Query) -> Request:
    return Request(
        method="GET",
        path=scope.path,
        query=query,
        subject=f"{verb} of {scope}",
        repeatable=True,
        confidential=scope.resource.confidential,
        redactor=scope.redactor,
    )


def apply(
    resource: Resource,
    namespace: str,
    name: str,
    body: bytes,
    *,
    subresource: str = "",
    dry_run: bool = False,
    manager: str = MANAGER,
) -> Request:
    """A forced server-side apply in the name of the operator's field manager, or of another one.

    It is repeatable: the same body applied twice is one change. With a resourceVersion in the body, a repeat after a
    lost answer is a conflict: whoever puts one in looks at the object again then, as after every conflict.
    """
    query: Query = (("fieldManager", manager), ("force", "true"), ("fieldValidation", "Strict"))
    return Request(
        method="PATCH",
        path=resource.path(namespace, name, subresource),
        query=(*query, ("dryRun", "All")) if dry_run else query,
        subject=f"apply of {resource.describe(namespace, name)}" + (f" ({subresource})" if subresource else ""),
        body=body,
        content_type=APPLY_PATCH,
        repeatable=True,
        confidential=resource.confidential,
    )


def merge_patch(
    resource: Resource, namespace: str, name: str, body: bytes, *, subresource: str = "", dry_run: bool = False
) -> Request:
    """A JSON merge patch. It is not repeated by itself: it may carry a resourceVersion."""
    query: Query = (("fieldManager", MANAGER),)
    return Request(
        method="PATCH",
        path=resource.path(namespace, name, subresource),
        query=(*query, ("dryRun", "All")) if dry_run else query,
        subject=f"patch of {resource.describe(namespace, name)}" + (f" ({subresource})" if subresource else ""),
        body=body,
        content_type=MERGE_PATCH,
        confidential=resource.confidential,
    )


def json_patch(resource: Resource, namespace: str, name: str, body: bytes, *, manager: str = MANAGER) -> Request:
    """A JSON patch (RFC 6902). It is not repeated by itself: what it tests may not hold any more."""
    return Request(
        method="PATCH",
        path=resource.path(namespace, name),
        query=(("fieldManager", manager),),
        subject=f"patch of {resource.describe(namespace, name)}",
        body=body,
        content_type=JSON_PATCH,
        confidential=resource.confidential,
    )


def create(resource: Resource, namespace: str, body: bytes, *, dry_run: bool = False) -> Request:
    query: Query = (("fieldManager", MANAGER), ("fieldValidation", "Strict"))
    return Request(
        method="POST",
        path=resource.path(namespace),
        query=(*query, ("dryRun", "All")) if dry_run else query,
        subject=f"create of {resource.kind}" + (f" in {namespace}" if namespace else ""),
        body=body,
        confidential=resource.confidential,
    )


def update(resource: Resource, namespace: str, name: str, body: bytes) -> Request:
    """A PUT of the whole object; with a resourceVersion in the body, as a Lease needs it."""
    return Request(
        method="PUT",
        path=resource.path(namespace, name),
        query=(("fieldManager", MANAGER),),
        subject=f"update of {resource.describe(namespace, name)}",
        body=body,
        confidential=resource.confidential,
    )


@dataclass(frozen=True, slots=True)
class Deletion:
    """Which object exactly may be deleted, and what becomes of its dependants (Background, Foreground, Orphan)."""

    uid: str
    propagation: str = "Background"
    resource_version: str = ""


def delete(resource: Resource, namespace: str, name: str, deletion: Deletion) -> Request:
    """A DELETE that only ever hits the object with that uid, and so may be repeated."""
    preconditions = {"uid": deletion.uid}
    if deletion.resource_version:
        preconditions["resourceVersion"] = deletion.resource_version
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
        "propagationPolicy": deletion.propagation,
    }
    return Request(
        method="DELETE",
        path=resource.path(namespace, name),
        subject=f"delete of {resource.describe(namespace, name)}",
        body=encode(options),
        repeatable=True,
        confidential=resource.confidential,
    )

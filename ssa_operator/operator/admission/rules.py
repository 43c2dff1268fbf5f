"""Validating admission: what the API server asks, which of its requests are judged, and how they are answered.

Promises:
- Only a change that can change the render is judged: a status update, a deletion, and the operator's own write of
  records and finalizers are allowed at once.
- An update is refused only for a problem that the stored object did not have. So users can label, suspend and delete a
  parent that is already broken.
- A message has a limited length.
- An operator that is down or slow blocks no request: the API server waits TIMEOUT seconds at most, and then allows the
  object.
- The API server asks only about parents that the operator reconciles.
- Operators in several namespaces share the configuration. Each has one webhook in it.

The form of requests and answers: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.label_selectors import label_selector
from ssa_operator.objects.messages import sentence
from ssa_operator.operator.permissions.operator_needs import CONFIGURATION
from ssa_operator.operator.webhook_reviews import Reviews

INVALID = 422
"""The code of a refusal: the API server's own for an object that breaks a rule."""


class RequestedResource(Struct, frozen=True):
    """The resource of the objects in a request, in the version that the webhook asks for."""

    group: str
    version: str
    resource: str


class AdmissionRequest(Struct, frozen=True, rename="camel", kw_only=True):
    """A request of the API server."""

    uid: str
    resource: RequestedResource
    operation: str
    sub_resource: str = ""
    object: dict[str, Any] | None = None
    """The object to be stored, with its defaults."""
    old_object: dict[str, Any] | None = None
    """The stored object, None for a new one."""


REVIEWS = Reviews("admission.k8s.io/v1", "AdmissionReview", AdmissionRequest)


def is_judged(request: AdmissionRequest) -> bool:
    """Whether the request stores something that a render can depend on."""
    new, old = request.object, request.old_object
    if new is None or request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return False
    if "deletionTimestamp" in _metadata(new):
        return False
    return old is None or _rendered_fields(new) != _rendered_fields(old)


def new_problems(now: Sequence[str], before: Sequence[str]) -> tuple[str, ...]:
    """The problems of an object that the stored one did not have, each once."""
    known = frozenset(before)
    return tuple(dict.fromkeys(problem for problem in now if problem not in known))


def answer(uid: str, problems: Sequence[str] = (), warning: str = "") -> dict[str, Any]:
    """The AdmissionReview that answers a request: it refuses the object if there are problems. kubectl prints the
    warning.
    """
    response: dict[str, Any] = {"uid": uid, "allowed": not problems}
    if problems:
        response["status"] = {"code": INVALID, "reason": "Invalid", "message": sentence(problems)}
    if warning:
        response["warnings"] = [warning]
    return REVIEWS.answer(response)


def _metadata(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = body.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _rendered_fields(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields that a user changes and a template reads: neither status, nor what the API server and the operator
    keep in the metadata.
    """
    metadata = _metadata(body)
    annotations = metadata.get("annotations") or {}
    return {
        "content": {key: value for key, value in body.items() if key not in ("metadata", "status")},
        "labels": metadata.get("labels") or {},
        "annotations": {key: value for key, value in annotations.items() if not key.startswith(PREFIX)},
    }


TIMEOUT = 3
"""Seconds."""


class JudgedResource(Struct, frozen=True, order=True):
    """The resource of a template folder."""

    group: str
    version: str
    plural: str
    namespaced: bool


def webhook_name(namespace: str) -> str:
    """The name of the webhook of the operator in a namespace. The API server wants a domain name."""
    return f"{namespace}.ssa-operator.dev"


def field_manager(namespace: str) -> str:
    """The field manager of the operator in a namespace. A shared manager would remove the webhooks of the others."""
    return f"ssa-operator-admission-{namespace}"


def configuration(webhooks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The configuration with these webhooks."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION, "labels": {"app.kubernetes.io/name": "ssa-operator"}},
        "webhooks": [*webhooks],
    }


def webhook(
    name: str,
    client_config: dict[str, Any],
    resources: Iterable[JudgedResource],
    namespaces: Sequence[str],
    selector: str,
) -> dict[str, Any]:
    """The webhook of an operator with these parents. `namespaces` and `selector` are its options of these names."""
    found: dict[str, Any] = {
        "name": name,
        "clientConfig": client_config,
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
            for resource in sorted(resources)
        ],
        "failurePolicy": "Ignore",
        "timeoutSeconds": TIMEOUT,
        "sideEffects": "None",
        "matchPolicy": "Equivalent",
        "admissionReviewVersions": ["v1"],
    }
    if namespaces:
        named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [*namespaces]}
        found["namespaceSelector"] = {"matchExpressions": [named]}
    if selector:
        found["objectSelector"] = label_selector(selector)
    return found

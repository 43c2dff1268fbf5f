"""Validating admission: which requests of the API server are judged, and how they are answered.

Promises:
- Only a change that can change the render is judged: a status update, a deletion, and the operator's own write of
  records and finalizers are allowed at once.
- An update is refused only for a problem that the stored object did not have. So users can label, suspend and delete a
  parent that is already broken.
- A message has a limited length.

The form of requests and answers: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.messages import sentence

API_VERSION = "admission.k8s.io/v1"

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


class _Review(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: AdmissionRequest


_decode = msgspec.json.Decoder(_Review).decode


def read_request(body: bytes) -> AdmissionRequest:
    """The request of an AdmissionReview. Raises ValueError."""
    review = _decode(body)
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        raise ValueError(f"{review.kind} of {review.api_version} is no AdmissionReview of {API_VERSION}")
    return review.request


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
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


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

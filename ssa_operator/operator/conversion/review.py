"""ConversionReviews: what the API server asks, and how it is answered.

Promises:
- A review is converted as a whole, in the order of its objects, or the answer has one message: that of the first object
  that can't be converted.

The form of requests and answers:
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#webhook-conversion
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

API_VERSION = "apiextensions.k8s.io/v1"

_KIND = "ConversionReview"


class ConversionRequest(Struct, frozen=True, kw_only=True):
    """A request of the API server."""

    uid: str
    desired: str = msgspec.field(name="desiredAPIVersion")
    """The apiVersion of the answer's objects."""
    objects: list[dict[str, Any]]


class _Review(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: ConversionRequest


_decode = msgspec.json.Decoder(_Review).decode


def read_request(body: bytes) -> ConversionRequest:
    """The request of a ConversionReview. Raises ValueError."""
    review = _decode(body)
    if (review.api_version, review.kind) != (API_VERSION, _KIND):
        raise ValueError(f"{review.kind} of {review.api_version} is no {_KIND} of {API_VERSION}")
    return review.request


def converted(uid: str, objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The ConversionReview with the converted objects."""
    return _answer({"uid": uid, "convertedObjects": objects, "result": {"status": "Success"}})


def failed(uid: str, message: str) -> dict[str, Any]:
    """The ConversionReview that says why an object can't be converted."""
    return _answer({"uid": uid, "convertedObjects": [], "result": {"status": "Failure", "message": message}})


def _answer(response: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": _KIND, "response": response}

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

from ssa_operator.operator.webhook_reviews import Reviews


class ConversionRequest(Struct, frozen=True, kw_only=True):
    """A request of the API server."""

    uid: str
    desired: str = msgspec.field(name="desiredAPIVersion")
    """The apiVersion of the answer's objects."""
    objects: list[dict[str, Any]]


REVIEWS = Reviews("apiextensions.k8s.io/v1", "ConversionReview", ConversionRequest)


def converted(uid: str, objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The ConversionReview with the converted objects."""
    return REVIEWS.answer({"uid": uid, "convertedObjects": objects, "result": {"status": "Success"}})


def failed(uid: str, message: str) -> dict[str, Any]:
    """The ConversionReview that says why an object can't be converted."""
    result = {"status": "Failure", "message": message}
    return REVIEWS.answer({"uid": uid, "convertedObjects": [], "result": result})

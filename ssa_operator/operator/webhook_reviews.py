"""The form of the reviews by which the API server asks a webhook, and of the answers.

Promises:
- A review of another kind or version is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

Request = TypeVar("Request")


class _Review(Struct, Generic[Request], frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Request


class Reviews(Generic[Request]):
    """The reviews of a kind and a version, with their type of requests."""

    def __init__(self, api_version: str, kind: str, request: type[Request]) -> None:
        self._api_version = api_version
        self._kind = kind
        self._decoder = msgspec.json.Decoder(_Review[request])  # type: ignore[valid-type]

    def read(self, body: bytes) -> Request:
        """The request of a review. Raises ValueError."""
        review = self._decoder.decode(body)
        if (review.api_version, review.kind) != (self._api_version, self._kind):
            raise ValueError(f"{review.kind} of {review.api_version} is no {self._kind} of {self._api_version}")
        return review.request

    def answer(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """The review that answers one."""
        return {"apiVersion": self._api_version, "kind": self._kind, "response": response}

"""What an API server refused, and whether asking again can help.

Promises:
- Every failed request is an `ApiError`; its text names the request and what the server said.
- `terminal` is decided here, once, by code and by message, and nowhere else.
- An error of a request about a Secret never carries the Secret's content: fields are named, values are not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.kube.api.redaction import redacted_cause, redacted_message

_TERMINAL_CODES = frozenset({400, 403, 405, 406, 413, 415, 422, 501})
# Server-side apply answers a body that breaks the schema with a 500: kubernetes/kubernetes#122480, #139253.
_TERMINAL_MESSAGES = (
    "failed to create typed patch object",
    "failed to convert new object",
    "error decoding from json",
)
_MISSING_VERSION = re.compile(r"request to convert CR (?:from|to) an invalid group/version: (\S+)")
_TERMINATING = "because it is being terminated"
_NO_SUCH_PATH = "404 page not found"


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One entry of `details.causes`: the field as the server spells it, the reason (`FieldValueInvalid`), the words."""

    field: str
    reason: str
    message: str


class _Cause(msgspec.Struct):
    field: str = ""
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] | None = None
    retry_after_seconds: float = 0


class _Status(msgspec.Struct):
    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusError:
    """What came back instead of an answer.

    `code` is the HTTP status, 0 where there was no response; `retry_after` is in seconds.
    """

    code: int
    reason: str = ""
    message: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after: float | None = None


class ApiError(Exception):
    """A request that failed.

    `request` is what was asked (`apply of Deployment default/web`); `refusal` what came back.
    """

    def __init__(self, request: str, refusal: StatusError) -> None:
        super().__init__(request, refusal)
        self.request = request
        self.refusal = refusal

    @property
    def code(self) -> int:
        return self.refusal.code

    @property
    def reason(self) -> str:
        return self.refusal.reason

    @property
    def message(self) -> str:
        return self.refusal.message

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        return self.refusal.causes

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait, None where it doesn't."""
        return self.refusal.retry_after

    @property
    def terminal(self) -> bool:
        """Whether the same request fails again until somebody changes something."""
        if self.namespace_terminating:
            return False
        return self.code in _TERMINAL_CODES or any(text in self.message for text in _TERMINAL_MESSAGES)

    @property
    def missing_version(self) -> str:
        """The version that managedFields name and the CRD no longer has, '' where that is not the matter
        (kubernetes/kubernetes#111937).
        """
        found = _MISSING_VERSION.search(self.message)
        return found[1] if found else ""

    @property
    def not_found(self) -> bool:
        """The object, its parent or its namespace is missing; not: the server doesn't know the resource."""
        return self.code == 404 and not self.unknown_resource

    @property
    def unknown_resource(self) -> bool:
        """The server serves no such resource, as after its CRD was removed: the answer is no Status object then."""
        return self.code == 404 and (
            self.reason != "NotFound" or "could not find the requested resource" in self.message
        )

    @property
    def conflict(self) -> bool:
        """A precondition (uid, resourceVersion) did not hold, or another manager owns a field."""
        return self.code == 409 and not self.already_exists

    @property
    def already_exists(self) -> bool:
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def gone(self) -> bool:
        """The resourceVersion or continue token has been compacted away: list again."""
        return self.code == 410 or self.reason in {"Expired", "Gone"}

    @property
    def invalid(self) -> bool:
        return self.code == 422

    @property
    def forbidden(self) -> bool:
        return self.code == 403 and not self.namespace_terminating

    @property
    def throttled(self) -> bool:
        return self.code == 429

    @property
    def namespace_terminating(self) -> bool:
        """The namespace is being deleted, so nothing can be created in it; passes with the namespace."""
        return self.code == 403 and (
            any(cause.reason == "NamespaceTerminating" for cause in self.causes) or _TERMINATING in self.message
        )

    @property
    def too_large_resource_version(self) -> bool:
        """This API server has not yet seen the resourceVersion that was asked for."""
        return self.code in {500, 504} and (
            any(cause.reason == "ResourceVersionTooLarge" for cause in self.causes)
            or "Too large resource version" in self.message
        )

    def __str__(self) -> str:
        label = f"{self.code} {self.reason}".strip() if self.code else self.reason
        return f"{self.request} failed ({label}): {self.message}"


class Unreachable(ApiError):  # noqa: N818 - the server is
    """No answer: the connection failed, broke or timed out. `sent` is whether the server may have seen the request."""

    def __init__(self, request: str, message: str, *, sent: bool) -> None:
        super().__init__(request, StatusError(code=0, reason="Unreachable", message=message))
        self.sent = sent


def refusal(
    code: int, body: bytes, *, retry_after: str = "", confidential: bool = False, redactor: Redactor = NO_SECRETS
) -> StatusError:
    """What an HTTP response other than 2xx, or the Status in a watch's ERROR event, says.

    `retry_after` is the header's value. Bodies that are no Status (proxies, unknown paths) are quoted, shortened. What
    is `confidential` is shown without the values in it, and so is what holds what `secrecy` knows.
    """

    def hidden(text: str) -> bool:
        return confidential or redactor.may_reveal(text)

    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        status = _Status()
    if status.kind != "Status":
        text = " ".join(body[:500].decode(errors="replace").split()) or "the answer was empty"
        message = (
            text if text == _NO_SUCH_PATH or not hidden(text) else "(the answer is not shown: it may hold the Secret)"
        )
        return StatusError(code=code, message=message, retry_after=_seconds(retry_after))
    details = status.details or _Details()
    causes = tuple(
        StatusCause(
            redactor.redact(cause.field),
            cause.reason,
            redacted_cause(cause.reason, cause.message) if hidden(cause.message) else cause.message,
        )
        for cause in details.causes or ()
    )
    message = status.message
    if hidden(message):
        message = redactor.redact(redacted_message(code, message, [(cause.field, cause.message) for cause in causes]))
    return StatusError(
        code=status.code or code,
        reason=status.reason,
        message=message,
        causes=causes,
        retry_after=_seconds(retry_after) or (details.retry_after_seconds or None),
    )


def _seconds(header: str) -> float | None:
    # The API server writes seconds; the header's other form, a date, comes only from proxies and is ignored.
    return float(header) if re.fullmatch(r"\d{1,6}", header) else None

"""The errors of requests, classified by the Status that the API server returns.

Promises:
- Every failed request raises an `ApiError`. Its text names the request and has the server's message, without values
  in the syntax of Go.
- `terminal` alone decides whether the same request fails again; it reads the code and the message.
- Every 403 that is not the authorizer's is a denial, whichever admission plugin sent it. So is the refusal of a port or
  an address that another Service has.
- A denial by a webhook or a policy says nothing about the object. Whatever its code and reason, it proves neither that
  the object exists nor that it doesn't, and no precondition failed.
- The text of an error about an object that is too large has the size of the request.
- An error of a request about a Secret, or about an object with a Secret's content, names fields and never quotes a
  value. If the stored object may hold such content, an error quotes values of the request's body only.
- If a server asks for a longer pause than the operator's longest backoff, the operator waits for that backoff.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ssa_operator.kube.api.backoff import BACKOFF_CAP
from ssa_operator.kube.api.redaction import (
    HIDDEN,
    cause_as_sent,
    known_field,
    redacted_cause,
    redacted_message,
    sent_body,
    without_go_values,
    without_webhook_path,
)
from ssa_operator.objects.json_codec import decoder
from ssa_operator.objects.secret_fields import NO_SECRET_FIELDS, VALUES, SecretFields

_TERMINAL_CODES = frozenset({400, 403, 405, 406, 413, 415, 422, 501})
# Server-side apply answers a body that breaks the schema with a 500: kubernetes/kubernetes#122480, #139253.
_TERMINAL_MESSAGES = (
    "failed to create typed patch object",
    "failed to convert new object",
    "error decoding from json",
)
_MISSING_VERSION = r"request to convert CR (?:from|to) an invalid group/version: (\S+)"
_NULL_MAPPING = 'must be of type object: "null"'
_FIELD_IN_MESSAGE = r': (\.[^\s:]+)(?=: )|unknown field "([^"]+)"'
"""`failed to create typed patch object (…): .spec.a: field not declared in schema`, and `strict decoding error: unknown
field "spec.a"`.
"""

_TERMINATING = "because it is being terminated"
_CRD_TERMINATING = "while custom resource definition is terminating"
# The admission plugin OwnerReferencesPermissionEnforcement discovers a new CRD up to half a minute late.
_UNDISCOVERED_OWNER = "cannot find RESTMapping for"
# Webhooks and policies choose the code of their denials.
_DENIED = (
    r'^admission webhook "[^"]*" denied the request|'
    r"is forbidden: ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request"
)
# A Service's port or address is another Service's, or still counts as one's that is gone (kubernetes/kubernetes#64466).
_ALLOCATED = r": provided (?:IP|port) is already allocated\b"
# What the API server writes if the authorizer denies a request, or the impersonation of an account:
# apiserver/pkg/endpoints/handlers/responsewriters/errors.go. Names are quoted as Go does.
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_UNAUTHORIZED = rf"^(?:[^\s\"]+ (?:{_QUOTED} )?is )?forbidden: User {_QUOTED} cannot "
# Of the API server (3 MiB of a request), of etcd (1.5 MiB of an object), and of the API server's gRPC client (2 MiB).
_TOO_LARGE = (
    r"^(?:Internal error occurred: )?(?:rpc error: code = \w+ desc = )?"
    r"(?:Request entity too large|etcdserver: request is too large|(?:grpc: )?trying to send message larger than max)"
)
_NO_SUCH_PATH = "404 page not found"


class StatusCause(Struct, frozen=True):
    """One entry of `details.causes`."""

    field: str
    """The path, as the server spells it."""

    reason: str
    """`FieldValueInvalid` and its like."""

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


_decode_status = decoder(_Status)


class ServerWords:
    """The API server's own words. They are used for decisions, and never shown."""

    __slots__ = ("causes", "message")

    def __init__(self, message: str, causes: tuple[StatusCause, ...]) -> None:
        self.message = message
        self.causes = causes

    def __repr__(self) -> str:
        return "ServerWords(...)"


class ErrorStatus(Struct, frozen=True, kw_only=True):
    """The Status of a failed request."""

    code: int
    """The HTTP status, 0 without a response."""

    reason: str = ""

    message: str = ""

    causes: tuple[StatusCause, ...] = ()

    retry_after: float | None = None
    """Seconds that the server asks to wait, BACKOFF_CAP at most; None if it doesn't."""

    denied: bool = False
    """Whether admission refuses the object: a quota, a webhook, a policy, or any other plugin."""

    words: ServerWords | None = None
    """The message and the causes before redaction, None if nothing was redacted."""


class ApiError(Exception):
    """A failed request: its name (`apply of Deployment default/web`) and the Status that the server returned."""

    def __init__(self, request: str, status: ErrorStatus) -> None:
        super().__init__(request, status)
        self.request = request
        self.status = status
        self.code, self.reason, self.message, self.causes = status.code, status.reason, status.message, status.causes
        self.retry_after = status.retry_after

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that it is about, in the API server's words."""
        causes = [cause.field for cause in self.causes if cause.field and not cause.field.startswith("<")]
        return tuple(causes or [one or other for one, other in re.findall(_FIELD_IN_MESSAGE, self.message)])

    @property
    def words(self) -> ServerWords:
        """The message and the causes, before redaction: for decisions, and never to be shown."""
        return self.status.words or ServerWords(self.message, self.causes)

    @property
    def denied(self) -> bool:
        """Whether admission refuses the object: a quota, a webhook, a policy, or any other plugin, or the allocation of
        a Service's port or address. Their decisions may change without an event: other objects free the quota or the
        port, or a Pod's ServiceAccount is created.
        """
        return self.status.denied and not self._refused_for_now

    @property
    def denied_by_policy(self) -> bool:
        """Whether it is a webhook or a ValidatingAdmissionPolicy that denies the object."""
        return re.search(_DENIED, self.words.message) is not None

    @property
    def terminal(self) -> bool:
        """Whether the same request fails again until the manifest or the cluster changes."""
        if self._refused_for_now:
            return False
        message = self.words.message
        return self.code in _TERMINAL_CODES or self.too_large or any(text in message for text in _TERMINAL_MESSAGES)

    @property
    def too_large(self) -> bool:
        """The request, or the object that would be stored, is larger than the API server or etcd takes."""
        return not self.status.denied and _is_too_large(self.code, self.words.message)

    @property
    def missing_version(self) -> str | None:
        """The version that managedFields name and the CRD no longer has, None if the request failed for another reason
        (kubernetes/kubernetes#111937).
        """
        found = re.search(_MISSING_VERSION, self.words.message)
        return found[1] if found else None

    @property
    def null_mappings(self) -> tuple[str, ...]:
        """The mappings of a custom resource that are null, as an apply makes them that removes all their fields
        (kubernetes/kubernetes#135841).
        """
        return tuple(cause.field for cause in self.words.causes if cause.message.endswith(_NULL_MAPPING))

    @property
    def not_found(self) -> bool:
        """The object, its parent or its namespace does not exist. The server serves the resource."""
        return self.code == 404 and not self.status.denied and not self.unknown_resource

    @property
    def unknown_resource(self) -> bool:
        """The server does not serve the resource, as after its CRD was deleted. It then answers without a Status."""
        return (
            self.code == 404
            and not self.status.denied
            and (self.reason != "NotFound" or "could not find the requested resource" in self.words.message)
        )

    @property
    def conflict(self) -> bool:
        """A precondition (uid, resourceVersion) failed, or another manager owns a field."""
        return self.code == 409 and not self.status.denied and not self.already_exists

    @property
    def already_exists(self) -> bool:
        return self.code == 409 and not self.status.denied and self.reason == "AlreadyExists"

    @property
    def gone(self) -> bool:
        """The server has compacted the resourceVersion or continue token: the caller has to list again."""
        return not self.status.denied and (self.code == 410 or self.reason in {"Expired", "Gone"})

    @property
    def invalid(self) -> bool:
        return self.code == 422

    @property
    def forbidden(self) -> bool:
        return self.code == 403 and not self._refused_for_now

    @property
    def _refused_for_now(self) -> bool:
        """Whether a 403 resolves by itself: no permission is missing."""
        return self.namespace_terminating or self.crd_terminating or self.undiscovered_owner

    @property
    def crd_terminating(self) -> bool:
        """The CRD of the object is being deleted, so the server creates no object of it. It ends with the CRD."""
        return self.code == 403 and _CRD_TERMINATING in self.words.message

    @property
    def undiscovered_owner(self) -> bool:
        """An admission plugin does not know the kind of an owner yet, because its CRD is new."""
        return self.code == 403 and _UNDISCOVERED_OWNER in self.words.message

    @property
    def throttled(self) -> bool:
        return self.code == 429 and not self.status.denied

    @property
    def namespace_terminating(self) -> bool:
        """The namespace is being deleted, so the server creates no object in it. It ends with the namespace."""
        return self.code == 403 and (
            any(cause.reason == "NamespaceTerminating" for cause in self.causes) or _TERMINATING in self.words.message
        )

    @property
    def too_large_resource_version(self) -> bool:
        """This API server has not yet seen the requested resourceVersion."""
        return self.code in {500, 504} and (
            any(cause.reason == "ResourceVersionTooLarge" for cause in self.causes)
            or "Too large resource version" in self.words.message
        )

    def __str__(self) -> str:
        label = f"{self.code} {self.reason}".strip() if self.code else self.reason
        return f"{self.request} failed ({label}): {self.message}"


class NotLeader(ApiError):  # noqa: N818 - as Unreachable
    """The operator did not send a write, because another replica may lead."""

    def __init__(self, request: str) -> None:
        super().__init__(request, ErrorStatus(code=0, reason="NotLeader", message="this replica does not lead"))


class InvalidPath(ApiError, ValueError):  # noqa: N818 - as Unreachable
    """The operator sent no request, because the name or namespace is not a valid path segment."""

    def __init__(self, subject: str, message: str) -> None:
        super().__init__(f"request for {subject}", ErrorStatus(code=0, reason="InvalidPath", message=message))

    @property
    def terminal(self) -> bool:
        return True


class Unreachable(ApiError):  # noqa: N818 - the server is
    """The connection failed, broke or timed out. `sent` is whether the server may have received the request;
    `untrusted` is whether its certificate can't be trusted.
    """

    def __init__(self, request: str, message: str, *, sent: bool, untrusted: bool = False) -> None:
        super().__init__(request, ErrorStatus(code=0, reason="Unreachable", message=message))
        self.sent = sent
        self.untrusted = untrusted


def read_error_status(
    code: int,
    body: bytes,
    *,
    retry_after: str = "",
    confidential: bool = False,
    secret: SecretFields = NO_SECRET_FIELDS,
    sent: bytes = b"",
    quotes_sent_only: bool = False,
) -> ErrorStatus:
    """The Status in an HTTP response other than 2xx, or in the ERROR event of a watch.

    `retry_after` is the header's value. A body that is not a Status (of a proxy, or of an unknown path) is quoted and
    shortened. Messages of a `confidential` request, and of one with a Secret's content in the fields `secret` of its
    object, quote no value: admission may copy content into any field. With `quotes_sent_only`, messages quote values of
    the request's body `sent` only. This depends only on the request, not on the text of a message.
    """
    hides, size = confidential or bool(secret), len(sent)
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        status = _Status()
    if status.kind != "Status":
        text = " ".join(body[:500].decode(errors="replace").split()) or "the answer was empty"
        message = "(the answer is not shown: it may hold the Secret)" if hides and text != _NO_SUCH_PATH else text
        message = _with_size(code, text, message, size)
        return ErrorStatus(code=code, message=message, retry_after=_seconds(retry_after), denied=_is_denial(code, text))
    details = status.details or _Details()
    said = tuple(StatusCause(cause.field, cause.reason, cause.message) for cause in details.causes or ())
    causes, message = said, without_webhook_path(status.message)
    if hides:
        fields, body_sent = VALUES if confidential else secret, sent_body(sent)
        causes = tuple(_redacted(cause, fields, body_sent) for cause in said)
        shown = [(cause.field, cause.message) for cause in causes]
        message = HIDDEN if secret.name_object else redacted_message(code, message, shown, fields)
    elif quotes_sent_only and said and re.search(_DENIED, message) is None:
        body_sent = sent_body(sent)
        causes = tuple(
            StatusCause(cause.field, cause.reason, cause_as_sent(cause.field, cause.message, body_sent))
            for cause in said
        )
        if causes != said:
            message = "; ".join(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
            hides = True
    message, whole = without_go_values(message), message
    return ErrorStatus(
        code=status.code or code,
        reason=status.reason,
        message=_with_size(status.code or code, status.message, message, size),
        causes=causes,
        retry_after=_seconds(retry_after) or (min(details.retry_after_seconds, BACKOFF_CAP) or None),
        denied=_is_denial(status.code or code, status.message),
        words=ServerWords(status.message, said) if hides or message != whole else None,
    )


def _is_denial(code: int, message: str) -> bool:
    if code == 422 and re.search(_ALLOCATED, message) is not None:
        return True
    return re.search(_DENIED, message) is not None or (code == 403 and re.match(_UNAUTHORIZED, message) is None)


def _is_too_large(code: int, message: str) -> bool:
    return code == 413 or (code >= 500 and re.match(_TOO_LARGE, message) is not None)


def _with_size(code: int, said: str, message: str, size: int) -> str:
    """The message; with the size of the request if the server said that it is too large."""
    if not size or not _is_too_large(code, said):
        return message
    return f"{message} (the request has {size} bytes; the stored object also has managedFields and defaults)"


def _redacted(cause: StatusCause, secret: SecretFields, sent: Mapping[str, Any]) -> StatusCause:
    field = known_field(secret.shown(cause.field), cause.reason, sent)
    return StatusCause(field, cause.reason, redacted_cause(cause.reason, cause.message))


def _seconds(header: str) -> float | None:
    # The API server writes seconds. Only proxies write the header's other form, a date; it is ignored.
    # client-go waits for any number of seconds. A proxy's wrong header must not stop the operator for hours.
    return min(float(header), BACKOFF_CAP) if re.fullmatch(r"[0-9]+", header) else None

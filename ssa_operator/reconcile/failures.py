"""Failures of single steps as outcomes.

Promises:
- A failure names the template line that wrote the refused field, if the API server's message names the field.
- Whether a failure is retryable follows from the error alone.
- A bug is logged with its traceback, without the contents of Secrets. The message names the type of the error only,
  because Python's messages quote values.
"""

from __future__ import annotations

import logging
import traceback

from msgspec.structs import replace

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.field_refusal import FieldRefusal, location_in
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.messages import sentence, shortened
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.child import Child, FailureReason, Result
from ssa_operator.reconcile.secrets.redacted_report import crash_text

log = logging.getLogger("ssa_operator")


def failed_outcome(
    step: Child,
    message: str,
    *,
    problem: FailureReason,
    retryable: bool = False,
    location: SourceLocation | None = None,
) -> Child:
    """The outcome of a failed step. `message` is a sentence that names the object."""
    return step.ended(
        Result.FAILED,
        live=step.live,
        message=message,
        problem=problem,
        retryable=retryable,
        location=location or step.location,
    )


def failed_request(step: Child, error: Exception, location: SourceLocation | None = None) -> Child:
    """The outcome of a step that met one of REQUEST_ERRORS, with the API server's message. A kind may still be served,
    and credentials be renewed.
    """
    outcome = failed_outcome(step, str(error), problem=FailureReason.APPLY_FAILED, retryable=True, location=location)
    if not isinstance(error, ApiError):
        return outcome
    retry_after = error.retry_after or 0.0
    return replace(outcome, retryable=not error.terminal, retry_after=retry_after, denied=error.denied)


def unexpected_failure(step: Child, error: Exception, *, reads_secrets: bool) -> Child:
    """The outcome of a step that met a bug, which is logged. It is retried."""
    what = f"a {step.identity.kind}" if reads_secrets else str(step.identity)
    log_bug(f"{what}: unexpected error", error, reads_secrets=reads_secrets)
    message = f"{step.identity} {bug_message(error)}"
    return failed_outcome(step, message, problem=FailureReason.APPLY_FAILED, retryable=True)


def log_bug(what: str, error: Exception, *, reads_secrets: bool) -> None:
    """Log a bug with its traceback; without its message, which may quote any value, where the render read Secrets."""
    if reads_secrets:
        frames = "".join(traceback.format_tb(error.__traceback__))
        log.error("%s\n%s%s", what, frames, crash_text(error, reads_secrets=True))
    else:
        log.error("%s", what, exc_info=error)


def bug_message(error: Exception) -> str:
    """What a user learns of a bug."""
    return f"can't be handled because of a bug in ssa-operator ({type(error).__name__}); its log has the traceback"


def location_of_error(manifest: Manifest, error: ApiError) -> SourceLocation | None:
    """The template line that wrote the first field in an error, None if it names none."""
    return location_in(manifest.document, error.fields, manifest.body)


def refusals_of(error: ApiError) -> list[FieldRefusal]:
    """The causes of a refusal, before redaction: for decisions, and never to be shown."""
    return [FieldRefusal(cause.field, cause.message) for cause in error.words.causes]


def causes_text(error: ApiError) -> str:
    """All causes in the API server's message, each without the diff that may follow, and cut if it is long."""
    causes = (f"{cause.field}: {cause.message.partition(chr(10))[0]}" for cause in error.causes)
    return sentence([shortened(cause, _CAUSE_LIMIT) for cause in causes])


_CAUSE_LIMIT = 300
"""Characters of one cause in the API server's message. It quotes values, and for a Job that is a whole pod template."""

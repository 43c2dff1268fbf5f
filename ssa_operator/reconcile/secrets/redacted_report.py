"""Remembers where the children of a parent hold contents of Secrets, and removes these from the inputs of a report.

Promises:
- What is hidden depends only on where the render put content, never on a text: a right guess looks like a wrong one.
- If content names an object, the name is not shown, and neither is a message that may contain it.
- If a child holds content, messages of other controllers about it are not shown, because they may quote it.
- The fields and conditions of the author's status template are not changed: `rendering` leaves out those that are made
  of content.
- Only the places of content are remembered, never the content: as long as the child exists, because the API server and
  other controllers may still quote a former value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.parents import Parent
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.messages import sentence
from ssa_operator.objects.render_result import Document, Rendered, StatusFields, Wait
from ssa_operator.objects.secret_fields import HIDDEN, NO_SECRETS, ParentSecrets, SecretFields
from ssa_operator.reconcile.child import Child, FailureReason, Result
from ssa_operator.reconcile.finalization.rules import Finalization
from ssa_operator.reconcile.status.report import Report, with_message

NOT_SHOWN = "(the message is not shown: a Secret's content is part of the manifest, and it may quote or name it)"


def redacted_outcomes(outcomes: Sequence[Child], secrets: ParentSecrets) -> tuple[Child, ...]:
    """The outcomes, or steps, as a report, its Events, messages and the log may show them."""
    if not (secrets.children or secrets.queries):
        return tuple(outcomes)
    return tuple(_outcome(outcome, secrets) for outcome in outcomes)


def redacted_finalization(finalization: Finalization, secrets: ParentSecrets) -> Finalization:
    """The finalization without the names of objects, where content may be among them."""
    if not secrets.name_objects:
        return finalization
    skipped = tuple(NOT_SHOWN for _ in finalization.skipped_hooks)
    return replace(finalization, awaited=finalization.awaited and NOT_SHOWN, skipped_hooks=skipped)


def redacted_error(error: Exception, secrets: ParentSecrets) -> str:
    """The message of a request that failed outside of the steps."""
    return f"{type(error).__name__} {NOT_SHOWN}" if secrets.name_objects else str(error)


def crash_text(error: Exception, *, reads_secrets: bool) -> str:
    """The text of a bug's exception, whose message may quote any value."""
    return f"{type(error).__name__} {NOT_SHOWN}" if reads_secrets else f"{type(error).__name__}: {error}"


def with_left_out(report: Report, left_out: Sequence[str]) -> Report:
    """The report whose message names the fields of the author's status template that were left out, because they would
    publish a Secret's content.
    """
    if not left_out:
        return report
    remarks = [f"status.{name} is left out, because it contains {HIDDEN[1:-1]}" for name in left_out]
    return with_message(report, sentence([report.verdict.message, *remarks]))


def _outcome(outcome: Child, secrets: ParentSecrets) -> Child:
    fields = secrets.of(outcome.identity)
    outcome = replace(outcome, hides_status=bool(fields), cause="" if fields else outcome.cause)
    if fields.name_object or fields.keys or fields.instruct or (secrets.name_objects and _may_name_others(outcome)):
        outcome = _without_messages(outcome)
    return replace(outcome, identity=secrets.shown(outcome.identity))


def _may_name_others(outcome: Child) -> bool:
    waits = bool(outcome.after or outcome.missing or outcome.awaited) or outcome.result is Result.WAITING
    loops = outcome.problem is FailureReason.DEPENDENCY_CYCLE or bool(outcome.feedback_loop)
    return outcome.manifest is None or waits or loops


def _without_messages(outcome: Child) -> Child:
    memory = outcome.memory
    return replace(
        outcome,
        reason=outcome.reason and NOT_SHOWN,
        why_kept=outcome.why_kept and NOT_SHOWN,
        awaited=tuple(replace(each, hidden=True) for each in outcome.awaited),
        after=(),
        missing=(),
        memory=memory if memory.refusal is None else replace(memory, refusal=None),
        conflict=outcome.conflict and NOT_SHOWN,
        feedback_loop=outcome.feedback_loop and NOT_SHOWN,
        message=outcome.message and NOT_SHOWN,
        warnings=tuple(NOT_SHOWN for _ in outcome.warnings),
    )


_SECRET = GroupKind("", "Secret")


def secrets_of(rendered: Rendered, parent: LiveObject, namespaced: Callable[[GroupKind], bool | None]) -> ParentSecrets:
    """What is known after one render; `namespaced` returns whether the objects of a kind are in namespaces."""
    found: dict[Identity, SecretFields] = {}
    results: list[Document | Wait] = [*rendered.documents, *rendered.waits]
    for each in results:
        if each.secret and each.identity is not None:
            identity = _placed(each.identity, parent, namespaced)
            found[identity] = found.get(identity, each.secret) | each.secret
    return ParentSecrets(
        children=found or NOTHING,
        queries=rendered.secret_queries,
        read=reads_secrets(rendered, parent),
        read_others=parent.identity.group_kind == _SECRET
        or any((each["metadata"].get("labels") or {}).get(PARENT_UID_LABEL) != parent.uid for each in rendered.secrets),
    )


def with_render(known: ParentSecrets, rendered: Rendered, parent: Parent, children: ChildInformers) -> ParentSecrets:
    """What is known after one more render."""
    if known == NO_SECRETS and not reads_secrets(rendered, parent.live):
        return known
    new = secrets_of(rendered, parent.live, children.namespaced)
    found = dict(new.children)
    for identity, fields in known.children.items():
        if identity in found or identity in children:
            found[identity] = fields | found.get(identity, fields)
    queries = rendered.secret_queries if rendered.secret_queries != known.queries else known.queries
    new = ParentSecrets(
        children=found or NOTHING,
        queries=queries,
        read=known.read or new.read,
        read_others=known.read_others or new.read_others,
    )
    return known if new == known else new


def reads_secrets(rendered: Rendered, parent: LiveObject) -> bool:
    """Whether a render read a Secret, which its parent may be, or generated a value."""
    return bool(rendered.secrets or rendered.generated_values or parent.identity.group_kind == _SECRET)


def with_status(known: ParentSecrets, own: StatusFields) -> ParentSecrets:
    """What is known after a render of the status template."""
    return replace(known, queries=known.queries | own.secret_queries, read=known.read or bool(own.secrets))


def _placed(identity: Identity, parent: LiveObject, namespaced: Callable[[GroupKind], bool | None]) -> Identity:
    if namespaced(identity.group_kind) is False:
        return replace(identity, namespace="")
    return identity if identity.namespace else replace(identity, namespace=parent.identity.namespace)

"""The step of each document and of each wait of a render, without regard to the others.

Promises:
- A document whose kind the cluster lacks, that breaks a rule, or whose object can't be read is refused alone, and the
  refusal names its template line.
- If values of a manifest were read from its object, the object is as it was then, so that the API server refuses to
  apply them if it has changed since.
"""

from __future__ import annotations

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.kinds import is_in_no_kubernetes, unknown_kind_hint
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest, ManifestError, Rules, group_kind, manifest
from ssa_operator.objects.render_result import Document, Wait
from ssa_operator.objects.shards import has_bucket_label
from ssa_operator.reconcile.adoption import follows_from_object
from ssa_operator.reconcile.child import Action, Child, FailureReason, refused_step
from ssa_operator.reconcile.decide import decide_step
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.refusals.known_refusals import recalled, without_kept


def step_for_document(observed: Observed, document: Document) -> Child:
    """The step of one document, without regard to other documents."""
    kind = observed.children.kinds.get(group_kind(document))
    provisional = identity_of(observed, document)
    if kind is None:
        missing = group_kind(document)
        hint = unknown_kind_hint(missing.group, missing.kind)
        reason = f"can't be applied: the cluster has no kind {missing}; {hint}"
        # A kind of a CRD, or of a newer Kubernetes, may still come.
        lasting = is_in_no_kubernetes(missing.group, missing.kind)
        problem = FailureReason.INVALID_MANIFEST if lasting else FailureReason.APPLY_FAILED
        step = refused_step(provisional, reason, document, problem)
        return replace(step, location=document.location_of(("apiVersion" if hint.startswith("it is in") else "kind",)))
    rules = Rules(
        namespaced=kind.namespaced,
        cluster_scope=observed.settings.cluster_scope,
        bucket_label=_gets_bucket_label(observed, provisional),
        why_kept=observed.why_kept(provisional),
    )
    try:
        made = manifest(document, observed.parent, rules)
    except ManifestError as error:
        return refused_step(provisional, str(error), document)
    watch = kind.within(made.identity.namespace)
    if watch.problem:
        refused = refused_step(made.identity, watch.problem, document, FailureReason.APPLY_FAILED)
        return replace(refused, needs_permission=watch.needs_permission)
    if made.identity in observed.children.unreadable:
        why = f"may exist already, and can't be read: {observed.children.unreadable[made.identity]}"
        return refused_step(made.identity, why, document, FailureReason.APPLY_FAILED)
    live, memory = _live(observed, made), observed.memory.of(made.identity)
    if (known := memory.refusal) is not None:
        known = recalled(known, made, live, resyncs=observed.applies_all)
        memory = replace(memory, refusal=known)
    step = Child(
        action=Action.APPLY,
        identity=made.identity,
        manifest=made if known is None else without_kept(made, known.kept),
        live=live,
        location=document.location,
        memory=memory,
        replicas=observed.records.replicas.get(made.identity),
        reports_status=kind.reports_status,
        why_kept=made.why_kept,
        is_above=observed.is_above(made.identity),
    )
    if not watch.synced:
        return replace(step, action=Action.WAIT, reason=f"waits: the watch of {group_kind(document)} is not synced yet")
    return decide_step(observed, step)


def _live(observed: Observed, made: Manifest) -> LiveObject | None:
    """The object of a manifest. If values of the manifest were read from the object, it is as it was then, so that the
    API server refuses to apply them if it has changed since.
    """
    children = observed.children
    if made.identity in children.as_rendered and follows_from_object(made):
        return children.as_rendered[made.identity]
    return children.get(made.identity)


def _gets_bucket_label(observed: Observed, identity: Identity) -> bool:
    """Whether a manifest gets the label with its parent's bucket: under `--shard`, and where its object has the label
    already. So an operator without `--shard`, a diff and an apply leave the labels of shards alone.
    """
    live = observed.children.objects.get(identity)
    return observed.sharded or (live is not None and has_bucket_label(live.metadata.labels, observed.parent.uid))


def step_for_wait(observed: Observed, wait: Wait, identity: Identity) -> Child:
    """The step of a document that can't be rendered yet."""
    known = observed.children.kinds.get(identity.group_kind)
    if known is not None and not known.namespaced:
        identity = replace(identity, namespace="")
    elif not identity.namespace:
        identity = replace(identity, namespace=observed.parent.identity.namespace)
    live = observed.children.objects.get(identity)
    return Child(
        action=Action.WAIT,
        identity=identity,
        reason=str(wait),
        live=live,
        location=wait.location,
        awaited=wait.awaited,
        ready_when=wait.ready_when,
    )


def identity_of(observed: Observed, document: Document) -> Identity:
    """The identity of a document, also of one that can't be applied."""
    kind = group_kind(document)
    metadata = document.body["metadata"]
    namespace = metadata.get("namespace") or observed.parent.identity.namespace
    known = observed.children.kinds.get(kind)
    return Identity(kind.group, kind.kind, namespace if known is None or known.namespaced else "", metadata["name"])

"""Adoption: objects that existed before the operator applies them.

Promises:
- The operator never touches an object that another controller owns.
- Unless the folder's settings allow it, a parent gets no object outside of its namespace that the operator did not
  create, so that authors of parents can't take objects of others by the parent's name.
- An adopted object loses the fields that only its former managers wrote: those of kubectl's client-side commands and of
  the managers that the folder names. Fields of all other managers stay, and so do fields that were written through a
  subresource.
- Before the first apply, one patch changes the owner of the fields, with the resourceVersion that was read as its
  precondition. If the process dies at any moment, the next process continues from there.

The patch is needed because an apply removes only fields that its manager owns (kubernetes/kubernetes#99003). client-go
does the same in util/csaupgrade.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.field_set import lacking, select, union, without_fields
from ssa_operator.objects.identity import Identity, split_api_version
from ssa_operator.objects.json_codec import decode_text, encode, mapping
from ssa_operator.objects.live_object import MANAGER, PARENT_UID_LABEL, LiveObject, OwnerReference
from ssa_operator.objects.managed_fields import (
    entry_owner,
    managed_entries,
    managed_fields_patch,
    with_managed_fields,
)
from ssa_operator.objects.manifest import Manifest, may_own
from ssa_operator.objects.parent_settings import AdoptPolicy
from ssa_operator.reconcile.child import Child, FailureReason
from ssa_operator.reconcile.observed import Observed

KUBECTL = frozenset({"kubectl-client-side-apply", "kubectl-create", "kubectl-replace"})
"""The managers that write whole manifests by Update: `kubectl apply`, `create` and `replace`. The others
(`kubectl-edit`, `kubectl-scale`, `kubectl-rollout`) change single fields on purpose: the operator doesn't adopt them.
"""

UNMANAGED = "before-first-apply"
"""The API server's name for the manager of all fields of an object that had no managers at its first apply. Controllers
wrote part of them (a claim's volumeName): only what `kubectl apply` recorded is its own.
"""


NAME_LABEL = "app.kubernetes.io/name"
"""The label that all objects of an installation have, with the value `ssa-operator`."""

_NEVER = "1"
"""A resourceVersion that no object has: etcd's revision begins at 1, and its first write is revision 2."""


def only_if_absent(manifest: Manifest) -> bytes:
    """The body of an apply that creates the object, and conflicts if the object exists. The API server checks a
    resourceVersion only if the object exists.
    """
    return _with_precondition(manifest, resourceVersion=_NEVER)


def only_to_known(manifest: Manifest, live: LiveObject) -> bytes:
    """The body of an apply to the object that was read. It conflicts if the manifest must not be applied to the present
    object: generated values, values that a template keeps, and the owners of a shared object were read from the
    earlier one; and an object that must be recorded on the parent before its creation must not be created from stale
    data.

    The API server checks a uid even if the object is absent, but a resourceVersion only if it exists.
    """
    if not depends_on_known(manifest):
        return manifest.encoded
    if manifest.shared is not None or follows_from_object(manifest):
        return _with_precondition(manifest, uid=live.uid, resourceVersion=live.resource_version)
    return _with_precondition(manifest, uid=live.uid)


def depends_on_known(manifest: Manifest) -> bool:
    """Whether a manifest must be applied only to the object that the operator knows."""
    return manifest.shared is not None or follows_from_object(manifest) or manifest.deleted_by_operator


def follows_from_object(manifest: Manifest) -> bool:
    """Whether values of a manifest were read from its own object."""
    return manifest.document.has_generated_values or manifest.document.reads_itself


def _with_precondition(manifest: Manifest, **fields: str) -> bytes:
    return encode({**manifest.body, "metadata": {**manifest.body["metadata"], **fields}})


def other_controller(live: LiveObject, parent: LiveObject) -> OwnerReference | None:
    """The controller of an object, unless it is the parent, or a former parent of the same name."""
    for owner in live.owner_references:
        if owner.controller and owner.uid != parent.uid and not _has_name_of(owner, live, parent.identity):
            return owner
    return None


def may_adopt(live: LiveObject, parent: LiveObject, policy: AdoptPolicy) -> bool:
    """Whether a parent may have an object: the operator applied it for a parent, or the policy allows its adoption.

    Even after another client removed its label, the managed fields show that the operator applied it. Objects of an
    installation of the operator are never adopted: a parent in its namespace could otherwise replace its Deployment.
    """
    if live.parent_uid or any(owner.uid == parent.uid for owner in live.owner_references):
        return True
    if live.metadata.labels.get(NAME_LABEL) == MANAGER:
        return False
    if live.owned_fields():
        return True
    match policy:
        case AdoptPolicy.ALWAYS:
            return True
        case AdoptPolicy.IN_NAMESPACE:
            return live.identity.namespace == parent.identity.namespace != ""
        case AdoptPolicy.NEVER:
            return False


def may_be_child(live: LiveObject, parent: LiveObject, recorded: Container[Identity], *, cluster_scope: bool) -> bool:
    """Whether an object with a parent's label may be its child. A client that may create objects in a namespace can
    give them any label, so an object outside of the parent's namespace is a child only where the folder's settings
    allow one (`cluster_scope`), or allowed it when the object was recorded.
    """
    return cluster_scope or may_own(parent.identity.namespace, live.identity.namespace) or live.identity in recorded


def belongs_to_former_parent(live: LiveObject, parent: LiveObject) -> bool:
    """Whether an object was created for a former parent of the same name: the garbage collector will delete it."""
    return was_left_by_former(live, parent.identity, parent.uid)


def was_left_by_former(live: LiveObject, parent: Identity, uid: str) -> bool:
    """Whether an object was created for a parent with this name and another uid."""
    return live.parent_uid not in ("", uid) and any(
        owner.controller and owner.uid == live.parent_uid and _has_name_of(owner, live, parent)
        for owner in live.owner_references
    )


def adopt_fields_patch(live: LiveObject, api_version: str, former: AbstractSet[str] = frozenset()) -> bytes | None:
    """The merge patch that makes the operator the manager of its former managers' fields; None without any.

    `former` names the managers whose Update and Apply entries are adopted, beside kubectl's Update entries.
    `api_version` is that of the manifest. Only entries of one version can be joined: that of the operator's own entry,
    otherwise the manifest's. Fields of entries in other versions have no manager afterwards, as in csaupgrade.
    """
    adopted, kept = _former_and_others(live, former)
    if not adopted:
        return None
    own = [entry for entry in kept if entry_owner(entry).is_operator]
    candidates = [*own, *sorted(adopted, key=lambda entry: entry.get("apiVersion") != api_version)]
    joined = [entry for entry in candidates if entry.get("apiVersion") == candidates[0].get("apiVersion")]
    fields = union([entry["fieldsV1"] for entry in joined])
    new_own = {**candidates[0], "manager": MANAGER, "operation": "Apply", "fieldsV1": fields}
    others = [entry for entry in kept if not entry_owner(entry).is_operator]
    return managed_fields_patch(live, [new_own, *others])


_OF_V2 = {f"autoscaling.alpha.kubernetes.io/{field}": field for field in ("behavior", "metrics")}
"""The annotations in which autoscaling/v1 shows the fields that only v2 has."""


def former_version_patch(before: LiveObject, after: LiveObject, manifest: Manifest) -> bytes | None:
    """The merge patch that removes what the operator owned in the version of an earlier manifest, and what an apply in
    a version without such fields leaves as annotations; None for nothing. What other managers own stays.
    """
    if before.own_api_version() in ("", manifest.api_version):
        return None
    entries = (each for each in after.managed_fields if each.operation != "Apply" or each.manager != MANAGER)
    others = b"".join(bytes(each.fields_v1) for each in entries)
    wanted = manifest.body["metadata"].get("annotations") or {}
    left = {
        name: None
        for name, field in _OF_V2.items()
        if name in after.metadata.annotations.keys() - wanted.keys() and f'"f:{field}"'.encode() not in others
    }
    return encode({"metadata": {"uid": after.uid, "annotations": left}}) if left else None


def with_patched_metadata(live: LiveObject, patch: bytes) -> LiveObject:
    """A live object after a patch of `adopt_fields_patch`."""
    return with_managed_fields(live, json.loads(patch)["metadata"]["managedFields"])


def without_former_fields(
    live: LiveObject, applied: LiveObject, manifest: Manifest, former: AbstractSet[str] = frozenset()
) -> LiveObject:
    """The answer of a dry run without the fields that only former managers of `live` own and that the manifest lacks: a
    real apply removes them, because the operator adopts them before it.
    """
    adopted, kept = _former_and_others(live, former)
    of_former, of_others = (union([entry["fieldsV1"] for entry in entries]) for entries in (adopted, kept))
    obsolete = lacking(of_former, manifest.body, of_others)
    return LiveObject.of(without_fields(applied.body, obsolete)) if obsolete else applied


def former_managers(live: LiveObject, former: AbstractSet[str] = frozenset()) -> tuple[str, ...]:
    """The managers whose fields the operator adopts with an object."""
    entries = managed_entries(live)
    names = [
        entry.get("manager", "") for entry in entries if not entry.get("subresource") and _is_former(entry, former)
    ]
    unmanaged = [UNMANAGED] if any(entry.get("manager") == UNMANAGED for entry in entries) else []
    return tuple(dict.fromkeys([*names, *unmanaged]))


def _former_and_others(live: LiveObject, former: AbstractSet[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The entries of an object's former managers, and those of all others."""
    adopted: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    for entry in managed_entries(live):
        if not entry.get("subresource") and _is_former(entry, former):
            adopted.append(entry)
        elif not entry.get("subresource") and entry.get("manager") == UNMANAGED:
            recorded, rest = select(entry["fieldsV1"], _last_applied(live))
            adopted += [{**entry, "fieldsV1": recorded}] if recorded else []
            kept += [{**entry, "fieldsV1": rest}] if rest else []
        else:
            kept.append(entry)
    return adopted, kept


def _has_name_of(owner: OwnerReference, live: LiveObject, parent: Identity) -> bool:
    """Whether an object's owner has the name of the parent: it is the parent, or a former parent."""
    named = (split_api_version(owner.api_version)[0], owner.kind, owner.name)
    return named == (parent.group, parent.kind, parent.name) and parent.namespace in ("", live.identity.namespace)


def _is_former(entry: Mapping[str, Any], former: AbstractSet[str]) -> bool:
    manager, operation = entry.get("manager"), entry.get("operation")
    return manager in former or (manager in KUBECTL and operation == "Update")


def _last_applied(live: LiveObject) -> Any:
    """The manifest that `kubectl apply` recorded in its annotation, with that annotation; empty without a record."""
    text = live.metadata.annotations.get(LAST_APPLIED)
    try:
        body = decode_text(text) if text else {}
    except ValueError:
        body = {}
    if not body or not isinstance(body, dict):
        return {}
    metadata = mapping(body.get("metadata"))
    annotations = {**mapping(metadata.get("annotations")), LAST_APPLIED: text}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


# Rows of the tables in reconcile.decide.


def was_left_by_former_parent(observed: Observed, step: Child) -> Child | None:
    """An object that is not applied each time, and that a former parent of this name left, is recreated."""
    parent = observed.parent
    if not belongs_to_former_parent(step.present, parent) or observed.why_kept(step.present.identity):
        return None
    # Its owner is gone for certain, because the parent has its name: the garbage collector deletes it sooner or later.
    return step.recreated(f"was left by a former {parent.identity}; it is recreated")


def is_controlled_by_other(observed: Observed, step: Child) -> Child | None:
    """Refuses a manifest whose object another controller controls."""
    controller = other_controller(step.present, observed.parent)
    if controller is None:
        return None
    who = f"{controller.kind} {controller.name}"
    why = f"is controlled by {who}; give it another name, or remove the owner reference to {who} from it"
    return step.refused(why, FailureReason.CONFLICT)


def is_not_adopted(observed: Observed, step: Child) -> Child | None:
    """Refuses a manifest whose object the folder's setting `adopt` excludes."""
    live, parent = step.present, observed.parent
    if may_adopt(live, parent, observed.settings.adopt):
        return None
    why = (
        "exists, and the operator did not create it; give the manifest another name, or give the object the label "
        f"{PARENT_UID_LABEL}: {parent.uid}"
    )
    sufficient = (
        policy for policy in (AdoptPolicy.IN_NAMESPACE, AdoptPolicy.ALWAYS) if may_adopt(live, parent, policy)
    )
    if needed := next(sufficient, None):
        why += f", or set `adopt: {needed}` in the folder's _settings.yaml"
    return step.refused(why, FailureReason.CONFLICT)

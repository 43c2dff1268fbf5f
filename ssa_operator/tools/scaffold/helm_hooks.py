"""Turns Helm's hooks and policies into instructions for the operator.

Promises:
- A hook of deletions runs when the parent is being deleted; a Job of installations runs once in the parent's life.
- Jobs run in the order of their weights. Jobs before an installation come before the workloads, those after it come
  after them.
- Hooks of tests, upgrades and rollbacks are left out: the operator has no such events.
- A Job that Kubernetes deletes after it finished is not run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.tools.scaffold.notes import Notes

HELM = ("helm.sh/", "meta.helm.sh/")
"""How Helm's annotations begin."""

_HOOK, _WEIGHT, _POLICY = "helm.sh/hook", "helm.sh/hook-weight", "helm.sh/resource-policy"
_INSTALL = ("pre-install", "post-install", "crd-install")
_DELETE = ("pre-delete", "post-delete")
_RUNS = ("Job", "Pod")
_WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")


def without_event(body: Mapping[str, Any]) -> str | None:
    """Why a hook is left out, None for all other manifests."""
    events = _events(body)
    if not events or any(each in (*_INSTALL, *_DELETE) for each in events):
        return None
    if any(each.startswith("test") for each in events):
        return "it is a test of Helm"
    return f"it is a hook of Helm for {' and '.join(events)}, and the operator has no such event"


def replace_hooks(bodies: Sequence[dict[str, Any]], notes: Notes) -> None:
    """Replace Helm's annotations by those of the operator."""
    first, last = (_jobs(bodies, event) for event in ("pre-install", "post-install"))
    workloads = [body for body in bodies if body["kind"] in _WORKLOADS and not _events(body)]
    for body in bodies:
        after: list[dict[str, Any]] = []
        if body in workloads and first:
            after = _of_weight(first, max(map(_weight, first)))
        for jobs in (first, last):
            lower = [each for each in jobs if _weight(each) < _weight(body)]
            if body in jobs and lower:
                after += _of_weight(lower, max(map(_weight, lower)))
        if body in last and not after:
            after = workloads
        _instruct(body, after, notes)
    for body in bodies:
        _remove(body, notes)


def _annotations(body: Mapping[str, Any]) -> dict[str, Any]:
    return body["metadata"].get("annotations") or {}


def _events(body: Mapping[str, Any]) -> list[str]:
    hook = str(_annotations(body).get(_HOOK, ""))
    return [each.strip().lower() for each in hook.split(",") if each.strip()]  # as Helm reads it


def _weight(body: Mapping[str, Any]) -> int:
    text = str(_annotations(body).get(_WEIGHT, "0"))
    return int(text) if text.lstrip("+-").isdecimal() else 0


def _jobs(bodies: Sequence[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [body for body in bodies if body["kind"] in _RUNS and event in _events(body)]


def _of_weight(bodies: Sequence[dict[str, Any]], weight: int) -> list[dict[str, Any]]:
    return [body for body in bodies if _weight(body) == weight]


def _instruct(body: dict[str, Any], after: Sequence[Mapping[str, Any]], notes: Notes) -> None:
    """Add the operator's annotations to a manifest."""
    events = _events(body)
    found: dict[str, str] = {}
    if events and not set(events) & {*_INSTALL}:
        found["on"] = "finalize"
        notes.add(f"a hook of deletions, which is applied when the object is being deleted ({PREFIX}on)", body)
    elif body["kind"] in _RUNS and events:
        found["apply"] = "Once"
        notes.add(f"a hook of installations, which runs once for each object ({PREFIX}apply)", body)
    elif events:
        notes.add("was a Helm hook, and is applied as any other manifest now", body)
    elif body["kind"] == "Job" and (body.get("spec") or {}).get("ttlSecondsAfterFinished") is not None:
        found["apply"] = "Once"
        notes.add(f"Kubernetes deletes it when it has finished, so it runs once for each object ({PREFIX}apply)", body)
    lost = [each for each in events if each in _DELETE] if "on" not in found else []
    if lost:
        notes.add(f"not applied by {' and '.join(lost)} any more: add a copy with {PREFIX}on: finalize", body)
    if after:
        found["after"] = ", ".join(f"{each['kind']}/{each['metadata']['name']}" for each in after)
    if _annotations(body).get(_POLICY) == "keep":
        found["prune"] = "false"
        notes.add(f'the policy keep of Helm: the object stays when its parent goes ({PREFIX}prune: "false")', body)
    if found:
        annotations = _annotations(body)
        body["metadata"]["annotations"] = {**annotations, **{f"{PREFIX}{key}": text for key, text in found.items()}}


def _remove(body: dict[str, Any], notes: Notes) -> None:
    """Remove Helm's annotations."""
    annotations = _annotations(body)
    removed = [key for key in annotations if key.startswith(HELM)]
    for key in removed:
        del annotations[key]
    if removed:
        notes.add(f"without the annotations of Helm ({', '.join(sorted(removed))})", body)
    if not annotations:
        body["metadata"].pop("annotations", None)

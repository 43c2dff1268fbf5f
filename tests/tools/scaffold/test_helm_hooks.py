"""Helm's hooks and policies become instructions for the operator."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.tools.scaffold.laws import differences, made
from tests.tools.scaffold.shapes import of, pods

RUN = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}


def job(name: str, hook: str = "", weight: str = "0", kind: str = "Job", **spec: Any) -> dict[str, Any]:
    annotations = {"helm.sh/hook": hook, "helm.sh/hook-weight": weight, "own": "x"} if hook else {}
    body = of("batch/v1", kind, name, spec={"template": {"spec": RUN}, **spec})
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}} if annotations else body


SET = [
    job("rel-migrate", "pre-install,pre-upgrade", "5"),
    job("rel-prepare", "pre-install", "-5"),
    job("rel-seed", "post-install"),
    job("rel-clean", "pre-delete"),
    job("rel-purge", "Pre-Delete, pre-upgrade"),
    job("rel-convert", "post-upgrade"),
    job("rel-test", "test"),
    job("rel-report", ttlSecondsAfterFinished=60),
    pods({"app": "rel"}),
    of("v1", "PersistentVolumeClaim", "rel-data", metadata={"annotations": {"helm.sh/resource-policy": "keep"}}),
]


def instructions(name: str) -> dict[str, str]:
    """The annotations that the template of a manifest has."""
    texts = made(*SET, instance="rel").templates.values()
    bodies = [yaml.safe_load(re.sub(r"\{\{.*?\}\}", "rel", text)) for text in texts if "clusterScope" not in text]
    (found,) = (body["metadata"] for body in bodies if body["metadata"]["name"] == name)
    annotations: dict[str, str] = found.get("annotations", {})
    return {key.removeprefix("ssa-operator.dev/"): text for key, text in annotations.items()}


def test_hooks_of_installations_run_once_in_the_order_of_their_weights() -> None:
    assert instructions("rel-prepare") == {"own": "x", "apply": "Once"}
    assert instructions("rel-migrate") == {"own": "x", "apply": "Once", "after": "Job/rel-prepare"}
    assert instructions("rel-web") == {"after": "Job/rel-migrate"}
    assert instructions("rel-seed") == {"own": "x", "apply": "Once", "after": "Deployment/rel-web"}


def test_hooks_of_deletions_are_applied_when_the_parent_is_deleted() -> None:
    for name in ("rel-clean", "rel-purge"):
        assert instructions(name) == {"own": "x", "on": "finalize"}


def test_a_job_with_a_ttl_runs_once_and_what_helm_keeps_is_kept() -> None:
    assert instructions("rel-report") == {"apply": "Once"}
    assert instructions("rel-data") == {"prune": "false"}


def test_hooks_without_an_event_of_the_operator_are_left_out_and_all_is_noted() -> None:
    found = made(*SET, instance="rel")
    notes = "\n".join(found.notes)
    assert "Job rel-convert is left out: it is a hook of Helm for post-upgrade, and the operator has no such" in notes
    assert "Job rel-test is left out: it is a test of Helm" in notes
    both = "\n".join(made(job("rel-both", "post-install,pre-delete"), instance="rel").notes)
    assert "Job rel-both: not applied by pre-delete any more: add a copy with ssa-operator.dev/on: finalize" in both
    assert "Job rel-migrate, rel-prepare, rel-seed: a hook of installations, which runs once" in notes
    assert differences(SET, found) == []
